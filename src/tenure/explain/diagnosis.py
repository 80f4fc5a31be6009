"""Turns evidence into findings and a verdict. Pure: evidence in, records out; no TensorFlow, no clock, no files.

What the witnesses name (`matchers`) is added up; a framework's cause and the user's are one finding. Native growth
that no population shows is given to the finding that carries native weight (graphs, tapes, writers), else it stands
alone as `unattributed-growth`. A false alarm costs more than a missed leak: what is not steady is not a leak.
"""

from __future__ import annotations

import hashlib
import math
import os
import re
from collections.abc import Iterable
from dataclasses import dataclass, replace

from tenure.causes import CATALOGUE
from tenure.explain.costs import costs
from tenure.explain.evidence import Evidence
from tenure.explain.matchers import (
    NATIVE_FLOOR,
    Draft,
    from_autopsy,
    from_garbage,
    from_graphs,
    from_open_tapes,
    from_population,
    least_kept,
    lines_of_native_growth,
    wider,
)
from tenure.explain.retained import retained
from tenure.records import Birth, Finding, Ticks, a_unit, counted, units

__all__ = ["Verdict", "diagnose"]

# What caches, kernels and converted code of a healthy program still add after warm-up, in all (a daily job with a new
# model a day adds 14-26 KB a day for its first four days, then 4).
_WARM_UP = 256 * 1024.0


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


def diagnose(evidence: Evidence, windows: int) -> Verdict:
    """The verdict on one program from its evidence, read over `windows` windows."""
    drafts = [draft for draft in (from_population(p, evidence) for p in evidence.populations) if draft is not None]
    drafts += from_graphs(evidence, drafts)
    drafts += from_open_tapes(evidence, drafts)
    drafts += from_garbage(evidence)
    drafts = _merge(drafts)
    drafts += from_autopsy(evidence, drafts)
    for draft in drafts:
        draft.birth = draft.birth or _line_of_makers(draft.cause, evidence)
    _fold_debris(drafts, evidence)
    drafts += _from_native_rest(evidence, drafts)
    drafts += costs(evidence, drafts)
    drafts += retained(evidence.held_free)
    worth = [d for d in drafts if _worth(d, evidence)]
    findings = sorted((_finding(d, evidence, windows) for d in worth), key=_rank)
    leaks = [d for d in worth if d.kind == "leak"]
    spread = (sum(d.spread[0] for d in leaks), sum(d.spread[1] for d in leaks))
    return replace(_conclude(evidence, tuple(findings), drafts, windows), spread=spread)


# ---------------------------------------------------------------------------------------------- adding up


def _merge(drafts: list[Draft]) -> list[Draft]:
    """One finding for populations of one cause at one line or holder: they are one thing in several containers."""
    merged: list[Draft] = []
    for draft in sorted(drafts, key=lambda d: -d.bytes):
        for other in merged:
            if other.cause == draft.cause and other.fills == draft.fills and _same_place(other, draft):
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


def _same_place(a: Draft, b: Draft) -> bool:
    if a.tier == b.tier == 2 or a.cause == "tape-kept":
        return True
    if a.holder is not None and b.holder is not None and a.holder.text == b.holder.text:
        return True
    same_line = (
        a.birth is not None and b.birth is not None and (a.birth.file, a.birth.line) == (b.birth.file, b.birth.line)
    )
    return same_line and (a.tier == b.tier or min(a.bytes, b.bytes) < 0.2 * max(a.bytes, b.bytes))


def _fold_debris(drafts: list[Draft], evidence: Evidence) -> None:
    """Adds to the leading finding what libraries and registries keep in its wake, so that one leak is one finding."""
    leading = max(
        (d for d in drafts if d.kind == "leak" and d.steady and d.fills is None and d.tier != 1),
        key=lambda d: d.bytes,
        default=None,
    )
    if leading is None or leading.bytes < evidence.min_growth:
        return
    for draft in list(drafts):
        if draft is leading or draft.fills is not None:
            continue
        wake = draft.tier == 1 or (draft.cause == "unattributed-growth" and draft.holder is None)
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


