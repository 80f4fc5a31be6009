"""What grew for a while and has come to rest is no leak, in a soak and in a run."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from tenure.explain.growth import trend

pytest.importorskip("tensorflow")

TARGETS = """
import collections
import tensorflow as tf

lazy, cut, replay, ring = {}, [], collections.deque(maxlen=45), collections.deque(maxlen=180)


def lazy_columns(i):
    if i < 45:
        lazy[i] = tf.Variable(tf.zeros([5000]))


def cut_to_a_tenth(i):
    cut.append(tf.ones([5000]))
    if len(cut) >= 50:
        del cut[:45]


def a_third_of_a_ring(i):
    ring.append(tf.ones([5000]))


def filling_replay(i):
    replay.append(tf.ones([5000]))


@tf.function
def double(x):
    return tf.reduce_sum(x * 2)


def shapes(i):
    double(tf.ones([1 + i % 45]))


def step(i):
    import time
    if i < STOP:
        lazy[i] = tf.ones([5000])
    time.sleep(0.003)


if __name__ == "__main__":
    STOP = 130
    for i in range(200):
        step(i)
"""


def report(tmp_path: Path, *arguments: str) -> Any:
    (tmp_path / "program.py").write_text(TARGETS)
    out = tmp_path / "out.json"
    subprocess.run(
        [sys.executable, "-m", "tenure", arguments[0], "--json", str(out), *arguments[1:]],
        env={**os.environ, "PYTHONPATH": str(Path(__file__).parents[1] / "src"), "TF_CPP_MIN_LOG_LEVEL": "3"},
        cwd=tmp_path,
        capture_output=True,
        check=False,
        timeout=120,
    )
    return json.loads(out.read_text())


@pytest.mark.slow
@pytest.mark.parametrize("target", ["lazy_columns", "cut_to_a_tenth", "filling_replay", "shapes"])
def test_a_soak_sees_that_it_has_stopped(tmp_path: Path, target: str) -> None:
    told = report(tmp_path, "soak", "--cycles", "60", f"program.py:{target}")
    assert told["verdict"] == "flat", [told["why"], *(f["cause"] for f in told["findings"])]
    assert any("has stopped growing" in note for note in told["notes"])


@pytest.mark.slow
def test_a_ring_that_is_not_full_yet_decides_nothing(tmp_path: Path) -> None:
    told = report(tmp_path, "soak", "--cycles", "60", "program.py:a_third_of_a_ring")
    assert told["verdict"] == "inconclusive", [f["cause"] for f in told["findings"]]
    assert "program.ring still fills" in told["why"] and "of at most 180 (maxlen)" in told["why"]


@pytest.mark.slow
def test_a_run_sees_that_it_has_stopped(tmp_path: Path) -> None:
    told = report(tmp_path, "run", "program.py")
    assert told["verdict"] == "flat", told["why"]


def test_what_fills_up_in_the_last_window_is_not_steady() -> None:
    marks = (8, 14, 21, 27, 34, 44)
    assert trend(marks, [float(mark) for mark in marks]).steady
    assert not trend(marks, [float(min(mark, 36)) for mark in marks]).steady
    assert trend(marks, [float(mark // 3) for mark in marks]).steady  # every third tick
