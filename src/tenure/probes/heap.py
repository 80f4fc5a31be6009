"""The object-graph walk: what is reachable, from where, by the shortest path, in which groups; and what is not.

Breadth-first in three tiers. Tier 0 (the user's modules and frames) is walked to exhaustion, then tier 1 (libraries),
then tier 2 (registries of the framework). A thing is reached once, so what is reached in tier 2 is reachable only
through a registry, and a path found in tier 0 is in the user's own words. In tier 0 the contents of foreign functions
and classes wait until tier 1, and no path leads through a barrier (a module, its `__dict__`) unless it is a root. The
roots of tier 2 are barriers, so that tiers 0 and 1 don't walk through a registry.

References are those of `tp_traverse`, as the cyclic collector sees them: weak references are none. To them are added
the `base` of a NumPy array and the contents of an array of objects or of records with objects. An array, bytes and text
of 512 bytes and more, and objects of a selected type are things of their own although the collector does not know them;
another atom (a float, a short text) counts for its container when nothing else refers to it. Bytes are shallow, as
`sys.getsizeof` gives them unless a class overrides `__sizeof__`: no Python code runs during the walk.

The C module walks with the GIL held, hence from any thread; its Python twin gives the same answer where the module
could not be built, or with TENURE_PURE_PYTHON=1 in the environment.
"""

from __future__ import annotations

import os
import sys
import threading
import time
from array import array
from collections import OrderedDict, deque
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from importlib import import_module
from types import AsyncGeneratorType, CodeType, CoroutineType, FrameType, GeneratorType, ModuleType
from typing import Any, NamedTuple

from tenure.probes.kinds import is_a
from tenure.records import Missing

__all__ = [
    "NATIVE",
    "Found",
    "Groups",
    "Heap",
    "Holding",
    "Modules",
    "Retained",
    "Root",
    "TypeGroup",
    "Unreached",
    "fork",
    "frame_locals",
    "frame_roots",
    "module_roots",
    "reachable",
    "retained",
    "walk",
]


def _choose() -> tuple[Any, bool]:
    if os.environ.get("TENURE_PURE_PYTHON") != "1" and sys.implementation.name == "cpython":
        try:
            return import_module("tenure.probes._heap"), True
        except ImportError:
            pass
    return import_module("tenure.probes._heap_python"), False


_walker, NATIVE = _choose()

# Types whose size is not basicsize + itemsize * length; their own C methods run no Python code
_SIZED = (
    *(dict, set, frozenset, list, bytearray, str, int, type, deque, OrderedDict),
    *(GeneratorType, CoroutineType, AsyncGeneratorType, FrameType, CodeType),
)
_LATE = 3
_PACKAGE = os.path.dirname(os.path.dirname(os.path.abspath(__file__))) + os.sep
_MODULE_DICT = vars(ModuleType)["__dict__"].__get__


@dataclass(frozen=True, slots=True)
class Root:
    """Where a walk starts. Tier 0: the user's modules and frames, 1: libraries, 2: registries of the framework.

    `late`, in tier 0: only when what the other roots of the tier reach has been walked to exhaustion. What such a root
    (a signal's handler, a context variable) shares with the user's modules is told by their names.
    """

    label: str
    obj: object
    tier: int
    late: bool = False


@dataclass(frozen=True, slots=True)
class Groups:
    """Everything reached, by holder path with indices blanked x type, as parallel sequences; parents come first.

    `keys` are 64-bit and equal from walk to walk for the same path, in this process and its forked children. `parents`
    is -1 for a root. A label is a root's own label, the name in a module, class or instance dict, `#n` for the n-th
    attribute of an instance that keeps them inline (Python 3.11), and blank for everything else; blank, too, for the
    functions and classes of a library, and in a dict of over 256 names. In a recursive structure a child shares the
    group of an ancestor (up to four steps up) when it and its parent have the same labels and types as that ancestor
    and its parent. `bytes` is shallow and includes the atoms that only the group's members refer to.
    """

    keys: array[int]
    parents: array[int]
    tiers: array[int]
    counts: array[int]
    bytes: array[int]
    labels: tuple[str, ...]
    types: tuple[str, ...]

    def __len__(self) -> int:
        return len(self.keys)

    def path(self, index: int) -> tuple[int, ...]:
        """The indices of the groups from the root's to this one."""
        steps = []
        while index >= 0:
            steps.append(index)
            index = self.parents[index]
        return tuple(reversed(steps))


@dataclass(frozen=True, slots=True)
class Holding:
    """One object that refers directly to a selected one: the last of `path`, which starts with the root's object.

    Of a path of over 64 objects (a linked list) the first 48 and the last 16 are there, with an Ellipsis between them.
    """

    root: str
    path: tuple[object, ...]


