"""A path of objects is told in the words of the program that made it, with the line that stores the reference."""

from __future__ import annotations

import gc
import importlib.util
import sys
import textwrap
import types
from collections import deque
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from tenure.observe.naming import Step, name_path, path_text
from tenure.observe.retention import holder_line, name_group
from tenure.probes.heap import Root, frame_locals, walk

Program = Callable[[str], types.ModuleType]


@pytest.fixture
def program(tmp_path: Path) -> Iterator[Program]:
    """Writes a program to a file, imports it under a name of its own, and forgets it afterwards."""
    made: list[str] = []

    def load(text: str, name: str = "plant") -> types.ModuleType:
        path = tmp_path / f"{name}.py"
        path.write_text(textwrap.dedent(text))
        spec = importlib.util.spec_from_file_location(name, path)
        assert spec is not None and spec.loader is not None
        module = importlib.util.module_from_spec(spec)
        sys.modules[name] = module
        made.append(name)
        spec.loader.exec_module(module)
        return module

    yield load
    for name in made:
        del sys.modules[name]


def path_to(root: object, target: object) -> list[object]:
    """The objects from a root to the target's holder, breadth first, as the heap walk gives them."""
    before: dict[int, object] = {}
    seen = {id(root)}
    waiting = deque([root])
    while waiting:
        thing = waiting.popleft()
        for child in gc.get_referents(thing):
            if id(child) in seen or (isinstance(child, types.ModuleType) and child is not target):
                continue
            seen.add(id(child))
            before[id(child)] = thing
            if child is target:
                path = [thing]
                while path[0] is not root:
                    path.insert(0, before[id(path[0])])
                return path
            waiting.append(child)
    raise AssertionError("the root does not reach the target")


def steps_to(module: types.ModuleType, target: object) -> list[Step]:
    return name_path(f"module {module.__name__}", path_to(module, target), target)


def line_of(module: types.ModuleType, text: str) -> tuple[str, int]:
    assert module.__file__ is not None
    lines = Path(module.__file__).read_text().splitlines()
    return module.__file__, next(n for n, line in enumerate(lines, 1) if text in line)


def told(module: types.ModuleType, target: object, text: str, line: str) -> None:
    steps = steps_to(module, target)
    assert path_text(steps) == text
    assert holder_line(steps) == line_of(module, line)


def test_a_dict_of_lists_keeps_its_key_and_blanks_the_index(program: Program) -> None:
    plant = program("""
        history = {"loss": [], "accuracy": []}
        def record(loss):
            history["accuracy"].append(0)
            history["loss"].append(loss)
        record(object())
    """)
    told(plant, plant.history["loss"][0], "plant.history['loss'][*]", '["loss"].append')


def test_a_closure_is_told_by_the_variable_and_its_function(program: Program) -> None:
    plant = program("""
        from collections import deque
        def make_forward():
            table = deque()
            def forward(x):
                table.append([x])
            return forward
        forward = make_forward()
        forward(object())
    """)
    kept = plant.forward.__closure__[0].cell_contents[0][0]
    text = "plant.forward > closure variable 'table' of make_forward.<locals>.forward > [*][*]"
    told(plant, kept, text, "table.append")


def test_a_class_attribute_filled_through_cls(program: Program) -> None:
    plant = program("""
        class Registry:
            known = {}
            @classmethod
            def add(cls, name, thing):
                cls.known[name] = thing
        Registry.add("first", object())
    """)
    told(plant, plant.Registry.known["first"], "plant.Registry.known['first']", "cls.known[name]")


def test_a_dataclass_field_filled_from_outside(program: Program) -> None:
    plant = program("""
        from dataclasses import dataclass, field
        @dataclass
        class Run:
            parts: list = field(default_factory=list)
        run = Run()
        def step(thing):
            run.parts.append(thing)
        step(object())
    """)
    told(plant, plant.run.parts[0], "plant.run.parts[*]", "run.parts.append")


