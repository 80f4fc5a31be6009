"""Programs drawn at random whose truth is known: how many leaks `tenure soak` finds, and how often it is wrong.

    python benchmarks/synthetic.py [--programs 80] [--seed 1000] [--json FILE]

Half of the programs leak: 4 KiB to 64 MiB a tick on average, every 1 to 7 ticks, through a list, a closure, an
attribute, a cache of TensorFlow's (the kernel cache), a tf.function's cache, or a thread. All of them do other work
beside: memory that comes and goes in periods, in a sawtooth, in bursts, or that fills a bounded cache during the first
third. A finding is right when the program leaks, its cause is one that the holder stands for, and one of its lines is
the program's.
"""

from __future__ import annotations

import argparse
import json
import os
import random
import subprocess
import sys
import tempfile
from collections import Counter
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from textwrap import dedent

from _claims import claim, tell

KIB, MIB = 1024, 1024 * 1024
MOST_KEPT = 1_200 * MIB  # what one program may leak in all
KERNEL = 36 * KIB  # one cached kernel, measured; see the catalogue's TEN202
BASELINES = ("periodic", "sawtooth", "bursty", "saturating")
PERIODS = (1, 1, 1, 2, 3, 5, 7)
CONFIDENT = 0.95


@dataclass(frozen=True)
class Program:
    """One program: its text, its truth, and how it is soaked. `holder` is None for one that does not leak."""

    seed: int
    baseline: str
    holder: str | None
    size: int
    period: int
    cycles: int
    causes: tuple[str, ...]
    text: str


@dataclass(frozen=True)
class Told:
    """What the report said of a program."""

    verdict: str
    cause: str | None
    right_cause: bool
    right_line: bool
    bytes_a_tick: float
    confidence: float
    extra: int = 0  # leaks that it told of beside the first

    @property
    def right(self) -> bool:
        return self.right_cause and self.right_line and not self.extra


# How each holder keeps `size` bytes; a line that a right report may name ends in `# here`.
HOLDERS: dict[str, tuple[str, tuple[str, ...]]] = {
    "list": (
        """
        kept = []

        def leak(i):
            kept.append(tf.ones([SIZE // 4]))  # here
        """,
        ("tensors-kept",),
    ),
    "closure": (
        """
        def remembering():
            seen = {}

            def remember(i):
                seen[i] = tf.random.uniform([SIZE // 4])  # here

            return remember

        leak = remembering()
        """,
        ("tensors-kept",),
    ),
    "attribute": (
        """
        class Journal:
            def __init__(self):
                self.entries = collections.deque()

            def note(self, i):
                self.entries.append({"at": i, "state": tf.zeros([SIZE // 4]) + 1.0})  # here

        journal = Journal()

        def leak(i):
            journal.note(i)  # here
        """,
        ("tensors-kept",),
    ),
    "native cache": (
        """
        made = itertools.count()

        def leak(i):
            for _ in range(SIZE // KERNEL):
                tf.raw_ops.VarHandleOp(dtype=tf.float32, shape=[], shared_name=f"state_{next(made)}")  # here
        """,
        ("eager-kernel-cache",),
    ),
    "function cache": (
        """
        @tf.function
        def scaled(x, factor):
            table = tf.constant(np.full([SIZE // 4], factor, np.float32))  # here
            return x + tf.reduce_sum(table)

        def leak(i):
            scaled(tf.ones([]), float(i))  # here
        """,
        ("retrace-python-value",),
    ),
    "thread": (
        """
        orders, done = queue.Queue(), queue.Queue()

        def worker():
            mine = []
            while True:
                orders.get()
                mine.append(tf.ones([SIZE // 4]))  # here
                done.put(None)

        threading.Thread(target=worker, daemon=True).start()

        def leak(i):
            orders.put(i)
            done.get()
        """,
        ("tensors-kept",),
    ),
}

