"""What `tenure run` adds to a program that only imports TensorFlow: CPU time of the whole process, over bare Python.

    python benchmarks/imports.py [--rounds 9] [--json FILE]

User and system time of the child as the kernel counts it, start, report and end included; bare, `tenure run` and memray
take turns, and the ratio is the median of the rounds' own. tenure runs from a copy with bytecode, as it is installed.
"""

from __future__ import annotations

import argparse
import compileall
import importlib.util
import os
import resource
import shutil
import statistics
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any

from _claims import claim, tell

GOAL = 1.10
MEMRAY_ROUNDS = 2  # each takes five imports' time


def cpu_of(command: list[str], env: dict[str, str]) -> float:
    """User and system seconds of one child and its children."""
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    done = subprocess.run(command, env=env, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True, check=False)
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    if done.returncode:
        raise SystemExit(f"{' '.join(command)} ended with status {done.returncode}: {done.stderr[-500:]}")
    return after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime


def installed_copy(folder: Path) -> None:
    """Copies tenure and compiles it: a checkout that is never compiled would pay for that at each start."""
    found = importlib.util.find_spec("tenure")
    if found is None or found.origin is None:
        raise SystemExit("tenure can't be imported; install it, or set PYTHONPATH to its src folder")
    shutil.copytree(Path(found.origin).parent, folder / "tenure", ignore=shutil.ignore_patterns("__pycache__"))
    compileall.compile_dir(folder / "tenure", quiet=1)


def measure(rounds: int) -> dict[str, list[float]]:
    """CPU seconds of each round by way of running: bare, tenure, memray (none where memray is not installed)."""
    with tempfile.TemporaryDirectory(prefix="tenure-imports-") as name:
        folder = Path(name)
        installed_copy(folder)
        script = folder / "only_imports.py"
        script.write_text("import tensorflow\n")
        env = {**os.environ, "TF_CPP_MIN_LOG_LEVEL": "3", "CUDA_VISIBLE_DEVICES": "-1", "PYTHONPATH": str(folder)}
        env.pop("TENURE_RUN", None)
        ways = {
            "bare": [sys.executable, str(script)],
            "tenure": [sys.executable, "-m", "tenure", "run", str(script)],
        }
        if importlib.util.find_spec("memray") is not None:
            traced = [sys.executable, "-m", "memray", "run", "-q", "-f", "-o", str(folder / "import.bin"), str(script)]
            ways["memray"] = traced
        figures: dict[str, list[float]] = {way: [] for way in ways}
        cpu_of(ways["bare"], env)  # files into the page cache
        for turn in range(rounds):
            for way in list(ways) if turn % 2 else list(reversed(ways)):
                if way != "memray" or turn < MEMRAY_ROUNDS:
                    figures[way].append(cpu_of(ways[way], env))
        return figures


def rows(figures: dict[str, list[float]]) -> list[dict[str, Any]]:
    """The claim with its figure, as the benchmarks' JSON has it."""

    def over_bare(way: str) -> float:
        return statistics.median(a / b for a, b in zip(figures[way], figures["bare"], strict=False))

    figure = over_bare("tenure")
    memray = f"memray run {over_bare('memray'):.2f}" if figures.get("memray") else "memray is not installed here"
    bare = statistics.median(figures["bare"])
    text = "CPU of `import tensorflow` under `tenure run` over bare Python"
    return [claim(text, round(figure, 3), GOAL, "x", f"bare {bare:.2f} s, {memray}")]


def main() -> int:
    """Prints the claim; 0 when it is met."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("--rounds", type=int, default=9)
    parser.add_argument("--json", type=Path)
    options = parser.parse_args()
    figures = measure(options.rounds)
    claims = rows(figures)
    for way, seconds in figures.items():
        print(f"     {way}: " + " ".join(f"{second:.2f}" for second in seconds) + " CPU-s")
    return tell(claims, options.json)


if __name__ == "__main__":
    sys.exit(main())
