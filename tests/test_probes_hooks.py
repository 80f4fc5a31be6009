"""Births, ticks and ops, told as they happen; and all of TensorFlow as it was afterwards."""

from __future__ import annotations

import inspect
import subprocess
import sys
import threading
from collections import Counter
from pathlib import Path
from typing import Any

import numpy as np
import pytest

tf = pytest.importorskip("tensorflow")
keras = pytest.importorskip("keras")

from tenure.probes import ProbeError  # noqa: E402
from tenure.probes.tf import hooks  # noqa: E402
from tenure.probes.tf.callbacks import SCALAR, OpWatch  # noqa: E402

pytestmark = pytest.mark.tf


def _made(work: Any) -> Counter[str]:
    made: Counter[str] = Counter()
    uninstall = hooks.install(lambda kind, thing: made.update([kind]))
    try:
        work()
    finally:
        uninstall()
    return made


@pytest.mark.filterwarnings("ignore:__array__ implementation:DeprecationWarning")  # Keras, while it saves a model
def test_each_kind_of_thing_is_told(tmp_path: Path) -> None:
    def work() -> None:
        tf.Variable(1.0)
        tf.function(lambda x: x, autograph=False)(tf.constant(1.0))
        tf.compat.v1.Session(graph=tf.Graph()).close()
        with tf.GradientTape():
            iter(tf.data.Dataset.range(2))
        tf.TensorArray(tf.float32, 1)
        tf.summary.create_file_writer(str(tmp_path)).close()
        tf.lookup.experimental.MutableHashTable(tf.string, tf.int64, -1)
        tf.distribute.OneDeviceStrategy("/cpu:0")
        tf.py_function(lambda x: x, [1.0], tf.float32)
        keras.optimizers.SGD().build([keras.Variable(np.zeros(2))])
        tf.function(keras.ops.relu, autograph=False)(tf.constant(1.0))
        keras.Model(place := keras.Input((2,)), keras.layers.Dense(1)(place))
        _relu_with_gradient()
        tf.saved_model.save(tf.Module(), str(tmp_path / "module"))
        tf.saved_model.load(str(tmp_path / "module"))
        keras.Sequential([keras.Input((2,)), keras.layers.Dense(1)]).save(tmp_path / "model.keras")
        keras.models.load_model(filepath=tmp_path / "model.keras")

    made = _made(work)
    assert set(hooks.KINDS) - set(made) == set()
    assert made["model"] == 3


def _relu_with_gradient() -> None:
    @tf.custom_gradient  # type: ignore[untyped-decorator]
    def same(x: Any) -> Any:
        return x, lambda dy: dy

    tf.function(same, autograph=False)(tf.constant(1.0))


def test_a_subclassed_model_is_told_once() -> None:
    class Model(keras.Model):  # type: ignore[misc]
        def __init__(self) -> None:
            super().__init__()
            self.dense = keras.layers.Dense(1)

    assert _made(Model)["model"] == 1
    assert _made(lambda: keras.Sequential([keras.Input((2,)), keras.layers.Dense(1)]))["model"] == 1


def test_everything_is_put_back_and_signatures_stay() -> None:
    from tensorflow.python.ops import resource_variable_ops

    owners = [resource_variable_ops.BaseResourceVariable, tf.GradientTape, tf.Graph, keras.Model]
    before = [owner.__init__ for owner in owners]
    specs = [inspect.getfullargspec(init) for init in before]
    uninstall = hooks.install(lambda kind, thing: None)
    assert [owner.__init__ for owner in owners] != before
    assert [inspect.getfullargspec(owner.__init__) for owner in owners] == specs
    assert tf.GradientTape.__init__.__doc__ == before[1].__doc__
    uninstall()
    uninstall()
    assert [owner.__init__ for owner in owners] == before
    assert not hooks.missing()


