"""A recording holds what was added, stays bounded, and says in one sentence what is wrong with a file."""

from __future__ import annotations

import json
import os
import resource
import sqlite3
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest
from test_report_fakes import INCONCLUSIVE, LEAK, VERSIONS

from tenure.observe import recording
from tenure.observe.recording import Recorder, RecordingError, open_recording
from tenure.records import Sample, Ticks


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "run.tenure"


@pytest.fixture
def recorder(path: Path) -> Iterator[Recorder]:
    one = Recorder(path, ["train.py", "30"], VERSIONS, tick_source="train.cycle")
    yield one
    one.close()


def sample(tick: int) -> Sample:
    return Sample(tick=tick, seconds=tick / 10, rss=1_000_000 * tick, variables=tick)


def rows(path: Path, table: str) -> int:
    connection = sqlite3.connect(path)
    try:
        return int(connection.execute(f"SELECT count(*) FROM {table}").fetchone()[0])
    finally:
        connection.close()


def test_what_was_added_comes_back(path: Path, recorder: Recorder) -> None:
    added = [sample(tick) for tick in range(50)]
    for one in added:
        recorder.add_sample(one)
    recorder.add_event("gc", "a collection took 40 ms")
    recorder.add_snapshot(7, '{"groups": "größer"}')
    recorder.set_ticks(Ticks("fit", "train.cycle", 50, 3))
    recorder.set_report(LEAK)
    recorder.close(exit_status=3)

    opened = open_recording(path)

    assert opened.samples == tuple(added)
    assert [(event.kind, event.text) for event in opened.events] == [("gc", "a collection took 40 ms")]
    assert abs(opened.events[0].time - time.time()) < 60
    assert [(one.tick, one.payload) for one in opened.snapshots] == [(7, '{"groups": "größer"}')]
    assert opened.report is not None
    assert opened.report.verdict == "leak"
    assert opened.report.findings[0].cause == "gradient-registry"
    assert opened.program == ("train.py", "30")
    assert opened.versions == VERSIONS
    assert opened.meta["tick_source"] == "train.cycle"
    assert json.loads(opened.meta["ticks"]) == {"unit": "fit", "function": "train.cycle", "warmup": 3}
    assert int(opened.meta["pid"]) == os.getpid()
    assert opened.exit_status == 3
    assert opened.ended


def test_a_clean_end_leaves_one_plain_file(path: Path, recorder: Recorder) -> None:
    recorder.add_sample(sample(1))
    recorder.close()

    assert sorted(file.name for file in path.parent.iterdir()) == ["run.tenure"]


def test_a_running_recording_can_be_read(path: Path, recorder: Recorder) -> None:
    recorder.add_sample(sample(1))
    recorder.flush()

    opened = open_recording(path)

    assert opened.samples == (sample(1),)
    assert not opened.ended
    assert opened.report is None


def test_a_sample_with_no_tick_after_it_is_committed_within_a_second(path: Path, recorder: Recorder) -> None:
    recorder.add_sample(sample(1))

    time.sleep(0.9)

    assert open_recording(path).samples == (sample(1),)


def test_a_slow_tick_is_committed_at_once(path: Path, recorder: Recorder) -> None:
    time.sleep(0.6)
    recorder.add_sample(sample(1))

    assert rows(path, "samples") == 1


def test_fast_ticks_do_not_commit_each(path: Path, recorder: Recorder) -> None:
    for tick in range(20):
        recorder.add_sample(sample(tick))

    assert rows(path, "samples") == 0


