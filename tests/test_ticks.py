"""The program's own cycle is found in every usual form of it, counted on the right thread, and given back."""

from __future__ import annotations

import inspect
import pickle
import sys
import threading
import time
import traceback
import types
import weakref
from pathlib import Path
from typing import Any

import pytest
from run_fakes import report_of

from tenure.explain import ticks
from tenure.explain.counting import (
    FunctionCounter,
    LineCounter,
    countable,
    functions_of,
    functions_of_by_heap,
    is_trampoline,
)
from tenure.explain.ticks import COMPILED_AFTER, TickSource, tick

pytestmark = pytest.mark.slow

WAIT = "import time\n"


class Told:
    """A listener that remembers."""

    def __init__(self) -> None:
        self.unit: str | None = None
        self.function: str | None = None
        self.count = 0
        self.epochs: list[int] = []
        self.threads: set[int] = set()

    def epoch(self, batches: int) -> None:
        self.epochs.append(batches)

    def set_ticks(self, unit: str, function: str | None) -> None:
        self.unit, self.function, self.count = unit, function, 0

    def tick(self, turns: int = 1) -> int:
        self.count += turns
        self.threads.add(threading.get_ident())
        return 1


# --- counting one function -----------------------------------------------------------------------------------------


def every_kind(a: int, /, b: int = 2, *c: int, d: int, e: int = 5, **f: int) -> tuple[object, ...]:
    """Has each kind of parameter."""
    return a, b, c, d, e, f


def test_a_counted_function_looks_and_answers_the_same() -> None:
    turns: list[int] = []
    signature, source, code = inspect.signature(every_kind), inspect.getsource(every_kind), every_kind.__code__
    reference = every_kind
    counter = FunctionCounter(functions_of(code, globals()), lambda: turns.append(1))
    assert every_kind(1, d=4) == (1, 2, (), 4, 5, {})
    assert reference(1, 3, 7, d=4, e=6, z=9) == (1, 3, (7,), 4, 6, {"z": 9})
    assert len(turns) == 2
    assert inspect.signature(every_kind) == signature
    assert inspect.getsource(every_kind) == source
    assert pickle.loads(pickle.dumps(every_kind)) is every_kind
    counter.remove()
    assert every_kind.__code__ is code
    every_kind(1, d=4)
    assert len(turns) == 2


def test_recursion_counts_the_outermost_call() -> None:
    turns: list[int] = []

    def down(n: int) -> int:
        return n and 1 + down(n - 1)

    FunctionCounter([down], lambda: turns.append(1))
    assert down(5) == 5
    assert down(3) == 3
    assert len(turns) == 2


def test_an_exception_passes_and_its_turn_is_told_with_the_next_call() -> None:
    turns: list[int] = []

    def fails(n: int) -> int:
        return 1 // n

    FunctionCounter([fails], lambda: turns.append(1))
    with pytest.raises(ZeroDivisionError) as caught:
        fails(0)
    if sys.version_info >= (3, 11):
        assert [f.name for f in traceback.extract_tb(caught.tb)][1:] == ["fails"]
    assert turns == []
    assert fails(1) == 1
    assert len(turns) == 2


def test_the_body_and_its_arguments_are_dead_when_the_turn_is_told() -> None:
    class Thing:
        pass

    born: list[weakref.ref[Thing]] = []
    alive: list[bool] = []

    def turn(argument: Thing) -> int:
        local = Thing()
        born.extend((weakref.ref(local), weakref.ref(argument)))
        return 1

    FunctionCounter([turn], lambda: alive.extend(r() is not None for r in born))
    turn(Thing())
    assert alive[0] is False
    if sys.version_info >= (3, 11):  # 3.10 keeps arguments on its caller's stack until the call is over
        assert alive[1] is False


