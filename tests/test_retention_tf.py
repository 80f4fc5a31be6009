"""Holders inside TensorFlow and Keras, told in the user's words, through the real walk."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import tenure
from tenure.observe import retention, snapshot
from tenure.probes import heap

tf: Any = pytest.importorskip("tensorflow")
pytestmark = pytest.mark.tf

HERE = "test_retention_tf"
KEPT: dict[str, Any] = {}


@pytest.fixture(autouse=True)
def empty() -> Any:
    KEPT.clear()
    yield
    KEPT.clear()


def path_of(thing: object) -> str:
    roots, fixed = snapshot.roots()
    roots = [root for root in roots if " in " not in root.label]  # no variables: this function and its caller have one
    found = heap.walk(roots, select_ids=(id(thing),), paths=True, groups=False, **fixed).found
    return retention.name_group([retention.name_path(f.root, f.path, f.obj) for f in found]).text


class Net(tf.Module):  # type: ignore[misc]
    def __init__(self) -> None:
        super().__init__()
        self.seen: list[Any] = []
        self.by_name: dict[str, Any] = {}

    def see(self, x: Any) -> None:
        self.seen.append(tf.Variable(x))
        self.by_name["last"] = tf.Variable(x)


def test_tracked_lists_and_dicts_read_as_the_attribute() -> None:
    KEPT["net"] = Net()
    KEPT["net"].see(1.0)

    answer = tenure.why(KEPT["net"].seen[0])
    assert answer.text == f"held by {HERE}.KEPT['net'].seen[*]"
    assert "self.seen.append" in str(answer)
    assert tenure.why(KEPT["net"].by_name["last"]).text == f"held by {HERE}.KEPT['net'].by_name['last']"


def test_an_array_behind_a_view() -> None:
    def cut() -> None:
        KEPT["corner"] = np.zeros((256, 256))[:2, :2]

    cut()
    answer = tenure.why(KEPT["corner"].base)
    assert (
        answer.text == f"held by {HERE}.KEPT['corner'] > .base" or answer.text == f"held by {HERE}.KEPT['corner'].base"
    )


def test_a_functions_cache_by_the_functions_name() -> None:
    def make() -> None:
        @tf.function
        def scaled(x: Any, by: Any) -> Any:
            return x * by

        KEPT["step"] = scaled
        for by in (3, 4, 5):
            scaled(tf.ones([2]), by)

    make()

    traces = KEPT["step"]._list_all_concrete_functions()
    texts = {path_of(trace) for trace in traces}
    assert f"{HERE}.KEPT['step'] > function cache of scaled > [*]" in texts


def test_a_graph_that_only_the_gradient_registry_keeps() -> None:
    @tf.custom_gradient
    def halved(x: Any) -> Any:
        return x, lambda dy: dy * 0.5

    def once() -> int:
        @tf.function
        def traced(x: Any) -> Any:
            return halved(x)

        graph = traced.get_concrete_function(tf.TensorSpec([2])).graph
        traced(tf.ones([2]))
        return id(graph)

    import gc

    ident = once()
    gc.collect()
    graph = next((t for t in gc.get_objects() if id(t) == ident), None)
    if graph is None or type(graph).__name__ != "FuncGraph":
        pytest.skip("this version's registry lets the graph go")
    text = path_of(graph)
    assert text == "TensorFlow's gradient registry > CustomGradient-* > FuncGraph traced"


def test_a_tensor_that_only_a_tape_holds() -> None:
    x = tf.Variable([1.0, 2.0])
    tape = tf.GradientTape(persistent=True)
    with tape:
        y = tf.exp(x)
        ident = id(y)
        z = y * y
        del y
        import gc

        held = next((t for t in gc.get_objects() if id(t) == ident), None)
        if type(held).__name__ != "EagerTensor":
            pytest.skip("the tape holds no Python object here")
        answer = tenure.why(held)
    where = "test_a_tensor_that_only_a_tape_holds()"
    assert answer.text == f"held natively, by a tape that records, and by the local variable `held` in {where}"
    assert z is not None
