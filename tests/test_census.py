"""The census: bytes of unique buffers, owners in the user's words, optimizer slots, traces, what native code holds."""

from __future__ import annotations

import gc
import threading
from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest

import tenure
from tenure.observe.births import Births
from tenure.observe.census import Census

tf: Any = pytest.importorskip("tensorflow")
keras: Any = pytest.importorskip("keras")
pytestmark = pytest.mark.tf

MIB = 1 << 20
kept: dict[str, Any] = {}


@pytest.fixture(autouse=True)
def nothing_kept() -> Iterator[None]:
    kept.clear()
    gc.collect()
    yield
    kept.clear()
    gc.collect()


def row(census: Census, kind: str) -> tuple[int, int]:
    return next(((r.count, r.bytes) for r in census.rows if r.kind == kind), (0, 0))


def more(before: Census, after: Census, kind: str) -> tuple[int, int]:
    a, b = row(before, kind), row(after, kind)
    return b[0] - a[0], b[1] - a[1]


def owner(census: Census, end: str) -> Any:
    return next((o for o in census.owners if o.owner.endswith(end)), None)


def test_tensors_are_counted_by_shape_and_dtype_and_named_by_their_container() -> None:
    before = tenure.census()
    kept["losses"] = [tf.zeros([256, 4], tf.float64) + float(i) for i in range(5)]
    after = tenure.census()

    assert more(before, after, "tensor") == (5, 5 * 256 * 4 * 8)
    assert after.tensor_bytes - before.tensor_bytes == 5 * 256 * 4 * 8
    found = owner(after, "test_census.kept['losses']")
    assert (found.count, found.bytes) == (5, 5 * 256 * 4 * 8)


@pytest.mark.parametrize("deep", [False, True])
def test_views_share_a_buffer_and_count_once(deep: bool) -> None:
    before = tenure.census(deep=deep)
    base = tf.random.uniform([1024, 8])
    kept["views"] = [base, tf.reshape(base, [8192]), tf.identity(base), base._numpy()]
    after = tenure.census(deep=deep)
    del base

    assert more(before, after, "tensor") == (3, 1024 * 8 * 4)
    assert more(before, after, "array") == (0, 0)  # the array looks at the tensor's own memory


def test_an_array_keeps_the_buffer_of_a_tensor_that_is_gone() -> None:
    before = tenure.census()
    kept["view"] = tf.random.uniform([1024, 8])._numpy()
    after = tenure.census()

    assert more(before, after, "tensor") == (0, 0)
    assert more(before, after, "array") == (1, 1024 * 8 * 4)


def test_a_slice_of_an_array_counts_what_it_keeps_alive() -> None:
    before = tenure.census()
    kept["slices"] = [whole[:2] for whole in (np.ones(100_000), np.ones(100_000))]
    kept["also"] = kept["slices"][0].base[5:9]
    after = tenure.census()

    assert more(before, after, "array") == (2, 1_600_000)
    assert after.tensor_bytes == before.tensor_bytes  # arrays are no tensors


def test_a_variable_owns_its_bytes_through_its_handle_and_its_value_shares_them() -> None:
    before = tenure.census()
    variable = tf.Variable(tf.zeros([512, 16]))
    kept["variable"] = variable
    kept["value"] = variable.value()
    after = tenure.census()
    del variable

    assert more(before, after, "variable")[0] == 1
    assert more(before, after, "resource handle") == (1, 512 * 16 * 4)


def test_a_handle_alone_still_owns_the_bytes() -> None:
    before = tenure.census()
    kept["handle"] = tf.Variable(tf.zeros([512, 16])).handle
    after = tenure.census()

    assert more(before, after, "variable")[0] == 0
    assert more(before, after, "resource handle") == (1, 512 * 16 * 4)


class Plain(keras.Model):
    def __init__(self) -> None:
        super().__init__()
        self.dense = keras.layers.Dense(32)

    def call(self, x: Any) -> Any:
        return self.dense(x)


def test_a_model_and_its_optimizer_own_their_variables() -> None:
    before = tenure.census()
    model = Plain()
    model.compile("adam", "mse")
    model.fit(np.ones((8, 16), "float32"), np.ones((8, 32), "float32"), epochs=1, verbose=0)
    kept["model"] = model
    del model
    after = tenure.census()

    weights = 16 * 32 * 4 + 32 * 4
    assert more(before, after, "model")[0] == 1
    assert more(before, after, "optimizer")[0] == 1
    slots = owner(after, ".optimizer")
    if slots is None:  # Keras 3.4 has its train function nearer to the model than the optimizer: it owns all there
        assert keras.__version__.startswith("3.4.")
        assert 3 * weights <= sum(o.bytes for o in after.owners if "kept['model']" in o.owner) < 3 * weights + 320
        return
    assert slots.kind == "optimizer"
    assert 2 * weights <= slots.bytes < 2 * weights + 64  # two moments, and the counters
    own = [o for o in after.owners if o.kind in ("model", "function") and "kept['model']" in o.owner]
    assert weights <= sum(o.bytes for o in own) < weights + 256  # the metrics' counters beside the weights
    assert ("one_step_on_data", 2) in [(t.function, t.count) for t in after.functions]