def test_methods_closures_and_super_keep_working() -> None:
    turns: list[int] = []

    class Base:
        def step(self) -> str:
            return "base"

    class Child(Base):
        def step(self) -> str:
            return "child of " + super().step()

    FunctionCounter(functions_of(Child.step.__code__, {"Child": Child}), lambda: turns.append(1))
    assert Child().step() == "child of base"
    kept = {"n": 1}

    def closed(x: int) -> int:
        return kept["n"] + x

    FunctionCounter(functions_of_by_heap(closed.__code__), lambda: turns.append(1))
    assert closed(2) == 3
    assert len(turns) == 2


def test_generators_modules_and_classes_are_no_turns() -> None:
    def generator() -> object:
        yield 1

    module = compile("class A:\n x = [i for i in (1,)]\n", "x", "exec")
    inner = next(c for c in module.co_consts if isinstance(c, types.CodeType))
    assert not countable(generator.__code__)
    assert not countable(module)
    assert not countable(inner)
    assert countable(Told.tick.__code__)


@pytest.mark.skipif(sys.version_info < (3, 12), reason="lines are counted with sys.monitoring")
def test_a_line_is_counted_and_the_tool_is_given_back() -> None:
    turns: list[int] = []

    def loop() -> int:
        x = 0
        for i in range(5):
            x = sum([x, i])
        return x

    counter = LineCounter(loop.__code__, loop.__code__.co_firstlineno + 3, lambda: turns.append(1))
    assert counter.installed
    assert loop() == 10
    assert len(turns) == 5
    counter.remove()
    loop()
    assert len(turns) == 5


# --- explicit ticks, and what a listener may do --------------------------------------------------------------------


def test_explicit_ticks_reach_the_listener_on_their_thread_and_end_with_the_source() -> None:
    told = Told()
    source = TickSource(told)
    tick()
    source.start()
    for _ in range(3):
        tick()
    source.stop()
    tick()
    assert (told.unit, told.function, told.count) == ("tick", None, 3)
    assert told.threads == {threading.get_ident()}
    assert source.describe() == ("tick", None)


def test_turns_that_need_not_be_told_are_told_later_all_of_them(monkeypatch: pytest.MonkeyPatch) -> None:
    class Patient(Told):
        def __init__(self) -> None:
            super().__init__()
            self.turns: list[int] = []

        def tick(self, turns: int = 1) -> int:
            self.turns.append(turns)
            return min(super().tick(turns) * 4, 4)

    now = [100.0]
    monkeypatch.setattr(ticks, "_monotonic", lambda: now[0])
    told = Patient()
    source = TickSource(told)
    source.start()
    for _ in range(10):
        tick()
    assert told.turns == [1, 4, 4]
    now[0] += 1  # a slow turn is told at once
    tick()
    tick()
    source.stop()
    assert (told.turns, told.count) == ([1, 4, 4, 2, 1], 12)


def test_a_sampler_that_another_thread_has_woken_ends_all_the_same() -> None:
    source = TickSource(Told())
    source.start()
    source._wake = threading.Lock()  # released already
    source.stop()
    assert not source._sampler_runs


def test_a_failing_listener_is_noted_and_does_not_reach_the_program() -> None:
    class Fails(Told):
        def tick(self, turns: int = 1) -> int:
            raise RuntimeError("broken")

    source = TickSource(Fails())
    source.start()
    tick()
    source.stop()
    assert [m.why for m in source.missing] == ["RuntimeError: broken"]


def test_keras_batches_epochs_and_fits() -> None:
    told = Told()
    source = TickSource(told)
    source.start()

    def fit(epochs: int, batches: int) -> None:
        source.keras("fit", "enter", None)
        for _ in range(epochs):
            for _ in range(batches):
                source.keras("train-batch", "tick", None)
            source.keras("epoch", "tick", None)
        source.keras("fit", "leave", None)

    fit(2, 10)
    assert (told.unit, told.count) == ("batch", 20)
    assert told.epochs == [10, 10]
    fit(1, 10)
    fit(1, 10)
    assert (told.unit, told.function) == ("call", "fit")
    assert told.count == 2
    source.stop()


