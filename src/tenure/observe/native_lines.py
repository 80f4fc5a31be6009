"""Which line of the user's makes native memory grow: malloc and pool in use, read at each line for some turns.

Only while growth that no Python object accounts for is being explained: reading takes 10 us (`mallinfo2` visits every
free block). A line that makes a tensor grows as well, and another shrinks when it dies; what tells them from a leak is
the sum, which is the leak's alone. Works by `sys.settrace` on the calling thread, the only way that Python 3.10
and 3.11 have; a program under a debugger or a coverage tool keeps its own.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Callable
from time import perf_counter
from types import CodeType, FrameType
from typing import Any

from tenure.observe import sources
from tenure.probes import ProbeError
from tenure.records import Birth, GrowingLine

__all__ = ["NativeLines"]

_MOST_SECONDS = 2.0  # spent with reading in all; a tick of 100,000 lines gets there in its first half
_MOST_LINES = 4096  # told apart; generated code must not grow without end

_Place = tuple[CodeType, int]


class NativeLines:
    """Watches the calling thread's lines from `start()` to `stop()`; `turn()` ends one turn of the program's cycle.

    `native` gives the live native bytes now. Holds code objects while it is on, and no frame.
    """

    def __init__(self, native: Callable[[], int | None]) -> None:
        self._native = native
        self._pid = os.getpid()
        self._on = False
        self._last: int | None = None
        self._at: _Place | None = None
        self._callers: list[_Place | None] = []
        self._turn: dict[_Place | None, int] = {}
        self._grown: dict[_Place | None, int] = {}
        self._turns = 0
        self._spent = 0.0
        self.gave_up: str | None = None

    @property
    def on(self) -> bool:
        return self._on

    def start(self) -> None:
        """Begins. Raises ProbeError where the program has a trace function of its own, or the bytes can't be read."""
        if sys.gettrace() is not None:
            raise ProbeError("the program has a trace function of its own (a debugger, a coverage tool)")
        self._last = self._native()
        if self._last is None:
            raise ProbeError("malloc tells no bytes in use")
        self._on = True
        self._trace_callers(sys._getframe(1), self._line)
        sys.settrace(self._enter)

    def turn(self) -> None:
        """A turn has ended. What happens until `go_on()` is nobody's."""
        self._credit()
        if not self._on:
            return
        for place, grown in self._turn.items():
            if place in self._grown or len(self._grown) < _MOST_LINES:
                self._grown[place] = self._grown.get(place, 0) + grown
        self._turn.clear()
        self._turns += 1
        self._last = None

    def go_on(self) -> None:
        """The next turn begins."""
        if self._on:
            self._last = self._native()

    def stop(self) -> tuple[GrowingLine, ...]:
        """Ends the watching; what each line grew by in a turn, and all else together as one without a place."""
        if self._on:
            self._on = False
            if sys.gettrace() == self._enter:
                sys.settrace(None)
            self._trace_callers(sys._getframe(1), None)
        grown: dict[Birth | None, int] = {}
        for place, size in self._grown.items():  # one line may have several codes: a counter swaps them
            birth = None if place is None else _birth(place)
            grown[birth] = grown.get(birth, 0) + size
        self._at, self._callers = None, []
        self._grown.clear()
        lines = [GrowingLine(birth, size / self._turns) for birth, size in grown.items()]
        return tuple(sorted(lines, key=lambda line: -line.bytes_per_tick))

    def _trace_callers(self, frame: FrameType | None, tracer: Any) -> None:
        while frame is not None:
            if sources.user_frame(frame) and (frame.f_trace is None or frame.f_trace == self._line):
                frame.f_trace = tracer
            frame = frame.f_back

    # What is below runs at every call and every line of the user's: it must be short and must not raise.

    def _enter(self, frame: FrameType, event: str, arg: object) -> Any:
        if not self._on or not sources.user_file(frame.f_code.co_filename):
            return None
        self._credit()
        if len(self._callers) < 1000:
            self._callers.append(self._at)
        self._at = (frame.f_code, frame.f_lineno)
        return self._line

    def _line(self, frame: FrameType, event: str, arg: object) -> Any:
        if self._on:
            self._credit()
            if event == "line":
                self._at = (frame.f_code, frame.f_lineno)
            elif event == "return":
                self._at = self._callers.pop() if self._callers else None
        return self._line

    def _credit(self) -> None:
        if self._last is None or not self._on:
            return
        began = perf_counter()
        now = self._native()
        if now is not None and now != self._last:
            self._turn[self._at] = self._turn.get(self._at, 0) + now - self._last
            self._last = now
        self._spent += perf_counter() - began
        if self._spent > _MOST_SECONDS or os.getpid() != self._pid:
            self.gave_up = f"a turn has so many lines that reading malloc at each took {self._spent:.1f} s"
            self._on = False
            self._turn.clear()
            sys.settrace(None)


def _birth(place: _Place) -> Birth:
    code, line = place
    return Birth(sources.source_path(code.co_filename), line, code.co_name, sources.line_text(code.co_filename, line))
