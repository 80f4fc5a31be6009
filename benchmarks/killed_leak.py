"""Kills watched, leaking programs at random moments after 50 ticks: does each recording's report name the leak?

    python benchmarks/killed_leak.py [--kills 100] [--seed 1] [--json FILE]

The program keeps one array of 32 KiB a tick in a list; it runs under `tenure run --record` and prints its own count.
"""

from __future__ import annotations

import argparse
import json
import os
import random
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

from _claims import claim, tell

PROGRAM = """
import sys, time
import numpy as np

history = []


def step(number):
    history.append(np.ones(4096))
    time.sleep(0.004)


for number in range(100_000):
    step(number)
    print(number + 1, flush=True)
"""
LEAST_TICKS = 50
LINES = (9, 14)  # where the array is kept, and where step is called from


def kill_once(folder: Path, number: int, extra: float) -> str:
    """`named`, or what was wrong with the report of one killed program."""
    recording = folder / f"{number}.tenure"
    command = [sys.executable, "-m", "tenure", "run", "--record", str(recording), str(folder / "leaking.py")]
    # A session of its own: whatever the run has forked is killed with it.
    child = subprocess.Popen(
        command, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True, start_new_session=True
    )
    assert child.stdout is not None
    ticks = 0
    deadline = None
    for line in child.stdout:
        ticks = int(line)
        if ticks >= LEAST_TICKS and deadline is None:
            deadline = time.monotonic() + extra
        if deadline is not None and time.monotonic() >= deadline:
            break
    os.killpg(child.pid, signal.SIGKILL)
    child.stdout.close()
    child.wait()
    shown = subprocess.run(
        [sys.executable, "-m", "tenure", "report", "--json", "-", str(recording)],
        capture_output=True,
        text=True,
        check=False,
    )
    if shown.returncode != 0:
        return f"no report: {shown.stderr.strip()}"
    report = json.loads(shown.stdout)
    leaks = [finding for finding in report["findings"] if finding["class"] == "leak"]
    if not leaks:
        return f"{report['verdict']} after {ticks} ticks: {report['why']}"
    places = [place["line"] for place in (leaks[0]["birth"], leaks[0]["holder"]) if place]
    if leaks[0]["cause"] != "tensors-kept" or not set(places) & set(LINES):
        return f"named {leaks[0]['cause']} at {places}"
    return "named"


def main(arguments: Sequence[str] | None = None) -> int:
    """Runs the kills and prints the claim; 0 when it is met."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--kills", type=int, default=100)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--json", type=Path)
    options = parser.parse_args(arguments)
    chance = random.Random(options.seed)
    with tempfile.TemporaryDirectory(prefix="tenure-killed-") as name:
        folder = Path(name)
        (folder / "leaking.py").write_text(PROGRAM)
        extras = [chance.uniform(0.0, 2.0) for _ in range(options.kills)]
        with ThreadPoolExecutor(max_workers=2) as pool:
            outcomes = list(pool.map(lambda pair: kill_once(folder, *pair), enumerate(extras)))
    for outcome in sorted(set(outcomes) - {"named"}):
        print(outcome, file=sys.stderr)
    named = outcomes.count("named")
    text = f"killed after {LEAST_TICKS} ticks of a leaking program: the report names cause and line"
    row = claim(text, named, options.kills, f"of {options.kills}", None, least=True)
    return tell([row], options.json)


if __name__ == "__main__":
    sys.exit(main())
