"""`TENURE_RUN=1 python train.py` reports as `tenure run` does, loads nothing without it, and children are quiet."""

from __future__ import annotations

from pathlib import Path

import pytest
from run_fakes import start_watched

pytestmark = pytest.mark.slow

CYCLE = "import time\ndef cycle(i):\n    time.sleep(0.005)\nfor i in range(60):\n    cycle(i)\n"


def test_the_report_is_printed_at_exit(tmp_path: Path) -> None:
    (tmp_path / "train.py").write_text(
        CYCLE + "import atexit, sys\natexit.register(lambda: print('mine', file=sys.stderr))\nprint('out')\n"
    )
    done = start_watched(["train.py"], tmp_path)
    assert (done.returncode, done.stdout) == (0, "out\n")
    assert "tenure  FLAT" in done.stderr
    assert done.stderr.index("mine") < done.stderr.index("tenure")
    assert "calls" in done.stderr  # the cycle was found


@pytest.mark.parametrize(
    ("ending", "status", "told"),
    [
        ("sys.exit(4)", 4, "status 4"),
        ("1 / 0", 1, "status 1"),
        ("sys.exit('words')", 1, "status 1"),
        ("os._exit(6)", 6, "status 6"),
        ("os.kill(os.getpid(), 2)", -2, "status 130"),
    ],
)
def test_the_status_is_the_programs_own(ending: str, status: int, told: str, tmp_path: Path) -> None:
    (tmp_path / "train.py").write_text(f"import os, sys\n{ending}\n")
    done = start_watched(["train.py"], tmp_path)
    assert done.returncode == status
    assert told in done.stderr
    assert "/tenure/" not in done.stderr


def test_children_that_inherit_the_variable_are_quiet(tmp_path: Path) -> None:
    (tmp_path / "train.py").write_text(
        "import os, subprocess, sys, multiprocessing\ndef f(x): return x\nif __name__ == '__main__':\n"
        "    subprocess.run([sys.executable, 'other.py'], check=True)\n"
        "    with multiprocessing.get_context('spawn').Pool(1) as p: p.map(f, [1])\n"
        "    with multiprocessing.get_context('fork').Pool(1) as p: p.map(f, [1])\n"
        "    pid = os.fork()\n    if pid: os.waitpid(pid, 0)\n"
    )
    (tmp_path / "other.py").write_text("print('other')\n")
    done = start_watched(["train.py"], tmp_path)
    assert done.stdout == "other\n"
    assert done.stderr.count("tenure") == 1, done.stderr


@pytest.mark.parametrize("words", [["nothere.py"], ["sub/nothere.py", "a"]])
def test_a_script_that_is_not_there_has_no_report(words: list[str], tmp_path: Path) -> None:
    done = start_watched(words, tmp_path)
    assert done.returncode == 2
    assert "tenure" not in done.stderr


def test_without_the_variable_nothing_is_loaded(tmp_path: Path) -> None:
    (tmp_path / "train.py").write_text("import sys\nprint([m for m in sys.modules if m.startswith('tenure.cli')])\n")
    for value in ("", "0", "false"):
        done = start_watched(["train.py"], tmp_path, env={"TENURE_RUN": value})
        assert done.stderr == ""
        if not value:
            assert done.stdout == "[]\n"


def test_a_module_and_its_arguments_are_named(tmp_path: Path) -> None:
    (tmp_path / "part.py").write_text("import sys\nprint(sys.argv[1:], 'click' in sys.modules)\n")
    done = start_watched(["-m", "part", "a", "-b"], tmp_path)
    assert done.stdout == "['a', '-b'] False\n"
    assert "tenure  FLAT" in done.stderr
