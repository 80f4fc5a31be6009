"""Work for the main thread: CPython is asked to run it there soon, between two instructions, without a signal."""

from __future__ import annotations

import _thread
import os
import sys
import types
from collections.abc import Callable

__all__ = ["MainThread"]

Job = Callable[[types.FrameType | None], None]


class MainThread:
    """Jobs that run on the main thread as long as `wanted()`; each gets the frame that it interrupts.

    `reachable` is False where CPython can't be asked: then no job ever runs.
    """

    def __init__(self, wanted: Callable[[], bool]) -> None:
        self._wanted = wanted
        self._pid = os.getpid()
        self._jobs: list[Job] = []
        self._posted = False
        self._post = _pending_call(self._run)

    @property
    def reachable(self) -> bool:
        return self._post is not None

    def ask(self, job: Job) -> None:
        """Has the job run once; asked for twice before it has run, it runs once. May be called from any thread."""
        if self._post is None:
            return
        if job not in self._jobs:
            self._jobs.append(job)
        if not self._posted:  # one at a time: CPython keeps room for 32 and others may need it
            self._posted = True
            if not self._post():
                self._posted = False

    def again(self, job: Job) -> None:
        """For a job that is running: it is asked for anew when all of them have run."""
        self._jobs.append(job)

    def _run(self) -> None:
        """Runs between two instructions of the main thread."""
        self._posted = False
        jobs, self._jobs = self._jobs, []
        if not self._wanted() or os.getpid() != self._pid:
            return
        try:
            interrupted = sys._getframe(2)  # 1 is the callback
        except ValueError:
            interrupted = None
        for job in jobs:
            job(interrupted)
        if self._jobs and not self._posted and self._post is not None:
            self._posted = self._post()


def _pending_call(run: Callable[[], None]) -> Callable[[], bool] | None:
    """Asks CPython to call `run` on the main thread soon, without a signal; None where that can't be had."""
    try:
        import ctypes

        add = ctypes.pythonapi.Py_AddPendingCall
    except (ImportError, AttributeError):
        return None

    def on_main(_: object) -> int:
        try:
            run()
        except KeyboardInterrupt:
            _thread.interrupt_main()  # Ctrl-C hit us instead of the program: pass it on
        except Exception as error:  # nothing of ours may surface in the program
            failures.append(repr(error)[:200])
            del failures[:-4]
        return 0

    failures: list[str] = []
    callback = ctypes.CFUNCTYPE(ctypes.c_int, ctypes.c_void_p)(on_main)

    def post() -> bool:
        return bool(add(callback, None) == 0)

    return post
