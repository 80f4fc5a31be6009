"""Memory that an allocator holds free: told beside the verdict with who holds it, and never a leak."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from textwrap import dedent

import pytest

from tenure.explain.diagnosis import diagnose
from tenure.explain.evidence import Evidence, HeldFree
from tenure.records import Finding, Ticks

MB = 1_000_000


def findings(held: HeldFree | None) -> tuple[Finding, ...]:
    verdict = diagnose(Evidence(Ticks("tick", "p.cycle", 60, 8), held_free=held), 6)
    assert verdict.verdict == "flat"
    return verdict.findings


def test_a_large_free_pool_is_retention_and_no_leak() -> None:
    (finding,) = findings(HeldFree(700 * MB, 200 * MB, 10 * MB))
    assert (finding.cause, finding.code, finding.kind) == ("allocator-retention", "TEN301", "retention")
    assert finding.evidence == ("200 MB held by TensorFlow's CPU pool and 10 MB held by malloc, free for reuse",)
    assert finding.bytes_per_tick is None and finding.objects_per_tick is None


@pytest.mark.parametrize(
    "held",
    [
        None,
        HeldFree(500 * MB, 20 * MB, 20 * MB),
        HeldFree(500 * MB, None, None),
        HeldFree(5000 * MB, 200 * MB, 0, None),  # 4 % of what is resident
    ],
)
def test_what_every_allocator_keeps_is_not_told(held: HeldFree | None) -> None:
    assert findings(held) == ()


def test_free_memory_of_malloc_that_a_trim_gives_back_is_retention() -> None:
    (finding,) = findings(HeldFree(500 * MB, None, 200 * MB, trimmed=180 * MB))
    assert finding.cause == "allocator-retention"


def test_what_a_trim_leaves_lies_between_live_blocks() -> None:
    (finding,) = findings(HeldFree(500 * MB, 3 * MB, 200 * MB, trimmed=12 * MB))
    assert (finding.cause, finding.kind) == ("allocator-fragmentation", "retention")
    assert finding.evidence == ("200 MB held by malloc between blocks that are alive; malloc_trim gave back 12 MB",)


def test_both_kinds_at_once_are_two_findings() -> None:
    found = findings(HeldFree(900 * MB, 300 * MB, 200 * MB, trimmed=0))
    assert [finding.cause for finding in found] == ["allocator-retention", "allocator-fragmentation"]
    assert found[0].evidence == ("300 MB held by TensorFlow's CPU pool, free for reuse",)
    assert found[1].evidence[0].endswith("malloc_trim gave back nothing")


PEAK = """
import tensorflow as tf

tf.ones([75_000_000])[0]  # 300 MB, once

def cycle(i):
    return tf.reduce_sum(tf.ones([100]))
"""
HOLES = """
blocks = [bytes(1000) for _ in range(400_000)]
kept = blocks[::4]
del blocks

def cycle(i):
    return sum(range(100))
"""


@pytest.mark.slow
@pytest.mark.parametrize(
    ("text", "cause"), [(PEAK, "allocator-retention"), (HOLES, "allocator-fragmentation")], ids=["peak", "holes"]
)
def test_a_program_that_holds_much_free_is_flat_and_told_why(text: str, cause: str, tmp_path: Path) -> None:
    program, told = tmp_path / "program.py", tmp_path / "told.json"
    program.write_text(dedent(text))
    command = [sys.executable, "-m", "tenure", "soak", "--cycles", "30", "--json", str(told), f"{program}:cycle"]
    done = subprocess.run(command, capture_output=True, text=True, timeout=240)
    report = json.loads(told.read_text())
    assert done.returncode == 0 and report["verdict"] == "flat"
    assert [finding["cause"] for finding in report["findings"]] == [cause]
    assert "not a leak: " in done.stderr
