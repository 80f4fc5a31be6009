"""The object-graph walk in Python: the twin of `_heap.c` gives the same answer step by step, 20 times slower.

It holds strong references to what it has reached until it returns, and other threads may run in between: it is exact
in a program with one thread, and near enough otherwise. `heap.py` describes the walk; here are the C functions again.
"""

from __future__ import annotations

import ctypes
import gc
import os
import sys
from array import array
from collections.abc import Callable, Iterable, Iterator, Sequence
from itertools import chain
from types import FunctionType, ModuleType
from typing import Any

__all__ = ["array_facts", "fork", "walk"]

WANT_GROUPS, WANT_PATHS, WANT_UNREACHED = 1, 2, 4
MAIN, HIDDEN, NATIVE, GARBAGE, RETAIN = range(5)
LATE = 3
GC, SELECT, ARRAY, LARGE, DICT, FUNC, TYPE, PLAIN, HAS_DICT, DICT_SUB, STR = (1 << i for i in range(11))
UNNAMED = FUNC | TYPE | STR
PATH_FIRST, PATH_LAST = 48, 16
FIELDS = 64
PAYLOAD, LABELS_MAX, GROUPS_MAX, RECURSION, HOLDERS, ORDINALS = 512, 256, 1 << 20, 4, 8, 64
DEPTH = (32, 8, 8, 8, 8)
UNLABELLED, NAMES, NUMBERS = range(3)
SIZE_LIMIT = 1 << 40
NO_ROOT = -1 << 40
MASK = (1 << 64) - 1

HAVE_GC, HEAP_TYPE, MANAGED_DICT, MANAGED_WEAKREF = 1 << 14, 1 << 9, 1 << 4, 1 << 3
TYPE_SUBCLASS, DICT_SUBCLASS, STR_SUBCLASS, BYTES_SUBCLASS = 1 << 31, 1 << 29, 1 << 28, 1 << 27
INLINE = MANAGED_DICT if sys.version_info >= (3, 11) else 0  # the bit means nothing before
PREHEADER = (
    0 if sys.version_info < (3, 11) else MANAGED_DICT if sys.version_info < (3, 12) else MANAGED_DICT | MANAGED_WEAKREF
)

# a type's own facts, asked of `type` itself: a metaclass may answer anything, or run code
_flags = type.__dict__["__flags__"].__get__
_basicsize = type.__dict__["__basicsize__"].__get__
_itemsize = type.__dict__["__itemsize__"].__get__
_dictoffset = type.__dict__["__dictoffset__"].__get__
_mro = type.__dict__["__mro__"].__get__
_base = type.__dict__["__base__"].__get__
_dict = type.__dict__["__dict__"].__get__
_qualname = type.__dict__["__qualname__"].__get__
_module = type.__dict__["__module__"].__get__
_globals = FunctionType.__dict__["__globals__"].__get__


def _mix(x: int) -> int:
    x ^= x >> 29
    x = x * 0x9E3779B97F4A7C15 & MASK
    return x ^ (x >> 32)


def _shows_the_dead(o: object) -> bool:
    """Python 3.12's module _asyncio shows the collector its free list, whose iterators have no owner: to take one frees
    it a second time, and the list becomes a ring in which the collector turns for ever."""
    return type(o) is ModuleType and sys.version_info[:2] == (3, 12) and o is sys.modules.get("_asyncio")


def _own_references() -> int:
    """What `sys.getrefcount` says, in a loop over a list of referents, of an atom that only its container refers to."""
    container = [float("1.5")]
    for item in gc.get_referents(container):
        return sys.getrefcount(item)
    return 4


ALONE = _own_references()


def type_name(t: type) -> str:
    """A type's "module.qualname" without "builtins.", asked of no metaclass."""
    name: str = _qualname(t)
    module = _dict(t).get("__module__") if _flags(t) & HEAP_TYPE else _module(t)
    return f"{module}.{name}" if type(module) is str and module != "builtins" else name


def _is_plain(t: type) -> bool:
    if not _flags(t) & MANAGED_DICT & INLINE:
        return False
    while t is not None and t is not object:
        if not _flags(t) & HEAP_TYPE:
            return False
        if not _flags(t) & MANAGED_DICT and _basicsize(t) > object.__basicsize__:
            return False
        t = _base(t)
    return True


