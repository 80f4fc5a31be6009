"""Kills recording programs at random moments and opens what they left.

    python benchmarks/kill.py [--kills 100] [--seed 1] [--json FILE]

Each child records samples in one of several rhythms and tells the time of each through a pipe. A sample is expected in
the recording when it was older than 1 s at the SIGKILL. Needs no TensorFlow; takes about a minute.
"""

from __future__ import annotations

import argparse
import random
import signal
import subprocess
import sys
import tempfile
import threading
import time
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from _claims import claim, tell

CHILD = """
import os, sys, time
from dataclasses import replace
from tenure.observe.recording import Recorder
from tenure.records import Report, Sample, Ticks

path, rhythm = sys.argv[1:]
report = Report("0", {}, ("child",), None, "flat", "", Ticks("tick", None, 0, 0), None)
recorder = Recorder(path, ["child", rhythm], {"python": "3"}, max_samples=1_000_000)
tick = 0
while True:
    now = time.monotonic()
    recorder.add_sample(Sample(tick=tick, seconds=now, rss=tick * 1000))
    os.write(1, f"{tick} {now!r}\\n".encode())
    tick += 1
    if rhythm == "slow":
        time.sleep(0.37)
    elif rhythm == "stall" and tick % 5 == 0:
        time.sleep(3600 if tick > 20 else 0.01)
    elif rhythm == "busy":
        sum(range(20_000))
    elif rhythm == "full":
        recorder.add_event("tick", f"tick {tick}")
        recorder.add_snapshot(tick, "x" * 2000)
        recorder.set_report(replace(report, why=str(tick)))
        time.sleep(0.002)
    else:
        time.sleep(0.001)
"""

RHYTHMS = ("fast", "slow", "stall", "busy", "full")


@dataclass(frozen=True)
class Outcome:
    """One kill: did the recording open, how many samples were due, how many of them are lost, how old the oldest is."""

    rhythm: str
    delay: float
    error: str | None
    made: int
    due: int
    lost: int
    oldest_lost: float


def kill_once(folder: Path, rhythm: str, delay: float) -> Outcome:
    """Starts a child, kills it after `delay` seconds, opens its recording and counts the samples that are missing."""
    from tenure.observe.recording import RecordingError, open_recording

    path = folder / f"{rhythm}-{time.monotonic_ns()}.tenure"
    child = subprocess.Popen(
        [sys.executable, "-c", CHILD, str(path), rhythm], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    )
    killed: list[float] = []

    def kill() -> None:
        killed.append(time.monotonic())
        child.send_signal(signal.SIGKILL)

    timer = threading.Timer(delay, kill)
    timer.start()
    told, complaint = child.communicate()
    timer.join()
    if child.returncode != -signal.SIGKILL:
        return Outcome(rhythm, delay, f"the child ended by itself: {complaint.strip()}", 0, 0, 0, 0.0)
    truth = {}
    for line in told.splitlines(keepends=True):
        if line.endswith("\n"):
            tick, made_at = line.split()
            truth[int(tick)] = float(made_at)
    due = {tick for tick, made_at in truth.items() if made_at < killed[0] - 1.0}
    if not path.exists() and not truth:
        return Outcome(rhythm, delay, None, 0, 0, 0, 0.0)
    try:
        samples = open_recording(path).samples
    except RecordingError as error:
        return Outcome(rhythm, delay, str(error), len(truth), len(due), len(due), 0.0)
    wrong = [sample for sample in samples if sample.rss != sample.tick * 1000]
    if wrong:
        return Outcome(rhythm, delay, f"{len(wrong)} samples have wrong values", len(truth), len(due), len(due), 0.0)
    lost = truth.keys() - {sample.tick for sample in samples}
    oldest = max((killed[0] - truth[tick] for tick in lost), default=0.0)
    return Outcome(rhythm, delay, None, len(truth), len(due), len(due & lost), oldest)


def cost_of_a_sample(folder: Path, count: int = 20_000) -> float:
    """Seconds that one `add_sample` takes on average, commits included."""
    from tenure.observe.recording import Recorder
    from tenure.records import Sample

    sample = Sample(tick=1, seconds=1.0, rss=1, malloc_used=1, malloc_free=1, pool_used=1, pool_peak=1)
    with Recorder(folder / "cost.tenure", ["cost"], {}) as recorder:
        start = time.perf_counter()
        for _ in range(count):
            recorder.add_sample(sample)
        return (time.perf_counter() - start) / count


def rows(outcomes: list[Outcome], cost: float) -> list[dict[str, Any]]:
    """The claims with their figures, as the benchmarks' JSON has them."""
    kills = len(outcomes)
    opened = sum(outcome.error is None for outcome in outcomes)
    due = sum(outcome.due for outcome in outcomes)
    lost = sum(outcome.lost for outcome in outcomes)
    oldest = max(outcome.oldest_lost for outcome in outcomes)
    if due == 0:
        raise SystemExit("no sample was a second old when its program was killed")
    against = "the killed program's own list of its samples"

    return [
        claim("recordings that open after SIGKILL", opened, kills, f"of {kills}", None, least=True),
        claim("samples older than 1 s that are lost", lost, 0, f"of {due}", against),
        claim("age of the oldest lost sample", round(oldest, 3), 1.0, "s", against),
        claim("cost of one sample", round(cost * 1e6, 1), 50.0, "us", None),
    ]


def main() -> int:
    """Runs the kills and prints the claims; 0 when all are met."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--kills", type=int, default=100)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--json", type=Path)
    options = parser.parse_args()
    chance = random.Random(options.seed)
    # From before the file exists to some commits on; children mostly sleep, four at a time disturb each other little.
    plan = [(RHYTHMS[number % len(RHYTHMS)], chance.uniform(0.05, 3.5)) for number in range(options.kills)]
    with tempfile.TemporaryDirectory(prefix="tenure-kill-") as name:
        folder = Path(name)
        cost = cost_of_a_sample(folder)
        with ThreadPoolExecutor(max_workers=4) as pool:
            outcomes = list(pool.map(lambda one: kill_once(folder, *one), plan))
    for outcome in outcomes:
        if outcome.error is not None or outcome.lost:
            print(outcome, file=sys.stderr)
    return tell(rows(outcomes, cost), options.json)


if __name__ == "__main__":
    sys.exit(main())
