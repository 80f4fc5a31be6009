"""Calls one function many times and says whether it leaks: the stress test before a release.

`soak(function)` is the API behind `tenure soak`. The target is called with its index if it takes an argument; it may be
async. Work that should not count goes into `setup` and `teardown`.
"""

from __future__ import annotations

import asyncio
import inspect
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

from tenure.explain.growth import least_cycles
from tenure.explain.schedule import plan
from tenure.explain.watching import MIN_GROWTH, Watching
from tenure.records import Report

__all__ = ["TargetFailed", "soak"]


class TargetFailed(Exception):
    """The target raised at a tick. `tick` counts from 0, `report` is what was known by then, `__cause__` its exception."""

    def __init__(self, tick: int, report: Report) -> None:
        super().__init__(f"the target raised at cycle {tick}")
        self.tick = tick
        self.report = report


def soak(
    function: Callable[..., Any],
    cycles: int | None = None,
    *,
    seconds: float | None = None,
    warmup: int | None = None,
    setup: Callable[[], Any] | None = None,
    teardown: Callable[[], Any] | None = None,
    program: tuple[str, ...] = (),
    record: Path | None = None,
    min_growth: float = MIN_GROWTH,
    on_tick: Callable[[int, int], None] | None = None,
) -> Report:
    """The report on `function` called `cycles` times (default 60), or for `seconds`.

    With `seconds` the number of cycles is set by timing the first few. `on_tick(done, planned)` is for progress. Raises
    TargetFailed, with the report so far, when the target raises; ValueError for fewer than 1 cycle.
    """
    if cycles is not None and cycles < 1:
        raise ValueError(f"cycles is {cycles}; at least 1 is needed, and {least_cycles} or more to tell growth")
    name = getattr(function, "__qualname__", type(function).__name__)
    call = _caller(function)
    if setup is not None:
        _run(setup)
    began = time.monotonic()
    timed = 0
    if cycles is None and seconds is not None:
        while timed < 3 and time.monotonic() - began < seconds:
            _call(call, timed, None)
            timed += 1
        per_cycle = max((time.monotonic() - began) / max(timed, 1), 1e-4)
        cycles = max(int((seconds - (time.monotonic() - began)) / per_cycle), 1)
    cycles = 60 if cycles is None else cycles
    watching = Watching(program or (name,), record, plan=plan(cycles, warmup), min_growth=min_growth)
    watching.start()
    watching.set_ticks("tick", name)
    try:
        for index in range(cycles):
            _call(call, timed + index, watching)
            watching.tick()
            if on_tick is not None:
                on_tick(index + 1, cycles)
    except KeyboardInterrupt:
        pass  # the report so far is what was asked for
    finally:
        if teardown is not None:
            _run(teardown)
    return watching.finish(0)


def _call(call: Callable[[int], None], index: int, watching: Watching | None) -> None:
    try:
        call(index)
    except Exception as error:
        report = (watching or Watching(("soak",))).finish(1)
        raise TargetFailed(index, report) from error


def _caller(function: Callable[..., Any]) -> Callable[[int], None]:
    """One call for all forms: with or without the index, plain or async. What the target returns is dropped at once."""
    takes_index = _takes_index(function)
    runner = asyncio.Runner() if inspect.iscoroutinefunction(function) and hasattr(asyncio, "Runner") else None

    def call(index: int) -> None:
        result = function(index) if takes_index else function()
        if inspect.iscoroutine(result):
            if runner is not None:
                runner.run(result)
            else:
                asyncio.run(result)

    return call


def _takes_index(function: Callable[..., Any]) -> bool:
    try:
        parameters = inspect.signature(function).parameters.values()
    except (TypeError, ValueError):  # some built-in callables tell no signature
        return False
    positional = (inspect.Parameter.POSITIONAL_ONLY, inspect.Parameter.POSITIONAL_OR_KEYWORD)
    required = [p for p in parameters if p.kind in positional and p.default is inspect.Parameter.empty]
    return bool(required) or any(p.kind is inspect.Parameter.VAR_POSITIONAL for p in parameters)


def _run(function: Callable[[], Any]) -> None:
    result = function()
    if inspect.iscoroutine(result):
        asyncio.run(result)