def _attribute_dict(o: object, t: type) -> int:
    """The address of the dict that holds an object's attributes, 0 when there is none (it is never made)."""
    if _flags(t) & MANAGED_DICT & INLINE:
        at = ctypes.c_size_t.from_address(id(o) - 3 * 8).value
        return 0 if at & 1 else at
    offset = _dictoffset(t)
    if offset < 0:
        size = abs(ctypes.c_ssize_t.from_address(id(o) + 16).value)
        offset += (_basicsize(t) + _itemsize(t) * size + 7) // 8 * 8
    return ctypes.c_size_t.from_address(id(o) + offset).value


class _Info:
    """What is decided once for a type."""

    __slots__ = ("bytes", "count", "flags", "hash", "name", "pre", "sizer")

    def __init__(self, t: type, flags: int, sizer: Callable[[object], int]) -> None:
        self.flags = flags
        self.sizer = sizer
        self.pre = 16 + (16 if _flags(t) & PREHEADER else 0)
        self.name = type_name(t)
        self.hash = hash(self.name) & MASK
        self.count = [0, 0]
        self.bytes = [0, 0]


class _Groups:
    """The tree of groups as parallel lists."""

    def __init__(self, samples: dict[int, int]) -> None:
        self.keys: list[int] = []
        self.parents: list[int] = []
        self.labels: list[str] = []
        self.label_hashes: list[int] = []
        self.infos: list[_Info] = []
        self.depths: list[int] = []
        self.tiers: list[int] = []
        self.counts: list[int] = []
        self.bytes: list[int] = []
        self.table: dict[int, int] = {}
        self.samples: dict[int, list[int]] = {}
        self.most = {key & MASK: n for key, n in samples.items() if n > 0}

    def find(self, parent: int, label: str | None, info: _Info, tier: int) -> int:
        label_hash = 0
        if parent < 0:
            label_hash = hash(label) & MASK
            key = _mix((label_hash + 0x9FB21C651E98DF25) & MASK)
        else:
            while self.depths[parent] >= DEPTH[tier]:
                parent, label = self.parents[parent], None
            if label is not None:
                label_hash = hash(label) & MASK
            if tier != self.tiers[parent]:
                label_hash = (label_hash + 0xD6E8FEB86659FD93 * (tier + 1)) & MASK
            own = (self.keys[parent] ^ (label_hash * 0xC2B2AE3D27D4EB4F & MASK)) + info.hash * 0x165667B19E3779F9
            key = _mix(own & MASK)
        key = key or 1
        group = self.table.get(key)
        if group is None:
            group = self.table[key] = self._settle(key, parent, label, label_hash, info, tier)
        return group

    def _settle(self, key: int, parent: int, label: str | None, label_hash: int, info: _Info, tier: int) -> int:
        if parent >= 0:
            up = parent
            for _ in range(RECURSION):
                if self.parents[up] < 0 or self.infos[up].flags & TYPE:
                    break
                alike = self.label_hashes[up] == label_hash and self.infos[up].hash == info.hash
                # Two steps must repeat, not one: a variable's __dict__ is not that of the wrapper that lists it.
                if alike and self._same_step(parent, self.parents[up]):
                    return up
                up = self.parents[up]
            if len(self.keys) >= GROUPS_MAX:
                return parent
        self.keys.append(key)
        self.parents.append(parent)
        self.labels.append(label or "")
        self.label_hashes.append(label_hash)
        self.infos.append(info)
        self.depths.append(0 if parent < 0 else self.depths[parent] + 1)
        self.tiers.append(tier)
        self.counts.append(0)
        self.bytes.append(0)
        if key in self.most:
            self.samples[len(self.keys) - 1] = []
        return len(self.keys) - 1

    def _same_step(self, a: int, b: int) -> bool:
        return self.label_hashes[a] == self.label_hashes[b] and self.infos[a].hash == self.infos[b].hash

    def result(self) -> tuple[Any, ...]:
        return (
            array("Q", self.keys).tobytes(),
            array("i", self.parents).tobytes(),
            array("B", self.tiers).tobytes(),
            array("q", self.counts).tobytes(),
            array("q", self.bytes).tobytes(),
            tuple(self.labels),
            tuple(info.name for info in self.infos),
        )


