"""Runs a script or a module in this process as `python SCRIPT` and `python -m MODULE` would, and ends as Python would.

The program gets its own `__main__` in `sys.modules`, its `sys.argv` and `sys.path[0]`; its tracebacks show no frame of
ours. The order of a normal end is Python's: threads are joined, the program's atexit handlers run; then comes the
report.
"""

from __future__ import annotations

import atexit
import builtins
import contextlib
import importlib.machinery
import importlib.util
import os
import pkgutil
import runpy
import signal
import sys
import threading
import traceback
import types
import zipimport
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any, NoReturn

from tenure.cli.usage import Usage
from tenure.cli.watched import LIBRARIES, WatchedProgram, die_of, patient, say
from tenure.probes.apart import make_room
from tenure.records import Report

__all__ = ["Program", "execute", "fault", "own_folders", "syntax_fault"]

_kept_main: types.ModuleType | None = None


@dataclass(frozen=True)
class Program:
    """What to run: a script (a file, or a folder or zip with `__main__.py`) or a module, and its arguments."""

    target: str
    arguments: tuple[str, ...]
    module: bool = False

    @property
    def words(self) -> tuple[str, ...]:
        """The command line as the user gave it, for the report."""
        return (*(("-m",) if self.module else ()), self.target, *self.arguments)


def fault(program: Program) -> str | None:
    """One sentence why the program can't be run at all, or None. Runs nothing of it."""
    if program.module:
        top = program.target.partition(".")[0]
        with _first_on_path(os.getcwd()):
            try:
                found = importlib.util.find_spec(top)
            except (ImportError, ValueError):
                found = None
        if found is None and os.path.isfile(program.target):
            return f"there is no module {program.target}; it is a file: leave out -m"
        if not top:
            return f"there is no module {program.target}; give its whole name, without a dot before it"
        if found is None:
            return f"there is no module {program.target}; check its name and that {top} is installed or in this folder"
        return None
    path = program.target
    if not os.path.exists(path):
        return f"there is no file {path}; give the path of the program to run"
    if os.path.isdir(path) and not any(os.path.isfile(os.path.join(path, n)) for n in ("__main__.py", "__main__.pyc")):
        return f"{path} is a folder without __main__.py; give a script, or -m and a module"
    if not os.access(path, os.R_OK):
        return f"{path} can't be read; check its permissions"
    return None


def sources(program: Program) -> tuple[str, ...]:
    """The files that the program is read from, as far as they are known before it runs."""
    if not program.module:
        return (program.target,)
    with _first_on_path(os.getcwd()):
        spec = importlib.util.find_spec(program.target)
    return (spec.origin,) if spec is not None and spec.origin is not None else ()


def own_folders(program: Program) -> tuple[str, ...]:
    """The program's folder where that lies among installed packages, whose code is not the user's otherwise."""
    if program.module:
        with _first_on_path(os.getcwd()):
            spec = importlib.util.find_spec(program.target.partition(".")[0])
        origin = None if spec is None else spec.origin
    else:
        origin = os.path.realpath(program.target)
    if origin is None or not {"site-packages", "dist-packages"}.intersection(origin.split(os.sep)):
        return ()
    return (os.path.join(os.path.dirname(origin), ""),)


def syntax_fault(program: Program) -> str | None:
    """One sentence where and why the script does not compile, or None."""
    if program.module or os.path.isdir(program.target) or _is_archive(program.target):
        return None
    try:
        _script_code(program.target)
    except SyntaxError as error:
        if error.lineno is None:  # a null byte, or bytes that are not of the file's encoding
            return f"{program.target} is no Python source: {error.msg}"
        text = f": {error.text.strip()}" if error.text else ""
        return f"{program.target} has a syntax error on line {error.lineno}, {error.msg}{text}"
    except ValueError:  # a null byte in the source, before Python 3.11.4
        return f"{program.target} is no Python source: it contains null bytes"
    return None