def _from_native_rest(evidence: Evidence, drafts: list[Draft]) -> list[Draft]:
    native = evidence.native
    if native is None or not native.stands:
        return []
    total = native.bytes_per_tick + native.python_bytes_per_tick
    rest = total - sum(d.bytes for d in drafts if d.kind == "leak")
    carriers = [d for d in drafts if d.native_weight and d.kind == "leak" and d.steady and not d.autopsied]
    # Things with native weight that multiply are a witness of their own: half the drift of a healthy program will do,
    # and one window in which an allocator took a region does not matter.
    if rest < (NATIVE_FLOOR / 4 if carriers else NATIVE_FLOOR) or rest < 0.1 * total:
        return []
    if not native.steady and not carriers:
        return []
    if carriers:
        host = max(carriers, key=lambda d: (d.cause == "graph-grows-in-session-loop", d.bytes))
        host.bytes += rest
        host.spread = wider(host.spread, native, rest)
        host.evidence.append(f"{rest:.0f} bytes {a_unit(evidence.ticks.unit)} of it outside Python")
        return []
    cached = next(
        (d for d in drafts if d.cause in ("eager-kernel-cache", "seeded-random-ops", "lookup-table-recreated")), None
    )
    if cached is not None and rest <= 2 * cached.bytes and native.low >= 0.5 * native.bytes_per_tick:
        cached.spread = wider(cached.spread, native, rest)
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
        draft = Draft("dataset-cache-unbounded", rest, 0.0, 0.0, cache.birth, cache.holder, slowing=native.slowing)
        draft.spread = wider((0.0, 0.0), native, rest)
        draft.evidence.append(cache.reason)
        return [draft]
    tables = [m for m in evidence.made if m.kind == "lookup-table" and m.per_tick >= 0.5]
    if tables:
        draft = Draft("lookup-table-recreated", rest, 0.0, tables[0].per_tick, tables[0].birth, slowing=native.slowing)
        draft.spread = wider((0.0, 0.0), native, rest)
        draft.evidence.append(
            f"{counted(tables[0].per_tick, 'lookup table')} {a_unit(evidence.ticks.unit)} on this line"
        )
        return [draft]
    if evidence.jit_functions:
        compiled = evidence.jit_functions[0]
        draft = Draft("xla-compilation-cache", rest, 0.0, 0.0, compiled.birth, compiled.holder, slowing=native.slowing)
        draft.spread = wider((0.0, 0.0), native, rest)
        draft.evidence.append(f"{compiled.name} is compiled for each new shape, and its traces do not multiply")
        return [draft]
    top = max((s for s in evidence.ops if s.new_keys_per_tick >= 0.5), key=lambda s: s.new_keys_per_tick, default=None)
    lines = lines_of_native_growth(evidence)
    born = lines[0][0] if len(lines) == 1 else top.birth if top and not lines else None
    draft = Draft("unattributed-growth", rest, 0.0, 0.0, born, None, slowing=native.slowing)
    draft.spread = wider((0.0, 0.0), native, rest)
    draft.evidence.append(
        "malloc and the allocator pool grow in every window; no Python object, cache or registry accounts for it"
    )
    unit = a_unit(evidence.ticks.unit)
    draft.measured_line = len(lines) == 1
    if draft.measured_line:
        draft.evidence.append(f"they grew by {lines[0][1]:,.0f} bytes {unit} while this line ran")
    for birth, grown in lines if 1 < len(lines) < 4 else ():
        place = f"{os.path.basename(birth.file)}:{birth.line}"
        draft.evidence.append(f"they grew by {grown:,.0f} bytes {unit} while {place} ran: it, or memory freed later")
    return [draft]


# ---------------------------------------------------------------------------------------------- conclusions


def _worth(draft: Draft, evidence: Evidence) -> bool:
    if draft.kind == "leak":
        return draft.steady and not draft.slowing and draft.fills is None and draft.bytes >= _least(draft, evidence)
    return True


def _least(draft: Draft, evidence: Evidence) -> float:
    """The least growth that is judged: tensors in a container are no noise, and come once an epoch where they do."""
    if draft.holder is not None and draft.tensor_bytes >= 0.5 * draft.bytes:
        return least_kept(evidence.min_growth, evidence.epoch, evidence.ticks.count)
    return evidence.min_growth