class _Walk:
    def __init__(
        self,
        labels: Sequence[str],
        user_globals: Iterable[int],
        user_names: frozenset[str],
        select_types: tuple[type, ...],
        select_ids: Iterable[int],
        select_groups: dict[int, int],
        want: int,
        sizers: tuple[tuple[type, Callable[[object], int]], ...],
        ndarray: type | None,
    ) -> None:
        self.labels = labels
        self.user_globals = frozenset(user_globals)
        self.user_names = user_names
        self.select_types = select_types
        self.selected: dict[int, list[int]] = {i: [] for i in select_ids if i}
        self.want = want
        self.sizers = dict(sizers)
        self.ndarray = ndarray
        self.mode, self.tier, self.edges, self.head = MAIN, 0, 0, 0
        self.seen: set[int] = set()
        self.objects: list[object] = []
        self.parents: list[int] = []  # -1 - i: root i; NO_ROOT
        self.groups = _Groups(select_groups) if want & WANT_GROUPS else None
        self.group: list[int] = []
        self.spaces: set[int] = set()
        self.types: dict[type, _Info] = {}
        self.deferred: list[int] = []
        self.found: list[int] = []
        self.kept = [0, 0]

    # ---- types and sizes ----

    def info(self, t: type) -> _Info:
        info = self.types.get(t)
        if info is None:
            info = self.types[t] = self.new_info(t)
        return info

    def new_info(self, t: type) -> _Info:
        own, mro = _flags(t), _mro(t)
        flags = GC if own & HAVE_GC else 0
        flags |= DICT if t is dict else 0
        flags |= FUNC if t is FunctionType else 0
        flags |= TYPE if own & TYPE_SUBCLASS else 0
        flags |= DICT_SUB if own & DICT_SUBCLASS else 0
        flags |= LARGE if own & BYTES_SUBCLASS or bytearray in mro else 0
        flags |= LARGE | STR if own & STR_SUBCLASS else 0
        flags |= ARRAY if self.ndarray is not None and self.ndarray in mro else 0
        flags |= PLAIN if _is_plain(t) else 0
        flags |= HAS_DICT if _dictoffset(t) or own & MANAGED_DICT & INLINE else 0
        flags |= SELECT if any(one in mro for one in self.select_types) else 0
        sizer = next((self.sizers[base] for base in mro if base in self.sizers), object.__sizeof__)
        return _Info(t, flags, sizer)

    def is_gc(self, o: object, flags: int) -> bool:
        return bool(flags & GC) and not (flags & TYPE and not _flags(o) & HEAP_TYPE)

    def size(self, o: object, info: _Info, tracked: bool) -> int:
        size = info.sizer(o)
        if not 0 <= size <= SIZE_LIMIT:
            size = _basicsize(type(o))
        return size + (info.pre if tracked else 0)

    # ---- the walk ----

    def add(self, o: object, parent: int, label: str | None, space: bool, references: int) -> None:
        """One new reference: an atom that counts for its container, or a new node. `references`: see ALONE."""
        info = self.info(type(o))
        flags = info.flags
        tracked = self.is_gc(o, flags)
        asked = id(o) in self.selected
        if not tracked and not flags & (SELECT | ARRAY) and not asked and not (flags & LARGE and _is_large(o, flags)):
            weigh = self.groups is not None if self.mode == MAIN else self.mode != HIDDEN
            if weigh and references == ALONE and parent >= 0:
                self.add_bytes(parent, self.size(o, info, False))
            return
        node = len(self.objects)
        self.objects.append(o)
        self.parents.append(parent)
        if self.groups is not None and self.mode == MAIN:
            if parent < 0:
                g = self.groups.find(-1, self.labels[-1 - parent], info, self.tier)
            else:
                label = None if self.tier and flags & UNNAMED else label
                g = self.groups.find(self.group[parent], label, info, self.tier)
            self.group.append(g)
            self.groups.counts[g] += 1
            self.groups.bytes[g] += self.size(o, info, tracked)
            sample = self.groups.samples.get(g)
            if sample is not None:
                sample.append(node)
                del sample[: -self.groups.most[self.groups.keys[g]]]
            if space:
                self.spaces.add(node)
        if self.mode in (NATIVE, GARBAGE):
            info.count[self.mode - NATIVE] += 1
            info.bytes[self.mode - NATIVE] += self.size(o, info, tracked)
        elif self.mode == RETAIN:
            self.kept[0] += 1
            self.kept[1] += self.size(o, info, tracked)
        if (flags & SELECT or asked) and self.mode != HIDDEN:
            self.found.append(node)

    def add_bytes(self, parent: int, size: int) -> None:
        if self.mode == RETAIN:
            self.kept[1] += size
        elif self.mode == MAIN and self.groups is not None:
            self.groups.bytes[self.group[parent]] += size
        else:
            self.info(type(self.objects[parent])).bytes[self.mode - NATIVE] += size

    def is_foreign(self, o: Any, flags: int) -> bool:
        if flags & FUNC:
            return id(_globals(o)) not in self.user_globals
        module = _dict(o).get("__module__")
        return not (type(module) is str and module in self.user_names)

    def expand(self, node: int, waited: bool = False) -> None:
        o: Any = self.objects[node]
        t = type(o)
        info = self.info(t)
        flags = info.flags
        tracked = self.is_gc(o, flags)
        if not tracked and not flags & ARRAY:
            return
        grouping = self.groups is not None and self.mode == MAIN
        if not waited and self.tier == 0 and self.mode == MAIN and flags & (FUNC | TYPE) and self.is_foreign(o, flags):
            self.deferred.append(node)
            return
        labels, space = UNLABELLED, 0
        if flags & DICT:
            refs = list(chain.from_iterable(o.items()))
            if node in self.spaces and (len(o) <= LABELS_MAX or (self.tier == 0 and self.parents[node] < 0)):
                labels = NAMES
        else:
            refs = ([vars(o)] if _shows_the_dead(o) else gc.get_referents(o)) if tracked else []
            spacious = grouping and flags & HAS_DICT and not (self.tier and flags & TYPE)
            if spacious and any(self.info(type(r)).flags & DICT_SUB for r in refs):
                space = _attribute_dict(o, t)
            if grouping and flags & PLAIN:
                labels = NUMBERS
            if flags & ARRAY:
                refs += _array_referents(o, self.ndarray)
        self.follow(node, refs, labels, space)

    def follow(self, node: int, refs: list[Any], labels: int, space: int) -> None:
        self.edges += len(refs)
        seen = self.seen
        if self.selected and self.mode == MAIN:
            self.note_holders(node, refs)
        label = None
        n = -1  # counted by hand: `enumerate` would hold a reference more
        for item in refs:
            n += 1
            i = id(item)
            if i not in seen:
                seen.add(i)
                references = sys.getrefcount(item)
                if labels == NUMBERS:
                    label = f"#{n}" if n < ORDINALS and i != space else None
                elif labels == NAMES and n & 1:
                    label = refs[n - 1] if type(refs[n - 1]) is str else None
                self.add(item, node, label, i == space, references)
                label = None

    def note_holders(self, node: int, refs: list[Any]) -> None:
        for item in refs:
            holders = self.selected.get(id(item))
            if holders is not None and len(holders) < HOLDERS and (not holders or holders[-1] != node):
                holders.append(node)

    def run_to(self, end: int) -> None:
        while self.head < end:
            self.expand(self.head)
            self.head += 1

    def run(self) -> None:
        while self.head < len(self.objects):
            self.run_to(len(self.objects))

    def start(self, o: object, parent: int, space: bool = False) -> None:
        self.seen.add(id(o))
        self.add(o, parent, None, space, 0)


