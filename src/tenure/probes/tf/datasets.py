"""What a `tf.data` pipeline is made of, read from the Python objects of its steps (their C++ state can't be seen)."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from tensorflow.python.data.ops import dataset_ops, iterator_ops

from tenure.probes.kinds import is_a

__all__ = ["cache_after_unbounded", "is_dataset", "is_iterator", "pipeline", "self_test", "steps"]


def is_dataset(obj: object) -> bool:
    """Whether this is a `tf.data.Dataset`."""
    return is_a(obj, dataset_ops.DatasetV2)


def is_iterator(obj: object) -> bool:
    """Whether this is an iterator that owns its pipeline's state."""
    return is_a(obj, iterator_ops.OwnedIterator)


def steps(dataset_or_iterator: Any) -> Iterator[Any]:
    """The steps of the pipeline from its end to its sources, each once."""
    source = dataset_or_iterator
    todo, seen = [getattr(source, "_dataset", None) if is_iterator(source) else source], set()
    while todo:
        step = todo.pop(0)
        if step is None or id(step) in seen:
            continue
        seen.add(id(step))
        if not type(step).__name__.endswith("Adapter"):
            yield step
        todo += _inputs(step)


def pipeline(dataset_or_iterator: Any) -> str:
    """The pipeline in the order data runs: `from_tensor_slices > repeat > map > cache > batch`."""
    return " > ".join(reversed([_step_name(step) for step in steps(dataset_or_iterator)]))


def cache_after_unbounded(dataset_or_iterator: Any) -> str | None:
    """Why a `cache()` of this pipeline grows without end, None when it does not.

    In memory it keeps each element of its first pass, and an endless source (repeat() without a count, a counter,
    random()) never finishes that pass. Whether a generator ends can't be told. A cache in a file grows on disk.
    """
    for step in steps(dataset_or_iterator):
        if _step_name(step) != "cache":
            continue
        bounded = False
        for before in list(steps(step))[1:]:
            kind = _step_name(before)
            bounded = bounded or (kind == "take" and (_count(before) or 0) >= 0)
            if bounded:
                break
            if kind == "repeat" and _count(before) == -1:
                return "cache() after repeat() without a count: each element of an endless stream is kept"
            if kind in ("random", "counter"):
                return f"cache() after {kind}(), which has no end: each element is kept"
    return None


def self_test() -> str | None:
    """None when an endless cached pipeline is told from a finite one; else the reason."""
    source = dataset_ops.DatasetV2.range(3)
    if cache_after_unbounded(source.repeat().cache().batch(2)) is None:
        return "cache() after repeat() is not seen"
    if cache_after_unbounded(source.cache().repeat()) is not None or cache_after_unbounded(source.repeat(2).cache()):
        return "a bounded cache() reads as endless"
    return None


def _inputs(step: Any) -> list[Any]:
    inputs = getattr(step, "_inputs", None)
    if callable(inputs):
        try:
            return list(inputs())
        except NotImplementedError:
            return []
    below = getattr(step, "_input_dataset", None)
    return [below] if below is not None else []


def _step_name(step: Any) -> str:
    """`_RepeatDataset` -> `repeat`, `ParallelMapDataset` -> `parallel_map`, `_TensorSliceDataset` -> `tensor_slice`."""
    text = type(step).__name__.strip("_").removesuffix("V2").removesuffix("V1").removesuffix("Dataset")
    snake = "".join(f"_{letter.lower()}" if letter.isupper() else letter for letter in text).strip("_")
    return {"parallel_map": "map", "tensor_slice": "from_tensor_slices", "tensor": "from_tensors"}.get(snake, snake)


def _count(step: Any) -> int | None:
    """The count of a repeat() or take(), -1 for endless; None when it is a tensor of a graph."""
    count: Any = getattr(step, "_count", None)
    try:
        return int(count.numpy() if hasattr(count, "numpy") else count)
    except (TypeError, ValueError, AttributeError, NotImplementedError):
        return None