@dataclass(frozen=True, slots=True)
class Found:
    """A selected object. `path` goes from the root's object to the direct holder, as in `Holding`; empty for a root.

    `tier` 0 to 2: of the walk; 3: not reached but referred to from outside (native code holds it); 4: garbage. `group`
    is an index into the groups or -1. `holders` is there for objects selected by id: up to eight, the first on `path`.
    The references are strong: drop them at once.
    """

    obj: object
    group: int
    tier: int
    root: str
    path: tuple[object, ...]
    holders: tuple[Holding, ...] = ()


@dataclass(frozen=True, slots=True)
class TypeGroup:
    """How many objects of a type and their shallow bytes."""

    type_name: str
    count: int
    bytes: int


@dataclass(frozen=True, slots=True)
class Unreached:
    """What the collector knows and no root reaches. `garbage`: only refers to itself; `native`: held from outside."""

    garbage: tuple[TypeGroup, ...]
    native: tuple[TypeGroup, ...]


@dataclass(frozen=True, slots=True)
class Heap:
    """What one walk saw. `walk_bytes` is the walk's own memory at its peak, freed since; `native`: by the C module."""

    objects: int
    edges: int
    cpu_seconds: float
    walk_bytes: int
    native: bool
    groups: Groups | None
    found: list[Found]
    unreached: Unreached | None
    missing: tuple[Missing, ...] = ()


@dataclass(frozen=True, slots=True)
class Retained:
    """What only one target keeps alive, itself included: objects, shallow bytes, the selected objects among them."""

    objects: int
    bytes: int
    found: list[object]


class Modules(NamedTuple):
    """What `walk` needs to know of all modules; `cut` are tenure's own."""

    roots: list[Root]
    barriers: list[object]
    user_globals: frozenset[int]
    cut: list[object]


def walk(
    roots: Sequence[Root],
    *,
    user_globals: frozenset[int],
    barriers: Sequence[object],
    cut: Sequence[object] = (),
    select_types: Sequence[type] = (),
    select_ids: Sequence[int] = (),
    select_groups: Mapping[int, int] | None = None,
    paths: bool = False,
    unreached: bool = False,
    groups: bool = True,
) -> Heap:
    """What the roots reach. `select_groups`: key -> at most how many of the group's last objects.

    `cut` objects are never entered; with `unreached` what only they reach counts as tenure's own and is left out.
    `groups=False` halves the time. MemoryError when there is no room. `unreached` belongs on the main thread.
    """
    heap, _ = _run(
        roots, user_globals, barriers, cut, (), select_types, select_ids, select_groups, paths, unreached, groups
    )
    return heap


def reachable(
    roots: Sequence[Root],
    targets: Sequence[object],
    *,
    user_globals: frozenset[int] = frozenset(),
    barriers: Sequence[object] = (),
    cut: Sequence[object] = (),
) -> set[int]:
    """The ids of those targets that the roots reach without entering `cut`."""
    ids = [id(target) for target in targets]
    heap, _ = _run(roots, user_globals, barriers, cut, (), (), ids, None, False, False, False)
    wanted = set(ids)
    return {id(found.obj) for found in heap.found} & wanted


def retained(
    roots: Sequence[Root],
    targets: Sequence[object],
    *,
    user_globals: frozenset[int] = frozenset(),
    barriers: Sequence[object] = (),
    cut: Sequence[object] = (),
    select_types: Sequence[type] = (),
) -> list[Retained]:
    """What only the targets keep alive, one entry a target; what several of them share is the first one's."""
    _, kept = _run(roots, user_globals, barriers, cut, targets, select_types, (), None, False, False, False)
    return [Retained(*one) for one in kept or ()]


