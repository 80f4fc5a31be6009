"""The JSON contract `tenure/report/1`: a report as plain values and back.

Keys may be added, never changed; a figure that could not be had is null; samples are left out. Recordings store the
last verdict in this form, and reports are written in it.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Mapping
from typing import Any, TypeVar

from tenure.records import (
    Birth,
    Changed,
    Finding,
    GivenBack,
    Growth,
    Holder,
    Layer,
    Missing,
    Report,
    Ticks,
)

__all__ = ["SCHEMA", "from_dict", "in_order", "to_dict"]

SCHEMA = "tenure/report/1"

_KINDS = ("leak", "hazard", "cost", "peak", "retention")

T = TypeVar("T")


def in_order(findings: Iterable[Finding]) -> tuple[Finding, ...]:
    """The findings with the largest leak first, then hazards, costs, peaks and retention, the largest first in each."""
    return tuple(sorted(findings, key=_place))


def to_dict(report: Report) -> dict[str, Any]:
    """The report as the contract's plain values, keys in the contract's order, ready for `json.dumps`."""
    return {
        "schema": SCHEMA,
        "tenure": report.tenure,
        "versions": dict(report.versions),
        "program": list(report.program),
        "exit_status": report.exit_status,
        "verdict": report.verdict,
        "why": report.why,
        "ticks": {
            "unit": report.ticks.unit,
            "function": report.ticks.function,
            "count": report.ticks.count,
            "warmup": report.ticks.warmup,
        },
        "growth": _growth_to_dict(report.growth),
        "waterfall": {
            "start": [{"name": layer.name, "bytes": layer.bytes} for layer in report.waterfall_start],
            "end": [{"name": layer.name, "bytes": layer.bytes} for layer in report.waterfall_end],
            "ticks": None if report.waterfall_ticks is None else list(report.waterfall_ticks),
        },
        "findings": [_finding_to_dict(finding) for finding in in_order(report.findings)],
        "autopsy": None
        if report.autopsy is None
        else [{"action": part.action, "bytes_per_tick": _figure(part.bytes_per_tick)} for part in report.autopsy],
        "notes": list(report.notes),
        "missing": [{"figure": part.figure, "why": part.why} for part in report.missing],
    }


def from_dict(value: Mapping[str, Any]) -> Report:
    """The report from the contract's plain values; keys that this version does not know are passed over."""
    schema = value.get("schema") if isinstance(value, Mapping) else None
    if schema != SCHEMA:
        raise ValueError(f"This is not a report in the form {SCHEMA} (its schema is {schema!r}).")
    try:
        return _from_dict(value)
    except (KeyError, TypeError, AttributeError) as error:
        raise ValueError(f"This report is incomplete or malformed: {type(error).__name__} {error}.") from error


def _place(finding: Finding) -> tuple[int, float]:
    kind = _KINDS.index(finding.kind) if finding.kind in _KINDS else len(_KINDS)
    size = _figure(finding.bytes_per_tick)
    return kind, math.inf if size is None else -size


def _figure(value: float | None) -> float | None:
    return value if value is not None and math.isfinite(value) else None


def _growth_to_dict(growth: Growth | None) -> dict[str, Any] | None:
    if growth is None:
        return None
    return {
        "bytes_per_tick": _figure(growth.bytes_per_tick),
        "low": _figure(growth.low),
        "high": _figure(growth.high),
        "confidence": _figure(growth.confidence),
        "smallest_seen": _figure(growth.smallest_seen),
        "seconds_to_limit": _figure(growth.seconds_to_limit),
        "limit_bytes": growth.limit_bytes,
    }


