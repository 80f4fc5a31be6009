"""One watched program from its start to its report: what `tenure run` and `TENURE_RUN=1` share.

A watched program is one process. A forked child that inherits the object neither prints nor writes.
"""

from __future__ import annotations

import contextlib
import json
import os
import shutil
import signal
import sys
import threading
from collections.abc import Callable
from dataclasses import dataclass, replace
from importlib import import_module
from pathlib import Path
from time import monotonic
from types import FrameType
from typing import Protocol, TextIO

from tenure.cli.files import write_atomically
from tenure.explain.ticks import TickSource
from tenure.probes.apart import own_imports
from tenure.records import Report

__all__ = ["LIBRARIES", "Outputs", "WatchedProgram", "die_of", "fingerprints", "patient", "say"]

LAST_WORDS_SECONDS = 5.0
"""A dying program (SIGTERM, os._exit) waits this long for its report at most; container runtimes kill after 10 s."""

UNHEARD_SECONDS = 2.0
"""A program inside a long call in C, where no Python handler runs, dies of SIGTERM without a report after this long."""

SECOND_THOUGHTS = 1.0
"""Seconds for which a second Ctrl-C does not end the report."""

OLDEST = (2, 16)

LIBRARIES = frozenset({"click", "rich", "pygments", "markdown_it", "mdurl"})
"""What the command line imports; the program may have files of these names."""


class Watching(Protocol):
    """What `explain.running.RunWatching` gives: the evidence of one run."""

    def start(self) -> None: ...

    def set_ticks(self, unit: str, function: str | None) -> None: ...

    def tick(self, turns: int = 1) -> int: ...

    def epoch(self, batches: int) -> None: ...

    def finish(self, exit_status: int | None) -> Report: ...


@dataclass(frozen=True)
class Outputs:
    """Where the report goes besides stderr; absolute paths, since the program may change its folder."""

    json: Path | None = None
    html: Path | None = None
    record: Path | None = None
    redact: bool = False


class WatchedProgram:
    """Watches this process between `begin` and `end`; `publish` prints and writes what was found."""

    def __init__(
        self,
        program: tuple[str, ...],
        outputs: Outputs,
        function: str | None = None,
        own: tuple[str, ...] = (),
    ) -> None:
        self.pid = os.getpid()
        self.report: Report | None = None
        self._program, self._outputs = program, outputs
        self._named, self._own = function, own
        self._watching: Watching | None = None
        self._source: TickSource | None = None
        self._ended = self._published = False

    @property
    def ours(self) -> bool:
        """False in a forked child."""
        return os.getpid() == self.pid

    def begin(self) -> None:
        """Starts to watch. What fails is said on stderr, and the program runs all the same.

        Raises RecordingError where the recording that was asked for can't be begun.
        """
        try:
            with own_imports():
                from tenure.explain.running import RunWatching as Watch
                from tenure.report.json import redacted

                stored = redacted if self._outputs.redact else None
                watching: Watching = Watch(self._program, self._outputs.record, stored)
                watching.start()
                self._watching = watching
                self._source = TickSource(watching, self._named, self._own)
                self._source.start()
        except Exception as error:
            recording = sys.modules.get("tenure.observe.recording")
            if recording is not None and isinstance(error, recording.RecordingError):
                raise
            say(f"tenure: this program runs unwatched: {type(error).__name__}: {error}")

    def end(self, status: int | None) -> None:
        """Takes the last reading; `status` is the program's exit status. Only the first call counts."""
        if not self.ours or self._ended:
            return
        self._ended = True
        if self._source is not None:
            self._source.stop()
        if self._watching is None:
            return
        try:
            report = self._watching.finish(status)
            if self._source is not None and self._source.unfound is not None:
                report = replace(report, verdict="inconclusive", why=self._source.unfound)
            missing = (*report.missing, *(self._source.missing if self._source is not None else ()))
            report = replace(report, missing=missing, notes=(*report.notes, *_version_notes()))
            if self._outputs.redact:
                from tenure.report.json import redacted

                report = redacted(report)
            self.report = report
        except Exception as error:
            say(f"tenure: the program ran, and the report could not be made: {type(error).__name__}: {error}")

    def publish(self) -> None:
        """Prints the report to stderr and writes the files asked for. Only the first call counts."""
        if not self.ours or self._published or self.report is None:
            return
        self._published = True
        with own_imports():
            self._attempt("the report could not be printed", self._print)
            if self._outputs.json is not None:
                self._attempt(f"{self._outputs.json} could not be written", self._write_json)
            if self._outputs.html is not None:
                self._attempt(f"{self._outputs.html} could not be written", self._write_html)

    def last_words(self, status: int) -> None:
        """Ends and publishes while the program is killed: within `LAST_WORDS_SECONDS`, else the process just exits."""
        if not self.ours or self._published:
            return
        done = threading.Event()

        def bound() -> None:
            if not done.wait(LAST_WORDS_SECONDS):
                _real_exit(status)

        with contextlib.suppress(RuntimeError):  # no thread can start any more: then without a bound
            threading.Thread(target=bound, daemon=True).start()
        try:
            self.end(status)
            self.publish()
        finally:
            done.set()

    def guard(self) -> None:
        """From here on SIGTERM (where the program has no handler of its own) and `os._exit` leave a report."""

        def on_sigterm(number: int, frame: FrameType | None) -> None:
            heard()
            self.last_words(128 + number)
            die_of(number)

        # A child dies of SIGTERM by default, as it would without us. Blocked meanwhile: CPython drops what arrives
        # between the fork and the child's first instruction while a Python handler is set.
        masks: list[set[int]] = []

        def before_fork() -> None:
            if signal.getsignal(signal.SIGTERM) is on_sigterm:
                masks.append(set(signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGTERM})))

        def in_parent() -> None:
            if masks:
                signal.pthread_sigmask(signal.SIG_SETMASK, masks.pop())

        def in_child() -> None:
            if signal.getsignal(signal.SIGTERM) is on_sigterm:
                signal.signal(signal.SIGTERM, signal.SIG_DFL)
            in_parent()

        def leave(status: int) -> None:
            if self.ours:
                try:
                    self.last_words(status)
                finally:
                    _real_exit(status)
            _real_exit(status)

        leave.__name__ = leave.__qualname__ = "_exit"
        leave.__doc__ = os._exit.__doc__
        if threading.current_thread() is threading.main_thread() and (
            signal.getsignal(signal.SIGTERM) is signal.SIG_DFL
        ):
            signal.signal(signal.SIGTERM, on_sigterm)
            heard = _bounded(signal.SIGTERM)
            os.register_at_fork(before=before_fork, after_in_parent=in_parent, after_in_child=in_child)
        os._exit = leave  # type: ignore[assignment]

    def _print(self) -> None:
        from tenure.report.text import render

        assert self.report is not None
        stream = _standard_error()
        if stream is None:
            return
        terminal = stream.isatty()
        color = terminal and not os.environ.get("NO_COLOR") and os.environ.get("TERM") != "dumb"
        width = shutil.get_terminal_size((100, 24)).columns if terminal else 100
        with contextlib.suppress(Exception):  # closed, or a pipe that nobody reads
            sys.stdout.flush()  # so that a terminal shows the program's last line first
        record, html = (str(path) if path else None for path in (self._outputs.record, self._outputs.html))
        stream.write(render(self.report, width, color, recording=record, html=html).rstrip("\n") + "\n")
        stream.flush()

    def _write_json(self) -> None:
        from tenure.report.json import dumps

        assert self.report is not None and self._outputs.json is not None
        write_atomically(self._outputs.json, dumps(self.report) + "\n")

    def _write_html(self) -> None:
        from tenure.report.html import render

        assert self.report is not None and self._outputs.html is not None
        write_atomically(self._outputs.html, render(self.report))

    def _attempt(self, sentence: str, run: Callable[[], None]) -> None:
        try:
            run()
        except Exception as error:
            say(f"tenure: {sentence}: {type(error).__name__}: {error}")


