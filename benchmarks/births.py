"""What watching costs a training step: as `tenure run` does it by default, and with the births of eager ops on.

    python benchmarks/births.py [--rounds 60] [--segments 16] [--no-peers] [--json FILE]

The step is a two-layer MLP (64-128-10, Adam), eager with a batch of 64 and as a `tf.function` with one of 512, which
takes 0.35 ms; each figure is CPU time with over CPU time without, in turns in one process.

Watched by default: constructors hooked, the cycle found and its ticks counted, the heap read in forked copies at the
schedule's ticks; no op is watched. The figure is the process's CPU time (TensorFlow computes on threads of its own):
medians of chunks of a tenth of a second, and on top all that the chunks with a reading took more (the fork, the pages
copied after it), from the run's start on. The search for the cycle begins anew in each segment of two seconds, so it
weighs more than in a run. With births on, each op is told: median CPU time of the step's thread.
"against" has the same step under tracemalloc with 25 frames, and in processes of their own under memray
and scalene.
"""

from __future__ import annotations

import argparse
import importlib.util
import json
import os
import resource
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
STEPS = {"eager": 3, "tf.function": 100}  # steps of one half of a round, about as long for either
WATCHED_GOAL, EAGER_GOAL = 1.02, 1.10
CHUNK, CHUNKS = 0.1, 20  # seconds of steps that are timed at once, and how many of them are a segment


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


def watched(step: Step, segments: int) -> dict[str, Any]:
    """The process's CPU of watched over bare steps, readings included, and what happened meanwhile."""
    from tenure.explain.running import RunWatching
    from tenure.explain.ticks import TickSource
    from tenure.observe.births import Births

    births = Births()
    watching = RunWatching(("births.py",), births=births)
    source = TickSource(watching)
    read, reads = watching._read, [0]

    def counted(tick: int, explain: bool = False) -> None:
        reads[0] += 1
        read(tick, explain)

    watching._read = counted  # type: ignore[method-assign]
    step(), step()
    began = time.perf_counter()
    cpu_of(step, 500)
    steps = max(round(CHUNK * 500 / (time.perf_counter() - began)), 1)
    calm: dict[bool, list[float]] = {True: [], False: []}
    with_reading: list[float] = []
    children = resource.getrusage(resource.RUSAGE_CHILDREN)
    for turn in range(segments):
        for with_it in (True, False) if turn % 2 else (False, True):
            if with_it:
                births.start()
                source = TickSource(watching)
                source.start()
            for _ in range(CHUNKS):
                before, start = reads[0], time.process_time()
                for _ in range(steps):  # one line of a frame that stays, as the search for the cycle expects it
                    step()
                (calm[with_it] if reads[0] == before else with_reading).append(time.process_time() - start)
            if with_it:
                source.stop()
                births.stop()
    report = watching.finish(0)
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    copies = after.ru_utime + after.ru_stime - children.ru_utime - children.ru_stime
    explained = sum(ops.count for ops in births.ops())
    total = segments * CHUNKS * steps
    if report.ticks.count < total / 2 or explained > total / 100:
        raise SystemExit(f"not watched as by default: {report.ticks}, {explained} ops noted")
    ticking, bare = statistics.median(calm[True]), statistics.median(calm[False])
    reading = sum(with_reading) - len(with_reading) * ticking
    return {
        "ratio": ticking / bare + reading / (bare * segments * CHUNKS),
        "what": f"{ticking / bare:.3f} without the {reads[0]} readings, whose copies took {copies:.1f} CPU-s more; "
        f"{total} steps of {bare / steps * 1000:.2f} CPU-ms each way",
    }


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


def row(claim: str, figure: float, goal: float, against: str) -> dict[str, Any]:
    return {
        "claim": claim,
        "figure": round(figure, 3),
        "goal": goal,
        "unit": "x",
        "met": figure <= goal,
        "against": against,
    }


def main() -> int:
    """Prints the claims; 0 when both are met."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("--rounds", type=int, default=60)
    parser.add_argument("--segments", type=int, default=16)
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

    run = watched(steps["tf.function"], options.segments)
    births = Births()

    def with_births(name: str, rounds: int) -> float:
        return ratio(steps[name], STEPS[name], rounds, births.explain_ops, lambda: births.explain_ops(False))

    eager = with_births("eager", options.rounds)
    compiled = with_births("tf.function", options.rounds // 4)
    other = {name: "no peers asked for" if options.no_peers else peers(name, step) for name, step in steps.items()}
    claims = [
        row(
            "CPU of a step (tf.function) watched as `tenure run` does by default over one without",
            run["ratio"],
            WATCHED_GOAL,
            f"{run['what']}; births of ops {compiled:.3f}; {other['tf.function']}",
        ),
        row("CPU of a step (eager) with births of ops over one without", eager, EAGER_GOAL, other["eager"]),
    ]
    for claim in claims:
        verdict = "met " if claim["met"] else "MISS"
        print(f"{verdict} {claim['claim']}: {claim['figure']} {claim['unit']} ({claim['against']})")
    if options.json is not None:
        options.json.write_text(json.dumps(claims, indent=2) + "\n")
    return 0 if all(claim["met"] for claim in claims) else 1


if __name__ == "__main__":
    sys.exit(main())
