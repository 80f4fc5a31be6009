"""Calls one function many times and says whether it leaks: the stress test before a release.

`soak(function)` is the API behind `tenure soak`. The target is called with its index if it takes an argument; it may be
async. Work that should not count goes into `setup` and `teardown`.
"""

from __future__ import annotations

import asyncio
import gc
import inspect
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

from tenure.explain import populations
from tenure.explain.autopsy import Autopsy
from tenure.explain.growth import least_cycles
from tenure.explain.schedule import FixedPlan, plan
from tenure.explain.watching import MIN_GROWTH, Watching
from tenure.observe.births import Births
from tenure.observe.memory import waterfall
from tenure.observe.snapshot import Look, Snapshot
from tenure.records import Report

__all__ = ["SoakWatching", "TargetFailed", "soak"]


class SoakWatching(Watching):
    """Watches a target that is called a known number of times: garbage is collected before each reading (unless the
    program has switched its collector off), and the tail of the cycles goes to the autopsy."""

    def __init__(
        self, program: Sequence[str], plan: FixedPlan, record: Path | None, min_growth: float, births: Births | None
    ) -> None:
        super().__init__(program, record, min_growth, births)
        self._plan = plan
        self._suspected = False
        self._autopsy: Autopsy | None = None
        self._differential = True

    def _warmup(self) -> int:
        return self._plan.warmup

    def _used(self) -> list[Snapshot]:
        return [s for tick, s in sorted(self._snapshots.items()) if self._plan.warmup <= tick <= self._plan.marks[-1]]

    def _at_tick(self, tick: int, now: float) -> None:
        plan = self._plan
        if tick == plan.warmup:
            self._births.mark()
        looked = self._read(tick) if tick in plan.marks else None
        if looked is not None and tick == plan.marks[-1]:
            tops = populations.growing(self._used(), looked.tree)
            self._suspected = any(top.trend.rate >= self._min_growth / 4 for top in tops) or self._other_growth()
            if self._suspected:
                self._begin_explaining(tick - plan.warmup)
        if not self._suspected:
            return
        if tick == plan.marks[-1] + 1:
            self._births.mark()  # what this tick's ops were is known now; what is new from here on is new each tick
        if tick == plan.explained:
            self._explain(tick)
            self._autopsy = Autopsy(self._cut())
            self._autopsy.release("warm-up")
        elif tick == plan.first_release and self._autopsy is not None:
            self._autopsy.release("one")
        elif tick == plan.cycles and self._autopsy is not None:
            self._autopsy.release("rest")
            self._autopsied = self._autopsy.given_back(plan.cycles - plan.first_release)

    def _read(self, tick: int) -> Look:
        if gc.isenabled():
            gc.collect()
        looked = self._look(tick)
        self._witnesses.note_graph(tick)
        self._snapshots[tick] = looked.snapshot
        # Read after the walk, so that what the first one leaves (its base) is not the program's growth.
        self._marks[tick] = self._sample(tick)
        if not self._waterfall_start:
            self._waterfall_start = waterfall(
                self._marks[tick], looked.snapshot.tensor_bytes, looked.snapshot.python_bytes
            )
        return looked

    def _explain(self, tick: int) -> None:
        """Names what grows while its newest objects still know their lines."""
        used, looked = self._used(), self._read(tick)
        births = self._births
        # What grew in the windows; this tick's counts are in the tree, but the watched ops' own weight is not growth.
        tops = populations.growing(used, looked.tree)
        self._populations = populations.describe(tops, used, looked, births.site_of, self._cut())
        off = not gc.isenabled() or gc.get_freeze_count() > 0
        self._garbage = populations.garbage(used, looked.found, births.site_of) if off else None
        self._witnesses.gather(births, max(tick - self._plan.marks[-1] - 1, 1), tick, self._cut())
        births.explain_ops(False)
        self._store_report()


class TargetFailed(Exception):
    """The target raised at cycle `tick` (from 0). `report` is what was known by then, `__cause__` its exception."""

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
    births: Births | None = None,
) -> Report:
    """The report on `function` called `cycles` times (default 60), or for `seconds`.

    With `seconds` the number of cycles is set by timing the first few. `on_tick(done, planned)` is for progress.
    `births`, when it was started before the target was imported, also knows the lines of what the import made. Raises
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
    watching = SoakWatching(program or (name,), plan(cycles, warmup), record, min_growth, births)
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


def _call(call: Callable[[int], None], index: int, watching: SoakWatching | None) -> None:
    try:
        call(index)
    except Exception as error:
        report = (watching or SoakWatching(("soak",), plan(1), None, MIN_GROWTH, None)).finish(1)
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
