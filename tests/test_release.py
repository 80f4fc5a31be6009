"""What frees it names it: each action gives back what its cause kept, and the others give back next to nothing.

The figures to expect are those of TensorFlow 2.16 to 2.21; the ranges are wide because kernels differ by version.
"""

from __future__ import annotations

import gc
import sys
from typing import Any

import numpy as np
import pytest

tf = pytest.importorskip("tensorflow")
keras = pytest.importorskip("keras")

from tenure.probes import process, release  # noqa: E402
from tenure.probes.tf import registries  # noqa: E402

pytestmark = pytest.mark.tf

KIB = 1024


def _settled() -> None:
    """Nothing pending, so that an action is credited with what the test made only."""
    release.collect_garbage()
    release.kernel_cache()
    release.scalar_cache()


def test_optimizers_come_back_from_the_kernel_cache() -> None:
    model = keras.Sequential([keras.Input((8,)), keras.layers.Dense(16), keras.layers.Dense(4)])

    def optimize() -> None:
        optimizer = keras.optimizers.Adam()
        optimizer.build(model.trainable_variables)
        optimizer.apply([tf.zeros_like(variable) for variable in model.trainable_variables])

    for _ in range(2):
        optimize()
    _settled()
    for _ in range(6):
        optimize()
    release.collect_garbage()
    given = release.kernel_cache()
    assert given.action == "kernel-cache"
    assert 250 * KIB < given.bytes / 6 < 1000 * KIB
    assert abs(release.kernel_cache().bytes) < 64 * KIB
    assert not given.left


def test_python_scalars_come_back_from_the_scalar_cache() -> None:
    x = tf.zeros([])
    for index in range(100):
        x + (index + 0.25)
    _settled()
    for index in range(2000):
        x + (index + 0.5)
    given = release.scalar_cache()
    assert 300 < given.bytes / 2000 < 2000
    assert abs(release.scalar_cache().bytes) < 64 * KIB


def _fit() -> None:
    model = keras.Sequential(
        [
            keras.Input((64,)),
            keras.layers.Dense(256, activation="relu"),
            keras.layers.Dense(256, activation="relu"),
            keras.layers.Dense(10, activation="softmax"),
        ]
    )
    model.compile("adam", "sparse_categorical_crossentropy")
    model.fit(np.zeros((64, 64)), np.zeros(64), verbose=0)


def test_fitted_models_come_back_from_the_gradient_registry_and_live_ones_still_train() -> None:
    _fit()
    keeper = keras.Sequential([keras.Input((4,)), keras.layers.Dense(3, activation="relu")])
    keeper.compile("sgd", "mse")
    keeper.fit(np.zeros((8, 4)), np.zeros((8, 3)), verbose=0)
    _settled()
    known = {entry.name for entry in registries.entries()}
    for _ in range(3):
        _fit()
    _settled()
    orphans = [entry.name for entry in registries.entries() if entry.name not in known]
    assert len(orphans) >= 3

    given = release.gradient_registry(lambda: orphans)
    assert given.objects == len(orphans)
    assert 3_000 * KIB < given.bytes / 3 < 12_000 * KIB
    assert given.left == (f"{len(known)} entries that something else reaches too",)
    assert release.gradient_registry(list).bytes < 256 * KIB
    keeper.fit(np.zeros((8, 4)), np.zeros((8, 3)), verbose=0)


def test_py_functions_come_back_once_they_are_named() -> None:
    def call(size: int) -> None:
        ballast = np.ones(size)
        tf.py_function(lambda a: a + ballast[0], [tf.constant(1.0)], tf.float32)

    call(1)
    _settled()
    before = {found.token for found in registries.py_functions()}
    for _ in range(4):
        call(100_000)
    dead = [found.token for found in registries.py_functions() if found.token not in before]
    given = release.py_functions(lambda: [token for token in dead if token is not None])
    assert given.objects == 4
    assert given.bytes == pytest.approx(3_200_000, rel=0.1)
    assert given.left == (f"{len(before)} functions that may be called again",)


def test_cycles_come_back_from_the_collector() -> None:
    gc.disable()
    try:
        release.collect_garbage()
        for _ in range(20_000):
            ring: list[Any] = []
            ring.append(ring)
        del ring
        given = release.collect_garbage()
    finally:
        gc.enable()
    assert given.objects >= 20_000
    assert given.bytes > 20_000 * 80


def test_trimming_returns_pages_and_says_nothing_was_freed() -> None:
    blocks = [bytes(20_000) for _ in range(4_000)]
    guard = bytes(20_000)
    del blocks
    free = process.mallinfo().free
    given = release.malloc_trim()
    assert given.action == "malloc-trim"
    assert given.objects == 0
    assert free > 40_000_000
    assert given.bytes > 20_000_000
    assert guard


def test_an_action_that_can_not_run_says_why(monkeypatch: pytest.MonkeyPatch) -> None:
    from tenure.probes.tf import caches

    def broken() -> None:
        raise AttributeError("gone in this version")

    monkeypatch.setattr(caches, "clear_kernel_cache", broken)
    given = release.kernel_cache()
    assert given.bytes == 0
    assert given.left == ("AttributeError: gone in this version",)


def test_blocks_weigh_what_the_figure_says(capfd: pytest.CaptureFixture[str]) -> None:
    """The interpreter's own dump, taken here where stderr is ours."""
    blocks = process.python_blocks()
    sys._debugmallocstats()
    line = next(line for line in capfd.readouterr().err.splitlines() if "bytes in allocated blocks" in line)
    total = int(line.split("=")[1].strip().replace(",", ""))
    assert total / blocks == pytest.approx(release.BLOCK_BYTES, rel=0.15)
