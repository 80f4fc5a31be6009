"""How long one reading of the heap stops the training thread in `tenure run`, at a million gc objects with TensorFlow.

    python benchmarks/pause.py [--rounds 15] [--json FILE]

The pause is the wall time of the whole reading on the program's main thread: counters, the fork, the reader's start.
The forked copy then walks while the program goes on. "against" is the same walk in the process itself, in turns.
"""

from __future__ import annotations

import argparse
import gc
import os
import statistics
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

from _claims import claim, tell

os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "3")

OBJECTS = 1_000_000
GOAL = 50.0  # milliseconds


def program() -> list[Any]:
    """What the process holds: a small model fitted once, some tensors, and records up to `OBJECTS` gc objects."""
    import keras
    import numpy as np
    import tensorflow as tf

    model = keras.Sequential([keras.Input((64,)), keras.layers.Dense(128, activation="relu"), keras.layers.Dense(10)])
    model.compile("adam", keras.losses.SparseCategoricalCrossentropy(from_logits=True))
    model.fit(np.random.rand(256, 64), np.random.randint(0, 10, 256), epochs=1, verbose=0)
    tensors = [tf.random.uniform([64, 64]) for _ in range(1000)]
    gc.collect()
    records = [{"step": [n], "loss": 0.5} for n in range((OBJECTS - len(gc.get_objects())) // 2)]
    return [model, tensors, records]


def measure(rounds: int) -> dict[str, list[float]]:
    """Milliseconds of each pause: wall and CPU of a reading aside, wall of a walk here, seconds until the answer."""
    from tenure.explain.running import RunWatching
    from tenure.observe import snapshot

    watching = RunWatching(("pause.py",))
    figures: dict[str, list[float]] = {"aside": [], "aside, CPU": [], "in the process": [], "answer after": []}

    def timed(name: str, clock: Callable[[], float], began: float) -> None:
        figures[name].append((clock() - began) * 1000)

    for tick in range(1000, 1000 * rounds + 1, 1000):  # a program that does not grow: no collection comes first
        wall, cpu = time.perf_counter(), time.thread_time()
        watching._read(tick)
        timed("aside, CPU", time.thread_time, cpu)
        timed("aside", time.perf_counter, wall)
        watching._wait()
        timed("answer after", time.perf_counter, wall)
        wall = time.perf_counter()
        snapshot.take(tick)
        timed("in the process", time.perf_counter, wall)
    if len(watching._snapshots) < 3:
        raise SystemExit(f"the forked copies gave {len(watching._snapshots)} answers")
    return figures


def rows(figures: dict[str, list[float]], objects: int) -> list[dict[str, Any]]:
    """The claim with its figure, as the benchmarks' JSON has it."""
    middle = {name: statistics.median(values) for name, values in figures.items()}
    text = f"pause of the training thread for one reading in `tenure run` at {objects:,} gc objects"
    against = (
        f"the walk in the process itself {middle['in the process']:.0f} ms; of the pause "
        f"{middle['aside, CPU']:.1f} ms are CPU, the longest was {max(figures['aside']):.0f} ms"
    )
    return [claim(text, round(middle["aside"], 1), GOAL, "ms", against)]


def main() -> int:
    """Prints the claim; 0 when it is met."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("--rounds", type=int, default=15)
    parser.add_argument("--json", type=Path)
    options = parser.parse_args()
    globals()["kept"] = program()
    objects = len(gc.get_objects())
    figures = measure(options.rounds)
    claims = rows(figures, objects)
    for name, values in figures.items():
        print(f"     {name}: {min(values):.1f} to {max(values):.1f} ms")
    return tell(claims, options.json)


if __name__ == "__main__":
    sys.exit(main())
