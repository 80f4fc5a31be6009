"""Finds the call that repeats on a thread's stack: the outermost user function called again from one line of a frame
that stays.

A frame that was seen carries a mark in `f_trace` (which Python reads only while a debugger traces): frame addresses are
reused from call to call, marks are not, so an unmarked frame under a marked one is a new call. The mark dies with its
frame.
"""

from __future__ import annotations

import os
import sys
import sysconfig
import types
import weakref
from dataclasses import dataclass
from typing import Any

from tenure.explain.counting import countable, is_trampoline
from tenure.observe.sources import absolute
from tenure.probes.kinds import is_a

__all__ = ["Candidate", "Stacks", "is_users", "module_name"]

LINE_AFTER, LINE_TURNS = 0.5, 8  # a loop's line is taken when no function has shown up beside it


@dataclass(frozen=True)
class Candidate:
    """A function seen called again from one line of a frame that stays, or (without a function) that line itself."""

    code: types.CodeType | None
    namespace: dict[str, Any]
    name: str
    calls: int
    depth: int
    main: bool
    parent: weakref.ref[_Mark]
    parent_code: types.CodeType
    line: int


class _Mark:
    """Sits in `f_trace` of one seen frame; counts the distinct calls seen from each place in it. Holds no frame."""

    __slots__ = ("__weakref__", "calls", "first")

    def __init__(self, now: float) -> None:
        self.calls: dict[tuple[int, int], int] = {}
        self.first = now

    def __call__(self, frame: types.FrameType, event: str, arg: object) -> None:
        """What a debugger that starts later finds as this frame's trace function: nothing happens."""


class Stacks:
    """Looks at the stacks again and again; keeps no frame. `own` are folders of the program's in site-packages.

    `refused` are functions that must not be found, `current` the one that is counted: `unseen` says how many new calls
    of it were met since that was set.
    """

    def __init__(self, own: tuple[str, ...] = ()) -> None:
        self.refused: set[types.CodeType] = set()
        self.current: types.CodeType | None = None
        self.unseen = 0
        self._own = own
        self._idle_looks = 0

    def look(self, main: int, me: int, now: float, calm: float) -> Candidate | None:
        """The outermost repeated call on the main thread's stack, or on another's where that only waits.

        `calm`: seconds since a cycle was found. Call it on a thread of our own, whose identifier is `me`.
        """
        frames = sys._current_frames()
        try:
            best, idle = self._outermost(frames.get(main), True, now, calm)
            self._idle_looks = self._idle_looks + 1 if idle else 0
            if best is None and self._idle_looks > 20:  # the main thread waits for others: the cycle is theirs
                for thread, frame in frames.items():
                    if thread not in (me, main):
                        best, _ = self._outermost(frame, False, now, calm)
                        if best is not None:
                            break
        finally:
            frames.clear()
        return best

    def _outermost(
        self, top: types.FrameType | None, main: bool, now: float, calm: float
    ) -> tuple[Candidate | None, bool]:
        """The outermost repeated call on one thread's stack, and whether the thread is in the standard library only."""
        if top is None:
            return None, False
        stack: list[types.FrameType] = []
        frame: types.FrameType | None = top
        while frame is not None:
            stack.append(frame)
            frame = frame.f_back
        stack.reverse()
        kinds = [_kind_of(f.f_code.co_filename, self._own) for f in stack]
        users = [i for i, f in enumerate(stack) if i and kinds[i] == _USER and not is_trampoline(f.f_code)]
        idle = kinds[-1] == _STANDARD and _FRAMEWORK not in kinds
        found: Candidate | None = None
        parent, parent_index = stack[0], 0
        self._mark(parent, now)
        for depth, index in enumerate(users):
            frame = stack[index]
            code = frame.f_code
            calls = self._count(parent, frame, now)
            fresh = self._fresh
            if (
                found is None
                and calls >= 2
                and countable(code)
                and code not in self.refused
                and _FRAMEWORK not in kinds[parent_index + 1 : index]  # a callback of Keras', a function being traced
                and sum(f.f_code is code for f in stack) == 1  # else it is a recursion, whose outermost call may be one
            ):
                found = self._make(frame, parent, calls, depth, main)
            if fresh and self.current is not None and code is self.current:
                self.unseen += 1
            parent, parent_index = frame, index
        if found is None and users and parent_index + 1 < len(stack):
            # the library frame below the user's innermost one tells the turns of a loop that calls no user function
            calls = self._count(parent, stack[parent_index + 1], now)
            if calls >= LINE_TURNS and calm > LINE_AFTER:
                found = self._make(None, parent, calls, len(users), main)
        return found, idle

    _fresh = False

    def _count(self, parent: types.FrameType, frame: types.FrameType, now: float) -> int:
        """The distinct calls of this code seen from this place of this parent frame. Sets `_fresh`: a new call."""
        mark, self._fresh = self._mark(frame, now)
        above, _ = self._mark(parent, now)
        if mark is None or above is None:
            return 0
        place = (parent.f_lasti, id(frame.f_code))
        calls = above.calls[place] = above.calls.get(place, 0) + self._fresh
        return calls

    @staticmethod
    def _mark(frame: types.FrameType, now: float) -> tuple[_Mark | None, bool]:
        mark = frame.f_trace
        if mark is None:
            made = _Mark(now)
            frame.f_trace = made
            return made, True
        return (mark, False) if is_a(mark, _Mark) else (None, False)  # a debugger's frame is left alone

    def _make(
        self, frame: types.FrameType | None, parent: types.FrameType, calls: int, depth: int, main: bool
    ) -> Candidate:
        mark = parent.f_trace
        assert isinstance(mark, _Mark)
        owner = frame or parent
        return Candidate(
            code=None if frame is None else frame.f_code,
            namespace=owner.f_globals,
            name=_name_of(owner),
            calls=calls,
            depth=depth,
            main=main,
            parent=weakref.ref(mark),
            parent_code=parent.f_code,
            line=parent.f_lineno,
        )


