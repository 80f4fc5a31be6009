"""Finds the program's own cycle and tells a listener, on the thread that turns it, right after each turn.

Sources, the better one wins: `tenure.tick()` in the program; the function named by `--tick`; the outermost user
function that one line of a long-lived frame calls again and again; Keras fits, epochs and batches; calls of the
program's own `tf.function`s; a loop's line (Python 3.12 and later); the gradient tapes of one line, each of which is a
step of a loop that is written out; calls of Keras' `train_on_batch`, `predict` and `evaluate`; seconds. When a better
source shows later, `set_ticks` is called again and the count restarts.

A sampler thread reads the stacks (`stacks`) each 5 ms, and nothing else, until the function is found.
"""

from __future__ import annotations

import _thread
import contextlib
import inspect
import os
import sys
import time
import types
import weakref
from collections.abc import Callable
from functools import partial
from typing import Any, Protocol

from tenure.explain.counting import (
    FunctionCounter,
    LineCounter,
    can_count_lines,
    countable,
    functions_of,
    functions_of_by_heap,
)
from tenure.explain.mainthread import MainThread
from tenure.explain.stacks import Candidate, Stacks, is_users, module_name
from tenure.observe.births import user_site
from tenure.probes.kinds import is_a
from tenure.records import Missing

__all__ = ["Listener", "TickSource", "tick"]

SEARCH_SECONDS = 0.005
CALM_SECONDS = 0.1  # between looks once a cycle is found: only a cycle further out can still replace it
CALM_FOR = 60.0  # then the sampler ends
ENOUGH_INNER = 40  # turns of an inner cycle that give a verdict on their own ...
MANY_OUTER = 5  # ... so that an outer cycle replaces it only when it turns more than a few times
SECONDS_AFTER = 3.0  # without any cycle, ticks are seconds from here on

UNTOLD_SECONDS = 0.05  # for so long turns are only counted, where the listener allows it: telling one takes 10 us

HOT_CALLS, HOT_SECONDS = 5_000, 50e-6  # a function called so often at such a pace is no cycle, and counting it is dear
_MOST_RELAUNCHES = 20

FEW_BATCHES = 4  # an epoch of so few batches is the turn, not its batches

COMPILED_AFTER, COMPILED_CALLS = 0.2, 3  # a tf.function is taken when no function of the user's shows up around it

EXPLICIT, NAMED, FUNCTION, KERAS, COMPILED, LINE, TAPE, LIBRARY_CALL, SECOND, NONE = 9, 8, 7, 6, 5, 4, 3, 2, 1, 0

# Bound now: tests of programs replace time.sleep and time.monotonic, and the sampler must not spin then.
_monotonic, _sleep = time.monotonic, time.sleep

_HERE = os.path.dirname(os.path.dirname(os.path.abspath(__file__))) + os.sep

_current: TickSource | None = None


def tick() -> None:
    """Marks the end of one turn of the program's own cycle. Costs a call and does nothing where nobody watches."""
    source = _current
    if source is not None:
        source.explicit()


class Listener(Protocol):
    """Who is told: `set_ticks` before the first tick of a source, then `tick` on the thread that turns the cycle."""

    def set_ticks(self, unit: str, function: str | None) -> None: ...

    def tick(self, turns: int = 1) -> int:
        """So many turns have ended; tells how many more may end before it is told again, for a while at most."""
        ...

    def epoch(self, batches: int) -> None:
        """While batches are the ticks: an epoch of so many has ended."""


