"""Finds the populations that grow: the topmost holder paths below which there is more at each tick, and what they are.

Works on counts alone (`observe.snapshot`), then asks one last walk for samples of what grew, to name holder, birth and
kinds. The samples are dropped before the function returns.
"""

from __future__ import annotations

import itertools
import sys
import types
from collections import Counter, deque
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import lru_cache, partial
from typing import TYPE_CHECKING, Any

from tenure.explain.evidence import Bound, Garbage, Population
from tenure.explain.growth import Trend, spacing, sparse_trend, thirds, trend
from tenure.explain.witnesses import line_of_ops
from tenure.observe import retention
from tenure.observe.snapshot import GARBAGE_TIER, Look, Snapshot, Tree, kinds, look, weigher
from tenure.probes import heap, read
from tenure.probes.apart import numpy as np
from tenure.probes.kinds import is_a
from tenure.records import Birth, Changed, Holder

if TYPE_CHECKING:
    from tenure.observe.snapshot import Ints

__all__ = ["Top", "describe", "garbage", "growing", "held_tensors", "seldom", "stopped"]

_LruCache = type(lru_cache(str))

# Whose birth tells most about a population: the model before its variables, a variable before its tensors.
_TELLING = (
    "tape",
    "model",
    "optimizer",
    "module",
    "summary-writer",
    "session",
    "dataset",
    "lookup-table",
    "function",
    "layer",
    "keras-variable",
    "variable",
    "graph",
    "trace",
    "iterator",
    "tensor-array",
    "tensor",
    "array",
)
# The kinds whose constructors are hooked, so that each one made is known.
_MADE_IN_PYTHON = frozenset(
    ("model", "optimizer", "variable", "keras-variable", "function", "trace", "graph", "dataset")
)
_SAMPLES = 512  # of each group; all of its holders should be among them
_NAMED_SAMPLES = 12
_MOST_CONTAINERS = 16
_MOST_NAMED = 16
_MOST_MEMBERS = 64
_LEAST_NAMED = 256.0  # bytes a tick: below this growth is not worth a walk for its name
_LEAST_OF_HOLDERS = 32.0  # a kept tape is a few hundred bytes and holds megabytes that no traversal sees


@dataclass(frozen=True, slots=True)
class Top:
    """One topmost group that grows, with its series over the snapshots. `single`: one object that gets larger.

    `family`: the keys of all groups where there is a new name for each thing, in a module or an instance.
    """

    index: int
    key: int
    single: bool
    objects: tuple[int, ...]
    bytes: tuple[int, ...]
    tensors: tuple[int, ...]
    trend: Trend
    family: tuple[int, ...] = ()


def growing(snapshots: Sequence[Snapshot], tree: Tree) -> list[Top]:
    """The topmost groups that rose in every window between the snapshots, by bytes, largest first.

    `tree` is that of the last snapshot. A group counts when its objects rose in each window, or when it kept its
    objects and their own bytes rose in each.
    """
    if len(snapshots) < 2:
        return []
    ticks = [s.tick for s in snapshots]
    counts = np.stack([s.column(tree.keys, "counts") for s in snapshots])
    sizes = np.stack([s.column(tree.keys, "bytes") for s in snapshots])
    tensors = np.stack([s.column(tree.keys, "tensors") for s in snapshots])
    families = _families(tree, counts)
    for first, members in families.items():
        counts[:, first] = counts[:, members].sum(axis=1)
    eldest = {member: first for first, members in families.items() for member in members}
    more = np.all(np.diff(counts, axis=0) > 0, axis=0)
    larger = np.all(np.diff(sizes, axis=0) > 0, axis=0) & np.all(counts == counts[-1], axis=0)
    owner = _owners(tree, more, larger, eldest)
    sparse = _sparse(ticks, counts)
    if sparse.any():
        above = np.zeros(len(owner), np.bool_)
        for index in np.unique(owner[owner >= 0]):
            above[_path(tree, int(index))] = True
        sparse &= (owner < 0) & ~above
        owner = np.maximum(owner, _owners(tree, sparse, np.zeros_like(sparse), eldest))
    # What came with the first things of a kind (a library's class) and has stood since is no growth: 40 KB, measured.
    once = np.all(counts[1:] == counts[1], axis=0) & np.all(sizes[1:] == sizes[1], axis=0) & (counts[0] == 0)
    once &= len(snapshots) > 2
    tops = np.unique(owner[owner >= 0])
    found = []
    least = _LEAST_OF_HOLDERS if held_tensors(snapshots)[0] > 0 else _LEAST_NAMED
    for index in tops:
        family = families.get(int(index), [])
        below = (owner == index) if family else (owner == index) & ~once
        total = sizes[:, below].sum(axis=1)
        held = tensors[:, below].sum(axis=1)
        single = not bool(more[index] or sparse[index])
        told = trend(ticks, total.tolist())
        if sparse[index]:
            told = replace(
                sparse_trend(ticks, counts[:, index].tolist()),
                rate=float(total[-1] - total[0]) / (ticks[-1] - ticks[0]),
            )
        elif not told.rises and not single:  # the count rose in each window, the bytes below it only on the whole
            told = trend(ticks, counts[:, index].tolist())
            told = Trend(told.rises, told.steady, told.slowing, float(total[-1] - total[0]) / (ticks[-1] - ticks[0]))
        if told.rate < least:
            continue
        found.append(
            Top(
                int(index),
                int(tree.keys[index]),
                single,
                tuple(counts[:, index].tolist()),
                tuple(total.tolist()),
                tuple(held.tolist()),
                told,
                tuple(int(tree.keys[member]) for member in family),
            )
        )
    found.sort(key=lambda top: -top.trend.rate)
    return found[:_MOST_NAMED]


