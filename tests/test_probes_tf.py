"""What TensorFlow's objects tell: bytes, buffers, traces and the argument that makes them, pipelines, registries."""

from __future__ import annotations

import gc
import weakref
from collections import namedtuple
from collections.abc import Callable, Iterable
from typing import Any

import numpy as np
import pytest

tf = pytest.importorskip("tensorflow")

from tenure.probes.tf import PROBES, allocator, caches, datasets, functions, graphs, handles, registries, tapes  # noqa: E402

pytestmark = pytest.mark.tf

KIB = 1024


@pytest.mark.parametrize("probe", PROBES, ids=lambda probe: probe.name)
def test_each_probe_works_on_this_tensorflow(probe: Any) -> None:
    assert probe.self_test() is None


def test_a_probe_that_breaks_says_so() -> None:
    from tenure.probes.tf import Probe

    why = Probe("none", "no_such_module").self_test()
    assert why is not None
    assert "no_such_module" in why


# --- the pool


def test_the_pool_counts_blocks_of_256_kib_and_frees_them() -> None:
    found = allocator.calibrate()
    if not found.moves:
        pytest.skip(found.why)
    assert found.smallest == 256 * KIB
    before = allocator.memory().current
    held = tf.zeros([1024, KIB], tf.uint8) + tf.constant(1, tf.uint8)
    assert allocator.memory().current - before == KIB * KIB
    allocator.reset_peak()
    del held
    now = allocator.memory()
    assert now.current == before
    assert now.peak == before + KIB * KIB


# --- bytes and buffers


def test_bytes_are_shape_times_dtype() -> None:
    assert handles.tensor_bytes(tf.zeros([3, 5], tf.float16)) == 30
    assert handles.tensor_bytes(tf.zeros([0, 5])) == 0
    assert handles.tensor_bytes(tf.constant(["a", "b"])) == 48
    variable = tf.Variable(tf.zeros([7, 2], tf.float64))
    assert handles.tensor_bytes(variable.handle) == 0
    assert handles.is_resource(variable.handle)
    assert handles.handle_bytes(handles.variable_handle(variable)) == 112
    table = tf.lookup.experimental.MutableHashTable(tf.string, tf.int64, -1)
    assert handles.handle_bytes(table.resource_handle) == 0


def test_views_share_an_address_and_copies_do_not() -> None:
    tensor = tf.random.uniform([16, 16])
    address = handles.buffer_address(tensor)
    assert address is not None
    assert handles.buffer_address(tf.reshape(tensor, [256])) == address
    assert handles.buffer_address(tf.identity(tensor)) == address
    assert handles.buffer_address(tensor + 0.5) != address
    assert handles.buffer_address(tf.constant("text")) is None
    variable = tf.Variable(tensor)
    assert handles.buffer_address(variable.value()) == handles.buffer_address(variable.value())


def test_a_slice_of_a_tensors_buffer_tells_what_it_keeps() -> None:
    tensor = tf.random.uniform([1000, 100])
    owner = handles.array_owner(np.asarray(tensor)[3:4])
    assert (owner.kept, owner.seen, owner.of_tensor) == (400_000, 400, True)
    assert owner.address == handles.buffer_address(tensor)
    own = handles.array_owner(tensor.numpy()[:2][:1])
    assert (own.kept, own.seen, own.of_tensor) == (400_000, 400, False)


def test_a_keras_variable_is_weighed_by_its_handle() -> None:
    keras = pytest.importorskip("keras")
    variable = keras.Variable(np.zeros((4, 4), "float32"))
    assert handles.is_variable(variable)
    assert handles.handle_bytes(handles.variable_handle(variable)) == 64
    assert issubclass(keras.Sequential, handles.tensor_types()["model"])
    assert issubclass(keras.optimizers.Adam, handles.tensor_types()["optimizer"])


# --- traces


Pair = namedtuple("Pair", "left right")


class _Caller:
    def done(self) -> None: ...


