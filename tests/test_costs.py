"""What is rebuilt at each tick is told as a cost: from evidence alone, and which lines are none."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from tenure.explain.diagnosis import diagnose
from tenure.explain.evidence import Evidence, Made, Population
from tenure.records import Birth, Holder, Ticks

TICKS = Ticks("tick", "serve.handle", 100, 15)
LINE = Birth("serve.py", 10, "handle", "do(x)")
OTHER = replace(LINE, line=20)


def told(*made: Made, **fields: Any) -> Any:
    return diagnose(Evidence(ticks=TICKS, made=made, **fields), 5)


def costs(*made: Made, **fields: Any) -> list[tuple[str, int]]:
    found = told(*made, **fields).findings
    return [(finding.cause, finding.birth.line) for finding in found if finding.kind == "cost"]


@pytest.mark.parametrize(
    ("kind", "cause"),
    [
        ("function", "function-recreated"),
        ("dataset", "dataset-recreated"),
        ("optimizer", "optimizer-recreated"),
        ("strategy", "strategy-recreated"),
        ("session", "session-not-closed"),
        ("saved-model-load", "saved-model-load-in-loop"),
        ("keras-load", "saved-model-load-in-loop"),
        ("saved-model-save", "saved-model-save-in-loop"),
        ("predict-one", "predict-per-item"),
    ],
)
def test_what_a_line_rebuilds_at_each_tick_is_a_cost(kind: str, cause: str) -> None:
    verdict = told(Made(kind, LINE, 1.0))
    (finding,) = verdict.findings
    assert verdict.verdict == "flat"
    assert (finding.cause, finding.kind, finding.birth, finding.objects_per_tick) == (cause, "cost", LINE, 1.0)
    assert finding.bytes_per_tick is None
    assert costs(Made(kind, LINE, 0.5)) == []  # every other tick is no cycle's own work


def test_what_keras_makes_under_a_line_is_not_the_lines() -> None:
    assert costs(Made("fit", LINE, 1.0), Made("dataset", LINE, 3.0), Made("function", LINE, 1.0)) == []
    assert costs(Made("keras-load", LINE, 1.0), Made("optimizer", LINE, 1.0)) == [("saved-model-load-in-loop", 10)]
    assert costs(Made("dataset", LINE, 1.0), Made("function", LINE, 1.0)) == [("dataset-recreated", 10)]


def test_an_optimizer_that_comes_with_each_model_is_not_its_own_cost() -> None:
    assert costs(Made("model", LINE, 1.0), Made("optimizer", OTHER, 1.0)) == []


def test_sessions_that_are_closed_anywhere_are_no_cost() -> None:
    assert costs(Made("session", LINE, 1.0), Made("session-close", OTHER, 1.0)) == []
    assert costs(Made("session", LINE, 1.0), Made("session-close", OTHER, 0.2)) == [("session-not-closed", 10)]


def test_a_line_or_a_cause_that_leaks_is_told_once() -> None:
    held = Holder("serve.kept[*]", ("module serve", "kept", "[*]"), "serve.py", 3)
    kept = Population(
        0, "module serve", "Dataset", 1.0, 9000.0, 0.0, kinds={"dataset": 1.0}, holder=held, birth=OTHER
    )  # fmt: skip
    assert costs(Made("function", OTHER, 1.0), Made("dataset", LINE, 1.0), populations=(kept,)) == []


def test_costs_come_after_leaks() -> None:
    held = Holder("serve.kept[*]", ("module serve", "kept", "[*]"), "serve.py", 3)
    kept = Population(
        0, "module serve", "EagerTensor", 1.0, 66000.0, 65536.0, kinds={"tensor": 1.0}, holder=held, birth=OTHER
    )
    found = told(Made("strategy", LINE, 1.0), populations=(kept,)).findings
    assert [(finding.cause, finding.kind) for finding in found] == [
        ("tensors-kept", "leak"),
        ("strategy-recreated", "cost"),
    ]
