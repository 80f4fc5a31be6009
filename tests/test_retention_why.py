"""`tenure.why` on live programs: the real walk, the user's words, and nothing kept by the asking."""

from __future__ import annotations

import atexit
import contextvars
import functools
import gc
import signal
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


def save(*things: object, **more: object) -> None:
    pass


class Server:
    def __init__(self, part: object) -> None:
        self.part = part

    def stop(self, *what: object) -> None:
        pass


def held(hold: Callable[[Any], object]) -> str:
    """What `why` says of a thing that nothing but this way of holding keeps."""

    def make() -> weakref.ref[Thing]:
        thing = Thing()
        hold(thing)
        return weakref.ref(thing)

    watch = make()
    return tenure.why(watch()).text


@pytest.mark.parametrize(
    ("handler", "text"),
    [
        (lambda thing: functools.partial(save, thing), "argument 0 of partial(save)"),
        (lambda thing: Server(thing).stop, "self of Server.stop > .part"),
    ],
)
def test_a_signal_handler(handler: Callable[[Any], Any], text: str) -> None:
    before = signal.getsignal(signal.SIGUSR1)
    try:
        assert held(lambda thing: signal.signal(signal.SIGUSR1, handler(thing))) == (
            f"held by signal handler of SIGUSR1 > {text}"
        )
    finally:
        signal.signal(signal.SIGUSR1, before)


def test_a_finalizer_with_its_arguments() -> None:
    watched = Thing()
    where = f"finalizer save ({HERE}.py:{save.__code__.co_firstlineno})"
    assert held(lambda thing: weakref.finalize(watched, save, thing)) == f"held by {where} > [*]"
    assert held(lambda thing: weakref.finalize(watched, save, kept=[thing])) == f"held by {where} > ['kept'][*]"


def test_what_a_module_holds_too_is_told_by_the_module() -> None:
    server = Server([Thing()])
    SHELF["servers"] = [server]
    before = signal.signal(signal.SIGUSR1, server.stop)
    thing = server.part[0]  # type: ignore[index]
    del server
    try:
        assert tenure.why(thing).text == f"held by {HERE}.SHELF['servers'][*].part[*]"
    finally:
        signal.signal(signal.SIGUSR1, before)


def test_an_exit_handler_is_no_garbage() -> None:
    wrappers: list[Any] = []

    def hold(thing: object) -> None:
        wrapper = functools.partial(save, thing)
        wrappers.append(weakref.ref(wrapper))
        atexit.register(wrapper)

    try:
        assert held(hold) == (
            "held natively, through partial: by an exit handler (atexit), a dataset, a running op or another extension"
        )
    finally:
        atexit.unregister(wrappers[0]())


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
