"""What each witness names: a population that grows, a graph, an open tape, garbage, what a release action gave back.

Pure: evidence in, drafts of findings out. Each population gets its cause from what it is, what lies on the path to it
and what comes with it; what the release actions gave back (autopsy) names framework causes. `diagnosis` adds the drafts
up and concludes.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field

from tenure.explain.evidence import Bound, Evidence, Native, Population
from tenure.records import Birth, Changed, Holder, a_unit, counted, units

__all__ = [
    "NATIVE_FLOOR",
    "Draft",
    "from_autopsy",
    "from_garbage",
    "from_graphs",
    "from_open_tapes",
    "from_population",
    "least_kept",
    "lines_of_native_growth",
    "wider",
]

# Healthy programs drift by 1-5 KB a tick in malloc alone (names, logs, kernel tables); 8 KB a tick was always real.
NATIVE_FLOOR = 8192.0

_NATIVE_WEIGHT = (
    "trace",
    "graph",
    "graph-v1",
    "tape",
    "summary-writer",
    "session",
    "dataset",
    "iterator",
    "function",
    "py-function",
    "model",
    "optimizer",
    "strategy",
    "lookup-table",
)


# Bytes a tick of tensors in a container of the user's, below which even growth that is slow by its nature is a note.
_LEAST_KEPT = 256.0
_MUCH = 1e6  # bytes in all: tensors that one container has taken during a run, however fast its ticks are

_NAMED_RESOURCES = ("summary-writer-recreated", "lookup-table-recreated")
_KERNELS_OF_A_RESOURCE = 64 * 1024.0  # bytes, generously: a file writer leaves 8.5 KB of kernels

_IN_SIGHT = 20  # times the ticks of this run: a cache that takes longer to fill is not waited for

_MOST_OF_A_SCALAR = 16 * 1024.0  # bytes: what one number may take at most, as only 64 operands of a line are looked at


@dataclass
class Draft:
    """A finding while its bytes are still being added up."""

    cause: str
    bytes: float
    tensor_bytes: float
    objects: float
    birth: Birth | None = None
    holder: Holder | None = None
    changed: Changed | None = None
    kind: str = "leak"
    steady: bool = True
    slowing: bool = False
    tier: int = 0
    native_weight: bool = False
    autopsied: bool = False
    also: list[str] = field(default_factory=list)
    evidence: list[str] = field(default_factory=list)
    spread: tuple[float, float] = (0.0, 0.0)  # bytes a tick below and above `bytes`
    measured_line: bool = False  # `birth` is the line at which malloc was seen to grow
    fills: Bound | None = None  # its container has a bound that it will come to


# ---------------------------------------------------------------------------------------------- populations


def from_population(p: Population, evidence: Evidence) -> Draft | None:
    if p.tier == 4:  # unreachable cycles are judged as garbage, by whether a collector will come for them
        return None
    if p.tier == 3 and not p.tensor_bytes_per_tick:
        return None
    cause = _cause_of(p)
    draft = Draft(
        cause,
        p.bytes_per_tick,
        p.tensor_bytes_per_tick,
        p.objects_per_tick,
        p.birth,
        p.holder,
        p.changed,
        steady=p.steady,
        slowing=p.slowing,
        tier=p.tier,
        native_weight=any(p.kinds.get(k, 0) > 0 for k in _NATIVE_WEIGHT),
        spread=(
            p.bytes_per_tick - (p.bytes_per_tick if p.low is None else min(p.low, p.bytes_per_tick)),
            (p.bytes_per_tick if p.high is None else max(p.high, p.bytes_per_tick)) - p.bytes_per_tick,
        ),
    )
    if p.bound is not None and _comes_to_its_bound(p, p.bound, evidence):
        draft.fills = p.bound
    draft.also = _also(cause, p, evidence)
    draft.evidence = _population_evidence(p, evidence.ticks.unit)
    if cause == "numpy-view-kept":
        draft.bytes, draft.tensor_bytes = draft.bytes + p.kept_bytes, draft.tensor_bytes + p.kept_bytes
    return draft


def least_kept(min_growth: float, epoch: int, ticks: int) -> float:
    """Bytes a tick of tensors in one container that are judged: less where they come once an epoch, or have come to
    much over many ticks. 1.5 KB a step of 1.5 ms are 3.6 GB an hour."""
    return min(max(min(min_growth / epoch, _MUCH / max(ticks, 1)), _LEAST_KEPT), min_growth)


def _comes_to_its_bound(p: Population, bound: Bound, evidence: Evidence) -> bool:
    """Whether the container is full before the memory is; an LRU cache moreover within sight of this run.

    A program chooses a deque's `maxlen` for what it puts there (a replay buffer of 100,000 steps), and a cache's
    `maxsize` often for nothing: one of 100,000 entries whose keys never come again is a leak by any other name.
    """
    left = max(bound.most - bound.holds, 0)
    if p.objects_per_tick <= 0:
        return False
    fits = evidence.room is None or left * p.bytes_per_tick / p.objects_per_tick <= evidence.room
    in_sight = left / p.objects_per_tick <= _IN_SIGHT * evidence.ticks.count
    return fits and (bound.by == "maxlen" or in_sight)


def _cause_of(p: Population) -> str:
    for test, cause in _MATCHERS:
        if test(p):
            return cause
    return "unattributed-growth"


def _holds_traces(p: Population) -> bool:
    return p.kinds.get("trace", 0) > 0 or p.kinds.get("graph", 0) > 0


def _retrace(kind: str | None) -> Callable[[Population], bool]:
    return lambda p: "function" in p.through and _holds_traces(p) and p.changed_kind == kind


def _has(*kinds: str) -> Callable[[Population], bool]:
    return lambda p: any(p.kinds.get(kind, 0) >= 0.05 for kind in kinds)


# First match wins: what lies on the path comes before what the population is made of, because a tensor in a kept
# exception is cured at the exception.
_MATCHERS: tuple[tuple[Callable[[Population], bool], str], ...] = (
    (lambda p: p.tier == 2 and "gradient registry" in p.root, "gradient-registry"),
    (lambda p: p.tier == 2 and "Python functions" in p.root, "py-function-registry"),
    (lambda p: "exception" in p.through, "exception-kept"),
    (lambda p: "lru-cache" in p.through, "cache-on-method"),
    (lambda p: "jit-function" in p.through and _holds_traces(p), "xla-compilation-cache"),
    (_retrace("python-value"), "retrace-python-value"),
    (_retrace("shape"), "retrace-new-shape"),
    (_retrace("dtype"), "retrace-new-shape"),
    (_retrace("object"), "retrace-new-object"),
    (_retrace(None), "retrace-new-object"),
    (lambda p: "graph-v1" in p.through and not p.tensor_bytes_per_tick, "graph-grows-in-session-loop"),
    (_has("tape"), "tape-kept"),
    (_has("exception"), "exception-kept"),
    (lambda p: p.views, "numpy-view-kept"),
    (
        lambda p: p.single and p.type_name in ("EagerTensor", "ResourceVariable", "Variable", "ndarray"),
        "concat-growing-state",
    ),
    (lambda p: "tensor-array" in p.through or p.kinds.get("tensor-array", 0) > 0, "tensorarray-grows"),
    (_has("summary-writer"), "summary-writer-recreated"),
    (_has("lookup-table"), "lookup-table-recreated"),
    (_has("strategy"), "strategy-recreated"),
    (_has("model", "optimizer", "layer", "module"), "models-kept"),
    (_has("session"), "session-not-closed"),
    (_has("variable"), "variables-created-per-step"),
    (_has("function", "trace", "graph"), "function-recreated"),
    (_has("dataset", "iterator"), "dataset-recreated"),
    (lambda p: p.tensor_bytes_per_tick > 0 or p.kinds.get("array", 0) > 0, "tensors-kept"),
)


def _also(cause: str, p: Population, evidence: Evidence) -> list[str]:
    if cause == "xla-compilation-cache":
        return [next(name for test, name in _MATCHERS if name.startswith("retrace-") and test(p))]
    if cause != "gradient-registry":
        return []
    made = {m.kind for m in evidence.made if m.per_tick >= 0.5}
    if "fit" in made:
        return ["model-refitted"]
    if "model" in made or p.kinds.get("model", 0) > 0:
        return ["model-rebuilt"]
    return ["function-recreated"] if "function" in made else []


def _population_evidence(p: Population, unit: str) -> list[str]:
    if p.single:
        told = [f"one {p.type_name} that gets larger each {unit}"]
    else:
        seldom = 0 < p.objects_per_tick < 0.5
        told = [
            f"1 {p.type_name} more each {units(unit, round(1 / p.objects_per_tick))}"
            if seldom
            else f"{counted(p.objects_per_tick, p.type_name)} more each {unit}"
        ]
    beside = [counted(n, kind) for kind, n in sorted(p.kinds.items(), key=lambda item: -item[1]) if n >= 0.05]
    if beside:
        told.append(f"with it {a_unit(unit)}: " + ", ".join(beside[:6]))
    if p.bound is not None:
        told.append(f"it holds {p.bound.holds:,} of at most {p.bound.most:,} ({p.bound.by})")
    if p.function:
        told.append(f"in the cache of the tf.function {p.function}")
    return told


# ---------------------------------------------------------------------------------------------- other witnesses


def from_graphs(evidence: Evidence, drafts: list[Draft]) -> list[Draft]:
    if any(d.cause == "graph-grows-in-session-loop" for d in drafts):
        for draft in drafts:
            if draft.cause == "graph-grows-in-session-loop":
                draft.native_weight = True  # the ops themselves are in C++
                if evidence.graphs:
                    draft.birth = draft.birth or evidence.graphs[0].birth
        return []
    found = []
    for graph in evidence.graphs:
        draft = Draft(
            "graph-grows-in-session-loop", 0.0, 0.0, graph.ops_per_tick, graph.birth, graph.holder, native_weight=True
        )
        draft.evidence.append(f"{counted(graph.ops_per_tick, 'op')} more in {graph.name} each {evidence.ticks.unit}")
        found.append(draft)
    return found


def from_open_tapes(evidence: Evidence, drafts: list[Draft]) -> list[Draft]:
    """What native code alone holds while a tape is alive between ticks is held by that tape."""
    held, count = evidence.held_tensor_bytes_per_tick, evidence.held_tensors_per_tick
    kept = next((d for d in drafts if d.cause == "tape-kept"), None)
    if kept is not None:
        kept.bytes += held
        kept.tensor_bytes += held
        kept.native_weight = True
        return []
    open_tape = next((t for t in evidence.tapes if t.recording), None)
    if held <= 0 or count <= 0:
        return []
    if open_tape is None:
        draft = Draft("unattributed-growth", held, held, count, tier=3)
        draft.evidence.append(
            f"{counted(count, 'tensor')} more each {evidence.ticks.unit} that only native code holds; "
            "no tape is alive between ticks"
        )
        return [draft]
    draft = Draft("tape-left-open", held, held, count, open_tape.birth, open_tape.holder, native_weight=True)
    draft.evidence.append(
        f"{counted(count, 'tensor')} more each {evidence.ticks.unit} that only native code holds, "
        "while this tape still records"
    )
    return [draft]


def from_garbage(evidence: Evidence) -> list[Draft]:
    waste = evidence.garbage
    if waste is None or waste.bytes_per_tick < evidence.min_growth:
        return []
    draft = Draft(
        "cycles-with-gc-off",
        waste.bytes_per_tick,
        waste.tensor_bytes_per_tick,
        waste.objects_per_tick,
        waste.birth,
        None,
    )
    draft.evidence.append(
        f"{counted(waste.objects_per_tick, 'unreachable object')} more each {evidence.ticks.unit}; the collector is off"
    )
    return [draft]


def from_autopsy(evidence: Evidence, drafts: list[Draft]) -> list[Draft]:
    """Findings, or shares of findings, that the release actions named."""
    given = {g.action: g.bytes_per_tick for g in evidence.autopsy or ()}
    found: list[Draft] = []
    registry = given.get("gradient-registry", 0.0)
    for draft in drafts:
        if draft.cause == "gradient-registry" and registry > 0:
            draft.autopsied = True
            draft.bytes = max(draft.bytes, registry)
            draft.evidence.append(f"purging its orphans gives back {registry:.0f} bytes {a_unit(evidence.ticks.unit)}")
    if evidence.native is not None and evidence.native.stopped:
        return found  # what a cleared cache is filled with again is no growth
    for action, cause in (("kernel-cache", "eager-kernel-cache"), ("scalar-cache", "eager-scalar-cache")):
        share = given.get(action, 0.0)
        if not evidence.differential:
            share = _share_that_grew(share, drafts + found, evidence)
        elif evidence.native is not None:
            # What a few ticks at the end filled it with can't have grown faster than malloc did in the windows: work
            # that comes now and then builds its kernels again at one of these ticks.
            share = min(share, max(evidence.native.high, 0.0))
        if share <= 0:
            continue
        host = _host_of(action, share, drafts)
        if host is not None:
            host.bytes += share
            if cause not in host.also and share >= 0.1 * host.bytes:
                host.also.append(cause)
            continue
        # A kernel takes some 36 KB: less than the drift of healthy programs is what is left of warming up.
        if share >= max(evidence.min_growth, NATIVE_FLOOR):
            found.append(_cache_finding(cause, share, evidence))
    return found


def _share_that_grew(share: float, drafts: list[Draft], evidence: Evidence) -> float:
    """What of a cache that was emptied once, at the end, can have grown: the kernels that every program builds while it
    warms up are in it too, so no more than the native growth that nothing else explains."""
    native = evidence.native
    if native is None or not native.stands or not native.steady:
        return 0.0
    explained = sum(d.bytes for d in drafts if d.kind == "leak" and d.steady)
    rest = native.bytes_per_tick + native.python_bytes_per_tick - explained
    if rest < NATIVE_FLOOR or rest < 0.1 * native.bytes_per_tick:
        return 0.0
    # An interval that reaches down to the drift of healthy programs decides nothing.
    return min(share, rest) if native.low >= NATIVE_FLOOR else 0.0


def _host_of(action: str, share: float, drafts: list[Draft]) -> Draft | None:
    """The finding that this share belongs to: each new function or variable leaves kernels in the kernel cache."""
    if action != "kernel-cache":
        return None
    leading = max((d for d in drafts if d.kind == "leak" and d.tier != 1), key=lambda d: d.bytes, default=None)
    if leading is None:
        return None
    makes_kernels = leading.native_weight or leading.cause in (
        "variables-created-per-step",
        "py-function-registry",
        "gradient-registry",
    )
    if makes_kernels and leading.bytes >= 0.2 * share:
        return leading
    # A writer or a table is a named resource: little in Python, and kernels of its own for each.
    if leading.cause in _NAMED_RESOURCES and share <= _KERNELS_OF_A_RESOURCE * leading.objects:
        return leading
    return leading if share <= 0.1 * leading.bytes else None


def _cache_finding(cause: str, share: float, evidence: Evidence) -> Draft:
    if cause == "eager-scalar-cache":
        # An entry takes 0.8 KB: a line that would have to make far larger ones is not the one.
        likely = [m for m in evidence.scalars if m.per_tick * _MOST_OF_A_SCALAR >= share]
        line = max(likely, key=lambda m: m.per_tick, default=None)
        draft = Draft(cause, share, 0.0, line.per_tick if line else 0.0, line.birth if line else _native_line(evidence))
        if line:
            numbers = f"{counted(line.per_tick, 'new Python number')} {a_unit(evidence.ticks.unit)}"
            draft.evidence.append(f"{numbers} made into tensors by this line")
        return draft
    sites = [s for s in evidence.ops if s.new_keys_per_tick >= 0.5]
    seeded = [s for s in sites if s.changed is not None and s.changed.argument in ("seed", "seed2")]
    weight = sum(s.new_keys_per_tick for s in sites)
    if seeded and sum(s.new_keys_per_tick for s in seeded) >= 0.5 * weight:
        cause, sites = "seeded-random-ops", seeded
    site = max(sites, key=lambda s: s.new_keys_per_tick, default=None)
    birth = site.birth if site else _native_line(evidence)
    if birth is None:
        made = [
            m
            for m in evidence.made
            if m.kind in ("model", "optimizer", "variable", "keras-variable", "trace", "dataset", "iterator")
            and m.per_tick >= 0.5
        ]
        birth = max(made, key=lambda m: m.per_tick).birth if made else None
    # Values that look alike tell nothing (a serialised proto): the op and the line are enough then.
    changed = site.changed if site and site.changed and len(set(site.changed.values)) > 1 else None
    draft = Draft(cause, share, 0.0, site.new_keys_per_tick if site else 0.0, birth, None, changed)
    if evidence.native is not None:
        draft.spread = wider((0.0, 0.0), evidence.native, share)
    if site:
        draft.evidence.append(
            f"{counted(site.new_keys_per_tick, f'new {site.op} kernel')} {a_unit(evidence.ticks.unit)} from this line"
        )
    made_each_tick = {m.kind for m in evidence.made if m.per_tick >= 0.5}
    if cause == "eager-kernel-cache" and "model" in made_each_tick:
        draft.also.append("model-refitted" if "fit" in made_each_tick else "model-rebuilt")
    elif cause == "eager-kernel-cache" and "optimizer" in made_each_tick:
        draft.also.append("optimizer-recreated")
    if cause == "eager-kernel-cache" and "lookup-table" in made_each_tick:
        draft.cause, draft.also = "lookup-table-recreated", [cause]
    draft.evidence.append(f"clearing the cache gives back {share:.0f} bytes {a_unit(evidence.ticks.unit)}")
    return draft


_MATCHES = (0.1, 2048.0)  # how far one line's growth may lie from that of all: a share, and bytes of noise


def lines_of_native_growth(evidence: Evidence) -> list[tuple[Birth, float]]:
    """The lines that each grew by what all lines together did, with their bytes a tick: one is meant, or can't be told.

    A line that makes a tensor grows each tick too, and what drops it shrinks: in the sum only the leak is left.
    """
    total = sum(line.bytes_per_tick for line in evidence.lines)
    if total < NATIVE_FLOOR / 2:
        return []
    reach = max(_MATCHES[0] * total, _MATCHES[1])
    known = [(line.birth, line.bytes_per_tick) for line in evidence.lines if line.birth is not None]
    return [(birth, grown) for birth, grown in known if abs(grown - total) <= reach]


def _native_line(evidence: Evidence) -> Birth | None:
    meant = lines_of_native_growth(evidence)
    return meant[0][0] if len(meant) == 1 else None


def wider(spread: tuple[float, float], native: Native, part: float) -> tuple[float, float]:
    """The spread with that of a part of the native growth added, in proportion."""
    scale = part / native.bytes_per_tick if native.bytes_per_tick > 0 else 0.0
    below = max(native.bytes_per_tick - native.low, 0.0) * min(scale, 1.0)
    return spread[0] + min(below, part), spread[1] + max(native.high - native.bytes_per_tick, 0.0) * min(scale, 1.0)
