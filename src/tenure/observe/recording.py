"""A recording of one run in one SQLite file, and how to open it again.

`Recorder` writes samples, events, snapshots of the evidence and the last verdict so far; `open_recording` reads the
file back, also one whose writer was killed. The file is bounded: old samples are thinned, never the newest ones.
Times are seconds (`started`, `ended` and the events' are seconds since 1970), sizes are bytes.

The last verdict is stored in the form of the contract `tenure/report/1`.
"""

from __future__ import annotations

import contextlib
import ctypes
import json
import os
import shutil
import sqlite3
import tempfile
import threading
import zlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, fields
from pathlib import Path
from time import monotonic
from time import time as wall_clock
from types import TracebackType

from tenure import __version__
from tenure.contract import from_dict, to_dict
from tenure.records import Report, Sample, Ticks

__all__ = [
    "Event",
    "Recorder",
    "Recording",
    "RecordingError",
    "Snapshot",
    "open_recording",
]

SCHEMA_VERSION = 1
APPLICATION_ID = 0x54454E55  # "TENU" in the file's header tells ours from any other SQLite file

# A sample must survive SIGKILL once it is 1 s old; half of that leaves room for a slow disk and a busy machine.
COMMIT_EVERY = 0.5
REPORT_EVERY = 3.0
MAX_SAMPLES = 20_000
MAX_SNAPSHOTS = 200
MAX_SNAPSHOT_BYTES = 1 << 20
MAX_EVENTS = 2_000
MAX_EVENT_CHARACTERS = 2_000
MAX_PENDING = 1_000

_BESIDE = ("", "-wal", "-journal")  # what holds the content: the file, and beside it the log or the plain journal
_COLUMNS = tuple(field.name for field in fields(Sample))
_COUNTERS = _COLUMNS[2:]
_INSERT_SAMPLE = f"INSERT INTO samples ({', '.join(_COLUMNS)}) VALUES ({', '.join('?' * len(_COLUMNS))})"


class RecordingError(Exception):
    """A recording can't be written or read; the message is one sentence that names the file."""


@dataclass(frozen=True, slots=True)
class Event:
    """Something that happened at a time: a garbage collection, a signal, the first tick found."""

    time: float
    kind: str
    text: str


@dataclass(frozen=True, slots=True)
class Snapshot:
    """The evidence about growing groups at one tick, as the text that its writer stored."""

    tick: int
    payload: str


