"""A report as text for a terminal or a log: the verdict in one line, then each finding: where, who, why and the cure.

Text of the user's program is printed as it is, never as rich markup, and without control characters.
"""

from __future__ import annotations

import io
import math
import os
import shutil
import sys
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from tenure.records import Birth, Finding, Growth, Holder, Layer, Missing, Report, Ticks, a_unit, counted, units
from tenure.report.json import in_order

if TYPE_CHECKING:
    from rich.console import RenderableType
    from rich.text import Text

__all__ = [
    "a_unit",
    "headline",
    "human_bytes",
    "human_duration",
    "known_in",
    "place",
    "printable",
    "rate",
    "reading_times",
    "reason",
    "render",
    "resident_grew",
    "units",
    "why_unborn",
    "working_directory",
]

NARROWEST, WIDEST = 60, 200
MOST_FINDINGS = 10
MOST_EVIDENCE = 2
_LABEL = 7  # "held   ", "why    "
_STYLES = {"leak": "bold red", "flat": "bold green", "inconclusive": "bold yellow"}
_KIND_STYLES = {"leak": "red", "hazard": "magenta", "cost": "yellow", "peak": "yellow", "retention": "dim"}


def render(
    report: Report,
    width: int | None = None,
    color: bool | None = None,
    *,
    recording: str | None = None,
    html: str | None = None,
    waterfall: bool = False,
    cwd: str | None = None,
) -> str:
    """The report as text of at most `width` columns (60 to 200), ending in a newline.

    Without `width` and `color` they are those of stderr, where verdicts go: plain text when it is no terminal or
    NO_COLOR is set. `recording` and `html` name the files to point at in the last line. The waterfall is shown when
    asked for, and when the resident memory grew and the verdict is not flat. Paths inside `cwd` (default: where we
    are) are relative.
    """
    from rich.console import Console

    if width is None:
        width = shutil.get_terminal_size((100, 24)).columns if sys.stderr.isatty() else 100
    if color is None:
        color = sys.stderr.isatty() and not os.environ.get("NO_COLOR") and os.environ.get("TERM") != "dumb"
    page = io.StringIO()
    console = Console(
        file=page,
        width=max(NARROWEST, min(WIDEST, width)),
        force_terminal=color,
        no_color=not color,
        color_system="standard" if color else None,
        markup=False,
        emoji=False,
        highlight=False,
        legacy_windows=False,
        _environ={},
    )
    for part in _parts(report, console.width, working_directory() if cwd is None else cwd, waterfall, recording, html):
        console.print(part)
    return "".join(line.rstrip() + "\n" for line in page.getvalue().splitlines())


def human_bytes(count: float) -> str:
    """Bytes in decimal units as people read them: `512 B`, `7.4 MB`, `61 MB`; one digit after the point below 10."""
    if not math.isfinite(count):
        return "unknown"
    sign, size = ("-" if count < 0 else ""), abs(count)
    names = ["PB", "TB", "GB", "MB", "KB", "B"]
    name = names.pop()
    # 999.6 would be printed as 1000: it belongs to the next unit.
    while names and size >= 999.5:
        size /= 1000
        name = names.pop()
    whole = size >= 9.95 or (name == "B" and size == int(size))
    return f"{sign}{size:.0f} {name}" if whole else f"{sign}{size:.1f} {name}"


def human_duration(seconds: float) -> str:
    """A time as people say it: `40 seconds`, `54 hours`, `3 days`."""
    if not math.isfinite(seconds):
        return "unknown time"
    for limit, unit, name in (
        (90, 1, "second"),
        (90 * 60, 60, "minute"),
        (72 * 3600, 3600, "hour"),
        (60 * 86400, 86400, "day"),
        (730 * 86400, 30.44 * 86400, "month"),
        (100 * 365.25 * 86400, 365.25 * 86400, "year"),
    ):
        if seconds < limit:
            return units(name, max(0, round(seconds / unit)))
    return "more than 100 years"


def rate(bytes_per_tick: float | None, unit: str) -> str:
    """Bytes a tick in words: `7.4 MB a fit`; `size unknown` when the figure could not be had."""
    if bytes_per_tick is None or not math.isfinite(bytes_per_tick):
        return "size unknown"
    return f"{human_bytes(bytes_per_tick)} {a_unit(unit)}"


def printable(text: str) -> str:
    """The text on one line, with white space as single blanks and each control character as U+FFFD."""
    return "".join(c if c.isprintable() else "\N{REPLACEMENT CHARACTER}" for c in " ".join(text.split()))