def _run(
    roots: Sequence[Root],
    user_globals: frozenset[int],
    barriers: Sequence[object],
    cut: Sequence[object],
    targets: Sequence[object],
    select_types: Sequence[type],
    select_ids: Sequence[int],
    select_groups: Mapping[int, int] | None,
    paths: bool,
    unreached: bool,
    groups: bool,
) -> tuple[Heap, list[tuple[int, int, list[object]]] | None]:
    ndarray, missing = _ndarray()
    want = groups or bool(select_groups)
    labels = tuple(str(root.label) for root in roots)
    hidden: tuple[object, ...] = (roots, barriers, cut, select_types, select_ids, select_groups, user_globals)
    if unreached:
        hidden += tuple(_own_locals(sys._getframe()))
    request = (
        tuple(root.obj for root in roots),
        bytes(_LATE if root.late else root.tier for root in roots),
        labels,
        tuple(user_globals),
        _user_names(barriers, roots, user_globals),
        (*barriers, *(root.obj for root in roots if root.tier == 2)),
        tuple(cut),
        tuple(targets),
        tuple(select_types),
        tuple(select_ids),
        dict(select_groups or {}),
        want * 1 | paths * 2 | unreached * 4,
        _sizers(ndarray),
        ndarray,
        hidden,
    )
    began = time.thread_time()
    try:
        objects, edges, memory, raw, found, split, kept = _walker.walk(*request)
    finally:
        # This frame is in the request: left there it would be a cycle that keeps every root until a collection.
        del request, hidden
    seconds = time.thread_time() - began
    heap = Heap(
        objects=objects,
        edges=edges,
        cpu_seconds=seconds,
        walk_bytes=memory,
        native=_walker.__name__ == "tenure.probes._heap",
        groups=_groups(raw) if raw else None,
        found=[_found(labels, one) for one in found],
        unreached=_unreached(split) if split else None,
        missing=missing,
    )
    return heap, kept


def _found(labels: tuple[str, ...], raw: tuple[Any, ...]) -> Found:
    obj, group, tier, root, path, holders = raw
    outside = {3: "native code", 4: "garbage"}
    named = tuple(Holding(labels[i] if i >= 0 else outside[3], steps) for i, steps in holders)
    return Found(obj, group, tier, labels[root] if root >= 0 else outside.get(tier, ""), path, named)


def _groups(raw: tuple[Any, ...]) -> Groups:
    keys, parents, tiers, counts, sizes, labels, types = raw
    return Groups(
        array("Q", keys), array("i", parents), array("B", tiers), array("q", counts), array("q", sizes), labels, types
    )


def _unreached(raw: tuple[list[tuple[str, int, int]], list[tuple[str, int, int]]]) -> Unreached:
    native, garbage = (tuple(TypeGroup(*one) for one in sorted(part, key=lambda t: -t[2])) for part in raw)
    return Unreached(garbage=garbage, native=native)


def _user_names(barriers: Iterable[object], roots: Iterable[Root], user_globals: frozenset[int]) -> frozenset[str]:
    spaces = [space for space in (*barriers, *(root.obj for root in roots)) if id(space) in user_globals]
    names = (space.get("__name__") for space in spaces if type(space) is dict)
    return frozenset(name for name in names if type(name) is str)


def _sizers(ndarray: type | None) -> tuple[tuple[type, object], ...]:
    types = _SIZED if ndarray is None else (*_SIZED, ndarray)
    return tuple((t, t.__dict__["__sizeof__"]) for t in types if "__sizeof__" in t.__dict__)


_array_layout: dict[type, bool] = {}


def _ndarray() -> tuple[type | None, tuple[Missing, ...]]:
    """`numpy.ndarray` when NumPy is loaded and its fields lie where the walk expects them (NumPy 1 and 2 alike)."""
    numpy: Any = sys.modules.get("numpy")
    ndarray = getattr(numpy, "ndarray", None)
    if not isinstance(ndarray, type) or not hasattr(numpy, "empty"):
        return None, ()
    if ndarray not in _array_layout:
        _array_layout[ndarray] = _array_test(numpy)
    if _array_layout[ndarray]:
        return ndarray, ()
    return None, (
        Missing("arrays behind views", f"the fields of numpy.ndarray {numpy.__version__} are not where they were"),
    )


def _array_test(numpy: Any) -> bool:
    owner, thing = numpy.empty(4), object()
    objects = numpy.empty(3, dtype=object)
    objects[0] = thing
    records = numpy.array([(1, thing)], dtype=[("number", "i1"), ("thing", "O")])
    facts = _walker.array_facts
    try:
        plain = facts(owner) == (None, None) and facts(owner[1:])[0] is owner
        return plain and facts(objects)[1] is thing and facts(records)[1] is thing
    except TypeError:
        return False


def module_roots(is_user_module: Callable[[str, ModuleType], bool]) -> Modules:
    """Roots "module NAME" for everything in `sys.modules`, the barriers, and the ids of the user's module dicts.

    A module is a root by its `__dict__`, so that a path starts with its names, and by itself for a C module's state.
    """
    roots: list[Root] = []
    state: list[Root] = []
    barriers: list[object] = []
    cut: list[object] = []
    users: set[int] = set()
    known: set[int] = set()
    for name, module in _named_modules():
        if id(module) in known:
            continue
        known.add(id(module))
        if not is_a(module, ModuleType):
            roots.append(Root(f"module {name}", module, 1))
            continue
        space = _MODULE_DICT(module)
        barriers += (module, space)
        if name == "tenure" or name.startswith("tenure."):
            cut += (module, space)
            continue
        user = is_user_module(name, module)
        if user:
            users.add(id(space))
        roots.append(Root(f"module {name}", space, 0 if user else 1))
        state.append(Root(f"module {name}", module, 1))
    return Modules(roots + state, barriers, frozenset(users), cut)


