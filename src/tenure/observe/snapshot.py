"""The heap at one tick, counted: objects and bytes by holder path, so that two ticks can be compared.

A snapshot keeps numbers only (20 bytes a group), never an object. Groups are holder paths with indices blanked times
type; their keys are the same in each walk of one process.
"""

from __future__ import annotations

import contextlib
import contextvars
import functools
import inspect
import os
import signal
import sys
import types
import weakref
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any

from tenure.observe import retention
from tenure.probes import heap, read
from tenure.probes.apart import numpy as np
from tenure.probes.kinds import is_a
from tenure.records import Missing

if TYPE_CHECKING:
    import numpy.typing as npt

    Ints = npt.NDArray[np.int64]
    Keys = npt.NDArray[np.uint64]

__all__ = ["GARBAGE_TIER", "NATIVE_TIER", "Look", "Snapshot", "Tree", "kinds", "look", "rooted", "take", "weigher"]

NATIVE_TIER, GARBAGE_TIER = 3, 4
_POOLED = 256 * 1024  # bytes: the oneDNN builds take larger blocks from a pool, smaller ones from malloc
_SHARED = 256  # bytes: smaller tensors are not asked for their buffer, which takes 4 us
_MOST_SHARED = 50_000


@dataclass(frozen=True)
class Snapshot:
    """Counts and bytes by group at one tick, sorted by key; `tensors` is the tensors' own bytes (shape x dtype).

    A snapshot with a `base` keeps only the groups that differ from it: a TensorFlow program has 100,000 groups, and a
    few hundred change.

    `pooled` is the part of `tensor_bytes` in blocks that TensorFlow takes from its CPU pool where it has one.
    `held` are objects that only native code holds and `garbage` those that only each other hold: (objects, bytes,
    tensor bytes).
    """

    tick: int
    base: Snapshot | None
    keys: Keys
    counts: Ints
    bytes: Ints
    tensors: Ints
    held: tuple[int, int, int]
    garbage: tuple[int, int, int]
    objects: int
    python_bytes: int
    tensor_bytes: int
    pooled: int = 0

    def column(self, keys: Keys, name: str) -> Ints:
        """One column (`counts`, `bytes`, `tensors`) for these keys; 0 where a group did not exist."""
        unknown = self.base.column(keys, name) if self.base is not None else np.zeros(len(keys), np.int64)
        if not len(self.keys):
            return unknown
        place = np.clip(np.searchsorted(self.keys, keys), 0, len(self.keys) - 1)
        return np.where(self.keys[place] == keys, getattr(self, name)[place], unknown)

    def beside(self, base: Snapshot) -> Snapshot:
        """The same snapshot, keeping only what differs from the base (which has none itself)."""
        keys = np.union1d(self.keys, base.keys)
        columns = {name: self.column(keys, name) for name in ("counts", "bytes", "tensors")}
        differs = np.zeros(len(keys), np.bool_)
        for name, values in columns.items():
            differs |= values != base.column(keys, name)
        counts, sizes, tensors = (columns[name][differs] for name in ("counts", "bytes", "tensors"))
        return replace(self, base=base, keys=keys[differs], counts=counts, bytes=sizes, tensors=tensors)


@dataclass(frozen=True)
class Tree:
    """The groups of one walk in breadth-first order: parents come before their children."""

    keys: Keys
    parents: Ints
    tiers: Ints
    labels: Sequence[str]
    types: Sequence[str]

    def root(self, index: int) -> str:
        """The label of the root that this group hangs from."""
        while self.parents[index] >= 0:
            index = int(self.parents[index])
        return self.labels[index]


@dataclass(frozen=True)
class Look:
    """A snapshot with the tree it was counted in, and the objects asked for: drop it at once, it holds them."""

    snapshot: Snapshot
    tree: Tree
    found: Sequence[heap.Found]
    missing: tuple[Missing, ...] = field(default=())


def kinds() -> dict[str, tuple[type, ...]]:
    """The types that carry memory or explain a holder, by kind. TensorFlow's only when TensorFlow is loaded."""
    found: dict[str, tuple[type, ...]] = {
        "exception": (BaseException, types.TracebackType),
        "frame": (types.FrameType,),
        "lru-cache": (functools._lru_cache_wrapper,),
    }
    if tensorflow_loaded():
        from tenure.probes.tf import handles

        known, _ = read(handles.tensor_types, "TensorFlow's types")
        found.update(known or {})
    else:
        found["array"] = (np.ndarray,)
    return found


