"""What is alive now: variables, tensors, graphs, functions, tapes and the rest, with their bytes, owners and births.

Bytes are shape x dtype of unique buffers: a view, a reshape or `variable.value()` is counted once, with the first that
was reached. Nothing is kept: the records hold text and numbers only.

What the user's modules, all running functions and the framework's registries reach takes a tenth of a walk of the whole
heap (5 against 55 ms at 300,000 objects), so that is looked at first. The rest, which only libraries or native code
hold, is looked for when there is a reason: a tape that holds things, frozen objects, or bytes in TensorFlow's pool that
no tensor seen accounts for.
"""

from __future__ import annotations

import gc
import threading
from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from tenure.observe.naming import name_path, path_text
from tenure.observe.snapshot import kinds, roots, tensorflow_loaded
from tenure.probes import ProbeError, heap, read
from tenure.probes.apart import numpy as np
from tenure.probes.kinds import is_a
from tenure.records import Missing

__all__ = ["Census", "Owned", "Row", "Traces", "census"]

_OWNERS = (
    "model",
    "optimizer",
    "function",
    "tape",
    "tensor-array",
    "dataset",
    "iterator",
    "session",
    "summary-writer",
    "lookup-table",
)
_LARGE_ARRAY = 4096  # bytes: smaller arrays are counted with their container
_NAMED = 20
_POOLED = 262_144  # bytes: TensorFlow's CPU pool keeps no smaller block
_UNEXPLAINED = 1 << 20  # bytes in the pool, beside a twentieth of it, that are no reason to look further


@dataclass(frozen=True, slots=True)
class Row:
    """How many things of a kind are alive and the bytes of their unique buffers."""

    kind: str
    count: int
    bytes: int


@dataclass(frozen=True, slots=True)
class Owned:
    """What one owner (a model, an optimizer, a container) keeps: its name in the user's words, things, bytes."""

    owner: str
    kind: str
    count: int
    bytes: int


@dataclass(frozen=True, slots=True)
class Traces:
    """How many traces a `tf.function` holds."""

    function: str
    count: int


@dataclass(frozen=True, slots=True)
class Census:
    """What is alive now. `tensor_bytes` are unique buffers; `pool_bytes` is TensorFlow's own counter (or None).

    `unattributed` is what the pool has in use beyond the tensors that were seen: tapes, datasets, functions' constants.
    `deep` tells whether all of the heap was looked at, `objects` how many Python objects were.
    """

    rows: tuple[Row, ...]
    owners: tuple[Owned, ...]
    devices: tuple[Row, ...]
    births: tuple[tuple[str, int, int], ...]
    functions: tuple[Traces, ...]
    tensor_bytes: int
    pool_bytes: int | None
    unattributed: int | None
    objects: int
    missing: tuple[Missing, ...]
    deep: bool = True

    def __str__(self) -> str:
        lines = [f"{self.tensor_bytes / 1e6:.1f} MB in tensors, {self.objects} objects seen"]
        lines += [f"  {row.count:>7} {row.kind:<16} {row.bytes / 1e6:>10.2f} MB" for row in self.rows]
        if self.owners:
            lines.append("by owner")
            lines += [f"  {o.bytes / 1e6:>10.2f} MB in {o.count} {o.kind}s: {o.owner}" for o in self.owners]
        if self.functions:
            lines.append("traces: " + ", ".join(f"{t.function} {t.count}" for t in self.functions))
        if self.unattributed is not None:
            lines.append(
                f"{self.unattributed / 1e6:.1f} MB more in TensorFlow's pool that no visible tensor accounts for"
            )
        lines += [f"missing: {m.figure} ({m.why})" for m in self.missing]
        return "\n".join(lines)


