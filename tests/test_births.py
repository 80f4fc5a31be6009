"""Births: what was made and where, the ops on demand, and nothing kept alive by knowing it."""

from __future__ import annotations

import gc
import sys
import threading
import weakref
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tenure.observe.births import Births, Ops, _holds_nothing, user_site

tf: Any = pytest.importorskip("tensorflow")
pytestmark = pytest.mark.tf


@pytest.fixture
def births() -> Iterator[Births]:
    noting = Births()
    noting.start()
    yield noting
    noting.stop()


def line_with(text: str) -> int:
    lines = Path(__file__).read_text().splitlines()
    return next(n for n, line in enumerate(lines, 1) if line.strip().startswith(text))


def made(births: Births, kind: str, *, since_mark: bool = False) -> list[tuple[int, str, int]]:
    found = births.made(since_mark=since_mark)
    return [(m.birth.line, m.birth.function, m.count) for m in found if m.kind == kind and m.birth.file == __file__]


def make_variable() -> Any:
    return tf.Variable([1.0, 2.0])


def test_a_variable_knows_its_line(births: Births) -> None:
    variable = make_variable()

    birth = births.site_of(variable)

    assert birth is not None
    assert (birth.file, birth.line) == (__file__, line_with("return tf.Variable([1.0, 2.0])"))
    assert (birth.function, birth.text) == ("make_variable", "return tf.Variable([1.0, 2.0])")


def test_counts_go_on_over_a_mark(births: Births) -> None:
    make_variable()
    births.mark()
    make_variable(), make_variable()

    line = line_with("return tf.Variable([1.0, 2.0])")
    assert made(births, "variable") == [(line, "make_variable", 3)]
    assert made(births, "variable", since_mark=True) == [(line, "make_variable", 2)]


def test_nothing_made_is_kept(births: Births) -> None:
    variable = make_variable()
    watch, known = weakref.ref(variable), len(births._known)
    del variable
    gc.collect()

    assert watch() is None
    assert len(births._known) < known


def test_after_stop_nothing_is_noted() -> None:
    noting = Births()
    noting.start()
    noting.stop()
    make_variable()

    assert noting.made() == []


def test_a_variable_made_on_another_thread(births: Births) -> None:
    thread = threading.Thread(target=make_variable)
    thread.start()
    thread.join()

    assert [count for _, _, count in made(births, "variable")] == [1]


def test_an_op_in_generated_code_is_told_by_the_line_it_came_from(births: Births) -> None:
    @tf.function
    def doubled(x: Any) -> Any:
        if tf.reduce_sum(x) > 0:
            x = tf.tanh(x)
        return x

    births.explain_ops()
    doubled(tf.constant([1.0]))
    births.explain_ops(False)

    traced = {(o.op, o.birth.line, o.birth.function) for o in births.ops() if o.traced}
    assert ("Tanh", line_with("x = tf.tanh(x)"), "doubled") in traced
    assert all(o.birth.file == __file__ for o in births.ops())


def double(x: Any) -> Any:
    return tf.add(x, x)


def test_eager_ops_are_counted_and_their_tensors_know_the_line(births: Births) -> None:
    births.explain_ops()
    births.mark()
    x = tf.ones([2])
    y = double(double(x))
    births.explain_ops(False)

    birth = births.site_of(y)
    assert birth is not None
    assert (birth.line, birth.function) == (line_with("return tf.add(x, x)"), "double")
    assert [(o.op, o.count) for o in births.ops(since_mark=True) if o.birth == birth] == [("AddV2", 2)]


def test_an_attribute_that_is_new_each_time_is_named(births: Births) -> None:
    x = tf.random.uniform([3])
    births.explain_ops()
    tf.reshape(x, [3])
    tf.expand_dims(x, 0)
    births.mark()
    for seed in range(5):
        tf.raw_ops.RandomUniform(shape=[2], dtype=tf.float32, seed=7, seed2=seed)
        tf.expand_dims(x, 0)
    births.explain_ops(False)

    (new,) = births.new_keys()
    assert (new.op, new.count, new.birth.line) == ("RandomUniform", 5, line_with("tf.raw_ops.RandomUniform"))
    assert new.changed is not None
    assert new.changed.argument == "seed2"
    assert new.changed.values == ("2", "3", "4")


def test_distinct_scalars_are_counted_by_line(births: Births) -> None:
    births.explain_ops()
    births.mark()
    for i in range(6):
        tf.constant(float(i % 4))
    births.explain_ops(False)

    (scalars,) = births.scalars()
    assert (scalars.distinct, scalars.at_least) == (4, False)
    assert scalars.birth.line == line_with("tf.constant(float(i % 4))")


def test_a_number_that_an_op_turns_into_a_tensor_is_a_scalar_of_its_line(births: Births) -> None:
    births.explain_ops()
    x = tf.ones([2])
    births.mark()
    for i in range(100):
        tf.maximum(x, i + 0.5)
        tf.maximum(x, 0.25)
    births.explain_ops(False)

    found = {scalars.birth.line: scalars.distinct for scalars in births.scalars()}
    assert found == {line_with("tf.maximum(x, i + 0.5)"): 64, line_with("tf.maximum(x, 0.25)"): 1}


def test_explaining_ops_keeps_no_tensor(births: Births) -> None:
    births.explain_ops()
    tensor = double(tf.ones([2]))
    watch = weakref.ref(tensor)
    del tensor

    assert watch() is None
    births.explain_ops(False)


def test_outside_the_users_code_there_is_no_line() -> None:
    assert user_site(None) is None
    site = user_site(sys._getframe())
    assert site is not None
    assert site[2] == "test_outside_the_users_code_there_is_no_line"


def test_rows_are_plain_values(births: Births) -> None:
    births.explain_ops()
    double(tf.ones([1]))
    births.explain_ops(False)

    row = next(o for o in births.ops() if o.op == "AddV2")
    assert isinstance(row, Ops)
    assert isinstance(hash(row), int)


@pytest.mark.parametrize(
    ("attrs", "kept"),
    [(("T", 1, "transpose_a", False), True), (("separator", "x" * 100), False), (("f", lambda: 0), False)],
)
def test_attributes_are_kept_where_they_are_small_and_hold_nothing(attrs: tuple[Any, ...], kept: bool) -> None:
    assert _holds_nothing(attrs) is kept
