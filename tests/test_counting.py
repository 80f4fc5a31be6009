"""A counted function runs as it does alone: as deep, below the same caller, and its arguments die as early."""

from __future__ import annotations

import asyncio
import contextlib
import cProfile
import gc
import inspect
import pstats
import sys
import threading
import traceback
import types
import warnings
import weakref
from collections.abc import Callable, Iterator
from typing import Any

import pytest

from tenure.explain.counting import FunctionCounter, countable, is_trampoline

hides = pytest.mark.skipif(sys.version_info < (3, 11), reason="the trampoline's frame is seen in 3.10")


@contextlib.contextmanager
def counted(*functions: Any) -> Iterator[list[int]]:
    turns: list[int] = []
    codes = [function.__code__ for function in functions]
    counter = FunctionCounter(functions, lambda: turns.append(1))
    assert all(is_trampoline(function.__code__) for function in functions)
    yield turns
    counter.remove()
    assert [function.__code__ for function in functions] == codes


def room() -> int:
    """How deep a recursion may go from here, nearly."""
    return sys.getrecursionlimit() - len(inspect.stack()) - 25


# --- recursion -----------------------------------------------------------------------------------------------------


def down(n: int) -> int:
    return n and 1 + down(n - 1)


def even(n: int) -> bool:
    return n == 0 or odd(n - 1)


def odd(n: int) -> bool:
    return n != 0 and even(n - 1)


async def await_down(n: int) -> int:
    return n and 1 + await await_down(n - 1)


def test_a_recursion_goes_as_deep_as_alone() -> None:
    deep = room()
    assert down(deep) == deep
    with counted(down) as turns:
        assert [down(deep) for _ in range(3)] == [deep] * 3
        assert len(turns) == 3
        assert is_trampoline(down.__code__)


def test_so_does_one_of_two_functions() -> None:
    deep = room() // 2 * 2
    with counted(even) as turns:
        assert [even(deep) for _ in range(3)] == [True] * 3
        assert len(turns) == 3


def test_so_does_a_coroutine_and_calls_beside_each_other_are_counted_again_later() -> None:
    async def all_of_them() -> list[int]:
        deep = room()
        found = [await await_down(deep) - deep for _ in range(2)]
        return found + await asyncio.gather(*(await_down(2) for _ in range(3))) + [await await_down(1)]

    with counted(await_down) as turns:
        assert asyncio.run(all_of_them()) == [0, 0, 2, 2, 2, 1]
        assert 4 <= len(turns) <= 6


def test_a_recursion_that_fails_is_counted_on() -> None:
    def fails(n: int) -> int:
        return 1 // n + fails(n - 1)

    with counted(fails) as turns:
        for _ in range(3):
            with pytest.raises(ZeroDivisionError) as caught:
                fails(5)
            if sys.version_info >= (3, 11):
                assert [f.name for f in traceback.extract_tb(caught.tb)][1:] == ["fails"] * 6
        assert len(turns) == 2  # the last one is told with the next call


def test_recursions_of_several_threads() -> None:
    failures: list[BaseException] = []

    def work() -> None:
        try:
            for _ in range(200):
                assert down(30) == 30
        except BaseException as error:
            failures.append(error)

    interval = sys.getswitchinterval()
    sys.setswitchinterval(1e-5)
    try:
        with counted(down) as turns:
            threads = [threading.Thread(target=work) for _ in range(4)]
            for thread in threads:
                thread.start()
            for thread in threads:
                thread.join()
            before = len(turns)
            assert 0 < before <= 800
            down(3)
            assert len(turns) == before + 1
    finally:
        sys.setswitchinterval(interval)
    assert failures == []


def test_a_counter_may_be_removed_in_the_middle_of_a_recursion() -> None:
    def work(n: int) -> int:
        if n == 0:
            counter.remove()
            return 0
        return 1 + work(n - 1)

    own, turns = work.__code__, []
    counter = FunctionCounter([work], lambda: turns.append(1))
    assert work(5) == 5
    assert work.__code__ is own
    assert turns == []


# --- frames --------------------------------------------------------------------------------------------------------


@hides
def test_the_caller_is_the_caller() -> None:
    def work() -> tuple[Any, ...]:
        warnings.warn("look", stacklevel=2)
        frame = inspect.currentframe()
        assert frame is not None
        return (sys._getframe(1), frame.f_back, inspect.stack()[1].frame, list(traceback.walk_stack(None))[1:][0][0])

    here = sys._getframe()
    with counted(work), pytest.warns(UserWarning) as warned:
        found = work()
        line = here.f_lineno - 1
    assert all(frame is here for frame in found[:3])
    assert (warned[0].filename, warned[0].lineno) == (__file__, line)


@hides
def test_a_trace_holds_the_function_once() -> None:
    def work(n: int) -> list[str]:
        if n:
            raise KeyError(n)
        return [summary.name for summary in traceback.extract_stack()]

    with counted(work):
        assert work(0).count("work") == 1
        try:
            work(1)
        except KeyError:
            shown = traceback.format_exc()
    assert shown.count("in work") == 1


