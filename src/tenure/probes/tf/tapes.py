"""What a `tf.GradientTape` object says of itself. The C++ tape behind it holds tensors that no traversal reaches."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import tensorflow as tf

from tenure.probes.kinds import is_a

__all__ = ["TapeState", "is_tape", "self_test", "state"]


@dataclass(frozen=True, slots=True)
class TapeState:
    """`recording`: ops are still written on it. `persistent`: `gradient()` does not free it. `holds`: there is a C++
    tape (a finished one-shot tape frees its own at `gradient()`). `watched`: variables it watches."""

    recording: bool
    persistent: bool
    holds: bool
    watched: int


def is_tape(obj: object) -> bool:
    """Whether this is a `tf.GradientTape`."""
    return is_a(obj, tf.GradientTape)


def state(tape: Any) -> TapeState:
    """The tape's state by its own fields (`_recording`, `_persistent`, `_tape`: 2.16 to 2.21)."""
    inner = getattr(tape, "_tape", None)
    return TapeState(
        recording=bool(getattr(tape, "_recording", False)),
        persistent=bool(getattr(tape, "_persistent", False)),
        holds=inner is not None,
        watched=len(inner.watched_variables()) if inner is not None else len(getattr(tape, "_watched_variables", ())),
    )


def self_test() -> str | None:
    """None when an open tape reads as open and a closed one as closed; else the reason."""
    with tf.GradientTape(persistent=True) as tape:
        open_state = state(tape)
    closed_state = state(tape)
    if not (open_state.recording and open_state.persistent and open_state.holds) or closed_state.recording:
        return "a GradientTape's fields do not tell whether it records"
    return None