def _calls() -> list[tuple[str, Iterable[tuple[Any, ...]], tuple[str, str, str]]]:
    one = tf.constant(1.0)
    caller = _Caller()
    return [
        ("python value", [(one, step) for step in range(4)], ("b", "python-value", "3")),
        ("shape", [(tf.zeros([n, 2]), 1) for n in (1, 2, 3)], ("a", "shape", "float32[3, 2]")),
        ("dtype", [(tf.zeros([2], d), 1) for d in (tf.int32, tf.float32)], ("a", "dtype", "float32[2]")),
        ("bound method", ((one, caller.done) for _ in range(3)), ("b", "object", "an object that is gone")),
        ("in a dict", [(one, {"rate": 0.1 * n}) for n in (1, 2, 4)], ("b['rate']", "python-value", "0.4")),
        ("in a named tuple", [(Pair(one, n), 0) for n in (1, 2)], ("a.right", "python-value", "2")),
        ("a list that grows", [([one] * n, 0) for n in (1, 2, 3)], ("a", "shape", "3 leaves")),
        (
            "a dataset's elements",
            [(tf.data.Dataset.from_tensors(tf.zeros([n])), 0) for n in (1, 2)],
            ("a's elements", "shape", "float32[2]"),
        ),
    ]


def test_the_argument_that_makes_new_traces_is_named() -> None:
    named = {}
    for case, calls, _ in _calls():
        function = tf.function(lambda a, b: 1, autograph=False)
        made = 0
        for arguments in calls:
            function(*arguments)
            made += 1
            del arguments
        found = functions.changed_argument(functions.traces(function))
        assert functions.trace_count(function) == made, case
        named[case] = (found.argument, found.kind, found.values[-1]) if found else None
    assert named == {case: expected for case, _, expected in _calls()}


def test_one_trace_changes_nothing() -> None:
    function = tf.function(lambda a: a)
    function(tf.constant(1.0))
    function(tf.constant(2.0))
    assert functions.changed_argument(functions.traces(function)) is None


def test_trace_records_keep_no_argument_alive() -> None:
    class Thing:
        pass

    thing = Thing()
    gone = weakref.ref(thing)
    function = tf.function(lambda a: 1, autograph=False)
    function(thing)
    function(Thing())
    kept = functions.traces(function)
    del thing
    gc.collect()
    assert gone() is None
    assert len(kept) == 2


def test_a_function_tells_its_line_and_plain_name() -> None:
    class Model(tf.Module):  # type: ignore[misc]
        @tf.function
        def step(self, x: Any) -> Any:
            return x

    model = Model()
    model.step(tf.constant(1.0))
    file_line = functions.site(model.step)
    assert file_line is not None
    assert file_line[0] == __file__
    assert functions.is_function(model.step)
    assert functions.plain_name("__inference_train_step_123") == "train_step"
    assert functions.plain_name("__backward___inference_f_12_34") == "f"
    assert functions.plain_name("MatMul") == "MatMul"


# --- pipelines, tapes, graphs


def _range() -> Any:
    return tf.data.Dataset.range(4)


@pytest.mark.parametrize(
    ("build", "endless"),
    [
        (lambda: _range().repeat().cache().batch(2), True),
        (lambda: _range().repeat().map(lambda x: x + 1).shuffle(2).cache().prefetch(1), True),
        (lambda: tf.data.Dataset.random(seed=1).cache(), True),
        (lambda: tf.data.Dataset.counter().cache(), True),
        (lambda: _range().repeat().take(6).cache(), False),
        (lambda: _range().cache().repeat(), False),
        (lambda: _range().repeat(3).cache(), False),
    ],
)
def test_an_endless_cache_is_told_from_a_bounded_one(build: Callable[[], Any], endless: bool) -> None:
    dataset = build()
    assert (datasets.cache_after_unbounded(dataset) is not None) == endless
    assert (datasets.cache_after_unbounded(iter(dataset)) is not None) == endless


def test_a_pipeline_reads_in_the_order_data_runs() -> None:
    dataset = tf.data.Dataset.from_tensor_slices([1, 2]).repeat().map(lambda x: x).cache().batch(2)
    assert datasets.pipeline(iter(dataset)) == "from_tensor_slices > repeat > map > cache > batch"


def test_a_tapes_state_follows_its_use() -> None:
    x = tf.Variable(3.0)
    with tf.GradientTape() as tape:
        y = x * x
        assert tapes.state(tape) == tapes.TapeState(recording=True, persistent=False, holds=True, watched=1)
    tape.gradient(y, x)
    assert not tapes.state(tape).holds