def test_traces_of_a_function_are_counted() -> None:
    @tf.function
    def halved(x: Any) -> Any:
        return x / 2

    for size in range(1, 4):
        halved(tf.zeros([size], tf.float32 if size % 2 else tf.float64))
    found = {t.function: t.count for t in tenure.census().functions}

    assert [count for name, count in found.items() if name.endswith("halved")] == [3]


@pytest.mark.parametrize("size", [64, 200_000])
def test_what_a_recording_tape_holds_is_found(size: int) -> None:
    before = tenure.census(deep=True)
    x = tf.Variable(tf.ones([size]))
    with tf.GradientTape() as tape:
        y = x * 1.0
        for _ in range(10):
            y = tf.exp(y * 0.1)
        during = tenure.census()  # finds the tape, and goes on to what it holds
    assert tape.gradient(y, x) is not None

    count, added = more(before, during, "tensor")
    assert during.deep
    assert count >= 10
    assert added >= 10 * size * 4
    native = owner(during, "held by native code only (a tape, a dataset, an iterator)")
    assert native is not None
    assert native.bytes >= 9 * size * 4


def test_the_pools_bytes_lead_to_what_only_a_library_holds() -> None:
    library = keras.losses  # a module of a library's, which no user's code refers to by a container of its own
    near = tenure.census(deep=False)
    if near.pool_bytes is None:
        pytest.skip("this build's pool keeps no account")
    library.hidden = tf.random.uniform([8 * MIB // 4])
    try:
        assert more(near, tenure.census(deep=False), "tensor") == (0, 0)
        found = tenure.census()
        assert found.deep
        assert more(near, found, "tensor")[1] >= 8 * MIB
        assert owner(found, "hidden") is not None or any(o.bytes == 8 * MIB for o in found.owners)
    finally:
        del library.hidden


def test_a_narrow_look_says_what_it_left_out_and_agrees_with_the_deep_one() -> None:
    kept["tensors"] = {i: tf.ones([1000]) + i for i in range(20)}
    near, deep = tenure.census(deep=False), tenure.census(deep=True)

    assert "what only libraries or native code hold" in [m.figure for m in near.missing]
    assert "what only libraries or native code hold" not in [m.figure for m in deep.missing]
    assert near.objects < deep.objects
    assert row(near, "tensor")[0] >= 20
    mine = [(o.owner, o.count, o.bytes) for o in near.owners if "kept" in o.owner]
    assert mine == [(o.owner, o.count, o.bytes) for o in deep.owners if "kept" in o.owner] != []


def test_garbage_is_not_counted() -> None:
    before = tenure.census(deep=True)
    gc.disable()
    try:
        ring: list[Any] = [tf.ones([4096])]
        ring.append(ring)
        del ring
        assert more(before, tenure.census(deep=True), "tensor") == (0, 0)
    finally:
        gc.enable()


def test_a_local_variable_of_a_running_function_counts() -> None:
    before = tenure.census()
    here = [tf.ones([3000]) * 2]
    after = tenure.census()

    assert more(before, after, "tensor") == (1, 12_000)
    assert "here" in next(o.owner for o in after.owners if o.bytes == 12_000)
    del here


def test_births_add_lines() -> None:
    births = Births()
    births.start()
    births.explain_ops()
    try:
        kept["born"] = tf.ones([5000]) * 3
        told = tenure.census(births).births
    finally:
        births.stop()

    assert [(n, size) for place, n, size in told if place.startswith(__file__)] == [(1, 20_000)]


def test_nothing_is_kept() -> None:
    kept["tensor"] = tf.ones([5000]) * 3
    census = tenure.census()
    import weakref

    alive = weakref.ref(kept["tensor"])
    kept.clear()

    assert alive() is None
    assert "MB in tensors" in str(census)


def test_off_the_main_thread_it_refuses() -> None:
    told: list[str] = []

    def ask() -> None:
        try:
            tenure.census()
        except RuntimeError as error:
            told.append(str(error))

    thread = threading.Thread(target=ask)
    thread.start()
    thread.join()
    assert "main thread" in told[0]