def tensorflow_loaded() -> bool:
    """Whether TensorFlow is imported to the end; a half-imported one must not be touched."""
    module = sys.modules.get("tensorflow")
    return module is not None and hasattr(module, "__version__") and hasattr(module, "Variable")


_frames: Sequence[heap.Root] | None = None


def use_frames(frames: Sequence[heap.Root]) -> None:
    """In a forked copy: these are the frames' variables. The copy has one thread only, the others' frames are gone."""
    global _frames
    _frames = frames


_target: object = None
_contexts: tuple[contextvars.Context, ...] = ()


@contextlib.contextmanager
def rooted(target: object, *contexts: contextvars.Context) -> Iterator[None]:
    """While it lasts, what only this callable reaches is the user's: its globals, its closure, what it is bound to, the
    variables of the contexts that it runs in."""
    global _target, _contexts
    before = _target, _contexts
    _target, _contexts = target, contexts
    try:
        yield
    finally:
        _target, _contexts = before


def roots() -> tuple[list[heap.Root], dict[str, Any]]:
    """The roots of a walk and its fixed arguments: modules and frames, the framework's registries last."""
    modules = heap.module_roots(retention.user_module)
    space = _namespace(_target)
    if space is not None and all(root.obj is not space for root in modules.roots):
        # Its module has left `sys.modules`: only the target's functions hold its globals.
        modules.roots.append(heap.Root(f"module {space.get('__name__', '?')}", space, 0))
        modules.barriers.append(space)
        modules = modules._replace(user_globals=modules.user_globals | {id(space)})
    listed = [*modules.roots, *(heap.frame_roots(retention.user_frame) if _frames is None else _frames)]
    if tensorflow_loaded():
        from tenure.probes.tf import registries

        containers, _ = read(registries.registry_objects, "TensorFlow's registries")
        listed += [heap.Root(label, container, 2) for label, container in containers or ()]
    fixed: dict[str, Any] = {"user_globals": modules.user_globals, "barriers": modules.barriers, "cut": modules.cut}
    listed += _late_roots()
    return listed, fixed


def _namespace(target: object) -> dict[str, Any] | None:
    """The globals of the function that a call of the target runs; None for what is not written in Python."""
    function = _function(target)
    if not is_a(function, types.FunctionType):
        function = inspect.getattr_static(type(function), "__call__", None)
    return function.__globals__ if is_a(function, types.FunctionType) else None


def _function(callback: object) -> object:
    """What is called in the end, past partials, methods and wrappers."""
    while True:
        if is_a(callback, types.MethodType):
            callback = callback.__func__
        elif is_a(callback, functools.partial):
            callback = callback.func
        else:
            break
    with contextlib.suppress(ValueError):  # wrapped in itself
        return inspect.unwrap(callback) if callable(callback) else callback
    return callback


def _late_roots() -> list[heap.Root]:
    """What the interpreter holds for the user: it is named so where no module or frame holds it too."""
    held: list[tuple[str, object]] = []
    if _target is not None:
        thing = _target.__self__ if is_a(_target, types.MethodType) else _target
        held.append((f"target {getattr(thing, '__qualname__', type(thing).__qualname__)}", thing))
    for context in (contextvars.copy_context(), *_contexts):
        held += [(f"context variable '{variable.name}'", value) for variable, value in context.items()]
    for number in signal.valid_signals():
        handler = signal.getsignal(number)
        if callable(handler):
            held.append((f"signal handler of {signal.Signals(number).name}", handler))
    for info in _finalizers():
        file = getattr(getattr(_function(info.func), "__code__", None), "co_filename", None)
        if file is None or retention.user_file(file):  # Keras has one for each of many tensors
            held += [(f"finalizer {_place(info.func)}", part) for part in (info.func, info.args, info.kwargs) if part]
    return [heap.Root(label, thing, 0, late=True) for label, thing in held if not is_a(thing, _ATOMS)]


_ATOMS = (str, int, float, bool, type(None))


def _finalizers() -> list[Any]:
    """What `weakref.finalize` keeps, each with `func`, `args` and `kwargs`; empty where Python keeps it otherwise."""
    registry = getattr(weakref.finalize, "_registry", None)
    found = list(registry.values()) if is_a(registry, dict) else []
    return [info for info in found if hasattr(info, "func") and hasattr(info, "args") and hasattr(info, "kwargs")]