def _finding(draft: Draft, evidence: Evidence, windows: int) -> Finding:
    entry = CATALOGUE[draft.cause]
    # Plain objects in a container of the user's are no riddle, though no cause of TensorFlow's has their name.
    kept = draft.holder if draft.cause == "unattributed-growth" and draft.tier == 0 else None
    remedy = entry.remedy
    if kept is not None:
        remedy = f"Bound or clear {kept.text}, or keep less in it."
    elif draft.measured_line and draft.birth is not None:
        remedy = (
            f"What {os.path.basename(draft.birth.file)}:{draft.birth.line} gives to native code stays there: "
            "take it out again, close or bound what it fills, or report it to the library that it calls."
        )
    finding = Finding(
        cause=draft.cause,
        code=entry.code,
        kind=draft.kind,
        origin=entry.origin if kept is None else "user",
        confidence=round(1 - 0.3 * 0.5**windows, 3),
        bytes_per_tick=draft.bytes if draft.kind == "leak" else None,
        tensor_bytes_per_tick=draft.tensor_bytes if draft.kind == "leak" else None,
        objects_per_tick=draft.objects or None,
        remedy=remedy,
        birth=draft.birth,
        holder=draft.holder,
        changed=draft.changed,
        also=tuple(draft.also),
        evidence=tuple(draft.evidence),
        versions=entry.versions if entry.origin == "framework" else "",
        upstream=entry.upstream if entry.origin == "framework" else (),
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


def _conclude(evidence: Evidence, findings: tuple[Finding, ...], drafts: Iterable[Draft], windows: int) -> Verdict:
    told = {finding.holder.text for finding in findings if finding.holder is not None}
    notes = tuple(_small_notes(evidence, (d for d in drafts if d.holder is not None and d.holder.text not in told)))
    leaks = [f for f in findings if f.kind == "leak"]
    unit = evidence.ticks.unit
    if windows < 3:
        return Verdict("inconclusive", _too_few(evidence.ticks, windows), (), notes)
    if leaks:
        top = leaks[0]
        return Verdict(
            "leak",
            f"{top.cause}: {top.bytes_per_tick or 0:.0f} bytes more each {unit} in every window",
            findings,
            notes,
        )
    filling = [d for d in drafts if d.fills is not None and d.bytes >= _least(d, evidence)]
    if filling:
        return Verdict(
            "inconclusive", _until_full(max(filling, key=lambda d: d.bytes), evidence.ticks), findings, notes
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


def _until_full(draft: Draft, ticks: Ticks) -> str:
    """Why a container that has a bound and is not full yet decides nothing, and the run that would."""
    assert draft.fills is not None
    most, holds, by = draft.fills.most, draft.fills.holds, draft.fills.by
    name = draft.holder.text.removesuffix("[*]").removesuffix(" > ") if draft.holder else "a container"
    left = max(most - holds, 0) / draft.objects
    more = math.ceil(1.5 * (ticks.count + left) / 10) * 10  # half as long again, so that whole windows lie behind it
    at = f"{name} still fills: it holds {holds:,} of at most {most:,} ({by})"
    full = f"full, it takes {most * draft.bytes / draft.objects / 1e6:,.1f} MB"
    return f"{at}; {full}; {units(ticks.unit, more)} would tell whether anything grows beyond that"


def _too_few(ticks: Ticks, windows: int) -> str:
    """Why there is no verdict, and the run that would decide."""
    count, unit = ticks.count, ticks.unit
    if not count:
        return "no turn of the program's cycle was counted; name it by --tick MODULE:FUNCTION or call tenure.tick()"
    if count < 40:
        few = f"{units(unit, count)} {'is' if count == 1 else 'are'} too few to tell growth from warm-up"
        return f"{few}; at least {max(10, 2 * count)} would decide"
    read = f"in {units(unit, count)} the heap could be read after warm-up {counted(windows + 1, 'time')} only"
    return f"{read}, and 4 are needed; a run that takes longer would decide"


def _small_notes(evidence: Evidence, drafts: Iterable[Draft]) -> Iterable[str]:
    for draft in drafts:
        if (
            draft.kind == "leak"
            and draft.steady
            and 256 <= draft.bytes < _least(draft, evidence)
            and draft.holder is not None
        ):
            yield (
                f"{draft.holder.text} grows by {draft.bytes:.0f} bytes {a_unit(evidence.ticks.unit)}, "
                f"below the least growth that is judged ({_least(draft, evidence):.0f})"
            )
