"""A program that closes descriptors which are not its own gets their numbers for its files, and those stay its own."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from tenure.observe.recording import open_recording

CLOSES = """
import gc, os, sys, time
from tenure.observe.recording import Recorder
from tenure.records import Sample

path, moment = sys.argv[1:]
recorder = Recorder(path, ["p"], {})
recorder.add_sample(Sample(1, 0.1))
if moment != "at once":
    recorder.flush()
if moment == "one of them":
    os.close(max(recorder._descriptors))
else:
    os.closerange(3, 256)
mine = [os.open(f"{path}.mine{n}", os.O_RDWR | os.O_CREAT) for n in range(20)]
for fd in mine:
    os.write(fd, b"my own content" * 1000)
if moment == "replaced":
    with open(path + ".next.mine", "w") as file:
        file.write("my own file")
    os.replace(path + ".next.mine", path)
try:
    for tick in range(2, 30):
        recorder.add_sample(Sample(tick, 0.1))
        if tick % 10 == 0:
            recorder.flush()
    recorder.add_event("end", "after")
    time.sleep(0.8)
    recorder.close(0)
except Exception as error:
    print(type(error).__name__, error)
del recorder
gc.collect()
for fd in mine:
    assert os.pread(fd, 1 << 20, 0) == b"my own content" * 1000, f"{fd} was written"
    os.close(fd)
"""


def closes(path: Path, moment: str) -> str:
    done = subprocess.run(
        [sys.executable, "-c", CLOSES, str(path), moment],
        env={**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)},
        capture_output=True,
        text=True,
        timeout=60,
    )
    assert done.returncode == 0, done.stderr
    return done.stdout


@pytest.mark.parametrize("moment", ["at once", "later", "one of them"])
def test_a_recording_goes_on_when_its_descriptors_were_closed(tmp_path: Path, moment: str) -> None:
    path = tmp_path / "run.tenure"
    assert closes(path, moment) == ""
    opened = open_recording(path)
    assert [one.tick for one in opened.samples] == list(range(1, 30))
    assert [one.text for one in opened.events] == ["after"]
    assert opened.exit_status == 0
    assert sorted(p.name for p in tmp_path.iterdir() if "mine" not in p.name) == ["run.tenure"]


def test_a_file_in_the_place_of_a_closed_recording_is_left_alone(tmp_path: Path) -> None:
    path = tmp_path / "run.tenure"
    assert closes(path, "replaced") == (
        f"RecordingError {path} can't be written any more: the program closed it and put another file in its place.\n"
    )
    assert path.read_text() == "my own file"
