"""What waits for the collector is no leak, and what a collection does not take is one, also in a run."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from tenure.explain.running import RunWatching
from tenure.records import Sample

# In a process of its own: no heap beside it, and a collector that is on and comes so late that garbage piles up.
WATCHED = """
import ctypes, gc, sys, time
from tenure.explain.running import RunWatching
from tenure.report.json import dumps

gc.set_threshold(1_000_000, 50, 50)
malloc = ctypes.CDLL(None).malloc
malloc.restype, malloc.argtypes = ctypes.c_void_p, [ctypes.c_size_t]


class Request:  # garbage that only the collector frees; its weight is malloc's, and no walk reaches it
    def __init__(self, weight):
        self.itself = self
        self.body = bytearray(weight)


lost, waits = int(sys.argv[1]), int(sys.argv[2])
watching = RunWatching(("fake",))
watching.start()
watching.set_ticks("tick", "fake")
for _ in range(240):
    if lost:
        malloc(lost)
    Request(waits)
    time.sleep(0.002)
    watching.tick()
print(dumps(watching.finish(0)))
"""


def watched(lost: int, waits: int) -> Any:
    """The report on a program that loses so many bytes a tick to C and leaves so many to the collector."""
    source = str(Path(__file__).parents[1] / "src")
    done = subprocess.run(
        [sys.executable, "-c", WATCHED, str(lost), str(waits)],
        env={**os.environ, "PYTHONPATH": source},
        capture_output=True,
        text=True,
        check=True,
        timeout=120,
    )
    return json.loads(done.stdout)


@pytest.mark.slow
def test_garbage_that_waits_for_the_collector_is_no_leak() -> None:
    report = watched(0, 60_000)
    assert report["verdict"] == "flat", report["why"]


@pytest.mark.slow
def test_native_growth_beside_such_garbage_is_a_leak() -> None:
    report = watched(200_000, 10_000)
    assert report["verdict"] == "leak", report["why"]
    assert report["findings"][0]["cause"] == "unattributed-growth"
    assert report["findings"][0]["bytes_per_tick"] == pytest.approx(200_000, rel=0.2)


def judging(marks: dict[int, int]) -> RunWatching:
    """A run at its end whose native bytes were these at its marks."""
    watching = RunWatching(("fake",))
    watching._count = max(marks)
    watching._marks = {tick: Sample(tick, float(tick), malloc_used=native) for tick, native in marks.items()}
    watching._samples = list(watching._marks.values())
    watching._snapshots = {tick: _At(tick) for tick in marks}  # type: ignore[misc]
    return watching


class _At:
    """As much of a snapshot as the judgement of native growth reads."""

    def __init__(self, tick: int) -> None:
        self.tick = tick


RISING = {tick: 1_000_000 + 10_000 * tick for tick in (40, 61, 85, 130, 180, 240)}
ALL = sorted(RISING)


@pytest.mark.parametrize(
    ("collected", "at_end", "stands"),
    [
        ([], None, True),  # the run goes on, and nothing was collected yet
        ([], 3_300_000, True),
        ([], 1_000_000, False),  # it was garbage
        ([130], 3_400_000, True),
        ([130], 2_300_000, False),  # no more than after the collection before
        (ALL, None, True),
        (ALL, 1_000_000, True),  # the end freed what main() held
        (ALL[2:], 1_000_000, True),
        (ALL[:3], 1_000_000, False),
    ],
)
def test_collections_decide_whether_native_growth_stands(
    collected: list[int], at_end: int | None, stands: bool
) -> None:
    watching = judging(RISING)
    watching._collected, watching._collected_at_end = collected, at_end
    native = watching._native()
    assert native is not None
    assert native.stands is stands


def test_what_is_left_after_collections_is_judged_alone() -> None:
    sawtooth = dict(zip(ALL, (5_000_000, 3_000_000, 6_000_000, 3_500_000, 7_000_000, 4_000_000), strict=True))
    clean = dict(zip(ALL[2:], (1_000_000, 1_450_000, 1_950_000, 2_550_000), strict=True))
    watching = judging({**sawtooth, **clean})
    watching._collected = sorted(clean)
    native = watching._native()
    assert native is not None
    assert native.stands
    assert native.bytes_per_tick == pytest.approx(10_000, rel=0.01)