def _finding_to_dict(finding: Finding) -> dict[str, Any]:
    birth, holder, changed = finding.birth, finding.holder, finding.changed
    return {
        "cause": finding.cause,
        "code": finding.code,
        "also": list(finding.also),
        "class": finding.kind,
        "origin": finding.origin,
        "confidence": _figure(finding.confidence),
        "bytes_per_tick": _figure(finding.bytes_per_tick),
        "tensor_bytes_per_tick": _figure(finding.tensor_bytes_per_tick),
        "objects_per_tick": _figure(finding.objects_per_tick),
        "birth": None
        if birth is None
        else {"file": birth.file, "line": birth.line, "function": birth.function, "text": birth.text},
        "holder": None
        if holder is None
        else {"text": holder.text, "path": list(holder.path), "file": holder.file, "line": holder.line},
        "changed": None if changed is None else {"argument": changed.argument, "values": list(changed.values)},
        "remedy": finding.remedy,
        "evidence": list(finding.evidence),
        "fingerprint": finding.fingerprint,
        "versions": finding.versions or None,
        "upstream": list(finding.upstream),
    }


def _two_ticks(value: Any) -> tuple[int, int] | None:
    return None if value is None else (int(value[0]), int(value[1]))  # absent in reports of earlier versions


def _from_dict(value: Mapping[str, Any]) -> Report:
    ticks = value["ticks"]
    waterfall = value["waterfall"]
    autopsy = value["autopsy"]
    return Report(
        tenure=value["tenure"],
        versions=dict(value["versions"]),
        program=tuple(value["program"]),
        exit_status=value["exit_status"],
        verdict=value["verdict"],
        why=value["why"],
        ticks=Ticks(ticks["unit"], ticks["function"], ticks["count"], ticks["warmup"]),
        growth=_optional(value["growth"], _growth_from_dict),
        waterfall_start=tuple(Layer(layer["name"], layer["bytes"]) for layer in waterfall["start"]),
        waterfall_end=tuple(Layer(layer["name"], layer["bytes"]) for layer in waterfall["end"]),
        waterfall_ticks=_two_ticks(waterfall.get("ticks")),
        findings=tuple(_finding_from_dict(finding) for finding in value["findings"]),
        autopsy=None
        if autopsy is None
        else tuple(GivenBack(part["action"], _number(part["bytes_per_tick"])) for part in autopsy),
        notes=tuple(value["notes"]),
        missing=tuple(Missing(part["figure"], part["why"]) for part in value["missing"]),
    )


def _growth_from_dict(value: Mapping[str, Any]) -> Growth:
    return Growth(
        bytes_per_tick=_number(value["bytes_per_tick"]),
        low=_number(value["low"]),
        high=_number(value["high"]),
        confidence=_number(value["confidence"]),
        smallest_seen=_number(value["smallest_seen"]),
        seconds_to_limit=value["seconds_to_limit"],
        limit_bytes=value.get("limit_bytes"),
    )


def _finding_from_dict(value: Mapping[str, Any]) -> Finding:
    return Finding(
        cause=value["cause"],
        code=value["code"],
        kind=value["class"],
        origin=value["origin"],
        confidence=_number(value["confidence"]),
        bytes_per_tick=value["bytes_per_tick"],
        tensor_bytes_per_tick=value["tensor_bytes_per_tick"],
        objects_per_tick=value["objects_per_tick"],
        remedy=value["remedy"],
        birth=_optional(value["birth"], lambda v: Birth(v["file"], v["line"], v["function"], v["text"])),
        holder=_optional(value["holder"], lambda v: Holder(v["text"], tuple(v["path"]), v["file"], v["line"])),
        changed=_optional(value["changed"], lambda v: Changed(v["argument"], tuple(v["values"]))),
        also=tuple(value["also"]),
        evidence=tuple(value["evidence"]),
        versions=value.get("versions") or "",
        upstream=tuple(value.get("upstream") or ()),
        fingerprint=value["fingerprint"],
    )


def _optional(value: Mapping[str, Any] | None, make: Callable[[Mapping[str, Any]], T]) -> T | None:
    return None if value is None else make(value)


def _number(value: float | None) -> float:
    """The number; NaN where the contract had null and the record has no None."""
    return math.nan if value is None else value