def test_the_verdict_is_rewritten_seldom_and_the_last_one_stays(
    path: Path, recorder: Recorder, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(recording, "REPORT_EVERY", 1.2)
    recorder.set_report(LEAK)
    time.sleep(0.7)
    first = open_recording(path).report
    recorder.set_report(INCONCLUSIVE)
    time.sleep(0.1)
    second = open_recording(path).report
    time.sleep(1.6)
    third = open_recording(path).report

    assert [one and one.verdict for one in (first, second, third)] == ["leak", "leak", "inconclusive"]
    assert rows(path, "findings") == 1


def test_samples_are_thinned_and_the_newest_and_the_first_stay(path: Path) -> None:
    with Recorder(path, ["p"], {}, max_samples=1000) as one:
        for tick in range(25_000):
            one.add_sample(sample(tick))

    ticks = [kept.tick for kept in open_recording(path).samples]
    assert len(ticks) <= 2000
    assert ticks == sorted(set(ticks))
    assert ticks[0] == 0
    assert ticks[-500:] == list(range(24_500, 25_000))
    assert ticks[50] - ticks[0] > 100


def test_events_and_snapshots_are_bounded(path: Path) -> None:
    with Recorder(path, ["p"], {}) as one:
        for number in range(3000):
            one.add_event("kind", f"{number} " + "x" * 5000)
        for number in range(500):
            one.add_snapshot(number, str(number))
        one.add_snapshot(500, os.urandom(1_500_000).hex())

    opened = open_recording(path)
    assert len(opened.events) <= recording.MAX_EVENTS
    assert all(len(event.text) <= recording.MAX_EVENT_CHARACTERS for event in opened.events)
    assert "snapshot of tick 500 was left out" in opened.events[-1].text
    assert len(opened.snapshots) <= recording.MAX_SNAPSHOTS
    assert opened.snapshots[-1].payload == "499"


def test_what_waits_for_a_commit_is_bounded(recorder: Recorder) -> None:
    most = 0
    for tick in range(5000):
        recorder.add_sample(sample(tick))
        most = max(most, len(recorder._samples))

    assert most <= recording.MAX_PENDING


def test_threads_may_add_together(path: Path, recorder: Recorder) -> None:
    def add(start: int) -> None:
        for tick in range(start, start + 300):
            recorder.add_sample(sample(tick))

    threads = [threading.Thread(target=add, args=(start,)) for start in (0, 300, 600)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    recorder.close()

    assert sorted(one.tick for one in open_recording(path).samples) == list(range(900))


def test_a_new_recording_replaces_an_old_one(path: Path, recorder: Recorder) -> None:
    recorder.add_sample(sample(1))
    recorder.close()
    with Recorder(path, ["other.py"], {}) as second:
        second.add_sample(sample(2))

    opened = open_recording(path)
    assert opened.program == ("other.py",)
    assert opened.samples == (sample(2),)


def test_a_recording_that_is_being_written_is_not_replaced(path: Path, recorder: Recorder) -> None:
    with pytest.raises(RecordingError, match=r"run\.tenure is open in another recorder or reader\.$"):
        Recorder(path, ["other.py"], {})
    recorder.add_sample(sample(1))
    recorder.flush()

    assert open_recording(path).samples == (sample(1),)


def test_numpy_like_integers_are_stored(path: Path, recorder: Recorder) -> None:
    class Int64:
        def __int__(self) -> int:
            return 7

    recorder.add_sample(replace(sample(1), rss=Int64()))  # type: ignore[arg-type]
    recorder.close()

    assert open_recording(path).samples[0].rss == 7


CHILD = """
import os, sys, time
from tenure.observe.recording import Recorder
from tenure.records import Sample
recorder = Recorder(sys.argv[1], ["p"], {})
recorder.add_sample(Sample(1, 0.1))
child = os.fork()
if child == 0:
    recorder.add_sample(Sample(2, 0.2))
    recorder.add_event("child", "was here")
    recorder.flush()
    recorder.close()
    recorder = None
    sys.exit(0)
os.waitpid(child, 0)
recorder.add_sample(Sample(3, 0.3))
recorder.close()
"""


def test_a_forked_child_writes_nothing(path: Path) -> None:
    subprocess.run([sys.executable, "-W", "ignore", "-c", CHILD, str(path)], check=True, timeout=60)

    opened = open_recording(path)
    assert [one.tick for one in opened.samples] == [1, 3]
    assert opened.events == ()
    assert opened.ended


def test_the_names_of_columns_may_grow(path: Path, recorder: Recorder) -> None:
    recorder.add_sample(sample(1))
    recorder.close()
    connection = sqlite3.connect(path)
    connection.execute("ALTER TABLE samples ADD COLUMN of_tomorrow INTEGER")
    connection.execute("ALTER TABLE samples DROP COLUMN graphs")
    connection.commit()
    connection.close()

    assert open_recording(path).samples == (sample(1),)


def broken(path: Path, kind: str) -> None:
    if kind == "missing":
        return
    if kind == "directory":
        path.mkdir()
    elif kind == "empty":
        path.touch()
    elif kind == "text":
        path.write_text("this is no recording, it is a long text about something else\n" * 100)
    elif kind == "other database":
        connection = sqlite3.connect(path)
        connection.execute("CREATE TABLE samples (x)")
        connection.close()
    else:
        with Recorder(path, ["p"], {}) as one:
            for tick in range(2000):
                one.add_sample(sample(tick))
            one.set_report(LEAK)
        if kind == "cut":
            path.write_bytes(path.read_bytes()[: path.stat().st_size // 2])
        elif kind == "scrambled":
            data = bytearray(path.read_bytes())
            data[4096:] = os.urandom(len(data) - 4096)
            path.write_bytes(data)
        elif kind == "bad report":
            connection = sqlite3.connect(path)
            connection.execute("""UPDATE findings SET json = '{"schema": "tenure/report/1"}'""")
            connection.commit()
            connection.close()
        elif kind == "newer":
            connection = sqlite3.connect(path)
            connection.execute("PRAGMA user_version=2")
            connection.close()


@pytest.mark.parametrize(
    ("kind", "sentence"),
    [
        ("missing", "does not exist"),
        ("directory", "is a directory"),
        ("empty", "is empty"),
        ("text", "is not a tenure recording"),
        ("other database", "is not a tenure recording"),
        ("cut", "is damaged"),
        ("scrambled", "is damaged"),
        ("bad report", "is damaged"),
        ("newer", "was written by a newer tenure"),
    ],
)
def test_a_file_that_is_no_good_is_told_in_one_sentence(path: Path, kind: str, sentence: str) -> None:
    broken(path, kind)

    with pytest.raises(RecordingError) as caught:
        open_recording(path)

    message = str(caught.value)
    assert sentence in message
    assert str(path) in message
    assert message.endswith(".")
    assert "\n" not in message


@pytest.mark.parametrize("kind", ["directory", "text", "other database", "newer"])
def test_another_file_is_never_overwritten(path: Path, kind: str) -> None:
    broken(path, kind)
    before = path.read_bytes() if path.is_file() else None

    with pytest.raises(RecordingError):
        Recorder(path, ["p"], {})

    assert (path.read_bytes() if path.is_file() else None) == before
    assert [file.name for file in path.parent.iterdir()] == [path.name]


def test_a_place_that_is_not_there_is_told(tmp_path: Path) -> None:
    with pytest.raises(RecordingError, match=r"can't be written: there is no directory .*nowhere"):
        Recorder(tmp_path / "nowhere" / "run.tenure", ["p"], {})


def test_a_full_disk_raises_once_and_then_is_silent(path: Path) -> None:
    one = Recorder(path, ["p"], {})
    one._connection.execute("PRAGMA max_page_count=20")
    one.add_sample(sample(0))
    with pytest.raises(RecordingError, match=r"run\.tenure can't be written any more: .*full"):
        for tick in range(1, 50_000):
            one.add_sample(sample(tick))
    assert one.error is not None
    one.add_sample(sample(1))
    one.set_report(LEAK)
    one.close()

    assert open_recording(path).samples[0] == sample(0)


LIMITED = """
import resource, sys
from tenure.observe.recording import Recorder, RecordingError
from tenure.records import Sample
resource.setrlimit(resource.RLIMIT_FSIZE, (200_000, 200_000))
recorder = Recorder(sys.argv[1], ["p"], {})
try:
    for tick in range(100_000):
        recorder.add_sample(Sample(tick, 0.1, rss=tick))
except RecordingError as error:
    print(error)
recorder.close()
"""


def test_a_file_that_may_not_grow_is_told_and_stays_readable(path: Path) -> None:
    assert resource.getrlimit(resource.RLIMIT_FSIZE)[1] == resource.RLIM_INFINITY
    done = subprocess.run([sys.executable, "-c", LIMITED, str(path)], capture_output=True, text=True, timeout=60)

    assert done.returncode == 0, done.stderr
    assert "can't be written any more" in done.stdout
    assert len(open_recording(path).samples) > 100


READER = """
import os, sys, urllib.parse  # pathlib's own import on Python 3.13, which may lie where nobody can read
from tenure.observe.recording import open_recording
if os.geteuid() == 0:  # root may write anywhere: read as nobody
    os.setuid(65534)
opened = open_recording(sys.argv[1])
print(len(opened.samples), opened.ended)
"""

KILLED = """
import os, signal, sys
from tenure.observe.recording import Recorder
from tenure.records import Sample
recorder = Recorder(sys.argv[1], ["p"], {})
for tick in range(40):
    recorder.add_sample(Sample(tick, 0.1))
recorder.flush()
os.kill(os.getpid(), signal.SIGKILL)
"""


@pytest.mark.parametrize("index_left", [True, False])
def test_a_killed_recording_opens_in_a_read_only_directory(tmp_path: Path, index_left: bool) -> None:
    folder = tmp_path / "frozen"
    folder.mkdir()
    path = folder / "run.tenure"
    subprocess.run([sys.executable, "-c", KILLED, str(path)], check=False, timeout=60)
    names = {file.name for file in folder.iterdir()}
    assert names == {"run.tenure", "run.tenure-wal", "run.tenure-shm"}
    if not index_left:
        (folder / "run.tenure-shm").unlink()
    for file in folder.iterdir():
        file.chmod(0o444)
    folder.chmod(0o555)
    for parent in (tmp_path, *tmp_path.parents[:2]) if os.geteuid() == 0 else ():
        parent.chmod(0o755)
    try:
        done = subprocess.run([sys.executable, "-c", READER, str(path)], capture_output=True, text=True, timeout=60)
        left = {file.name for file in folder.iterdir()}
    finally:
        folder.chmod(0o755)

    assert (done.stdout, done.returncode) == ("40 False\n", 0), done.stderr
    assert left == names - (set() if index_left else {"run.tenure-shm"})