def _sparse(ticks: Sequence[int], counts: Ints) -> np.ndarray[Any, np.dtype[np.bool_]]:
    """The groups that rise steadily though not in each window: one more every seventh tick, say."""
    steps = np.diff(counts, axis=0)
    likely: np.ndarray[Any, np.dtype[np.bool_]] = np.all(steps >= 0, axis=0) & np.any(steps == 0, axis=0)
    likely &= counts[-1] > counts[0]
    for index in np.flatnonzero(likely):
        told = sparse_trend(ticks, counts[:, index].tolist())
        likely[index] = told.rises and told.steady and not told.slowing
    return likely


def seldom(snapshots: Sequence[Snapshot], tree: Tree, least: float) -> float | None:
    """How many ticks lie between the rises of what may grow by `least` bytes a tick, too seldom for these windows to
    tell; None where nothing does. Of what the user's own modules and frames hold."""
    if len(snapshots) < 4:
        return None
    ticks = [s.tick for s in snapshots]
    counts = np.stack([s.column(tree.keys, "counts") for s in snapshots])
    sizes = np.stack([s.column(tree.keys, "bytes") for s in snapshots])
    likely = np.all(np.diff(counts, axis=0) >= 0, axis=0) & (counts[-1] > counts[0]) & (tree.tiers == 0)
    gaps = {int(index): spacing(ticks, counts[:, index].tolist()) for index in np.flatnonzero(likely)}
    likely[[index for index, gap in gaps.items() if gap is None]] = False
    owner = _owners(tree, likely, np.zeros_like(likely)) if likely.any() else np.full(len(likely), -1)
    growth = (sizes[-1] - sizes[0]) / (ticks[-1] - ticks[0])
    tops = [int(top) for top in np.unique(owner[owner >= 0]) if growth[owner == top].sum() >= least]
    return max((gaps[top] or 0.0 for top in tops), default=None)


def _path(tree: Tree, index: int) -> list[int]:
    steps = [index]
    while (index := int(tree.parents[index])) >= 0:
        steps.append(index)
    return steps


def _families(tree: Tree, counts: Ints) -> dict[int, list[int]]:
    """The groups that have come since the first snapshot and differ in their name only, by the first of them.

    `setattr(module, f"batch_{i}", data)`: each is a group of one, and none of them grows.
    """
    found: dict[tuple[int, str], list[int]] = {}
    for index in np.flatnonzero((counts[0] == 0) & (counts[-1] > 0) & (tree.parents >= 0)).tolist():
        if tree.labels[index]:
            found.setdefault((int(tree.parents[index]), tree.types[index]), []).append(index)
    return {members[0]: members for members in found.values() if len(members) >= max(len(counts) - 1, 3)}