def test_at_a_turn_the_counters_frame_holds_the_result_alone() -> None:
    """A walk of the heap takes what a frame holds for a variable of the program's."""

    def work(a: int, *b: int, c: int) -> Any:
        return [a, b, c]

    async def awaited(a: int, *b: int, c: int) -> Any:
        return [a, b, c]

    def turn() -> None:
        frame: types.FrameType | None = sys._getframe()
        while frame is not None and not is_trampoline(frame.f_code):
            frame = frame.f_back
        assert frame is not None
        held.append([value for value in frame.f_locals.values() if value is not None and value is not True])

    held: list[Any] = []
    counters = [FunctionCounter([function], turn) for function in (work, awaited)]
    for more in ((), (2,)):
        work(1, *more, c=3)
        asyncio.run(awaited(1, *more, c=3))
    for counter in counters:
        counter.remove()
    assert held == [[[1, (), 3]], [[1, (), 3]], [[1, (2,), 3]], [[1, (2,), 3]]]


def test_frames_that_outlive_their_call_keep_their_caller() -> None:
    def work() -> tuple[types.FrameType, types.GeneratorType[int, None, None]]:
        return sys._getframe(), (n for n in range(3))

    def call() -> tuple[types.FrameType, Any]:
        return work()

    with counted(work), counted(call):
        kept = [call() for _ in range(50)]
    for frame, numbers in kept:
        assert frame.f_code.co_name == "work"
        assert list(numbers) == [0, 1, 2]
    gc.collect()
    assert all(frame.f_locals == {} for frame, _ in kept)


def test_a_debugger_steps_through_unharmed() -> None:
    lines: list[tuple[str, str]] = []

    def work(n: int) -> int:
        if n:
            raise KeyError(n)
        return 7

    def step(frame: types.FrameType, event: str, _: object) -> Any:
        if frame.f_code.co_name == "work":
            lines.append((event, "" if is_trampoline(frame.f_code) else "own"))
        return step

    with counted(work) as turns:
        before = sys.gettrace()
        sys.settrace(step)
        try:
            found = work(0)
            with contextlib.suppress(KeyError):
                work(1)
        finally:
            sys.settrace(before)
        work(0)
        assert found == 7
        assert len(turns) == 3
    own = [event for event, whose in lines if whose]
    assert own == ["call", "line", "line", "return", "call", "line", "line", "exception", "return"]


def test_what_looks_for_its_caller_is_no_turn_where_the_trampoline_could_be_seen() -> None:
    async def warns() -> None:
        warnings.warn("look", stacklevel=2)

    async def looks() -> Any:
        return sys._getframe(1)

    async def stacks(np: Any) -> Any:
        return np.stack([1])

    assert not countable(warns.__code__)
    assert not countable(looks.__code__)
    assert countable(stacks.__code__)


def test_a_profile_is_as_it_would_be() -> None:
    def inner() -> None:
        with pytest.raises(ValueError, match="x"):
            fails()

    def fails() -> None:
        raise ValueError("x")

    def outer() -> None:
        inner()

    events: list[tuple[str, str]] = []

    def note(frame: types.FrameType, event: str, _: object) -> None:
        if event in ("call", "return") and frame.f_code.co_filename == __file__:
            events.append((event, frame.f_code.co_name))

    with counted(inner), counted(fails):
        sys.setprofile(note)
        try:
            outer()
        finally:
            sys.setprofile(None)
        depth = 0
        for event, _ in events:
            depth += 1 if event == "call" else -1
            assert depth >= 0, events
        assert depth == 0
        profile = cProfile.Profile()
        profile.runcall(outer)
        named = {key[2]: value for key, value in pstats.Stats(profile).stats.items()}  # type: ignore[attr-defined]
        assert named["outer"][0] == 1
        assert named["outer"][3] >= named["fails"][3]


# --- arguments -----------------------------------------------------------------------------------------------------


class Thing:
    pass


def dies(call: Callable[..., bool]) -> None:
    dead = [call(Thing())]  # no `assert` around the call: pytest's keeps the argument
    with counted(call) as turns:
        dead += [call(Thing()) for _ in range(5)]
    assert dead == [True] * 6
    assert len(turns) == 5


@hides
def test_an_argument_dies_when_the_function_deletes_it() -> None:
    def plain(thing: Thing | None, more: int = 1) -> bool:
        dead = weakref.ref(thing)
        del thing
        return dead() is None

    def rebound(thing: Thing | None, *rest: int, key: int = 3, **named: int) -> bool:
        dead = weakref.ref(thing)
        thing = None
        return dead() is None and not rest and not named and key == 3

    dies(plain)
    dies(rebound)


@hides
def test_an_argument_of_a_coroutine_dies_when_it_deletes_it() -> None:
    async def work(thing: Thing) -> bool:
        dead = weakref.ref(thing)
        del thing
        await asyncio.sleep(0)
        return dead() is None

    with counted(work) as turns:
        dead = asyncio.run(work(Thing()))
    assert dead
    assert turns == [1]


@pytest.mark.parametrize("rest", [(), (3, 4)])
@pytest.mark.parametrize("named", [{}, {"z": 6}])
def test_arguments_of_every_kind_arrive(rest: tuple[int, ...], named: dict[str, int]) -> None:
    def work(a: int, /, b: int, *c: int, d: int, e: int = 5, **f: int) -> tuple[Any, ...]:
        return a, b, c, d, e, f

    def only_named(*, a: int, b: int = 2) -> tuple[int, int]:
        return a, b

    with counted(work), counted(only_named):
        assert work(1, 2, *rest, d=4, **named) == (1, 2, rest, 4, 5, named)
        assert only_named(a=1) == (1, 2)
