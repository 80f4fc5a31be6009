"""Each cause's examples, by the names of the catalogue: what grows is named by its own cause and line, cures are flat.

A file's forms are soaked one after another in one process, as a program with several leaks would be.
"""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest

from tenure.causes import CATALOGUE

pytestmark = pytest.mark.slow
pytest.importorskip("tensorflow")

FOLDER = Path(__file__).parent / "cause_examples"
BAD = ("module_level", "in_class", "in_closure", "in_callback")
GOOD = ("good", "good_bounded")

SOAK_EACH = """
import importlib.util, sys
from tenure.explain.soak import soak
from tenure.observe.births import Births
from tenure.report.json import dumps

births = Births()
births.start()
name, file, forms = sys.argv[1], sys.argv[2], sys.argv[3:]
spec = importlib.util.spec_from_file_location(name, file)
module = sys.modules[name] = importlib.util.module_from_spec(spec)
spec.loader.exec_module(module)
for form in forms:
    if hasattr(module, form):
        report = soak(getattr(module, form), module.CYCLES, births=births)
        getattr(module, "end", lambda: None)()
        print("REPORT", form, dumps(report), flush=True)
"""


Reports = Callable[[str], dict[str, Any]]


@pytest.fixture(scope="session")
def reports(request: pytest.FixtureRequest) -> Iterator[Reports]:
    """The reports of all forms of one file; two files at a time, those that the selected tests need."""
    asked = [
        item.callspec.params["name"]
        for item in request.session.items
        if hasattr(item, "callspec") and item.path == Path(__file__)
    ]
    with ThreadPoolExecutor(max_workers=2) as pool:
        told = {name: pool.submit(soak_each, name) for name in dict.fromkeys(asked)}
        yield lambda name: told[name].result()
        pool.shutdown(cancel_futures=True)


def soak_each(name: str) -> dict[str, Any]:
    done = subprocess.run(
        [sys.executable, "-c", SOAK_EACH, name, str(FOLDER / f"{name}.py"), *BAD, *GOOD],
        env={**os.environ, "TF_CPP_MIN_LOG_LEVEL": "3", "CUDA_VISIBLE_DEVICES": "-1"},
        capture_output=True,
        text=True,
        timeout=240,
        check=False,
    )
    assert done.returncode == 0, done.stderr[-2000:]
    told = (line.split(" ", 2)[1:] for line in done.stdout.splitlines() if line.startswith("REPORT "))
    return {form: json.loads(text) for form, text in told}


def marked(name: str, form: str) -> set[int]:
    """The lines that a right report of this form may name."""
    part, lines = "", set()
    for number, line in enumerate((FOLDER / f"{name}.py").read_text().splitlines(), 1):
        begun = re.match(r"# -- (\w+):", line)
        part = begun[1] if begun else part
        if part == form and re.search(r"# (made|kept)\b", line):
            lines.add(number)
    return lines


def grows(name: str) -> bool:
    return "GROWS = True" in (FOLDER / f"{name}.py").read_text()


NAMES = sorted(path.stem for path in FOLDER.glob("*.py"))
GROWING = [name for name in NAMES if grows(name)]


def test_each_file_is_named_by_a_cause() -> None:
    assert {name.replace("_", "-") for name in NAMES} <= set(CATALOGUE)


@pytest.mark.parametrize("form", BAD)
@pytest.mark.parametrize("name", GROWING)
def test_what_grows_is_named(reports: Reports, name: str, form: str) -> None:
    report = reports(name)[form]
    assert report["verdict"] == "leak", report["why"]
    top = report["findings"][0]
    assert name.replace("_", "-") in (top["cause"], *top["also"])
    places = [place for place in (top["birth"], top["holder"]) if place and place["file"]]
    named = {place["line"] for place in places if os.path.basename(place["file"]) == f"{name}.py"}
    assert named & marked(name, form), (top["birth"], top["holder"])


@pytest.mark.parametrize("form", BAD)
@pytest.mark.parametrize("name", [name for name in NAMES if name not in GROWING])
def test_what_only_costs_is_no_leak(reports: Reports, name: str, form: str) -> None:
    assert reports(name)[form]["verdict"] == "flat"


@pytest.mark.parametrize("form", BAD)
@pytest.mark.parametrize("name", [name for name in NAMES if name not in (*GROWING, "threads_created_per_request")])
def test_what_only_costs_is_named_with_its_line(reports: Reports, name: str, form: str) -> None:
    top = reports(name)[form]["findings"][0]
    assert (top["cause"], top["class"]) == (name.replace("_", "-"), "cost")
    assert top["birth"]["line"] in marked(name, form)


@pytest.mark.parametrize("name", NAMES)
def test_the_cure_is_flat(reports: Reports, name: str) -> None:
    told = reports(name)
    assert {form: told[form]["why"] for form in GOOD if form in told and told[form]["verdict"] != "flat"} == {}
    found = {form: loud(told[form]) for form in GOOD if form in told}
    assert {form: findings for form, findings in found.items() if findings} == {}


def loud(report: dict[str, Any]) -> list[dict[str, Any]]:
    """The findings beside what an allocator holds free: the forms of one file run in one process."""
    return [finding for finding in report["findings"] if finding["class"] != "retention"]