# --- whose file is it ----------------------------------------------------------------------------------------

_USER, _STANDARD, _FRAMEWORK, _LIBRARY = "user", "standard library", "framework", "library"
_HERE = os.path.dirname(os.path.dirname(os.path.abspath(__file__))) + os.sep
_STDLIB = tuple(
    {os.path.join(p, "") for n in ("stdlib", "platstdlib") if (p := sysconfig.get_paths().get(n))}
    | {os.path.join(os.path.dirname(os.path.abspath(os.__file__)), "")}
)
_kinds: dict[tuple[str, tuple[str, ...]], str] = {}


def _kind_of(file: str, own: tuple[str, ...]) -> str:
    key = (file, own)
    kind = _kinds.get(key)
    if kind is None:
        kind = _kinds[key] = _classify(file, own)
    return kind


def is_users(file: str, own: tuple[str, ...]) -> bool:
    """Whether the code of this file is the user's own."""
    return _kind_of(file, own) == _USER


def _classify(file: str, own: tuple[str, ...]) -> str:
    path = absolute(file) if not file.startswith("<") else file
    if path.startswith(_HERE):
        return _LIBRARY
    if os.path.basename(path).startswith("__autograph_generated_file"):
        return _FRAMEWORK
    if any(path.startswith(folder) for folder in own):
        return _USER
    if file.startswith("<"):
        return _STANDARD
    parts = path.split(os.sep)
    if "site-packages" in parts or "dist-packages" in parts:
        folders = {"tensorflow", "keras", "tf_keras", "tensorflow_probability", "tensorflow_datasets"}
        return _FRAMEWORK if folders.intersection(parts) else _LIBRARY
    return _STANDARD if path.startswith(_STDLIB) else _USER


def _name_of(frame: types.FrameType) -> str:
    """`case.cycle`: the module by its file stem where it is the program's own, and the function."""
    code = frame.f_code
    function = str(getattr(code, "co_qualname", code.co_name))  # 3.10 has no qualified names
    function = function.replace("<locals>.", "")
    module = module_name(frame.f_globals)
    return module if function == "<module>" else f"{module}.{function}"


def module_name(namespace: dict[str, Any]) -> str:
    """The module of these globals as a report names it: a script by its file stem."""
    name = str(namespace.get("__name__", "?"))
    if name != "__main__":
        return name
    spec = namespace.get("__spec__")
    if spec is not None and getattr(spec, "name", None):
        return str(spec.name).removesuffix(".__main__")
    return os.path.splitext(os.path.basename(str(namespace.get("__file__", name))))[0]
