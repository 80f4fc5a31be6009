"""The same verdict each time: five leaking and five flat programs soaked again and again while the other core is busy.

    python benchmarks/repetitions.py [--times 4] [--corpus DIR] [--json FILE]

A corpus is a folder with `cases` (leaking) and `clean` and `fixed` (flat) programs, a truth in JSON beside each; by
default the project's own, of which those five of each are taken that lie apart in its order. Twenty times take half an
hour; a process that computes without end keeps one core busy meanwhile.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import tempfile
from collections import Counter
from pathlib import Path

from _claims import claim, tell

PROGRAMS = Path(__file__).resolve().parents[1] / "tests" / "programs"
BUSY = "x = 0\nwhile True:\n    x = (x * 31 + 7) % 1000003\n"
EACH = 5


def chosen(corpus: Path) -> list[tuple[Path, dict[str, object]]]:
    """Five programs that leak and five that are flat, with their truths, spread over the corpus."""
    truths = [(path.with_suffix(".py"), json.loads(path.read_text())) for path in sorted(corpus.glob("*/*.json"))]
    soaked = [(path, truth) for path, truth in truths if "soak" in truth.get("modes", ["soak"])]
    found = []
    for verdict in ("leak", "flat"):
        of = [item for item in soaked if item[1]["verdict"] == verdict]
        found += [of[place * len(of) // EACH] for place in range(EACH)]
    return found


def soak(program: Path, truth: dict[str, object]) -> str:
    """The verdict with the first leak's cause and lines, in one text."""
    with tempfile.TemporaryDirectory() as folder:
        out = Path(folder) / "report.json"
        asked = ["soak", "--cycles", str(truth["cycles"]), "--json", str(out), f"{program}:cycle"]
        subprocess.run(
            [sys.executable, "-m", "tenure", *asked],
            env={"TF_CPP_MIN_LOG_LEVEL": "3", "CUDA_VISIBLE_DEVICES": "-1", **os.environ},
            cwd=folder,
            capture_output=True,
            timeout=300,
            check=False,
        )
        report = json.loads(out.read_text()) if out.exists() else {"verdict": "no report", "findings": []}
    leaks = [finding for finding in report["findings"] if finding["class"] == "leak"]
    if not leaks:
        return str(report["verdict"])
    lines = [place["line"] if place else "-" for place in (leaks[0]["birth"], leaks[0]["holder"])]
    return f"{report['verdict']} {leaks[0]['cause']} {lines[0]} {lines[1]}"


def main() -> int:
    """Soaks them and prints what each was told, and how often; 0 when each has one verdict, the right one."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--times", type=int, default=4)
    parser.add_argument("--corpus", type=Path, default=PROGRAMS)
    parser.add_argument("--json", type=Path)
    asked = parser.parse_args()
    programs = chosen(asked.corpus.resolve())
    told: dict[Path, Counter[str]] = {path: Counter() for path, _ in programs}
    busy = subprocess.Popen([sys.executable, "-c", BUSY])
    try:
        for _ in range(asked.times):
            for path, truth in programs:
                told[path][soak(path, truth)] += 1
    finally:
        busy.kill()
        busy.wait()
    for path, texts in told.items():
        print(f"{path.parent.name}/{path.stem:32} " + "; ".join(f"{n} x {text}" for text, n in texts.most_common()))
    verdicts = {path: {text.split()[0] for text in texts} for path, texts in told.items()}
    same = sum(len(told[path]) == 1 for path, _ in programs)
    right = sum(verdicts[path] == {truth["verdict"]} for path, truth in programs)
    rows = [
        claim(
            f"programs with one and the right verdict in {asked.times} soaks beside a busy core",
            right,
            len(programs),
            f"of {len(programs)}",
            None,
            least=True,
        ),
        claim(
            "programs with the same cause and lines too", same, len(programs), f"of {len(programs)}", None, least=True
        ),
    ]
    return tell(rows, asked.json)


if __name__ == "__main__":
    sys.exit(main())
