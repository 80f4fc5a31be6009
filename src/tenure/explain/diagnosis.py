"""Turns evidence into findings and a verdict. Pure: evidence in, records out; no TensorFlow, no clock, no files.

Each population that grows gets its cause from what it is, what lies on the path to it and what comes with it. What the
release actions gave back (autopsy) names framework causes; a framework's cause and the user's are one finding. Native
growth that no population shows is given to the finding that carries native weight (graphs, tapes, writers), else it
stands alone as `unattributed-growth`. A false alarm costs more than a missed leak: what is not steady is not a leak.
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field, replace

from tenure.causes import CATALOGUE
from tenure.explain.evidence import Evidence, Native, Population
from tenure.records import Birth, Changed, Finding, Holder, a_unit, counted, units

__all__ = ["NATIVE_FLOOR", "Verdict", "diagnose"]

# Healthy programs drift by 1-5 KB a tick in malloc alone (names, logs, kernel tables); 8 KB a tick was always real.
NATIVE_FLOOR = 8192.0

# What caches, kernels and converted code of a healthy program still add after warm-up, in all (a daily job with a new
# model a day adds 14-26 KB a day for its first four days, then 4).
_WARM_UP = 256 * 1024.0

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


@dataclass(frozen=True, slots=True)
class Verdict:
    """The verdict with its reason and its findings, largest leak first, and what is worth a note.

    `spread`: how many bytes a tick the growth may be below and above the sum of the leaks.
    """

    verdict: str
    why: str
    findings: tuple[Finding, ...]
    notes: tuple[str, ...] = ()
    spread: tuple[float, float] = (0.0, 0.0)


@dataclass
class _Draft:
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


def diagnose(evidence: Evidence, windows: int) -> Verdict:
    """The verdict on one program from its evidence, read over `windows` windows."""
    drafts = [draft for draft in (_from_population(p, evidence) for p in evidence.populations) if draft is not None]
    drafts += _from_graphs(evidence, drafts)
    drafts += _from_open_tapes(evidence, drafts)
    drafts += _from_garbage(evidence)
    drafts = _merge(drafts)
    drafts += _from_autopsy(evidence, drafts)
    for draft in drafts:
        draft.birth = draft.birth or _line_of_makers(draft.cause, evidence)
    _fold_debris(drafts, evidence)
    drafts += _from_native_rest(evidence, drafts)
    worth = [d for d in drafts if _worth(d, evidence)]
    findings = sorted((_finding(d, evidence, windows) for d in worth), key=_rank)
    leaks = [d for d in worth if d.kind == "leak"]
    spread = (sum(d.spread[0] for d in leaks), sum(d.spread[1] for d in leaks))
    return replace(_conclude(evidence, tuple(findings), drafts, windows), spread=spread)


# ---------------------------------------------------------------------------------------------- populations


def _from_population(p: Population, evidence: Evidence) -> _Draft | None:
    if p.tier == 4:  # unreachable cycles are judged as garbage, by whether a collector will come for them
        return None
    if p.tier == 3 and not p.tensor_bytes_per_tick:
        return None
    cause = _cause_of(p)
    draft = _Draft(
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
    draft.also = _also(cause, p, evidence)
    draft.evidence = _population_evidence(p, evidence.ticks.unit)
    if cause == "numpy-view-kept":
        draft.bytes, draft.tensor_bytes = draft.bytes + p.kept_bytes, draft.tensor_bytes + p.kept_bytes
    return draft


def _cause_of(p: Population) -> str:
    for test, cause in _MATCHERS:
        if test(p):
            return cause
    return "unattributed-growth"


def _retrace(kind: str | None) -> Callable[[Population], bool]:
    def test(p: Population) -> bool:
        holds_traces = p.kinds.get("trace", 0) > 0 or p.kinds.get("graph", 0) > 0
        return "function" in p.through and holds_traces and p.changed_kind == kind

    return test


def _has(*kinds: str) -> Callable[[Population], bool]:
    return lambda p: any(p.kinds.get(kind, 0) >= 0.05 for kind in kinds)


# First match wins: what lies on the path comes before what the population is made of, because a tensor in a kept
# exception is cured at the exception.
_MATCHERS: tuple[tuple[Callable[[Population], bool], str], ...] = (
    (lambda p: p.tier == 2 and "gradient registry" in p.root, "gradient-registry"),
    (lambda p: p.tier == 2 and "Python functions" in p.root, "py-function-registry"),
    (lambda p: "exception" in p.through, "exception-kept"),
    (lambda p: "lru-cache" in p.through, "cache-on-method"),
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
        told = [f"{counted(p.objects_per_tick, p.type_name)} more each {unit}"]
    beside = [counted(n, kind) for kind, n in sorted(p.kinds.items(), key=lambda item: -item[1]) if n >= 0.05]
    if beside:
        told.append(f"with it {a_unit(unit)}: " + ", ".join(beside[:6]))
    if p.function:
        told.append(f"in the cache of the tf.function {p.function}")
    return told


# ---------------------------------------------------------------------------------------------- other witnesses


def _from_graphs(evidence: Evidence, drafts: list[_Draft]) -> list[_Draft]:
    if any(d.cause == "graph-grows-in-session-loop" for d in drafts):
        for draft in drafts:
            if draft.cause == "graph-grows-in-session-loop":
                draft.native_weight = True  # the ops themselves are in C++
                if evidence.graphs:
                    draft.birth = draft.birth or evidence.graphs[0].birth
        return []
    found = []
    for graph in evidence.graphs:
        draft = _Draft(
            "graph-grows-in-session-loop", 0.0, 0.0, graph.ops_per_tick, graph.birth, graph.holder, native_weight=True
        )
        draft.evidence.append(f"{counted(graph.ops_per_tick, 'op')} more in {graph.name} each {evidence.ticks.unit}")
        found.append(draft)
    return found


def _from_open_tapes(evidence: Evidence, drafts: list[_Draft]) -> list[_Draft]:
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
        draft = _Draft("unattributed-growth", held, held, count, tier=3)
        draft.evidence.append(
            f"{counted(count, 'tensor')} more each {evidence.ticks.unit} that only native code holds; "
            "no tape is alive between ticks"
        )
        return [draft]
    draft = _Draft("tape-left-open", held, held, count, open_tape.birth, open_tape.holder, native_weight=True)
    draft.evidence.append(
        f"{counted(count, 'tensor')} more each {evidence.ticks.unit} that only native code holds, "
        "while this tape still records"
    )
    return [draft]


def _from_garbage(evidence: Evidence) -> list[_Draft]:
    waste = evidence.garbage
    if waste is None or waste.bytes_per_tick < evidence.min_growth:
        return []
    draft = _Draft(
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


def _from_autopsy(evidence: Evidence, drafts: list[_Draft]) -> list[_Draft]:
    """Findings, or shares of findings, that the release actions named."""
    given = {g.action: g.bytes_per_tick for g in evidence.autopsy or ()}
    found: list[_Draft] = []
    registry = given.get("gradient-registry", 0.0)
    for draft in drafts:
        if draft.cause == "gradient-registry" and registry > 0:
            draft.autopsied = True
            draft.bytes = max(draft.bytes, registry)
            draft.evidence.append(f"purging its orphans gives back {registry:.0f} bytes {a_unit(evidence.ticks.unit)}")
    for action, cause in (("kernel-cache", "eager-kernel-cache"), ("scalar-cache", "eager-scalar-cache")):
        share = given.get(action, 0.0)
        if not evidence.differential:
            share = _share_that_grew(share, drafts + found, evidence)
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


def _share_that_grew(share: float, drafts: list[_Draft], evidence: Evidence) -> float:
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


def _host_of(action: str, share: float, drafts: list[_Draft]) -> _Draft | None:
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
    return leading if share <= 0.1 * leading.bytes else None


def _cache_finding(cause: str, share: float, evidence: Evidence) -> _Draft:
    if cause == "eager-scalar-cache":
        line = max(evidence.scalars, key=lambda m: m.per_tick, default=None)
        draft = _Draft(cause, share, 0.0, line.per_tick if line else 0.0, line.birth if line else None)
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
    birth = site.birth if site else None
    if birth is None:
        made = [
            m
            for m in evidence.made
            if m.kind in ("optimizer", "variable", "keras-variable", "trace", "dataset", "iterator")
            and m.per_tick >= 0.5
        ]
        birth = max(made, key=lambda m: m.per_tick).birth if made else None
    # Values that look alike tell nothing (a serialised proto): the op and the line are enough then.
    changed = site.changed if site and site.changed and len(set(site.changed.values)) > 1 else None
    draft = _Draft(cause, share, 0.0, site.new_keys_per_tick if site else 0.0, birth, None, changed)
    if evidence.native is not None:
        draft.spread = _wider((0.0, 0.0), evidence.native, share)
    if site:
        draft.evidence.append(
            f"{counted(site.new_keys_per_tick, f'new {site.op} kernel')} {a_unit(evidence.ticks.unit)} from this line"
        )
    made_each_tick = {m.kind for m in evidence.made if m.per_tick >= 0.5}
    if cause == "eager-kernel-cache" and "optimizer" in made_each_tick:
        draft.also.append("optimizer-recreated")
    if cause == "eager-kernel-cache" and "lookup-table" in made_each_tick:
        draft.cause, draft.also = "lookup-table-recreated", [cause]
    draft.evidence.append(f"clearing the cache gives back {share:.0f} bytes {a_unit(evidence.ticks.unit)}")
    return draft


# ---------------------------------------------------------------------------------------------- adding up


def _merge(drafts: list[_Draft]) -> list[_Draft]:
    """One finding for populations of one cause at one line or holder: they are one thing in several containers."""
    merged: list[_Draft] = []
    for draft in sorted(drafts, key=lambda d: -d.bytes):
        for other in merged:
            if other.cause == draft.cause and _same_place(other, draft):
                other.bytes += draft.bytes
                other.tensor_bytes += draft.tensor_bytes
                other.spread = (other.spread[0] + draft.spread[0], other.spread[1] + draft.spread[1])
                other.native_weight = other.native_weight or draft.native_weight
                other.birth = other.birth or draft.birth
                other.holder = other.holder or draft.holder
                break
        else:
            merged.append(draft)
    return merged


def _same_place(a: _Draft, b: _Draft) -> bool:
    if a.tier == b.tier == 2 or a.cause == "tape-kept":
        return True
    if a.holder is not None and b.holder is not None and a.holder.text == b.holder.text:
        return True
    same_line = (
        a.birth is not None and b.birth is not None and (a.birth.file, a.birth.line) == (b.birth.file, b.birth.line)
    )
    return same_line and (a.tier == b.tier or min(a.bytes, b.bytes) < 0.2 * max(a.bytes, b.bytes))


def _fold_debris(drafts: list[_Draft], evidence: Evidence) -> None:
    """Adds to the leading finding what libraries and registries keep in its wake, so that one leak is one finding."""
    leading = max(
        (d for d in drafts if d.kind == "leak" and d.steady and d.tier != 1), key=lambda d: d.bytes, default=None
    )
    if leading is None or leading.bytes < evidence.min_growth:
        return
    for draft in list(drafts):
        if draft is leading:
            continue
        wake = draft.tier == 1 or draft.cause == "unattributed-growth"
        registry = draft.tier == 2 and draft.bytes < 0.5 * leading.bytes
        small = draft.bytes < 0.25 * leading.bytes
        if registry or (wake and small) or (draft.tier in (0, 3) and draft.bytes < 0.02 * leading.bytes):
            leading.bytes += draft.bytes
            if registry and draft.cause not in leading.also:
                leading.also.append(draft.cause)
            drafts.remove(draft)


# Whose line stands for a cause when the things themselves do not know theirs: the kinds that come with it, best first.
_MAKERS = {
    "gradient-registry": ("fit", "train_on_batch", "gradient-entry", "trace"),
    "py-function-registry": ("py-function",),
    "models-kept": ("model", "optimizer"),
    "variables-created-per-step": ("variable", "keras-variable"),
    "tape-kept": ("tape",),
    "tape-left-open": ("tape",),
    "function-recreated": ("function", "trace"),
    "retrace-python-value": ("trace",),
    "retrace-new-shape": ("trace",),
    "retrace-new-object": ("trace",),
    "summary-writer-recreated": ("summary-writer",),
    "lookup-table-recreated": ("lookup-table",),
    "dataset-recreated": ("dataset",),
    "session-not-closed": ("session",),
    "tensorarray-grows": ("tensor-array",),
}


def _line_of_makers(cause: str, evidence: Evidence) -> Birth | None:
    for kind in _MAKERS.get(cause, ()):
        made = [m for m in evidence.made if m.kind == kind and m.per_tick >= 0.05]
        if made:
            return max(made, key=lambda m: m.per_tick).birth
    return None


def _from_native_rest(evidence: Evidence, drafts: list[_Draft]) -> list[_Draft]:
    native = evidence.native
    if native is None or not native.stands or not native.steady:
        return []
    total = native.bytes_per_tick + native.python_bytes_per_tick
    rest = total - sum(d.bytes for d in drafts if d.kind == "leak")
    carriers = [d for d in drafts if d.native_weight and d.kind == "leak" and d.steady and not d.autopsied]
    # Things with native weight that multiply are a witness of their own: half the drift of a healthy program will do.
    if rest < (NATIVE_FLOOR / 4 if carriers else NATIVE_FLOOR) or rest < 0.1 * total:
        return []
    if carriers:
        host = max(carriers, key=lambda d: (d.cause == "graph-grows-in-session-loop", d.bytes))
        host.bytes += rest
        host.spread = _wider(host.spread, native, rest)
        host.evidence.append(f"{rest:.0f} bytes {a_unit(evidence.ticks.unit)} of it outside Python")
        return []
    cached = next(
        (d for d in drafts if d.cause in ("eager-kernel-cache", "seeded-random-ops", "lookup-table-recreated")), None
    )
    if cached is not None and rest <= 2 * cached.bytes and native.low >= 0.5 * native.bytes_per_tick:
        cached.spread = _wider(cached.spread, native, rest)
        cached.bytes += rest  # what the kernels themselves hold: a table's entries, a generator's state
        return []
    # Nothing else bears witness, so the whole interval must lie above the drift of healthy programs.
    sure = native.low + native.python_bytes_per_tick - (total - rest)
    # A run does not collect garbage before it reads, and garbage comes and goes by megabytes: without any witness
    # beside malloc itself more is asked for.
    witnessed = evidence.differential or bool(evidence.datasets)
    share, least = (0.5, _WARM_UP) if witnessed else (0.7, 4 * _WARM_UP)
    if (rest < 0.3 * total and drafts) or sure < max(NATIVE_FLOOR, share * rest) or rest * native.span < least:
        return []
    if evidence.datasets:
        cache = evidence.datasets[0]
        draft = _Draft("dataset-cache-unbounded", rest, 0.0, 0.0, cache.birth, cache.holder, slowing=native.slowing)
        draft.spread = _wider((0.0, 0.0), native, rest)
        draft.evidence.append(cache.reason)
        return [draft]
    top = max((s for s in evidence.ops if s.new_keys_per_tick >= 0.5), key=lambda s: s.new_keys_per_tick, default=None)
    draft = _Draft("unattributed-growth", rest, 0.0, 0.0, top.birth if top else None, None, slowing=native.slowing)
    draft.spread = _wider((0.0, 0.0), native, rest)
    draft.evidence.append(
        "malloc and the allocator pool grow in every window; no Python object, cache or registry accounts for it"
    )
    return [draft]


def _wider(spread: tuple[float, float], native: Native, part: float) -> tuple[float, float]:
    """The spread with that of a part of the native growth added, in proportion."""
    scale = part / native.bytes_per_tick if native.bytes_per_tick > 0 else 0.0
    below = max(native.bytes_per_tick - native.low, 0.0) * min(scale, 1.0)
    return spread[0] + min(below, part), spread[1] + max(native.high - native.bytes_per_tick, 0.0) * min(scale, 1.0)


# ---------------------------------------------------------------------------------------------- conclusions


def _worth(draft: _Draft, evidence: Evidence) -> bool:
    if draft.kind == "leak":
        return draft.steady and not draft.slowing and draft.bytes >= evidence.min_growth
    return True


def _finding(draft: _Draft, evidence: Evidence, windows: int) -> Finding:
    entry = CATALOGUE[draft.cause]
    finding = Finding(
        cause=draft.cause,
        code=entry.code,
        kind=draft.kind,
        origin=entry.origin,
        confidence=round(1 - 0.3 * 0.5**windows, 3),
        bytes_per_tick=draft.bytes,
        tensor_bytes_per_tick=draft.tensor_bytes,
        objects_per_tick=draft.objects or None,
        remedy=entry.remedy,
        birth=draft.birth,
        holder=draft.holder,
        changed=draft.changed,
        also=tuple(draft.also),
        evidence=tuple(draft.evidence),
    )
    return replace(finding, fingerprint=fingerprint(finding))


def fingerprint(finding: Finding) -> str:
    """A short name for one leak, the same across runs, line shifts and modes.

    Made from the cause, the holder with indices blanked and the function of the birth.
    """
    holder = re.sub(r"\[[^\]'\"]*\]", "[*]", finding.holder.text) if finding.holder else ""
    born = finding.birth.function if finding.birth else ""
    return hashlib.sha256(f"{finding.cause}|{holder}|{born}".encode(errors="surrogateescape")).hexdigest()[:16]


def _rank(finding: Finding) -> tuple[bool, float]:
    return (finding.kind != "leak", -(finding.bytes_per_tick or 0.0))


def _conclude(evidence: Evidence, findings: tuple[Finding, ...], drafts: Iterable[_Draft], windows: int) -> Verdict:
    notes = tuple(_small_notes(evidence, drafts))
    leaks = [f for f in findings if f.kind == "leak"]
    unit = evidence.ticks.unit
    if windows < 3:
        count = evidence.ticks.count
        why = (
            f"{units(unit, count)} {'is' if count == 1 else 'are'} too few to tell growth from warm-up; "
            f"at least {max(10, 2 * count)} would decide"
            if count < 40
            else f"in {units(unit, count)} the heap could be read after warm-up {counted(windows + 1, 'time')} only, "
            "and 4 are needed; a run that takes longer would decide"
        )
        return Verdict(
            "inconclusive",
            why,
            (),
            notes,
        )
    if leaks:
        top = leaks[0]
        return Verdict(
            "leak",
            f"{top.cause}: {top.bytes_per_tick or 0:.0f} bytes more each {unit} in every window",
            findings,
            notes,
        )
    slowing = [d for d in drafts if d.slowing and d.bytes >= evidence.min_growth]
    native = evidence.native
    if slowing or (native is not None and native.stands and native.slowing and native.low >= NATIVE_FLOOR):
        more = max(2 * evidence.ticks.count, 40)
        return Verdict(
            "inconclusive",
            f"growth slows down from window to window; {units(unit, more)} would tell whether it ends",
            findings,
            notes,
        )
    return Verdict(
        "flat",
        f"nothing grew by {evidence.min_growth:.0f} bytes {a_unit(unit)} or more in every window",
        findings,
        notes,
    )


def _small_notes(evidence: Evidence, drafts: Iterable[_Draft]) -> Iterable[str]:
    for draft in drafts:
        if (
            draft.kind == "leak"
            and draft.steady
            and 256 <= draft.bytes < evidence.min_growth
            and draft.holder is not None
        ):
            yield (
                f"{draft.holder.text} grows by {draft.bytes:.0f} bytes {a_unit(evidence.ticks.unit)}, "
                f"below the least growth that is judged ({evidence.min_growth:.0f})"
            )
