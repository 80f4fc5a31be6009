"""What the commands share at their ends: files checked before the program runs, the report shown and written after."""

from __future__ import annotations

import importlib.util
import sys
from importlib import metadata
from pathlib import Path
from typing import NoReturn

import click

from tenure.cli.files import unwritable, write_atomically
from tenure.records import Report

__all__ = ["OLDEST", "check_writable", "fail", "require_tensorflow", "show", "write_outputs"]

OLDEST = (2, 16)
_DISTRIBUTIONS = (
    "tensorflow",
    "tensorflow-cpu",
    "tf-nightly",
    "tf-nightly-cpu",
    "tensorflow-intel",
    "tensorflow-macos",
)


def fail(command: str, sentence: str) -> NoReturn:
    """Ends with exit status 2 after one sentence on stderr: what was given, what is wrong, what to do."""
    click.echo(f"{command}: {sentence}.", err=True)
    raise SystemExit(2)


def check_writable(command: str, *files: str | None) -> None:
    """Fails now for an output that can't be written, not after the program has run for an hour."""
    for file in files:
        reason = unwritable(Path(file)) if file is not None and file != "-" else None
        if reason is not None:
            fail(command, f"{file} can't be written: {reason}; give another place")


def require_tensorflow(command: str, missing_is_fine: bool = False) -> None:
    """Fails with one sentence when TensorFlow is older than 2.16, or missing. Does not import it.

    A program that never imports TensorFlow can be run all the same: `missing_is_fine`.
    """
    if importlib.util.find_spec("tensorflow") is None:
        if missing_is_fine:
            return
        fail(
            command,
            "TensorFlow is not installed here; install it (pip install tensorflow-cpu, or your own build)",
        )
    for name in _DISTRIBUTIONS:
        try:
            version = metadata.version(name)
        except metadata.PackageNotFoundError:
            continue
        numbers = tuple(int(part) for part in version.split(".")[:2] if part.isdigit())
        if len(numbers) == 2 and numbers < OLDEST:
            fail(command, f"TensorFlow {version} is too old; {OLDEST[0]}.{OLDEST[1]} is the oldest that tenure knows")
        return


def write_outputs(command: str, report: Report, json_file: str | None, html_file: str | None, redact: bool) -> None:
    """Writes the JSON and the page that were asked for; says what could not be written and goes on."""
    if json_file is not None:
        from tenure.report.json import dumps, redacted

        text = dumps(redacted(report) if redact else report, indent=2) + "\n"
        _write(command, json_file, text)
    if html_file is not None:
        from tenure.report.html import render
        from tenure.report.json import redacted

        _write(command, html_file, render(redacted(report) if redact else report, report.samples))


def _write(command: str, file: str, text: str) -> None:
    if file == "-":
        click.echo(text, nl=False)
        return
    try:
        write_atomically(Path(file), text)
    except OSError as error:
        click.echo(f"{command}: {file} could not be written: {(error.strerror or str(error)).lower()}.", err=True)


def show(report: Report, recording: str | None, html: str | None, redact: bool) -> None:
    """Prints the verdict to stderr, in colour on a terminal."""
    from tenure.report.json import redacted
    from tenure.report.text import render

    text = render(redacted(report) if redact else report, recording=recording, html=html)
    encoding = sys.stderr.encoding or "utf-8"
    sys.stderr.write(text.encode(encoding, "replace").decode(encoding))
    sys.stderr.flush()
