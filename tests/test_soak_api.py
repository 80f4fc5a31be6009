"""`tenure.soak(function)`: how it calls, what it returns, and that it keeps nothing."""

from __future__ import annotations

import asyncio
import atexit
import collections
import contextvars
import functools
import gc
import importlib.util
import mmap
import re
import socket
import subprocess
import sys
import threading
import time
import weakref
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

import tenure
from tenure.explain.soak import TargetFailed, least_cycles, soak
from tenure.observe.births import noting
from tenure.observe.recording import RecordingError, open_recording
from tenure.records import Report

pytestmark = pytest.mark.slow


def test_the_public_name_is_this_function() -> None:
    assert tenure.soak is soak


def test_a_flat_function_is_flat_and_named() -> None:
    report = soak(lambda: None, 30)
    assert isinstance(report, Report)
    assert (report.verdict, report.exit_status, report.ticks.count) == ("flat", 0, 30)
    assert "<lambda>" in (report.ticks.function or "")


def test_sixty_cycles_are_the_default() -> None:
    calls: list[int] = []
    assert soak(calls.append).ticks.count == 60
    assert calls == list(range(60))


@pytest.mark.parametrize("cycles", [0, -1])
def test_fewer_than_one_cycle_is_a_value_error(cycles: int) -> None:
    with pytest.raises(ValueError, match=f"cycles is {cycles}; at least 1"):
        soak(lambda: None, cycles)


def takes_index(i: int) -> Any:
    return i


def takes_nothing() -> Any:
    return None


def takes_any(*args: Any) -> Any:
    return args


def has_a_default(verbose: bool = False) -> Any:
    return verbose


class Callable_:
    def __call__(self, i: int) -> Any:
        return i


@pytest.mark.parametrize(
    ("function", "expected"),
    [
        (takes_index, [0, 1, 2]),
        (takes_nothing, [None] * 3),
        (takes_any, [(0,), (1,), (2,)]),
        (has_a_default, [False] * 3),  # an optional argument has a meaning of its own
        (Callable_(), [0, 1, 2]),
        (functools.partial(pow, 2), [1, 2, 4]),
    ],
)
def test_the_index_goes_where_it_is_taken(function: Callable[..., Any], expected: list[Any]) -> None:
    got: list[Any] = []

    @functools.wraps(function)
    def target(*args: Any) -> None:
        got.append(function(*args))

    if not hasattr(function, "__name__"):
        target.__signature__ = __import__("inspect").signature(function)  # type: ignore[attr-defined]
    soak(target, 3)
    assert got == expected


def test_an_async_target_runs_in_one_event_loop_that_is_closed() -> None:
    loops: set[asyncio.AbstractEventLoop] = set()
    calls: list[int] = []

    async def target(i: int) -> None:
        loops.add(asyncio.get_running_loop())
        await asyncio.sleep(0)
        calls.append(i)

    soak(target, 5)
    assert calls == [0, 1, 2, 3, 4]
    assert all(loop.is_closed() for loop in loops)
    if sys.version_info >= (3, 11):
        assert len(loops) == 1


def test_an_async_setup_and_teardown_run_once() -> None:
    order: list[str] = []

    async def before() -> None:
        order.append("before")

    async def after() -> None:
        order.append("after")

    soak(lambda: order.append("call"), 2, setup=before, teardown=after)
    assert order == ["before", "call", "call", "after"]


def test_progress_is_told_after_each_cycle() -> None:
    told: list[tuple[int, int]] = []
    soak(lambda: None, 3, on_tick=lambda done, planned: told.append((done, planned)))
    assert told == [(1, 3), (2, 3), (3, 3)]


def test_a_time_gives_the_number_of_cycles_that_fit() -> None:
    began = time.monotonic()
    report = soak(lambda: time.sleep(0.01), seconds=1.0)
    assert 60 <= report.ticks.count <= 100
    assert time.monotonic() - began < 20


def test_a_slow_first_call_does_not_shorten_a_timed_soak() -> None:
    calls: list[int] = []

    def target(i: int) -> None:
        calls.append(i)
        time.sleep(0.5 if i == 0 else 0.005)

    report = soak(target, seconds=1.0)
    assert report.ticks.count >= 50
    assert calls == list(range(len(calls)))