class TickSource:
    """Watches for the program's cycle between `start` and `stop`; `describe` says which it is."""

    def __init__(self, listener: Listener, function: str | None = None, own: tuple[str, ...] = ()) -> None:
        """`function` is MODULE:FUNCTION of `--tick`; `own` are folders of the program's that lie in site-packages."""
        self.missing: list[Missing] = []
        self._listener = listener
        self._named = function
        self._own = own
        self._rank = NAMED if function else NONE  # with a name given nothing weaker is ever used
        self._unit, self._function = "tick", None if function is None else function.replace(":", ".")
        self._announced = False
        self._beats = self._untold = 0
        self._allowed = 1
        self._tell_by = 0.0
        self._paced = False
        self._counter: FunctionCounter | LineCounter | None = None
        self._candidate: Candidate | None = None
        self._stacks = Stacks(own)
        self._pending: Candidate | None = None
        self._busy = _thread.allocate_lock()
        self._started = self._last_found = self._beaten = 0.0
        self._over = True
        self._pid = os.getpid()
        self._sampler_runs = False
        self._native = 0
        self._fit_depth = self._batches = 0
        self._unhook: Callable[[], None] | None = None
        self._unhook_functions: Callable[[], None] | None = None
        self._unhook_tapes: Callable[[], None] | None = None
        self._compiled: dict[tuple[str, int], tuple[int, float]] = {}
        self._taken: tuple[str, int] | None = None
        self._kinds: dict[str, int] = {}
        self._main_thread = MainThread(lambda: not self._over)
        self._tape_lines: dict[tuple[str, int, str], tuple[int, float]] = {}
        self._tape_line: tuple[str, int, str] | None = None
        self._next_second = self._seconds_from = 0.0
        self._relaunches = 0

    # --- for the one who runs the program ------------------------------------------------------------------------

    def start(self) -> None:
        """From here on ticks are looked for; `tenure.tick()` reaches this source. Call it on the main thread."""
        global _current
        _current = self
        self._over = False
        self._pid = os.getpid()
        self._main = _thread.get_ident()
        self._started = self._last_found = _monotonic()
        self._hook_keras()
        self._launch_sampler()
        # A forked child has no sampler and no tick; 3.12 warns of a fork beside threads, so ours ends before it.
        os.register_at_fork(
            before=_weakly(self._halt_sampler),
            after_in_parent=_weakly(self._forked_one),
            after_in_child=_weakly(self._forked),
        )

    def stop(self) -> None:
        """No tick comes after this; the program's functions have their own code again."""
        global _current
        self._over = True
        if _current is self:
            _current = None
        if self._untold and os.getpid() == self._pid:
            self._tell()
        self._halt_sampler()
        if self._unhook is not None:
            self._unhook()
        self._leave_functions()
        if self._counter is not None and os.getpid() == self._pid:
            self._counter.remove()
        if self.unfound is not None:
            self.missing.append(Missing("ticks", self.unfound))

    def _hook_keras(self) -> None:
        if self._named:
            return
        try:
            from tenure.probes.tf.hooks import install_calls

            self._unhook = install_calls(self.keras)
        except Exception as error:
            self.missing.append(Missing("Keras' batches and epochs", f"{type(error).__name__}: {error}"))
        try:
            from tenure.probes.tf.hooks import install_function_calls

            self._unhook_functions = install_function_calls(self.compiled)
        except Exception as error:
            self.missing.append(Missing("calls of tf.functions", f"{type(error).__name__}: {error}"))

        try:
            from tenure.probes.tf.hooks import install_tapes

            self._unhook_tapes = install_tapes(self.tape)
        except Exception as error:
            self.missing.append(Missing("gradient tapes", f"{type(error).__name__}: {error}"))

    def _leave_functions(self) -> None:
        for unhook in (self._unhook_functions, self._unhook_tapes):
            if unhook is not None:
                unhook()
        self._unhook_functions = self._unhook_tapes = None

    @property
    def unfound(self) -> str | None:
        """Why the function of `--tick` gave no tick, in one sentence; None where it gave one or none was named."""
        if not self._named or self._beats or self._rank == EXPLICIT:
            return None
        module_name, _, path = self._named.partition(":")
        module, value = self._value_named()
        if self._counter is not None or self._taken is not None:
            why = "no call of it has ended while tenure counted; name a function that is called once a turn"
        elif module is None:
            why = f"the program never imported a module {module_name}; "
            why += f"use __main__:{path} for a function of the script"
        elif value is None:
            why = f"the module {module_name} has no function {path}; check its name"
        else:
            kind = "generator" if isinstance(value, types.FunctionType) else type(value).__name__
            why = f"that is no function but a {kind}; name a function that is called once a turn"
        return f"--tick {self._named}: {why}"

    def describe(self) -> tuple[str, str | None]:
        """The unit (tick, call, batch, epoch, second) and the function's name, as far as known now."""
        return self._unit, self._function

    def explicit(self) -> None:
        """One `tenure.tick()` of the program: nothing else counts from the first one on."""
        if self._over:
            return
        if self._rank < EXPLICIT:
            self._take(EXPLICIT, "tick", None, None, None)
        self._beat(EXPLICIT)

    def keras(self, what: str, when: str, model: object, items: int | None = None) -> None:
        """What `probes.tf.hooks.install_calls` tells, on the thread it happens: calls of fit and such, and ticks."""
        if self._over or self._rank > KERAS:
            return
        if what == "fit" and when == "enter":
            self._fit_depth, self._batches = 1, 0
        elif what == "fit" and when == "leave":
            self._fit_depth = 0
            self._keras_call(what, KERAS)
        elif what in ("evaluate", "predict", "train_on_batch") and when == "leave" and not self._fit_depth:
            self._keras_call(what, LIBRARY_CALL)
        elif what == "train-batch" and self._fit_depth:
            self._batches += 1
            if self._rank < KERAS:
                self._take(KERAS, "batch", None, None, None)
            if self._unit == "batch":
                self._beat(KERAS)
        elif what == "epoch" and self._fit_depth:
            if self._rank < KERAS or (self._unit == "batch" and self._batches <= FEW_BATCHES):
                self._take(KERAS, "epoch", None, None, None)
            if self._unit == "batch" and self._rank == KERAS:
                self._listener.epoch(self._batches)
            self._batches = 0
            if self._unit == "epoch":
                self._beat(KERAS)

    def compiled(self, function: object) -> None:
        """What `probes.tf.hooks.install_function_calls` tells: a `tf.function` has returned to eager code."""
        named = self._rank == NAMED
        if self._over or (self._rank > COMPILED and not named) or self._fit_depth:
            return
        from tenure.probes.tf import functions

        site = functions.site(function)
        if named:
            if site == self._taken:
                self._beat(NAMED)
            return
        if site is None or not is_users(site[0], self._own):
            return
        if self._rank == COMPILED:
            if self._taken == site:
                self._beat(COMPILED)
            return
        now = _monotonic()
        calls, first = self._compiled.get(site, (0, now))
        if len(self._compiled) < 1000 or site in self._compiled:
            self._compiled[site] = (calls + 1, first)
        if calls + 1 >= COMPILED_CALLS and now - first >= COMPILED_AFTER:
            self._taken = site
            self._take(COMPILED, "call", functions.name(function), None, None)

    def tape(self, tape: object) -> None:
        """What `probes.tf.hooks.install_tapes` tells: a gradient tape has ended, on the thread that used it."""
        if self._over or self._rank > TAPE or self._fit_depth:
            return
        site = user_site(sys._getframe(1))
        if site is None or not is_users(site[0], self._own):
            return
        if self._rank == TAPE:
            if site == self._tape_line:
                self._beat(TAPE)
            return
        now = _monotonic()
        ended, first = self._tape_lines.get(site, (0, now))
        if len(self._tape_lines) < 1000 or site in self._tape_lines:
            self._tape_lines[site] = (ended + 1, first)
        if ended + 1 >= COMPILED_CALLS and now - first >= COMPILED_AFTER:
            self._tape_line = site
            self._take(TAPE, "step", None, None, None)

    def _keras_call(self, what: str, rank: int) -> None:
        calls = self._kinds[what] = self._kinds.get(what, 0) + 1
        if self._rank > rank:
            return
        if calls >= 2 and (self._rank < rank or (what == "fit" and self._unit != "call")):
            self._take(rank, "call", what, None, None)
        if self._unit == "call" and self._function == what:
            self._beat(rank)

    # --- telling the listener, on the user's threads -------------------------------------------------------------

    def _take(
        self,
        rank: int,
        unit: str,
        function: str | None,
        counter: FunctionCounter | LineCounter | None,
        candidate: Candidate | None,
    ) -> None:
        if rank > COMPILED:
            self._leave_functions()  # from here on a call of a tf.function costs nothing more
        old, self._counter = self._counter, counter
        if old is not None:
            old.remove()
        self._rank, self._unit, self._function, self._candidate = rank, unit, function, candidate
        self._announced = self._paced = False
        self._beats = self._untold = self._stacks.unseen = 0
        self._allowed = 1
        self._stacks.current = None if candidate is None else candidate.code
        self._last_found = self._beaten = _monotonic()

    def _beat(self, rank: int, turns: int = 1) -> None:
        # Busy: another thread's turn is being told, or the listener has called the user's function itself.
        if self._over or rank != self._rank or self._busy.locked():
            return
        self._beats += turns
        self._untold += turns
        self._beaten = _monotonic()
        if self._untold >= self._allowed or self._beaten >= self._tell_by:
            self._tell()

    def _tell(self) -> None:
        if not self._busy.acquire(blocking=False):
            return
        try:
            if self._rank == FUNCTION and self._beats >= HOT_CALLS and not self._paced:
                self._paced = True
                if self._is_hot():
                    return
            if not self._announced:
                self._announced = True
                self._listener.set_ticks(self._unit, self._function)
            turns, self._untold = self._untold, 0
            self._allowed = self._listener.tick(turns)
            self._tell_by = _monotonic() + UNTOLD_SECONDS
        except Exception as error:  # the watching may fail, the program must not
            if len(self.missing) < 8:
                self.missing.append(Missing("a tick", f"{type(error).__name__}: {error}"))
        finally:
            self._busy.release()

    def _is_hot(self) -> bool:
        """Whether the counted function is called far too often for a cycle; then it has its own code again."""
        code = self._candidate.code if self._candidate is not None else None
        if code is None or self._beaten - self._last_found > self._beats * HOT_SECONDS:
            return False
        self._refuse(code)
        return True

    # --- the sampler thread --------------------------------------------------------------------------------------

    def _launch_sampler(self) -> None:
        if self._over or self._sampler_runs or self._rank == EXPLICIT:
            return
        self._sampler_runs = True
        self._halt = False
        self._ended, self._wake = _thread.allocate_lock(), _thread.allocate_lock()
        self._ended.acquire()
        self._wake.acquire()
        # not a threading.Thread: the program's threading.enumerate() shows its own threads only
        _thread.start_new_thread(self._sample, (self._ended, self._wake))

    def _halt_sampler(self) -> None:
        if self._sampler_runs and os.getpid() == self._pid:
            self._halt = True
            with contextlib.suppress(RuntimeError):  # another thread that forks has woken it already
                self._wake.release()
            self._ended.acquire(timeout=0.5)
            self._sampler_runs = False
            for _ in range(100):  # CPython counts threads in /proc when it warns of a fork: ours must be gone there
                if not os.path.exists(f"/proc/self/task/{self._native}"):
                    break
                _sleep(0.0002)

    def _forked_one(self) -> None:
        # 3.13 counts the threads after this hook has run, so the sampler comes back only when `os.fork` has returned
        if not self._main_thread.reachable or sys.version_info < (3, 13):
            self._launch_sampler()
        elif not self._over and sys.getprofile() is None and sys.gettrace() is None:
            self._main_thread.ask(
                self._relaunch
            )  # under a profiler the call would come back to this very place for ever

    def _relaunch(self, frame: types.FrameType | None) -> None:
        if frame is not None and frame.f_code.co_filename.startswith(_HERE):
            # Still in a hook of ours. Under a profiler the interpreter comes back to this very place for ever.
            self._relaunches += 1
            if self._relaunches < _MOST_RELAUNCHES:
                self._main_thread.again(self._relaunch)
        else:
            self._relaunches = 0
            self._launch_sampler()

    def _forked(self) -> None:
        self._over = True
        self._sampler_runs = False

    def _sample(self, ended: Any, wake: Any) -> None:
        me = _thread.get_ident()
        self._native = _thread.get_native_id()
        pause = SEARCH_SECONDS
        try:
            while not self._stopping():
                wake.acquire(timeout=pause)  # a fork and the end wake it: each look costs the program a turn of the GIL
                if self._stopping():
                    return
                try:
                    if self._named:
                        if self._find_named():
                            return
                        continue
                    now = _monotonic()
                    best = self._stacks.look(self._main, me, now, now - self._last_found)
                    if best is not None:
                        self._consider(best, now)
                except Exception as error:
                    self.missing.append(Missing("the program's cycle", f"{type(error).__name__}: {error}"))
                    return
                now = _monotonic()
                calm = now - self._last_found
                alive = self._candidate is not None and self._candidate.parent() is not None
                if self._rank == FUNCTION and alive and (calm > 2 or self._beats >= ENOUGH_INNER):
                    pause = CALM_SECONDS
                    if calm > CALM_FOR and self._beats >= ENOUGH_INNER:
                        return
                elif now - self._started > 60 or _tensorflow_is_being_imported():
                    pause = 4 * SEARCH_SECONDS
                else:
                    pause = SEARCH_SECONDS
                if self._rank <= SECOND and now - self._started > SECONDS_AFTER and now >= self._next_second:
                    self._main_thread.ask(self._second)
        finally:
            ended.release()

    def _stopping(self) -> bool:
        return self._halt or self._over or self._rank == EXPLICIT

    # --- taking a candidate --------------------------------------------------------------------------------------

    def _consider(self, new: Candidate, now: float) -> None:
        current = self._candidate
        if current is not None and current.code is new.code and new.code is not None:
            if (
                self._stacks.unseen >= 4 and self._beats == 0
            ):  # calls pass by the counter: a new function object each time
                self._refuse(new.code)
            return
        if self._rank > FUNCTION or self._pending is not None:
            return
        if new.code is None:
            if self._rank < LINE and can_count_lines():
                self._take_line(new)
            return
        if self._rank == FUNCTION and current is not None:
            if new.depth < current.depth:
                if new.calls < (2 if self._beats < ENOUGH_INNER else MANY_OUTER):
                    return
            elif current.parent() is not None or not self._silent(now):
                return
        functions = functions_of(new.code, new.namespace)
        if functions:
            self._take_function(new, functions)
        elif new.main and self._main_thread.reachable:
            self._pending = new
            self._main_thread.ask(self._resolve_on_main)

    def _silent(self, now: float) -> bool:
        """True when the cycle, whose loop has ended, was short or has been quiet for half as long as it turned."""
        return self._beats < 10 or now - self._beaten > max(2.0, 0.5 * (self._beaten - self._last_found))

    def _take_function(self, new: Candidate, functions: list[types.FunctionType]) -> None:
        counter = FunctionCounter(functions[:8], partial(self._beat, FUNCTION))
        self._take(FUNCTION, "call", new.name, counter, new)

    def _take_line(self, new: Candidate) -> None:
        rank = LINE if new.code is None else FUNCTION
        counter = LineCounter(new.parent_code, new.line, partial(self._beat, rank))
        if counter.installed:
            self._take(rank, "call" if new.code else "step", new.name, counter, new)
        elif new.code is not None:
            self._stacks.refused.add(new.code)

    def _refuse(self, code: types.CodeType) -> None:
        refused = self._candidate
        self._stacks.refused.add(code)
        self._take(NONE, "tick", None, None, None)
        if refused is not None and can_count_lines() and refused.parent() is not None:
            self._take_line(refused)

    def _value_named(self) -> tuple[types.ModuleType | None, Any]:
        """The module and the function of `--tick`, as far as they are there now."""
        assert self._named is not None
        name, _, path = self._named.partition(":")
        main = sys.modules.get("__main__")
        module = sys.modules.get(name)
        if module is None and main is not None and name == module_name(vars(main)):
            module = main
        value: Any = module
        for part in path.split("."):
            value = None if value is None else inspect.getattr_static(value, part, None)
        while is_a(value, (staticmethod, classmethod)):
            value = value.__func__
        return module, value

    def _find_named(self) -> bool:
        """Looks once for the function of `--tick`; True when it is counted now."""
        module, value = self._value_named()
        if module is None or self._named is None:
            return False
        name = f"{module_name(vars(module))}.{self._named.partition(':')[2]}"
        if is_a(value, types.FunctionType) and countable(value.__code__):
            self._take(NAMED, "call", name, FunctionCounter([value], partial(self._beat, NAMED)), None)
            return True
        if "tensorflow" in sys.modules and hasattr(type(value), "python_function"):  # a tf.function
            from tenure.probes.tf import functions
            from tenure.probes.tf.hooks import install_function_calls

            self._taken = functions.site(value)
            self._take(NAMED, "call", name, None, None)
            self._unhook_functions = install_function_calls(self.compiled)
            return True
        return False

    # --- work for the main thread --------------------------------------------------------------------------------

    def _resolve_on_main(self, frame: types.FrameType | None) -> None:
        new, self._pending = self._pending, None
        if new is not None and new.code is not None:
            functions = functions_of_by_heap(new.code)
            if functions:
                self._take_function(new, functions)
            elif can_count_lines():
                self._take_line(new)
            else:
                self._stacks.refused.add(new.code)

    def _second(self, frame: types.FrameType | None) -> None:
        # Only between two instructions of the user's own code: there no lock of TensorFlow's is held by this thread.
        if frame is None or not is_users(frame.f_code.co_filename, self._own) or self._rank > SECOND:
            return
        now = _monotonic()
        if self._rank < SECOND:
            self._take(SECOND, "second", None, None, None)
            self._seconds_from = now - 1
        self._beat(SECOND, int(now - self._seconds_from) - self._beats)
        self._next_second = self._seconds_from + self._beats + 1


def _tensorflow_is_being_imported() -> bool:
    """While it is, no cycle turns, and the stacks are deep."""
    module = sys.modules.get("tensorflow")
    return module is not None and not hasattr(module, "Variable")


def _weakly(method: Callable[[], None]) -> Callable[[], None]:
    """Calls the bound method while its object lives: hooks of `os.register_at_fork` can't be taken away."""
    kept = weakref.WeakMethod(method)

    def call() -> None:
        alive = kept()
        if alive is not None:
            alive()

    return call