# What every program does beside, `BESIDE` bytes of it at most.
BESIDES = {
    "periodic": """
        waves = {}

        def beside(i):
            waves["now"] = tf.ones([int((1.1 + math.sin(2 * math.pi * i / PERIOD)) * BESIDE / 8)])
        """,
    "sawtooth": """
        batch = []

        def beside(i):
            batch.append(tf.ones([BESIDE // 4 // TEETH]))
            if len(batch) >= TEETH:
                batch.clear()
        """,
    "bursty": """
        chance = random.Random(SEED)
        burst = []

        def beside(i):
            burst[:] = burst[1:]
            if chance.random() < 0.15:
                burst.extend(tf.ones([BESIDE // 16]) for _ in range(chance.randrange(1, 5)))
        """,
    "saturating": """
        bounded = {}

        def beside(i):
            key = (i * 7919) % ROOM
            if key not in bounded:
                bounded[key] = tf.ones([BESIDE // 4 // ROOM])
        """,
}


def draw(seed: int) -> Program:
    """The program of one seed."""
    chance = random.Random(seed)
    baseline = chance.choice(BASELINES)
    holder = chance.choice(list(HOLDERS)) if chance.random() < 0.5 else None
    period = chance.choice(PERIODS)
    size = int(2 ** chance.uniform(12.1, 26)) * period  # the least that is judged is 4 KiB a tick
    if holder == "native cache":
        size = KERNEL * chance.randrange(1, 9)
    elif holder == "function cache":
        size = min(size, 4 * MIB)  # graphs hold a constant several times over while it is traced
    cycles = max(min(60, MOST_KEPT * period // size), 24)
    size = min(size, MOST_KEPT * period // cycles)
    beside = int(2 ** chance.uniform(14, 24))
    return written(seed, baseline, holder, size, period, cycles, beside, chance)


def written(
    seed: int,
    baseline: str,
    holder: str | None,
    size: int,
    period: int,
    cycles: int,
    beside: int,
    chance: random.Random | None = None,
) -> Program:
    """The program that leaks `size` bytes every `period` ticks through this holder beside `beside` bytes of work."""
    chance = chance or random.Random(seed)
    values = {
        "SIZE": size,
        "EVERY": period,
        "KERNEL": KERNEL,
        "BESIDE": beside,
        "PERIOD": chance.randrange(3, 12),
        "TEETH": chance.randrange(3, 12),
        "ROOM": max(cycles // 3, 4),
        "SEED": seed,
    }
    lines = ["import collections, itertools, math, queue, random, threading", "import numpy as np"]
    lines += ["import tensorflow as tf", ""]
    lines += [f"{name} = {value}" for name, value in values.items()]
    lines.append(dedent(BESIDES[baseline]))
    if holder is not None:
        lines.append(dedent(HOLDERS[holder][0]))
    lines += ["def cycle(i):", "    beside(i)"]
    if holder is not None:
        lines += ["    if i % EVERY == 0:", "        leak(i)  # here"]
    causes = HOLDERS[holder][1] if holder is not None else ()
    return Program(seed, baseline, holder, size, period, cycles, causes, "\n".join(lines) + "\n")


def soak(program: Program) -> Told:
    """What `tenure soak` says of it, in a process of its own."""
    with tempfile.TemporaryDirectory(prefix="tenure-synthetic-") as name:
        script, out = Path(name) / "program.py", Path(name) / "report.json"
        script.write_text(program.text)
        asked = ["soak", "--cycles", str(program.cycles), "--json", str(out), f"{script}:cycle"]
        done = subprocess.run(
            [sys.executable, "-m", "tenure", *asked],
            env={"TF_CPP_MIN_LOG_LEVEL": "3", "CUDA_VISIBLE_DEVICES": "-1", **os.environ},
            capture_output=True,
            text=True,
            timeout=300,
            check=False,
        )
        if not out.exists():
            return Told(f"no report: {done.stderr[-300:]}", None, False, False, 0.0, 0.0)
        report = json.loads(out.read_text())
    leaks = [finding for finding in report["findings"] if finding["class"] == "leak"]
    if not leaks:
        return Told(report["verdict"], None, False, False, 0.0, 0.0)
    here = {number for number, line in enumerate(program.text.splitlines(), 1) if line.endswith("# here")}
    places = {place["line"] for place in (leaks[0]["birth"], leaks[0]["holder"]) if place}
    told = sum(finding["bytes_per_tick"] or 0.0 for finding in leaks)
    cause = leaks[0]["cause"]
    return Told(
        report["verdict"],
        cause,
        cause in program.causes,
        bool(here & places),
        told,
        float(leaks[0]["confidence"]),
        len(leaks) - 1,
    )


def table(outcomes: list[tuple[Program, Told]], by: str, of: Callable[[Program], str]) -> None:
    """Prints detection and false alarms by one property."""
    print(f"{by:16} {'leaks':>6} {'found':>6} {'cause':>6} {'line':>6} {'flats':>6} {'alarms':>7} {'undecided':>10}")
    for value in sorted({of(program) for program, _ in outcomes}):
        rows = [(program, told) for program, told in outcomes if of(program) == value]
        leaking = [told for program, told in rows if program.holder is not None]
        flat = [told for program, told in rows if program.holder is None]
        found = [told for told in leaking if told.verdict == "leak"]
        print(
            f"{value:16} {len(leaking):6} {len(found):6} {sum(t.right_cause for t in found):6} "
            f"{sum(t.right_line for t in found):6} {len(flat):6} {sum(t.verdict == 'leak' for t in flat):7} "
            f"{sum(t.verdict == 'inconclusive' for _, t in rows):10}"
        )


def size_of(program: Program) -> str:
    """The leak's bytes a tick as a class of sizes."""
    rate = program.size / program.period
    if program.holder is None:
        return "no leak"
    return "<= 16 KiB" if rate <= 16 * KIB else "<= 256 KiB" if rate <= 256 * KIB else "> 256 KiB"


def main() -> int:
    """Runs the programs and prints the tables and the claims; 0 when all are met."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--programs", type=int, default=80)
    parser.add_argument("--seed", type=int, default=1000, help="of the first program; they are counted on from there")
    parser.add_argument("--json", type=Path)
    asked = parser.parse_args()
    programs = [draw(seed) for seed in range(asked.seed, asked.seed + asked.programs)]
    with ThreadPoolExecutor(max_workers=2) as pool:
        outcomes = list(zip(programs, pool.map(soak, programs), strict=True))
    for program, told in outcomes:
        good = told.verdict == "leak" and told.right if program.holder else told.cause is None
        if not good or told.verdict == "inconclusive":
            print(
                f"seed {program.seed}: {program.holder or 'no leak'}, {program.size} bytes every {program.period} of "
                f"{program.cycles} ticks beside {program.baseline}: {told.verdict} {told.cause or ''} "
                f"{told.bytes_a_tick:.0f} B"
            )
    table(outcomes, "holder", lambda program: program.holder or "no leak")
    table(outcomes, "baseline", lambda program: program.baseline)
    table(outcomes, "bytes a tick", size_of)
    table(outcomes, "every k ticks", lambda program: str(program.period) if program.holder else "no leak")
    verdicts = Counter(told.verdict for _, told in outcomes)
    print(", ".join(f"{verdict} {count}" for verdict, count in sorted(verdicts.items())))
    leaking = [told for program, told in outcomes if program.holder is not None]
    flat = [told for program, told in outcomes if program.holder is None]
    sure = [(program, told) for program, told in outcomes if told.cause is not None and told.confidence >= CONFIDENT]
    right = sum(told.right for _, told in sure)
    found = sum(told.verdict == "leak" for told in leaking)
    rows = [
        claim("leaks found", round(found / max(len(leaking), 1), 3), 0.95, f"of {len(leaking)}", None, least=True),
        claim("false alarms", sum(told.verdict == "leak" for told in flat), 0, f"of {len(flat)}", None),
        claim(
            f"reports of {CONFIDENT:.0%} confidence that are right in cause and line, with no finding too many",
            round(right / max(len(sure), 1), 3),
            CONFIDENT,
            f"of {len(sure)}",
            None,
            least=True,
        ),
    ]
    return tell(rows, asked.json)


if __name__ == "__main__":
    sys.exit(main())
