"""Runs `tenure run`, or a program under `TENURE_RUN=1`, in a process of its own with a watching that only counts."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from pathlib import Path
from typing import Any

SOURCE = Path(__file__).parents[1] / "src"

FAKE = """
import sys, types, os, pathlib
from tenure import records
class Watching:
    def __init__(self, program, record, redact):
        self.program, self.record, self.redact = program, record, redact
        self.unit, self.function, self.count, self.found = "tick", None, 0, 0
        self.threads = set()
    def start(self):
        if self.record:
            pathlib.Path(self.record).write_text("begun")
    def set_ticks(self, unit, function):
        self.unit, self.function, self.count = unit, function, 0
        self.found += 1
    def epoch(self, batches):
        pass
    def tick(self, turns=1):
        import threading
        self.count += turns
        self.threads.add(threading.get_ident())
        if os.environ.get("FAKE_TICK_FAILS"):
            raise RuntimeError("no tick today")
        return 1
    def finish(self, exit_status):
        if os.environ.get("FAKE_FINISH_HANGS"):
            import time; time.sleep(60)
        if os.environ.get("FAKE_FINISH_TAKES"):
            import time; time.sleep(float(os.environ["FAKE_FINISH_TAKES"]))
        leak = os.environ.get("FAKE_LEAK")
        findings = ()
        if leak:
            findings = (records.Finding("unattributed-growth", "TEN900", "leak", "user", 0.9, 10.0, None, None, "Look.",
                                        fingerprint=leak),)
        return records.Report("0", {}, self.program, exit_status, "leak" if leak else "flat", "fake",
                              records.Ticks(self.unit, self.function, self.count, self.found), None, findings=findings)
fake = types.ModuleType("tenure.explain.running")
fake.RunWatching = Watching
sys.modules["tenure.explain.running"] = fake
"""

RUN = f"import sys; sys.path[0] = {str(SOURCE)!r}\n" + FAKE + "from tenure.__main__ import main; main()"


def start(arguments: list[str], cwd: Path, *, env: dict[str, str] | None = None, **more: Any) -> subprocess.Popen[str]:
    """`tenure run ARGUMENTS` as a process; its warnings are errors only where the program's are."""
    command = [sys.executable, "-c", RUN, "run", *arguments]
    whole = {**os.environ, **(env or {})}
    # Where the tests run in the background Ctrl-C is ignored, and Python keeps it so.
    before = signal.signal(signal.SIGINT, signal.SIG_DFL)
    try:
        return subprocess.Popen(command, cwd=cwd, env=whole, text=True, stdout=-1, stderr=-1, stdin=-3, **more)
    finally:
        signal.signal(signal.SIGINT, before)


def run(
    arguments: list[str], cwd: Path, *, env: dict[str, str] | None = None, timeout: float = 60
) -> subprocess.CompletedProcess[str]:
    """Runs `tenure run ARGUMENTS` to its end."""
    process = start(arguments, cwd, env=env)
    out, err = process.communicate(timeout=timeout)
    return subprocess.CompletedProcess(arguments, process.returncode, out, err)


def report_of(program: str, cwd: Path, *arguments: str, options: tuple[str, ...] = (), timeout: float = 60) -> Any:
    """Writes the program to train.py, runs it, and gives the JSON report."""
    (cwd / "train.py").write_text(program)
    done = run([*options, "--json", "out.json", "train.py", *arguments], cwd, timeout=timeout)
    assert done.returncode == 0, done.stderr
    return json.loads((cwd / "out.json").read_text())


def python(arguments: list[str], cwd: Path, timeout: float = 60) -> subprocess.CompletedProcess[str]:
    """The same program under plain Python, to compare with."""
    return subprocess.run([sys.executable, *arguments], cwd=cwd, text=True, capture_output=True, timeout=timeout)


def start_watched(
    arguments: list[str], cwd: Path, env: dict[str, str] | None = None
) -> subprocess.CompletedProcess[str]:
    """`TENURE_RUN=1 python ARGUMENTS`, with the start-up hook in a `sitecustomize` as the `.pth` file would run it.

    The hook sets the variable itself: where tenure is installed, its own `.pth` file runs before, without the fakes.
    """
    folder = cwd / "hook"
    folder.mkdir(exist_ok=True)
    hook = (
        f"import os, sys\nsys.path.append({str(SOURCE)!r})\n"
        "if 'WATCH' in os.environ:\n    os.environ['TENURE_RUN'] = os.environ.pop('WATCH')\n"
        f"if os.environ.get('TENURE_RUN'):\n    exec({FAKE!r}, {{}})\n    import tenure.cli.startup\n"
    )
    (folder / "sitecustomize.py").write_text(hook)
    asked = {"TENURE_RUN": "1", **(env or {})}
    whole = {**os.environ, "PYTHONPATH": str(folder), **asked, "WATCH": asked["TENURE_RUN"]}
    del whole["TENURE_RUN"]
    return subprocess.run([sys.executable, *arguments], cwd=cwd, env=whole, text=True, capture_output=True, timeout=60)


def tenure(words: list[str], cwd: Path, **more: Any) -> subprocess.CompletedProcess[str]:
    """`tenure WORDS` with nothing replaced."""
    env = {**os.environ, "PYTHONPATH": str(SOURCE)}
    options = {"stdout": -1, "stderr": -1, **more}
    return subprocess.run([sys.executable, "-m", "tenure", *words], cwd=cwd, env=env, text=True, timeout=60, **options)