def place(file: str, line: int | None, cwd: str) -> str:
    """`file:line`, relative to `cwd` when the file lies inside."""
    if os.path.isabs(file) and cwd:
        inside = os.path.relpath(file, cwd)
        file = file if inside.startswith(os.pardir) else inside
    return printable(file) if line is None else f"{printable(file)}:{line}"


def headline(report: Report) -> list[str]:
    """The verdict in phrases: the rate, how sure, the time to the limit; for `flat`, what would have been seen."""
    ticks, growth = report.ticks, report.growth
    seen = _seen(ticks)
    if report.verdict != "leak":
        phrases = [seen]
        if report.verdict == "flat" and growth is not None and math.isfinite(growth.smallest_seen):
            phrases.append(f"growth of {rate(growth.smallest_seen, ticks.unit)} would have been seen")
        return phrases
    if growth is None:
        leaks = [finding.bytes_per_tick for finding in report.findings if finding.kind == "leak"]
        known = [size for size in leaks if size is not None]
        return [rate(sum(known), ticks.unit), seen] if known else [seen]
    phrases = [rate(growth.bytes_per_tick, ticks.unit), f"{seen}{_interval(growth)}"]
    if growth.seconds_to_limit is not None and math.isfinite(growth.seconds_to_limit):
        full = "the memory is" if growth.limit_bytes is None else f"{human_bytes(growth.limit_bytes)} are"
        phrases.append(f"{full} full in {human_duration(growth.seconds_to_limit)} at this rate")
    return phrases


def reason(finding: Finding) -> str | None:
    """Why the cause makes memory grow, from the catalogue; None for a cause that it does not have."""
    if finding.cause == "unattributed-growth" and finding.origin == "user":
        return "The container keeps each of them. They hold no tensor, so no cause of TensorFlow's is behind it."
    try:
        from tenure.causes import CATALOGUE
    except ImportError:
        return None
    entry = CATALOGUE.get(finding.cause)
    return None if entry is None else entry.why


def known_in(finding: Finding) -> str | None:
    """In which versions a framework's fault is known, and its first public issues; None for what is no such fault."""
    if not finding.versions:
        return None
    issues = ", ".join(finding.upstream[:2])
    return f"{finding.versions}{f' ({issues})' if issues else ''}"


def why_unborn(finding: Finding, missing: Iterable[Missing]) -> str | None:
    """Why a leak that something holds has no line where it is made, as far as the report tells; else None."""
    if finding.birth is not None or finding.kind != "leak" or finding.holder is None:
        return None
    lost = next((part.why for part in missing if part.figure.startswith(("births", "where things are made"))), None)
    if lost is not None:
        return f"its line is not known: {lost}"
    if finding.tensor_bytes_per_tick == 0 and finding.origin != "framework":
        return "its line is not noted: tenure notes those of TensorFlow's objects only"
    return None


def resident_grew(start: Sequence[Layer], end: Sequence[Layer]) -> bool:
    """True when the known parts of the resident memory grew by 1 MB and by 1 % together."""
    before = {layer.name: layer.bytes for layer in start}
    pairs = [(before.get(layer.name), layer.bytes) for layer in end]
    known = [(old, new) for old, new in pairs if old is not None and new is not None]
    old_sum, new_sum = sum(old for old, _ in known), sum(new for _, new in known)
    return new_sum - old_sum >= max(1_000_000, 0.01 * old_sum)


@dataclass(frozen=True, slots=True)
class _Page:
    """What the parts of a page share."""

    width: int
    cwd: str
    unit: str
    missing: tuple[Missing, ...]


def _parts(
    report: Report, width: int, cwd: str, waterfall: bool, recording: str | None, html: str | None
) -> Iterable[RenderableType]:
    page = _Page(width, cwd, printable(report.ticks.unit), report.missing)
    yield _head(report, page)
    findings = in_order(report.findings)
    loud = [finding for finding in findings if finding.kind != "retention"]
    quiet = [finding for finding in findings if finding.kind == "retention"]
    if report.why and (report.verdict == "inconclusive" or (report.verdict == "leak" and not loud)):
        yield _hanging("why", report.why, page, indent=1)
    for number, finding in enumerate(loud[:MOST_FINDINGS], 1):
        yield ""
        yield from _finding(number, finding, page)
    after = list(_after(report, quiet, loud[MOST_FINDINGS:], page, recording, html))
    wanted = waterfall or (report.verdict != "flat" and resident_grew(report.waterfall_start, report.waterfall_end))
    if wanted and report.waterfall_end:
        yield ""
        yield _waterfall(report, page)
    # A clean bill of health is one or two lines; anything longer gets air before its last lines.
    if after and (loud or wanted):
        yield ""
    yield from after


