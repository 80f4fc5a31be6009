"""How many ticks a soak needs to see a leak of 64 KiB a tick.

    python benchmarks/ticks_needed.py [--json FILE]

Each of the six holders of `synthetic.py` beside each of its four baselines leaks 64 KiB at every tick (the kernel cache
72: two kernels); all are soaked for 10, 12, 15, 20 and 30 ticks until the verdict is a leak with its cause and line.
"""

from __future__ import annotations

import argparse
import sys
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from statistics import median

from _claims import claim, tell
from synthetic import BASELINES, HOLDERS, KIB, Program, soak, written

TICKS = (10, 12, 15, 20, 30)
NEVER = 99


def program(holder: str, baseline: str, cycles: int) -> Program:
    """The program that leaks 64 KiB a tick through this holder."""
    return written(7, baseline, holder, 72 * KIB if holder == "native cache" else 64 * KIB, 1, cycles, 512 * KIB)


def needed(holder: str, baseline: str) -> int:
    """The least of the tried numbers of ticks that is enough; NEVER when none is."""
    for cycles in TICKS:
        told = soak(program(holder, baseline, cycles))
        if told.verdict == "leak" and told.right:
            return cycles
    return NEVER


def main() -> int:
    """Prints the table of holders and baselines; 0 when 20 ticks are enough for each."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--json", type=Path)
    asked = parser.parse_args()
    pairs = [(holder, baseline) for holder in HOLDERS for baseline in BASELINES]
    with ThreadPoolExecutor(max_workers=2) as pool:
        ticks = dict(zip(pairs, pool.map(lambda pair: needed(*pair), pairs), strict=True))
    print(f"{'holder':16} " + " ".join(f"{baseline:>11}" for baseline in BASELINES))
    for holder in HOLDERS:
        print(f"{holder:16} " + " ".join(f"{ticks[holder, baseline]:11}" for baseline in BASELINES))
    rows = [
        claim("ticks needed to see 64 KiB a tick, most of 24 programs", max(ticks.values()), 20, "ticks", None),
        claim("ticks needed to see 64 KiB a tick, median", median(ticks.values()), 20, "ticks", None),
    ]
    return tell(rows, asked.json)


if __name__ == "__main__":
    sys.exit(main())
