"""`tenure demo`: a real leak of the framework found, explained and cured, on a job that follows the usual advice."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any

import click

from tenure.cli.output import fail, require_tensorflow

__all__ = ["command"]

_DAYS = 10
_PROGRAM = Path(__file__).resolve().parents[1] / "demo" / "daily_job.py"


@click.command("demo", short_help="Find a planted leak and show its cure, in a minute.")
@click.option(
    "--days", type=click.IntRange(8, 200), default=_DAYS, show_default=True, help="How many days the job runs."
)
def command(days: int) -> None:
    """Run a small daily training job that leaks although it follows the usual advice, then the same job cured."""
    require_tensorflow("tenure demo")
    click.echo(
        f"A model is built, fitted and dropped each day ({days} days), with del, clear_session() and gc.collect():\n"
    )
    click.echo(_source("day"))
    leaking = _soak("day", days, show=True)
    click.echo("\nThe same job, with the orphaned graphs and kernels released after each day:\n")
    click.echo(_source("released_day"))
    cured = _soak("released_day", days, show=True)
    click.echo(_side_by_side(leaking, cured))
    if leaking["verdict"] != "leak" or cured["verdict"] != "flat":
        click.echo(_unexpected(leaking, cured))


def _source(function: str) -> str:
    lines = _PROGRAM.read_text(encoding="utf-8").splitlines()
    start = next(i for i, line in enumerate(lines) if line.startswith(f"def {function}("))
    end = next((i for i in range(start + 1, len(lines)) if lines[i] and not lines[i].startswith(" ")), len(lines))
    return "\n".join(f"    {line}" for line in lines[start:end]).rstrip() + "\n"


def _soak(function: str, days: int, show: bool) -> dict[str, Any]:
    """One soak in a process of its own; its text goes to stderr as it would for a user."""
    with tempfile.TemporaryDirectory() as folder:
        out, recording = Path(folder) / "report.json", Path(folder) / "days.tenure"
        command = [
            sys.executable,
            "-m",
            "tenure",
            "soak",
            "--cycles",
            str(days),
            "--json",
            str(out),
            "--record",
            str(recording),
            f"{_PROGRAM}:{function}",
        ]
        done = subprocess.run(
            command,
            env={**os.environ, "TF_CPP_MIN_LOG_LEVEL": "3"},
            stderr=None if show else subprocess.DEVNULL,
            check=False,
        )
        if not out.exists():
            fail(
                "tenure demo",
                f"the soak of {function} ended with status {done.returncode} and left no report; see `tenure doctor`",
            )
        report: dict[str, Any] = json.loads(out.read_text(encoding="utf-8"))
        from tenure.observe.recording import open_recording

        report["in_use"] = {s.tick: s.native for s in open_recording(recording).samples if s.native is not None}
    return report


def _side_by_side(leaking: dict[str, Any], cured: dict[str, Any]) -> str:
    """Bytes in use by day since the first one that was measured, for both jobs."""
    first = leaking["ticks"]["warmup"]
    lines = ["", "memory in use, more than after warm-up", f"{'day':>6} {'as the forums say':>20} {'released':>12}"]
    columns = [_since(job["in_use"], first) for job in (leaking, cured)]
    for day in sorted(set(columns[0]) & set(columns[1])):
        lines.append(f"{day:>6} {columns[0][day] / 1e6:>17.1f} MB {columns[1][day] / 1e6:>9.1f} MB")
    rates = [(job["growth"] or {}).get("bytes_per_tick") or 0.0 for job in (leaking, cured)]
    lines.append(f"{'a day':>6} {rates[0] / 1e6:>17.2f} MB {rates[1] / 1e6:>9.2f} MB")
    return "\n".join(lines)


def _since(in_use: dict[int, int], first: int) -> dict[int, int]:
    later = {tick: value for tick, value in in_use.items() if tick >= first}
    if not later:
        return {}
    start = later[min(later)]
    return {tick: value - start for tick, value in later.items()}


def _unexpected(leaking: dict[str, Any], cured: dict[str, Any]) -> str:
    return (
        f"\nExpected: leak, then flat. Seen here: {leaking['verdict']}, then {cured['verdict']}. "
        f"TensorFlow {leaking['versions']['tensorflow']} may have cured this leak; "
        "`tenure explain TEN201` has the versions."
    )
