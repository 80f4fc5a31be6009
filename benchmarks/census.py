"""What one `tenure.census()` costs in a process with 300,000 gc objects, TensorFlow and a small Keras model.

    python benchmarks/census.py [--rounds 9] [--json FILE]

CPU time of the calling thread, in turns with objgraph's `most_common_types` and `growth` (which count objects by type,
and know neither bytes nor owners) and with `census(deep=True)`, which looks at what only libraries and native code hold
even where nothing hints at it. Records of the user's fill up what TensorFlow itself does not bring.
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

OBJECTS = 300_000
GOAL = 0.03  # CPU seconds


def program() -> list[Any]:
    """What the process holds: a small model fitted once, and records up to `OBJECTS` gc objects."""
    import keras
    import numpy as np

    model = keras.Sequential([keras.Input((64,)), keras.layers.Dense(128, activation="relu"), keras.layers.Dense(10)])
    model.compile("adam", keras.losses.SparseCategoricalCrossentropy(from_logits=True))
    x = np.random.rand(256, 64).astype("float32")
    y = np.random.randint(0, 10, 256)
    model.fit(x, y, epochs=1, verbose=0)
    gc.collect()
    records = [{"step": [n], "loss": 0.5} for n in range(max(OBJECTS - len(gc.get_objects()), 0) // 2)]
    return [model, x, y, records]


def cpu_of(call: Callable[[], Any]) -> float:
    start = time.thread_time()
    call()
    return time.thread_time() - start


def measure(rounds: int) -> dict[str, list[float]]:
    """CPU seconds of each call, by tool."""
    import tenure

    calls: dict[str, Callable[[], Any]] = {
        "tenure.census": tenure.census,
        "census(deep=True)": lambda: tenure.census(deep=True),
    }
    try:
        import objgraph
    except ImportError:
        pass
    else:
        seen: dict[str, int] = {}
        calls["objgraph.most_common_types"] = objgraph.most_common_types
        calls["objgraph.growth"] = lambda: objgraph.growth(peak_stats=seen)
    figures: dict[str, list[float]] = {name: [] for name in calls}
    for call in calls.values():
        call()  # imports and source files are read once
    for turn in range(rounds):
        for name in list(calls) if turn % 2 else list(reversed(calls)):
            figures[name].append(cpu_of(calls[name]))
    return figures


def rows(figures: dict[str, list[float]], objects: int) -> list[dict[str, Any]]:
    """The claim with its figure, as the benchmarks' JSON has it."""
    middle = {name: statistics.median(values) for name, values in figures.items()}
    figure = middle.pop("tenure.census")
    against = ", ".join(f"{name} {seconds:.3f}" for name, seconds in middle.items())
    if len(middle) < 2:
        against += ", objgraph is not installed here"
    text = f"CPU of tenure.census(), what the program reaches, at {objects:,} gc objects with Keras"
    return [claim(text, round(figure, 4), GOAL, "CPU-s", against)]


def main() -> int:
    """Prints the claim; 0 when it is met."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("--rounds", type=int, default=9)
    parser.add_argument("--json", type=Path)
    options = parser.parse_args()
    globals()["kept"] = program()
    objects = len(gc.get_objects())
    figures = measure(options.rounds)
    claims = rows(figures, objects)
    for name, seconds in figures.items():
        print(f"     {name}: {min(seconds):.4f} to {max(seconds):.4f} CPU-s")
    return tell(claims, options.json)


if __name__ == "__main__":
    sys.exit(main())