def test_a_failing_target_raises_with_the_report_so_far() -> None:
    after: list[int] = []

    def target(i: int) -> None:
        if i == 20:
            raise KeyError("twenty")

    with pytest.raises(TargetFailed, match="the target raised at cycle 20") as caught:
        soak(target, 60, teardown=lambda: after.append(1))
    assert isinstance(caught.value.__cause__, KeyError)
    assert (caught.value.tick, caught.value.report.ticks.count, caught.value.report.exit_status) == (20, 20, 1)
    assert "20 of 60" in caught.value.report.why
    assert after == [1]
    assert noting() is None


@pytest.mark.parametrize("code", [0, 3, None, "a reason"])
def test_an_exit_in_the_target_does_not_end_the_caller(code: Any) -> None:
    def target(i: int) -> None:
        raise SystemExit(code)

    with pytest.raises(TargetFailed) as caught:
        soak(target, 20)
    assert isinstance(caught.value.__cause__, SystemExit)
    assert caught.value.report.exit_status == {0: 0, 3: 3, None: 0, "a reason": 1}[code]


@pytest.mark.parametrize("part", ["setup", "teardown"])
def test_a_failing_setup_or_teardown_is_told_apart(part: str) -> None:
    calls: list[int] = []

    def broken() -> None:
        raise OSError("gone")

    with pytest.raises(TargetFailed, match=f"the {part} raised") as caught:
        soak(calls.append, 4, **{part: broken})  # type: ignore[arg-type]
    assert len(calls) == (0 if part == "setup" else 4)
    assert caught.value.report.ticks.count == len(calls)
    assert noting() is None


def test_the_targets_error_comes_before_the_teardowns() -> None:
    def target() -> None:
        raise KeyError("first")

    def after() -> None:
        raise OSError("second")

    with pytest.raises(TargetFailed, match="the target raised") as caught:
        soak(target, 4, teardown=after)
    assert isinstance(caught.value.__cause__, KeyError)


def test_ctrl_c_ends_it_early_and_returns_the_report() -> None:
    after: list[int] = []

    def target(i: int) -> None:
        if i == 30:
            raise KeyboardInterrupt

    report = soak(target, 60, teardown=lambda: after.append(1))
    assert report.ticks.count == 30
    assert report.verdict == "inconclusive" or report.verdict == "flat"
    assert after == [1]


@pytest.mark.parametrize("part", ["setup", "on_tick"])
def test_what_stops_it_from_outside_passes_and_leaves_no_hooks(part: str) -> None:
    def stop(*told: int) -> None:
        raise KeyboardInterrupt if part == "setup" else ArithmeticError

    with pytest.raises((KeyboardInterrupt, ArithmeticError)):
        soak(lambda: None, 20, **{part: stop})  # type: ignore[arg-type]
    assert noting() is None


def test_a_leak_is_found_with_its_size_and_not_under_a_higher_floor() -> None:
    module = sys.modules[__name__]
    module.kept = []  # type: ignore[attr-defined]
    try:
        report = soak(lambda: module.kept.append(bytearray(20_000)), 40)  # type: ignore[attr-defined]
        assert report.verdict == "leak"
        assert report.growth is not None
        assert report.growth.bytes_per_tick == pytest.approx(20_000, rel=0.01)  # and the bytearray's own 57 bytes
        quiet = soak(lambda: module.kept.append(bytearray(20_000)), 40, min_growth=1e6)  # type: ignore[attr-defined]
        assert quiet.verdict == "flat"
    finally:
        del module.kept  # type: ignore[attr-defined]


def holder_of(report: Report) -> tuple[str, str, int]:
    assert report.verdict == "leak", report.why
    holder = report.findings[0].holder
    assert holder is not None, report.findings[0]
    return holder.text, Path(holder.file or "").name, holder.line or 0


LEAVER = """
import sys
kept = []
def cycle():
    sys.modules.pop(__name__, None)
    kept.append(bytearray(20_000))
def make():
    inside = []
    def cycle():
        inside.append(bytearray(20_000))
    return cycle
class Job:
    def __init__(self):
        self.parts = []
    def __call__(self):
        self.parts.append(bytearray(20_000))
"""