def _place(callback: object) -> str:
    """A function and where it is, in short: `save (train.py:12)`."""
    function = _function(callback)
    code = getattr(function, "__code__", None)
    name = getattr(function, "__qualname__", type(function).__qualname__)
    return f"{name} ({os.path.basename(code.co_filename)}:{code.co_firstlineno})" if code is not None else name


def take(tick: int, cut: Sequence[object] = ()) -> Snapshot:
    """The counts at this tick. Main thread only; holds the interpreter for the walk (0.1-0.3 s a million objects)."""
    return look(tick, cut).snapshot


def look(
    tick: int,
    cut: Sequence[object] = (),
    select: Mapping[str, tuple[type, ...]] | None = None,
    groups: Mapping[int, int] | None = None,
    paths: bool = False,
) -> Look:
    """The counts at this tick together with chosen objects: by kind, by group (`groups`: key -> how many samples)."""
    listed, fixed = roots()
    tensor_types = _tensor_types()
    chosen = {type_ for types_ in (select or {}).values() for type_ in types_} | set(tensor_types)
    fixed["cut"] = [*fixed["cut"], *cut]
    walked = heap.walk(
        listed,
        select_types=tuple(chosen),
        select_groups=dict(groups) if groups else None,
        paths=paths,
        groups=True,
        unreached=True,
        **fixed,
    )
    if walked.groups is None or walked.unreached is None:
        raise RuntimeError("the walk gave no groups")
    tree = _tree(walked.groups)
    payload = np.zeros(len(tree.keys), np.int64)
    held_bytes = garbage_bytes = pooled = 0
    weigh = weigher()
    for item in walked.found:
        if tensor_types and is_a(item.obj, tensor_types):
            size = weigh(item.obj)
            pooled += size if size >= _POOLED else 0
            if item.tier == NATIVE_TIER:
                held_bytes += size
            elif item.tier == GARBAGE_TIER:
                garbage_bytes += size
            elif item.group >= 0:
                payload[item.group] += size
    counts = np.asarray(walked.groups.counts, np.int64)
    shallow = np.asarray(walked.groups.bytes, np.int64)
    held = (*_total(walked.unreached.native), held_bytes)
    garbage = (*_total(walked.unreached.garbage), garbage_bytes)
    order = np.argsort(tree.keys, kind="stable")
    snapshot = Snapshot(
        tick,
        None,
        tree.keys[order],
        counts[order],
        (shallow + payload)[order],
        payload[order],
        held,
        garbage,
        walked.objects,
        int(shallow.sum()) + held[1] + garbage[1],
        int(payload.sum()) + held_bytes + garbage_bytes,
        pooled,
    )
    return Look(snapshot, tree, walked.found)


def _total(groups: Sequence[heap.TypeGroup]) -> tuple[int, int]:
    return sum(group.count for group in groups), sum(group.bytes for group in groups)


def _tree(groups: heap.Groups) -> Tree:
    return Tree(
        np.asarray(groups.keys, np.uint64),
        np.asarray(groups.parents, np.int64),
        np.asarray(groups.tiers, np.int64),
        groups.labels,
        groups.types,
    )


def _tensor_types() -> tuple[type, ...]:
    return kinds().get("tensor", ()) if tensorflow_loaded() else ()


def weigher() -> Callable[[Any], int]:
    """Bytes of a tensor, or of what a resource handle owns; 0 for a buffer that was weighed before.

    What a tape holds twice (an op's output and the next op's input through a reshape or a variable's read) is one
    buffer: 1.8 times the bytes were seen without. A tensor that can't tell its shape weighs nothing.
    """
    if not tensorflow_loaded():
        return lambda thing: int(getattr(thing, "nbytes", 0)) if is_a(thing, np.ndarray) else 0
    from tenure.probes.tf import handles

    seen: set[int] = set()

    def weigh(tensor: Any) -> int:
        if is_a(tensor, np.ndarray):
            return int(tensor.nbytes)
        try:
            if handles.is_resource(tensor):
                return handles.handle_bytes(tensor)
            size = handles.tensor_bytes(tensor)
            if size < _SHARED or len(seen) >= _MOST_SHARED:
                return size
            address = handles.buffer_address(tensor)
            if address is None:
                return size
            if address in seen:
                return 0
            seen.add(address)
            return size
        except Exception:  # a tensor whose op failed raises its op's error on every read
            return 0

    return weigh