def test_epochs_of_few_batches_are_the_turn() -> None:
    told = Told()
    source = TickSource(told)
    source.start()
    source.keras("fit", "enter", None)
    for _ in range(6):
        for _ in range(2):
            source.keras("train-batch", "tick", None)
        source.keras("epoch", "tick", None)
    source.stop()
    assert (told.unit, told.count) == ("epoch", 6)


def test_tapes_of_one_line_are_steps() -> None:
    told = Told()
    source = TickSource(told)
    source.start()
    source._leave_functions()  # told by hand here
    here = compile("def with_tape():\n    told(None)\ndef another():\n    told(None)\n", "train.py", "exec")
    lines: dict[str, Any] = {"told": source.tape}
    exec(here, lines)
    lines["another"]()
    lines["with_tape"]()
    time.sleep(COMPILED_AFTER)
    for _ in range(20):
        lines["with_tape"]()
    lines["another"]()
    source.stop()
    assert (told.unit, told.function, told.count) == ("step", None, 18)  # from the fourth on


def test_tapes_inside_fit_are_no_steps() -> None:
    told = Told()
    source = TickSource(told)
    source.start()
    source.keras("fit", "enter", None)
    for _ in range(5):
        source.tape(None)
    source.keras("fit", "leave", None)
    source.stop()
    assert told.count == 0


def test_seconds_are_those_that_have_passed(monkeypatch: pytest.MonkeyPatch) -> None:
    """The main thread is reached only between instructions of the user's own: seconds are counted, not its visits."""
    now = [100.0]
    monkeypatch.setattr(ticks, "_monotonic", lambda: now[0])
    monkeypatch.setattr(TickSource, "_launch_sampler", lambda self: None)
    told = Told()
    source = TickSource(told)
    source.start()
    source._second(sys._getframe())
    for passed in (0.4, 3.7, 1.1):
        now[0] += passed
        source._second(sys._getframe())
    source.stop()
    assert (told.unit, told.count) == ("second", 1 + 5)


# --- finding the cycle of whole programs ---------------------------------------------------------------------------