def execute(program: Program, watched: WatchedProgram, status_of: Callable[[Report], int] | None = None) -> NoReturn:
    """Runs the program under watch and leaves this process with the program's status.

    `status_of(report)` gives the status of a watched program that succeeded.
    """
    first = _first_of_path(program)
    make_room(first or "", LIBRARIES)
    main = _new_main(program, first)
    try:
        watched.begin()
    except Exception as error:  # the recording that was asked for can't be begun
        raise Usage("tenure run", str(error)) from error
    watched.guard()
    status = _run(program, main)
    if not watched.ours:
        raise SystemExit(status & 0xFF)  # a child that the program forked: Python ends it as it ends any other
    if status == _NOT_RUN:
        watched.end(2)
        raise SystemExit(2)
    interrupted = status == _INTERRUPTED
    try:
        threading._shutdown()  # type: ignore[attr-defined]  # joins the program's threads, as the interpreter would now
    except KeyboardInterrupt:
        interrupted = True
    try:
        patient(interrupted)
        watched.end(130 if interrupted else status & 0xFF)
        atexit._run_exitfuncs()  # the program's handlers, last registered first: the report comes after what they print
        watched.publish()
    except KeyboardInterrupt:
        interrupted = True
        say("tenure: interrupted before the report was complete.")
    if interrupted:
        die_of(signal.SIGINT)
    if status == 0 and status_of is not None and watched.report is not None:
        status = status_of(watched.report)
    raise SystemExit(status & 0xFF)


# No exit statuses: the program was ended by Ctrl-C; there was nothing to run.
_INTERRUPTED, _NOT_RUN = -1_000_000, -1_000_001


def _run(program: Program, main: types.ModuleType) -> int:
    """Runs the program to its end and prints what Python would print; the exit status, `_INTERRUPTED` or `_NOT_RUN`."""
    sys.setrecursionlimit(sys.getrecursionlimit() + _depth())  # the program recurses as deep as it does alone
    try:
        if program.module:
            _run_module(program, main)
        elif os.path.isdir(program.target) or _is_archive(program.target):
            _run_folder(program, main)
        else:
            code = _script_code(program.target)
            exec(code, main.__dict__)
    except SystemExit as error:
        return _status_of_exit(error)
    except _NotRunnable as error:
        say(f"tenure run: {error}.")
        return _NOT_RUN
    except BaseException as error:
        error.__traceback__ = _without_ours(error.__traceback__)
        if isinstance(error, ModuleNotFoundError) and error.name == "tensorflow":
            say(_no_tensorflow(error))
            return 2
        _print_uncaught(error)
        return _INTERRUPTED if isinstance(error, KeyboardInterrupt) else 1
    return 0


def _depth() -> int:
    """How many frames lie below the program's first one."""
    frame: types.FrameType | None = sys._getframe(1)
    depth = 0
    while frame is not None:
        frame, depth = frame.f_back, depth + 1
    return depth


class _NotRunnable(Exception):
    """A module that can't be run with -m."""


def _first_of_path(program: Program) -> str | None:
    """The folder or archive that Python puts first into the program's path; None with `-P`."""
    if not program.module and (os.path.isdir(program.target) or _is_archive(program.target)):
        return _absolute(program.target)
    if getattr(sys.flags, "safe_path", False):
        return None
    return os.getcwd() if program.module else os.path.dirname(os.path.realpath(program.target))


def _new_main(program: Program, first: str | None) -> types.ModuleType:
    """Puts a fresh `__main__` in place, and argv and path as the program expects them."""
    global _kept_main
    _kept_main = sys.modules["__main__"]  # else its globals would be cleared under our feet
    main = types.ModuleType("__main__")
    main.__dict__["__builtins__"] = builtins
    setattr(main, "__annotations__", {})  # noqa: B010  # as the interpreter's own `__main__` has it
    sys.modules["__main__"] = main
    sys.argv = [program.target if not program.module else "-m", *program.arguments]
    if not program.module and not os.path.isdir(program.target) and not _is_archive(program.target):
        path = _absolute(program.target)
        main.__dict__.update(
            __file__=path,
            __cached__=None,
            __loader__=importlib.machinery.SourceFileLoader("__main__", path),
        )
    if getattr(sys.flags, "safe_path", False):
        sys.path[:0] = [first] if first is not None else []
    elif first is not None:
        sys.path[0] = first  # in place of the folder of `tenure` itself
    return main


