"""`tenure doctor`: which probes work on this machine, which don't, and why."""

from __future__ import annotations

import json
import os
import platform
import sys
from collections.abc import Callable
from dataclasses import asdict, dataclass
from importlib.metadata import PackageNotFoundError, version
from importlib.util import find_spec

import click
from rich.console import Console
from rich.table import Table
from rich.text import Text

from tenure import __version__
from tenure.probes import process, read


@dataclass(frozen=True, slots=True)
class Check:
    """One probe's state: `why` is the figure it gave when it works, and the reason when it does not."""

    probe: str
    works: bool
    why: str


@click.command("doctor")
@click.option("--json", "as_json", is_flag=True, help="Print JSON instead of a table.")
def command(as_json: bool) -> None:
    """Say which probes work on this machine, which don't, and why.

    A probe that is missing costs its own figure only, so the exit status is 0 either way.
    """
    checks = [*_process(), *_heap(), *_tensorflow()]
    versions = {
        "python": platform.python_version(),
        "tensorflow": _installed_tensorflow(),
        "keras": _installed("keras"),
    }
    if as_json:
        document = {
            "schema": "tenure/doctor/1",
            "tenure": __version__,
            "versions": versions,
            "platform": platform.platform(),
            "probes": [asdict(check) for check in checks],
        }
        click.echo(json.dumps(document, indent=2))
        return
    console = Console(highlight=False)
    told = ", ".join(f"{name} {number or 'not installed'}" for name, number in versions.items())
    console.print(Text(f"tenure {__version__} on {told}\n"))
    table = Table(box=None, pad_edge=False, header_style="bold")
    table.add_column("probe", no_wrap=True)
    table.add_column("works", no_wrap=True)
    table.add_column("figure, or why not", overflow="fold")
    for check in checks:
        works = Text("yes", "green") if check.works else Text("no", "red")
        table.add_row(Text(check.probe), works, Text(check.why))
    console.print(table)
    broken = sum(not check.works for check in checks)
    console.print(Text(f"\n{len(checks) - broken} of {len(checks)} probes work"))


def _process() -> list[Check]:
    return [
        _figure("resident memory", process.rss, _mib),
        _figure("peak of resident memory", process.peak_rss, _mib),
        _figure("resident memory by mapping", process.rss_by_mapping, lambda found: f"{_mib(found.file)} from files"),
        _figure("memory limit", process.memory_limit, lambda limit: f"{_mib(limit.bytes)}, {limit.source}"),
        _figure("malloc in use and free", process.mallinfo, _malloc),
        _figure("Python's own blocks", process.python_blocks, lambda blocks: f"{blocks:,} blocks"),
    ]


def _heap() -> list[Check]:
    try:
        from tenure.probes import heap
    except Exception as error:  # a C module built for another Python can break in any way
        return [Check("walk of the heap", False, _clause(error))]
    why = "compiled" if heap.NATIVE else "not compiled at install: a walk in Python stands in, 10-12 times slower"
    return [Check("walk of the heap in C", heap.NATIVE, why)]


def _tensorflow() -> list[Check]:
    if find_spec("tensorflow") is None:
        return [Check("TensorFlow", False, "not installed; its probes are not tried")]
    os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "3")  # its start-up messages would stand between the rows
    try:
        from tenure.probes import tf
    except Exception as error:  # a TensorFlow that can't be imported is a finding of the doctor, not its end
        return [Check("TensorFlow", False, f"can't be imported: {_clause(error)}")]
    return [_self_test(probe.name, probe.self_test) for probe in tf.PROBES]


def _figure(name: str, probe: Callable[[], object], show: Callable[..., str]) -> Check:
    value, missing = read(probe, name)
    return Check(name, False, missing.why) if missing else Check(name, True, show(value))


def _self_test(name: str, test: Callable[[], str | None]) -> Check:
    try:
        why = test()
    except Exception as error:  # a self-test that breaks has found what it was made to find
        why = _clause(error)
    return Check(name, why is None, why or "passed its self-test")


def _clause(error: BaseException) -> str:
    lines = str(error).strip().splitlines()
    return f"{type(error).__name__}: {lines[0]}" if lines else type(error).__name__


def _malloc(found: process.Malloc) -> str:
    return f"{_mib(found.used)} used, {_mib(found.free)} free"


def _mib(count: int) -> str:
    return f"{count / 2**20:,.0f} MiB"


def _installed_tensorflow() -> str | None:
    module = sys.modules.get("tensorflow")
    if module is not None:
        return str(module.__version__)
    return _installed("tensorflow") or _installed("tensorflow-cpu")


def _installed(package: str) -> str | None:
    try:
        return version(package)
    except PackageNotFoundError:
        return None
