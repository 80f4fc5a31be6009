"""Roots: the local variables of running frames, and the modules. Reading them leaves nothing behind."""

from __future__ import annotations

import sys
import threading
import types
import weakref
from types import FrameType
from typing import Any

import pytest

from tenure.probes import heap


class Thing:
    pass


def mine(frame: FrameType) -> bool:
    return frame.f_code.co_filename == __file__


def test_a_local_variable_is_a_root_in_words() -> None:
    thing = Thing()
    (root,) = [root for root in heap.frame_roots(mine) if root.obj is thing]
    line = test_a_local_variable_is_a_root_in_words.__code__.co_firstlineno
    assert root.label == f"thing in test_a_local_variable_is_a_root_in_words() {__file__}:{line}"
    assert root.tier == 0


def test_frames_of_libraries_are_tier_1_and_those_of_tenure_none() -> None:
    roots = heap.frame_roots(mine)
    assert {root.tier for root in roots if "/_pytest/" in root.label} == {1}
    assert not [root.label for root in roots if "/tenure/probes/" in root.label]


def test_a_variable_deleted_after_the_walk_dies_at_once() -> None:
    thing = Thing()
    gone = weakref.ref(thing)
    assert any(root.obj is thing for root in heap.frame_roots(mine))
    assert gone() is not None
    del thing
    assert gone() is None


def test_a_variable_of_a_caller_dies_at_once_too() -> None:
    def census() -> int:
        return len(heap.frame_roots(mine))

    thing: Any = Thing()
    cell = [Thing()]

    def closure() -> object:
        return cell

    gone, inner = weakref.ref(thing), weakref.ref(cell[0])
    assert census() > 0
    thing = None
    assert gone() is None
    cell = []
    assert inner() is None
    assert closure() == []


def test_a_dict_of_locals_that_the_program_holds_is_not_emptied() -> None:
    thing = Thing()
    held = locals()
    heap.frame_roots(mine)
    assert held["thing"] is thing


def test_a_traced_function_keeps_its_variables() -> None:
    """After a trace function returns, Python before 3.13 writes the dict of locals back into the frame."""
    seen: list[int] = []

    def trace(frame: FrameType, event: str, arg: object) -> Any:
        if frame.f_code is traced.__code__:
            seen.append(len(heap.frame_roots(mine)))
        return trace

    def traced() -> int:
        one = 1
        two = 2
        return one + two

    before = sys.gettrace()
    sys.settrace(trace)
    try:
        result = traced()
    finally:
        sys.settrace(before)
    assert result == 3
    assert seen


def test_the_variables_of_other_threads_are_roots() -> None:
    ready, stop = threading.Event(), threading.Event()

    def work() -> None:
        thing = Thing()
        ready.set()
        stop.wait()
        del thing

    thread = threading.Thread(target=work)
    thread.start()
    try:
        assert ready.wait(10)
        labels = [root.label for root in heap.frame_roots(mine) if isinstance(root.obj, Thing)]
    finally:
        stop.set()
        thread.join()
    assert [label.split("()")[0] for label in labels] == ["thing in work"]


def test_a_module_body_outside_sys_modules_is_a_root() -> None:
    labels: list[str] = []
    space = {"__name__": "a script", "note": lambda: labels.extend(root.label for root in heap.frame_roots(mine))}
    exec(compile("kept = [1]\nnote()", "script.py", "exec"), space)
    assert "kept in <module>() script.py:1" in labels


def test_a_class_body_keeps_its_names() -> None:
    class Body:
        kept = Thing()
        roots = len(heap.frame_roots(mine))

    assert isinstance(Body.kept, Thing)


def test_module_roots_know_the_user_s_modules() -> None:
    modules = heap.module_roots(lambda name, module: name == __name__)
    by_object = {id(root.obj): root for root in modules.roots}
    root = by_object[id(globals())]
    assert (root.label, root.tier) == (f"module {__name__}", 0)
    assert by_object[id(vars(sys))].tier == 1
    assert modules.user_globals == {id(globals())}
    barred = {id(barrier) for barrier in modules.barriers}
    assert {id(globals()), id(sys.modules[__name__]), id(vars(sys)), id(sys)} <= barred


def test_a_module_is_named_by_its_own_name() -> None:
    import os.path

    labels = [root.label for root in heap.module_roots(lambda name, module: False).roots if root.obj is vars(os.path)]
    assert labels == ["module posixpath"]


def test_what_is_no_module_in_sys_modules_is_a_root(monkeypatch: pytest.MonkeyPatch) -> None:
    odd, holds = Thing(), Thing()
    odd.holds = holds  # type: ignore[attr-defined]
    monkeypatch.setitem(sys.modules, "odd_one", odd)
    monkeypatch.setitem(sys.modules, "gone_one", None)
    modules = heap.module_roots(lambda name, module: False)
    (root,) = [root for root in modules.roots if root.obj is odd]
    assert root.label == "module odd_one"


def test_a_lazy_module_is_not_asked_for_its_dict() -> None:
    class Lazy(types.ModuleType):
        def __getattribute__(self, name: str) -> Any:
            raise AssertionError("a lazy module was loaded")

    sys.modules["lazy_one"] = Lazy("lazy_one")
    try:
        modules = heap.module_roots(lambda name, module: False)
    finally:
        del sys.modules["lazy_one"]
    assert [root.tier for root in modules.roots if root.label == "module lazy_one"] == [1, 1]


def test_tenure_s_own_modules_are_cut() -> None:
    modules = heap.module_roots(lambda name, module: True)
    assert not [root for root in modules.roots if root.label.startswith("module tenure")]
    assert any(one is vars(heap) for one in modules.cut)


def test_the_user_s_path_is_in_the_user_s_words() -> None:
    """Reached also through a library's registry, a thing is told by the user's variable, however long its path."""
    thing = Thing()
    space = {"__name__": "trainer", "state": {"history": [[thing]]}}
    library = {"__name__": "library", "registry": [thing]}
    found = heap.walk(
        [heap.Root("module library", library, 1), heap.Root("module trainer", space, 0)],
        user_globals=frozenset([id(space)]),
        barriers=[space, library, globals()],
        select_types=[Thing],
        paths=True,
    ).found
    assert [(one.root, one.tier, len(one.path)) for one in found] == [("module trainer", 0, 4)]
