"""`tenure report`: shows a recording again, also one that a killed program left."""

from __future__ import annotations

import json
import os
import sys
from dataclasses import replace
from pathlib import Path

import click

from tenure.cli.files import overwritten, write_atomically
from tenure.observe.recording import Recording, RecordingError, open_recording
from tenure.records import Report, Ticks, units
from tenure.report.json import dumps, redacted
from tenure.report.text import render

__all__ = ["command", "report_of"]


@click.command("report", short_help="Show a recording again, also one a killed program left.")
@click.option("--json", "json_file", metavar="FILE", help="Write the report as JSON; - prints it in place of the text.")
@click.option("--html", "html_file", metavar="FILE", help="Write the report as one HTML page that needs no network.")
@click.option("--waterfall", is_flag=True, help="Show where the resident memory is, also when it did not grow.")
@click.option("--redact", is_flag=True, help="Leave out the values of arguments.")
@click.argument("recording")
def command(json_file: str | None, html_file: str | None, waterfall: bool, redact: bool, recording: str) -> None:
    """Show RECORDING again, also one that a killed program left: its last verdict, or what can be said without one."""
    outputs = {"--json": json_file, "--html": html_file}
    places = {option: Path(file) for option, file in outputs.items() if file is not None and file != "-"}
    clash = overwritten(places, [recording])
    if clash is not None:
        _fail(f"{clash}.")
    try:
        opened = open_recording(recording)
        report = report_of(opened)
    except (RecordingError, ValueError) as error:
        _fail(str(error))
    if redact:
        report = redacted(report)
    if json_file is not None:
        text = dumps(report, indent=2) + "\n"
        _write(json_file, text)
    if html_file is not None:
        from tenure.report.html import render as page

        _write(html_file, page(report, opened.samples))
    if "-" in (json_file, html_file):
        return
    terminal = sys.stdout.isatty()
    color = terminal and not os.environ.get("NO_COLOR") and os.environ.get("TERM") != "dumb"
    width = None if terminal else 100
    _say(render(report, width, color, recording=recording, html=html_file, waterfall=waterfall))


def report_of(recording: Recording) -> Report:
    """The recording's report with its samples; without one, an inconclusive one that says how many ticks it holds."""
    samples = recording.samples
    notes: tuple[str, ...] = ()
    if not recording.ended:
        last = f"the last sample is of {_unit(recording)} {samples[-1].tick:,}" if samples else "no sample was taken"
        notes = (f"the recording has no end: the program was killed or still runs; {last}",)
    if recording.report is not None:
        return replace(recording.report, samples=samples, notes=(*recording.report.notes, *notes))
    described = json.loads(recording.meta.get("ticks", "{}"))
    unit = _unit(recording)
    count = samples[-1].tick - samples[0].tick + 1 if samples else 0
    warmup = min(int(described.get("warmup", 0)), count)
    return Report(
        tenure=recording.meta.get("tenure", "unknown"),
        versions=recording.versions,
        program=recording.program,
        exit_status=recording.exit_status,
        verdict="inconclusive",
        # Four windows of ten ticks after warm-up are the least that a verdict is made from.
        why=f"{units(unit, count)} {'was' if count == 1 else 'were'} seen and no verdict was stored; "
        f"a run of {units(unit, max(2 * count, warmup + 40))} would decide",
        ticks=Ticks(unit, described.get("function"), count, warmup),
        growth=None,
        notes=notes,
        samples=samples,
    )


def _unit(recording: Recording) -> str:
    return str(json.loads(recording.meta.get("ticks", "{}")).get("unit", "tick"))


def _write(file: str, text: str) -> None:
    if file == "-":
        _say(text)
        return
    try:
        write_atomically(Path(file), text)
    except OSError as error:
        _fail(f"{file} can't be written: {(error.strerror or str(error)).lower()}.")


def _say(text: str) -> None:
    # A terminal of another encoding shows what it can: a foreign letter in a path must not end in a traceback.
    encoding = sys.stdout.encoding or "utf-8"
    click.echo(text.encode(encoding, "replace").decode(encoding), nl=False)


def _fail(sentence: str) -> None:
    click.echo(f"tenure report: {sentence}", err=True)
    raise SystemExit(2)
