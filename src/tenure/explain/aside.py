"""Work on a copy of the process: a forked child walks the heap and answers while the program goes on.

The program pays for the fork alone (40 ms for a process of 3.5 GB, measured), not for the walk. The child runs only
tenure's readers, never collects garbage (finalisers would run twice), writes its answer into shared memory and leaves
by `os._exit`; an alarm ends it when a lock that another thread held at the fork never opens. Memory and no pipe: a
program may close any descriptor (`os.closerange`) and get its number for a file of its own.
"""

from __future__ import annotations

import gc
import mmap
import os
import pickle
import resource
import signal
import threading
from collections.abc import Callable
from time import perf_counter
from typing import Generic, TypeVar

from tenure.explain import children
from tenure.probes import ProbeError

__all__ = ["Aside", "Withdrawn"]

T = TypeVar("T")

_SECONDS = 60  # the child's time; a walk of a million objects takes under one
_MOST = 1 << 28  # bytes of an answer; what is not written takes no memory
_LENGTH = 8


class Withdrawn(ProbeError):
    """The copy was ended for the program's sake, without an answer; from now on there are none."""


class Aside(Generic[T]):
    """One piece of work in a forked child: `done()` tells when the answer is there, `result()` takes it.

    The answer is pickled by our own child, so nothing foreign is ever unpickled. OSError when there can be no child.
    """

    def __init__(self, work: Callable[[], T]) -> None:
        self.pause = 0.0
        self._data = b""
        self._ended = threading.Event()
        began = perf_counter()
        reserve_none = getattr(mmap, "MAP_NORESERVE", 0)
        shared = mmap.mmap(-1, _MOST, flags=mmap.MAP_SHARED | mmap.MAP_ANONYMOUS | reserve_none)
        try:
            self._child = children.fork()
        except BaseException:
            shared.close()
            raise
        if self._child == 0:
            _answer(work, shared)
        self.pause = perf_counter() - began
        self._reader = threading.Thread(target=self._read, args=(shared,), name="tenure-aside", daemon=True)
        try:
            self._reader.start()
        except RuntimeError as error:  # the process has all the threads it may have
            children.end(self._child)
            self._read(shared)
            raise OSError(f"no thread to read a forked copy's answer: {error}") from error

    def done(self) -> bool:
        """Whether the child has answered or died."""
        return self._ended.is_set()

    def result(self, wait: float = 0.0) -> T:
        """The answer. Raises ProbeError when there is none after `wait` seconds, or when the child failed."""
        if not self._ended.wait(wait):
            raise ProbeError("the forked reader of the heap has not answered yet")
        if not self._data and children.withdrawn(self._child):
            raise Withdrawn("the program waits for any child of its own")
        if not self._data:
            raise ProbeError("the forked reader of the heap died without an answer")
        good, answer = pickle.loads(self._data)
        if not good:
            raise ProbeError(f"the forked reader of the heap failed: {answer}")
        return answer  # type: ignore[no-any-return]

    def end(self) -> None:
        """Ends the child if it still runs; its answer is lost."""
        children.end(self._child)

    def _read(self, shared: mmap.mmap) -> None:
        children.reap(self._child)
        try:
            with shared:
                self._data = shared[_LENGTH : _LENGTH + int.from_bytes(shared[:_LENGTH], "little")]
        finally:
            self._ended.set()


def _answer(work: Callable[[], T], shared: mmap.mmap) -> None:
    """The child's whole life."""
    status = 1
    try:
        gc.disable()
        for number in (signal.SIGALRM, signal.SIGINT, signal.SIGTERM):
            signal.signal(number, signal.SIG_DFL)
        signal.alarm(_SECONDS)
        # A socket, a lock or a file that the program closes must be closed: none of its descriptors live on here.
        most = min(resource.getrlimit(resource.RLIMIT_NOFILE)[0], 1 << 16)
        os.closerange(3, most)
        try:
            answer = pickle.dumps((True, work()))
            if len(answer) > _MOST - _LENGTH:
                raise MemoryError(f"the answer of {len(answer)} bytes is too long")
        except BaseException as error:
            answer = pickle.dumps((False, f"{type(error).__name__}: {error}"))
        shared[_LENGTH : _LENGTH + len(answer)] = answer
        shared[:_LENGTH] = len(answer).to_bytes(_LENGTH, "little")  # last: a child that is killed before leaves none
        status = 0
    finally:
        os._exit(status)