def _named_modules() -> list[tuple[str, Any]]:
    """All modules, `__main__` first, and each first under its own name (`os.path` is also `posixpath`)."""
    modules = [(name, module) for name, module in list(sys.modules.items()) if module is not None]

    def rank(item: tuple[str, Any]) -> int:
        name, module = item
        own = is_a(module, ModuleType) and _MODULE_DICT(module).get("__name__") == name
        return 0 if name == "__main__" else 1 if own else 2

    return sorted(modules, key=rank)


def frame_roots(user_frame: Callable[[FrameType], bool]) -> list[Root]:
    """A root for each local variable of each running frame of all threads, labelled "name in function() file:line".

    The line is the function's first, so that a label stays the same from tick to tick. Frames of tenure are left out.
    Tier 0 where `user_frame` says so, else 1. The variables of a module are its module's business, unless it is not in
    `sys.modules`. Before Python 3.13 reading the locals leaves a dict in the frame: it is emptied again, so that a
    variable deleted after the walk dies at once, except where the program itself holds that dict or a trace function
    could write it back.
    """
    roots: list[Root] = []
    for frame in _running_frames():
        code = frame.f_code
        variables = _locals(frame)
        if variables is None:
            continue
        tier = 0 if user_frame(frame) else 1
        where = f"in {code.co_name}() {code.co_filename}:{code.co_firstlineno}"
        roots += [Root(f"{name} {where}", value, tier) for name, value in variables.items()]
    return roots


def _running_frames() -> list[FrameType]:
    """The frames of all threads but those of tenure: a frame that holds itself is garbage, with all its variables."""
    frames: list[FrameType] = []
    frame: FrameType | None = None
    for frame in list(sys._current_frames().values()):
        if _own_thread(frame):
            continue
        while frame is not None:
            if not frame.f_code.co_filename.startswith(_PACKAGE):
                frames.append(frame)
            frame = frame.f_back
    return frames


def _own_thread(frame: FrameType | None) -> bool:
    """Whether a thread is one that tenure started: under the threading module's frames its first one is ours."""
    files: list[str] = []
    while frame is not None:
        files.append(frame.f_code.co_filename)
        frame = frame.f_back
    first = next((file for file in reversed(files) if file != threading.__file__), "")
    return first.startswith(_PACKAGE) and threading.__file__ in files


_OPTIMIZED = 1  # inspect.CO_OPTIMIZED: the locals live in the frame, not in a dict


def _locals(frame: FrameType) -> dict[str, object] | None:
    """A copy of a frame's local variables; None when they are a module's in `sys.modules`."""
    if not frame.f_code.co_flags & _OPTIMIZED:
        space = frame.f_locals
        module = sys.modules.get(frame.f_globals.get("__name__", ""))
        if space is frame.f_globals and is_a(module, ModuleType) and _MODULE_DICT(module) is space:
            return None
        return {str(name): value for name, value in space.items()}
    return frame_locals(frame)


def frame_locals(frame: FrameType) -> dict[str, object]:
    """The frame's variables by name, and no trace of the reading.

    Up to Python 3.12 `f_locals` leaves a snapshot in the frame, which keeps what the variables named long after `del`
    and after `frame.clear()` (measured on 3.11). The snapshot goes again unless somebody else may use it: a debugger
    writes it back, and `locals()` hands out this very dict.
    """
    names = frame.f_locals
    copy = dict(names)
    if sys.version_info < (3, 13) and frame.f_code.co_flags & _OPTIMIZED and not _traced(frame):
        # Three references: the frame's, ours, the argument's. More: somebody called locals() and kept it.
        if sys.getrefcount(names) <= 3:
            names.clear()
    return copy


def _traced(frame: FrameType) -> bool:
    hooks = (sys.gettrace(), sys.getprofile(), threading.gettrace(), threading.getprofile())
    return frame.f_trace is not None or any(hook is not None for hook in hooks)


def _own_locals(frame: FrameType | None) -> list[object]:
    """What the frames of tenure on this thread's stack hold, so that a walk does not take it for the user's."""
    own: list[object] = []
    while frame is not None:
        if frame.f_code.co_filename.startswith(_PACKAGE):
            own += (_locals(frame) or {}).values()
        frame = frame.f_back
    return own


def fork() -> int:
    """The child's pid, or 0 in the child, as `os.fork`; by the C module without Python 3.12's warning about threads."""
    pid: int = _walker.fork()
    return pid