def test_a_failing_observer_never_reaches_the_program(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(hooks, "_missing", {})
    calls = []

    def observer(kind: str, thing: object) -> None:
        calls.append(kind)
        raise RuntimeError("no")

    uninstall = hooks.install(observer)
    first, second = tf.Variable(1.0), tf.Variable(2.0)
    uninstall()
    assert float(first + second) == 3.0
    assert len(calls) == 1
    assert "RuntimeError: no" in str(hooks.missing())


def test_fit_and_predict_tell_their_ticks() -> None:
    seen: list[tuple[str, str]] = []
    model = keras.Sequential([keras.Input((2,)), keras.layers.Dense(1)])
    model.compile("sgd", "mse")
    uninstall = hooks.install_calls(lambda what, when, thing, items: seen.append((what, when)))
    try:
        model.fit(np.zeros((4, 2)), np.zeros((4, 1)), batch_size=2, epochs=2, verbose=0)
        model.predict(np.zeros((2, 2)), verbose=0)
    finally:
        uninstall()
    epoch = [("train-batch", "tick"), ("train-batch", "tick"), ("epoch", "tick")]
    fit = [("fit", "enter"), *epoch, *epoch, ("fit", "leave")]
    assert seen == [*fit, ("predict", "enter"), ("predict-batch", "tick"), ("predict", "leave")]


def test_hooks_wait_for_an_import_that_is_still_to_come() -> None:
    code = """
import sys
from tenure.probes.tf import hooks
made = []
uninstall = hooks.install(lambda kind, thing: made.append(kind))
ticks = hooks.install_calls(lambda *event: None)
assert "tensorflow" not in sys.modules and "keras" not in sys.modules
import tensorflow as tf
assert "exec_module" not in vars(tf.__spec__.loader)
tf.Variable(1.0)
assert "variable" in made, made
import keras
keras.Variable([1.0])
assert "keras-variable" in made, made
uninstall(), ticks()
assert not any(type(finder).__module__.startswith("tenure") for finder in sys.meta_path)
assert not hooks.missing(), hooks.missing()
print("waited")
"""
    source = str(Path(hooks.__file__).parents[3])
    done = subprocess.run(
        [sys.executable, "-c", code],
        env={"PYTHONPATH": source, "TF_CPP_MIN_LOG_LEVEL": "3", "CUDA_VISIBLE_DEVICES": "-1"},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.stdout.strip().endswith("waited"), done.stderr[-2000:]


# --- ops


def _watched(work: Any) -> Counter[str]:
    seen: Counter[str] = Counter()

    def on_op(op_type: str, attrs: Any, inputs: Any, outputs: Any, graph: Any) -> None:
        seen.update([op_type if graph is None else f"{op_type} in a graph"])

    watch = OpWatch(on_op)
    watch.start()
    watch.start()
    try:
        work()
    finally:
        watch.stop()
        watch.stop()
    assert watch.failed is None
    return seen


def test_eager_ops_traced_ops_and_scalars_are_told_by_plain_names() -> None:
    step = tf.function(lambda x: tf.nn.relu(x), autograph=False)

    def work() -> None:
        step(tf.constant(2.0))
        step(tf.constant(3.0))

    seen = _watched(work)
    assert seen[SCALAR] == 2
    assert seen["Relu in a graph"] == 1
    assert any(count == 2 for name, count in seen.items() if "lambda" in name)
    assert not any("__inference" in name for name in seen)


def test_threads_that_start_meanwhile_are_watched() -> None:
    def work() -> None:
        thread = threading.Thread(target=lambda: tf.random.uniform([2]))
        thread.start()
        thread.join()

    assert _watched(work)["RandomUniform"] == 1


def test_a_failing_callback_is_switched_off_and_noted() -> None:
    from tensorflow.python.eager import context, execute
    from tensorflow.python.framework import constant_op

    before = constant_op.convert_to_eager_tensor, threading.Thread.__dict__["_bootstrap_inner"]
    calls = []

    def on_op(*event: Any) -> None:
        calls.append(event[0])
        raise ValueError("no")

    watch = OpWatch(on_op)
    watch.start()
    assert float(tf.constant(1.0) + tf.constant(2.0)) == 3.0
    watch.stop()
    assert len(calls) == 1
    assert watch.failed is not None
    assert "ValueError: no" in watch.failed
    assert (constant_op.convert_to_eager_tensor, threading.Thread.__dict__["_bootstrap_inner"]) == before
    assert not context.context().op_callbacks
    assert execute.execute is execute.quick_execute


def test_ops_made_by_the_callback_are_not_told_again() -> None:
    depth = []

    def on_op(*event: Any) -> None:
        depth.append(event[0])
        tf.constant(len(depth)) + 1

    watch = OpWatch(on_op)
    watch.start()
    tf.random.uniform([1])
    watch.stop()
    assert len(depth) < 10
    assert watch.failed is None


def test_one_watch_at_a_time() -> None:
    first = OpWatch(lambda *event: None)
    first.start()
    try:
        with pytest.raises(ProbeError):
            OpWatch(lambda *event: None).start()
    finally:
        first.stop()


def test_a_session_that_the_collector_closes_is_not_told_as_closed() -> None:
    def work() -> None:
        tf.compat.v1.Session(graph=tf.Graph()).close()
        tf.compat.v1.Session(graph=tf.Graph())

    made = _made(work)
    assert (made["session"], made["session-close"]) == (2, 1)


def test_calls_tell_how_many_items_they_get() -> None:
    seen: list[int | None] = []
    model = keras.Sequential([keras.Input((2,)), keras.layers.Dense(1)])
    uninstall = hooks.install_calls(lambda what, when, thing, items: seen.append(items) if when == "enter" else None)
    try:
        model.predict(np.zeros((1, 2)), verbose=0)
        model.predict(x=tf.zeros((3, 2)), verbose=0)
        keras.Model([model.inputs[0]], model.outputs[0]).predict([np.zeros((4, 2))], verbose=0)
        model.predict(tf.data.Dataset.from_tensors(tf.zeros((1, 2))), verbose=0)
    finally:
        uninstall()
    assert seen == [1, 3, 4, None]
