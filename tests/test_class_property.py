"""What an object of the program's is gets asked of its type: a `__class__` property of its class never runs."""

from __future__ import annotations

import sys
import types
from typing import Any

import pytest

import tenure
from tenure.explain.counting import functions_of, functions_of_by_heap
from tenure.explain.schedule import plan
from tenure.explain.soak import SoakWatching
from tenure.observe.sources import module_file
from tenure.probes import heap
from tenure.probes.kinds import is_a

asked: list[str] = []


class Sly:
    """Counts who asks for its class."""

    def __init__(self) -> None:
        self.kept: list[Any] = []

    @property
    def __class__(self) -> Any:
        asked.append("".join(f"{f.f_code.co_filename}:{f.f_lineno} " for f in _callers()))
        raise RuntimeError("none of your business")

    def __eq__(self, other: object) -> bool:
        asked.append("==")
        raise RuntimeError("nor this")

    def __hash__(self) -> int:
        return 1

    def __repr__(self) -> str:
        asked.append("repr")
        raise RuntimeError("nor that")


def _callers() -> list[types.FrameType]:
    frames, frame = [], sys._getframe(2)
    while frame is not None and len(frames) < 2:
        frames.append(frame)
        frame = frame.f_back  # type: ignore[assignment]
    return frames


class Thing:
    def __init__(self) -> None:
        self.payload = bytearray(20_000)


a_global = Sly()


def turn() -> None:
    sly = Sly()
    a_global.kept.append((sly, Thing(), {"one": [sly], sly: 1}, lambda: sly))


@pytest.fixture(autouse=True)
def nothing_asked() -> Any:
    asked.clear()  # pytest asks each global of a test's module
    yield
    a_global.kept.clear()


def test_is_a_asks_the_type() -> None:
    assert is_a([], list) and is_a(True, int) and is_a((), (list, tuple))
    assert not is_a(Sly(), list)
    assert not asked
    with pytest.raises(RuntimeError):
        isinstance(Sly(), list)


def test_looking_for_a_function_asks_no_object() -> None:
    def inner() -> Sly:
        return a_global

    space = {"a": a_global, "turn": turn, "b": Sly(), "inner": inner}
    assert functions_of(turn.__code__, space) == [turn]
    assert functions_of_by_heap(inner.__code__) == [inner]
    assert asked == []


def test_modules_that_are_objects_are_not_asked(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "sly", Sly())  # type: ignore[misc]
    assert module_file(sys.modules["sly"]) is None
    heap.module_roots(lambda name, module: False)
    assert asked == []


def test_a_census_and_the_question_why_ask_no_object() -> None:
    for _ in range(3):
        turn()
    tenure.census()
    sly, thing, named, function = a_global.kept[-1]
    for one in (thing, sly, named, function):
        assert "kept" in str(tenure.why(one))
    assert asked == []


@pytest.mark.slow
@pytest.mark.parametrize("tensorflow", [False, pytest.param(True, marks=pytest.mark.tf)])
def test_a_watch_asks_no_object(tensorflow: bool) -> None:
    if tensorflow:
        pytest.importorskip("tensorflow")
    watching = SoakWatching(("fake",), plan(40), None, 4096.0, None)
    watching.start()
    watching.set_ticks("tick", "fake")
    for _ in range(40):
        turn()
        watching.tick()
    report = watching.finish(0)
    assert report.verdict == "leak"
    assert report.findings[0].holder is not None
    assert asked == []
