"""A report as JSON, the contract `tenure/report/1`, and back again; with or without the values of arguments.

The form itself is `tenure.contract`, which recordings use too.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from dataclasses import replace
from typing import Any

from tenure import contract
from tenure.contract import SCHEMA, from_dict, in_order
from tenure.records import Changed, Report

__all__ = ["SCHEMA", "dumps", "from_dict", "in_order", "loads", "redacted", "to_dict"]

REDACTED = "<redacted>"


def dumps(report: Report, *, redact: bool = False, indent: int | None = None) -> str:
    """The report as JSON text; with `redact`, without the values of arguments."""
    return json.dumps(to_dict(report, redact=redact), indent=indent, allow_nan=False)


def loads(text: str) -> Report:
    """The report from JSON text. Raises ValueError, in one sentence, when the text is not such a report."""
    try:
        value = json.loads(text)
    except ValueError as error:
        raise ValueError(f"This is not JSON: {error}.") from error
    return from_dict(value)


def to_dict(report: Report, *, redact: bool = False) -> dict[str, Any]:
    """The report as the contract's plain values, keys in the contract's order, ready for `json.dumps`."""
    return contract.to_dict(redacted(report) if redact else report)


def redacted(report: Report) -> Report:
    """The report without values of arguments: those of functions (also where texts quote them) and the program's."""
    values = {value for finding in report.findings if finding.changed for value in finding.changed.values}
    hide = _hider(values)
    findings = tuple(
        replace(
            finding,
            changed=None if finding.changed is None else _without_values(finding.changed),
            evidence=tuple(hide(line) for line in finding.evidence),
            remedy=hide(finding.remedy),
        )
        for finding in report.findings
    )
    program = (*report.program[:1], *(REDACTED for _ in report.program[1:]))
    notes = tuple(hide(note) for note in report.notes)
    return replace(report, program=program, findings=findings, notes=notes, why=hide(report.why))


def _hider(values: set[str]) -> Callable[[str], str]:
    quoted = [_whole(value) for value in sorted(values, key=len, reverse=True) if value.strip()]
    if not quoted:
        return lambda text: text
    pattern = re.compile("|".join(quoted))
    return lambda text: pattern.sub(REDACTED, text)


def _whole(value: str) -> str:
    # Only whole words and numbers: hiding 1 must not turn 128 into <redacted>28.
    before = r"(?<![\w.])" if value[0].isalnum() else ""
    after = r"(?!\w)" if value[-1].isalnum() else ""
    return f"{before}{re.escape(value)}{after}"


def _without_values(changed: Changed) -> Changed:
    return replace(changed, values=tuple(REDACTED for _ in changed.values))