FORMS = {
    "called from main": (
        "def cycle(i):\n    time.sleep(0.004)\ndef main():\n    for i in range(80):\n        cycle(i)\nmain()\n",
        "train.cycle",
        80,
    ),
    "at module level": ("def step():\n    time.sleep(0.004)\nfor _ in range(80):\n    step()\n", "train.step", 80),
    "method of a class": (
        "class Trainer:\n    def step(self):\n        time.sleep(0.004)\n    def train(self):\n"
        "        for _ in range(80):\n            self.step()\nTrainer().train()\n",
        "train.Trainer.step" if sys.version_info >= (3, 11) else "train.step",
        80,
    ),
    "driven by a generator": (
        "def batches():\n    for i in range(80):\n        yield i\ndef step(b):\n    time.sleep(0.004)\n"
        "def main():\n    for b in batches():\n        step(b)\nmain()\n",
        "train.step",
        80,
    ),
    "inside a generator": (
        "def step():\n    time.sleep(0.004)\ndef training():\n    for i in range(80):\n        step()\n"
        "        yield i\nfor _ in training():\n    pass\n",
        "train.step",
        80,
    ),
    "nested function": (
        "def main():\n    n = 0\n    def step():\n        nonlocal n\n        n += 1\n        time.sleep(0.004)\n"
        "    for _ in range(80):\n        step()\nmain()\n",
        "train.main.step" if sys.version_info >= (3, 11) else "train.step",
        80,
    ),
    "while with break": (
        "def turn(i):\n    time.sleep(0.004)\n    return i > 78\ni = 0\nwhile True:\n    if turn(i):\n        break\n"
        "    i += 1\n",
        "train.turn",
        80,
    ),
    "asyncio task": (
        "import asyncio\nasync def handle(i):\n    await asyncio.sleep(0.003)\n    time.sleep(0.003)\n"
        "async def serve():\n    for i in range(80):\n        await handle(i)\nasyncio.run(serve())\n",
        "train.handle",
        80,
    ),
    "worker thread": (
        "import threading\ndef job(i):\n    time.sleep(0.008)\ndef work():\n    for i in range(120):\n        job(i)\n"
        "t = threading.Thread(target=work)\nt.start()\nt.join()\n",
        "train.job",
        120,
    ),
    "thread pool": (
        "from concurrent.futures import ThreadPoolExecutor\ndef job(i):\n    time.sleep(0.01)\n"
        "with ThreadPoolExecutor(1) as pool:\n    list(pool.map(job, range(120)))\n",
        "train.job",
        120,
    ),
    "decorated": (
        "import functools\ndef timed(f):\n    @functools.wraps(f)\n    def inner(*a):\n"
        "        return f(*a)\n    return inner\n"
        "@timed\ndef step(i):\n    time.sleep(0.004)\nfor i in range(80):\n    step(i)\n",
        "train.timed.inner" if sys.version_info >= (3, 11) else "train.inner",
        80,
    ),
    "list comprehension": ("def step(i):\n    time.sleep(0.004)\n[step(i) for i in range(80)]\n", "train.step", 80),
    "fails now and then": (
        "def step(i):\n    time.sleep(0.004)\n    if i % 3 == 0:\n        raise ValueError(i)\nfor i in range(80):\n"
        "    try:\n        step(i)\n    except ValueError:\n        pass\n",
        "train.step",
        80,
    ),
    "outermost of two loops": (
        "def step():\n    time.sleep(0.002)\ndef epoch():\n    for _ in range(6):\n        step()\n"
        "for _ in range(40):\n    epoch()\n",
        "train.epoch",
        40,
    ),
    "after a loop that prepares": (
        "def load(i):\n    time.sleep(0.01)\ndef step(i):\n    time.sleep(0.004)\ndef prepare():\n"
        "    for i in range(5):\n        load(i)\nprepare()\nfor i in range(80):\n    step(i)\n",
        "train.step",
        80,
    ),
}


@pytest.mark.parametrize("form", FORMS)
def test_the_cycle_is_found(form: str, tmp_path: Path) -> None:
    program, function, turns = FORMS[form]
    ticks = report_of(WAIT + program, tmp_path)["ticks"]
    assert ticks["function"] == function
    assert ticks["unit"] == "call"
    assert turns * 0.5 <= ticks["count"] <= turns  # the first are over before it is found


def test_a_function_of_an_imported_module(tmp_path: Path) -> None:
    (tmp_path / "lib").mkdir()
    (tmp_path / "lib" / "__init__.py").write_text("import time\ndef step(i):\n    time.sleep(0.004)\n")
    ticks = report_of("import lib\nfor i in range(80):\n    lib.step(i)\n", tmp_path)["ticks"]
    assert ticks["function"] == "lib.step"
    assert ticks["count"] >= 40


def test_the_named_function_wins(tmp_path: Path) -> None:
    program = "def inner():\n    time.sleep(0.01)\ndef outer():\n    inner()\nfor _ in range(30):\n    outer()\n"
    ticks = report_of(WAIT + program, tmp_path, options=("--tick", "train:inner"))["ticks"]
    assert ticks["function"] == "train.inner"
    assert 25 <= ticks["count"] <= 30


@pytest.mark.parametrize("name", ["__main__:inner", "train:inner", "train:Loop.turn", "train:loop.turn"])
def test_a_named_function_of_the_script(name: str, tmp_path: Path) -> None:
    program = "def inner():\n    time.sleep(0.005)\nclass Loop:\n    def turn(self):\n        inner()\nloop = Loop()\n"
    program += "for _ in range(60):\n    loop.turn()\n"
    ticks = report_of(WAIT + program, tmp_path, options=("--tick", name))["ticks"]
    assert ticks["function"] == f"train.{name.partition(':')[2]}"
    assert 50 <= ticks["count"] <= 60


