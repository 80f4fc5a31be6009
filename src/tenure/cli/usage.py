"""Usage errors as one sentence on stderr, with exit status 2."""

from __future__ import annotations

from typing import Any

import click

__all__ = ["Usage", "in_one_sentence"]


class Usage(click.ClickException):
    """What was given, what is wrong, what to do; `command` is what the user called, such as `tenure run`."""

    exit_code = 2

    def __init__(self, command: str, sentence: str) -> None:
        super().__init__(sentence)
        self.command = command

    def show(self, file: Any = None) -> None:
        """Prints the sentence to stderr."""
        click.echo(f"{self.command}: {self.message.rstrip('.')}{'' if self.message.endswith('?') else '.'}", err=True)


def in_one_sentence(error: click.UsageError, command: str) -> Usage:
    """What click found, without its three lines of usage."""
    name = error.ctx.command_path if error.ctx is not None else command
    found = error.format_message().rstrip(".")
    return Usage(name, f"{found} See {name} --help" if found.endswith("?") else f"{found}; see {name} --help")
