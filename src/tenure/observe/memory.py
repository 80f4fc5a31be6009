"""Where the process's memory is: the counters at one tick, and the waterfall from tensors to the rest of RSS."""

from __future__ import annotations

import gc
import sys
from collections import deque
from statistics import median
from time import monotonic

from tenure.probes import process, read
from tenure.records import Layer, Missing, Sample

__all__ = ["MALLOC_FREE", "POOL_FREE", "Counters", "collector_off", "waterfall"]

POOL_FREE, MALLOC_FREE = "allocator pool, held but free", "malloc, held but free"  # layers of the waterfall
_FIRST_REGION = 2 << 20
_MAPPING_OVERHEAD = 2 * 4096  # malloc's header and the alignment of TensorFlow's allocator, in whole pages
_SLACK = 0.25  # what a program takes or gives back between two samples beside the usual, as a share of the region


class Counters:
    """Reads the cheap counters, tick by tick, and keeps account of the regions that TensorFlow's CPU pool takes.

    The pool (BFC, in use when oneDNN is on) takes regions from malloc and never returns them: 2 MiB first, then each at
    least twice the one before, always a power of two. malloc counts a region as in use, which would read as a leak of
    megabytes. A region shows as a jump of malloc, beyond its usual growth, of about that size
    while the pool's use reaches a new peak.
    """

    def __init__(self) -> None:
        self.missing: dict[str, Missing] = {}
        self._began = monotonic()
        self._before: tuple[int, int, int, int] | None = None
        self._usual: deque[float] = deque(maxlen=9)
        self._next_region: int | None = None
        self._regions = 0

    def sample(self, tick: int, blocks_too: bool = True) -> Sample:
        """The counters now. What can't be read is None and is named in `missing`. Costs well under a millisecond.

        `blocks_too`: Python's blocks take as long as all other counters together (the interpreter visits each arena).
        """
        malloc, lost = read(process.mallinfo, "malloc in use")
        self._note(lost)
        pool_used, pool_peak = self._pool()
        rss, lost = read(process.rss, "resident memory")
        self._note(lost)
        blocks = None
        if blocks_too:
            blocks, lost = read(process.python_blocks, "Python's blocks")
            self._note(lost)
        if malloc is not None:
            self._count_regions(tick, malloc.used, malloc.mapped, (pool_used, pool_peak))
        registry, functions = self._registries()
        return Sample(
            tick=tick,
            seconds=monotonic() - self._began,
            rss=rss,
            malloc_used=malloc.used if malloc else None,
            malloc_mapped=malloc.mapped if malloc else None,
            malloc_free=malloc.free if malloc else None,
            pool_used=pool_used,
            pool_peak=pool_peak,
            python_blocks=blocks,
            gradient_registry=registry,
            py_functions=functions,
            pool_regions=self._regions,
            # Regions of 2, 4, 8 MiB: together they are the next one less the first.
            pool_held=self._next_region - _FIRST_REGION if self._next_region is not None else None,
        )

    def native(self) -> int | None:
        """Live native bytes now, as `Sample.native` tells them. Costs about 15 us, more the more blocks are free."""
        malloc, _ = read(process.mallinfo, "malloc in use")
        if malloc is None:
            return None
        pool = self._pool()
        self._count_regions(0, malloc.used, malloc.mapped, pool)
        return malloc.used - self._regions + (pool[0] or 0)

    def _note(self, lost: Missing | None) -> None:
        if lost is not None:
            self.missing.setdefault(lost.figure, lost)

    def _count_regions(self, tick: int, used: int, mapped: int, pool: tuple[int | None, int | None]) -> None:
        """Adds a region when malloc jumped by what the next one must be: exactly, in a mapping of its own, or about
        that beyond what the program usually takes (malloc serves blocks under 32 MiB from its heap once it has freed
        such a mapping)."""
        pool_used, pool_peak = pool
        before, self._before = self._before, (tick, used, mapped, pool_peak or pool_used or 0)
        if pool_used is None:
            return
        if self._next_region is None:
            self._next_region = _next_region(pool_peak or pool_used)
        if before is None:
            return
        ticks = max(tick - before[0], 1)
        grown, usual = used - before[1], median(self._usual) * ticks if self._usual else 0.0
        if (pool_peak or pool_used) > before[3]:  # the pool takes a region when it has never needed so much
            for size in (self._next_region, 2 * self._next_region, 4 * self._next_region):
                exactly = 0 <= mapped - before[2] - size <= _MAPPING_OVERHEAD
                if exactly or abs(grown - usual - size) <= _SLACK * size:
                    self._regions += size
                    self._next_region = 2 * size
                    return
        self._usual.append(grown / ticks)

    def _pool(self) -> tuple[int | None, int | None]:
        if not _tensorflow_ready():
            return None, None
        from tenure.probes.tf import allocator

        found, lost = read(lambda: allocator.memory("CPU:0"), "TensorFlow's CPU pool")
        self._note(lost)
        return found if found is not None else (None, None)

    def _registries(self) -> tuple[int | None, int | None]:
        if not _tensorflow_ready():
            return None, None
        from tenure.probes.tf import registries

        size, lost = read(registries.size, "gradient registry")
        self._note(lost)
        functions, lost = read(registries.py_function_count, "Python-function list")
        self._note(lost)
        return size, functions


