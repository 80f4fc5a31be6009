"""Watches the program of this interpreter when `TENURE_RUN=1` is in the environment: the same report as `tenure run`.

A `.pth` file imports this module at interpreter start, only when the variable is set. Child processes inherit the
variable and stay quiet: `TENURE_RUN_PID` names the process that is watched.
"""

from __future__ import annotations

import atexit
import contextlib
import os
import sys
from typing import Any, NoReturn

from tenure.cli.watched import LIBRARIES, Outputs, WatchedProgram, patient, say
from tenure.probes.apart import make_room

__all__ = ["begin", "wanted"]

_NOT_PROGRAMS = ("tenure", "pip", "pip3", "uv", "virtualenv")


def wanted() -> bool:
    """True when this process is the one to watch: the variable is set, no parent is watched, and there is a program."""
    if os.environ.get("TENURE_RUN", "").strip().lower() in ("", "0", "false", "no", "off"):
        return False
    if os.environ.get("TENURE_RUN_PID", str(os.getpid())) != str(os.getpid()):
        return False
    words = _program()
    if not words or sys.flags.interactive or (words[0] != "-m" and not os.path.exists(words[0])):
        return False
    name = words[1] if words[0] == "-m" and len(words) > 1 else os.path.basename(words[0])
    return name.partition(".")[0] not in _NOT_PROGRAMS


def begin() -> WatchedProgram:
    """Starts to watch; the report is printed at exit, after the program's own atexit handlers: ours is the first."""
    os.environ["TENURE_RUN_PID"] = str(os.getpid())
    watched = WatchedProgram(_program(), Outputs())
    atexit.register(_at_exit, watched, _exit_status())
    watched.begin()
    watched.guard()
    return watched


def _at_exit(watched: WatchedProgram, given: list[object]) -> None:
    status = _status(given)
    try:
        patient(status == 130)
        watched.end(status)
        report = watched.report
        nothing = report is None or (report.verdict == "inconclusive" and report.ticks.count == 0)
        if not nothing or "tensorflow" in sys.modules:  # a shell script runs many Pythons that are none of our business
            watched.publish()
    except KeyboardInterrupt:
        say("tenure: interrupted before the report was complete.")
    if status == 130 and not given:
        # The interpreter dies of SIGINT after this, as it would have: it goes by a flag that each exec of a text resets
        # (dataclasses are made so), and that this one sets again.
        with contextlib.suppress(KeyboardInterrupt):
            exec("raise KeyboardInterrupt")


def _exit_status() -> list[object]:
    """A list that `sys.exit` appends its argument to: at exit nothing else tells the status any more."""
    given: list[object] = []

    def leave(status: Any = None, /) -> NoReturn:
        given.append(status)
        raise SystemExit(status)

    leave.__name__ = leave.__qualname__ = "exit"
    leave.__doc__ = sys.exit.__doc__
    sys.exit = leave
    return given


def _status(given: list[object]) -> int:
    uncaught = getattr(sys, "last_type", None)
    if uncaught is not None:
        return 130 if issubclass(uncaught, KeyboardInterrupt) else 1
    if not given or given[-1] is None:
        return 0
    last = given[-1]
    return last & 0xFF if isinstance(last, int) else 1


def _program() -> tuple[str, ...]:
    """The program's words: at interpreter start `sys.argv[0]` is still `-m` for a module."""
    argv = [word for word in getattr(sys, "argv", ()) if isinstance(word, str)]
    if not argv or not argv[0]:
        return ()
    if argv[0] == "-m":
        return ("-m", *sys.orig_argv[-len(argv) :])
    return tuple(argv)


def _first_of_path(words: tuple[str, ...]) -> str:
    """The folder that Python will put first into the program's path; empty with `-P`."""
    if getattr(sys.flags, "safe_path", False):
        return ""
    if words[0] == "-m":
        return os.getcwd()
    return words[0] if os.path.isdir(words[0]) else os.path.dirname(os.path.realpath(words[0]))


if wanted():
    try:
        make_room(_first_of_path(_program()), LIBRARIES)
        begin()
    except Exception as error:  # an interpreter must start whatever we do
        say(f"tenure: this program runs unwatched: {type(error).__name__}: {error}")
