"""TensorFlow's two eager caches that only grow, and how to empty them.

The kernel cache keeps one kernel for each (op, attributes, device): a variable's `shared_name` and a seeded random op's
`seed2` make ever new ones (about 36 KB a variable). `clear_session` empties it, TensorFlow itself never does. The
scalar cache keeps one tensor for each distinct Python scalar that became one. Upstream: tensorflow#40171 (2.16 to 2.22)
and #68196 (2.16 to 2.21).
"""

from __future__ import annotations

import numpy as np
import tensorflow as tf
from tensorflow.python.eager import context

from tenure.probes import ProbeError

__all__ = ["clear_kernel_cache", "clear_scalar_cache", "self_test_kernel_cache", "self_test_scalar_cache"]


def clear_kernel_cache() -> None:
    """Empties the eager context's kernel cache; waits for ops that run on other threads first.

    The next step builds its kernels anew (2.7 -> 204 ms seen, then normal). A kernel's own state goes with it: the
    stateful random ops (`tf.random.normal` after `tf.random.set_seed`) start their sequence again. Variables, tables,
    queues, iterators and `tf.random.Generator`s keep theirs, which lives in resources.
    """
    clear = getattr(context.context(), "clear_kernel_cache", None)
    if clear is None:
        raise ProbeError("this TensorFlow's context has no clear_kernel_cache")
    clear()


def clear_scalar_cache() -> None:
    """Empties the cache of tensors made from Python scalars (and this thread's small caches of zeros and ones)."""
    clear = getattr(context.context(), "_clear_caches", None)
    if clear is None:
        raise ProbeError("this TensorFlow's context has no _clear_caches")
    clear()


def self_test_kernel_cache() -> str | None:
    """None when the kernel cache can be reached; else the reason.

    It does not empty the cache: a self-test must not restart a program's random sequence. What a clear gives back is
    measured by the tests and, in a program, by the autopsy.
    """
    if not callable(getattr(context.context(), "clear_kernel_cache", None)):
        return "this TensorFlow's context has no clear_kernel_cache"
    return None


def self_test_scalar_cache() -> str | None:
    """None when a scalar's tensor comes from the cache, and a new one after the clear; else the reason."""
    value = float(np.nextafter(0.7310585786300049, 1.0))
    if not tf.executing_eagerly():
        return "eager execution is off, so there is no scalar cache"
    try:
        first, second = _address(value), _address(value)
        if first != second:
            return "two tensors of one Python scalar do not share a buffer: there is no scalar cache to empty"
        kept = tf.constant(value)
        clear_scalar_cache()
        if _address(value) == _buffer(kept):
            return "a scalar's tensor is the same after the cache was emptied"
    except (ProbeError, TypeError, ValueError) as error:
        return str(error)
    return None


def _address(value: float) -> int:
    return _buffer(tf.constant(value))


def _buffer(tensor: object) -> int:
    """The buffer of a host scalar: a memoryview shares it, where `_numpy()` would copy a scalar out."""
    return int(np.asarray(memoryview(tensor)).__array_interface__["data"][0])  # type: ignore[arg-type]
