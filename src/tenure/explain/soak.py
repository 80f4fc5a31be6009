"""Calls one function many times and says whether it leaks: the stress test before a release.

`soak(function)` is the API behind `tenure soak`. The target is called with its index if it takes an argument; it may be
async. Work that should not count goes into `setup` and `teardown`.
"""

from __future__ import annotations

import asyncio
import contextlib
import contextvars
import gc
import inspect
import itertools
import os
import statistics
import sys
import traceback
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from functools import partial
from pathlib import Path
from time import monotonic
from typing import Any, NoReturn

from tenure.explain import populations
from tenure.explain.autopsy import Autopsy
from tenure.explain.diagnosis import Verdict
from tenure.explain.growth import sparse_trend, trend
from tenure.explain.schedule import FixedPlan, plan
from tenure.explain.watching import MIN_GROWTH, Watching
from tenure.observe.births import Births
from tenure.observe.memory import collector_off, waterfall
from tenure.observe.snapshot import Look, Snapshot, rooted
from tenure.probes import process, read
from tenure.records import Report, Sample, units

__all__ = ["SoakWatching", "TargetFailed", "least_cycles", "soak", "users_traceback"]


_CYCLES = 60
# What becomes of things that are held open: they cost little memory, but their number has an end.
_END = {
    "exit handlers": "each keeps its function and arguments until the end (atexit.unregister)",
    "mapped files": "each stays mapped while an array or mmap object lives (np.memmap, mmap.mmap)",
    **dict.fromkeys(
        ("open descriptors", "open files", "open pipes", "open sockets"),
        "what opens them must close them, before the limit of the process is reached (ulimit -n)",
    ),
}


def least_cycles(warmup: int | None = None) -> int:
    """How many cycles give the three windows that a verdict needs: 10, and more with a longer warm-up."""
    return next(cycles for cycles in itertools.count((warmup or 0) + 1) if _decides(plan(cycles, warmup)))


def _decides(plan: FixedPlan) -> bool:
    """Whether three windows lie between its marks; nothing is read at a mark before the first tick."""
    return sum(mark > 0 for mark in plan.marks) > 3


