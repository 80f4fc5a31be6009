"""A report goes to the contract `tenure/report/1` and back; values of arguments can be left out."""

from __future__ import annotations

import json
import math
from dataclasses import replace

import pytest
from test_report_fakes import FLAT, INCONCLUSIVE, KEPT, LEAK, REFIT, RETRACE

from tenure.records import Changed, Growth, Report
from tenure.report.json import dumps, from_dict, in_order, loads, redacted, to_dict


@pytest.mark.parametrize("report", [LEAK, FLAT, INCONCLUSIVE])
def test_a_report_comes_back(report: Report) -> None:
    assert loads(dumps(report)) == replace(report, findings=in_order(report.findings), samples=())


def test_the_keys_are_those_of_the_contract() -> None:
    value = to_dict(LEAK)

    assert list(value) == [
        "schema", "tenure", "versions", "program", "exit_status", "verdict", "why", "ticks", "growth", "waterfall",
        "findings", "autopsy", "notes", "missing",
    ]  # fmt: skip
    assert value["schema"] == "tenure/report/1"
    assert list(value["ticks"]) == ["unit", "function", "count", "warmup"]
    assert list(value["growth"]) == [
        "bytes_per_tick", "low", "high", "confidence", "smallest_seen", "seconds_to_limit",
        "limit_bytes",
    ]  # fmt: skip
    assert value["waterfall"]["start"][0] == {"name": "live tensors", "bytes": 20_000_000}
    assert value["waterfall"]["end"][3] == {"name": "Python heap", "bytes": None}
    assert list(value["findings"][0]) == [
        "cause", "code", "also", "class", "origin", "confidence", "bytes_per_tick", "tensor_bytes_per_tick",
        "objects_per_tick", "birth", "holder", "changed", "remedy", "evidence", "fingerprint",
        "versions", "upstream",
    ]  # fmt: skip
    assert value["findings"][1]["birth"] == {
        "file": "/home/ann/job/train.py", "line": 13, "function": "update",
        "text": "losses.append(tf.reduce_mean(loss[0]))",
    }  # fmt: skip
    assert value["findings"][1]["holder"] == {
        "text": "train.history['loss'][*]", "path": ["module train", "history", "['loss']", "[*]"],
        "file": "/home/ann/job/train.py", "line": 14,
    }  # fmt: skip
    assert value["findings"][2]["changed"] == {"argument": "step", "values": ["17", "18", "19"]}
    assert value["findings"][2]["bytes_per_tick"] is None
    assert value["autopsy"][0] == {"action": "gradient-registry", "bytes_per_tick": 7_259_000.0}
    assert value["missing"] == [{"figure": "GPU memory", "why": "no NVIDIA driver was found"}]
    assert to_dict(INCONCLUSIVE)["growth"] is None
    assert to_dict(INCONCLUSIVE)["autopsy"] is None


def test_the_largest_leak_comes_first() -> None:
    small = replace(KEPT, bytes_per_tick=1.0)
    unknown = replace(KEPT, bytes_per_tick=None)
    dear = replace(RETRACE, bytes_per_tick=1e9)
    hazard = replace(RETRACE, kind="hazard")

    ordered = in_order([dear, unknown, small, hazard, KEPT, REFIT])

    assert ordered == (REFIT, KEPT, small, unknown, hazard, dear)


def test_a_figure_that_is_no_number_is_null() -> None:
    growth = Growth(math.nan, -math.inf, math.inf, 0.5, 4096.0, math.inf)
    text = dumps(replace(LEAK, growth=growth))

    assert json.loads(text)["growth"] == {
        "bytes_per_tick": None, "low": None, "high": None, "confidence": 0.5, "smallest_seen": 4096.0,
        "seconds_to_limit": None, "limit_bytes": None,
    }  # fmt: skip
    read = loads(text).growth
    assert read is not None
    assert math.isnan(read.bytes_per_tick)


def test_redacted_values_are_nowhere() -> None:
    secret = replace(
        RETRACE,
        changed=Changed("user", ("'alice'", "17", "[3, 4]", "-0.5")),
        evidence=("new for user='alice', then 17; then f[3, 4] and x-0.5; 128 and 1.17 stay",),
        remedy="Pass 'alice' as a tensor.",
    )
    report = replace(LEAK, findings=(secret,), why="one trace for 'alice'", notes=("17 was last",))

    text = dumps(report, redact=True)
    value = json.loads(text)

    assert "alice" not in text
    assert value["findings"][0]["changed"] == {"argument": "user", "values": ["<redacted>"] * 4}
    assert value["findings"][0]["evidence"] == [
        "new for user=<redacted>, then <redacted>; then f<redacted> and x<redacted>; 128 and 1.17 stay"
    ]
    assert value["notes"] == ["<redacted> was last"]
    assert value["program"] == ["train.py", "<redacted>"]
    assert "alice" in dumps(report)
    assert redacted(FLAT) == FLAT


def test_keys_of_a_later_version_are_passed_over() -> None:
    value = to_dict(LEAK)
    value["new"] = 1
    value["findings"][0]["new"] = 1

    assert from_dict(value) == loads(dumps(LEAK))


@pytest.mark.parametrize(
    ("text", "sentence"),
    [
        ("{", "This is not JSON"),
        ("[]", "This is not a report in the form tenure/report/1"),
        ('{"schema": "tenure/report/2"}', "its schema is 'tenure/report/2'"),
        ('{"schema": "tenure/report/1"}', "incomplete or malformed: KeyError 'ticks'"),
        (dumps(LEAK).replace('"count": 10', '"counted": 10'), "incomplete or malformed: KeyError 'count'"),
    ],
)
def test_what_is_no_report_is_told(text: str, sentence: str) -> None:
    with pytest.raises(ValueError, match=r"\.$") as caught:
        loads(text)

    assert sentence in str(caught.value)