@pytest.mark.parametrize(
    ("name", "why"),
    [
        ("train:nothing", "the module train has no function nothing"),
        ("train:never", "no call of it has ended while tenure counted"),
        ("train:turns", "that is no function but a generator"),
        ("train:items", "that is no function but a list"),
        ("model:step", "the program never imported a module model; use __main__:step for a function of the script"),
    ],
)
def test_a_named_function_that_gives_no_tick_is_why_there_is_no_verdict(name: str, why: str, tmp_path: Path) -> None:
    program = "import time\nitems = []\ndef never(): pass\ndef turns(): yield 1\ntime.sleep(0.1)\nlist(turns())\n"
    report = report_of(program, tmp_path, options=("--tick", name))
    assert report["verdict"] == "inconclusive"
    assert report["why"].startswith(f"--tick {name}: {why}")
    assert report["ticks"]["count"] == 0
    assert [m["why"] for m in report["missing"] if m["figure"] == "ticks"] == [report["why"]]


@pytest.mark.tf
@pytest.mark.parametrize("name", ["train:step", "train:Trainer.step", "train:trainer.step"])
def test_a_named_tf_function(name: str, tmp_path: Path) -> None:
    program = (
        "import time\nimport tensorflow as tf\n"
        "@tf.function\ndef step(x):\n    return x + 1\n"
        "class Trainer:\n    @tf.function\n    def step(self, x):\n        return x + 1\n"
        "trainer = Trainer()\ntime.sleep(0.5)\n"
        "for i in range(30):\n    trainer.step(tf.constant(i))\n    step(tf.constant(i))\n    step(tf.constant(i))\n"
    )
    ticks = report_of(program, tmp_path, options=("--tick", name))["ticks"]
    assert ticks["function"] == f"train.{name.partition(':')[2]}"
    assert ticks["count"] == (60 if name == "train:step" else 30)


def test_explicit_ticks_win_over_the_function(tmp_path: Path) -> None:
    program = (
        "import time, tenure\ndef step():\n    time.sleep(0.005)\nfor i in range(60):\n    step()\n"
        "    if i % 2:\n        tenure.tick()\n"
    )
    ticks = report_of(program, tmp_path)["ticks"]
    assert ticks == {"unit": "tick", "function": None, "count": 30, "warmup": ticks["warmup"]}


def test_a_loop_without_calls_is_counted_in_seconds(tmp_path: Path) -> None:
    program = "import time\nend = time.monotonic() + 5.5\nx = 0\nwhile time.monotonic() < end:\n    x = x * 2 % 7 + 1\n"
    ticks = report_of(program, tmp_path)["ticks"]
    assert ticks["unit"] in ("second", "step")
    assert ticks["count"] >= 2


def test_a_failing_tick_leaves_the_program_alone(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("FAKE_TICK_FAILS", "1")
    report = report_of(WAIT + FORMS["called from main"][0], tmp_path)
    assert report["exit_status"] == 0
    assert any("no tick today" in m["why"] for m in report["missing"])


def test_the_locals_of_a_counted_closure_can_be_read() -> None:
    """With its free variables only named in the code object, reading them crashed the interpreter (3.11)."""
    count, seen = 0, []

    def work() -> None:
        nonlocal count
        count += 1
        seen.append(count)

    def turn() -> None:
        frame: types.FrameType | None = sys._getframe()
        while frame is not None and not is_trampoline(frame.f_code):
            frame = frame.f_back
        turns.append(dict(frame.f_locals) if frame is not None else {})

    turns: list[dict[str, Any]] = []
    counter = FunctionCounter([work], turn)
    before = work.__code__.co_freevars
    work()
    counter.remove()

    assert len(turns) == 1 and turns[0]["count"] == 1 and turns[0]["seen"] == [1]
    assert before == work.__code__.co_freevars == ("count", "seen")
