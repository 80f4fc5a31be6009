"""Runs every benchmark in this folder and collects what they say: benchmarks/results.json and docs/benchmarks.md.

    python benchmarks/run_all.py [NAME ...]     (make bench ONLY="NAME ...": these anew, the others as they are there)

A benchmark is a script here. With `--json` it prints a list of claims as the last line of its output, or, where its
usage says `--json FILE`, writes it there: `{"claim", "figure", "goal", "unit", "met", "against"}`; `against` names what
it was measured against or is null. They run one after another, each in a process of its own. Exit status 1 when
one failed or a claim was not met.
"""

from __future__ import annotations

import ast
import json
import os
import platform
import subprocess
import sys
import tempfile
import time
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Any

import tenure

HERE = Path(__file__).resolve().parent
RESULTS = HERE / "results.json"
PAGE = HERE.parent / "docs" / "benchmarks.md"
TIMEOUT = 900  # seconds for one benchmark
KEYS = ("claim", "figure", "goal", "unit", "met", "against")


def main() -> int:
    """Runs them all, writes both files, and returns the exit status."""
    scripts = sorted(path for path in HERE.glob("*.py") if path.name != Path(__file__).name and path.name[0] != "_")
    only = sys.argv[1:]
    unknown = set(only) - {path.stem for path in scripts}
    if unknown:
        print(f"no benchmark is named {', '.join(sorted(unknown))}; there are {', '.join(p.stem for p in scripts)}")
        return 2
    if only and not RESULTS.exists():
        print(f"there is no {RESULTS} to put these beside; run all benchmarks first")
        return 2
    kept = json.loads(RESULTS.read_text()) if only else {"machine": machine(), "benchmarks": {}}
    if kept["machine"] != machine():
        print(f"{RESULTS} is of another machine or other versions; run all benchmarks")
        return 2
    chosen = [path for path in scripts if not only or path.stem in only]
    benchmarks = {**kept["benchmarks"], **{path.stem: measure(path) for path in chosen}}
    results = {"machine": machine(), "benchmarks": dict(sorted(benchmarks.items()))}
    RESULTS.write_text(json.dumps(results, indent=2) + "\n")
    PAGE.write_text(page(results))
    claims = [claim for result in results["benchmarks"].values() for claim in result.get("claims", [])]
    failed = sum("error" in result for result in results["benchmarks"].values())
    met = sum(claim["met"] for claim in claims)
    print(f"{len(benchmarks) - failed} of {len(scripts)} benchmarks ran, {met} of {len(claims)} claims met")
    return 0 if not failed and met == len(claims) else 1


def measure(script: Path) -> dict[str, Any]:
    """The script's purpose and its claims with their figures, or why there are none."""
    print(f"{script.stem} ...", flush=True)
    env = {"TF_CPP_MIN_LOG_LEVEL": "3", "CUDA_VISIBLE_DEVICES": "-1", **os.environ}
    doc = ast.get_docstring(ast.parse(script.read_text())) or script.stem
    purpose = doc.splitlines()[0]
    start = time.monotonic()
    with tempfile.TemporaryDirectory() as folder:
        target = Path(folder) / "claims.json"
        command = [sys.executable, str(script), "--json", *([str(target)] if "--json FILE" in doc else [])]
        try:
            done = subprocess.run(
                command,
                env=env,
                stdin=subprocess.DEVNULL,
                stdout=subprocess.PIPE,
                text=True,
                timeout=TIMEOUT,
                check=False,
            )
            said = target.read_text() if target.exists() else done.stdout.strip().splitlines()[-1]
            claims = [{key: claim[key] for key in KEYS} for claim in json.loads(said)]
        except subprocess.TimeoutExpired:
            return {"purpose": purpose, "error": f"not finished after {TIMEOUT} s"}
        except (IndexError, KeyError, TypeError, ValueError) as error:
            return {"purpose": purpose, "error": f"exit status {done.returncode}, and no figures ({error})"}
    return {
        "purpose": purpose,
        "date": time.strftime("%Y-%m-%d"),
        "seconds": round(time.monotonic() - start, 1),
        "claims": claims,
    }


def machine() -> dict[str, Any]:
    """What the figures depend on."""
    return {
        "python": platform.python_version(),
        "tensorflow": installed("tensorflow") or installed("tensorflow-cpu"),
        "keras": installed("keras"),
        "tenure": tenure.__version__,  # it may be on the path without being installed
        "platform": f"{platform.system()} {platform.machine()}",
        "cores": os.cpu_count(),
    }


def installed(package: str) -> str | None:
    """The package's version, None when it is not installed."""
    try:
        return version(package)
    except PackageNotFoundError:
        return None


def page(results: dict[str, Any]) -> str:
    """The table for people."""
    told = ", ".join(f"{name} {value}" for name, value in results["machine"].items())
    lines = ["# Benchmarks", "", f"Written by `make bench`. {told}.", ""]
    for name, result in results["benchmarks"].items():
        when = f" Measured on {result['date']}." if "date" in result else ""
        lines += [f"## {name}", "", f"{result['purpose']}{when}", ""]
        if "error" in result:
            lines += [f"Failed: {result['error']}", ""]
            continue
        lines += ["| claim | figure | goal | unit | met | against |", "|---|---:|---:|---|---|---|"]
        lines += ["| " + " | ".join(cell(claim[key]) for key in KEYS) + " |" for claim in result["claims"]]
        lines.append("")
    return "\n".join(lines).rstrip() + "\n"


def cell(value: object) -> str:
    """A number with the figures that count; anything else as text that does not break the table."""
    if value is None or isinstance(value, bool):
        return {None: "", True: "yes", False: "no"}[value]
    if isinstance(value, float):
        return f"{value:,.0f}" if abs(value) >= 1000 else f"{value:.4g}"
    return f"{value:,}" if isinstance(value, int) else str(value).replace("|", "/")


if __name__ == "__main__":
    sys.exit(main())
