"""Watches one program from tick to tick and says at its end what grew: what `tenure run` and `tenure soak` share.

Reads cheap counters at ticks and the heap at a few of them. When something grows, ops are watched for a few ticks to
learn their lines, then samples of what grew are named. Everything here may fail without the program noticing: what is
missing is said in the report.
"""

from __future__ import annotations

import os
import platform
import sys
import threading
import traceback
from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path
from time import monotonic

from tenure.explain import populations
from tenure.explain.diagnosis import Verdict, diagnose
from tenure.explain.evidence import Evidence, Garbage, HeldFree, Native, Population
from tenure.explain.growth import seconds_to_limit, slope, trend, window_rate
from tenure.explain.matchers import NATIVE_FLOOR
from tenure.explain.witnesses import Witnesses
from tenure.observe.births import Births
from tenure.observe.memory import MALLOC_FREE, POOL_FREE, Counters, waterfall
from tenure.observe.native_lines import NativeLines
from tenure.observe.recording import Recorder, RecordingError
from tenure.observe.snapshot import Look, Snapshot, look, tensorflow_loaded
from tenure.observe.sources import absolute, source_path
from tenure.probes import process, read, release
from tenure.probes.release import BLOCK_BYTES
from tenure.records import Birth, Finding, GivenBack, GrowingLine, Growth, Layer, Missing, Report, Sample, Ticks

__all__ = ["MIN_GROWTH", "Watching", "without_tensors"]

MIN_GROWTH = 4096.0  # bytes a tick; less is a note, not a verdict
_SAMPLE_SECONDS = 0.05
_HEAP, _BIRTHS, _LINES = "the heap", "where things are made", "the line of native growth"
_MOST_SAMPLES = 4096
_WORTH_TRIMMING = 32e6  # bytes that malloc holds free: the program is over, so nothing of it waits for the pages


