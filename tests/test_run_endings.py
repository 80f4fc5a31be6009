"""A program that is stopped leaves its report, dies as it would have, and its children make no noise."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import threading
import time
from importlib.util import find_spec
from pathlib import Path

import pytest
from run_fakes import run, start

pytestmark = pytest.mark.slow

WORK = """
import sys, time
def cycle(i):
    time.sleep(0.005)
print("ready", flush=True)
for i in range(4000):
    cycle(i)
"""


def stopped(process: subprocess.Popen[str], number: int, seconds: float = 0.6) -> tuple[int, str]:
    assert process.stdout is not None
    assert process.stdout.readline() == "ready\n"
    time.sleep(seconds)
    process.send_signal(number)
    _, err = process.communicate(timeout=30)
    return process.returncode, err


def test_ctrl_c_reports_so_far_and_dies_of_sigint(tmp_path: Path) -> None:
    (tmp_path / "train.py").write_text(WORK)
    process = start(["--json", "out.json", "train.py"], tmp_path)
    status, err = stopped(process, signal.SIGINT)
    assert status == -signal.SIGINT  # a shell shows 130
    assert "KeyboardInterrupt" in err
    report = json.loads((tmp_path / "out.json").read_text())
    assert report["exit_status"] == 130
    assert report["ticks"]["function"] == "train.cycle"
    assert report["ticks"]["count"] > 10


def test_ctrl_c_twice_in_a_row_does_not_cost_the_report(tmp_path: Path) -> None:
    (tmp_path / "train.py").write_text(WORK)
    process = start(["train.py"], tmp_path, env={"FAKE_FINISH_TAKES": "0.6"})
    threading.Timer(0.9, process.send_signal, (signal.SIGINT,)).start()
    status, err = stopped(process, signal.SIGINT)
    assert status == -signal.SIGINT
    assert (err.count("Traceback"), err.count("tenure  FLAT")) == (1, 1)


def test_ctrl_c_again_ends_a_report_that_takes_long(tmp_path: Path) -> None:
    (tmp_path / "train.py").write_text(WORK)
    process = start(["train.py"], tmp_path, env={"FAKE_FINISH_TAKES": "30"})
    for seconds in (2.2, 2.3):
        threading.Timer(seconds, process.send_signal, (signal.SIGINT,)).start()
    status, err = stopped(process, signal.SIGINT)
    assert status == -signal.SIGINT
    assert err.endswith("KeyboardInterrupt\ntenure: interrupted before the report was complete.\n")
    assert err.count("Traceback") == 1


def test_sigterm_reports_so_far_and_dies_of_sigterm(tmp_path: Path) -> None:
    (tmp_path / "train.py").write_text(WORK)
    process = start(["--json", "out.json", "train.py"], tmp_path)
    status, err = stopped(process, signal.SIGTERM)
    assert status == -signal.SIGTERM
    assert "tenure  FLAT" in err
    assert json.loads((tmp_path / "out.json").read_text())["ticks"]["count"] > 10


def test_the_programs_own_sigterm_handler_is_the_one_that_runs(tmp_path: Path) -> None:
    handler = "import signal, sys\nsignal.signal(signal.SIGTERM, lambda *a: sys.exit(9))\n"
    (tmp_path / "train.py").write_text(handler + WORK)
    status, err = stopped(start(["train.py"], tmp_path), signal.SIGTERM)
    assert status == 9
    assert err.count("tenure  FLAT") == 1


def test_an_ignored_sigterm_stays_ignored(tmp_path: Path) -> None:
    (tmp_path / "train.py").write_text("import signal\nsignal.signal(signal.SIGTERM, signal.SIG_IGN)\n" + WORK)
    process = start(["train.py"], tmp_path)
    assert process.stdout is not None
    process.stdout.readline()
    process.send_signal(signal.SIGTERM)
    time.sleep(0.4)
    assert process.poll() is None
    process.kill()
    process.communicate()


def test_a_report_that_hangs_does_not_keep_a_killed_program_alive(tmp_path: Path) -> None:
    (tmp_path / "train.py").write_text(WORK)
    process = start(["train.py"], tmp_path, env={"FAKE_FINISH_HANGS": "1"})
    began = time.monotonic()
    status, _ = stopped(process, signal.SIGTERM)
    assert status == 143
    assert time.monotonic() - began < 9


def test_kill_leaves_the_recording(tmp_path: Path) -> None:
    (tmp_path / "train.py").write_text(WORK)
    status, _ = stopped(start(["--record", "r.tenure", "train.py"], tmp_path), signal.SIGKILL)
    assert status == -signal.SIGKILL
    assert (tmp_path / "r.tenure").read_text() == "begun"


def test_os_exit_leaves_a_report(tmp_path: Path) -> None:
    (tmp_path / "train.py").write_text("import os\nprint('out', flush=True)\nos._exit(4)\n")
    done = run(["--json", "out.json", "train.py"], tmp_path)
    assert (done.returncode, done.stdout) == (4, "out\n")
    assert done.stderr.count("tenure  FLAT") == 1
    assert json.loads((tmp_path / "out.json").read_text())["exit_status"] == 4


@pytest.mark.parametrize(
    "child",
    [
        "pid = os.fork()\nif pid == 0:\n    turn(0)\n    sys.exit(0)\nos.waitpid(pid, 0)",
        "pid = os.fork()\nif pid == 0:\n    turn(0)\n    os._exit(0)\nos.waitpid(pid, 0)",
        "pid = os.fork()\nif pid == 0:\n    raise SystemExit(0)\nos.waitpid(pid, 0)",
        "p = multiprocessing.get_context('fork').Process(target=turn, args=(0,))\np.start()\np.join()",
        "p = multiprocessing.get_context('spawn').Process(target=turn, args=(0,))\np.start()\np.join()",
        "subprocess.run([sys.executable, '-c', 'pass'])",
        "p = multiprocessing.get_context('fork').Process(target=time.sleep, args=(30,))\n"
        "p.start()\np.terminate()\np.join()\n"
        "assert p.exitcode == -15, p.exitcode",
    ],
)
def test_children_are_quiet(child: str, tmp_path: Path) -> None:
    body = "\n    ".join(child.splitlines())
    (tmp_path / "train.py").write_text(
        "import os, sys, time, multiprocessing, subprocess\ndef turn(i):\n    time.sleep(0.01)\n"
        f"if __name__ == '__main__':\n    for i in range(20): turn(i)\n    {body}\n"
    )
    done = run(["--json", "out.json", "train.py"], tmp_path)
    assert done.returncode == 0, done.stderr
    assert done.stderr.count("tenure") == 1, done.stderr
    assert json.loads((tmp_path / "out.json").read_text())["ticks"]["count"] <= 20
    assert [p.name for p in tmp_path.iterdir() if p.name.startswith(".")] == []


def test_a_closed_stderr_is_no_accident(tmp_path: Path) -> None:
    (tmp_path / "train.py").write_text("import os, sys\nos.close(2)\nprint('out')\n")
    done = run(["train.py"], tmp_path)
    assert (done.returncode, done.stdout) == (0, "out\n")


def test_the_report_is_written_where_the_program_was_started(tmp_path: Path) -> None:
    (tmp_path / "train.py").write_text("import os\nos.chdir('/')\n")
    assert run(["--json", "out.json", "train.py"], tmp_path).returncode == 0
    assert (tmp_path / "out.json").exists()
    assert os.listdir(tmp_path).count("out.json") == 1


@pytest.mark.skipif(find_spec("tenure.probes._signals") is None, reason="the C module is not built here")
@pytest.mark.parametrize(
    "call",
    [
        "hashlib.pbkdf2_hmac('sha256', b'word', b'salt', 100_000_000)",  # without the interpreter's lock
        "sum(itertools.repeat(1, 5_000_000_000))",  # with it
    ],
)
def test_sigterm_ends_a_program_inside_a_long_call_in_c(call: str, tmp_path: Path) -> None:
    (tmp_path / "train.py").write_text(f"import hashlib, itertools\nprint('ready', flush=True)\n{call}\n")
    began = time.monotonic()
    status, err = stopped(start(["train.py"], tmp_path), signal.SIGTERM)
    assert (status, err) == (-signal.SIGTERM, "")
    assert time.monotonic() - began < 8
