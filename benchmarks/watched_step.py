"""What `tenure run` adds to the CPU time of a compiled training step, against memray and tracemalloc.

    python benchmarks/watched_step.py [--pairs 4] [--json FILE]

A two-layer MLP (64-128-10, Adam, batch 512) in a `tf.function` runs 50,000 steps in a process of its own: bare and
under `tenure run`, in turns. The figure is the process's CPU time (all threads) of the steps from 20,000 on, when the
cycle has been found and the heap is read ever more rarely, as in any longer run; forked readings are children and are
named beside it. memray and tracemalloc(25) get 6,000 steps.
"""

from __future__ import annotations

import argparse
import os
import resource
import statistics
import subprocess
import sys
import tempfile
from pathlib import Path

from _claims import claim, tell

PROGRAM = """
import sys, time
import keras
import numpy as np
import tensorflow as tf

first, last = int(sys.argv[1]), int(sys.argv[2])
if "trace" in sys.argv:
    import tracemalloc
    tracemalloc.start(25)
model = keras.Sequential([keras.Input((64,)), keras.layers.Dense(128, activation="relu"), keras.layers.Dense(10)])
optimizer = keras.optimizers.Adam(1e-3)
optimizer.build(model.trainable_variables)
loss_of = keras.losses.SparseCategoricalCrossentropy(from_logits=True)
x = tf.constant(np.random.rand(512, 64).astype("float32"))
y = tf.constant(np.random.randint(0, 10, 512))


@tf.function
def compiled():
    with tf.GradientTape() as tape:
        loss = loss_of(y, model(x, training=True))
    optimizer.apply_gradients(zip(tape.gradient(loss, model.trainable_variables), model.trainable_variables))
    return loss


def step():
    return compiled()


def train():
    for number in range(last):
        if number == first:
            began = time.process_time()
        step()
    print("cpu", (time.process_time() - began) / (last - first), flush=True)


train()
"""
FIRST, LAST = 20_000, 50_000
GOAL = 1.02


def seconds_a_step(folder: Path, before: list[str], first: int, last: int, after: tuple[str, ...] = ()) -> float:
    """CPU seconds of one step of the program behind a command."""
    script = folder / "training.py"
    done = subprocess.run(
        [sys.executable, *before, str(script), str(first), str(last), *after],
        capture_output=True,
        text=True,
        env={**os.environ, "TF_CPP_MIN_LOG_LEVEL": "3", "CUDA_VISIBLE_DEVICES": "-1"},
        check=False,
    )
    told = [line for line in done.stdout.splitlines() if line.startswith("cpu ")]
    if not told:
        raise SystemExit(f"{' '.join(before) or 'the bare program'} told no figure: {done.stderr[-400:]}")
    return float(told[-1].split()[1])


def main() -> int:
    """Prints the claim; 0 when it is met."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--pairs", type=int, default=4)
    parser.add_argument("--json", type=Path)
    options = parser.parse_args()
    bare, watched = [], []
    with tempfile.TemporaryDirectory(prefix="tenure-step-") as name:
        folder = Path(name)
        (folder / "training.py").write_text(PROGRAM)
        for pair in range(options.pairs):
            for with_it in (True, False) if pair % 2 else (False, True):
                command = ["-m", "tenure", "run"] if with_it else []
                (watched if with_it else bare).append(seconds_a_step(folder, command, FIRST, LAST))
        short = (1_000, 6_000)
        few = seconds_a_step(folder, [], *short)
        memray = (
            seconds_a_step(folder, ["-m", "memray", "run", "-q", "-f", "-o", str(folder / "out.bin")], *short) / few
        )
        traced = seconds_a_step(folder, [], *short, ("trace",)) / few
    children = resource.getrusage(resource.RUSAGE_CHILDREN)
    figure = round(statistics.median(watched) / statistics.median(bare), 3)
    told = ", ".join(f"{w / b:.3f}" for w, b in zip(watched, bare, strict=True))
    against = (
        f"pairs {told}; a step takes {statistics.median(bare) * 1000:.2f} CPU-ms; memray {memray:.2f}, "
        f"tracemalloc(25) {traced:.2f}; {children.ru_utime + children.ru_stime:.0f} CPU-s in all"
    )
    text = "CPU of a step (tf.function) under `tenure run` over one without, from step 20,000 on"
    return tell([claim(text, figure, GOAL, "x", against)], options.json)


if __name__ == "__main__":
    sys.exit(main())