def _head(report: Report, page: _Page) -> Text:
    from rich.text import Text

    words = [printable(phrase) for phrase in headline(report)]
    verdict = report.verdict.upper()
    lines, room = [""], page.width - 8
    used = len(verdict)
    for word in words:
        if used + 3 + len(word) <= room or not lines[-1]:
            lines[-1] += ("   " if lines[-1] else "  ") + word
            used += 3 + len(word)
        else:
            lines.append(word)
            used = len(word)
    head = Text.assemble("tenure  ", (verdict, _STYLES.get(report.verdict, "bold")), lines[0])
    for line in lines[1:]:
        head.append("\n" + " " * 8 + line)
    return head


def _finding(number: int, finding: Finding, page: _Page) -> Iterable[RenderableType]:
    from rich.cells import cell_len
    from rich.text import Text

    style = _KIND_STYLES.get(finding.kind, "")
    title = Text(f"{number:>2}  ")
    title.append(printable(finding.cause), style=f"bold {style}".strip())
    if finding.also:
        title.append(printable(f", with {', '.join(finding.also)}"))
    kind = "" if finding.kind == "leak" else f"{finding.kind}  "
    end = f"{printable(finding.code)}  {kind}{printable(finding.origin)}  {_size(finding, page.unit)}".rstrip()
    room = page.width - title.cell_len - cell_len(end)
    if room >= 2:
        title.append(" " * room + end)
        yield title
    else:
        yield title
        yield Text(" " * max(4, page.width - cell_len(end)) + end)
    if finding.birth is not None:
        yield _made(finding.birth, page)
    elif (unborn := why_unborn(finding, page.missing)) is not None:
        yield _hanging("made", unborn, page)
    if finding.holder is not None:
        yield _hanging("held", _held(finding.holder, page), page, squeeze=False)
    elif finding.kind == "leak" and finding.origin == "framework":
        yield _hanging("held", "by TensorFlow itself, nothing of the program reaches it", page)
    if finding.changed is not None:
        yield _hanging("new", f"argument {finding.changed.argument}: {', '.join(finding.changed.values)}", page)
    why = reason(finding)
    shown = finding.evidence if finding.cause == "unattributed-growth" else finding.evidence[:MOST_EVIDENCE]
    for line in shown:
        yield _hanging("seen", line, page)
    if why:
        yield _hanging("why", why, page)
    if (known := known_in(finding)) is not None:
        yield _hanging("known", known, page)
    if finding.remedy:
        more = f"more: tenure explain {printable(finding.code)}"
        yield _hanging("cure", finding.remedy, page, end=more, style="green")


def _made(birth: Birth, page: _Page) -> Text:
    text = f"{place(birth.file, birth.line, page.cwd)}   {_shortened(birth.text)}"
    inside = f"in {printable(birth.function)}()" if birth.function else ""
    return _hanging("made", text, page, end=inside, squeeze=False)


def _held(holder: Holder, page: _Page) -> str:
    where = f"   {place(holder.file, holder.line, page.cwd)}" if holder.file else ""
    return f"{printable(holder.text)}{where}"


def _after(
    report: Report,
    quiet: Sequence[Finding],
    left_out: Sequence[Finding],
    page: _Page,
    recording: str | None,
    html: str | None,
) -> Iterable[Text]:
    if left_out:
        rest = rate(sum(finding.bytes_per_tick or 0.0 for finding in left_out), page.unit)
        more = units("finding", len(left_out)).replace(" ", " more ")
        yield _line(f"and {more}, {rest} together: see the JSON or the HTML report", page)
    for finding in quiet:
        yield _line(f"not a leak: {finding.evidence[0] if finding.evidence else finding.cause}", page)
    for note in report.notes:
        yield _line(note if note.startswith("not a leak") else f"note: {note}", page)
    if report.missing and report.verdict == "flat":
        yield _line(f"could not be had: {', '.join(part.figure for part in report.missing)}", page)
    elif report.missing:
        for part in (part for part in report.missing if part.why != report.why):
            yield _line(f"could not be had: {part.figure} ({part.why})", page)
    if report.exit_status:
        status = report.exit_status
        ended = f"ended with status {status}" if status > 0 else f"was ended by signal {-status}"
        yield _line(f"the program {ended}", page)
    pointers = []
    if recording:
        pointers.append(f"recording {_relative(recording, page.cwd)}")
    if html:
        pointers.append(f"report: {_relative(html, page.cwd)}")
    elif recording and report.verdict != "flat":
        name = _relative(recording, page.cwd)
        pointers.append(f"report: tenure report --html {os.path.splitext(name)[0]}.html {name}")
    if pointers:
        yield _line("    ".join(pointers), page, squeeze=False)


