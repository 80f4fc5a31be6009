"""`tenure demo`: a real leak of the framework found, explained and cured, on a job that follows the usual advice."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any

import click

from tenure.cli.output import fail, require_tensorflow
from tenure.contract import from_dict
from tenure.explain.schedule import plan
from tenure.observe.recording import open_recording
from tenure.report.text import render

__all__ = ["command"]

_DAYS = 16
_PROGRAM = Path(__file__).resolve().parents[1] / "demo" / "daily_job.py"


@click.command("demo", short_help="Find a planted leak and show its cure, in a minute or two.")
@click.option(
    "--days", type=click.IntRange(8, 200), default=_DAYS, show_default=True, help="How many days the job runs."
)
def command(days: int) -> None:
    """Run a small daily training job that leaks although it follows the usual advice, then the same job cured.

    Exit status 1 when the verdicts are not leak, then flat.
    """
    require_tensorflow("tenure demo")
    click.echo(
        f"A model is built, fitted and dropped each day ({days} days), with del, clear_session() and gc.collect():\n"
    )
    click.echo(_source("day"))
    leaking = _soak("day", days)
    click.echo("\nThe same job, with the orphaned graphs and kernels released after each day:\n")
    cured = _soak("released_day", days)
    click.echo(_side_by_side(leaking, cured))
    if leaking["verdict"] != "leak" or cured["verdict"] != "flat":
        click.echo(_unexpected(leaking, cured))
        raise SystemExit(1)


def _source(function: str) -> str:
    lines = _PROGRAM.read_text(encoding="utf-8").splitlines()
    start = next(i for i, line in enumerate(lines) if line.startswith(f"def {function}("))
    end = next((i for i in range(start + 1, len(lines)) if lines[i] and not lines[i].startswith(" ")), len(lines))
    return "\n".join(f"    {line}" for line in lines[start:end]).rstrip() + "\n"


def _soak(function: str, days: int) -> dict[str, Any]:
    """The report of one soak in a process of its own, shown as a user would see it, with the bytes in use by day."""
    with tempfile.TemporaryDirectory() as folder:
        out, recording = Path(folder) / "report.json", Path(folder) / "days.tenure"
        program = Path(folder) / _PROGRAM.name  # a copy: what lies among tenure's own files is nobody's program
        shutil.copy(_PROGRAM, program)
        command = [sys.executable, "-m", "tenure", "soak", "--cycles", str(days), "--json", str(out)]
        command += ["--record", str(recording), f"{program}:{function}"]
        environment = {**os.environ, "TF_CPP_MIN_LOG_LEVEL": "3"}
        done = subprocess.run(command, env=environment, capture_output=True, text=True, check=False)
        if not out.exists():
            click.echo(done.stderr[-2000:], err=True)
            fail("tenure demo", f"the soak of {function} ended with status {done.returncode}; see `tenure doctor`")
        report: dict[str, Any] = json.loads(out.read_text(encoding="utf-8"))
        samples = open_recording(recording).samples
    click.echo(render(from_dict(report)), nl=False)
    # After the last mark the autopsy releases what it finds: those days are not the job's own.
    last = plan(days).marks[-1]
    report["in_use"] = {s.tick: s.native for s in samples if s.native is not None and s.tick <= last}
    return report


def _side_by_side(leaking: dict[str, Any], cured: dict[str, Any]) -> str:
    """Bytes in use by day since the first one that was measured, for both jobs."""
    first = leaking["ticks"]["warmup"]
    head = "in use in malloc and TensorFlow's pool, beyond what it was after warm-up"
    lines = ["", head, f"{'day':>6} {'as the forums say':>20} {'released':>12}"]
    columns = [_since(job["in_use"], first) for job in (leaking, cured)]
    for day in sorted(set(columns[0]) & set(columns[1])):
        lines.append(f"{day:>6} {columns[0][day] / 1e6:>17.1f} MB {columns[1][day] / 1e6:>9.1f} MB")
    shown = max(set(columns[0]) & set(columns[1]), default=first)
    lines.append(f"On the days after {shown} the soak releases memory itself, to learn what comes back.")
    return "\n".join(lines)


def _since(in_use: dict[int, int], first: int) -> dict[int, int]:
    later = {tick: value for tick, value in in_use.items() if tick >= first}
    if not later:
        return {}
    start = later[min(later)]
    return {tick: value - start for tick, value in later.items()}


def _unexpected(leaking: dict[str, Any], cured: dict[str, Any]) -> str:
    version = leaking["versions"]["tensorflow"]
    return (
        f"\nExpected: leak, then flat. Seen here: {leaking['verdict']}, then {cured['verdict']}. TensorFlow {version} "
        "is not one that this was measured on (2.16 to 2.21), or the machine is too busy: try --days 40."
    )