def _owners(
    tree: Tree,
    more: np.ndarray[Any, np.dtype[np.bool_]],
    larger: np.ndarray[Any, np.dtype[np.bool_]],
    eldest: Mapping[int, int] | None = None,
) -> Ints:
    """For each group the topmost growing group at or above it, or -1. `eldest`: who stands for the members of a family.

    A container that gets larger because its elements multiply belongs to the elements' population: more objects win
    over one larger object, so a larger group is a top of its own only when nothing below it multiplies.
    """
    size = len(tree.keys)
    multiplies = more.copy()
    for index in range(size - 1, -1, -1):
        parent = int(tree.parents[index])
        if parent >= 0 and multiplies[index]:
            multiplies[parent] = True
    owner = np.full(size, -1, np.int64)
    for index in range(size):
        parent = int(tree.parents[index])
        above = owner[parent] if parent >= 0 else -1
        stands = eldest.get(index, index) if eldest else index
        if above >= 0:
            owner[index] = above
        elif stands != index:
            owner[index] = stands if owner[stands] == stands else -1
        elif more[index] or (larger[index] and not multiplies[index]):
            owner[index] = index
    return owner


def describe(
    tops: Sequence[Top],
    snapshots: Sequence[Snapshot],
    census: Look,
    site_of: Callable[[object], Birth | None],
    cut: Sequence[object] = (),
    lines: Collection[tuple[str, int]] = (),
) -> tuple[Population, ...]:
    """Each top as a population: what comes with it, who holds it, where it was made, which argument changed.

    One more walk, on the main thread, for samples of each; `site_of` tells where an object was made,
    `lines` (file and number) are those that make something each tick: an object made elsewhere is an older one.
    """
    if not tops:
        return ()
    known = kinds()
    wanted = {key: _SAMPLES for top in tops for key in (top.family[-_MOST_MEMBERS:] or (top.key,))}
    detail = look(snapshots[-1].tick, cut, select=known, groups=wanted, paths=True)
    try:
        return tuple(_population(top, snapshots, detail, known, site_of, lines) for top in tops)
    finally:
        del detail