@pytest.mark.parametrize("registered", [True, False])
def test_a_target_whose_module_has_left_still_has_its_globals(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, registered: bool
) -> None:
    (tmp_path / "leaver.py").write_text(LEAVER)
    spec = importlib.util.spec_from_file_location("leaver", tmp_path / "leaver.py")
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    if registered:  # until the first call
        monkeypatch.setitem(sys.modules, "leaver", module)
    spec.loader.exec_module(module)
    functions = [module.cycle]
    del module, spec
    report = soak(functions.pop(), 40)
    assert holder_of(report) == ("leaver.kept[*]", "leaver.py", 6)


@pytest.mark.parametrize(
    ("make", "held"),
    [
        ("make", ("target make.<locals>.cycle > closure variable 'inside' of make.<locals>.cycle > [*]", 10)),
        ("Job", ("target Job > .parts[*]", 16)),
    ],
)
def test_what_only_the_target_itself_holds(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, make: str, held: tuple[str, int]
) -> None:
    (tmp_path / "maker.py").write_text(LEAVER)
    monkeypatch.syspath_prepend(tmp_path)
    module = importlib.import_module("maker")
    monkeypatch.setitem(sys.modules, "maker", module)
    report = soak(getattr(module, make)(), 40)
    assert holder_of(report) == (held[0], "maker.py", held[1])


REQUEST: contextvars.ContextVar[list[object] | None] = contextvars.ContextVar("request", default=None)


def grow_request() -> None:
    if REQUEST.get() is None:
        REQUEST.set([])
    REQUEST.get().append(bytearray(20_000))  # type: ignore[union-attr]


async def grow_request_async() -> None:
    grow_request()


@pytest.mark.skipif(sys.version_info < (3, 11), reason="each call has a context of its own")
@pytest.mark.parametrize("target", [grow_request, grow_request_async])
def test_a_context_variable_is_a_holder(target: Callable[[], Any]) -> None:
    report = contextvars.copy_context().run(soak, target, 40)
    assert holder_of(report)[0] == "context variable 'request' > [*]"


@pytest.mark.parametrize("every", [3, 7, 10])
@pytest.mark.parametrize("cycles", [60, 120])
def test_what_grows_at_some_ticks_only_is_found(every: int, cycles: int) -> None:
    module = sys.modules[__name__]
    module.kept = []  # type: ignore[attr-defined]

    def target(i: int) -> None:
        data = bytearray(100_000)
        if i % every == 0:
            module.kept.append(data)  # type: ignore[attr-defined]

    try:
        report = soak(target, cycles)
        assert holder_of(report)[0] == "test_soak_api.kept[*]"
        assert report.findings[0].bytes_per_tick == pytest.approx(100_000 / every, rel=0.25)
        assert report.growth is not None and report.growth.low > 0
    finally:
        del module.kept  # type: ignore[attr-defined]


def test_what_came_too_seldom_to_tell_says_how_long_would_decide() -> None:
    module = sys.modules[__name__]

    def run(cycles: int) -> Report:
        module.kept = []  # type: ignore[attr-defined]
        return soak(lambda i: module.kept.append(bytearray(100_000)) if i % 15 == 0 else None, cycles)  # type: ignore[attr-defined]

    try:
        report = run(60)
        assert report.verdict == "inconclusive"
        needed = re.search(r"about every 1\d ticks, too seldom to tell; (\d+) cycles would decide", report.why)
        assert needed is not None, report.why
        assert run(int(needed[1])).verdict == "leak"
    finally:
        del module.kept  # type: ignore[attr-defined]


def test_what_fills_up_is_flat() -> None:
    module = sys.modules[__name__]
    for most in (5, 20, 30):
        module.kept = collections.deque(maxlen=most)  # type: ignore[attr-defined]
        try:
            for cycles in (15, 60):
                report = soak(lambda: module.kept.append(bytearray(100_000)), cycles)  # type: ignore[attr-defined]
                assert report.verdict == "flat" or most > cycles, (most, cycles, report.why)
        finally:
            del module.kept  # type: ignore[attr-defined]


NAMES = """
import sys
class Bag:
    pass
def in_module(i):
    setattr(sys.modules[__name__], f"batch_{i}", bytearray(20_000))
def in_class(i):
    setattr(Bag, f"batch_{i}", [bytearray(20_000)])
"""