def census(births: Any = None, *, deep: bool | None = None) -> Census:
    """What is alive now. Main thread only: RuntimeError elsewhere, because a heap walk belongs there.

    `births` (an `observe.births.Births` that is running) adds the lines that made the tensors and variables. `deep`
    walks the whole heap (0.1 s at 300,000 objects) for what only libraries or native code hold; None does so when
    there is a reason, and `missing` says when it was left out.
    """
    if threading.current_thread() is not threading.main_thread():
        raise RuntimeError("tenure.census() walks the heap and must be called on the main thread")
    wanted = {kind: types for kind, types in kinds().items() if kind not in ("exception", "frame", "lru-cache")}
    listed, fixed = roots()
    if not deep:
        libraries = {id(space) for space in fixed["barriers"]}
        near = [root for root in listed if root.tier != 1 or id(root.obj) not in libraries]
        seen = _look(near, fixed, wanted, births, False)
        if deep is False or not _reason_to_go_on(seen):
            return seen[0]
        del seen
    return _look(listed, fixed, wanted, births, True)[0]


def _look(
    listed: Sequence[heap.Root],
    fixed: dict[str, Any],
    wanted: dict[str, tuple[type, ...]],
    births: Any,
    deep: bool,
) -> tuple[Census, bool]:
    """The census from these roots, and whether a tape was seen that holds things."""
    walked = heap.walk(
        listed,
        select_types=tuple(t for types in wanted.values() for t in types),
        groups=False,
        paths=True,
        unreached=deep,
        **fixed,
    )
    return _count(walked, wanted, births, deep)


