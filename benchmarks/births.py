"""What births cost: CPU time of a training step's thread with them and without, in one process, alternating.

    python benchmarks/births.py [--rounds 15] [--json]

The step is a two-layer MLP (64-128-10, Adam, batch 64), once eager and once as a `tf.function`. "against" has the same
step under tracemalloc with 25 frames, and under memray in a process of its own where it is installed.
"""

from __future__ import annotations

import argparse
import json
import os
import statistics
import subprocess
import sys
import tempfile
import time
import tracemalloc
from collections.abc import Callable
from pathlib import Path
from typing import Any

os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "3")

Step = Callable[[], Any]
STEPS = {"eager": 4, "tf.function": 100}  # steps of one half of a round, about as long for either
GOALS = {"eager": 1.10, "tf.function": 1.02}


def make_steps() -> dict[str, Step]:
    import keras
    import numpy as np
    import tensorflow as tf

    model = keras.Sequential([keras.Input((64,)), keras.layers.Dense(128, activation="relu"), keras.layers.Dense(10)])
    optimizer = keras.optimizers.Adam(1e-3)
    optimizer.build(model.trainable_variables)
    loss_of = keras.losses.SparseCategoricalCrossentropy(from_logits=True)
    x = tf.constant(np.random.rand(64, 64).astype("float32"))
    y = tf.constant(np.random.randint(0, 10, 64))

    def step() -> Any:
        with tf.GradientTape() as tape:
            loss = loss_of(y, model(x, training=True))
        optimizer.apply_gradients(
            zip(tape.gradient(loss, model.trainable_variables), model.trainable_variables, strict=True)
        )
        return loss

    return {"eager": step, "tf.function": tf.function(step)}


def cpu_of(step: Step, times: int) -> float:
    start = time.thread_time()
    for _ in range(times):
        step()
    return (time.thread_time() - start) / times


def ratio(step: Step, times: int, rounds: int, on: Callable[[], None], off: Callable[[], None]) -> float:
    """Median CPU of a step with it over the median without; the halves of a round alternate in which comes first."""
    step(), step()
    figures: dict[bool, list[float]] = {True: [], False: []}
    for turn in range(rounds):
        for with_it in (True, False) if turn % 2 else (False, True):
            if with_it:
                on()
            step()  # the first step after a switch pays for it once
            figures[with_it].append(cpu_of(step, times))
            if with_it:
                off()
    return statistics.median(figures[True]) / statistics.median(figures[False])


def under_memray(name: str, rounds: int) -> str:
    """CPU of a step under memray over one without, each in a process of its own; medians of their rounds."""
    command = [sys.executable, __file__, "--only", name, "--rounds", str(rounds)]
    with tempfile.TemporaryDirectory() as folder:
        out = str(Path(folder) / "out.bin")
        traced = [sys.executable, "-m", "memray", "run", "-q", "-o", out, *command[1:]]
        figures = []
        for line in (command, traced):
            done = subprocess.run(line, capture_output=True, text=True, check=False)
            if done.returncode:
                return "memray: not to be had here"
            figures.append(float(done.stdout.split()[-1]))
    return f"memray {figures[1] / figures[0]:.2f}"


def hooks_only(name: str, step: Step, times: int, rounds: int) -> dict[str, Any]:
    """The row for the constructor hooks alone, as they are on in every run."""
    from tenure.observe.births import Births

    births = Births()
    figure = ratio(step, times, rounds, births.start, births.stop)
    claim = f"CPU of a step ({name}) with the constructors hooked over one without"
    return {"claim": claim, "figure": round(figure, 3), "goal": 1.02, "unit": "x", "met": figure <= 1.02, "against": ""}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("--rounds", type=int, default=15)
    parser.add_argument("--json", action="store_true")
    parser.add_argument("--memray", action="store_true", help="also run the steps under memray")
    parser.add_argument("--only", choices=STEPS, help="print the seconds of one step without births, and nothing else")
    args = parser.parse_args()
    steps = make_steps()
    if args.only:
        step = steps[args.only]
        step(), step()
        print(statistics.median(cpu_of(step, STEPS[args.only]) for _ in range(args.rounds)))
        return

    from tenure.observe.births import Births

    births = Births()
    rows = []
    for name, step in steps.items():
        times = STEPS[name]
        rows.append(hooks_only(name, step, times, args.rounds))
        figure = ratio(step, times, args.rounds, births.explain_ops, lambda: births.explain_ops(False))
        traced = ratio(step, times, 5, lambda: tracemalloc.start(25), tracemalloc.stop)
        against = f"tracemalloc(25) {traced:.2f}"
        if args.memray:
            against += f", {under_memray(name, 5)}"
        rows.append(
            {
                "claim": f"CPU of a step ({name}) with births of ops over one without",
                "figure": round(figure, 3),
                "goal": GOALS[name],
                "unit": "x",
                "met": figure <= GOALS[name],
                "against": against,
            }
        )
    if args.json:
        print(json.dumps(rows))
    else:
        for row in rows:
            verdict = "met" if row["met"] else "MISSED"
            print(f"{row['figure']:6.3f}x  goal {row['goal']}x {verdict:6}  {row['claim']}  {row['against']}")


if __name__ == "__main__":
    main()
