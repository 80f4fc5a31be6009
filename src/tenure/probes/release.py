"""The release actions, and what each gave back. What an action frees names what held it.

Each action is measured as the drop of malloc's bytes in use, of TensorFlow's pools' current bytes and of the
interpreter's small blocks. Freed pool blocks stay in malloc's account (the pool keeps its regions), so the parts do not
overlap. Nothing here runs by itself: an action changes the program's state, and its docstring says how.
"""

from __future__ import annotations

import gc
import sys
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from time import perf_counter

from tenure.probes import ProbeError, process, read

__all__ = [
    "BLOCK_BYTES",
    "Released",
    "collect_garbage",
    "footprint",
    "gradient_registry",
    "kernel_cache",
    "malloc_trim",
    "py_functions",
    "scalar_cache",
]

BLOCK_BYTES = 96
"""Mean bytes of a block of the interpreter's small-object allocator with TensorFlow loaded: 95.7 with 2.21, 95.3 with
2.16 (1.1 million blocks, Python 3.11; 83 in a bare interpreter)."""


@dataclass(frozen=True, slots=True)
class Released:
    """What one action gave back. `bytes` is negative when the program grew meanwhile. `objects` counts what the action
    counts: objects collected, entries removed; 0 where it can't be known. `left` says what it had to leave, and why."""

    action: str
    bytes: int
    objects: int
    seconds: float
    left: tuple[str, ...] = ()


def footprint() -> tuple[int, tuple[str, ...]]:
    """Bytes in use by malloc, TensorFlow's pools and the interpreter's blocks, and what could not be read and why.

    Differences of two readings count, not the reading itself: the pool's regions are in malloc's account too.
    """
    parts: list[tuple[str, Callable[[], int]]] = [
        ("malloc in use", lambda: process.mallinfo().used),
        ("Python blocks", lambda: process.python_blocks() * BLOCK_BYTES),
    ]
    if _tensorflow_runs():
        parts.append(("TensorFlow's pools", _pools))
    total = 0
    missing = []
    for figure, probe in parts:
        value, lost = read(probe, figure)
        total += value or 0
        if lost is not None:
            missing.append(f"{lost.figure}: {lost.why}")
    return total, tuple(missing)


def collect_garbage() -> Released:
    """`gc`: a full collection. `objects` is what it found unreachable, `left` says what it can't free (frozen)."""

    def action() -> tuple[int, tuple[str, ...]]:
        found = gc.collect()
        frozen = gc.get_freeze_count()
        return found, (f"{frozen} objects are frozen (gc.freeze)",) if frozen else ()

    return _measured("gc", action)


def gradient_registry(orphans: Callable[[], Iterable[str]]) -> Released:
    """`gradient-registry`: removes the entries that `orphans()` names, then collects. `left` tells how many stay.

    `orphans` must name only entries whose FuncGraph nothing but the registry reaches: a live function's gradient fails
    without its entry. Pending garbage is collected before the measurement, so that it is not credited to the purge.
    """
    gc.collect()

    def action() -> tuple[int, tuple[str, ...]]:
        from tenure.probes.tf import registries

        removed = registries.remove(list(orphans()))
        if removed:
            gc.collect()
        stay = registries.size()
        return removed, (f"{stay} entries that something else reaches too",) if stay else ()

    return _measured("gradient-registry", action)


def py_functions(dead: Callable[[], Iterable[str]]) -> Released:
    """`py-functions`: drops the Python functions whose tokens `dead()` names, then collects.

    A token that a live dataset or graph still calls must not be named: its next call fails.
    """
    gc.collect()

    def action() -> tuple[int, tuple[str, ...]]:
        from tenure.probes.tf import registries

        removed = registries.remove_py_functions(list(dead()))
        if removed:
            gc.collect()
        stay = len(registries.py_functions())
        return removed, (f"{stay} functions that may be called again",) if stay else ()

    return _measured("py-functions", action)


def kernel_cache() -> Released:
    """`kernel-cache`: empties the eager context's kernel cache. The next step builds its kernels anew.

    Seeded stateful random ops (`tf.random.set_seed`) start their sequence again, in a `tf.function` too: a program
    whose numbers must not change wants stateless ops or a `tf.random.Generator`, or must leave this action out.
    """

    def action() -> tuple[int, tuple[str, ...]]:
        from tenure.probes.tf import caches

        caches.clear_kernel_cache()
        return 0, ()

    return _measured("kernel-cache", action)


def scalar_cache() -> Released:
    """`scalar-cache`: empties the eager context's cache of tensors made from Python scalars. Changes no number."""

    def action() -> tuple[int, tuple[str, ...]]:
        from tenure.probes.tf import caches

        caches.clear_scalar_cache()
        return 0, ()

    return _measured("scalar-cache", action)


def malloc_trim() -> Released:
    """`malloc-trim`: gives malloc's free pages back to the system. `bytes` is the drop of RSS here: nothing is freed
    that was in use, so the other counters stand still."""
    started = perf_counter()
    before, lost = read(process.rss, "resident memory")
    _, unable = read(process.malloc_trim, "malloc_trim")
    after, _ = read(process.rss, "resident memory")
    given = before - after if before is not None and after is not None else 0
    left = tuple(f"{item.figure}: {item.why}" for item in (lost, unable) if item is not None)
    return Released("malloc-trim", given, 0, perf_counter() - started, left)


def _measured(name: str, action: Callable[[], tuple[int, tuple[str, ...]]]) -> Released:
    started = perf_counter()
    before, missing = footprint()
    try:
        objects, left = action()
    except Exception as error:  # an action that this version lacks gives nothing back, and says so
        why = str(error) if isinstance(error, ProbeError) else f"{type(error).__name__}: {error}"
        return Released(name, 0, 0, perf_counter() - started, (why,))
    after, _ = footprint()
    return Released(name, before - after, objects, perf_counter() - started, left + missing)


def _tensorflow_runs() -> bool:
    """Whether the program has started TensorFlow: only then is there a pool, and asking must not start it."""
    context = sys.modules.get("tensorflow.python.eager.context")
    current = getattr(context, "_context", None)
    return bool(getattr(current, "_initialized", False))


def _pools() -> int:
    from tenure.probes.tf import allocator

    return allocator.pool_bytes()