def collector_off() -> bool:
    """Whether no automatic collection will come: gc.disable(), or a threshold of 0 (gc.isenabled() stays true)."""
    return not gc.isenabled() or gc.get_threshold()[0] == 0


def waterfall(sample: Sample, tensor_bytes: int | None, python_bytes: int | None) -> tuple[Layer, ...]:
    """The parts that add up to RSS, largest idea first; what no counter explains is the last layer, `unaccounted`.

    `tensor_bytes` is shape x dtype of unique live buffers, `python_bytes` the shallow sizes of live Python objects.
    Of free memory that an allocator holds only what can be resident is counted.
    """
    mappings, _ = read(process.rss_by_mapping, "resident memory by mapping")
    pool_used = sample.pool_used or 0
    held = max(sample.pool_held or 0, sample.pool_peak or 0, pool_used)
    small = max((tensor_bytes or 0) - pool_used, 0)
    other = sample.malloc_used - held - small if sample.malloc_used is not None else None
    free_pool = held - pool_used if sample.pool_peak is not None else None
    free_malloc = sample.malloc_free
    rest = None
    mapped = mappings.file + mappings.shmem if mappings else None
    if sample.rss is not None:
        parts = (
            tensor_bytes,
            max(other, 0) if other is not None else None,
            python_bytes,
            mapped,
            free_pool,
            free_malloc,
        )
        rest = sample.rss - sum(part or 0 for part in parts)
        # Free memory that was never touched, or went back page by page, is held but not resident.
        free_pool, rest = _resident(free_pool, rest)
        free_malloc, rest = _resident(free_malloc, rest)
    return (
        Layer("live tensors", tensor_bytes),
        Layer(POOL_FREE, free_pool),
        Layer("malloc in use, other", max(other, 0) if other is not None else None),
        Layer(MALLOC_FREE, free_malloc),
        Layer("Python objects", python_bytes),
        Layer("mapped files", mapped),
        Layer("unaccounted", rest),
        Layer("RSS", sample.rss),
    )


def _resident(free: int | None, rest: int) -> tuple[int | None, int]:
    """The part of free memory that can be resident when the parts exceed RSS by `-rest`, and what is left of that."""
    if free is None or rest >= 0:
        return free, rest
    kept = max(free + rest, 0)
    return kept, rest + free - kept


def _tensorflow_ready() -> bool:
    """Whether TensorFlow is imported to the end; a half-imported one must not be touched."""
    module = sys.modules.get("tensorflow")
    return module is not None and hasattr(module, "__version__") and hasattr(module, "Variable")


def _next_region(peak: int) -> int:
    """The size of the pool's next region when it has had `peak` bytes in use: regions of 2, 4, 8 MiB and so on."""
    held, region = 0, _FIRST_REGION
    while held < peak:
        held += region
        region *= 2
    return region
