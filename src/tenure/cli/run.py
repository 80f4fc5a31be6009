"""`tenure run`: runs a program unchanged under watch and says whether it leaks.

Exit status: the program's own; 10 when it succeeded and `--fail-on` found something; 2 for a usage error, told in one
sentence.
"""

from __future__ import annotations

from pathlib import Path

import click

from tenure.cli.usage import Usage
from tenure.records import Report

__all__ = ["command"]

FOUND = 10
_TAKES_VALUE = {"--json", "--report", "--record", "--tick", "--fail-on", "--baseline"}


def _usage(sentence: str) -> Usage:
    return Usage("tenure run", sentence)


class _Run(click.Command):
    """Splits the command line at SCRIPT or `-m MODULE`: everything after belongs to the program."""

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        ours, program, is_module = _split(args)
        ctx.meta["tenure.program"] = (program, is_module)
        try:
            return super().parse_args(ctx, ours)
        except click.UsageError as error:
            raise _usage(error.format_message()) from error

    def collect_usage_pieces(self, ctx: click.Context) -> list[str]:
        return ["[OPTIONS]", "SCRIPT|-m MODULE", "[ARGS]..."]


def _split(args: list[str]) -> tuple[list[str], list[str], bool]:
    """Our options, the program's words, and whether the first of them is a module."""
    at = 0
    while at < len(args):
        word = args[at]
        if word == "--":
            return args[:at], args[at + 1 :], False
        if word == "-m":
            return args[:at], args[at + 1 :], True
        if word.startswith("-m") and not word.startswith("--"):
            return args[:at], [word[2:], *args[at + 1 :]], True
        if not word.startswith("-") or word == "-":
            return args[:at], args[at:], False
        at += 2 if word in _TAKES_VALUE else 1
    return args, [], False


@click.command(
    "run",
    cls=_Run,
    short_help="Run a program unchanged and say whether it leaks.",
    epilog="Options end at SCRIPT or -m MODULE; everything after belongs to the program.",
)
@click.option("--json", "json_file", metavar="FILE", help="Write the report as JSON.")
@click.option("--report", "html_file", metavar="FILE", help="Write the report as one HTML page that needs no network.")
@click.option("--record", "record_file", metavar="FILE", help="Keep a recording, readable also after a kill -9.")
@click.option("--tick", "function", metavar="MODULE:FUNCTION", help="A call of this function is one turn of the cycle.")
@click.option(
    "--fail-on",
    type=click.Choice(["leak", "new", "never"]),
    default="never",
    show_default=True,
    help="Exit with 10 when the program succeeded and leaks, or leaks in a way the baseline does not name.",
)
@click.option("--baseline", metavar="FILE", help="For --fail-on new: an earlier --json report or list of fingerprints.")
@click.option("--redact", is_flag=True, help="Leave out the values of arguments.")
@click.pass_context
def command(
    ctx: click.Context,
    json_file: str | None,
    html_file: str | None,
    record_file: str | None,
    function: str | None,
    fail_on: str,
    baseline: str | None,
    redact: bool,
) -> None:
    """Run a program unchanged under watch. The verdict goes to stderr; the exit status is the program's own."""
    from tenure.cli import launch
    from tenure.cli.files import overwritten, unwritable
    from tenure.cli.output import require_tensorflow
    from tenure.cli.watched import Outputs, WatchedProgram

    words, is_module = ctx.meta["tenure.program"]
    if not words or not words[0]:
        raise _usage("no module follows -m" if is_module else "no program was given; add a script, or -m and a module")
    program = launch.Program(words[0], tuple(words[1:]), is_module)
    reason = launch.fault(program)
    if reason is not None:
        raise _usage(reason)
    files = {"--json": json_file, "--report": html_file, "--record": record_file}
    paths = {option: Path(file).absolute() for option, file in files.items() if file is not None}
    for option, path in paths.items():
        reason = unwritable(path)
        if reason is not None:
            raise _usage(f"{option} {files[option]} can't be written: {reason}; give another place")
    reason = overwritten(paths, [*launch.sources(program), *([baseline] if baseline is not None else [])])
    if reason is not None:
        raise _usage(reason)
    if function is not None:
        module, colon, name = function.partition(":")
        if not (colon and module and name):
            raise _usage(f"--tick {function} names no function; write MODULE:FUNCTION, such as train:step")
    known = _known(fail_on, baseline)
    reason = launch.syntax_fault(program)
    if reason is not None:
        raise _usage(reason)
    require_tensorflow("tenure run", missing_is_fine=True)
    outputs = Outputs(paths.get("--json"), paths.get("--report"), paths.get("--record"), redact)
    watched = WatchedProgram(program.words, outputs, function, launch.own_folders(program))

    def status_of(report: Report) -> int:
        leaks = [finding for finding in report.findings if finding.kind == "leak"]
        if fail_on == "new":
            leaks = [finding for finding in leaks if finding.fingerprint not in known]
        return FOUND if leaks and fail_on != "never" else 0

    launch.execute(program, watched, status_of)


def _known(fail_on: str, baseline: str | None) -> frozenset[str]:
    from tenure.cli.watched import fingerprints

    if fail_on == "new" and baseline is None:
        raise _usage("--fail-on new needs --baseline FILE, an earlier report of --json to compare with")
    if baseline is None:
        return frozenset()
    if fail_on != "new":
        raise _usage("--baseline is read for --fail-on new only; add it, or leave --baseline out")
    try:
        return fingerprints(Path(baseline))
    except OSError as error:
        raise _usage(f"--baseline {baseline} can't be read: {(error.strerror or str(error)).lower()}") from error
    except ValueError as error:
        raise _usage(f"--baseline {baseline} is neither a report of --json nor a list of fingerprints") from error
