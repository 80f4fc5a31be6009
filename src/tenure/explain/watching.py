"""Watches one program from tick to tick and says at its end what grew: the driver behind `tenure run` and `tenure soak`.

Reads cheap counters at ticks and the heap at a few of them (on the main thread, at the tick, when the tick's
temporaries are gone). When something grows, ops are watched for a few ticks to learn their lines, then samples of what
grew are named. Everything here may fail without the program noticing: what is missing is said in the report.
"""

from __future__ import annotations

import gc
import os
import platform
import sys
import threading
import time
import traceback
from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path

from tenure.explain import populations
from tenure.explain.autopsy import Autopsy
from tenure.explain.diagnosis import NATIVE_FLOOR, Verdict, diagnose
from tenure.explain.evidence import Evidence, Garbage, Native, Population
from tenure.explain.growth import Slope, seconds_to_limit, slope, trend
from tenure.explain.schedule import FixedPlan, OpenPlan
from tenure.explain.witnesses import Witnesses
from tenure.observe.births import Births
from tenure.observe.memory import Counters, waterfall
from tenure.observe.recording import Recorder
from tenure.observe.snapshot import Census, Snapshot, Tree, look, tensorflow_loaded
from tenure.probes import process, read
from tenure.records import Finding, GivenBack, Growth, Layer, Missing, Report, Sample, Ticks

__all__ = ["MIN_GROWTH", "Watching"]

MIN_GROWTH = 4096.0  # bytes a tick; less is a note, not a verdict
_PYTHON_BLOCK = 80  # bytes: the mean of the blocks that a TensorFlow program's small objects take, measured
_SAMPLE_SECONDS = 0.05
_MOST_SAMPLES = 4096
_MOST_EXPLAINED = 4


