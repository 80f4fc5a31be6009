"""Keeps the forked copies out of the program's sight: it may wait for any child of its own, or be told of each.

A copy is a child of the program. Where a wait for any child (`os.wait`, `os.waitpid(-1, ...)`) could meet one, the
copies are ended first, and from then on none is made; none is made either where the program takes SIGCHLD. The heap is
then read in the process itself.
"""

from __future__ import annotations

import contextlib
import os
import signal
import threading
from collections.abc import Callable
from functools import wraps
from typing import Any

from tenure.probes import heap

__all__ = ["end", "fork", "hide", "reap", "show", "withdrawn"]

_lock = threading.RLock()
_copies: set[int] = set()
_withdrawn: set[int] = set()
_waits = False  # whether the program has waited for any child
_pid = 0
_hidden: dict[str, tuple[Any, Any]] = {}


def hide() -> None:
    """From here on the program's waits for any child meet none of ours."""
    global _waits, _pid
    _waits, _pid = False, os.getpid()
    _withdrawn.clear()
    for name, any_child in _WAITS.items():
        real = getattr(os, name, None)
        if real is not None and name not in _hidden:
            ours = _apart(real, any_child)
            _hidden[name] = real, ours
            setattr(os, name, ours)


def show() -> None:
    """The functions of `os` are their own again."""
    for name, (real, ours) in _hidden.items():
        if getattr(os, name) is ours:  # else the program has put its own there
            setattr(os, name, real)
    _hidden.clear()


def fork() -> int:
    """As `heap.fork`; the child has to be given to `reap`. OSError where the program would notice it."""
    if _takes_sigchld():
        raise OSError("the program takes SIGCHLD")
    with _lock:
        if _waits:
            raise OSError("the program waits for any child of its own")
        child = heap.fork()
        if child:
            _copies.add(child)
        return child


def reap(child: int) -> None:
    """Waits until the child has ended."""
    with contextlib.suppress(OSError):  # the kernel (SIGCHLD is ignored) or the program has waited for it
        os.waitid(os.P_PID, child, os.WEXITED | os.WNOWAIT)
        with _lock:  # from here on the pid may be another process's
            if child in _copies:
                _copies.discard(child)
                os.waitpid(child, 0)
    with _lock:
        _copies.discard(child)


def end(child: int) -> None:
    """Ends the child if it still runs."""
    with _lock:
        if child in _copies:
            with contextlib.suppress(ProcessLookupError):
                os.kill(child, signal.SIGKILL)


def withdrawn(child: int) -> bool:
    """Whether the child was ended because the program waits for any child. True once."""
    with _lock:
        known = child in _withdrawn
        _withdrawn.discard(child)
        return known


def _apart(real: Callable[..., Any], any_child: Callable[..., bool]) -> Callable[..., Any]:
    @wraps(real)
    def wait(*args: Any, **named: Any) -> Any:
        if _hidden and os.getpid() == _pid and any_child(*args, **named):
            _withdraw()
        return real(*args, **named)

    wait.__module__ = "os"  # where a pickle finds it by name
    return wait


def _withdraw() -> None:
    global _waits
    with _lock:
        _waits = True
        for child in list(_copies):
            _copies.discard(child)
            _withdrawn.add(child)
            with contextlib.suppress(OSError):  # it has ended
                os.kill(child, signal.SIGKILL)
                os.waitid(os.P_PID, child, os.WEXITED)


def _takes_sigchld() -> bool:
    """Whether SIGCHLD has a handler, in Python or in C, or is kept back for a `sigwait`."""
    with contextlib.suppress(OSError, ValueError):
        with open("/proc/thread-self/status", encoding="ascii", errors="replace") as status:
            masks = dict(line.split(":\t", 1) for line in status if line.startswith("Sig"))
        taken = int(masks["SigCgt"], 16) | int(masks["SigBlk"], 16)
        return bool(taken >> (signal.SIGCHLD - 1) & 1)
    return signal.getsignal(signal.SIGCHLD) not in (signal.SIG_DFL, signal.SIG_IGN)


def _one(pid: Any = 0, *_: Any, **named: Any) -> bool:
    return type(pid) is not int or pid <= 0


def _one_of(kind: Any = None, *_: Any, **named: Any) -> bool:
    return kind not in (os.P_PID, getattr(os, "P_PIDFD", os.P_PID))


def _all(*_: Any, **named: Any) -> bool:
    return True


# Each way to wait, and whether a call of it waits for any child (or for a group of them, in which a copy is as well).
_WAITS: dict[str, Callable[..., bool]] = {
    "wait": _all,
    "wait3": _all,
    "wait4": _one,
    "waitpid": _one,
    "waitid": _one_of,
}