def reading_times(report: Report) -> tuple[str, str]:
    """After which ticks the two sides of the waterfall were read: rarely the program's first and last."""
    if report.waterfall_ticks is None:
        return "start", "end"
    first, last = (f"{printable(report.ticks.unit)} {tick:,}" for tick in report.waterfall_ticks)
    return first, last


def _waterfall(report: Report, page: _Page) -> Text:
    from rich.text import Text

    before = {layer.name: layer.bytes for layer in report.waterfall_start}
    rows = [(layer.name, before.get(layer.name), layer.bytes) for layer in report.waterfall_end]
    name_width = max(len(printable(name)) for name, _, _ in rows)
    most = max((size for _, *both in rows for size in both if size is not None and size > 0), default=1)
    read = reading_times(report)
    first, last = (max(8, len(label)) for label in read)
    table = Text(f" {'resident memory':<{name_width}}  {read[0]:>{first}}  {read[1]:>{last}}  {'change':>8}")
    bar_width = min(40, page.width - name_width - first - last - 17)
    for name, old, new in rows:
        change = "" if old is None or new is None else f"{'+' if new > old else ''}{human_bytes(new - old)}"
        bar = "#" * round(bar_width * max(0, new or 0) / most) if bar_width >= 8 else ""
        table.append(f"\n {printable(name):<{name_width}}  {_known(old):>{first}}  {_known(new):>{last}}  {change:>8}")
        table.append(f"  {bar}", style="cyan")
    table.no_wrap = True
    table.overflow = "ellipsis"
    return table


def _hanging(
    label: str, text: str, page: _Page, *, end: str = "", style: str = "", indent: int = 4, squeeze: bool = True
) -> Text:
    """A labelled paragraph whose further lines hang under the first; `end` stands at the right edge where it fits."""
    from rich.cells import cell_len
    from rich.text import Text

    label_width = max(_LABEL, len(label) + 2)
    lines = _wrapped(printable(text) if squeeze else text, page.width - indent - label_width)
    block = Text(" " * indent)
    block.append(f"{label:<{label_width}}", style="dim")
    block.append(lines[0], style=style)
    margin = " " * (indent + label_width)
    for line in lines[1:]:
        block.append("\n" + margin)
        block.append(line, style=style)
    if end:
        room = page.width - len(margin) - cell_len(lines[-1]) - cell_len(end)
        block.append(" " * room + end if room >= 3 else f"\n{margin}{end}", style="dim")
    return block


def _wrapped(text: str, width: int) -> list[str]:
    """The text in lines of at most `width` columns (wide characters count two), broken at blanks where it can be."""
    from rich.console import Console
    from rich.text import Text

    console = Console(file=io.StringIO(), width=width, _environ={})
    return [line.plain.rstrip() for line in Text(text).wrap(console, width, overflow="fold")] or [""]


def _line(text: str, page: _Page, squeeze: bool = True) -> Text:
    from rich.text import Text

    lines = _wrapped(printable(text) if squeeze else text, page.width - 3)
    return Text(" " + "\n   ".join(lines))


def _size(finding: Finding, unit: str) -> str:
    if finding.kind in ("leak", "retention") or finding.bytes_per_tick is not None:
        return rate(finding.bytes_per_tick, unit)
    if finding.objects_per_tick is not None:
        objects = finding.objects_per_tick
        return f"{counted(objects, 'object')} {a_unit(unit)}"
    return ""


def _seen(ticks: Ticks) -> str:
    seen = units(ticks.unit, ticks.count)
    return f"{seen} of {printable(ticks.function)}" if ticks.unit == "call" and ticks.function else seen


def _interval(growth: Growth) -> str:
    if not (math.isfinite(growth.low) and math.isfinite(growth.high) and math.isfinite(growth.confidence)):
        return ""
    low, high = human_bytes(growth.low), human_bytes(growth.high)
    if low.split()[-1] == high.split()[-1]:
        low = low.split()[0]
    # Never "100 % sure".
    sure = min(99, math.floor(100 * growth.confidence))
    return f", {sure} % sure of {low} to {high}" if low != high.split()[0] else ""


def _known(size: int | None) -> str:
    return "unknown" if size is None else human_bytes(size)


def _shortened(source: str) -> str:
    line = printable(source)
    return line if len(line) <= 160 else f"{line[:157]}..."


def _relative(path: str, cwd: str) -> str:
    return place(os.path.abspath(path), None, cwd) if os.path.isabs(path) else printable(path)


def working_directory() -> str:
    """Where we are; empty when that directory is gone, and paths then stay absolute."""
    try:
        return str(Path.cwd())
    except OSError:
        return ""
