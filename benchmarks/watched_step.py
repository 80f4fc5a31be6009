"""What `tenure run` adds to the CPU time of a compiled training step, against memray and tracemalloc.

    python benchmarks/watched_step.py [--pairs 10] [--json FILE]

A two-layer MLP for MNIST (784-512-10, Adam, batch 128) in a `tf.function` runs in two processes, bare and under
`tenure run`, which take turns of 100 steps, so that whatever slows the machine slows both. The figure is the median
over the turns of the watched process's CPU time (all threads) over the bare one's, from step 5,000 on, when the cycle
has been found. The heap is read once or twice in that time, by a forked copy on another core: that is no part of a
step, and stands beside it as the ratio of all turns with the copies' CPU. memray and tracemalloc(25) get 6,000 steps.
"""

from __future__ import annotations

import argparse
import os
import statistics
import subprocess
import sys
import tempfile
from pathlib import Path

from _claims import claim, tell

PROGRAM = """
import os, sys, time
import keras
import numpy as np
import tensorflow as tf

if "trace" in sys.argv:
    import tracemalloc
    tracemalloc.start(25)
tf.config.threading.set_intra_op_parallelism_threads(1)  # a pool of two threads spins for up to a sixth of the CPU
tf.config.threading.set_inter_op_parallelism_threads(1)
model = keras.Sequential([keras.Input((784,)), keras.layers.Dense(512, activation="relu"), keras.layers.Dense(10)])
optimizer = keras.optimizers.Adam(1e-3)
optimizer.build(model.trainable_variables)
loss_of = keras.losses.SparseCategoricalCrossentropy(from_logits=True)
x = tf.constant(np.random.rand(128, 784).astype("float32"))
y = tf.constant(np.random.randint(0, 10, 128))


@tf.function
def compiled():
    with tf.GradientTape() as tape:
        loss = loss_of(y, model(x, training=True))
    optimizer.apply_gradients(zip(tape.gradient(loss, model.trainable_variables), model.trainable_variables))
    return loss


def step():
    return compiled()


def train():
    for line in sys.stdin:
        began, copies = time.process_time(), sum(os.times()[2:4])
        for number in range(int(line)):
            step()
        print("cpu", time.process_time() - began, sum(os.times()[2:4]) - copies, flush=True)


train()
"""
FIRST, TURNS, STEPS = 5_000, 30, 100
GOAL = 1.02


class Training:
    """The program behind a command, which takes as many steps as it is told to."""

    def __init__(self, folder: Path, before: list[str], after: tuple[str, ...] = ()) -> None:
        self.what = " ".join(before) or "the bare program"
        self.copies = 0.0
        self.process = subprocess.Popen(
            [sys.executable, *before, str(folder / "training.py"), *after],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            text=True,
            env={**os.environ, "TF_CPP_MIN_LOG_LEVEL": "3", "CUDA_VISIBLE_DEVICES": "-1"},
        )

    def seconds(self, steps: int) -> float:
        """CPU seconds of the process for so many steps; those of its ended children are added up in `copies`."""
        stdin, stdout = self.process.stdin, self.process.stdout
        if stdin is None or stdout is None:
            raise SystemExit(f"{self.what} has no pipes")
        stdin.write(f"{steps}\n")
        stdin.flush()
        for line in stdout:
            if line.startswith("cpu "):
                _, own, children = line.split()
                self.copies += float(children)
                return float(own)
        raise SystemExit(f"{self.what} ended with status {self.process.wait()} and told no figure")

    def end(self) -> None:
        """Closes its input, which ends it, and waits for it."""
        self.process.communicate()


def ratios(folder: Path) -> tuple[list[float], float, float]:
    """Watched over bare for each turn of one pair of processes, the bare one's CPU seconds a step, and watched over
    bare of all turns together with the copies that read the heap."""
    pair = {False: Training(folder, []), True: Training(folder, ["-m", "tenure", "run"])}
    for training in pair.values():
        training.seconds(FIRST)
        training.copies = 0.0
    told: list[dict[bool, float]] = []
    for turn in range(TURNS):
        order = (True, False) if turn % 2 else (False, True)
        told.append({with_it: pair[with_it].seconds(STEPS) for with_it in order})
    for training in pair.values():
        training.end()
    step = statistics.median(one[False] for one in told) / STEPS
    whole = (sum(one[True] for one in told) + pair[True].copies) / sum(one[False] for one in told)
    return [one[True] / one[False] for one in told], step, whole


def under(folder: Path, before: list[str], after: tuple[str, ...] = ()) -> float:
    """CPU seconds of 5,000 steps after 1,000 that do not count."""
    training = Training(folder, before, after)
    training.seconds(1_000)
    spent = training.seconds(5_000)
    training.end()
    return spent


def main() -> int:
    """Prints the claim; 0 when it is met."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--pairs", type=int, default=10)
    parser.add_argument("--json", type=Path)
    options = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="tenure-step-") as name:
        folder = Path(name)
        (folder / "training.py").write_text(PROGRAM)
        pairs = [ratios(folder) for _ in range(options.pairs)]
        few = under(folder, [])
        memray = under(folder, ["-m", "memray", "run", "-q", "-f", "-o", str(folder / "out.bin")]) / few
        traced = under(folder, [], ("trace",)) / few
    figure = round(statistics.median(ratio for told, _, _ in pairs for ratio in told), 3)
    of_pairs = ", ".join(f"{statistics.median(told):.3f}" for told, _, _ in pairs)
    step = statistics.median(bare for _, bare, _ in pairs)
    whole = statistics.median(together for _, _, together in pairs)
    against = (
        f"pairs of processes {of_pairs}; a step takes {step * 1000:.2f} CPU-ms, tenure's part of it is "
        f"{(figure - 1) * step * 1e6:.0f} us; all turns with the copies that read the heap {whole:.3f}; "
        f"memray {memray:.2f}, tracemalloc(25) {traced:.2f}"
    )
    text = "CPU of a step (tf.function) under `tenure run` over one without, from step 5,000 on"
    return tell([claim(text, figure, GOAL, "x", against)], options.json)


if __name__ == "__main__":
    sys.exit(main())