def _absolute(path: str) -> str:
    """As the interpreter does it: under the current folder, and `.` and `..` stay."""
    return path if os.path.isabs(path) else os.path.join(os.getcwd(), path)


def _script_code(path: str) -> types.CodeType:
    full = _absolute(path)
    with open(full, "rb") as file:
        if full.endswith(".pyc"):
            compiled = pkgutil.read_code(file)
            if isinstance(compiled, types.CodeType):
                return compiled
        file.seek(0)
        return compile(file.read(), full, "exec", dont_inherit=True)


def _run_module(program: Program, main: types.ModuleType) -> None:
    name = program.target
    try:
        # runpy's own look-up: imports the parent packages, picks `__main__` of a package, and says what can't run
        _, spec, code = runpy._get_module_details(name, _NotRunnable)  # type: ignore[attr-defined]
    except _NotRunnable as error:
        raise _NotRunnable(str(error)) from error.__cause__
    sys.argv[0] = spec.origin
    main.__dict__.update(
        __file__=spec.origin,
        __cached__=spec.cached,
        __loader__=spec.loader,
        __package__=spec.parent,
        __spec__=spec,
    )
    exec(code, main.__dict__)


def _run_folder(program: Program, main: types.ModuleType) -> None:
    spec = importlib.machinery.PathFinder.find_spec("__main__", [_absolute(program.target)])
    loader: Any = None if spec is None else spec.loader
    code = None if loader is None else loader.get_code("__main__")
    if spec is None or code is None:
        raise _NotRunnable(f"{program.target} has no __main__.py to run")
    main.__dict__.update(__file__=spec.origin, __cached__=spec.cached, __loader__=loader, __package__="", __spec__=spec)
    exec(code, main.__dict__)


def _is_archive(path: str) -> bool:
    if not os.path.isfile(path):
        return False
    with contextlib.suppress(zipimport.ZipImportError):
        return zipimport.zipimporter(path).find_spec("__main__") is not None
    return False


def _status_of_exit(error: SystemExit) -> int:
    code = error.code
    if code is None:
        return 0
    if isinstance(code, int):
        return code & 0xFF
    with contextlib.suppress(Exception):
        sys.stdout.flush()
    with contextlib.suppress(Exception):  # a closed stderr, or a code that can't be printed
        say(str(code)) if sys.stderr is None else print(code, file=sys.stderr)
    return 1


def _print_uncaught(error: BaseException) -> None:
    """What Python does with an uncaught exception: `sys.last_*`, then the program's `sys.excepthook`."""
    sys.last_type, sys.last_value, sys.last_traceback = type(error), error, error.__traceback__
    if sys.version_info >= (3, 12):
        sys.last_exc = error
    try:
        sys.excepthook(type(error), error, error.__traceback__)
    except SystemExit:
        raise
    except BaseException as failure:
        print("Error in sys.excepthook:", file=sys.stderr)
        traceback.print_exception(type(failure), failure, failure.__traceback__)
        print("\nOriginal exception was:", file=sys.stderr)
        traceback.print_exception(type(error), error, error.__traceback__)


def _without_ours(tb: types.TracebackType | None) -> types.TracebackType | None:
    ours = {__file__, runpy.__file__}
    while tb is not None and (
        tb.tb_frame.f_code.co_filename in ours or tb.tb_frame.f_code.co_filename.startswith("<frozen ")
    ):
        tb = tb.tb_next
    return tb


def _no_tensorflow(error: ModuleNotFoundError) -> str:
    where = "The program"
    for frame in traceback.extract_tb(error.__traceback__):
        if not frame.filename.startswith("<frozen "):
            where = f"{frame.filename}:{frame.lineno}"
    return (
        f"tenure run: {where} imports tensorflow, which is not installed for {sys.executable}; "
        "install TensorFlow 2.16 or later there, or run tenure with the Python that has it."
    )


@contextlib.contextmanager
def _first_on_path(folder: str) -> Iterator[None]:
    before = list(sys.path)
    sys.path.insert(0, folder)
    try:
        yield
    finally:
        sys.path[:] = before