@pytest.mark.parametrize(("name", "text"), [("in_module", "names.*"), ("in_class", "names.Bag.*")])
def test_a_new_name_for_each_thing_is_one_holder(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, name: str, text: str
) -> None:
    (tmp_path / "names.py").write_text(NAMES)
    monkeypatch.syspath_prepend(tmp_path)
    module = importlib.import_module("names")
    monkeypatch.setitem(sys.modules, "names", module)
    report = soak(getattr(module, name), 60)
    assert holder_of(report)[0] == text
    assert report.findings[0].objects_per_tick == 1
    assert report.findings[0].bytes_per_tick == pytest.approx(20_100, rel=0.01)


def keep_a_file(kept: list[Any], path: Path) -> None:
    kept.append(path.open("rb"))


def keep_a_mapping(kept: list[Any], path: Path) -> None:
    with path.open("rb") as file:
        kept.append(mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ))


def keep_a_socket(kept: list[Any], path: Path) -> None:
    kept.append(socket.socket())


def use_a_file(kept: list[Any], path: Path) -> None:
    path.read_bytes()


@pytest.mark.parametrize(
    ("target", "grown"),
    [
        (keep_a_file, {"open files"}),
        (keep_a_mapping, {"open files", "mapped files"}),
        (keep_a_socket, {"open sockets"}),
        (use_a_file, set()),
    ],
)
def test_what_stays_open_is_a_note(tmp_path: Path, target: Callable[..., None], grown: set[str]) -> None:
    (tmp_path / "data").write_bytes(b"x" * 10_000)
    kept: list[Any] = []
    report = soak(lambda: target(kept, tmp_path / "data"), 40, record=tmp_path / "r.tenure")
    for opened in kept:
        opened.close()
    assert {note.partition(" grow by 1 a tick: ")[0] for note in report.notes if " grow by " in note} == grown


def test_exit_handlers_that_pile_up_are_a_note() -> None:
    def save(data: object) -> None:
        pass

    try:
        report = soak(lambda: atexit.register(save, bytearray(10)), 40)
        assert [note for note in report.notes if note.startswith("exit handlers grow by 1 a tick: ")]
    finally:
        atexit.unregister(save)


LINKED = """
class Node:
    def __init__(self, data, next=None):
        self.data, self.next = data, next
head = first = last = None
def at_head():
    global head
    head = Node(bytearray(20_000), head)
def at_tail():
    global first, last
    node = Node(bytearray(20_000))
    if first is None:
        first = last = node
    else:
        last.next = node
        last = node
def many():
    global head
    for _ in range(50):
        head = Node(bytearray(2_000), head)
"""


@pytest.mark.parametrize(
    ("name", "text", "objects", "size"),
    [
        ("at_head", "linked.head.next[...]", 1, 20_113),
        ("at_tail", "linked.first.next[...]", 1, 20_113),
        ("many", "linked.head.next[...]", 50, 50 * 2_113),
    ],
)
def test_a_linked_list_is_one_population(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, name: str, text: str, objects: int, size: int
) -> None:
    (tmp_path / "linked.py").write_text(LINKED)
    monkeypatch.syspath_prepend(tmp_path)
    module = importlib.import_module("linked")
    monkeypatch.setitem(sys.modules, "linked", module)
    report = soak(getattr(module, name), 60)
    assert holder_of(report)[0] == text
    found = report.findings[0]
    assert found.objects_per_tick == objects
    assert found.bytes_per_tick == pytest.approx(size, rel=0.05)


def test_finalizers_that_pile_up_are_a_holder() -> None:
    def save(data: object) -> None:
        pass

    watched = Callable_()
    report = soak(lambda: weakref.finalize(watched, save, bytearray(20_000)) and None, 40)
    text = f"finalizer {save.__qualname__} (test_soak_api.py:{save.__code__.co_firstlineno})"
    assert holder_of(report)[0] == text


FORKS = """
import os, sys, tenure
from pathlib import Path

here = os.getpid()
kept, ends = [], []

def cycle(i):
    kept.append(bytearray(20_000))
    if i % 10 == 5:
        child = os.fork()
        if child == 0:
            END
        else:
            ends.append(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]))

report = tenure.soak(cycle, 40, record=Path("r.tenure"), teardown=lambda: print("teardown", os.getpid() == here))
print(report.verdict, report.ticks.count, report.findings[0].holder.text, set(ends), len(ends))
"""