class Recorder:
    """Writes one recording. Every sample older than 1 s survives a SIGKILL of the program.

    An existing recording at `path` is replaced; any other file is refused, and so is a recording that is open
    elsewhere.
    All methods may be called from any thread. In a forked child they do nothing: the file belongs to the parent.
    A program may close the file's descriptors (`os.closerange`) and get their numbers for files of its own: nothing is
    written to those, and the recording goes on under new ones.
    After a failure (a full disk) one call raises `RecordingError`; from then on the recorder is silent and `error`
    keeps the sentence, so the program that is watched goes on.
    """

    def __init__(
        self,
        path: str | os.PathLike[str],
        program: Sequence[str],
        versions: Mapping[str, str | None],
        *,
        tick_source: str = "unknown",
        max_samples: int = MAX_SAMPLES,
    ) -> None:
        self.path = Path(path)
        self.error: str | None = None
        self._file = self.path.absolute()  # the program may change its folder
        self._pid = os.getpid()
        self._max_samples = max(4, max_samples)
        meta = {
            "tenure": __version__,
            "program": json.dumps(list(program)),
            "versions": json.dumps(dict(versions)),
            "pid": str(self._pid),
            "started": repr(wall_clock()),
            "tick_source": tick_source,
        }
        _create(self.path, meta)
        try:
            self._connect()
        except sqlite3.Error as error:
            raise RecordingError(f"{self.path} can't be written: {error}.") from error
        self._lock = threading.RLock()
        self._samples: list[tuple[float | int | None, ...]] = []
        self._others: list[tuple[str, tuple[object, ...]]] = []
        self._report: str | None = None
        self._rows = 0
        self._snapshots = 0
        self._events = 0
        self._committed = monotonic()
        self._report_committed = float("-inf")
        self._committing = False
        self._closed = False
        self._raised = False
        self._pending = threading.Event()
        self._stop = threading.Event()
        self._timer = threading.Thread(target=self._commit_in_time, name="tenure-recording", daemon=True)
        self._timer.start()

    def add_sample(self, sample: Sample) -> None:
        """Adds the counters of one tick; it is in the file within half a second."""
        counters = (getattr(sample, name) for name in _COUNTERS)
        row = (int(sample.tick), float(sample.seconds), *(None if value is None else int(value) for value in counters))
        if not self._mine():
            return
        with self._lock:
            self._samples.append(row)
            self._added()

    def add_event(self, kind: str, text: str) -> None:
        """Adds something that happened now; texts are cut at 2,000 characters, the newest 2,000 are kept."""
        if not self._mine():
            return
        row = (wall_clock(), _storable(kind), _storable(text[:MAX_EVENT_CHARACTERS]))
        with self._lock:
            self._events += 1
            self._others.append(("INSERT INTO events (time, kind, text) VALUES (?, ?, ?)", row))
            self._added()

    def add_snapshot(self, tick: int, payload: str) -> None:
        """Adds evidence at a tick, as opaque text; above 1 MiB compressed only an event says that it was left out."""
        if not self._mine():
            return
        compressed = zlib.compress(payload.encode("utf-8", "replace"), 6)
        if len(compressed) > MAX_SNAPSHOT_BYTES:
            self.add_event("snapshot", f"the snapshot of tick {tick} was left out: {len(compressed)} bytes compressed.")
            return
        with self._lock:
            self._snapshots += 1
            self._others.append(("INSERT INTO snapshots (tick, payload) VALUES (?, ?)", (int(tick), compressed)))
            self._added()

    def set_report(self, report: Report) -> None:
        """Keeps the latest verdict so far; the file is rewritten with it at most every 3 s, and at `close`."""
        if not self._mine():
            return
        text = json.dumps(to_dict(report), allow_nan=False)
        with self._lock:
            self._report = text
            self._added()

    def set_ticks(self, ticks: Ticks, source: str | None = None) -> None:
        """Keeps what a tick is (unit, function, warm-up), so that a recording without a verdict can still say it."""
        if not self._mine():
            return
        described = {"unit": ticks.unit, "function": ticks.function, "warmup": ticks.warmup}
        with self._lock:
            self._set_meta("ticks", json.dumps(described))
            if source is not None:
                self._set_meta("tick_source", source)
            self._added()

    def flush(self) -> None:
        """Puts everything added so far into the file now."""
        if not self._mine():
            return
        with self._lock:
            self._commit(with_report=True)
            self._raise_once()

    def close(self, exit_status: int | None = None) -> None:
        """Ends the recording cleanly: one plain file is left, with no `-wal` or `-shm` beside it."""
        if os.getpid() != self._pid:
            return
        with self._lock:
            if self._closed:
                return
            self._set_meta("ended", repr(wall_clock()))
            self._set_meta("exit_status", json.dumps(exit_status))
            self._commit(with_report=True)
            self._closed = True
            self._stop.set()
            self._pending.set()
            if _are_still(self._descriptors):
                # A reader that has the file open keeps it in WAL mode: nothing is lost, a `-wal` may stay beside it.
                with contextlib.suppress(sqlite3.Error):
                    self._connection.execute("PRAGMA journal_mode=DELETE")
                self._connection.close()
                ctypes.pythonapi.Py_DecRef(ctypes.py_object(self._connection))
        if threading.current_thread() is not self._timer:
            self._timer.join(timeout=1.0)
        self._raise_once()

    def __enter__(self) -> Recorder:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def _connect(self) -> None:
        before = _open_descriptors(self._file)
        self._connection = _connect_for_writing(self._file)
        self._descriptors = {n: file for n, file in _open_descriptors(self._file).items() if before.get(n) != file}
        # A forked child that ends normally would close its copy of the connection, and closing rolls back and touches
        # the index that it shares with the parent. One reference too many keeps the copy from ever being closed there.
        # It keeps one alive, too, whose descriptors the program has closed: their numbers may be its own by now.
        ctypes.pythonapi.Py_IncRef(ctypes.py_object(self._connection))

    def _keep_apart(self) -> None:
        """Goes on with a new connection when the program has closed the descriptors of this one. Raises OSError."""
        if _are_still(self._descriptors):
            return
        files = set(self._descriptors.values())
        if _identity(os.stat(self._file)) not in files:
            raise OSError("the program closed it and put another file in its place")
        _replace_by_copy(self._file)
        self._connect()

    def _mine(self) -> bool:
        if os.getpid() != self._pid or self._closed:
            return False
        self._raise_once()
        return self.error is None

    def _set_meta(self, key: str, value: str) -> None:
        self._others.append(("INSERT OR REPLACE INTO meta (key, value) VALUES (?, ?)", (key, _storable(value))))

    def _added(self) -> None:
        overdue = monotonic() - self._committed >= COMMIT_EVERY
        if overdue or len(self._samples) + len(self._others) >= MAX_PENDING:
            self._commit()
            self._raise_once()
        if self._next_commit() is not None:
            self._pending.set()

    def _next_commit(self) -> float | None:
        if self._samples or self._others:
            return self._committed + COMMIT_EVERY
        if self._report is not None:
            return self._report_committed + REPORT_EVERY
        return None

    def _commit_in_time(self) -> None:
        """The timer thread: commits what no later tick came to commit. It makes no verdict and walks no heap."""
        while True:
            self._pending.wait()
            with self._lock:
                due = self._next_commit()
                if due is None and not self._closed:
                    self._pending.clear()
                    continue
            if self._closed or due is None or self._stop.wait(max(0.0, due - monotonic())):
                return
            with self._lock:
                due = self._next_commit()
                if due is not None and due <= monotonic() and not self._closed:
                    self._commit()

    def _commit(self, with_report: bool = False) -> None:
        # A finaliser that runs in the middle of a commit may add an event on this thread: it waits for the next one.
        if self._committing or self.error is not None:
            return
        self._committing = True
        samples, self._samples = self._samples, []
        others, self._others = self._others, []
        try:
            self._keep_apart()
            try:
                self._write(samples, others, with_report)
            except sqlite3.Error:
                if _are_still(self._descriptors):
                    raise
                self._keep_apart()  # closed in the middle of it
                self._write(samples, others, with_report)
        except (sqlite3.Error, OverflowError, OSError) as error:
            reason = error.strerror or str(error) if isinstance(error, OSError) else error
            self.error = f"{self.path} can't be written any more: {reason}."
            self._samples, self._others, self._report = [], [], None
            if _are_still(self._descriptors):
                with contextlib.suppress(sqlite3.Error):
                    self._connection.rollback()
        finally:
            self._committed = monotonic()
            self._committing = False

    def _write(
        self,
        samples: list[tuple[float | int | None, ...]],
        others: list[tuple[str, tuple[object, ...]]],
        with_report: bool,
    ) -> None:
        now = monotonic()
        connection, report = self._connection, None
        connection.execute("BEGIN IMMEDIATE")
        connection.executemany(_INSERT_SAMPLE, samples)
        for statement, row in others:
            connection.execute(statement, row)
        if self._report is not None and (with_report or now - self._report_committed >= REPORT_EVERY):
            report = self._report
            store = "INSERT OR REPLACE INTO findings (id, time, json) VALUES (1, ?, ?)"
            connection.execute(store, (wall_clock(), report))
            self._report_committed = now
        self._rows += len(samples)
        self._bound(connection)
        connection.execute("COMMIT")
        if self._report is report:
            self._report = None

    def _bound(self, connection: sqlite3.Connection) -> None:
        while self._rows > self._max_samples:
            self._rows -= _thin(connection, "samples", self._max_samples // 2)
        while self._snapshots > MAX_SNAPSHOTS:
            self._snapshots -= _thin(connection, "snapshots", MAX_SNAPSHOTS // 2)
        if self._events > MAX_EVENTS:
            cut = "DELETE FROM events WHERE seq <= (SELECT seq FROM events ORDER BY seq DESC LIMIT 1 OFFSET ?)"
            self._events -= connection.execute(cut, (MAX_EVENTS // 2,)).rowcount

    def _raise_once(self) -> None:
        if self.error is not None and not self._raised:
            self._raised = True
            raise RecordingError(self.error)


@dataclass(frozen=True, slots=True)
class Recording:
    """What a recording holds. `report` is the last verdict stored, None if the program ended before the first one."""

    path: Path
    meta: Mapping[str, str]
    samples: tuple[Sample, ...]
    events: tuple[Event, ...]
    snapshots: tuple[Snapshot, ...]
    report: Report | None

    @property
    def ended(self) -> bool:
        """True when the writer closed the recording; False when it was killed or is still running."""
        return "ended" in self.meta

    @property
    def program(self) -> tuple[str, ...]:
        """The program and its arguments."""
        return tuple(str(word) for word in json.loads(self.meta.get("program", "[]")))

    @property
    def versions(self) -> dict[str, str | None]:
        """The versions of TensorFlow, Keras, Python and the like that the writer named."""
        return dict(json.loads(self.meta.get("versions", "{}")))

    @property
    def exit_status(self) -> int | None:
        """The program's exit status, None when it was not stored."""
        status = json.loads(self.meta.get("exit_status", "null"))
        return None if status is None else int(status)


def open_recording(path: str | os.PathLike[str]) -> Recording:
    """The recording at `path`, read whole; its writer may have been killed at any moment or may still be running.

    Nothing is written to the recording. Where SQLite can't open it in place (a read-only directory with no index beside
    the log) a copy in a temporary directory is read. Raises `RecordingError` when the file is missing, of another kind,
    damaged, or written by a newer version.
    """
    path = Path(path)
    if path.is_dir():
        raise RecordingError(f"{path} is a directory, not a recording.")
    if not path.exists():
        raise RecordingError(f"{path} does not exist.")
    if not path.is_file():
        raise RecordingError(f"{path} is a device or a pipe, not a recording.")
    if not os.access(path, os.R_OK):
        raise RecordingError(f"{path} can't be read: permission denied.")
    if path.stat().st_size == 0:
        raise RecordingError(f"{path} is empty, not a recording.")
    try:
        try:
            return _read(path, path)
        except sqlite3.OperationalError:
            with tempfile.TemporaryDirectory(prefix="tenure-") as folder:
                return _read(_copy(path, Path(folder)), path)
    except sqlite3.DatabaseError as error:
        if "not a database" in str(error):
            raise RecordingError(f"{path} is not a tenure recording.") from error
        raise RecordingError(f"{path} is damaged or can't be read: {error}.") from error
    except (OSError, TypeError, ValueError, zlib.error) as error:
        raise RecordingError(f"{path} is damaged or can't be read: {error}.") from error


def _read(file: Path, path: Path) -> Recording:
    address = f"{file.absolute().as_uri()}?mode=ro"
    with contextlib.closing(sqlite3.connect(address, uri=True, timeout=5.0)) as connection:
        _check_ours(connection, path)
        # One read transaction, so that a writer that goes on does not tear the picture.
        connection.execute("BEGIN")
        present = {str(row[1]) for row in connection.execute("PRAGMA table_info(samples)")}
        known = [name for name in _COLUMNS if name in present]
        query = f"SELECT {', '.join(known)} FROM samples ORDER BY seq"
        samples = tuple(Sample(**dict(zip(known, row, strict=True))) for row in connection.execute(query))
        meta = {str(key): str(value) for key, value in connection.execute("SELECT key, value FROM meta")}
        events = tuple(Event(*row) for row in connection.execute("SELECT time, kind, text FROM events ORDER BY seq"))
        snapshots = tuple(
            Snapshot(int(tick), zlib.decompress(payload).decode())
            for tick, payload in connection.execute("SELECT tick, payload FROM snapshots ORDER BY seq")
        )
        stored = connection.execute("SELECT json FROM findings WHERE id = 1").fetchone()
    report = None if stored is None else from_dict(json.loads(stored[0]))
    return Recording(path, meta, samples, events, snapshots, report)


def _copy(path: Path, folder: Path) -> Path:
    copy = folder / "recording"
    shutil.copyfile(path, copy)
    log = path.with_name(path.name + "-wal")
    if log.exists():
        shutil.copyfile(log, copy.with_name(copy.name + "-wal"))
    return copy


def _check_ours(connection: sqlite3.Connection, path: Path) -> None:
    application = connection.execute("PRAGMA application_id").fetchone()[0]
    if application != APPLICATION_ID:
        raise RecordingError(f"{path} is not a tenure recording.")
    version = connection.execute("PRAGMA user_version").fetchone()[0]
    if version > SCHEMA_VERSION:
        raise RecordingError(
            f"{path} was written by a newer tenure (its format is {version}, this one reads up to {SCHEMA_VERSION})."
        )


def _create(path: Path, meta: Mapping[str, str]) -> None:
    """Puts a complete empty recording at `path` in one step: a kill leaves either no file or a readable one."""
    if path.is_dir():
        raise RecordingError(f"{path} is a directory, not a place for a recording.")
    fresh = path.with_name(f".{path.name}.{os.getpid()}.new")
    try:
        _make_room(path)
        fresh.unlink(missing_ok=True)
        with contextlib.closing(sqlite3.connect(fresh, isolation_level=None)) as connection:
            connection.execute("BEGIN")
            connection.execute(f"PRAGMA application_id={APPLICATION_ID}")
            connection.execute(f"PRAGMA user_version={SCHEMA_VERSION}")
            counters = ", ".join(f"{name} INTEGER" for name in _COUNTERS)
            for statement in (
                "CREATE TABLE meta (key TEXT PRIMARY KEY, value TEXT)",
                f"CREATE TABLE samples (seq INTEGER PRIMARY KEY, tick INTEGER, seconds REAL, {counters})",
                "CREATE TABLE snapshots (seq INTEGER PRIMARY KEY, tick INTEGER, payload BLOB)",
                "CREATE TABLE findings (id INTEGER PRIMARY KEY CHECK (id = 1), time REAL, json TEXT)",
                "CREATE TABLE events (seq INTEGER PRIMARY KEY, time REAL, kind TEXT, text TEXT)",
            ):
                connection.execute(statement)
            rows = [(key, _storable(value)) for key, value in meta.items()]
            connection.executemany("INSERT INTO meta (key, value) VALUES (?, ?)", rows)
            connection.execute("COMMIT")
        try:
            os.link(fresh, path)  # fails when another process was first, where a rename would silently win
        except FileExistsError as error:
            raise RecordingError(f"{path} was made by another process a moment ago.") from error
        except OSError:
            os.rename(fresh, path)  # a file system without hard links
    except (sqlite3.Error, OSError) as error:
        raise RecordingError(f"{path} can't be written: {_reason(error, path)}.") from error
    finally:
        with contextlib.suppress(OSError):
            fresh.unlink(missing_ok=True)


def _make_room(path: Path) -> None:
    """Removes an earlier recording at `path`; refuses any other file and a recording that is open somewhere."""
    if path.exists() and path.stat().st_size > 0:
        try:
            with contextlib.closing(sqlite3.connect(path, isolation_level=None, timeout=0.0)) as connection:
                _check_ours(connection, path)
                # Leaving WAL mode needs the file to itself: SQLite refuses while any other connection is open.
                connection.execute("PRAGMA journal_mode=DELETE")
        except sqlite3.OperationalError as error:
            if "locked" in str(error):
                raise RecordingError(f"{path} is open in another recorder or reader.") from error
            raise
        except sqlite3.DatabaseError as error:
            raise RecordingError(f"{path} exists and is not a tenure recording; it was left alone.") from error
    for suffix in ("-wal", "-shm", ""):
        path.with_name(path.name + suffix).unlink(missing_ok=True)


def _connect_for_writing(path: Path) -> sqlite3.Connection:
    connection = sqlite3.connect(path, isolation_level=None, check_same_thread=False, timeout=5.0)
    # Some network file systems have no shared memory for WAL; the plain journal also survives a kill, only slower.
    with contextlib.suppress(sqlite3.OperationalError):
        connection.execute("PRAGMA journal_mode=WAL")
    # NORMAL syncs at checkpoints only: a killed process loses nothing, a power cut loses the last commits at most.
    connection.execute("PRAGMA synchronous=NORMAL")
    connection.execute("PRAGMA cache_size=-512")
    connection.execute(f"PRAGMA journal_size_limit={4 << 20}")
    # The first read opens the log and takes the lock that tells other recorders that this file is in use.
    connection.execute("SELECT count(*) FROM meta").fetchone()
    return connection


def _open_descriptors(path: Path) -> dict[int, tuple[int, int]]:
    """This process's open descriptors of a recording, its log and its index: number to what file that is."""
    files = set()
    for suffix in ("", "-wal", "-shm"):
        with contextlib.suppress(OSError):
            files.add(_identity(os.stat(path.with_name(path.name + suffix))))
    found: dict[int, tuple[int, int]] = {}
    with contextlib.suppress(OSError):
        for name in os.listdir("/proc/self/fd" if os.path.isdir("/proc/self/fd") else "/dev/fd"):
            with contextlib.suppress(OSError):
                identity = _identity(os.fstat(int(name)))
                if identity in files:
                    found[int(name)] = identity
    return found


def _are_still(descriptors: Mapping[int, tuple[int, int]]) -> bool:
    """Whether each of these numbers is still open and means the same file."""
    try:
        return all(_identity(os.fstat(number)) == file for number, file in descriptors.items())
    except OSError:
        return False


def _identity(status: os.stat_result) -> tuple[int, int]:
    return status.st_dev, status.st_ino


def _replace_by_copy(path: Path) -> None:
    """Puts a copy with the log's content in the place of a recording.

    SQLite keeps one state for each file of a process, stale descriptors with it: a second connection to the same file
    would use those of the first. A copy is another file. A kill between the steps loses nothing: the log holds pages
    that the copy has already.
    """
    fresh = path.with_name(f".{path.name}.{os.getpid()}.new")
    try:
        for suffix in _BESIDE:
            with contextlib.suppress(FileNotFoundError):
                shutil.copy(path.with_name(path.name + suffix), fresh.with_name(fresh.name + suffix))
        with contextlib.closing(sqlite3.connect(fresh, isolation_level=None)) as connection:
            connection.execute("PRAGMA journal_mode=DELETE")
        os.replace(fresh, path)
        for suffix in ("-shm", *_BESIDE[1:]):
            path.with_name(path.name + suffix).unlink(missing_ok=True)
    finally:
        for suffix in ("-shm", *_BESIDE):
            fresh.with_name(fresh.name + suffix).unlink(missing_ok=True)


def _thin(connection: sqlite3.Connection, table: str, older: int) -> int:
    """The number of rows removed: every second one among the `older` first rows; the very first row stays."""
    return connection.execute(
        f"DELETE FROM {table} WHERE seq IN (SELECT seq FROM"
        f" (SELECT seq, row_number() OVER (ORDER BY seq) AS place FROM {table}) WHERE place <= ? AND place % 2 = 0)",
        (older,),
    ).rowcount


def _storable(text: str) -> str:
    return text.encode("utf-8", "replace").decode()


def _reason(error: Exception, path: Path) -> str:
    if not path.absolute().parent.is_dir():
        return f"there is no directory {path.absolute().parent}"
    if isinstance(error, OSError) and error.strerror:
        return error.strerror.lower()
    return str(error)