def _is_large(o: Any, flags: int) -> bool:
    if not flags & STR:
        return (bytearray if isinstance(o, bytearray) else bytes).__len__(o) >= PAYLOAD
    n = str.__len__(o)
    if n >= PAYLOAD or n * 4 < PAYLOAD:
        return n >= PAYLOAD
    top = max(str.__iter__(o))
    return n * (1 if top < "\u0100" else 2 if top < "\U00010000" else 4) >= PAYLOAD


def _array_referents(o: Any, ndarray: Any) -> list[object]:
    """The base of an array, and what an array of objects holds."""
    attributes = ndarray.__dict__
    base = attributes["base"].__get__(o)
    refs = [] if base is None else [base]
    flags, dtype = attributes["flags"].__get__(o), attributes["dtype"].__get__(o)
    if dtype.num in (17, 20) and flags.owndata and (flags.c_contiguous or flags.f_contiguous):
        items = attributes["view"](o, type=ndarray).ravel("K")
        refs += items.tolist() if dtype.num == 17 else _record_objects(items, dtype)
    return refs


def _record_objects(records: Any, dtype: Any) -> list[object]:
    """The objects in an array of records, record by record."""
    columns = []
    for path in [*_object_fields(dtype, ())][:FIELDS]:
        column = records
        for name in path:
            column = column[name]
        columns.append(column.tolist())
    return [item for row in zip(*columns, strict=True) for item in row]


