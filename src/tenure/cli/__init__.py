"""The command line: a group whose commands load when they are called.

`tenure --help` imports neither TensorFlow nor any command, so it is quick and works in a broken environment too.
"""

from __future__ import annotations

import errno
import io
import sys
from importlib import import_module

import click

from tenure import __version__

# name -> (module that holds a click command called `command`, its line in `tenure --help`)
COMMANDS: dict[str, tuple[str, str]] = {
    "run": ("tenure.cli.run", "Run a program unchanged and say whether it leaks."),
    "soak": ("tenure.cli.soak", "Call a function many times: flat, leak or inconclusive."),
    "report": ("tenure.cli.report", "Show a recording again, also one a killed program left."),
    "explain": ("tenure.cli.explain", "Explain a cause of growth and its cure, by name or code."),
    "doctor": ("tenure.cli.doctor", "Say which probes work on this machine, and why not."),
    "demo": ("tenure.cli.demo", "Find a planted leak and show its cure, in a minute or two."),
}


_PRINTING = ("report", "explain", "doctor", "demo")  # what they are for goes to stdout


class _Closed(io.TextIOBase):
    """A standard output that was closed before we began."""

    def write(self, text: str, /) -> int:
        raise OSError(errno.EBADF, "it is closed")


def _in_one_sentence(error: click.UsageError) -> click.ClickException:
    from tenure.cli.usage import in_one_sentence

    return in_one_sentence(error, "tenure")


class LazyGroup(click.Group):
    """A click group that knows its commands by name only, until one is called."""

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        try:
            return super().parse_args(ctx, args)
        except click.UsageError as error:
            raise _in_one_sentence(error) from error

    def invoke(self, ctx: click.Context) -> object:
        try:
            return super().invoke(ctx)
        except click.UsageError as error:
            raise _in_one_sentence(error) from error
        except OSError as error:
            command = ctx.invoked_subcommand
            if error.errno == errno.EPIPE or error.filename is not None or command not in _PRINTING:
                raise  # click ends quietly where nobody reads on
            reason = (error.strerror or str(error)).lower()
            click.echo(f"tenure {command}: standard output can't be written: {reason}.", err=True)
            raise SystemExit(1) from error

    def resolve_command(
        self, ctx: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        name, command, rest = super().resolve_command(ctx, args)
        if sys.stdout is None and name in _PRINTING:
            sys.stdout = _Closed()
        return name, command, rest

    def list_commands(self, ctx: click.Context) -> list[str]:
        return list(COMMANDS)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        if cmd_name not in COMMANDS:
            return None
        module, _ = COMMANDS[cmd_name]
        try:
            command = import_module(module).command
        except ModuleNotFoundError as error:
            raise click.ClickException(f"`tenure {cmd_name}` can't start here: {error}") from error
        if not isinstance(command, click.Command):
            raise TypeError(f"{module}.command is no click command: {command!r}")
        return command

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        with formatter.section("Commands"):
            formatter.write_dl([(name, line) for name, (_, line) in COMMANDS.items()])


@click.group(cls=LazyGroup, context_settings={"help_option_names": ["-h", "--help"]})
@click.version_option(__version__, prog_name="tenure")
def tenure() -> None:
    """Find out what keeps TensorFlow objects alive: what grows, where it is made, who holds it, what cures it."""
