"""Fake reports that the tests of text, JSON, HTML and recordings share."""

from __future__ import annotations

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
    Sample,
    Ticks,
)

VERSIONS = {"tensorflow": "2.21.0", "keras": "3.15.1", "python": "3.11.7"}

REFIT = Finding(
    cause="gradient-registry",
    code="TEN201",
    kind="leak",
    origin="framework",
    confidence=0.99,
    bytes_per_tick=7_259_000.0,
    tensor_bytes_per_tick=4_100_000.0,
    objects_per_tick=14_000.0,
    remedy="Call tenure.collect() after each fit: 0.01 MB a fit, measured here.",
    birth=Birth("/home/ann/job/train.py", 20, "cycle", "model.fit(x, y, epochs=1)"),
    holder=Holder(
        "TensorFlow's gradient registry > CustomGradient-* > FuncGraph one_step_on_data",
        ("TensorFlow's gradient registry", "CustomGradient-40112", "FuncGraph one_step_on_data", "19 tensors"),
    ),
    also=("model-refitted",),
    evidence=("2 graphs more at each fit in 6 of 6 windows",),
    fingerprint="gradient-registry|one_step_on_data|cycle",
)

KEPT = Finding(
    cause="tensors-kept",
    code="TEN107",
    kind="leak",
    origin="user",
    confidence=0.97,
    bytes_per_tick=66_900.0,
    tensor_bytes_per_tick=65_536.0,
    objects_per_tick=1.0,
    remedy="Keep float(loss) instead of the tensor.",
    birth=Birth("/home/ann/job/train.py", 13, "update", "losses.append(tf.reduce_mean(loss[0]))"),
    holder=Holder(
        "train.history['loss'][*]", ("module train", "history", "['loss']", "[*]"), "/home/ann/job/train.py", 14
    ),
    fingerprint="tensors-kept|train.history['loss'][*]|update",
)

RETRACE = Finding(
    cause="retrace-python-value",
    code="TEN104",
    kind="cost",
    origin="user",
    confidence=0.9,
    bytes_per_tick=None,
    tensor_bytes_per_tick=None,
    objects_per_tick=1.0,
    remedy="Pass step as a tensor: tf.constant(step).",
    birth=Birth("/home/ann/job/train.py", 31, "train", "step(x, i)"),
    changed=Changed("step", ("17", "18", "19")),
    evidence=("one trace a fit, with step 17, 18 and 19", "128 traces so far"),
    fingerprint="retrace-python-value||train",
)

POOL = Finding(
    cause="allocator-retention",
    code="TEN301",
    kind="retention",
    origin="allocator",
    confidence=0.9,
    bytes_per_tick=None,
    tensor_bytes_per_tick=None,
    objects_per_tick=None,
    remedy="",
    evidence=("61 MB held by TensorFlow's CPU pool, free for reuse",),
)

START = (
    Layer("live tensors", 20_000_000),
    Layer("pool, free", 60_000_000),
    Layer("malloc in use", 180_000_000),
    Layer("Python heap", None),
    Layer("mapped files", 210_000_000),
)
END = (
    Layer("live tensors", 61_000_000),
    Layer("pool, free", 61_000_000),
    Layer("malloc in use", 213_000_000),
    Layer("Python heap", None),
    Layer("mapped files", 210_000_000),
)


def samples(count: int = 10) -> tuple[Sample, ...]:
    """Samples of a program that grows by 7.4 MB a tick."""
    return tuple(
        Sample(
            tick=tick,
            seconds=0.5 * tick,
            rss=480_000_000 + 7_400_000 * tick,
            malloc_used=180_000_000 + 7_400_000 * tick,
            pool_used=20_000_000 + 4_100_000 * tick,
            gradient_registry=2 * tick,
        )
        for tick in range(count)
    )


LEAK = Report(
    tenure="0.1.0",
    versions=VERSIONS,
    program=("train.py", "30"),
    exit_status=0,
    verdict="leak",
    why="gradient-registry: 7259000 bytes more each fit in every window",
    ticks=Ticks("fit", "train.cycle", 10, 2),
    growth=Growth(7_400_000.0, 7_200_000.0, 7_600_000.0, 0.95, 4_096.0, 54 * 3600.0),
    waterfall_start=START,
    waterfall_end=END,
    findings=(POOL, RETRACE, KEPT, REFIT),
    autopsy=(GivenBack("gradient-registry", 7_259_000.0), GivenBack("eager-kernel-cache", 89_000.0)),
    missing=(Missing("GPU memory", "no NVIDIA driver was found"),),
    samples=samples(),
)

FLAT = Report(
    tenure="0.1.0",
    versions=VERSIONS,
    program=("train.py",),
    exit_status=0,
    verdict="flat",
    why="nothing grew by 4096 bytes a step or more in every window",
    ticks=Ticks("step", "train.cycle", 200, 30),
    growth=Growth(12.0, -40.0, 60.0, 0.99, 2_048.0),
    waterfall_start=START,
    waterfall_end=END,
)

INCONCLUSIVE = Report(
    tenure="0.1.0",
    versions=VERSIONS,
    program=("train.py",),
    exit_status=0,
    verdict="inconclusive",
    why="growth slows down from window to window; 40 batches would tell whether it ends",
    ticks=Ticks("batch", None, 12, 2),
    growth=None,
    missing=(Missing("malloc in use", "this C library has no mallinfo2"),),
)


def test_the_fakes_cover_every_verdict_and_most_kinds() -> None:
    assert {LEAK.verdict, FLAT.verdict, INCONCLUSIVE.verdict} == {"leak", "flat", "inconclusive"}
    assert {finding.kind for finding in LEAK.findings} == {"leak", "cost", "retention"}