def test_a_graphs_growth_tells_the_line() -> None:
    graph = tf.Graph()
    with graph.as_default():
        before = graphs.op_count(graph)
        tf.constant(1.0, name="here")
    assert graphs.op_count(graph) == before + 1
    last = graphs.last_ops(graph, 1)[0]
    assert last.type == "Const"
    code = test_a_graphs_growth_tells_the_line.__code__
    assert (code.co_filename, code.co_firstlineno + 4, code.co_name) in [frame[:3] for frame in last.frames]
    with tf.compat.v1.Session(graph=graph) as session:
        assert graphs.session_state(session) == (False, before + 1)
    assert graphs.session_state(session)[0]


# --- registries and caches


def test_a_traced_custom_gradient_leaves_an_entry_with_its_graph() -> None:
    @tf.custom_gradient  # type: ignore[untyped-decorator]
    def double(x: Any) -> Any:
        return x * 2, lambda dy: dy * 2 + 0 * x

    @tf.function
    def traced_once(x: Any) -> Any:
        return double(x)

    before = {entry.name for entry in registries.entries()}
    traced_once(tf.constant(1.0))
    new = [entry for entry in registries.entries() if entry.name not in before]
    assert registries.size() == len(before) + len(new)
    assert new
    assert {graph.name for entry in new for graph in entry.graphs} == {"traced_once"}
    label, container = registries.registry_objects()[0]
    assert label == registries.GRADIENTS
    assert new[0].name in container
    assert registries.remove(entry.name for entry in new) == len(new)
    assert registries.size() == len(before)


def test_tensorflows_own_gradients_are_never_removed() -> None:
    with pytest.raises(ValueError, match="MatMul"):
        registries.remove(["MatMul"])


def test_an_eager_py_function_stays_in_the_graphs_list_until_removed() -> None:
    def work(a: Any) -> Any:
        return a + 1

    before = registries.py_function_count()
    tf.py_function(work, [tf.constant(1.0)], tf.float32)
    kept = [found for found in registries.py_functions() if found.user_function is work]
    assert registries.py_function_count() == before + 1
    assert len(kept) == 1
    token = kept[0].token
    assert token is not None
    assert token.startswith("pyfunc_")
    assert any(label == registries.PY_FUNCTIONS for label, _ in registries.registry_objects())
    del kept
    assert registries.remove_py_functions([token]) == 1
    assert not any(found.token == token for found in registries.py_functions())
    del work  # TensorFlow hangs its wrapper on the program's function too, in a cycle
    gc.collect()
    assert registries.py_function_count() == before


def test_a_py_function_under_a_tape_keeps_its_tensors_until_its_gradient() -> None:
    x = tf.Variable(2.0)
    labels = lambda: [label for label, _ in registries.registry_objects()]  # noqa: E731
    assert registries.PY_FUNCTION_TAPES not in labels()
    with tf.GradientTape(persistent=True) as tape:
        y = tf.py_function(lambda a: a * a, [x], tf.float32)
    assert registries.PY_FUNCTION_TAPES in labels()
    assert float(tape.gradient(y, x)) == 4.0
    assert registries.PY_FUNCTION_TAPES not in labels()


def test_a_cleared_kernel_cache_restarts_seeded_random_ops_and_nothing_else() -> None:
    """The cost that `kernel_cache` warns of; when this fails the warning can go."""
    table = tf.lookup.experimental.MutableHashTable(tf.string, tf.int64, -1)
    table.insert(tf.constant(["a"]), tf.constant([3], tf.int64))
    queue = tf.queue.FIFOQueue(2, [tf.float32])
    queue.enqueue(1.5)
    stream = iter(_range())
    next(stream)
    generator = tf.random.Generator.from_seed(1)
    drawn = float(generator.normal([]))
    tf.random.set_seed(3)
    draw = tf.function(lambda: tf.random.normal([]))
    first = [float(draw()) for _ in range(3)]
    caches.clear_kernel_cache()
    assert [float(draw()) for _ in range(3)] == first
    assert float(generator.normal([])) != drawn
    assert int(table.lookup(tf.constant(["a"]))[0]) == 3
    assert float(queue.dequeue()) == 1.5
    assert int(next(stream)) == 1


def test_a_variable_whose_shape_is_open_weighs_what_it_holds_now() -> None:
    log = tf.Variable(tf.zeros([0, 4]), shape=tf.TensorShape([None, 4]), trainable=False)
    handle = handles.variable_handle(log)
    assert handles.handle_bytes(handle) == 0
    log.assign(tf.zeros([10, 4]))
    with tf.GradientTape() as tape:
        tape.watch(log)
        assert handles.handle_bytes(handle) == 160
    assert not [v for v in tape.watched_variables() if v is not log]