def _reason_to_go_on(seen: tuple[Census, bool]) -> bool:
    near, taped = seen
    if not tensorflow_loaded():
        return False
    if taped or gc.get_freeze_count() or near.pool_bytes is None or near.unattributed is None:
        return True
    return near.unattributed > max(_UNEXPLAINED, near.pool_bytes // 20)


def _count(walked: heap.Heap, wanted: dict[str, tuple[type, ...]], births: Any, deep: bool) -> tuple[Census, bool]:
    kind_of: dict[type, str | None] = {}
    counts: dict[str, int] = defaultdict(int)
    sizes: dict[str, int] = defaultdict(int)
    devices: dict[str, list[int]] = defaultdict(lambda: [0, 0])
    owners: dict[int, list[Any]] = {}
    born: dict[str, list[int]] = defaultdict(lambda: [0, 0])
    traces: dict[str, int] = {}
    seen: set[int] = set()
    total = pooled = 0
    taped = False
    for found in walked.found:
        if found.tier == 4:
            continue
        obj = found.obj
        kind = _kind(obj, wanted, kind_of)
        if kind is None:
            continue
        kind, size, device = _weigh(obj, kind, seen)
        if kind == "array" and size < _LARGE_ARRAY:
            continue
        counts[kind] += 1
        sizes[kind] += size
        if kind != "array":
            total += size
            pooled += size if size >= _POOLED or not device.startswith("CPU") else 0
        if device:
            devices[device][0] += 1
            devices[device][1] += size
        if kind == "function":
            _note_traces(obj, traces)
        elif kind == "tape":
            taped = taped or _holds(obj)
        if size:
            _note_owner(found, wanted, kind_of, owners, size)
            if births is not None:
                site = births.site_of(obj)
                if site is not None:
                    place = born[f"{site.file}:{site.line}"]
                    place[0] += 1
                    place[1] += size
    pool, lost = _pool()
    named = sorted(owners.values(), key=lambda o: -o[2])[:_NAMED]
    rows = sorted((Row(kind, count, sizes[kind]) for kind, count in counts.items()), key=lambda r: (-r.bytes, -r.count))
    near = Missing("what only libraries or native code hold", "nothing told of it; census(deep=True) looks for it")
    census = Census(
        rows=tuple(rows),
        owners=tuple(Owned(_owner_name(o[0]), o[3], o[1], o[2]) for o in named),
        devices=tuple(Row(device, n, size) for device, (n, size) in sorted(devices.items())),
        births=tuple(sorted(((place, n, size) for place, (n, size) in born.items()), key=lambda b: -b[2])[:_NAMED]),
        functions=tuple(Traces(name, n) for name, n in sorted(traces.items(), key=lambda t: -t[1])[:_NAMED]),
        tensor_bytes=total,
        pool_bytes=pool,
        unattributed=max(pool - pooled, 0) if pool is not None else None,
        objects=walked.objects,
        missing=(*walked.missing, *((lost,) if lost else ()), *(() if deep else (near,))),
        deep=deep,
    )
    return census, taped


def _holds(tape: Any) -> bool:
    from tenure.probes.tf import tapes

    told, _ = read(lambda: tapes.state(tape), "a tape's state")
    return told is None or told.recording or told.holds


def _kind(obj: object, wanted: dict[str, tuple[type, ...]], memo: dict[type, str | None]) -> str | None:
    type_ = type(obj)
    if type_ not in memo:
        memo[type_] = next((kind for kind, types in wanted.items() if issubclass(type_, types)), None)
    return memo[type_]


def _weigh(obj: Any, kind: str, seen: set[int]) -> tuple[str, int, str]:
    """Kind (handles and variants told apart), bytes not counted before, and device of a thing that has bytes."""
    if kind not in ("tensor", "array"):
        return kind, 0, ""
    if kind == "array" and not tensorflow_loaded():
        return kind, int(obj.nbytes) if obj.base is None else 0, ""
    from tenure.probes.tf import handles

    if kind == "array":
        if obj.base is None and obj.nbytes < _LARGE_ARRAY:
            return kind, 0, ""
        if is_a(obj.base, np.ndarray):
            return kind, 0, ""  # the array behind it is reached through it and counted
        owner = handles.array_owner(obj)
        if owner.address is not None:
            if owner.address in seen:
                return kind, 0, ""
            seen.add(owner.address)
        return kind, owner.kept, ""
    try:
        dtype = obj.dtype
        device = str(obj.backing_device or "").rpartition("/device:")[2] or "CPU:0"
        if handles.is_resource(obj):
            return "resource handle", handles.handle_bytes(obj), device
        if dtype.name == "variant":
            return "variant", 0, device
        address = handles.buffer_address(obj)
        if address is not None:
            if address in seen:
                return kind, 0, device
            seen.add(address)
        return kind, handles.tensor_bytes(obj), device
    except Exception:  # a tensor whose op failed raises its op's error on every read; it is alive all the same
        return kind, 0, ""


def _note_owner(
    found: heap.Found,
    wanted: dict[str, tuple[type, ...]],
    memo: dict[type, str | None],
    owners: dict[int, list[Any]],
    size: int,
) -> None:
    """Adds the bytes to the nearest model, optimizer, function on the way, else to the nearest container."""
    path: Sequence[object] = found.path
    place = next((i for i in range(len(path) - 1, -1, -1) if _kind(path[i], wanted, memo) in _OWNERS), None)
    if place is None and found.tier == 3:
        path = ()  # reached from a thing that native code holds: one line for all of them
    elif place is None:
        place = next(
            (i for i in range(len(path) - 1, -1, -1) if is_a(path[i], (list, dict, set, tuple))), len(path) - 1
        )
    key = id(path[place]) if path and place is not None else -found.tier - 1
    entry = owners.get(key)
    if entry is None:
        kind = _kind(path[place], wanted, memo) if path and place is not None else None
        owners[key] = [(found.root, path[: (place or 0) + 1], found.tier), 1, size, kind or "thing"]
    else:
        entry[1] += 1
        entry[2] += size


def _owner_name(where: tuple[str, Sequence[object], int]) -> str:
    root, path, tier = where
    if not path:
        return "held by native code only (a tape, a dataset, an iterator)" if tier == 3 else root
    named, _ = read(lambda: path_text(name_path(root, path[:-1], path[-1])), "owner")
    return named or root


def _note_traces(function: Any, traces: dict[str, int]) -> None:
    from tenure.probes.tf import functions

    try:
        name = functions.name(function)
        traces[name] = traces.get(name, 0) + functions.trace_count(function)
    except ProbeError:
        return


def _pool() -> tuple[int | None, Missing | None]:
    if not tensorflow_loaded():
        return None, None
    from tenure.probes.tf import allocator

    return read(allocator.pool_bytes, "TensorFlow's pool")