def test_slots_behind_a_property(program: Program) -> None:
    plant = program("""
        class Store:
            __slots__ = ("_items",)
            def __init__(self):
                self._items = []
            @property
            def items(self):
                return tuple(self._items)
            def keep(self, thing):
                self._items += [thing]
        store = Store()
        store.keep(object())
    """)
    told(plant, plant.store._items[0], "plant.store._items[*]", "self._items += ")


def test_a_private_name_reads_as_written(program: Program) -> None:
    plant = program("""
        class Store:
            def __init__(self):
                self.__items = []
            def keep(self, thing):
                self.__items.append(thing)
        store = Store()
        store.keep(object())
    """)
    told(plant, plant.store._Store__items[0], "plant.store.__items[*]", "self.__items.append")


LISTS = """
    class Node:
        def __init__(self, value, next=None):
            self.value, self.next = value, next
    class Slot:
        __slots__ = ("value", "next")
        def __init__(self, value, next=None):
            self.value, self.next = value, next
    node = slot = pair = table = both = None
    for _ in range(2_000):
        node, slot = Node([1], node), Slot([1], slot)
        pair, table = ([1], pair), {"value": [1], "next": table}
        both = {"left": Node([1], both)}
"""


@pytest.mark.parametrize(
    ("name", "text"),
    [
        ("node", "plant.node.next[...].value"),
        ("slot", "plant.slot.next[...].value"),
        ("pair", "plant.pair[*][...]"),
        ("table", "plant.table['next'][...]['value']"),
        ("both", "plant.both['left'].next[...].value"),
    ],
)
def test_a_linked_list_is_told_once(program: Program, name: str, text: str) -> None:
    plant = program(LISTS)

    def follow(thing: Any) -> Any:
        return {
            "node": lambda: thing.next,
            "slot": lambda: thing.next,
            "pair": lambda: thing[1],
            "table": lambda: thing["next"],
            "both": lambda: thing["left"].next,
        }[name]()

    def value(thing: Any) -> Any:
        inner = thing["left"] if name == "both" else thing
        return inner[0] if name == "pair" else inner["value"] if name == "table" else inner.value

    place = getattr(plant, name)
    told = set()
    for _ in range(1_900):
        place = follow(place)
    for depth in range(1_900, 1_906):
        root = [Root("module plant", vars(plant), 0)]
        thing = value(place)
        fixed: Any = {"user_globals": frozenset([id(vars(plant))]), "barriers": [vars(plant)]}
        (found,) = walk(root, select_ids=[id(thing)], paths=True, groups=False, **fixed).found
        assert len(found.path) == 65, depth
        told.add(path_text(name_path(found.root, found.path, thing)))
        place = follow(place)
    assert told == {text}


@pytest.mark.parametrize("depth", range(1, 12))
def test_a_short_chain_is_told_in_full_and_a_long_one_not(program: Program, depth: int) -> None:
    plant = program("""
        class Node:
            def __init__(self, next):
                self.next = next
        def chain(depth):
            head = target = [1]
            for _ in range(depth):
                head = Node(head)
            return head, target
    """)
    plant.head, target = plant.chain(depth)  # type: ignore[attr-defined]
    expected = "plant.head" + (".next" * depth if depth < 4 else ".next[...]")
    assert path_text(steps_to(plant, target)) == expected


def test_a_name_of_its_own_for_each_thing_reads_as_any(program: Program) -> None:
    plant = program("""
        import sys
        here = sys.modules[__name__]
        for number in range(8):
            setattr(here, f"batch_{number}", [object()])
    """)
    paths = [steps_to(plant, getattr(plant, f"batch_{n}")[0]) for n in range(8)]
    assert name_group(paths).text == "plant.*[*]"
    assert name_group(paths[:1] * 4).text == "plant.batch_0[*]"
    assert name_group(paths[:3]).text == "plant.batch_0[*]"


def test_a_text_is_never_long() -> None:
    steps = [Step("module plant", "module", "plant"), *(Step(f".{'a' * 20}{n}", "attribute") for n in range(12))]
    text = path_text(steps)
    assert len(text) == 160
    assert text.startswith("plant.aaaa") and text.endswith("a11") and "..." in text


