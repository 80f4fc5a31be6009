"""Watching a run whose length nobody knows: the heap is read in forked copies, at ticks ever further apart.

The program pays for the forks alone. What grows is explained once it has grown in several windows, and again when
something new does; what stopped growing since is not reported.
"""

from __future__ import annotations

import gc
import sys
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from time import monotonic, perf_counter
from typing import Any

from tenure.explain import children, populations
from tenure.explain.aside import Aside, Withdrawn
from tenure.explain.autopsy import Autopsy
from tenure.explain.diagnosis import Verdict
from tenure.explain.evidence import Garbage, Native, Population
from tenure.explain.matchers import NATIVE_FLOOR, least_kept
from tenure.explain.schedule import OpenPlan
from tenure.explain.ticks import UNTOLD_SECONDS
from tenure.explain.watching import MIN_GROWTH, Watching
from tenure.observe import retention
from tenure.observe.births import Births
from tenure.observe.memory import collector_off, waterfall
from tenure.observe.snapshot import Snapshot, tensorflow_loaded, use_frames
from tenure.probes import ProbeError, heap
from tenure.probes.apart import numpy as np
from tenure.records import Missing, Report, Sample, a_unit

__all__ = ["RunWatching"]

_MOST_EXPLAINED = 4
_TOLD_EACH = 50  # ticks that are told one by one at first
_LAST_WAIT = 30.0  # seconds to wait for a reading that is under way when the program ends
_WARMED, _ENOUGH = 30, 6  # snapshots from that tick on, however long the run gets to be, that make a verdict
_CLEAN = 4  # marks right after a collection that give a verdict of their own
_COLLECTING = 3.0  # seconds that a program may spend in collections of ours, beside 2 % of its time
_PATIENCE = 15.0  # seconds that a program may wait for readings in all, beside 2 % of its time


_LINE_TICKS = 6  # of which the last five tell which line makes native memory grow: what one line adds varies

_SECONDS = (
    "no call of the program's own repeats, so its ticks are seconds; "
    "tenure.tick() in its loop, once a turn, lets a shorter run decide"
)


@dataclass(frozen=True)
class _Reading:
    """A forked copy's answer: the snapshot without its base, and the topmost groups that grew, by key and rate."""

    snapshot: Snapshot
    tops: tuple[tuple[int, float], ...]
    explained: _Explained | None = None
    missing: tuple[Missing, ...] = ()


@dataclass(frozen=True)
class _Explained:
    populations: tuple[Population, ...]
    garbage: Garbage | None
    told: dict[str, Any]


