"""A report survives what the program does to its folder, its streams and its own name."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from run_fakes import RUN, python, run, tenure

pytestmark = pytest.mark.slow

LEAKING = """
import time
held = []
def cycle(i):
    held.append(bytearray(20_000))
    time.sleep(0.005)
"""
TURNS = "for i in range(150):\n    cycle(i)\n"


def holder(report: Path) -> Any:
    found = json.loads(report.read_text())
    assert found["verdict"] == "leak"
    return found["findings"][0]["holder"]


def test_the_folder_that_the_program_removed(tmp_path: Path) -> None:
    (tmp_path / "gone").mkdir()
    (tmp_path / "train.py").write_text(f"{LEAKING}import os\nos.chdir('gone')\n{TURNS}os.rmdir('../gone')\n")
    done = tenure(["run", "--json", "out.json", "--report", "out.html", "train.py"], tmp_path)
    assert (done.returncode, done.stderr[:12]) == (0, "tenure  LEAK"), done.stderr
    assert (tmp_path / "out.html").exists()
    assert holder(tmp_path / "out.json")["file"] == "train.py"


def test_a_name_that_is_no_utf_8(tmp_path: Path) -> None:
    name = os.fsdecode(b"caf\xe9.py")
    (tmp_path / name).write_text(LEAKING + TURNS)
    done = tenure(["run", "--json", "out.json", "--report", "out.html", "--record", "r.db", name], tmp_path)
    assert (done.returncode, done.stderr[:12]) == (0, "tenure  LEAK"), done.stderr
    assert holder(tmp_path / "out.json")["file"] == name
    assert "LEAK" in (tmp_path / "out.html").read_text().upper()
    assert tenure(["report", "r.db"], tmp_path).stdout.startswith("tenure  LEAK")


def test_a_relative_file_is_seen_from_where_the_program_began(tmp_path: Path) -> None:
    (tmp_path / "inner").mkdir()
    (tmp_path / "inner" / "deep.py").write_text(f"{LEAKING}import os\nos.chdir('/')\n{TURNS}")
    (tmp_path / "app").mkdir()
    (tmp_path / "app" / "train.py").write_text("import runpy\nrunpy.run_path('inner/deep.py', run_name='deep')\n")
    tenure(["run", "--json", "out.json", "app/train.py"], tmp_path)
    found = holder(tmp_path / "out.json")
    assert (found["file"], found["line"]) == (str(tmp_path / "inner" / "deep.py"), 5)


@pytest.mark.parametrize(
    "body",
    [
        "sys.stderr.close()",
        "sys.stdout.close()",
        "sys.stderr.close()\nsys.exit('words')",
        "sys.stderr = None\nsys.exit('words')",
        "sys.stderr.close()\n1 / 0",
        "sys.stdout = sys.stderr = None",
    ],
)
def test_a_stream_that_the_program_closed(body: str, tmp_path: Path) -> None:
    (tmp_path / "train.py").write_text(f"import sys\nprint('out')\n{body}\n")
    watched, plain = run(["--json", "out.json", "train.py"], tmp_path), python(["train.py"], tmp_path)
    assert (watched.returncode, watched.stdout) == (plain.returncode, plain.stdout), watched.stderr
    assert watched.stderr.count("tenure  FLAT") == 1
    assert ("words" in watched.stderr) == ("words" in plain.stderr)
    assert (tmp_path / "out.json").exists()


def test_what_took_the_number_of_a_closed_stderr_is_not_written_to(tmp_path: Path) -> None:
    (tmp_path / "train.py").write_text(
        "import os, sys\nsys.stderr.close()\nos.close(2)\nos.open('data', os.O_CREAT | 1)\nos.write(2, b'x')\n"
    )
    assert run(["--json", "out.json", "train.py"], tmp_path).returncode == 0
    assert (tmp_path / "data").read_text() == "x"
    assert (tmp_path / "out.json").exists()


@pytest.mark.parametrize("closed", [">&-", "2>&-", ">&- 2>&- <&-", "| true", "2>&1 | true"])
def test_a_stream_that_was_never_open_or_has_no_reader(closed: str, tmp_path: Path) -> None:
    (tmp_path / "train.py").write_text("import time\ntime.sleep(0.3)\nopen('ran', 'w').close()\n")
    words = [sys.executable, "-c", RUN, "run", "--json", "out.json", "train.py"]
    done = subprocess.run(["sh", "-c", f'"$@" {closed}', "sh", *words], cwd=tmp_path, capture_output=True, timeout=60)
    assert done.returncode == 0
    assert b"Traceback" not in done.stderr
    assert (tmp_path / "ran").exists()
    assert (tmp_path / "out.json").exists()
