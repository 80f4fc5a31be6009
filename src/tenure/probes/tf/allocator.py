"""TensorFlow's own allocators by device: bytes in use now, the most so far, and from which block size they count.

`tf.config.experimental.get_memory_info` is public, works for `CPU:0` too in the oneDNN builds (2.16 to 2.22), and is
exact there for blocks of 256 KiB and more: smaller ones come from malloc. It raises with `TF_ENABLE_ONEDNN_OPTS=0` and
reads 0 with `TF_ONEDNN_USE_SYSTEM_ALLOCATOR=1`. The pool never returns memory to the system.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple

import tensorflow as tf

from tenure.probes import ProbeError

__all__ = ["Calibration", "PoolBytes", "calibrate", "devices", "memory", "pool_bytes", "reset_peak", "self_test"]

_KIB = 1024
_SIZES = (64 * _KIB, 255 * _KIB, 256 * _KIB, 1024 * _KIB)


class PoolBytes(NamedTuple):
    """Bytes in use now and the most since the start or the last `reset_peak`."""

    current: int
    peak: int


@dataclass(frozen=True, slots=True)
class Calibration:
    """What the CPU counter is good for: `smallest` is the smallest tried block that it counts, None when none moves it.

    `why` tells, in one clause, what is missing; empty when the counter is there and moves.
    """

    present: bool
    moves: bool
    smallest: int | None
    why: str = ""


def devices() -> tuple[str, ...]:
    """The short names (`CPU:0`, `GPU:0`) of the devices that TensorFlow computes on. Starts TensorFlow's runtime."""
    names = (device.name for device in tf.config.list_logical_devices())
    return tuple(name.removeprefix("/device:") for name in names if "XLA_" not in name)


def memory(device: str = "CPU:0") -> PoolBytes:
    """The device's bytes in use and their peak; `ProbeError` when its allocator keeps no account."""
    try:
        info = tf.config.experimental.get_memory_info(device)
    except (ValueError, RuntimeError) as error:
        raise ProbeError(f"the allocator of {device} keeps no account ({_first_line(error)})") from None
    return PoolBytes(int(info["current"]), int(info["peak"]))


def pool_bytes() -> int:
    """Bytes in use over all devices that keep an account; `ProbeError` when none does."""
    total, found, reasons = 0, False, []
    for device in devices():
        try:
            total += memory(device).current
            found = True
        except ProbeError as error:
            reasons.append(str(error))
    if not found:
        raise ProbeError("; ".join(reasons) or "TensorFlow lists no device")
    return total


def reset_peak(device: str = "CPU:0") -> None:
    """Sets the device's peak back to what is in use now."""
    try:
        tf.config.experimental.reset_memory_stats(device)
    except (ValueError, RuntimeError) as error:
        raise ProbeError(f"the peak of {device} can't be reset ({_first_line(error)})") from None


def calibrate(device: str = "CPU:0") -> Calibration:
    """Tries blocks of 64, 255, 256 KiB and 1 MiB on the device and tells which of them the counter sees.

    The blocks are freed before the next is made, so at most 1 MiB is held for a moment. Another thread that frees or
    takes pool blocks meanwhile can blur one size; the smallest size whose rise fits is taken.
    """
    try:
        memory(device)
    except ProbeError as error:
        return Calibration(present=False, moves=False, smallest=None, why=str(error))
    smallest = None
    for size in reversed(_SIZES):
        if _counts(device, size):
            smallest = size
    if smallest is None:
        return Calibration(True, False, None, f"the counter of {device} does not move (the system allocator serves it)")
    return Calibration(True, True, smallest)


def self_test() -> str | None:
    """None when the first device's counter is there and moves; else the reason."""
    return calibrate().why or None


def _counts(device: str, size: int) -> bool:
    before = memory(device).current
    with tf.device(device):
        block = tf.zeros([size], tf.uint8) + tf.constant(1, tf.uint8)
    rise = memory(device).current - before
    del block
    # The pool rounds up to 256 bytes; a neighbour's block of another size must not pass for ours.
    return size <= rise <= size + 64 * _KIB


def _first_line(error: BaseException) -> str:
    return str(error).strip().splitlines()[0] if str(error).strip() else type(error).__name__
