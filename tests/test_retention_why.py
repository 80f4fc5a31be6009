"""`tenure.why` on live programs: the real walk, the user's words, and nothing kept by the asking."""

from __future__ import annotations

import contextvars
import gc
import sys
import threading
import types
import weakref
from collections.abc import Callable
from typing import Any

import pytest

import tenure
from tenure.observe.retention import Why

HERE = "test_retention_why"
SHELF: dict[str, list[object]] = {}
CURRENT: contextvars.ContextVar[object] = contextvars.ContextVar("CURRENT")


class Thing:
    def __init__(self) -> None:
        self.parts: list[object] = []

    def add(self, part: object) -> None:
        self.parts.append(part)


@pytest.fixture(autouse=True)
def clean_shelf() -> None:
    SHELF.clear()


def put(thing: object) -> None:
    SHELF.setdefault("top", []).append(thing)


def line_with(text: str) -> int:
    with open(__file__) as lines:
        return next(n for n, line in enumerate(lines, 1) if line.strip().startswith(text))


def test_a_module_container_is_named_with_the_line_that_fills_it() -> None:
    thing = Thing()
    put(thing)

    answer = tenure.why(thing)

    assert answer.text == f"held by {HERE}.SHELF['top'][*]"
    assert answer.holder is not None
    assert (answer.holder.file, answer.holder.line) == (__file__, line_with("SHELF.setdefault"))
    assert answer.names == ("thing",)
    assert 'SHELF.setdefault("top", []).append(thing)' in str(answer)


def test_two_holders_are_both_told() -> None:
    thing, box = Thing(), Thing()
    put(thing)
    box.add(thing)
    SHELF["box"] = [box]

    answer = tenure.why(thing)

    texts = {h.text for h in (answer.holder, *answer.alternatives) if h is not None}
    assert texts == {f"{HERE}.SHELF['top'][*]", "frame test_two_holders_are_both_told() local 'box' > .parts[*]"}


def test_only_the_askers_variable() -> None:
    thing = Thing()

    answer = tenure.why(thing)

    assert answer.holder is None
    assert answer.text == "held only by the local variable `thing` in test_only_the_askers_variable()"


def test_nothing_but_the_call() -> None:
    answer = tenure.why(Thing())

    assert answer.text == "held by nothing but this call"


def test_a_variable_of_an_outer_function() -> None:
    def ask(part: object) -> Why:
        return tenure.why(part)

    box = Thing()
    box.add([1])

    answer = ask(box.parts[0])

    assert answer.text == "held by frame test_a_variable_of_an_outer_function() local 'box' > .parts[*]"
    assert answer.holder is not None
    assert answer.holder.line == line_with("self.parts.append(part)")


def test_a_context_variable() -> None:
    def ask() -> Why:
        CURRENT.set(Thing())
        return tenure.why(CURRENT.get())

    answer = contextvars.copy_context().run(ask)

    assert answer.text == "held by context variable 'CURRENT'"


def test_garbage_is_called_garbage() -> None:
    class Loop:
        me: object = None

    def ask() -> Why:
        loop = Loop()
        loop.me = loop
        ident = id(loop)
        del loop
        return tenure.why(next(thing for thing in gc.get_objects() if id(thing) == ident))

    gc.disable()
    try:
        answer = ask()
    finally:
        gc.enable()

    assert answer.text == "held in a cycle of garbage (through Loop) that gc.collect() frees"


def test_asking_keeps_nothing() -> None:
    thing = Thing()
    put(thing)
    watch = weakref.ref(thing)
    answer = tenure.why(thing)
    del thing
    SHELF.clear()

    assert sys.gettrace() is not None or watch() is None
    assert answer.path[0] == f"module {HERE}"


def test_off_the_main_thread_it_refuses() -> None:
    said: list[BaseException] = []

    def ask() -> None:
        try:
            tenure.why(said)
        except RuntimeError as error:
            said.append(error)

    thread = threading.Thread(target=ask)
    thread.start()
    thread.join()

    assert len(said) == 1
    assert "main thread" in str(said[0])


def test_tenure_is_never_the_holder() -> None:
    thing = Thing()

    answer = tenure.why(thing)

    assert answer.holder is None
    assert answer.text.endswith("variable `thing` in test_tenure_is_never_the_holder()")


@pytest.mark.parametrize("make", [dict, list, set, Thing, lambda: types.SimpleNamespace(a=1)])
def test_any_kind_of_object_can_be_asked_for(make: Callable[[], Any]) -> None:
    thing = make()
    put(thing)

    assert tenure.why(thing).text == f"held by {HERE}.SHELF['top'][*]"
