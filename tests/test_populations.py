"""What grows in counted heaps: the topmost group, its series, and what is left out. No walk, no TensorFlow."""

from __future__ import annotations

import numpy as np
import pytest

from tenure.explain.evidence import Population
from tenure.explain.populations import garbage, growing, held_tensors, stopped
from tenure.observe.snapshot import Snapshot, Tree
from tenure.records import Holder

# module > history (list) > tensors > their shapes, and beside it a cache (dict) that is full
NAMES = ("module", "history", "tensor", "shape", "cache", "entry")
PARENTS = (-1, 0, 1, 2, 0, 4)
TREE = Tree(
    np.arange(1, 7, dtype=np.uint64),
    np.array(PARENTS, np.int64),
    np.zeros(6, np.int64),
    NAMES,
    ("dict", "list", "EagerTensor", "TensorShape", "dict", "bytes"),
)


def snapshot(
    tick: int, counts: list[int], sizes: list[int], base: Snapshot | None = None, **other: tuple[int, int, int]
) -> Snapshot:
    made = Snapshot(
        tick,
        None,
        TREE.keys,
        np.array(counts, np.int64),
        np.array(sizes, np.int64),
        np.array([0, 0, sizes[2], 0, 0, 0], np.int64),
        other.get("held", (0, 0, 0)),
        other.get("garbage", (0, 0, 0)),
        sum(counts),
        sum(sizes),
        sizes[2],
    )
    return made if base is None else made.beside(base)


def run(tensors_at: dict[int, int]) -> list[Snapshot]:
    """A list of tensors of 1000 bytes with a shape of 100 each; the list itself gets larger too."""
    base = None
    made = []
    for tick, n in tensors_at.items():
        made.append(snapshot(tick, [1, 1, n, n, 1, 64], [500, 56 + 8 * n, 1000 * n, 100 * n, 4000, 64000], base))
        base = base or made[0]
    return made


def test_the_topmost_group_that_multiplies_is_found_with_all_below_it() -> None:
    (top,) = growing(run({10: 10, 20: 20, 33: 33, 40: 40}), TREE)
    assert NAMES[top.index] == "tensor"
    assert top.objects == (10, 20, 33, 40)
    assert top.trend.rate == pytest.approx(1100)
    assert top.trend.steady and not top.single


def test_what_came_once_with_the_first_things_is_not_in_the_rate() -> None:
    # a class that the first tensor's shape brought: 40 KB that have stood since
    made = []
    for tick, n in ((10, 10), (20, 20), (33, 33), (40, 40)):
        shapes = (0, 0) if tick == 10 else (2, 40_000)
        made.append(snapshot(tick, [1, 1, n, shapes[0], 1, 64], [500, 56, 1000 * n, shapes[1], 4000, 64000]))
    (top,) = growing(made, TREE)
    assert top.trend.rate == pytest.approx(1000)
    assert top.bytes == (10_000, 20_000, 33_000, 40_000)


def test_a_new_name_for_each_thing_is_one_population() -> None:
    # module > batch_0 ... batch_7, one more at every other tick, each with an array of 1000 bytes below it
    names = ("module", *(f"batch_{n}" for n in range(8)), *[""] * 8)
    tree = Tree(
        np.arange(1, 18, dtype=np.uint64),
        np.array([-1, *[0] * 8, *range(1, 9)], np.int64),
        np.zeros(17, np.int64),
        names,
        ("dict", *["list"] * 8, *["numpy.ndarray"] * 8),
    )
    made = []
    for tick in (10, 14, 18, 22):
        there = [int(2 * n < tick - 8) for n in range(8)]
        sizes = np.array([500, *(64 * one for one in there), *(1000 * one for one in there)], np.int64)
        counts = np.array([1, *there, *there], np.int64)
        none = (0, 0, 0)
        made.append(Snapshot(tick, None, tree.keys, counts, sizes, 0 * sizes, none, none, 17, 0, 0))
    (top,) = growing(made, tree)
    assert (top.objects, top.bytes) == ((0, 2, 4, 6), (0, 2128, 4256, 6384))
    assert len(top.family) == 6 and top.trend.rate == pytest.approx(532)


def test_what_did_not_grow_in_one_window_is_left_out() -> None:
    assert growing(run({10: 10, 20: 20, 33: 20, 40: 40}), TREE) == []


def test_one_object_that_gets_larger_is_told_as_such() -> None:
    made = [snapshot(t, [1, 1, 1, 1, 1, 64], [500, 56, 5000 * t, 100, 4000, 64000]) for t in (10, 20, 33, 40)]
    (top,) = growing(made, TREE)
    assert (NAMES[top.index], top.single, top.trend.rate) == ("tensor", True, pytest.approx(5000))


def test_a_snapshot_beside_its_base_keeps_what_differs_and_gives_the_same_columns() -> None:
    first, second = run({10: 10, 20: 20})
    assert set(second.keys) == {2, 3, 4}
    assert second.column(TREE.keys, "counts").tolist() == [1, 1, 20, 20, 1, 64]
    vanished = snapshot(30, [1, 1, 0, 0, 1, 64], [500, 56, 0, 0, 4000, 64000], first)
    assert vanished.column(TREE.keys, "counts").tolist() == [1, 1, 0, 0, 1, 64]


def test_what_native_code_holds_and_garbage_must_rise_in_each_window() -> None:
    counts, sizes = [1, 1, 1, 1, 1, 64], [500, 56, 1000, 100, 4000, 64000]
    rising = [
        snapshot(t, counts, sizes, held=(t, t * 200, t * 4096), garbage=(t, t * 300, t * 8192))
        for t in (10, 20, 33, 40)
    ]
    assert held_tensors(rising) == (pytest.approx(4096), pytest.approx(1))
    waste = garbage(rising)
    assert waste is not None and waste.tensor_bytes_per_tick == pytest.approx(8192)
    sawtooth = [
        snapshot(t, counts, sizes, held=(t % 25, 0, t % 25 * 4096), garbage=(t % 25, 0, t % 25 * 8192))
        for t in (10, 20, 33, 40)
    ]
    assert held_tensors(sawtooth) == (0.0, 0.0) and garbage(sawtooth) is None


LIST = Holder("__main__.history[*]", ("__main__.history[*]",))


@pytest.mark.parametrize(
    ("holder", "tensors", "cache", "goes_on"),
    [
        (LIST, (40, 50), (64, 64), True),
        (LIST, (40, 42), (64, 64), False),  # a buffer that is full
        (LIST, (40, 9), (64, 64), False),  # a list that was cut
        (LIST, (40, 9), (64, 140), True),  # the rest of it is met at another place, and the heap got larger
        (LIST, (40, 0), (64, 64), True),  # not met at its place any more: that can't be told
        (LIST, (0, 0), (64, 64), True),  # at neither
        (Holder("__main__.head.next", ("__main__.head.next",)), (40, 40), (64, 64), True),  # no container's elements
    ],
)
def test_whether_a_population_has_stopped(
    holder: Holder, tensors: tuple[int, int], cache: tuple[int, int], goes_on: bool
) -> None:
    population = Population(0, "module", "tensor", 1.0, 1000.0, 1000.0, holder=holder, key=3)
    before, now = (
        snapshot(tick, [1, 1, n, n, 1, entries], [500, 56, 1000 * n, 0, 4000, 1000 * entries])
        for tick, n, entries in zip((40, 50), tensors, cache, strict=True)
    )
    assert stopped([population], before, now) == (((population,), ()) if goes_on else ((), (population,)))
