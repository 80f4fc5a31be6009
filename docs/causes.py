"""Writes docs/causes.md from the catalogue; `--check` only says whether it is up to date (exit status 1 when not)."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from pathlib import Path

from tenure.causes import CATALOGUE, Cause

PAGE = Path(__file__).resolve().with_suffix(".md")
EXAMPLES = PAGE.parents[1] / "tests" / "cause_examples"


def text() -> str:
    """The whole page."""
    rows = (
        f"| [{c.code}](#{c.code.lower()}) | {c.name} | {c.kind} | {c.origin} | {c.summary} |"
        for c in CATALOGUE.values()
    )
    head = (
        "# Causes\n\n"
        "Written by `python docs/causes.py` from `src/tenure/causes/`; `tenure explain CODE` prints the same.\n\n"
        "**leak** grows without bound; **cost** is made again each tick and freed; **peak** is large at one moment;\n"
        "**retention** is held by an allocator for reuse; **hazard** gives wrong results. It is the usual class: a\n"
        "finding carries its own.\n\n"
        "| code | cause | class | origin | what grows |\n|---|---|---|---|---|\n"
    )
    return head + "\n".join(rows) + "\n" + "".join("\n" + "\n".join(entry(c)) + "\n" for c in CATALOGUE.values())


def entry(cause: Cause) -> Iterator[str]:
    """The lines of one cause's section."""
    yield f'## <a id="{cause.code.lower()}"></a>{cause.code} {cause.name}'
    yield f"\n{sentence(cause.summary)}"
    if cause.looks_like:
        yield f"\n```python\n{cause.looks_like}\n```"
    yield f"\n**Why.** {cause.why}"
    yield f"\n**Cure.** {cause.remedy} {cause.cure}"
    if cause.measured:
        yield f"\n**Measured.** {sentence(cause.measured)}"
    yield f"\n**Versions.** {sentence(cause.versions)}"
    examples = EXAMPLES / f"{cause.name.replace('-', '_')}.py"
    if examples.exists():
        place = f"../{examples.relative_to(PAGE.parents[1])}"
        yield f"\n**Examples.** The cause in four forms, and its cure: [{examples.name}]({place})."
    if cause.upstream:
        yield "\n**Upstream.** " + ", ".join(
            f"[{issue}](https://github.com/{issue.replace('#', '/issues/')})" for issue in cause.upstream
        )


def sentence(text: str) -> str:
    """The text with a capital, unless it begins with code, and a full stop."""
    code = text.split()[0].endswith("()") or "_" in text.split()[0]
    return f"{text[0] if code else text[0].upper()}{text[1:]}."


if __name__ == "__main__":
    if "--check" in sys.argv[1:]:
        sys.exit(PAGE.read_text() != text())
    PAGE.write_text(text())