_real_exit = os._exit


def _identity(descriptor: int) -> tuple[int, int] | None:
    try:
        found = os.fstat(descriptor)
    except OSError:
        return None
    return found.st_dev, found.st_ino


_STDERR = _identity(2)


def die_of(number: int) -> None:
    """Ends this process by the signal's default action, so that its parent sees the signal."""
    for stream in (sys.stdout, sys.stderr):
        with contextlib.suppress(Exception):
            stream.flush()
    signal.signal(number, signal.SIG_DFL)
    os.kill(os.getpid(), number)


def patient(interrupted: bool) -> None:
    """From here on Ctrl-C ends the report; where one has ended the program, not before `SECOND_THOUGHTS` have passed.

    Ctrl-C pressed twice is a habit, and no wish to lose the report. Raises KeyboardInterrupt once, from the handler.
    """
    began = monotonic()

    def on_sigint(number: int, frame: FrameType | None) -> None:
        if not interrupted or monotonic() - began > SECOND_THOUGHTS:
            signal.signal(number, signal.SIG_IGN)
            raise KeyboardInterrupt

    if signal.getsignal(signal.SIGINT) is signal.default_int_handler:
        signal.signal(signal.SIGINT, on_sigint)


def _bounded(number: int) -> Callable[[], None]:
    """Bounds how long the signal waits for its Python handler, which calls the answer first. Only where C was built."""
    try:
        signals = import_module("tenure.probes._signals")
        signals.bound(number, UNHEARD_SECONDS)
    except (ImportError, OSError, RuntimeError, ValueError):
        return lambda: None
    heard: Callable[[], None] = signals.heard
    return heard


def _version_notes() -> tuple[str, ...]:
    tensorflow = sys.modules.get("tensorflow")
    if tensorflow is None:
        return ("The program did not import TensorFlow: only Python objects and the process were watched.",)
    version = str(getattr(tensorflow, "__version__", ""))
    try:
        number = tuple(int(part) for part in version.split(".")[:2])
    except ValueError:
        return ()
    if number < OLDEST:
        return (f"TensorFlow {version} is older than 2.16, the oldest that tenure knows: upgrade it for all figures.",)
    return ()


def _standard_error() -> TextIO | None:
    """The stream for what tenure says, also after `sys.stderr.close()`, which leaves the descriptor open; or None."""
    stream = sys.__stderr__
    if stream is None or not stream.closed:
        return stream
    if _identity(2) != _STDERR:  # closed as well, or a file of the program's has the number by now
        return None
    return open(2, "w", encoding="utf-8", errors="backslashreplace", closefd=False)


def say(sentence: str) -> None:
    """One line on stderr, if there is one."""
    with contextlib.suppress(OSError, ValueError):
        stream = _standard_error()
        if stream is not None:
            stream.write(sentence + "\n")
            stream.flush()


def fingerprints(path: Path) -> frozenset[str]:
    """The fingerprints in a baseline: a report of `--json`, or a JSON list of fingerprints. ValueError: neither."""
    value = json.loads(path.read_text(encoding="utf-8"))
    if isinstance(value, dict):
        value = [finding.get("fingerprint") for finding in value.get("findings", ())]
    if not isinstance(value, list) or not all(isinstance(item, str) for item in value):
        raise ValueError("no list of fingerprints")
    return frozenset(value)