class RunWatching(Watching):
    """Watches a program of unknown length."""

    def __init__(
        self,
        program: Sequence[str],
        record: Path | None = None,
        stored: Callable[[Report], Report] | None = None,
        min_growth: float = MIN_GROWTH,
        births: Births | None = None,
    ) -> None:
        super().__init__(program, record, min_growth, births, stored)
        self._open = OpenPlan()
        self._pending: tuple[int, Aside[_Reading] | _Reading] | None = None
        self._pause = 0.05
        self._waited = 0.0
        self._own_tick = 0.0
        self._left_at: float | None = None
        self._began = monotonic()
        self._tops: dict[int, float] = {}
        self._known: set[int] = set()
        self._gone: dict[int, float] = {}
        self._explain_from: int | None = None
        self._explain_ticks = 2
        self._explained_at: list[int] = []
        self._made_since: int | None = None
        self._collected: list[int] = []
        self._collecting = 0.0
        self._collected_at_end: int | None = None

    def start(self) -> None:
        """As every watching; from here on the program does not see the copies of itself among its children."""
        super().start()
        children.hide()

    def finish(self, exit_status: int | None) -> Report:
        """The report so far; ends the watching. Never raises for a probe's sake."""
        try:
            return super().finish(exit_status)
        finally:
            children.show()

    def _restart(self) -> None:
        super()._restart()
        self._open = OpenPlan()
        self._pending = None
        self._tops, self._gone, self._known = {}, {}, set()
        self._explain_from, self._explained_at, self._made_since = None, [], None
        self._collected, self._collected_at_end = [], None

    def _warmup(self) -> int:
        return max(2, min(self._count // 7, _WARMED))

    def _used(self) -> list[Snapshot]:
        warmed = [tick for tick in sorted(self._snapshots) if tick >= self._warmup()]
        return [self._snapshots[tick] for tick in warmed[-6:]]

    # ------------------------------------------------------------------------------------------ at a tick

    def _at_tick(self, tick: int, now: float) -> None:
        if self._left_at is not None:
            own = (now - self._left_at) / self._turns
            # One tick that waited for a core or for copied pages does not make a program slow.
            self._own_tick = own if tick <= 3 else min(own, 1.5 * self._own_tick + 1e-4)
        try:
            self._read_when_due(tick, now)
        finally:
            self._left_at = monotonic()

    def _read_when_due(self, tick: int, now: float) -> None:
        self._take_answer(0.0)
        if tick >= 2 and self._made_since is None:
            self._made_since = tick
            self._mark()
        if self._explain_from is not None:
            if tick == self._explain_from + 1:
                self._begin_lines()
                if self._native_lines is not None and self._own_tick < 1.0:
                    self._explain_ticks = max(self._explain_ticks, _LINE_TICKS)
                self._mark()  # this tick's ops are known now; what is new from here on is new each tick
            elif tick >= self._explain_from + self._explain_ticks:
                self._wait()
                self._end_lines()  # before the copy is made: it would be traced too
                self._read(tick, explain=True)
                self._wait()  # its verdict goes into the recording at once, in case the program is killed
                return
        if self._open.due(tick, self._own_tick):
            if self._pending is not None and self._waited < self._patience() and self._too_few():
                self._wait()
            if self._pending is None and self._explain_from is None:
                self._read(tick)

    def _may_pass(self) -> int:
        if self._count < _TOLD_EACH or self._explain_from is not None or not self._own_tick:
            return 1
        return max(1, min(self._open.next_tick - self._count, int(UNTOLD_SECONDS / self._own_tick)))

    def _put_off(self) -> None:
        """The next reading comes as late after one that failed as after one that succeeded: not at each tick."""
        self._open.next_tick = self._count + max(1, self._count // 2)

    def _wait(self) -> None:
        began = monotonic()
        # One copy that hangs may take what is left of the patience, and no more.
        self._take_answer(min(_LAST_WAIT, max(self._patience() - self._waited, 0.1)))
        self._waited += monotonic() - began

    def _too_few(self) -> bool:
        """Whether the program should wait for an answer: a short one would be over before there is enough for a
        verdict. Each answer takes 0.2 to 0.5 s, so one of a million fast ticks waits no longer than that."""
        return sum(tick >= _WARMED for tick in self._snapshots) < _ENOUGH

    def _patience(self) -> float:
        return _PATIENCE + 0.02 * (monotonic() - self._began)

    def _read(self, tick: int, explain: bool = False) -> None:
        """Starts a reading in a forked copy, or reads here where there is no fork (macOS, Windows)."""
        for dropped in self._open.taken(tick, self._own_tick):
            self._snapshots.pop(dropped, None)
            self._marks.pop(dropped, None)
        self._witnesses.note_graph(tick)
        self._marks[tick] = self._sample(tick)
        if self._may_be_garbage(tick):
            began = monotonic()
            gc.collect()
            self._collecting += monotonic() - began
            self._collected.append(tick)
            self._marks[tick] = self._sample(tick)
        # Asked here: a copy switches its own collector off.
        collector_comes = not (collector_off() or gc.get_freeze_count() > 0)
        _ = np.ma  # NumPy is imported now where it is not yet, with this part that np.unique needs: not in each copy
        work = partial(self._explained, tick, collector_comes) if explain else partial(self._reading, tick)
        began = perf_counter()
        frames = heap.frame_roots(retention.user_frame)

        def copied() -> _Reading:
            use_frames(frames)
            return work()

        try:
            aside = Aside(copied) if sys.platform == "linux" else None
        except OSError:
            aside = None
        try:
            self._pending = (tick, aside if aside is not None else work())
        except Exception:
            self._put_off()
            raise
        self._pause = perf_counter() - began
        if explain:
            self._explain_from = None
            self._explained_at.append(tick)
            self._births.explain_ops(False)

    def _may_be_garbage(self, tick: int) -> bool:
        """Whether a collection should tell growth of malloc from garbage that waits; they take 2 % of the time."""
        if tick < 4 or collector_off() or self._collecting > _COLLECTING + 0.02 * (monotonic() - self._began):
            return False
        first, now = self._marks[min(self._marks)], self._marks[tick]
        if first.native is None or now.native is None:
            return False
        return now.native - first.native > NATIVE_FLOOR / 2 * (tick - first.tick)

    def _reading(self, tick: int) -> _Reading:
        looked = self._look(tick)
        used = [s for s in self._used() if s.tick < tick]
        tops = populations.growing([*used, looked.snapshot], looked.tree) if len(used) >= 2 else []
        return _Reading(
            replace(looked.snapshot, base=None),
            tuple((top.key, top.trend.rate) for top in tops if top.trend.rises or top.single),
        )

    def _explained(self, tick: int, collector_comes: bool) -> _Reading:
        looked = self._look(tick)
        used = [*(s for s in self._used() if s.tick < tick), looked.snapshot]
        tops = populations.growing(used, looked.tree)
        found = populations.describe(tops, used, looked, self._site_of, self._cut(), self._witnesses.lines)
        watched = max(self._explain_ticks - 1, 1)
        self._guard(
            lambda: self._witnesses.gather(self._births, watched, tick, self._cut()), "tapes, datasets and graphs"
        )
        explained = _Explained(
            found,
            None if collector_comes else populations.garbage(used, looked.found, self._site_of),
            self._witnesses.told(),
        )
        return _Reading(
            replace(looked.snapshot, base=None),
            tuple((top.key, top.trend.rate) for top in tops),
            explained,
            tuple(self._missing.values()),
        )

    def _take_answer(self, wait: float) -> None:
        """Takes in a reading that is there; decides whether to explain."""
        if self._pending is None:
            return
        tick, pending = self._pending
        if isinstance(pending, Aside):
            if not pending.done() and not wait:
                return
            try:
                answer = pending.result(wait)
            except ProbeError as error:
                pending.end()
                self._pending = None
                self._marks.pop(tick, None)
                if isinstance(error, Withdrawn):
                    self._open.next_tick = self._count  # the next one is made in the process itself
                    return
                self._lose_reading(str(error))
                self._put_off()
                return
        else:
            answer = pending
        self._pending = None
        base = self._snapshots[min(self._snapshots)] if self._snapshots else None
        self._snapshots[tick] = replace(answer.snapshot, base=base)
        self._tops = dict(answer.tops)
        for missing in answer.missing:
            self._missing.setdefault(missing.figure, missing)
        if not self._waterfall_start:
            self._waterfall_tick = tick
            self._waterfall_start = waterfall(
                self._marks[tick], answer.snapshot.tensor_bytes, answer.snapshot.python_bytes
            )
        if answer.explained is not None:
            self._populations, self._garbage = answer.explained.populations, answer.explained.garbage
            self._witnesses.take(answer.explained.told)
            self._known |= set(self._tops)
        elif self._explain_from is None and self._worth_explaining():
            self._explain_ticks = max(2, min(6, self._count // 4))
            self._explain_from = self._count
            self._begin_explaining(self._count - (self._made_since or 0))

        if self._explained_at:
            self._store_report()

    def _worth_explaining(self) -> bool:
        if len(self._used()) < 4 or len(self._explained_at) >= _MOST_EXPLAINED:
            return False
        if self._explained_at and self._count < 1.5 * self._explained_at[-1]:
            return False
        least = min(self._min_growth / 4, least_kept(self._min_growth, self._epoch, self._count))
        new = any(rate >= least and key not in self._known for key, rate in self._tops.items())
        return new or (not self._explained_at and self._other_growth())

    # ------------------------------------------------------------------------------------------ at the end

    def _at_end(self) -> None:
        self._take_answer(_LAST_WAIT)
        if self._explain_from is not None:
            grew = self._tops
            self._read(self._count, explain=True)
            self._take_answer(_LAST_WAIT)
            # What was about to be named and is nowhere now went with its function, which has returned.
            now = self._snapshots.get(self._count)
            self._gone = {
                key: rate
                for key, rate in grew.items()
                if key not in self._tops and now is not None and not now.column(np.array([key], np.uint64), "counts")[0]
            }
        if not self._explained_at and self._made_since is not None:
            self._witnesses.take_made(self._births, self._count - self._made_since)
        native = super()._native()
        if native is not None and native.stands and not collector_off():
            gc.collect()
            self._collected_at_end = self._counters.sample(self._count).native
        still = set(self._tops)
        self._populations = tuple(p for p in self._populations if p.key in still or not p.key)
        self._drop_what_stopped()
        if self._explained_at and tensorflow_loaded():
            autopsy = Autopsy(self._cut())
            autopsy.release("rest")
            self._autopsied = autopsy.given_back(max(self._count, 1), self._entries_per_tick())

    def _verdict(self) -> Verdict:
        verdict = super()._verdict()
        if self._unit == "second":
            verdict = replace(verdict, notes=(*verdict.notes, _SECONDS))
        tops = {key: rate for key, rate in self._tops.items() if key not in self._known} | self._gone
        unnamed = [rate for rate in tops.values() if rate >= self._min_growth]
        if verdict.verdict == "flat" and unnamed:
            grew = f"something grew by {max(unnamed):.0f} bytes {a_unit(self._unit)}"
            why = f"{grew} and was not named in time; run it longer"
            return replace(verdict, verdict="inconclusive", why=why)
        return verdict

    def _entries_per_tick(self) -> float:
        """How many entries the gradient registry got a tick, by the samples after warm-up."""
        counted = [
            (s.tick, s.gradient_registry)
            for s in self._samples
            if s.tick >= self._warmup() and s.gradient_registry is not None
        ]
        if len(counted) < 2 or counted[-1][0] == counted[0][0]:
            return 0.0
        return (counted[-1][1] - counted[0][1]) / (counted[-1][0] - counted[0][0])

    def _drop_what_stopped(self) -> None:
        """One more look when the program is over. What hung from its functions is gone: that can't be judged."""
        if not self._populations or not self._snapshots:
            return
        last = self._snapshots[max(self._snapshots)]
        if self._count - last.tick < 3:
            return
        now = self._look(self._count).snapshot
        self._populations, ended = populations.stopped(self._populations, last, now)
        self._note_stopped(ended)
        native = super()._native()
        if ended and native is not None and self._collected_at_end is not None:
            rate = (self._collected_at_end - (self._marks[last.tick].native or 0)) / (self._count - last.tick)
            self._native_stopped = rate < 0.3 * native.bytes_per_tick

    def _native_marks(self, ticks: Sequence[int]) -> list[Sample]:
        """Those right after a collection, where there are enough; else the least of the samples since the mark before:
        what waits for the collector comes and goes above that."""
        clean = [tick for tick in ticks if tick in self._collected]
        if len(clean) >= _CLEAN and clean[-1] == ticks[-1]:
            return [self._marks[tick] for tick in clean]
        lows: list[Sample] = []
        since = min(self._warmup(), ticks[0]) - 1 if ticks else 0
        for tick in ticks:
            within = [s for s in self._samples if since < s.tick <= tick and s.native is not None]
            lows.append(min(within, key=lambda s: s.native or 0) if within else self._marks[tick])
            since = tick
        return lows

    def _native(self) -> Native | None:
        """As the marks tell; where too few of them come after a collection, the one at the end must confirm it."""
        native = super()._native()
        ticks = [s.tick for s in self._used() if s.tick in self._marks]
        clean = [tick for tick in ticks if tick in self._collected]
        if native is None or not native.stands or self._collected_at_end is None or len(clean) >= _CLEAN:
            return native
        first = self._marks[clean[0] if clean and clean[0] < self._count else ticks[0]]
        rate = (self._collected_at_end - (first.native or 0)) / max(self._count - first.tick, 1)
        return replace(native, stands=rate >= 0.5 * native.bytes_per_tick)