def test_a_thread_local_value(program: Program) -> None:
    plant = program("""
        import threading
        here = threading.local()
        def remember(thing):
            here.last = thing
        remember([1])
    """)
    told(plant, plant.here.last, "plant.here.last", "here.last = thing")


@pytest.mark.parametrize("name", ["Context", "ndarray", "Registry", "FunctionCache", "local", "_local", "ObjectProxy"])
def test_a_class_of_the_programs_with_a_known_name_is_read_as_its_own(program: Program, name: str) -> None:
    plant = program(f"""
        class {name}:
            def __init__(self):
                self.log = []
        register = {{"a": {name}()}}
        register["a"].log.append([1])
    """)
    told(plant, plant.register["a"].log[0], "plant.register['a'].log[*]", ".append([1])")


def test_a_context_variable(program: Program) -> None:
    plant = program("""
        import contextvars
        current = contextvars.ContextVar("current")
        current.set([1])
        saved = contextvars.copy_context()
    """)
    steps = steps_to(plant, plant.current.get())
    assert path_text(steps) == "plant.saved > context variable 'current'"
    assert holder_line(steps) == line_of(plant, "saved =")


def test_an_exception_chain_down_to_the_local_of_its_frame(program: Program) -> None:
    plant = program("""
        failures = []
        def process():
            mixed = [1]
            where.append(mixed)
            raise ValueError
        where = []
        def attempt():
            try:
                process()
            except ValueError as error:
                failures.append((1, error))
        attempt()
        mixed = where.pop()
    """)
    mixed = plant.__dict__.pop("mixed")
    steps = steps_to(plant, mixed)
    assert path_text(steps) == "plant.failures[*][*].__traceback__ > frame process() local 'mixed'"
    assert holder_line(steps) == line_of(plant, "failures.append")


def test_a_local_of_a_suspended_generator(program: Program) -> None:
    plant = program("""
        def rows():
            window = []
            while True:
                window.append([1])
                yield
        feed = rows()
        next(feed)
    """)
    window = plant.feed.gi_frame.f_locals["window"]
    text = "plant.feed > generator rows() local 'window' > [*]"
    told(plant, window[0], text, "window.append")


def test_arguments_of_a_partial(program: Program) -> None:
    plant = program("""
        import functools
        def train(data, out):
            pass
        jobs = []
        def plan(data):
            jobs.append(functools.partial(train, [data], out=[data, data]))
        plan(object())
    """)
    job = plant.jobs[0]
    told(plant, job.args[0], "plant.jobs[*] > argument 0 of partial(train)", "jobs.append")
    told(plant, job.keywords["out"], "plant.jobs[*] > argument 'out' of partial(train)", "jobs.append")


def test_a_default_argument_that_collects(program: Program) -> None:
    plant = program("""
        def mean(x, seen=[]):
            seen.append(x)
        mean(object())
    """)
    told(plant, plant.mean.__defaults__[0][0], "plant.mean > default of 'seen' in mean > [*]", "seen.append")


def test_a_cache_is_told_by_the_function_it_remembers(program: Program) -> None:
    plant = program("""
        from functools import lru_cache
        class Detector:
            @lru_cache(maxsize=8)
            def anchors(self, size):
                return [size]
        detector = Detector()
        answer = detector.anchors(3)
    """)
    answer, detector = plant.__dict__.pop("answer"), plant.__dict__.pop("detector")
    told(plant, answer, "plant > cache of Detector.anchors > [*]", "@lru_cache")
    told(plant, detector, "plant > cache of Detector.anchors > [*]", "@lru_cache")


def test_an_unbounded_cache(program: Program) -> None:
    plant = program("""
        import functools
        @functools.cache
        def grid(size):
            return [size]
        grid(300)
    """)
    told(plant, plant.grid(300), "plant > cache of grid > [*]", "@functools.cache")