def _object_fields(dtype: Any, path: tuple[str, ...]) -> Iterator[tuple[str, ...]]:
    if dtype.num == 17:
        yield path
    for name in dtype.names or ():
        yield from _object_fields(dtype.fields[name][0], (*path, name))


def array_facts(o: Any) -> tuple[object, object]:
    """The base of an array and the first object of an array of objects: what the C module's self-test compares."""
    refs = _array_referents(o, type(o))
    base = type(o).__dict__["base"].__get__(o)
    rest = refs if base is None else refs[1:]
    return base, rest[0] if rest else None


def walk(
    objects: tuple[object, ...],
    tiers: bytes,
    labels: tuple[str, ...],
    user_globals: tuple[int, ...],
    user_names: frozenset[str],
    barriers: tuple[object, ...],
    cut: tuple[object, ...],
    targets: tuple[object, ...],
    select_types: tuple[type, ...],
    select_ids: tuple[int, ...],
    select_groups: dict[int, int],
    want: int,
    sizers: tuple[tuple[type, Callable[[object], int]], ...],
    ndarray: type | None,
    hidden: tuple[object, ...],
) -> tuple[Any, ...]:
    """(objects, edges, own bytes, groups, found, unreached, kept), as `_heap.walk` gives; `heap.walk` names them."""
    if not all(isinstance(one, type) for one in select_types):
        raise TypeError("select_types must be types")
    everything = gc.get_objects() if want & WANT_UNREACHED else None
    collecting = gc.isenabled()
    gc.disable()
    try:
        w = _Walk(labels, user_globals, user_names, select_types, select_ids, select_groups, want, sizers, ndarray)
        starts = _walk_tiers(w, objects, tiers, barriers, cut, targets)
        reached, edges = len(w.objects), w.edges
        kept = _keep(w, targets) if targets else None
        unreached = None
        if everything is not None:
            hide = (
                objects,
                labels,
                user_globals,
                barriers,
                cut,
                targets,
                select_types,
                select_ids,
                select_groups,
                hidden,
            )
            unreached = _split(w, everything, starts, cut, (*hide, sizers, user_names))
        found = _found(w, starts)
        groups = w.groups.result() if w.groups is not None else None
        return reached, edges, _memory(w, everything), groups, found, unreached, kept
    finally:
        if collecting:
            gc.enable()


def _walk_tiers(
    w: _Walk,
    objects: tuple[object, ...],
    tiers: bytes,
    barriers: tuple[object, ...],
    cut: tuple[object, ...],
    targets: tuple[object, ...],
) -> list[int]:
    barred, closed = set(map(id, barriers)), {id(o) for o in chain(cut, targets)}
    barred -= closed
    w.seen |= barred | closed
    starts = []
    for w.tier in range(3):
        starts.append(len(w.objects))
        _start_roots(w, objects, tiers, barred, w.tier)
        if w.tier == 1:
            w.run_to(len(w.objects))
            for node in w.deferred:
                w.expand(node, waited=True)
        w.run()
        if w.tier == 0:
            _start_roots(w, objects, tiers, barred, LATE)
            w.run()
    return [*starts, len(w.objects), len(w.objects)]


def _start_roots(w: _Walk, objects: tuple[object, ...], tiers: bytes, barred: set[int], tier: int) -> None:
    for i, o in enumerate(objects):
        if tiers[i] != tier or (id(o) in w.seen and id(o) not in barred):
            continue
        barrier = id(o) in barred
        barred.discard(id(o))
        w.start(o, -1 - i, barrier and w.tier < 2 and type(o) is dict)