@pytest.mark.parametrize(
    ("end", "status", "said"),
    [
        ("return", 0, ""),
        ("sys.exit(3)", 3, ""),
        ("sys.exit('done')", 1, "done"),
        ("raise LookupError('lost')", 1, "LookupError: lost"),
        ("raise KeyboardInterrupt", 1, "KeyboardInterrupt"),
    ],
)
def test_a_child_of_the_target_ends_with_it(tmp_path: Path, end: str, status: int, said: str) -> None:
    (tmp_path / "forks.py").write_text(FORKS.replace("END", end))
    done = subprocess.run([sys.executable, "-u", "forks.py"], cwd=tmp_path, capture_output=True, text=True, timeout=60)
    assert done.stdout.splitlines() == ["teardown True", f"leak 40 forks.kept[*] {{{status}}} 4"], done.stderr
    assert [line for line in done.stderr.splitlines() if line and line[0] not in "T "] == [said] * 4 * bool(said)
    assert "tenure" not in done.stderr
    recorded = open_recording(tmp_path / "r.tenure")
    assert recorded.report is not None and recorded.report.ticks.count == 40
    assert recorded.exit_status == 0


def test_a_python_program_does_not_get_tensorflow_from_us() -> None:
    # a leak in plain Python once imported TensorFlow, 400 MB, to watch ops that could not be there
    program = (
        "import sys, tenure\nkept = []\n"
        "report = tenure.soak(lambda: kept.append(bytearray(20_000)), 30)\n"
        "print(report.verdict, 'tensorflow' in sys.modules, 'keras' in sys.modules)\n"
    )
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, timeout=60)
    assert done.stdout.split() == ["leak", "False", "False"], done.stderr


def test_the_least_number_of_cycles_decides_and_one_less_does_not() -> None:
    for warmup in (None, 0, 3, 25):
        least = least_cycles(warmup)
        enough = soak(lambda: None, least, warmup=warmup)
        assert enough.verdict == "flat", enough.why
        short = soak(lambda: None, least - 1, warmup=warmup)
        assert short.verdict == "inconclusive"
        assert f"at least {least} would decide" in short.why


def test_nothing_of_the_targets_is_kept() -> None:
    class Thing:
        pass

    gone: list[weakref.ref[Thing]] = []

    def target() -> Thing:
        thing = Thing()
        gone.append(weakref.ref(thing))
        return thing

    report = soak(target, 15)
    assert all(reference() is None for reference in gone)
    function = weakref.ref(target)
    del target
    gc.collect()
    assert function() is None
    assert report.verdict == "flat"


def test_a_second_soak_in_one_process_is_as_good_as_the_first() -> None:
    for _ in range(3):
        threads = threading.active_count()
        report = soak(lambda: None, 12)
        print([(s.tick, s.native, s.python_blocks) for s in report.samples])
        assert report.verdict == "flat", report.why
        assert noting() is None
        assert threading.active_count() == threads


def test_the_recording_is_opened_before_the_setup(tmp_path: Path) -> None:
    (tmp_path / "mine.txt").write_text("my own")
    ran: list[int] = []
    with pytest.raises(RecordingError, match=r"mine\.txt"):
        soak(lambda: None, 3, setup=lambda: ran.append(1), record=tmp_path / "mine.txt")
    assert ran == []
    assert noting() is None


def test_the_recording_holds_the_same_verdict(tmp_path: Path) -> None:
    report = soak(lambda: None, 20, record=tmp_path / "r.tenure", program=("a", "b"))
    recorded = open_recording(tmp_path / "r.tenure")
    assert recorded.report is not None
    assert (recorded.report.verdict, recorded.report.ticks) == (report.verdict, report.ticks)
    assert recorded.program == ("a", "b")


def test_the_time_to_the_limit_is_the_targets_own() -> None:
    kept: list[bytearray] = []

    def target() -> None:
        kept.append(bytearray(30_000))
        time.sleep(0.004)

    growth = soak(target, 60).growth
    assert growth is not None and growth.limit_bytes is not None and growth.seconds_to_limit is not None
    ticks = growth.limit_bytes / growth.bytes_per_tick
    assert growth.seconds_to_limit / ticks > 0.002  # it was 0: what the end took was left out too
