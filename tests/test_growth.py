"""Growth told from noise: what rises in every window, what only seems to."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tenure.explain.growth import boundaries, seconds_to_limit, slope, spacing, sparse_trend, trend
from tenure.explain.schedule import OpenPlan, plan

TICKS = (30, 55, 86, 110, 135, 160)


def test_a_steady_leak_rises_in_each_window_and_has_its_rate() -> None:
    told = trend(TICKS, [1000.0 + 64 * t for t in TICKS])
    assert (told.rises, told.steady, told.slowing) == (True, True, False)
    assert told.rate == pytest.approx(64)


def test_what_stops_rising_is_no_growth() -> None:
    filled = [min(t, 64) * 1000.0 for t in TICKS]
    assert not trend(TICKS, filled).rises


def test_ever_slower_growth_is_told() -> None:
    told = trend(TICKS, [1e6 * (1 - 0.5 ** (t / 30)) for t in TICKS])
    assert told.rises and told.slowing


@pytest.mark.parametrize("cycles", [60, 90, 140, 200, 220, 300])
def test_a_sawtooth_is_not_steady_growth_at_the_ticks_that_are_read(cycles: int) -> None:
    marks = plan(cycles).marks
    for period in range(2, (marks[-1] - marks[0]) // 2 + 1):
        told = trend(marks, [float(1000 * (t % period)) for t in marks])
        assert not (told.rises and told.steady), period


@pytest.mark.parametrize("cycles", [60, 90, 120, 200, 300])
def test_what_comes_seldom_is_growth_at_any_phase_and_a_sawtooth_is_not(cycles: int) -> None:
    marks = plan(cycles).marks
    third = (marks[-1] - marks[0]) // 4
    for every in range(2, third):
        for phase in range(every):
            told = sparse_trend(marks, [float((mark + phase) // every) for mark in marks])
            assert told.rises, (every, phase)
            for most in range(2, third // every + 1):  # dropped again when there are so many
                told = sparse_trend(marks, [float((mark + phase) // every % most) for mark in marks])
                assert not (told.rises and told.steady), (every, phase, most)


def test_six_marks_are_too_few_for_what_comes_seldom() -> None:
    assert not sparse_trend(TICKS, [1, 1, 2, 2, 3, 3]).rises
    assert sparse_trend((*TICKS, 185), [1, 1, 2, 2, 3, 3, 4]).rises


@pytest.mark.parametrize(
    ("values", "expected"),
    [
        ([0, 1, 1, 2, 2, 2], 55),  # at 55 and 110, and quiet for 50
        ([0, 1, 1, 1, 1, 2], 105),
        ([0, 1, 1, 2, 2, 9], None),  # not the same thing again
        ([0, 1, 2, 2, 2, 2], None),  # a buffer that has filled
        ([0, 1, 1, 2, 1, 1], None),
        ([0, 0, 0, 1, 1, 1], None),
        ([0, 1, 2, 3, 4, 5], None),  # grows: nothing to wait for
    ],
)
def test_whether_what_came_seldom_may_come_again(values: list[float], expected: float | None) -> None:
    assert spacing(TICKS, values) == expected


def test_the_slope_is_not_moved_by_one_jump() -> None:
    values = [100.0 * t for t in TICKS]
    values[3:] = [v + 50_000 for v in values[3:]]
    found = slope(TICKS, values)
    assert found.low <= 100 <= found.high


@settings(deadline=None)
@given(
    st.lists(
        st.tuples(st.integers(0, 1000), st.integers(-(10**9), 10**9)), min_size=2, max_size=12, unique_by=lambda p: p[0]
    )
)
def test_the_slope_and_its_interval_are_those_of_scipy(points: list[tuple[int, int]]) -> None:
    stats = pytest.importorskip("scipy.stats")
    ticks, values = [p[0] for p in sorted(points)], [float(p[1]) for p in sorted(points)]
    found, known = slope(ticks, values), stats.theilslopes(values, ticks, alpha=0.95)
    assert found.value == pytest.approx(known[0])
    if len(points) >= 4:  # below that scipy's interval has no bounds
        assert (found.low, found.high) == (pytest.approx(known[2]), pytest.approx(known[3]))


@given(st.integers(0, 500), st.integers(1, 3000))
def test_the_marks_run_from_the_first_to_the_last_tick(first: int, length: int) -> None:
    marks = boundaries(first, first + length)
    assert marks[0] == first and marks[-1] == first + length
    assert list(marks) == sorted(set(marks))


@settings(deadline=None)
@given(st.integers(1, 2000), st.none() | st.integers(0, 2500))
def test_a_soak_never_calls_its_target_more_often_than_asked(cycles: int, warmup: int | None) -> None:
    made = plan(cycles, warmup)
    assert made.marks[-1] <= max(cycles, 1)
    if cycles >= 8:
        assert made.marks[-1] < made.explained < made.first_release < cycles
    if cycles >= 10 and warmup is None:
        assert made.windows >= 3


@settings(deadline=None)
@given(st.lists(st.floats(0.0001, 3.0), min_size=50, max_size=400))
def test_a_run_of_any_length_keeps_a_bounded_number_of_snapshots(durations: list[float]) -> None:
    open_plan = OpenPlan()
    for tick, seconds in enumerate(durations, 1):
        if open_plan.due(tick, seconds):
            open_plan.taken(tick, seconds)
    assert len(open_plan.kept) <= open_plan.most
    assert open_plan.kept == sorted(open_plan.kept)
    # The newest snapshot is never further back than a third of the run.
    assert open_plan.kept[-1] >= len(durations) * 0.6


def test_slow_ticks_are_read_one_by_one_and_fast_ones_ever_further_apart() -> None:
    for seconds, expected in (
        (2.0, [2, 3, 4, 5, 6, 7, 8, 9, 10]),
        (0.02, [4, 5, 6, 7, 8, 10]),
        (0.001, [4, 5, 6, 7, 8, 10]),
        (0.0001, [8]),
    ):
        open_plan, read = OpenPlan(), []
        for tick in range(1, 11):
            if open_plan.due(tick, seconds):
                open_plan.taken(tick, seconds)
                read.append(tick)
        assert read == expected


def test_the_time_to_the_limit() -> None:
    assert seconds_to_limit(100.0, 2.0, 1000, 2000) == pytest.approx(20.0)
    assert seconds_to_limit(0.0, 2.0, 1000, 2000) is None
    assert seconds_to_limit(100.0, 2.0, 1000, None) is None
