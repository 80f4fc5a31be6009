"""The copies that read the heap are children of the program, and the program does not meet them."""

from __future__ import annotations

import inspect
import os
import pickle
import signal
import time
from collections.abc import Callable, Iterator
from typing import Any

import pytest

from tenure.explain import children
from tenure.explain.aside import Aside, Withdrawn
from tenure.explain.running import RunWatching
from tenure.records import Report

pytestmark = pytest.mark.slow

WAITS: dict[str, Callable[[], Any]] = {
    "wait": lambda: os.wait()[0],
    "wait3": lambda: os.wait3(0)[0],
    "wait4": lambda: os.wait4(-1, 0)[0],
    "waitpid": lambda: os.waitpid(-1, 0)[0],
    "waitpid of the group": lambda: os.waitpid(0, 0)[0],
    "waitid": lambda: os.waitid(os.P_ALL, 0, os.WEXITED).si_pid,  # type: ignore[union-attr]
    "polled": lambda: polled(),
}


def polled() -> int:
    while (pid := os.waitpid(-1, os.WNOHANG)[0]) == 0:
        time.sleep(0.01)
    return pid


def own_child(seconds: float = 0.1) -> int:
    pid = os.fork()
    if pid == 0:
        time.sleep(seconds)
        os._exit(0)
    return pid


@pytest.fixture
def hidden() -> Iterator[None]:
    children.hide()
    yield
    children.show()


@pytest.mark.parametrize("way", WAITS)
def test_a_wait_for_any_child_meets_only_the_programs(way: str, hidden: None) -> None:
    copy = Aside(lambda: time.sleep(30))
    mine = own_child()
    began = time.monotonic()
    assert WAITS[way]() == mine
    with pytest.raises(ChildProcessError):
        WAITS[way]()
    assert time.monotonic() - began < 10
    with pytest.raises(Withdrawn):
        copy.result(10)
    with pytest.raises(OSError, match="waits for any child"):
        Aside(lambda: 1)


def test_a_program_without_children_has_none(hidden: None) -> None:
    Aside(lambda: time.sleep(30))
    with pytest.raises(ChildProcessError):
        os.waitpid(-1, os.WNOHANG)


def test_a_wait_for_one_child_leaves_the_copies_alone(hidden: None) -> None:
    copy = Aside(lambda: 7)
    mine = own_child()
    assert os.waitpid(mine, 0) == (mine, 0)
    other = own_child()
    assert os.wait4(pid=other, options=0)[0] == other
    last = own_child()
    assert os.waitid(os.P_PID, last, os.WEXITED).si_pid == last  # type: ignore[union-attr]
    assert copy.result(10) == 7
    assert Aside(lambda: 8).result(10) == 8


def test_a_copy_answers_where_the_kernel_reaps_children(hidden: None) -> None:
    before = signal.signal(signal.SIGCHLD, signal.SIG_IGN)
    try:
        assert Aside(lambda: 7).result(10) == 7
        slow = Aside(lambda: time.sleep(30))
        slow.end()
        with pytest.raises(Exception, match="died without an answer"):
            slow.result(10)
    finally:
        signal.signal(signal.SIGCHLD, before)


def test_the_functions_look_the_same_and_are_given_back() -> None:
    before = {name: getattr(os, name) for name in ("wait", "wait3", "wait4", "waitpid", "waitid")}
    children.hide()
    try:
        for name, real in before.items():
            ours = getattr(os, name)
            assert ours is not real
            assert (ours.__name__, ours.__doc__) == (real.__name__, real.__doc__)
            assert inspect.signature(ours) == inspect.signature(real)
            assert pickle.loads(pickle.dumps(ours)) is ours
        with pytest.raises(TypeError):
            os.waitpid()  # type: ignore[call-arg]
        children.hide()
    finally:
        children.show()
    assert {name: getattr(os, name) for name in before} == before


kept: list[Any] = []


def watched(turn: Callable[[], None]) -> Report:
    watching = RunWatching(("fake",))
    watching.start()
    watching.set_ticks("tick", "fake")
    try:
        for _ in range(60):
            kept.append(bytearray(20_000))
            turn()
            watching.tick()
            time.sleep(0.002)
        return watching.finish(0)
    finally:
        kept.clear()


def no_child() -> None:
    with pytest.raises(ChildProcessError):
        os.waitpid(-1, os.WNOHANG)


def leaks(report: Report) -> bool:
    return report.verdict == "leak" and "the heap" not in {missing.figure for missing in report.missing}


def test_a_program_that_polls_for_any_child_is_judged_and_meets_none() -> None:
    assert leaks(watched(no_child))


def test_a_program_with_a_handler_of_sigchld_is_judged_and_gets_no_signal() -> None:
    told: list[int] = []
    before = signal.signal(signal.SIGCHLD, lambda number, frame: told.append(number))
    try:
        assert leaks(watched(lambda: None))
    finally:
        signal.signal(signal.SIGCHLD, before)
    assert told == []


def test_a_program_that_keeps_sigchld_for_itself_gets_none() -> None:
    signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGCHLD})
    try:
        with pytest.raises(OSError, match="takes SIGCHLD"):
            Aside(lambda: 1)
        assert leaks(watched(lambda: None))
    finally:
        signal.pthread_sigmask(signal.SIG_UNBLOCK, {signal.SIGCHLD})
