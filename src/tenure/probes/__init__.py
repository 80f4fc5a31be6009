"""The ground: the only part of tenure that touches the interpreter's, the system's and TensorFlow's internals.

Every reader returns its figure or raises `ProbeError` with the reason in one clause; `read` turns that into a
`records.Missing`, so that one broken probe never costs more than its own figure.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeVar

from tenure.records import Missing

__all__ = ["ProbeError", "read"]

T = TypeVar("T")


class ProbeError(RuntimeError):
    """A figure that this machine, version or moment can't give; the message is the reason, one clause."""


def read(probe: Callable[[], T], figure: str | None = None) -> tuple[T | None, Missing | None]:
    """The probe's value, or None and the `Missing` that says why.

    `figure` names the figure in the record; the probe's own name stands in when it is left out.
    """
    try:
        return probe(), None
    except ProbeError as error:
        why = str(error)
    except Exception as error:  # an unknown version may break a probe in any way; the record says which
        why = f"{type(error).__name__}: {error}"
    return None, Missing(figure or str(getattr(probe, "__name__", "a probe")), why)
