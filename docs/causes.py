"""Writes docs/causes.md and a page a cause beside it from the catalogue and its tested examples.

`--check` only says whether they are up to date (exit status 1 when not).
"""

from __future__ import annotations

import re
import sys
from collections.abc import Iterator
from pathlib import Path
from textwrap import fill

from tenure.causes import CATALOGUE, Cause

INDEX = Path(__file__).resolve().with_suffix(".md")
FOLDER = INDEX.with_suffix("")
EXAMPLES = INDEX.parents[1] / "tests" / "cause_examples"
WIDTH = 120

KINDS = {
    "leak": "It grows without bound.",
    "cost": "It is made again at each tick and freed: time is lost, memory seldom.",
    "peak": "It is large at one moment and gone after it.",
    "retention": "An allocator holds it for reuse; it is never a leak.",
    "hazard": "Results are wrong, whatever memory does.",
}
ALLOW = {
    "leak": (
        "`tenure run --fail-on new --baseline known.json` passes what an earlier report (`--json known.json`) has "
        "found, by its fingerprint, which stays the same across runs and when lines move. Growth below the least that "
        "is judged (4096 bytes a tick) is a note only. A container that is meant to fill says so by its bound: a "
        "`deque(maxlen=...)` or an `lru_cache(maxsize=...)` that is not full yet is no leak."
    ),
    "cost": "Nothing to do: a cost never changes the verdict or the exit status.",
    "retention": "Nothing to do: it never changes the verdict or the exit status.",
    "peak": "Nothing to do: a peak never changes the verdict or the exit status.",
    "hazard": "Nothing to do: a hazard never changes the verdict or the exit status.",
}


def pages() -> dict[Path, str]:
    """Each file with its text."""
    return {INDEX: index(), **{page_of(cause): "\n".join(entry(cause)) + "\n" for cause in CATALOGUE.values()}}


def page_of(cause: Cause) -> Path:
    return FOLDER / f"{cause.code}-{cause.name}.md"


def index() -> str:
    """The list of all causes."""
    rows = (
        f"| [{c.code}](causes/{page_of(c).name}) | {c.name} | {c.kind} | {c.origin} | {c.summary} |"
        for c in CATALOGUE.values()
    )
    head = (
        "# Causes\n\n"
        "Written by `python docs/causes.py` from `src/tenure/causes/` and the examples that the tests run;\n"
        "`tenure explain CODE` prints an entry in a terminal.\n\n"
        "**leak** grows without bound; **cost** is made again each tick and freed; **peak** is large at one moment;\n"
        "**retention** is held by an allocator for reuse; **hazard** gives wrong results. It is the usual class: a\n"
        "finding carries its own.\n\n"
        "| code | cause | class | origin | what grows |\n|---|---|---|---|---|\n"
    )
    return head + "\n".join(rows) + "\n"


def entry(cause: Cause) -> Iterator[str]:
    """The lines of one cause's page."""
    yield f"# {cause.code} {cause.name}"
    yield "\n" + fill(f"{sentence(cause.summary)} {KINDS[cause.kind]}", WIDTH)
    if cause.looks_like:
        yield f"\n## What it looks like\n\n```python\n{cause.looks_like}\n```"
    yield f"\n## Why\n\n{fill(cause.why, WIDTH, break_on_hyphens=False)}"
    if cause.measured:
        yield f"\n## Measured cost\n\n{fill(sentence(cause.measured), WIDTH, break_on_hyphens=False)}"
    yield f"\n## Cure\n\n{fill(f'{cause.remedy} {cause.cure}', WIDTH, break_on_hyphens=False)}"
    examples = EXAMPLES / f"{cause.name.replace('-', '_')}.py"
    if examples.exists():
        parts = dict(forms(examples.read_text()))
        yield f"\nBefore: {parts['module_level'][0]}.\n\n```python\n{parts['module_level'][1]}\n```"
        yield f"\nAfter: {parts['good'][0]}.\n\n```python\n{parts['good'][1]}\n```"
        place = f"../../{examples.relative_to(INDEX.parents[1])}"
        yield "\n" + fill(
            f"Both are run by the tests, with more forms of it (in a class, in a closure, through a callback): "
            f"[{examples.name}]({place}).",
            WIDTH,
            break_on_hyphens=False,
            break_long_words=False,
        )
    yield f"\n## Versions\n\n{fill(sentence(cause.versions), WIDTH, break_on_hyphens=False)}"
    if cause.upstream:
        yield "\nUpstream: " + ", ".join(
            f"[{issue}](https://github.com/{issue.replace('#', '/issues/')})" for issue in cause.upstream
        )
    yield f"\n## How to allow it\n\n{fill(ALLOW[cause.kind], WIDTH, break_on_hyphens=False)}"


def forms(text: str) -> Iterator[tuple[str, tuple[str, str]]]:
    """The parts of an example file: the form's name, what it is about, and its code without the tests' marks."""
    for part in re.split(r"^# -- ", text, flags=re.MULTILINE)[1:]:
        head, _, code = part.partition("\n")
        name, _, about = head.partition(": ")
        yield name, (about, re.sub(r"\s+# (made|kept)$", "", code.strip("\n"), flags=re.MULTILINE))


def sentence(text: str) -> str:
    """The text with a capital, unless it begins with code, and a full stop."""
    code = text.split()[0].endswith("()") or "_" in text.split()[0]
    return f"{text[0] if code else text[0].upper()}{text[1:]}."


def main() -> int:
    wanted = pages()
    there = {INDEX, *FOLDER.glob("*.md")}
    if "--check" in sys.argv[1:]:
        return int(there != set(wanted) or any(path.read_text() != text for path, text in wanted.items()))
    FOLDER.mkdir(exist_ok=True)
    for path in there - set(wanted):
        path.unlink()
    for path, text in wanted.items():
        path.write_text(text)
    return 0


if __name__ == "__main__":
    sys.exit(main())
