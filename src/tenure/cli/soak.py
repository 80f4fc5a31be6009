"""`tenure soak`: calls one function many times; flat, leak or inconclusive."""

from __future__ import annotations

import difflib
import importlib
import importlib.util
import inspect
import os
import re
import sys
from collections.abc import Callable
from importlib.machinery import ModuleSpec
from pathlib import Path
from types import ModuleType
from typing import TYPE_CHECKING, Any, NoReturn

import click

from tenure.cli.files import overwritten
from tenure.cli.output import check_writable, fail, require_tensorflow, show, write_outputs

if TYPE_CHECKING:
    from tenure.explain.soak import TargetFailed

__all__ = ["EXIT", "command"]

EXIT = {"flat": 0, "leak": 1, "inconclusive": 4}
_WRITTEN = ("--json", "--report")
_UNITS = {"s": 1, "m": 60, "h": 3600}


@click.command(
    "soak",
    short_help="Call a function many times: flat, leak or inconclusive.",
    context_settings={"ignore_unknown_options": True},
)
@click.option(
    "--cycles", type=int, metavar="N", help="How many times to call the target (60 if neither this nor --for is given)."
)
@click.option("--for", "duration", metavar="TIME", help="How long to call it: 90s, 10m, 2h.")
@click.option(
    "--warmup", type=int, metavar="N", help="Cycles that do not count; found from the number of cycles if absent."
)
@click.option("--setup", metavar="NAME", help="A function of the same module to call once before.")
@click.option("--teardown", metavar="NAME", help="A function of the same module to call once after.")
@click.option("--json", "json_file", metavar="FILE", help="Write the report as JSON.")
@click.option("--report", "html_file", metavar="FILE.html", help="Write the report as one HTML page.")
@click.option("--record", metavar="FILE", help="Keep a recording, readable also after a kill.")
@click.option("--redact", is_flag=True, help="Leave out the values of arguments.")
@click.argument("target")
@click.argument("args", nargs=-1, type=click.UNPROCESSED)
def command(
    cycles: int | None,
    duration: str | None,
    warmup: int | None,
    setup: str | None,
    teardown: str | None,
    json_file: str | None,
    html_file: str | None,
    record: str | None,
    redact: bool,
    target: str,
    args: tuple[str, ...],
) -> None:
    """Call TARGET (path.py:function or package.module:function, also async) again and again.

    It gets the cycle's number if it takes an argument. Exit status: 0 flat, 1 leak,
    4 inconclusive, 2 usage or the target failed.
    """
    if cycles is not None and duration is not None:
        _fail("give --cycles or --for, not both")
    if cycles is not None and cycles < 1:
        from tenure.explain.soak import least_cycles

        _fail(f"--cycles is {cycles}; at least 1 is needed, and {least_cycles()} or more to tell growth from warm-up")
    if warmup is not None and warmup < 0:
        _fail(f"--warmup is {warmup}; it can't be negative")
    seconds = _seconds(duration) if duration is not None else None
    if target.startswith("-"):
        _fail(_no_option(target))
    files = {"--json": json_file, "--report": html_file, "--record": record}
    check_writable("tenure soak", *files.values())
    places = {option: Path(file).absolute() for option, file in files.items() if file is not None and file != "-"}
    clash = overwritten(places, [target.rpartition(":")[0]])
    if clash is not None:
        _fail(clash)
    require_tensorflow("tenure soak")
    from tenure.observe.births import Births
    from tenure.report.json import redacted

    births = Births()
    try:
        births.start()  # before the import, so that what it makes is known too
    except Exception:  # the soak starts them again, and its report says what is missing
        births = Births()
    module, function = _load(target, args)
    before, after = _helper(module, setup, target), _helper(module, teardown, target)
    from tenure.explain.soak import TargetFailed, soak
    from tenure.observe.recording import RecordingError

    progress = _Progress()
    failed: TargetFailed | None = None
    try:
        with progress:
            report = soak(
                function,
                cycles,
                seconds=seconds,
                warmup=warmup,
                setup=before,
                teardown=after,
                program=(target, *args),
                record=Path(record) if record else None,
                on_tick=progress.tick,
                births=births,
                stored=redacted if redact else None,
            )
    except TargetFailed as error:
        report, failed = error.report, error
    except RecordingError as error:
        _fail(str(error).rstrip("."))
    except KeyboardInterrupt:
        _fail("stopped by Ctrl-C before there was a report")
    # In the folder where the command was given: the target may be in another by now.
    json_place, html_place = (str(places[option]) if option in places else files[option] for option in _WRITTEN)
    write_outputs("tenure soak", report, json_place, html_place, redact)
    show(report, recording=record, html=html_file, redact=redact)
    if failed is not None:
        _tell(failed)
        raise SystemExit(2)
    raise SystemExit(EXIT[report.verdict])


def _tell(failed: TargetFailed) -> None:
    """Says what ended the soak: the program's own traceback, or one sentence where it asked to exit."""
    cause = failed.__cause__
    if isinstance(cause, SystemExit):
        status = 0 if cause.code is None else cause.code
        sys.stderr.write(
            f"tenure soak: {failed.part} asked to exit (exit status {status}) at cycle {failed.tick}; "
            "leave sys.exit to the program's main part.\n"
        )
    elif cause is not None:
        _show_traceback(cause)


def _no_option(word: str) -> str:
    known = [name for parameter in command.params for name in parameter.opts if name.startswith("-")]
    near = difflib.get_close_matches(word.partition("=")[0], known, 1)
    return f"there is no option {word}" + (f"; did you mean {near[0]}?" if near else "; see tenure soak --help")