def _population(
    top: Top,
    snapshots: Sequence[Snapshot],
    detail: Look,
    known: Mapping[str, tuple[type, ...]],
    site_of: Callable[[object], Birth | None],
    lines: Collection[tuple[str, int]],
) -> Population:
    tree = detail.tree
    place = np.flatnonzero(tree.keys == np.uint64(top.key))
    ticks = [s.tick for s in snapshots]
    at: Sequence[int] = range(len(ticks))
    if any(a == b for a, b in itertools.pairwise(top.bytes)):
        at = thirds(len(ticks))  # it grows at some ticks only
    rates_by_window = [(top.bytes[b] - top.bytes[a]) / (ticks[b] - ticks[a]) for a, b in itertools.pairwise(at)]
    span = snapshots[-1].tick - snapshots[0].tick
    if not len(place):
        return _bare(top, span)
    index = int(place[0])
    tops = {index}
    if top.family:
        # Those that came while the lines of ops were watched, too: they know their lines.
        new = (tree.parents == tree.parents[index]) & (snapshots[0].column(tree.keys, "counts") == 0)
        tops.update(one for one in np.flatnonzero(new).tolist() if tree.types[one] == tree.types[index])
    below = np.logical_or.reduce([_below(tree, one) for one in tops])
    members = [f for f in detail.found if f.group >= 0 and below[f.group]]
    samples = [f for f in members if f.group in tops]
    rates = _kind_rates(members, known, tree, snapshots, span)
    every = samples
    samples = _of_the_heaviest_container(samples)
    # Spread over the group, so that a key that differs anywhere reads [*]; the newest is always among them.
    chosen = samples[:: -max(len(samples) // _NAMED_SAMPLES, 1)][::-1]
    holder = _registry_holder(tree.root(index), members, known) if tree.tiers[index] == 2 else _holder(chosen)
    through = _through(chosen, known)
    function, changed, changed_kind = _retraced(chosen)
    inside = {id(found.obj) for found in samples}
    near = members if len(inside) == len(every) else [f for f in members if id(f.obj) in inside]
    born = _birth(near, samples, known, site_of, lines)
    if born is None and "graph-v1" in through:
        born = _graph_line(chosen, known)
    if born is None and top.single and samples:  # a variable's handle: the variable knows where it was made
        born = next((line for obj in reversed(samples[-1].path) if (line := site_of(obj)) is not None), None)
    viewed, kept = _views(samples, members, top, span)
    return Population(
        tier=int(tree.tiers[index]),
        root=tree.root(index),
        type_name="registry entry" if tree.tiers[index] == 2 else tree.types[index].rpartition(".")[2],
        objects_per_tick=(top.objects[-1] - top.objects[0]) / span if not top.single else 0.0,
        bytes_per_tick=(top.bytes[-1] - top.bytes[0]) / span,
        tensor_bytes_per_tick=(top.tensors[-1] - top.tensors[0]) / span,
        steady=top.trend.steady,
        slowing=top.trend.slowing,
        single=top.single,
        kinds=rates,
        through=through,
        holder=holder,
        birth=born,
        changed=changed,
        changed_kind=changed_kind,
        function=function,
        kept_bytes=kept,
        views=viewed,
        key=0 if top.family else top.key,
        low=min(rates_by_window),
        high=max(rates_by_window),
        bound=None if top.single else _bound(samples),
    )


def _holder(chosen: Sequence[heap.Found]) -> Holder | None:
    """The holder in words; None when a path could not be named (the population's numbers stand all the same)."""
    if not chosen:
        return None
    found, _ = read(
        lambda: retention.name_group([retention.name_path(f.root, f.path, f.obj) for f in chosen]), "holder"
    )
    if found is None:
        return None
    text, path = found.text, found.path
    while len(path) > 1 and path[-1].startswith("(inside") and text.endswith(f" > {path[-1]}"):
        text, path = text.removesuffix(f" > {path[-1]}"), path[:-1]  # what a framework's object is made of inside
    return replace(found, text=text, path=path)


def _of_the_heaviest_container(samples: list[heap.Found]) -> list[heap.Found]:
    """The samples in the one container that holds four fifths of their bytes; all of them when none does.

    Two lists in one dict are one group, and the list of losses must not be named for the list of activations.
    """
    weigh = weigher()
    sizes: dict[int, int] = {}
    containers: dict[int, list[heap.Found]] = {}
    for found in samples:
        holder = id(found.path[-1]) if found.path else 0
        containers.setdefault(holder, []).append(found)
        sizes[holder] = sizes.get(holder, 0) + weigh(found.obj)
        if len(containers) > _MOST_CONTAINERS:
            return samples
    if len(containers) < 2 or not sum(sizes.values()):
        return samples
    heaviest = max(sizes, key=lambda holder: sizes[holder])
    return containers[heaviest] if sizes[heaviest] >= 0.8 * sum(sizes.values()) else samples


def _registry_holder(root: str, members: Sequence[heap.Found], known: Mapping[str, tuple[type, ...]]) -> Holder:
    """A framework's registry and what its entries keep: the graphs by name, without the digits of one run."""
    names = Counter(str(getattr(f.obj, "name", "")) for f in members if is_a(f.obj, known.get("graph", ())))
    steps = [root]
    if "gradient" in root:
        steps.append("CustomGradient-*")
    if names:
        steps.append(f"FuncGraph {names.most_common(1)[0][0].rstrip('_0123456789')}")
    return Holder(" > ".join(steps), tuple(steps))


def _bare(top: Top, span: int) -> Population:
    """A population that was gone when it was to be named: its numbers stand, its names do not."""
    return Population(
        tier=0,
        root="",
        type_name="object",
        objects_per_tick=(top.objects[-1] - top.objects[0]) / span,
        bytes_per_tick=(top.bytes[-1] - top.bytes[0]) / span,
        tensor_bytes_per_tick=(top.tensors[-1] - top.tensors[0]) / span,
        steady=top.trend.steady,
        slowing=top.trend.slowing,
        single=top.single,
    )


def _below(tree: Tree, index: int) -> np.ndarray[Any, np.dtype[np.bool_]]:
    inside = np.zeros(len(tree.keys), np.bool_)
    inside[index] = True
    for place in range(index + 1, len(tree.keys)):
        parent = int(tree.parents[place])
        if parent >= index and inside[parent]:
            inside[place] = True
    return inside


def _kind(obj: object, known: Mapping[str, tuple[type, ...]]) -> str | None:
    return next((kind for kind, types in known.items() if is_a(obj, types)), None)


def _kind_rates(
    members: Sequence[heap.Found],
    known: Mapping[str, tuple[type, ...]],
    tree: Tree,
    snapshots: Sequence[Snapshot],
    span: int,
) -> dict[str, float]:
    """How many of each kind come per tick, by the counts of the groups in which that kind was met."""
    met: dict[int, str] = {}
    for found in members:
        if found.group not in met:
            kind = _kind(found.obj, known)
            if kind is not None:
                met[found.group] = kind
    rates: Counter[str] = Counter()
    first, last = snapshots[0], snapshots[-1]
    for group, kind in met.items():
        key = tree.keys[group : group + 1]
        rates[kind] += int(last.column(key, "counts")[0] - first.column(key, "counts")[0])
    return {kind: count / span for kind, count in rates.items() if count > 0}


def _through(samples: Sequence[heap.Found], known: Mapping[str, tuple[type, ...]]) -> tuple[str, ...]:
    """The kinds of the objects on the way to the newest sample, from its root on."""
    if not samples:
        return ()
    path = samples[-1].path
    found = [kind for kind in (_kind(obj, known) for obj in path) if kind is not None]
    if any(_memoises(*path[place : place + 4]) for place in range(len(path) - 3)):
        found.append("lru-cache")
    if "function" in found:
        from tenure.probes.tf import functions

        if any(functions.jit_compiled(obj) for obj in path if functions.is_function(obj)):
            found.append("jit-function")
    return tuple(found)


def _bound(samples: Sequence[heap.Found]) -> Bound | None:
    """The bound of the container that holds them all: a deque's, or that of a function's LRU cache.

    A cache of a method in its class is none: what it holds are the instances, in place of their owners.
    """
    if not samples or len({id(found.path[-1]) for found in samples if found.path}) != 1 or not samples[-1].path:
        return None
    *above, container = samples[-1].path
    if type(container) is deque:
        return None if container.maxlen is None else Bound("maxlen", container.maxlen, len(container))
    if type(container) is _LruCache and not any(is_a(one, type) for one in above):
        _, _, most, holds = container.cache_info()
        return None if most is None else Bound("maxsize", most, holds)
    return None


def _memoises(function: object, closure: object, cell: object, results: object) -> bool:
    """Whether this is a decorated function (`functools.wraps`) with a dict of results in its closure."""
    wrapper = is_a(function, types.FunctionType) and "__wrapped__" in vars(function)
    return wrapper and type(closure) is tuple and type(cell) is types.CellType and type(results) is dict


def _retraced(samples: Sequence[heap.Found]) -> tuple[str | None, Changed | None, str | None]:
    """The tf.function on the way to the samples, and the argument that was new with each of its traces."""
    if not samples or "tensorflow" not in sys.modules:
        return None, None, None
    from tenure.probes.tf import functions

    on_path = [obj for obj in samples[-1].path if functions.is_function(obj)]
    if not on_path:
        return None, None, None
    function = on_path[-1]
    changed, _ = read(lambda: functions.changed_argument(functions.traces(function)), "changed argument")
    name = functions.name(function)
    if changed is None:
        return name, None, None
    return name, Changed(changed.argument, tuple(changed.values)), changed.kind


def _graph_line(samples: Sequence[heap.Found], known: Mapping[str, tuple[type, ...]]) -> Birth | None:
    """The user's line that made the newest ops of the graph on the way to the samples."""
    from tenure.probes.tf import graphs

    on_path = [obj for found in samples[-1:] for obj in found.path if is_a(obj, known.get("graph-v1", ()))]
    if not on_path:
        return None
    last, _ = read(partial(graphs.last_ops, on_path[-1]), "last ops")
    return line_of_ops(last or ())


def _views(samples: Sequence[heap.Found], members: Sequence[heap.Found], top: Top, span: int) -> tuple[bool, float]:
    """Whether these are small views of large buffers, and the bytes a tick they keep that no count has seen yet."""
    arrays = [f.obj for f in samples if is_a(f.obj, np.ndarray)]
    if not arrays:
        # A record that holds an excerpt: the views are the nearest arrays below it, what they look at comes after.
        below = [(f.group, f.obj) for f in members if is_a(f.obj, np.ndarray) and f.obj.base is not None]
        nearest = min((group for group, _ in below), default=-1)
        arrays = [array for group, array in below if group == nearest]
    if not arrays or top.single:
        return False, 0.0
    from tenure.probes.tf import handles

    owners = [handles.array_owner(array) for array in arrays[-_NAMED_SAMPLES:]]
    views = [o for o in owners if o.kept > 4 * max(o.seen, 1)]
    if len(views) < len(owners) / 2:
        return False, 0.0
    kept = sum(o.kept for o in views) / len(views) * (top.objects[-1] - top.objects[0]) / span
    seen = (top.bytes[-1] - top.bytes[0]) / span
    return True, max(kept - seen, 0.0)


def _birth(
    members: Sequence[heap.Found],
    samples: Sequence[heap.Found],
    known: Mapping[str, tuple[type, ...]],
    site_of: Callable[[object], Birth | None],
    lines: Collection[tuple[str, int]],
) -> Birth | None:
    """The line that makes most of what grew: of the newest objects, those of the most telling kind."""
    by_kind: dict[str, Counter[Birth]] = {}
    for found in [*samples, *members][-4000:]:
        kind = _kind(found.obj, known)
        if kind is None or sum(by_kind.get(kind, Counter()).values()) >= 64:
            continue
        born = site_of(found.obj)
        if born is not None:
            by_kind.setdefault(kind, Counter())[born] += 1
    for kind in _TELLING:
        if by_kind.get(kind):
            counts = by_kind[kind]
            return max(counts, key=lambda birth: ((birth.file, birth.line) in lines, counts[birth]))
    others = [born for found in reversed(samples) if (born := site_of(found.obj)) is not None]
    return next((born for born in others if (born.file, born.line) in lines), others[0] if others else None)


def stopped(
    populations: Sequence[Population], before: Snapshot, now: Snapshot, made: Mapping[str, int] | None = None
) -> tuple[tuple[Population, ...], tuple[Population, ...]]:
    """Which of these populations still grew between two snapshots, and which did not: a cache that is full is no leak.

    One that can't be told counts as growing: too few new objects were to come, or none is where they were (a program's
    functions have returned; a release has changed the shortest path). Then `made` decides, what was made between the
    two by kind. A registry's entries are the autopsy's to judge.
    """
    growing: list[Population] = []
    ended: list[Population] = []
    ticks = now.tick - before.tick
    for population in populations:
        key = np.array([population.key], np.uint64)
        column = "bytes" if population.single else "counts"
        expected = (population.bytes_per_tick if population.single else population.objects_per_tick) * ticks
        first, last = int(before.column(key, column)[0]), int(now.column(key, column)[0])
        elements = population.holder is not None and population.holder.text.endswith("[*]")
        if population.tier == 2 or not elements or (expected < 2 and not population.single):
            goes_on = True  # only the elements of one container are sure to be met at the same place again
        elif last and last >= first:
            goes_on = last - first >= 0.3 * expected
        elif last:  # fewer than before: dropped, or at another place now (a long path), and then the heap got larger
            goes_on = (
                now.objects - before.objects >= 0.3 * population.objects_per_tick * ticks
                and _all_bytes(now) - _all_bytes(before) >= 0.3 * population.bytes_per_tick * ticks
            )
        else:
            rates = {kind: rate * ticks for kind, rate in population.kinds.items() if kind in _MADE_IN_PYTHON}
            goes_on = made is None or not rates or any(made.get(kind, 0) >= 0.3 * n for kind, n in rates.items())
        (growing if goes_on else ended).append(population)
    return tuple(growing), tuple(ended)


def _all_bytes(snapshot: Snapshot) -> int:
    return snapshot.python_bytes + snapshot.tensor_bytes


def held_tensors(snapshots: Sequence[Snapshot]) -> tuple[float, float]:
    """Bytes and objects per tick more that only native code holds, when that rose in every window; else zeros."""
    ticks = [s.tick for s in snapshots]
    told = trend(ticks, [float(s.held[2]) for s in snapshots], noise=64.0)
    counted = trend(ticks, [float(s.held[0]) for s in snapshots])
    return (told.rate, counted.rate) if told.rises and told.steady else (0.0, 0.0)


def garbage(
    snapshots: Sequence[Snapshot],
    found: Sequence[heap.Found] = (),
    site_of: Callable[[object], Birth | None] | None = None,
) -> Garbage | None:
    """Unreachable cycles that rose in every window; None when they did not. `found`: among them things with a line."""
    ticks = [s.tick for s in snapshots]
    told = trend(ticks, [float(s.garbage[1] + s.garbage[2]) for s in snapshots], noise=512.0)
    if not (told.rises and told.steady):
        return None
    objects = trend(ticks, [float(s.garbage[0]) for s in snapshots]).rate
    tensors = trend(ticks, [float(s.garbage[2]) for s in snapshots]).rate
    lines = Counter(site_of(f.obj) for f in found if f.tier == GARBAGE_TIER) if site_of is not None else Counter()
    lines.pop(None, None)
    return Garbage(objects, told.rate, tensors, lines.most_common(1)[0][0] if lines else None)