def _cycles_for(spacing: float, cycles: int, warmup: int | None) -> int:
    """How many cycles, in tens and more than there were, make a third of the windows twice as long as what lies between
    two rises."""
    longer = (plan(more, warmup) for more in itertools.count(cycles // 10 * 10 + 10, 10))
    return next(p.cycles for p in longer if len(p.marks) > 6 and p.marks[-1] - p.marks[0] >= 6 * spacing)


class SoakWatching(Watching):
    """Watches a target that is called a known number of times: garbage is collected before each reading (unless the
    program has switched its collector off), and the tail of the cycles goes to the autopsy."""

    def __init__(
        self,
        program: Sequence[str],
        plan: FixedPlan,
        record: Path | None,
        min_growth: float,
        births: Births | None,
        warmup: int | None = None,
        stored: Callable[[Report], Report] | None = None,
    ) -> None:
        super().__init__(program, record, min_growth, births, stored)
        self.follow(plan)
        self._asked_warmup = warmup
        self._suspected = False
        self._seldom: float | None = None
        self._opened: dict[int, dict[str, int]] = {}
        self._autopsy: Autopsy | None = None
        self._tail: Sample | None = None
        self._frozen: int | None = None
        self._thawed_from: int | None = None
        self._differential = True

    def follow(self, plan: FixedPlan) -> None:
        """The plan to follow, before the first tick: how many cycles fit a time is known late."""
        self._plan = plan

    def _warmup(self) -> int:
        return self._plan.warmup

    def _used(self) -> list[Snapshot]:
        return [s for tick, s in sorted(self._snapshots.items()) if self._plan.warmup <= tick <= self._plan.marks[-1]]

    def _at_end(self) -> None:
        ticks = [s.tick for s in self._used() if self._opened.get(s.tick)]
        for kind in sorted({kind for tick in ticks for kind in self._opened[tick]}) if len(ticks) > 3 else ():
            series = [float(self._opened[tick].get(kind, 0)) for tick in ticks]
            told, sparse = trend(ticks, series), sparse_trend(ticks, series)
            if told.steady or sparse.steady:
                self._notes.append(f"{kind} grow by {round(told.rate, 2):g} a {self._unit}: {_END[kind]}")

    def _verdict(self) -> Verdict:
        verdict = super()._verdict()
        if verdict.verdict == "flat" and self._count < self._plan.explained and _decides(self._plan):
            # What grew is looked for after the last window, and that never came.
            why = f"it ended after {self._count} of {self._plan.cycles} cycles; all of them would decide"
            return replace(verdict, verdict="inconclusive", why=why)
        if verdict.verdict == "flat" and self._seldom is not None:
            more = _cycles_for(self._seldom, self._plan.cycles, self._asked_warmup)
            why = f"something came about every {self._seldom:.0f} ticks, too seldom to tell; {more} cycles would decide"
            return replace(verdict, verdict="inconclusive", why=why)
        if verdict.verdict != "inconclusive" or len(self._used()) >= 4 or self._lost_readings:
            return verdict
        if _decides(self._plan):
            why = f"it ended after {self._count} of {self._plan.cycles} cycles; all of them would decide"
        else:
            least = least_cycles(self._asked_warmup)
            few = f"{units(self._unit, self._count)} {'is' if self._count == 1 else 'are'} too few"
            why = f"{few} to tell growth from warm-up; at least {least} would decide"
        return replace(verdict, why=why)

    def _at_tick(self, tick: int, now: float) -> None:
        plan = self._plan
        if tick == plan.warmup:
            self._mark()
        looked = self._read(tick) if tick in plan.marks else None
        if looked is not None and tick == plan.marks[-1]:
            self._witnesses.take_made(self._births, tick - plan.warmup)
            tops = populations.growing(self._used(), looked.tree)
            self._seldom = populations.seldom(self._used(), looked.tree, self._min_growth)
            self._suspected = any(top.trend.rate >= self._min_growth / 4 for top in tops) or self._other_growth()
            if self._suspected:
                self._begin_explaining(tick - plan.warmup)
        if not self._suspected:
            return
        if tick == plan.marks[-1] + 1:
            self._mark()  # what this tick's ops were is known now; what is new from here on is new each tick
        if tick == plan.explained:
            self._explain(tick)
            self._mark()
            self._tail = self._counters.sample(tick)  # before a release: the kernels that it takes are built again
            self._autopsy = Autopsy(self._cut())
            self._autopsy.release("warm-up")
        elif tick == plan.first_release and self._autopsy is not None:
            self._autopsy.release("one")
        elif tick == plan.first_release + 1 and tick < plan.cycles:
            self._begin_lines()  # the kernels that the release took are there again
        elif tick == plan.cycles and self._autopsy is not None:
            self._end_lines()
            self._drop_what_stopped(tick)
            self._autopsy.release("rest")
            self._autopsied = self._autopsy.given_back(plan.cycles - plan.first_release)

    def _drop_what_stopped(self, tick: int) -> None:
        """One more look at the end of the tail: what grew in the windows may have come to rest since."""
        if not self._populations or self._plan.explained not in self._snapshots:
            return
        if not collector_off():
            gc.collect()
        with self._thawed(tick):
            now = self._look(tick).snapshot
        before = self._snapshots[self._plan.explained]
        made: Counter[str] = Counter()
        for one in self._births.made(since_mark=True):
            made[one.kind] += one.count
        self._populations, ended = populations.stopped(self._populations, before, now, made)
        self._note_stopped(ended)
        native, tail, at_end = self._native(), self._tail, self._counters.sample(tick).native
        if ended and native is not None and at_end is not None and tail is not None and tail.native is not None:
            grown = (at_end - tail.native) / max(tick - tail.tick, 1)
            self._native_stopped = grown < 0.3 * native.bytes_per_tick

    def _read(self, tick: int) -> Look:
        if not collector_off():
            gc.collect()
        with self._thawed(tick):
            looked = self._look(tick)
        self._witnesses.note_graph(tick)
        self._snapshots[tick] = looked.snapshot
        # Read after the walk, so that what the first one leaves (its base) is not the program's growth.
        self._marks[tick] = self._sample(tick)
        self._opened[tick] = read(process.opened, "open files")[0] or {}
        if not self._waterfall_start:
            self._waterfall_tick = tick
            self._waterfall_start = waterfall(
                self._marks[tick], looked.snapshot.tensor_bytes, looked.snapshot.python_bytes
            )
        return looked

    @contextlib.contextmanager
    def _thawed(self, tick: int) -> Iterator[None]:
        """Where the target freezes the heap again and again, what is frozen is looked at too: garbage may be in it."""
        before, self._frozen = self._frozen, gc.get_freeze_count()
        if before is None or self._frozen <= before:
            yield
            return
        if self._thawed_from is None:
            self._thawed_from = tick
        gc.unfreeze()
        try:
            yield
        finally:
            gc.freeze()

    def _explain(self, tick: int) -> None:
        """Names what grows while its newest objects still know their lines."""
        used, looked = self._used(), self._read(tick)
        births = self._births
        # What grew in the windows; this tick's counts are in the tree, but the watched ops' own weight is not growth.
        tops = populations.growing(used, looked.tree)
        self._populations = populations.describe(tops, used, looked, self._site_of, self._cut(), self._witnesses.lines)
        off = collector_off() or gc.get_freeze_count() > 0
        waiting = [s for s in used if s.tick >= (self._thawed_from or 0)]
        if off and len(waiting) > 3:
            self._garbage = populations.garbage(waiting, looked.found, self._site_of)
        watched = max(tick - self._plan.marks[-1] - 1, 1)
        self._guard(lambda: self._witnesses.gather(births, watched, tick, self._cut()), "tapes, datasets and graphs")
        births.explain_ops(False)
        self._store_report()


class TargetFailed(Exception):
    """The target (or its setup or teardown: `part`) raised at cycle `tick` (from 0), or asked to exit.

    `report` is what was known by then, `__cause__` the exception.
    """

    def __init__(self, tick: int, report: Report, part: str = "the target") -> None:
        super().__init__(f"{part} raised at cycle {tick}")
        self.tick = tick
        self.report = report
        self.part = part


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
    stored: Callable[[Report], Report] | None = None,
) -> Report:
    """The report on `function` called `cycles` times (default 60), or for `seconds`.

    With `seconds` the number of cycles is set by timing the first few. `on_tick(done, planned)` is for progress.
    `births`, when it was started before the target was imported, also knows the lines of what the import made.
    `stored` gives the form of the report that goes into the recording (without values of arguments, say). Raises
    TargetFailed, with the report so far, when the target, the setup or the teardown raises or asks to exit; ValueError
    for fewer than 1 cycle; TypeError for what can't be called or counted; RuntimeError for an async target inside a
    running event loop. Ctrl-C ends the soak early. A child that the target forks ends when it leaves the target.
    """
    if not callable(function):
        raise TypeError(f"soak calls a function again and again; {function!r:.60} can't be called")
    if cycles is not None and not isinstance(cycles, int):
        raise TypeError(f"cycles is {cycles!r:.60}; give a whole number")
    if inspect.iscoroutinefunction(function) and asyncio._get_running_loop() is not None:
        raise RuntimeError("the target is async and an event loop runs here already; call soak in a thread of its own")
    if cycles is not None and cycles < 1:
        raise ValueError(f"cycles is {cycles}; at least 1 is needed, and {least_cycles()} or more to tell growth")
    name = getattr(function, "__qualname__", type(function).__name__)
    watching = SoakWatching(
        program or (name,), plan(cycles or _CYCLES, warmup), record, min_growth, births, warmup, stored
    )
    watching.start()
    watching.set_ticks("tick", name)
    try:
        part, failure, index = "the setup", None if setup is None else _failure(partial(_run, setup)), 0
        if failure is None:
            with _Caller(function) as call, rooted(function, call.context), contextlib.suppress(KeyboardInterrupt):
                part = "the target"
                if cycles is None and seconds is not None:
                    spent: list[float] = []
                    while failure is None and index < 3 and sum(spent) < seconds:
                        began = monotonic()
                        failure = _failure(partial(call, index))
                        spent.append(monotonic() - began)
                        index += failure is None
                    # The median: the first call traces and may take a thousand times as long as those that follow.
                    per_cycle = max(statistics.median(spent), 1e-4)
                    cycles = max(int((seconds - sum(spent)) / per_cycle), 1)
                    watching.follow(plan(cycles, warmup))
                for done in range(1, (cycles or _CYCLES) + 1):
                    failure = failure or _failure(partial(call, index))
                    if failure is not None:
                        break
                    index += 1
                    watching.tick()
                    if on_tick is not None:
                        on_tick(done, cycles or _CYCLES)
            if teardown is not None:
                with contextlib.suppress(KeyboardInterrupt):
                    after = _failure(partial(_run, teardown))
                    if failure is None and after is not None:
                        part, failure = "the teardown", after
    except BaseException:  # Ctrl-C in the setup, or what `on_tick` raised: the hooks come off all the same
        watching.finish(1)
        raise
    report = watching.finish(0 if failure is None else _status(failure))
    if failure is not None:
        if report.verdict == "inconclusive":
            why = f"{part} raised at cycle {index} of {cycles or _CYCLES}, before there was enough for a verdict"
            report = replace(report, why=why)
        raise TargetFailed(index, report, part) from failure
    return report


def _failure(action: Callable[[], None]) -> BaseException | None:
    """What the action raised, whatever it is; Ctrl-C passes. A child that the action forked ends here."""
    pid = os.getpid()
    try:
        action()
    except BaseException as error:
        if os.getpid() != pid:
            _end_child(error)
        if isinstance(error, KeyboardInterrupt):
            raise
        return error
    if os.getpid() != pid:
        _end_child(None)
    return None


def _end_child(failure: BaseException | None) -> NoReturn:
    """Ends a process that the program forked as if it ended there: the soak, its report and its files are the parent's.

    Not by `sys.exit`, which would run what the parent has registered for its own end.
    """
    if failure is not None and not (isinstance(failure, SystemExit) and not isinstance(failure.code, str)):
        sys.stderr.write(f"{failure}\n" if isinstance(failure, SystemExit) else users_traceback(failure))
    with contextlib.suppress(OSError, ValueError):
        sys.stdout.flush()
        sys.stderr.flush()
    os._exit(0 if failure is None else _status(failure) & 0xFF)


def users_traceback(error: BaseException) -> str:
    """The traceback from the first frame that is not tenure's or the import system's own."""
    frames = error.__traceback__
    own = str(Path(__file__).resolve().parents[1]) + os.sep
    while frames is not None and (frames.tb_frame.f_code.co_filename.startswith((own, "<frozen importlib"))):
        frames = frames.tb_next
    return "".join(traceback.format_exception(type(error), error, frames))


def _status(failure: BaseException) -> int:
    if not isinstance(failure, SystemExit):
        return 1
    return failure.code if isinstance(failure.code, int) else 0 if failure.code is None else 1


class _Caller:
    """One call for all forms: with or without the index, plain or async. What the target returns is dropped at once."""

    def __init__(self, function: Callable[..., Any]) -> None:
        self._function = function
        self._takes_index = _takes_index(function)
        # One event loop for all calls where Python has it (3.11): a loop a call would be the soak's own cost.
        runner: Any = getattr(asyncio, "Runner", None)
        self._runner = runner() if runner is not None and inspect.iscoroutinefunction(function) else None
        self.context = contextvars.copy_context()  # of all calls that run in the loop

    def __enter__(self) -> _Caller:
        return self

    def __exit__(self, *exc: object) -> None:
        if self._runner is not None:
            self._runner.close()

    def __call__(self, index: int) -> None:
        result = self._function(index) if self._takes_index else self._function()
        if inspect.iscoroutine(result):
            if self._runner is not None:
                self._runner.run(result, context=self.context)
            else:
                asyncio.run(result)


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
