"""How much CPU and memory one walk of the object graph takes: the C module, its Python twin, objgraph.

    python benchmarks/walk.py [--objects 1000000] [--runs 5] [--json FILE]

Builds a heap of a million objects that the collector knows (with TensorFlow and tensors in it where it is installed),
once with the objects in memory in the order of the walk and once in random order, the worst case for the caches; prints
medians of alternating runs, in CPU seconds. Run it on an idle core.
"""

from __future__ import annotations

import argparse
import gc
import os
import random
import statistics
import sys
import time
from importlib import import_module
from importlib.util import find_spec
from pathlib import Path
from typing import Any

from _claims import claim, tell

os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "3")
os.environ.setdefault("CUDA_VISIBLE_DEVICES", "-1")
sys.path.insert(0, str(Path(__file__).resolve().parent.parent / "src"))

from tenure.probes import _heap_python, heap

# A naive walk in C takes 0.16 to 0.22 CPU-s on the first heap. On the second each object is a miss of the caches.
GOAL, GOAL_GROUPS = 0.12, 0.25
SCATTERED_GOAL, SCATTERED_GOAL_GROUPS = 0.3, 0.5


class Record:
    """What a program keeps a lot of: a few attributes, a list, a dict."""

    def __init__(self, number: int, rng: random.Random) -> None:
        self.number = number
        self.values = [rng.random() for _ in range(4)]
        self.facts = {"number": number, "text": str(number), "pair": (number, self.values)}


def build(wanted: int, scattered: bool) -> tuple[list[Any], tuple[type, ...]]:
    """Records until the collector knows `wanted` objects, tensors among them; and the types to look for.

    `scattered`: they do not lie in memory in the order of the walk, the worst case for the caches.
    """
    rng = random.Random(7)
    kept: list[Any] = []
    types: tuple[type, ...] = (Record,)
    if find_spec("tensorflow") is not None:
        import tensorflow as tf

        kept += [{"step": i, "loss": tf.constant(float(i))} for i in range(2000)]
        kept += [tf.Variable(float(i)) for i in range(200)]
        types = (type(kept[0]["loss"]), type(kept[-1]), tf.Graph, tf.Operation)
    gc.collect()
    gc.freeze()  # building would be quadratic in the collector otherwise
    while (missing := wanted - gc.get_freeze_count() - len(gc.get_objects())) > 0:
        # a record is 4 objects for the collector, its dict of numbers included
        kept += [Record(i, rng) for i in range(max(1, missing // 4))]
    if scattered:
        rng.shuffle(kept)
    gc.unfreeze()
    return kept, types


def measure(turns: dict[str, Any], runs: int) -> dict[str, list[float]]:
    """CPU seconds of each, in turn, so that a busy moment of the machine hits them all."""
    seconds: dict[str, list[float]] = {name: [] for name in turns}
    for _ in range(runs):
        for name, turn in turns.items():
            began = time.process_time()
            turn()
            seconds[name].append(time.process_time() - began)
    return seconds


def main() -> int:
    """Prints the claims; 0 when all are met."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--objects", type=int, default=1_000_000)
    parser.add_argument("--runs", type=int, default=5)
    parser.add_argument("--json", type=Path)
    asked = parser.parse_args()
    if not heap.NATIVE:
        sys.exit("the C module is not built: there is nothing to compare")
    rows = one_heap(asked.objects, asked.runs, scattered=False)
    globals()["kept"] = None
    gc.collect()
    rows += one_heap(asked.objects, asked.runs, scattered=True)
    return tell(rows, asked.json)


def one_heap(objects: int, runs: int, *, scattered: bool) -> list[dict[str, Any]]:
    """Builds the heap, measures, prints the figures behind the claims, and returns the claims."""
    globals()["kept"], types = build(objects, scattered)
    native = heap._walker
    modules = heap.module_roots(lambda name, module: name == "__main__")
    fixed: dict[str, Any] = {"user_globals": modules.user_globals, "barriers": modules.barriers, "cut": modules.cut}

    def walk(walker: Any, groups: bool, **more: Any) -> heap.Heap:
        heap._walker = walker
        try:
            return heap.walk(modules.roots, select_types=types, paths=True, groups=groups, **fixed, **more)
        finally:
            heap._walker = native

    turns: dict[str, Any] = {
        "c": lambda: walk(native, False),
        "c groups": lambda: walk(native, True),
        "c groups unreached": lambda: walk(native, True, unreached=True),
        "python": lambda: walk(_heap_python, False),
        "python groups": lambda: walk(_heap_python, True),
    }
    plain, grouped = walk(native, False), walk(native, True)
    known = len(gc.get_objects())
    counts = {
        "objects the collector knows": known,
        "objects reached": plain.objects,
        "references": plain.edges,
        "objects found with paths": len(plain.found),
        "groups": len(grouped.groups or ()),
    }
    memory, memory_groups = plain.walk_bytes / plain.objects, grouped.walk_bytes / grouped.objects
    one = plain.found[-1].obj
    del plain, grouped
    seconds = measure(turns, runs)
    objgraph_seconds = _objgraph(one)
    c, c_groups, python = (statistics.median(seconds[name]) for name in ("c", "c groups", "python"))

    layout = "scattered in memory" if scattered else "in the order they were made"
    print(f"a heap with its objects {layout}")
    for name, count in counts.items():
        print(f"     {name:34} {count:12,}")
    for name, all_seconds in seconds.items():
        low, high = min(all_seconds), max(all_seconds)
        print(f"     {name:34} {statistics.median(all_seconds):12.3f} CPU-s   {low:.3f} to {high:.3f}")
    print(f"     {'the twin takes':34} {python / c:12.1f} times as long")
    print(f"     {'own memory':34} {memory:12.1f} bytes an object   with groups {memory_groups:.1f}")
    million = f"a heap of {known:,} objects {layout}"
    paths = f"paths to all TensorFlow objects, {million}"
    against = "objgraph is not installed here"
    if objgraph_seconds is not None:
        against = f"objgraph.find_backref_chain for one object, {objgraph_seconds:.2f} CPU-s"
    goal, goal_groups = (SCATTERED_GOAL, SCATTERED_GOAL_GROUPS) if scattered else (GOAL, GOAL_GROUPS)
    return [
        claim(paths, round(c, 4), goal, "CPU-s", against),
        claim(f"the same with groups, {layout}", round(c_groups, 4), goal_groups, "CPU-s", None),
        claim(f"C walk against its Python twin, {layout}", round(c / python, 4), 0.1, "x", f"twin {python:.2f} CPU-s"),
        claim(f"own memory of the walk, {layout}", round(max(memory, memory_groups), 1), 48, "bytes an object", None),
    ]


def _objgraph(one: object) -> float | None:
    if find_spec("objgraph") is None:
        return None
    objgraph: Any = import_module("objgraph")

    began = time.process_time()
    objgraph.find_backref_chain(one, objgraph.is_proper_module, max_depth=20)
    return time.process_time() - began


if __name__ == "__main__":
    sys.exit(main())