class _Progress:
    """A progress bar on a terminal's stderr; silent elsewhere."""

    def __init__(self) -> None:
        self._bar: Any = None
        self._task: Any = None

    def __enter__(self) -> _Progress:
        if sys.stderr.isatty():
            from rich.console import Console
            from rich.progress import Progress

            self._bar = Progress(console=Console(stderr=True), transient=True)
            self._bar.start()
        return self

    def __exit__(self, *exc: object) -> None:
        if self._bar is not None:
            self._bar.stop()

    def tick(self, done: int, planned: int) -> None:
        if self._bar is None:
            return
        if self._task is None:
            self._task = self._bar.add_task("soak", total=planned)
        self._bar.update(self._task, completed=done)


def _seconds(text: str) -> float:
    match = re.fullmatch(r"(\d+(?:\.\d+)?)\s*([smh]?)", text.strip())
    if match is None or float(match[1]) <= 0:
        _fail(f"--for is {text!r}; give a time above zero such as 90s, 10m or 2h")
    return float(match[1]) * _UNITS[match[2] or "s"]


def _load(target: str, args: tuple[str, ...]) -> tuple[ModuleType, Callable[..., Any]]:
    where, colon, name = target.rpartition(":")
    if not colon or not where or not name:
        _fail(f"the target is {target!r}; give path.py:function or package.module:function")
    sys.argv = [where, *args]
    spec = _spec_of_path(where) if where.endswith(".py") or os.sep in where else None
    try:
        module = _module_of(spec) if spec is not None else _module_by_name(where)
    except SyntaxError as error:
        file = where if error.filename is None else os.path.relpath(error.filename)
        _fail(f"{file} has a syntax error on line {error.lineno}: {error.msg}")
    except _NoModule:
        _fail(f"no module named {where!r} from here; give path.py:function, or start in the folder that holds it")
    except SystemExit as error:
        _fail(
            f"{where} ended while it was imported (exit status {error.code}); "
            "guard its main part by `if __name__ == '__main__':`"
        )
    except KeyboardInterrupt:
        _fail(f"stopped by Ctrl-C while {where} was imported")
    except BaseException as error:
        _show_traceback(error)
        _fail(f"{where} can't be imported: {type(error).__name__}: {error}")
    found: Any = module
    for part in name.split("."):
        found = getattr(found, part, None)
        if found is None:
            near = difflib.get_close_matches(name, [n for n in vars(module) if callable(getattr(module, n, None))], 1)
            hint = f"; did you mean {near[0]!r}?" if near else ""
            _fail(f"{where} has no function {name!r}{hint}")
    if isinstance(found, type):
        try:
            found = found()
        except KeyboardInterrupt:
            _fail(f"stopped by Ctrl-C while {target} was made")
        except BaseException as error:
            _show_traceback(error)
            _fail(f"{target} can't be made without arguments: {type(error).__name__}: {error}")
    if not callable(found):
        _fail(f"{target} is {type(found).__name__}, not a function")
    if inspect.isgeneratorfunction(found) or inspect.isasyncgenfunction(found):
        _fail(f"{target} is a generator function: a call of it runs nothing; wrap it in a function that exhausts it")
    _check_arguments(target, found)
    return module, found


def _check_arguments(target: str, function: Callable[..., Any]) -> None:
    """Fails for a target that can't be called with the index alone."""
    try:
        parameters = inspect.signature(function).parameters.values()
    except (TypeError, ValueError):  # some built-in callables tell no signature
        return
    required = [p for p in parameters if p.default is p.empty and p.kind not in (p.VAR_POSITIONAL, p.VAR_KEYWORD)]
    more = [p.name for place, p in enumerate(required) if place > 0 or p.kind is p.KEYWORD_ONLY]
    if more:
        _fail(f"{target} also needs {', '.join(more)}; a target gets the cycle's number or nothing")


def _spec_of_path(where: str) -> ModuleSpec:
    path = Path(where)
    if path.is_dir():
        _fail(f"{where} is a directory; give a Python file and a function: {where}/file.py:function")
    if not path.is_file():
        _fail(f"{where} does not exist; give the path of a Python file and a function in it")
    sys.path.insert(0, str(path.parent.resolve()))
    name = path.stem if path.stem not in sys.modules else f"{path.stem}_soaked"
    spec = importlib.util.spec_from_file_location(name, path.resolve())
    if spec is None or spec.loader is None:
        _fail(f"{where} is no Python file")
    return spec


def _module_of(spec: ModuleSpec) -> ModuleType:
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules[spec.name] = module
    spec.loader.exec_module(module)
    return module


class _NoModule(Exception):
    """The module that was named is not there (one that it imports is another matter)."""


def _module_by_name(where: str) -> ModuleType:
    sys.path.insert(0, os.getcwd())
    try:
        return importlib.import_module(where)
    except ModuleNotFoundError as error:
        if error.name is not None and (where == error.name or where.startswith(error.name + ".")):
            raise _NoModule from error
        raise


def _helper(module: ModuleType, name: str | None, target: str) -> Callable[[], Any] | None:
    if name is None:
        return None
    found = getattr(module, name, None)
    if not callable(found):
        _fail(f"{target.rpartition(':')[0]} has no function {name!r}")
    return found  # type: ignore[no-any-return]


def _show_traceback(error: BaseException) -> None:
    from tenure.explain.soak import users_traceback

    sys.stderr.write(users_traceback(error))


def _fail(sentence: str) -> NoReturn:
    fail("tenure soak", sentence)