class Watching:
    """One watched program. `start`, then `tick` after each turn of its cycle, then `finish` for the report.

    `soak.SoakWatching` knows how many ticks come, `running.RunWatching` does not.
    """

    def __init__(
        self,
        program: Sequence[str],
        record: Path | None = None,
        min_growth: float = MIN_GROWTH,
        births: Births | None = None,
        stored: Callable[[Report], Report] | None = None,
    ) -> None:
        # What of a report goes into the recording: with --redact no values of arguments, in a killed program's either.
        self._stored = stored if stored is not None else _as_it_is
        self._program = tuple(program)
        script = self._program[0].rpartition(":")[0] or self._program[0] if self._program else ""
        self._folder = os.path.dirname(absolute(script)) + os.sep  # now: the program may go to another folder
        self._min_growth = min_growth
        self._epoch = 1
        self._pid = os.getpid()
        self._count = 0
        self._turns = 1  # that the last tick told of
        self._unit = "tick"
        self._function: str | None = None
        self._counters = Counters()
        self._births = births or Births()
        self._samples: list[Sample] = []
        self._differential = False
        self._marks: dict[int, Sample] = {}
        self._snapshots: dict[int, Snapshot] = {}
        self._missing: dict[str, Missing] = {}
        self._notes: list[str] = []
        self._populations: tuple[Population, ...] = ()
        self._garbage: Garbage | None = None
        self._native_stopped = False
        self._witnesses = Witnesses()
        self._native_lines: NativeLines | None = None
        self._lines: tuple[GrowingLine, ...] = ()
        self._held_free: HeldFree | None = None
        self._autopsied: tuple[GivenBack, ...] | None = None
        self._last_sample = float("-inf")
        self._recorder: Recorder | None = None
        self._record = record
        self._waterfall_start: tuple[Layer, ...] = ()
        self._waterfall_tick = 0
        self._ended = False
        self._lost_readings = 0
        self._own_seconds = 0.0  # that the program has waited for us in ticks that are over
        self._tick_began: float | None = None
        self._waited_at = (0.0, 0.0)  # how long it had waited at the first and at the last sample

    # ------------------------------------------------------------------------------------------ from outside

    def start(self) -> None:
        """Begins: hooks the constructors, opens the recording. Raises RecordingError when that can't be written."""
        if self._record is not None:
            if self._record.exists() and not (self._record.is_file() or self._record.is_dir()):
                # a new recording takes the place of the old file: of /dev/null it would make a plain file, for everyone
                raise RecordingError(f"{self._record} is a device or a pipe, not a place for a recording.")
            self._recorder = Recorder(self._record, self._program, versions())
        self._guard(self._births.start, _BIRTHS)

    def set_ticks(self, unit: str, function: str | None) -> None:
        """Says what a tick is: its unit and, where the ticks are calls of a function, its name."""
        if self._count and (unit, function) != (self._unit, self._function):
            self._restart()  # rates of two different ticks can't be compared
        self._unit, self._function = unit, function
        if self._recorder is not None:
            recorder = self._recorder
            self._guard(lambda: recorder.set_ticks(self._ticks()), "recording")

    def epoch(self, batches: int) -> None:
        """An epoch of so many ticks has ended: what is kept once an epoch is little a batch, and a leak nonetheless."""
        self._epoch = max(batches, 1)

    def tick(self, turns: int = 1) -> int:
        """So many turns of the program's cycle have ended; tells how many more need not be told one by one.

        Never raises; does nothing in a forked child.
        """
        if os.getpid() != self._pid or self._ended:
            return 1
        self._count += turns
        if threading.current_thread() is not threading.main_thread():
            return 1  # a heap is read on the main thread only; its next tick will do
        self._turns = turns
        self._tick_began = monotonic()
        if self._native_lines is not None:
            self._guard(self._native_lines.turn, _LINES)
        if not self._guard(self._on_tick, _HEAP):
            self._lost_readings += 1
        if self._native_lines is not None:
            self._guard(self._native_lines.go_on, _LINES)
        self._own_seconds += monotonic() - self._tick_began
        self._tick_began = None
        return self._may_pass()

    def finish(self, exit_status: int | None) -> Report:
        """The report so far; ends the watching. Never raises for a probe's sake."""
        self._ended = True
        self._end_lines()
        self._guard(self._at_end, "the last reading")
        self._guard(self._note_held_free, "memory held free")
        self._guard(self._births.stop, _BIRTHS)
        report = self._report(exit_status)
        if self._recorder is not None:
            recorder = self._recorder
            self._guard(lambda: recorder.set_report(self._stored(report)), "recording")
            self._guard(lambda: recorder.close(exit_status), "recording")
        return report

    # ------------------------------------------------------------------------------------------ at a tick

    def _on_tick(self) -> None:
        tick, now = self._count, monotonic()
        if not self._samples or now - self._last_sample >= _SAMPLE_SECONDS:
            self._sample(tick, blocks_too=False)
        self._at_tick(tick, now)

    def _at_tick(self, tick: int, now: float) -> None:
        """What this way of watching does at a tick."""
        raise NotImplementedError

    def _may_pass(self) -> int:
        """How many ticks may pass before the next one must be told; 1 for each."""
        return 1

    def _at_end(self) -> None:
        """What it does when the program is over, before the report."""

    def _warmup(self) -> int:
        """The first tick that counts."""
        raise NotImplementedError

    def _used(self) -> list[Snapshot]:
        """The snapshots that the verdict rests on, in order."""
        raise NotImplementedError

    def _restart(self) -> None:
        """Begins to count anew: a better tick was found."""
        self._count = 0
        self._samples, self._marks, self._snapshots = [], {}, {}
        self._populations, self._garbage, self._epoch = (), None, 1
        self._waterfall_start = ()
        self._end_lines()
        self._lines, self._witnesses = (), Witnesses()

    def _sample(self, tick: int, blocks_too: bool = True) -> Sample:
        sample = self._counters.sample(tick, blocks_too)
        self._last_sample = now = monotonic()
        waited = self._own_seconds + (0.0 if self._tick_began is None else now - self._tick_began)
        self._waited_at = (self._waited_at[0] if self._samples else waited, waited)
        self._samples.append(sample)
        if len(self._samples) > _MOST_SAMPLES:
            del self._samples[1 : len(self._samples) // 2 : 2]
        if self._recorder is not None:
            recorder = self._recorder
            self._guard(lambda: recorder.add_sample(sample), "recording")
        return sample

    def _look(self, tick: int) -> Look:
        """The heap now, its snapshot kept relative to the first one."""
        looked = look(tick, self._cut())
        base = self._snapshots[min(self._snapshots)] if self._snapshots else None
        return looked if base is None else replace(looked, snapshot=looked.snapshot.beside(base))

    def _other_growth(self) -> bool:
        """Whether something grows that no population shows: what native code holds, garbage, or malloc itself."""
        used = self._used()
        if len(used) < 3:
            return False
        if populations.held_tensors(used)[0] > 0 or populations.garbage(used) is not None:
            return True
        native = self._native()
        return native is not None and native.stands and native.bytes_per_tick >= NATIVE_FLOOR / 2

    def _begin_explaining(self, ticks: int) -> None:
        """Takes stock of what was made in the last `ticks` ticks; from now on each op is watched for its line."""
        self._witnesses.take_made(self._births, ticks)
        if tensorflow_loaded():  # a program without TensorFlow has no ops, and must not get TensorFlow from us
            self._guard(self._births.explain_ops, "the lines of ops")

    def _begin_lines(self) -> None:
        """Watches the lines for native growth from now on, when no population and no registry accounts for it."""
        native = self._native()
        if native is None or not native.stands or self._native_lines is not None:
            return
        total = native.bytes_per_tick + native.python_bytes_per_tick
        rest = total - sum(p.bytes_per_tick for p in self._populations if p.steady)
        if rest >= max(NATIVE_FLOOR, 0.1 * total):
            lines = NativeLines(Counters().native)
            if self._guard(lines.start, _LINES):
                self._native_lines = lines

    def _end_lines(self) -> None:
        lines, self._native_lines = self._native_lines, None
        if lines is not None:
            self._lines = lines.stop() or self._lines
            if lines.gave_up is not None:
                self._missing.setdefault(_LINES, Missing(_LINES, lines.gave_up))

    def _store_report(self) -> None:
        """Puts the verdict so far into the recording, so that a killed program leaves it."""
        if self._recorder is not None:
            recorder = self._recorder
            self._guard(lambda: recorder.set_report(self._stored(self._report(None))), "recording")
            self._guard(recorder.flush, "recording")

    # ------------------------------------------------------------------------------------------ what it adds up to

    def _native(self) -> Native | None:
        """As the marks tell; where that does not stand, as they tell without the tensors that the walk saw: one of
        another size at each tick hides what caches take."""
        native = self._native_at_marks()
        if native is None or (native.stands and native.steady):
            return native
        at = [(s, self._marks[s.tick]) for s in self._used() if s.tick in self._marks]
        beside = self._native_of(
            [(s.tick, rest) for s, sample in at if (rest := without_tensors(s, sample)) is not None]
        )
        if beside is None or not (beside.stands and beside.steady):
            return native
        seen = sum(p.tensor_bytes_per_tick for p in self._populations if p.steady)
        rates = (beside.bytes_per_tick + seen, beside.low + seen, beside.high + seen)
        return replace(beside, bytes_per_tick=rates[0], low=rates[1], high=rates[2])

    def _native_at_marks(self) -> Native | None:
        marks = self._native_marks([s.tick for s in self._used() if s.tick in self._marks])
        known = [(sample.tick, float(sample.native)) for sample in marks if sample.native is not None]
        return self._native_of(known) if len(known) == len(marks) else None

    def _native_of(self, known: Sequence[tuple[int, float]]) -> Native | None:
        """What a series of native bytes by tick tells."""
        if len(known) < 3:
            return None
        ticks, series = [tick for tick, _ in known], [value for _, value in known]
        told = trend(ticks, series)
        rate, span = window_rate(ticks, series), slope(ticks, series)
        at = [self._marks[s.tick] for s in self._used() if s.tick in self._marks]
        python = trend([sample.tick for sample in at], [float(sample.python_blocks or 0) for sample in at])
        return Native(
            rate,
            min(span.low, rate),
            max(span.high, rate),
            told.rises and rate > 0 and not self._native_stopped,
            told.steady,
            told.slowing and rate >= self._min_growth,  # what is too small to be a leak may end as it likes
            BLOCK_BYTES * python.rate if python.rises else 0.0,
            ticks[-1] - ticks[0],
            self._native_stopped,
        )

    def _note_stopped(self, ended: Sequence[Population]) -> None:
        for population in ended:
            name = population.holder.text if population.holder else population.root
            self._notes.append(f"{name} has stopped growing")

    def _native_marks(self, ticks: Sequence[int]) -> list[Sample]:
        """The samples between which native growth is judged, one for each of these marks."""
        return [self._marks[tick] for tick in ticks]

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
            epoch=self._epoch,
            differential=self._differential,
            room=self._room(),
            lines=self._lines,
            held_free=self._held_free,
            **self._witnesses.told(),
        )
        verdict = diagnose(evidence, max(len(used) - 1, 0))
        if verdict.verdict == "inconclusive" and len(used) < 4 and self._lost_readings:
            why = self._missing[_HEAP].why if _HEAP in self._missing else "no reading succeeded"
            return replace(verdict, why=f"the heap could not be read: {why}")
        return verdict

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
            growth=self._growth(
                sum(f.bytes_per_tick or 0.0 for f in leaks),
                verdict.spread,
                max((f.confidence for f in leaks), default=0.95),
            ),
            waterfall_start=self._waterfall_start,
            waterfall_end=self._waterfall_end(),
            waterfall_ticks=(self._waterfall_tick, max(self._snapshots)) if self._snapshots else None,
            findings=tuple(self._relative(f) for f in verdict.findings),
            autopsy=self._autopsied,
            notes=(*verdict.notes, *self._notes),
            missing=self._all_missing(),
            samples=tuple(self._samples),
        )

    def _all_missing(self) -> tuple[Missing, ...]:
        spots: list[Missing] = []
        self._guard(lambda: spots.extend(self._blind_spots()), _BIRTHS)
        return (*self._missing.values(), *self._counters.missing.values(), *spots)

    def _relative(self, finding: Finding) -> Finding:
        """The finding with files relative to the program's own folder where they lie in it."""
        birth, holder = finding.birth, finding.holder
        if birth is not None:
            birth = replace(birth, file=self._relative_file(birth.file))
        if holder is not None and holder.file is not None:
            holder = replace(holder, file=self._relative_file(holder.file))
        return replace(finding, birth=birth, holder=holder)

    def _relative_file(self, file: str) -> str:
        return source_path(file).removeprefix(self._folder)

    def _room(self) -> float | None:
        """The bytes that the process may still take before it meets the tightest limit."""
        limit, _ = read(process.memory_limit, "memory limit")
        rss = self._samples[-1].rss if self._samples else None
        return None if limit is None or rss is None else max(float(limit.bytes - rss), 0.0)

    def _growth(self, total: float, spread: tuple[float, float], confidence: float) -> Growth | None:
        used = self._used()
        if len(used) < 3:
            return None
        native = self._native()
        low, high = max(total - spread[0], 0.0), total + spread[1]
        per_tick = self._seconds_per_tick()
        limit, _ = read(process.memory_limit, "memory limit")
        rss = self._samples[-1].rss if self._samples else None
        left = seconds_to_limit(total, per_tick, rss, limit.bytes if limit else None)
        smallest = max(self._min_growth, NATIVE_FLOOR if native is None or not native.steady else self._min_growth)
        return Growth(total, low, high, confidence, smallest, left, limit.bytes if limit else None)

    def _seconds_per_tick(self) -> float:
        if len(self._samples) < 2 or self._samples[-1].tick == self._samples[0].tick:
            return 0.0
        first, last = self._samples[0], self._samples[-1]
        waited = self._waited_at[1] - self._waited_at[0]
        return max(last.seconds - first.seconds - waited, 0.0) / (last.tick - first.tick)

    def _note_held_free(self) -> None:
        """What the allocators hold free at the last reading, and how much of it malloc gives back when asked."""
        layers = {layer.name: layer.bytes for layer in self._waterfall_end()}
        rss, pool, free = (layers.get(name) for name in ("RSS", POOL_FREE, MALLOC_FREE))
        if rss is None or (pool is None and free is None):
            return
        trimmed = release.malloc_trim().bytes if (free or 0) >= _WORTH_TRIMMING else None
        self._held_free = HeldFree(rss, pool, free, trimmed)

    def _waterfall_end(self) -> tuple[Layer, ...]:
        if not self._snapshots:
            return ()
        last = max(self._snapshots)
        return waterfall(self._marks[last], self._snapshots[last].tensor_bytes, self._snapshots[last].python_bytes)

    # ------------------------------------------------------------------------------------------ doing no harm

    def _cut(self) -> list[object]:
        """What a walk must not enter: this object and what it watches with (tenure's modules are cut anyway)."""
        own = [self, self.__dict__, self._births, self._counters, self._snapshots, self._samples, self._witnesses]
        own += [self._native_lines] if self._native_lines is not None else []
        return [*own, self._recorder] if self._recorder is not None else own

    def _guard(self, action: Callable[[], object], figure: str) -> bool:
        """Whether the action succeeded; what it raised is noted as the reason why the figure is missing."""
        try:
            action()
            return True
        except Exception as error:  # the program goes on; the report says what is missing
            place = traceback.extract_tb(error.__traceback__)[-1]
            why = f"{type(error).__name__}: {error} ({Path(place.filename).name}:{place.lineno})"
            self._missing.setdefault(figure, Missing(figure, why))
            if os.environ.get("TENURE_DEBUG"):
                traceback.print_exc()
            return False

    def _mark(self) -> None:
        """What is made from here on is counted anew."""
        self._guard(self._births.mark, _BIRTHS)

    def _lose_reading(self, why: str) -> None:
        self._lost_readings += 1
        self._missing.setdefault(_HEAP, Missing(_HEAP, why))

    def _site_of(self, thing: object) -> Birth | None:
        """Where a thing was made; None, and noted as missing, where asking fails."""
        try:
            return self._births.site_of(thing)
        except Exception as error:
            self._missing.setdefault(_BIRTHS, Missing(_BIRTHS, f"{type(error).__name__}: {error}"))
            return None

    def _blind_spots(self) -> list[Missing]:
        """What the walks could not tell apart: they go on without it, so it is asked for once more at the end."""
        probes: list[tuple[Callable[[], object], str]] = [
            (process.rss_by_mapping, "resident memory by mapping"),
            (process.memory_limit, "memory limit"),
        ]
        if tensorflow_loaded():
            from tenure.probes.tf import handles, registries

            probes += [
                (handles.tensor_types, "TensorFlow's types"),
                (registries.registry_objects, "TensorFlow's registries"),
            ]
        asked = (read(probe, figure)[1] for probe, figure in probes)
        return [*self._births.missing(), *(missing for missing in asked if missing is not None)]


def without_tensors(snapshot: Snapshot, sample: Sample) -> float | None:
    """malloc in use beside the tensors that the walk saw. The pool is left out where there is one: it serves a block
    from a larger free one without splitting it, and counts the whole."""
    if sample.malloc_used is None:
        return None
    pooled = snapshot.pooled if sample.pool_used is not None else 0
    return float(sample.malloc_used - sample.pool_regions - (snapshot.tensor_bytes - pooled))


def versions() -> dict[str, str | None]:
    """The versions that a report names; None for what is not loaded."""
    return {
        "tensorflow": getattr(sys.modules.get("tensorflow"), "__version__", None),
        "keras": getattr(sys.modules.get("keras"), "__version__", None),
        "python": platform.python_version(),
    }


def _as_it_is(report: Report) -> Report:
    return report


def _own_version() -> str:
    from tenure import __version__

    return str(__version__)
