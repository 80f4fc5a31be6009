"""Native growth is seen beside tensors that come and go."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

from tenure.explain.watching import without_tensors
from tenure.observe.snapshot import Snapshot
from tenure.records import Sample

KIB = 1024
EMPTY = np.zeros(0, np.int64)


def seen(tensors: int, pooled: int) -> Snapshot:
    keys = np.zeros(0, np.uint64)
    return Snapshot(8, None, keys, EMPTY, EMPTY, EMPTY, (0, 0, 0), (0, 0, 0), 0, 0, tensors, pooled)


def read(malloc: int | None, pool: int | None, regions: int = 0) -> Sample:
    return Sample(
        tick=8,
        seconds=1.0,
        rss=None,
        malloc_used=malloc,
        malloc_mapped=None,
        malloc_free=None,
        pool_used=pool,
        pool_peak=pool,
        python_blocks=None,
        gradient_registry=None,
        py_functions=None,
        pool_regions=regions,
    )


def test_small_tensors_lie_in_malloc_and_large_ones_in_a_region_of_the_pool() -> None:
    assert without_tensors(seen(900 * KIB, 700 * KIB), read(5000 * KIB, 1300 * KIB, 2048 * KIB)) == 2752 * KIB


def test_without_a_pool_all_tensors_lie_in_malloc() -> None:
    assert without_tensors(seen(900 * KIB, 700 * KIB), read(5000 * KIB, None)) == 4100 * KIB


def test_without_malloc_nothing_is_known() -> None:
    assert without_tensors(seen(900 * KIB, 700 * KIB), read(None, None)) is None


WAVES = """
import itertools, math
import tensorflow as tf

made, waves = itertools.count(), {}

def name():
    return f"state_{next(made)}"

def cycle(i):
    waves["now"] = tf.ones([int((1.1 + math.sin(2 * math.pi * i / 7)) * 90_000)])  # 36 to 760 KB
    if i % 3 == 0 and LEAKS:
        for _ in range(3):
            tf.raw_ops.VarHandleOp(dtype=tf.float32, shape=[], shared_name=name())

if __name__ == "__main__":
    for i in range(200):
        cycle(i)
"""


@pytest.mark.slow
@pytest.mark.parametrize("mode", ["soak", "run"])
@pytest.mark.parametrize("leaks", [True, False])
def test_a_cache_that_grows_beside_tensors_of_changing_size(leaks: bool, mode: str, tmp_path: Path) -> None:
    program, told = tmp_path / "program.py", tmp_path / "told.json"
    program.write_text(f"LEAKS = {leaks}\n{WAVES}")
    end = [f"{program}:cycle"] if mode == "soak" else [str(program)]
    command = [sys.executable, "-m", "tenure", mode, "--json", str(told), *end]
    done = subprocess.run(command, capture_output=True, text=True, timeout=240)
    report = json.loads(told.read_text())
    assert report["verdict"] == ("leak" if leaks else "flat"), report["why"]
    assert [finding["cause"] for finding in report["findings"]] == ["eager-kernel-cache"] * leaks, done.stderr
    for finding in report["findings"]:
        assert finding["birth"]["text"].startswith("tf.raw_ops.VarHandleOp")
        assert 20 * KIB < finding["bytes_per_tick"] < 80 * KIB
