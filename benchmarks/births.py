"""What the births of ops cost an eager training step, against tracemalloc, memray and scalene.

    python benchmarks/births.py [--rounds 300] [--no-peers] [--json FILE]

The step is a two-layer MLP (64-128-10, Adam), eager with a batch of 64 and as a `tf.function` with one of 512, which
takes 0.35 ms. Each op is told (while a growth is being explained): median CPU time of the step's thread over that
without, in turns in one process. "against" has the same step under tracemalloc with 25 frames, and in processes of
their own under memray and scalene.
"""

from __future__ import annotations

import argparse
import importlib.util
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

from _claims import claim, tell

os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "3")

Step = Callable[[], Any]
STEPS = {"eager": 3, "tf.function": 100}  # steps of one half of a round, about as long for either
EAGER_GOAL = 1.10


def make_steps() -> dict[str, Step]:
    import keras
    import numpy as np
    import tensorflow as tf

    model = keras.Sequential([keras.Input((64,)), keras.layers.Dense(128, activation="relu"), keras.layers.Dense(10)])
    optimizer = keras.optimizers.Adam(1e-3)
    optimizer.build(model.trainable_variables)
    loss_of = keras.losses.SparseCategoricalCrossentropy(from_logits=True)

    def step_of(batch: int) -> Step:
        x = tf.constant(np.random.rand(batch, 64).astype("float32"))
        y = tf.constant(np.random.randint(0, 10, batch))

        def step() -> Any:
            with tf.GradientTape() as tape:
                loss = loss_of(y, model(x, training=True))
            optimizer.apply_gradients(
                zip(tape.gradient(loss, model.trainable_variables), model.trainable_variables, strict=True)
            )
            return loss

        return step

    _compiled.append(tf.function(step_of(512)))
    return {"eager": step_of(64), "tf.function": compiled_step}


_compiled: list[Step] = []


def compiled_step() -> Any:
    """A function of the program's, as the search for the cycle finds them."""
    return _compiled[0]()


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


def in_a_process(step: str, before: list[str], between: list[str]) -> float | None:
    """CPU seconds of a step in a process of its own behind a command, None where that can't be had."""
    command = [sys.executable, *before, __file__, *between, "--only", step, "--rounds", "7"]
    done = subprocess.run(command, capture_output=True, text=True, check=False, timeout=300)
    told = [line for line in done.stdout.splitlines() if line.startswith("step ")]
    return float(told[-1].split()[1]) if told else None


def peers(name: str, step: Step) -> str:
    """The step under other tools, as one clause each."""
    traced = ratio(step, STEPS[name], 5, lambda: tracemalloc.start(25), tracemalloc.stop)
    told = [f"tracemalloc(25) {traced:.2f}"]
    with tempfile.TemporaryDirectory(prefix="tenure-births-") as folder:
        out = str(Path(folder) / "out.bin")
        tools = {
            "memray": (["-m", "memray", "run", "-q", "-f", "-o", out], []),
            "scalene": (["-m", "scalene", "run", "-o", f"{out}.json"], ["---"]),
        }
        bare = in_a_process(name, [], [])
        for tool, (before, between) in tools.items():
            if importlib.util.find_spec(tool) is None:
                told.append(f"{tool} is not installed here")
                continue
            under = in_a_process(name, before, between)
            told.append(f"{tool} {under / bare:.2f}" if under and bare else f"{tool} did not run here")
    return ", ".join(told)


def main() -> int:
    """Prints the claims; 0 when it is met."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("--rounds", type=int, default=300)
    parser.add_argument("--no-peers", action="store_true", help="leave the other tools out")
    parser.add_argument("--json", type=Path)
    parser.add_argument("--only", choices=STEPS, help="print the seconds of one step without births, and nothing else")
    options = parser.parse_args()
    steps = make_steps()
    if options.only:
        step = steps[options.only]
        step(), step()
        print("step", statistics.median(cpu_of(step, STEPS[options.only]) for _ in range(options.rounds)))
        return 0

    from tenure.observe.births import Births

    births = Births()
    births.start()
    births.mark()  # as in a run that explains a growth: what was not seen before is noted as new

    def with_births(name: str, rounds: int) -> float:
        return ratio(steps[name], STEPS[name], rounds, births.explain_ops, lambda: births.explain_ops(False))

    eager = with_births("eager", options.rounds)
    compiled = with_births("tf.function", options.rounds // 4)
    other = {"eager": "no peers asked for" if options.no_peers else peers("eager", steps["eager"])}
    claims = [
        claim(
            "CPU of a step (eager) with births of ops over one without",
            round(eager, 3),
            EAGER_GOAL,
            "x",
            f"{other['eager']}; a step in a tf.function {compiled:.3f}",
        ),
    ]
    return tell(claims, options.json)


if __name__ == "__main__":
    sys.exit(main())