def _keep(w: _Walk, targets: tuple[object, ...]) -> list[tuple[int, int, list[object]]]:
    w.mode, result = RETAIN, []
    for o in targets:
        first, w.kept = len(w.found), [0, 0]
        w.start(o, NO_ROOT)
        w.run()
        result.append((w.kept[0], w.kept[1], [w.objects[i] for i in w.found[first:]]))
        del w.found[first:]
    return result


def _split(
    w: _Walk, everything: list[object], starts: list[int], cut: tuple[object, ...], hide: tuple[object, ...]
) -> tuple[list[tuple[str, int, int]], list[tuple[str, int, int]]]:
    w.mode = HIDDEN
    mine = (everything, w, w.__dict__, *w.__dict__.values(), hide)
    w.seen.update(map(id, mine))
    for o in chain(cut, hide):
        w.start(o, NO_ROOT)
    w.run()
    starts[3] = len(w.objects)
    seen = w.seen
    references = {}
    for o in everything:
        if id(o) not in seen:
            references[id(o)] = sys.getrefcount(o) - 3
    for o in everything:
        if id(o) in references:
            for r in gc.get_referents(o):
                if id(r) in references:
                    references[id(r)] -= 1
    w.mode = NATIVE
    for o in everything:
        if references.get(id(o), 0) > 0 and id(o) not in seen:
            w.start(o, NO_ROOT)
    w.run()
    starts[4] = len(w.objects)
    w.mode = GARBAGE
    for o in everything:
        if id(o) in references and id(o) not in seen:
            w.start(o, NO_ROOT)
    w.run()
    infos = w.types.values()
    native, garbage = ([(i.name, i.count[k], i.bytes[k]) for i in infos if i.count[k]] for k in (0, 1))
    return native, garbage


def _measure_paths(w: _Walk) -> list[tuple[int, int]]:
    """Each node's depth, and the ancestor at the end of its path's first steps."""
    measured: list[tuple[int, int]] = []
    for node, parent in enumerate(w.parents):
        depth = 0 if parent < 0 else measured[parent][0] + 1
        measured.append((depth, node if depth < PATH_FIRST else measured[parent][1]))
    return measured


def _path(w: _Walk, node: int, include: bool, measured: list[tuple[int, int]]) -> tuple[int, tuple[object, ...]]:
    top = measured[node][1]
    root = w.parents[_up(w, top)[-1]]
    root = -1 if root == NO_ROOT else -1 - root
    end = node if include else w.parents[node]
    if not w.want & WANT_PATHS or end < 0:
        return root, ()
    last: list[int] = []
    while measured[end][0] >= PATH_FIRST and len(last) < PATH_LAST:
        last.append(end)
        end = w.parents[end]
    cut = measured[end][0] >= PATH_FIRST
    first = _up(w, top if cut else end)
    objects = w.objects
    return root, (*(objects[i] for i in first[::-1]), *(...,) * cut, *(objects[i] for i in last[::-1]))


def _up(w: _Walk, node: int) -> list[int]:
    steps = [node]
    while (node := w.parents[node]) >= 0:
        steps.append(node)
    return steps


def _found(w: _Walk, starts: list[int]) -> list[tuple[Any, ...]]:
    samples = w.groups.samples.values() if w.groups is not None else ()
    result = []
    measured = _measure_paths(w)
    for node in sorted({*w.found, *chain.from_iterable(samples)}):
        o = w.objects[node]
        tier = sum(node >= start for start in starts[1:])
        group = w.group[node] if w.groups is not None and tier < 3 else -1
        root, path = _path(w, node, False, measured)
        holders = tuple(_path(w, holder, True, measured) for holder in w.selected.get(id(o), ()))
        result.append((o, group, tier, root, path, holders))
    return result


def _memory(w: _Walk, everything: list[object] | None) -> int:
    mine: list[Any] = [w.seen, w.objects, w.parents, w.group, w.deferred, w.found, w.types, everything]
    return sum(map(sys.getsizeof, mine)) + 32 * (len(w.seen) + len(w.parents) + len(w.group))


def fork() -> int:
    """The child's pid, or 0 in the child: `os.fork`, which warns in programs with threads from Python 3.12."""
    return os.fork()