class Watching:
    """One watched program. `start`, then `tick` after each turn of its cycle, then `finish` for the report."""

    def __init__(
        self,
        program: Sequence[str],
        record: Path | None = None,
        redact: bool = False,
        plan: FixedPlan | None = None,
        min_growth: float = MIN_GROWTH,
    ) -> None:
        self._program = tuple(program)
        self._redact = redact
        self._plan = plan
        self._open = OpenPlan()
        self._min_growth = min_growth
        self._pid = os.getpid()
        self._count = 0
        self._unit, self._function = "tick", None if plan is None else (self._program[0] if program else None)
        self._counters = Counters()
        self._births = Births()
        self._samples: list[Sample] = []
        self._marks: dict[int, Sample] = {}
        self._snapshots: dict[int, Snapshot] = {}
        self._tree: Tree | None = None
        self._missing: dict[str, Missing] = {}
        self._notes: list[str] = []
        self._read_cost = 0.2
        self._explain_until: int | None = None
        self._explained_at: list[int] = []
        self._suspected = False
        self._populations: tuple[Population, ...] = ()
        self._garbage: Garbage | None = None
        self._witnesses = Witnesses()
        self._autopsy: Autopsy | None = None
        self._autopsied: tuple[GivenBack, ...] | None = None
        self._explain_ticks = 2
        self._made_since: int | None = None
        self._last_sample = float("-inf")
        self._recorder: Recorder | None = None
        self._record = record
        self._waterfall_start: tuple[Layer, ...] = ()
        self._ended = False

    # ------------------------------------------------------------------------------------------ from outside

    def start(self) -> None:
        """Begins: hooks the constructors, opens the recording. Raises RecordingError when that can't be written."""
        if self._record is not None:
            self._recorder = Recorder(self._record, self._program, versions())
        self._guard(self._births.start, "where things are made")

    def set_ticks(self, unit: str, function: str | None) -> None:
        """Says what a tick is: its unit and, where the ticks are calls of a function, its name."""
        self._unit, self._function = unit, function
        if self._recorder is not None:
            recorder = self._recorder
            self._guard(lambda: recorder.set_ticks(self._ticks()), "recording")

    def tick(self) -> None:
        """One turn of the program's cycle has ended. Never raises; does nothing in a forked child."""
        if os.getpid() != self._pid or self._ended:
            return
        self._count += 1
        if threading.current_thread() is not threading.main_thread():
            return  # a heap is read on the main thread only; its next tick will do
        self._guard(self._on_tick, "the tick")

    def finish(self, exit_status: int | None) -> Report:
        """The report so far; ends the watching. Never raises for a probe's sake."""
        self._ended = True
        if self._plan is None:
            self._guard(self._close_run, "the last reading")
        self._guard(self._births.stop, "where things are made")
        report = self._report(exit_status)
        if self._recorder is not None:
            recorder = self._recorder
            self._guard(lambda: recorder.set_report(report), "recording")
            self._guard(lambda: recorder.close(exit_status), "recording")
        return report

    # ------------------------------------------------------------------------------------------ at a tick

    def _on_tick(self) -> None:
        tick = self._count
        now = time.monotonic()
        if not self._samples or now - self._last_sample >= _SAMPLE_SECONDS:
            self._sample(tick)
        if self._plan is not None:
            self._planned(self._plan, tick)
        else:
            self._unplanned(tick, now)

    def _planned(self, plan: FixedPlan, tick: int) -> None:
        if tick == plan.warmup:
            self._births.mark()
        if tick in plan.marks:
            self._read(tick)
        if plan.marks and tick == plan.marks[-1]:
            self._suspected = self._grows()
            if self._suspected:
                self._begin_explaining(tick, tick - plan.warmup)
        if not self._suspected:
            return
        if tick == plan.marks[-1] + 1:
            self._births.mark()  # what this tick's ops were is known now; what is new from here on is new each tick
        if tick == plan.explained:
            self._explain(plan.explained - plan.marks[-1] - 1)
            self._autopsy = Autopsy(self._cut())
            self._autopsy.release("warm-up")
        elif tick == plan.first_release and self._autopsy is not None:
            self._autopsy.release("one")
        elif tick == plan.cycles and self._autopsy is not None:
            self._autopsy.release("rest")
            self._autopsied = self._autopsy.given_back(plan.cycles - plan.first_release)

    def _unplanned(self, tick: int, now: float) -> None:
        if self._explain_until is not None:
            if tick >= self._explain_until:
                self._explain_until = None
                self._explain(self._explain_ticks - 1)
            elif tick == self._explain_until - self._explain_ticks + 1:
                self._births.mark()
        if not self._open.due(tick, now, self._read_cost):
            return
        self._read(tick)
        for dropped in self._open.taken(tick, now, self._read_cost):
            self._snapshots.pop(dropped, None)
            self._marks.pop(dropped, None)
        if tick >= 2 and self._made_since is None:
            self._made_since = tick
            self._births.mark()
        far_enough = not self._explained_at or tick >= 2 * self._explained_at[-1]
        if self._explain_until is None and far_enough and len(self._explained_at) < _MOST_EXPLAINED and len(self._used()) >= 4 and self._grows():
            self._suspected = True
            self._explain_ticks = max(2, min(6, tick // 4))
            self._explain_until = tick + self._explain_ticks
            self._begin_explaining(tick, tick - (self._made_since or 0))

    def _begin_explaining(self, tick: int, ticks: int) -> None:
        """Takes stock of what was made since warm-up, then watches each op until `_explain`."""
        self._witnesses.take_made(self._births, ticks)
        self._guard(self._births.explain_ops, "the lines of ops")

    def _sample(self, tick: int) -> Sample:
        sample = self._counters.sample(tick)
        self._last_sample = time.monotonic()
        self._samples.append(sample)
        if len(self._samples) > _MOST_SAMPLES:
            del self._samples[1 : len(self._samples) // 2 : 2]
        if self._recorder is not None:
            self._recorder.add_sample(sample)
        return sample

    def _read(self, tick: int) -> Census:
        """The heap at this tick. Pending garbage goes first, unless the program has switched its collector off."""
        began = time.monotonic()
        if gc.isenabled():
            gc.collect()
        census = look(tick, self._cut())
        self._witnesses.note_graph(tick)
        base = self._snapshots[min(self._snapshots)] if self._snapshots else None
        self._snapshots[tick] = census.snapshot if base is None else census.snapshot.beside(base)
        self._tree = census.tree
        # Read after the walk, so that what the first one leaves (its base, its tree) is not the program's growth.
        self._marks[tick] = self._sample(tick)
        if not self._waterfall_start:
            self._waterfall_start = waterfall(self._marks[tick], census.snapshot.tensor_bytes, census.snapshot.python_bytes)
        self._read_cost = time.monotonic() - began
        return census

    def _grows(self) -> bool:
        """Whether anything is worth a closer look: a population, what native code holds, garbage, or malloc itself."""
        used = self._used()
        if len(used) < 3 or self._tree is None:
            return False
        if any(top.trend.rate >= self._min_growth / 4 for top in populations.growing(used, self._tree)):
            return True
        if populations.held_tensors(used)[0] > 0 or populations.garbage(used, None) is not None:
            return True
        native = self._native()
        return native is not None and native.stands and native.bytes_per_tick >= NATIVE_FLOOR / 2

    def _explain(self, watched: int) -> None:
        """Names what grows while its newest objects still know their lines."""
        tick = self._count
        census = self._read(tick)
        used = self._used()
        tops = populations.growing(used, census.tree)
        births = self._births
        self._populations = populations.describe(tops, used, census, births.site_of, self._cut())
        self._garbage = populations.garbage(used, None) if not gc.isenabled() or gc.get_freeze_count() else None
        self._witnesses.gather(births, max(watched, 1), tick, self._cut())
        births.explain_ops(False)
        self._explained_at.append(tick)
        if self._recorder is not None:
            self._recorder.set_report(self._report(None))

    def _close_run(self) -> None:
        """The end of a run: explain now what was about to be explained, and ask the caches what they hold."""
        if self._explain_until is None and not self._explained_at and self._grows():
            self._suspected = True
            self._begin_explaining(self._count, self._count - (self._made_since or 0))
            self._explain_until = self._count
        if self._explain_until is not None:
            self._explain(max(self._count - self._explain_until + self._explain_ticks - 1, 1))
        if self._suspected and tensorflow_loaded():
            self._autopsy = Autopsy(self._cut())
            self._autopsy.release("rest")
            self._autopsied = self._autopsy.given_back(max(self._count, 1))

    # ------------------------------------------------------------------------------------------ what it adds up to

    def _used(self) -> list[Snapshot]:
        """The snapshots after warm-up, in order, unequal windows apart."""
        ticks = sorted(self._snapshots)
        if self._plan is not None:
            return [self._snapshots[t] for t in ticks if t >= self._plan.warmup and t <= self._plan.marks[-1]]
        warmed = [t for t in ticks if t >= self._warmup()]
        return [self._snapshots[t] for t in warmed[-6:]]

    def _warmup(self) -> int:
        if self._plan is not None:
            return self._plan.warmup
        return max(2, min(self._count // 7, 30))

    def _native(self) -> Native | None:
        ticks = [s.tick for s in self._used() if s.tick in self._marks]
        values = [self._marks[t].native for t in ticks]
        if len(ticks) < 3 or any(value is None for value in values):
            return None
        series = [float(value) for value in values if value is not None]
        told = trend(ticks, series)
        rate: Slope = slope(ticks, series)
        blocks = [float(self._marks[t].python_blocks or 0) for t in ticks]
        python = trend(ticks, blocks)
        return Native(
            rate.value, rate.low, rate.high, told.rises and rate.value > 0, told.steady, told.slowing,
            _PYTHON_BLOCK * python.rate if python.rises else 0.0,
        )

    def _ticks(self) -> Ticks:
        return Ticks(self._unit, self._function, self._count, self._warmup())

    def _verdict(self) -> Verdict:
        used = self._used()
        held = populations.held_tensors(used) if len(used) >= 3 else (0.0, 0.0)
        evidence = Evidence(
            ticks=self._ticks(),
            populations=self._populations,
            native=self._native(),
            autopsy=self._autopsied,
            garbage=self._garbage,
            held_tensor_bytes_per_tick=held[0],
            held_tensors_per_tick=held[1],
            versions=versions(),
            min_growth=self._min_growth,
            **self._witnesses.told(),
        )
        return diagnose(evidence, max(len(used) - 1, 0))

    def _report(self, exit_status: int | None) -> Report:
        verdict = self._verdict()
        leaks = [f for f in verdict.findings if f.kind == "leak"]
        return Report(
            tenure=_own_version(),
            versions=versions(),
            program=self._program,
            exit_status=exit_status,
            verdict=verdict.verdict,
            why=verdict.why,
            ticks=self._ticks(),
            growth=self._growth(sum(f.bytes_per_tick or 0.0 for f in leaks), max((f.confidence for f in leaks), default=0.95)),
            waterfall_start=self._waterfall_start,
            waterfall_end=self._waterfall_end(),
            findings=tuple(self._relative(f) for f in verdict.findings),
            autopsy=self._autopsied,
            notes=(*verdict.notes, *self._notes),
            missing=(*self._missing.values(), *self._counters.missing.values()),
            samples=tuple(self._samples),
        )

    def _relative(self, finding: Finding) -> Finding:
        """The finding with files relative to the program's own folder where they lie in it."""
        birth, holder = finding.birth, finding.holder
        if birth is not None:
            birth = replace(birth, file=self._relative_file(birth.file))
        if holder is not None and holder.file is not None:
            holder = replace(holder, file=self._relative_file(holder.file))
        return replace(finding, birth=birth, holder=holder)

    def _relative_file(self, file: str) -> str:
        script = self._program[0].rpartition(":")[0] or self._program[0] if self._program else ""
        folder = os.path.dirname(os.path.abspath(script)) + os.sep
        absolute = os.path.abspath(file)
        return absolute[len(folder) :] if absolute.startswith(folder) else file

    def _growth(self, total: float, confidence: float) -> Growth | None:
        used = self._used()
        if len(used) < 3:
            return None
        native = self._native()
        spread = (native.high - native.low) / 2 if native is not None else 0.0
        low, high = max(total - spread, 0.0), total + spread
        per_tick = self._seconds_per_tick()
        limit, _ = read(process.memory_limit, "memory limit")
        rss = self._samples[-1].rss if self._samples else None
        left = seconds_to_limit(total, per_tick, rss, limit.bytes if limit else None)
        smallest = max(self._min_growth, NATIVE_FLOOR if native is None or not native.steady else self._min_growth)
        return Growth(total, low, high, confidence, smallest, left)

    def _seconds_per_tick(self) -> float:
        if len(self._samples) < 2 or self._samples[-1].tick == self._samples[0].tick:
            return 0.0
        first, last = self._samples[0], self._samples[-1]
        return (last.seconds - first.seconds) / (last.tick - first.tick)

    def _waterfall_end(self) -> tuple[Layer, ...]:
        if not self._snapshots:
            return ()
        last = max(self._snapshots)
        return waterfall(self._marks[last], self._snapshots[last].tensor_bytes, self._snapshots[last].python_bytes)

    # ------------------------------------------------------------------------------------------ doing no harm

    def _cut(self) -> list[object]:
        """What a walk must not enter: this object and what it watches with (tenure's modules are cut anyway)."""
        return [self, self.__dict__, self._births, self._counters, self._snapshots, self._samples, self._witnesses]

    def _guard(self, action: Callable[[], object], figure: str) -> None:
        try:
            action()
        except Exception as error:  # the program goes on; the report says what is missing
            place = traceback.extract_tb(error.__traceback__)[-1]
            why = f"{type(error).__name__}: {error} ({Path(place.filename).name}:{place.lineno})"
            self._missing.setdefault(figure, Missing(figure, why))
            if os.environ.get("TENURE_DEBUG"):
                traceback.print_exc()


def versions() -> dict[str, str | None]:
    """The versions that a report names; None for what is not loaded."""
    return {
        "tensorflow": getattr(sys.modules.get("tensorflow"), "__version__", None),
        "keras": getattr(sys.modules.get("keras"), "__version__", None),
        "python": platform.python_version(),
    }


def _own_version() -> str:
    from tenure import __version__

    return str(__version__)
