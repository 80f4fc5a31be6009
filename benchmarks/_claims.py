"""A claim with its figure in the benchmarks' form, and how a benchmark tells its claims."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any


def claim(
    text: str, figure: float, goal: float, unit: str, against: str | None, *, least: bool = False
) -> dict[str, Any]:
    """One row of the results; `goal` is the most that meets the claim, with `least` the least."""
    met = figure >= goal if least else figure <= goal
    return {"claim": text, "figure": figure, "goal": goal, "unit": unit, "met": met, "against": against}


def tell(claims: Sequence[dict[str, Any]], json_file: Path | None) -> int:
    """Prints the claims and writes them as JSON where asked; the exit status: 0 when each is met."""
    for row in claims:
        verdict = "met " if row["met"] else "MISS"
        against = f" ({row['against']})" if row["against"] else ""
        print(f"{verdict} {row['claim']}: {row['figure']} {row['unit']}{against}")
    if json_file is not None:
        json_file.write_text(json.dumps(list(claims), indent=2) + "\n")
    return 0 if all(row["met"] for row in claims) else 1