def test_a_bound_method_kept_as_callback(program: Program) -> None:
    plant = program("""
        callbacks = set()
        class Trainer:
            def step(self):
                pass
        def hook():
            callbacks.add(Trainer().step)
        hook()
    """)
    (method,) = plant.callbacks
    told(plant, method.__self__, "plant.callbacks{*} > self of Trainer.step", "callbacks.add")


def test_a_global_filled_from_another_module(program: Program) -> None:
    plant = program("archive = []\n")
    other = program(
        """
        import plant
        from plant import archive as store
        def save(thing):
            store.append(thing)
        save(object())
        """,
        "writer",  # type: ignore[call-arg]
    )
    steps = steps_to(plant, plant.archive[0])
    assert path_text(steps) == "plant.archive[*]"
    assert holder_line(steps) == line_of(other, "store.append")


def test_a_container_filled_through_a_parameter(program: Program) -> None:
    plant = program("""
        log = []
        def remember(into, thing):
            into.append(thing)
        def step():
            remember(log, object())
        step()
    """)
    told(plant, plant.log[0], "plant.log[*]", "into.append")


def test_a_tensor_that_is_rebound_in_a_function(program: Program) -> None:
    plant = program("""
        scores = []
        def step():
            global scores
            scores = scores + [1]
        step()
    """)
    told(plant, plant.scores, "plant.scores", "scores = scores +")


def test_a_local_of_the_same_name_is_not_the_global(program: Program) -> None:
    plant = program("""
        log = [object()]
        def other():
            log = []
            log.append(1)
    """)
    told(plant, plant.log[0], "plant.log[*]", "log = [object()]")


def test_another_class_with_the_same_attribute_is_not_named(program: Program) -> None:
    plant = program("""
        class Wrong:
            def add(self, x):
                self.items.append(x)
        class Base:
            def add(self, x):
                self.items.insert(0, x)
        class Right(Base):
            def __init__(self):
                self.items = []
        right = Right()
        right.add(object())
    """)
    told(plant, plant.right.items[0], "plant.right.items[*]", "self.items.insert")


def test_a_list_loop_variable_stands_for_its_container(program: Program) -> None:
    plant = program("""
        buckets = {"a": [], "b": []}
        def spread(thing):
            for name, bucket in buckets.items():
                bucket.append(thing)
        spread(object())
    """)
    told(plant, plant.buckets["a"][0], "plant.buckets['a'][*]", "bucket.append")


def test_group_blanks_what_differs_and_names_what_grows(program: Program) -> None:
    plant = program("""
        class Worker:
            def __init__(self):
                self.cache = {}
            def fill(self):
                self.cache["x"] = [object()]
        workers = {}
        def start(name):
            workers[name] = Worker()
            workers[name].fill()
        for n in "abc":
            start(n)
    """)
    kept = [worker.cache["x"] for worker in plant.workers.values()]
    holder = name_group([steps_to(plant, thing) for thing in kept])
    assert holder.text == "plant.workers[*].cache['x']"
    assert holder.path == ("module plant", "workers", "[*]", ".cache", "['x']")
    assert (holder.file, holder.line) == line_of(plant, "workers[name] = Worker()")
    alone = name_group([steps_to(plant, kept[0])])
    assert alone.text == "plant.workers['a'].cache['x']"
    assert (alone.file, alone.line) == line_of(plant, 'self.cache["x"] =')


def test_reading_a_frame_leaves_nothing_behind() -> None:
    class Thing:
        pass

    import weakref

    def work() -> Any:
        thing = Thing()
        watch = weakref.ref(thing)
        assert frame_locals(sys._getframe())["thing"] is thing
        del thing
        return watch()

    traced = sys.gettrace() is not None
    assert traced or work() is None


def test_a_path_names_no_object_of_the_users(program: Program) -> None:
    plant = program("""
        class Thing: pass
        kept = {("a", 1): [Thing()]}
    """)
    import weakref

    watch = weakref.ref(plant.kept["a", 1][0])
    steps = steps_to(plant, plant.kept["a", 1][0])
    assert path_text(steps) == "plant.kept[*][*]"
    plant.kept.clear()
    assert watch() is None
