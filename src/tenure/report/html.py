"""A report as one HTML page: verdict, findings, memory over the ticks, where the resident memory is.

The page is complete in itself: no script, no font, no image, no network (its content policy forbids them). Everything
that comes from the program is escaped on the way in, because only `_Html` is ever joined unescaped.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from html import escape

from tenure.records import Finding, Layer, Report, Sample, units
from tenure.report.json import in_order
from tenure.report.text import (
    headline,
    human_bytes,
    known_in,
    place,
    printable,
    rate,
    reading_times,
    reason,
    why_unborn,
    working_directory,
)

__all__ = ["render"]

MOST_POINTS = 400

# (counter, title) of the charts, each on its own scale: on a common one the growth of a small part is a flat line.
_CHARTS = (
    ("pool_used", "TensorFlow's pool, in use: live tensors of 256 KiB and more"),
    ("malloc_used", "malloc, in use"),
    ("rss", "Resident memory: what the system gave, no proof of growth by itself"),
)
_WIDTH, _HEIGHT = 600, 150

_STYLE = """
:root { color-scheme: light dark; --back: #ffffff; --card: #f6f7f9; --text: #1c2128; --dim: #5b6572; --line: #d8dde3;
  --leak: #b3261e; --flat: #1a7f37; --inconclusive: #8a5a00; --mark: #1f6feb; --shade: #e9ecf0;
  --p0: #0072b2; --p1: #e69f00; --p2: #009e73; --p3: #cc79a7; --p4: #56b4e9; --p5: #d55e00;
  --p6: #8c8c8c; --p7: #b8a800; }
@media (prefers-color-scheme: dark) { :root { --back: #14171c; --card: #1d2127; --text: #e6e9ee; --dim: #9aa4b1;
  --line: #353c46; --leak: #ff8a80; --flat: #6bd68a; --inconclusive: #f0b95a; --mark: #79b0ff; --shade: #262c34;
  --p0: #4aa3dc; --p1: #f0b540; --p2: #35c79a; --p3: #dd9cc2; --p4: #8fd0f5; --p5: #f08a4b;
  --p6: #a6a6a6; --p7: #d6c84a; } }
* { box-sizing: border-box; }
body { margin: 0 auto; padding: 1rem; max-width: 62rem; background: var(--back); color: var(--text);
  font: 1rem/1.5 system-ui, sans-serif; overflow-wrap: anywhere; }
h1 { font-size: 1.5rem; line-height: 1.25; margin: .5rem 0; } h2 { font-size: 1.15rem; margin: 2rem 0 .5rem; }
h3 { font-size: 1rem; margin: 0; }
code, .path { font-family: ui-monospace, monospace; font-size: .9em; }
.dim { color: var(--dim); } .leak { color: var(--leak); } .flat { color: var(--flat); }
.inconclusive { color: var(--inconclusive); }
.card { background: var(--card); border: 1px solid var(--line); border-radius: .5rem;
  padding: .75rem 1rem; margin: .75rem 0; }
.title { display: flex; flex-wrap: wrap; gap: 0 1rem; justify-content: space-between; }
dl { display: grid; grid-template-columns: 4.5rem minmax(0, 1fr); gap: .35rem .75rem; margin: .5rem 0 0; }
dt { color: var(--dim); } dd { margin: 0; }
.figure { display: grid; grid-template-columns: auto minmax(0, 1fr); gap: 0 .5rem; font-size: .8rem; color: var(--dim);
  font-variant-numeric: tabular-nums; }
.scale { display: flex; flex-direction: column; justify-content: space-between; text-align: right; }
.ticks { grid-column: 2; display: flex; justify-content: space-between; }
svg { display: block; width: 100%; height: 9.5rem; }
.bar { display: flex; gap: 2px; height: 1.75rem; margin: .1rem 0 .6rem; }
.bar span { min-width: 1px; border-radius: 2px; }
.scroll { overflow-x: auto; }
table { border-collapse: collapse; width: 100%; font-variant-numeric: tabular-nums; }
th, td { text-align: left; padding: .3rem .75rem .3rem 0; border-bottom: 1px solid var(--line); vertical-align: top; }
th { color: var(--dim); font-weight: normal; } .number { text-align: right; white-space: nowrap; }
.swatch { display: inline-block; width: .8em; height: .8em; border-radius: 2px; margin-right: .4em; }
"""


class _Html(str):
    """Text that is HTML already."""

    __slots__ = ()


def render(report: Report, samples: Sequence[Sample] = (), cwd: str | None = None) -> str:
    """One self-contained HTML page of the report; `samples` (default: the report's own) make the charts.

    Paths inside `cwd` (default: where we are) are shown relative to it.
    """
    cwd = working_directory() if cwd is None else cwd
    samples = samples or report.samples
    program = printable(" ".join(report.program)) or "a program"
    body = [
        _element("p", "tenure ", report.tenure, " · ", _element("code", program), css="dim"),
        _element("h1", _element("span", report.verdict.upper(), css=report.verdict), " ", " · ".join(headline(report))),
        _element("p", printable(report.why)),
        *_findings(report, cwd),
        *_charts(samples, report),
        *_waterfall(report.waterfall_start, report.waterfall_end, reading_times(report)),
        *_autopsy(report),
        *_rest(report),
    ]
    head = [
        _Html('<meta charset="utf-8">'),
        _Html('<meta name="viewport" content="width=device-width, initial-scale=1">'),
        _Html(
            '<meta http-equiv="Content-Security-Policy"'
            " content=\"default-src 'none'; style-src 'unsafe-inline'; img-src data:\">"
        ),
        _Html('<link rel="icon" href="data:,">'),
        _element("title", f"{report.verdict} - {program} - tenure"),
        _Html(f"<style>{_STYLE}</style>"),
    ]
    page = _Html('<html lang="en">') + _element("head", *head) + _element("body", *body) + "</html>"
    return f"<!DOCTYPE html>\n{page}\n"


def _element(tag: str, *children: str, css: str = "", **attributes: str) -> _Html:
    """An element; children and attributes that are not `_Html` are escaped."""
    if css:
        attributes["class"] = css
    written = "".join(f' {name.replace("_", "-")}="{escape(value)}"' for name, value in attributes.items())
    inner = "".join(child if isinstance(child, _Html) else escape(_clean(child)) for child in children)
    return _Html(f"<{tag}{written}>{inner}</{tag}>")


def _clean(text: str) -> str:
    return "".join(c if c.isprintable() or c in "\n\t" else "\N{REPLACEMENT CHARACTER}" for c in text)


def _findings(report: Report, cwd: str) -> Iterable[_Html]:
    findings = in_order(report.findings)
    if findings:
        yield _element("h2", "Findings")
    for finding in findings:
        yield _finding(finding, report, cwd)


def _finding(finding: Finding, report: Report, cwd: str) -> _Html:
    unit = report.ticks.unit
    rows: list[_Html] = []

    def row(label: str, *parts: str) -> None:
        rows.extend((_element("dt", label), _element("dd", *parts)))

    if finding.birth is not None:
        birth = finding.birth
        inside = f" in {birth.function}()" if birth.function else ""
        row("made", place(birth.file, birth.line, cwd), inside, _Html("<br>"), _element("code", birth.text.strip()))
    elif (unborn := why_unborn(finding, report.missing)) is not None:
        row("made", unborn)
    if finding.holder is not None:
        holder = finding.holder
        where = f" ({place(holder.file, holder.line, cwd)})" if holder.file else ""
        steps = " > ".join(holder.path)
        path = [_Html("<br>"), _element("span", steps, css="path dim")] if len(holder.path) > 1 else []
        row("held", _element("code", holder.text), where, *path)
    if finding.changed is not None:
        row("new", "argument ", _element("code", finding.changed.argument), ": ", ", ".join(finding.changed.values))
    for line in finding.evidence:
        row("seen", line)
    if finding.tensor_bytes_per_tick is not None:
        row("tensors", rate(finding.tensor_bytes_per_tick, unit))
    why = reason(finding)
    if why:
        row("why", why)
    if (known := known_in(finding)) is not None:
        row("known", known)
    if finding.remedy:
        row("cure", finding.remedy)
    sure = f"{min(99, math.floor(100 * finding.confidence))} % sure" if math.isfinite(finding.confidence) else ""
    size = "" if finding.bytes_per_tick is None and finding.kind != "leak" else rate(finding.bytes_per_tick, unit)
    also = f", with {', '.join(finding.also)}" if finding.also else ""
    title = _element("h3", finding.cause, also, css="leak" if finding.kind == "leak" else "")
    said = " · ".join(part for part in (finding.code, finding.kind, finding.origin, size, sure) if part)
    return _element(
        "section",
        _element("div", title, _element("span", said, css="dim"), css="title"),
        _element("dl", *rows),
        css="card",
    )


def _charts(samples: Sequence[Sample], report: Report) -> Iterable[_Html]:
    drawn = []
    for name, title in _CHARTS:
        points = [(sample.tick, getattr(sample, name)) for sample in samples]
        points = [(tick, value) for tick, value in points if value is not None]
        if len(points) >= 2 and points[0][0] < points[-1][0]:
            drawn.append(_chart(title, points, report))
    if drawn:
        yield _element("h2", f"Memory over {units(report.ticks.unit, max(2, len(samples))).split(' ', 1)[1]}")
        yield from drawn


def _chart(title: str, points: Sequence[tuple[int, int]], report: Report) -> _Html:
    first, last = points[0], points[-1]
    low, high = min(value for _, value in points), max(value for _, value in points)
    # At least 1 MB from bottom to top: noise of a few pages must not look like growth.
    spread = max(high - low, 1_000_000)
    low = max(0, (low + high - spread) // 2) if high - low < spread else low
    high = low + spread

    def x(tick: float) -> float:
        return _WIDTH * (tick - first[0]) / (last[0] - first[0])

    def y(value: float) -> float:
        return _HEIGHT - 4 - (_HEIGHT - 8) * (value - low) / (high - low)

    path = " ".join(f"{x(tick):.1f},{y(value):.1f}" for tick, value in _fewer(points))
    warm = min(_WIDTH, x(first[0] + report.ticks.warmup)) if report.ticks.warmup > 0 else 0.0
    change = last[1] - first[1]
    said = f"{human_bytes(first[1])} at first, {human_bytes(last[1])} at the end"
    grown = f" ({'+' if change > 0 else ''}{human_bytes(change)})"
    lines = "".join(
        f'<line x1="0" x2="{_WIDTH}" y1="{y(value):.1f}" y2="{y(value):.1f}" stroke="var(--line)" stroke-width="1"'
        ' vector-effect="non-scaling-stroke"/>'
        for value in (low, (low + high) / 2, high)
    )
    drawing = _Html(
        f'<svg viewBox="0 0 {_WIDTH} {_HEIGHT}" preserveAspectRatio="none" role="img" aria-label="{escape(title)}: '
        f'{escape(said)}"><rect x="0" y="0" width="{warm:.1f}" height="{_HEIGHT}" fill="var(--shade)"/>{lines}'
        f'<polyline points="{path}" fill="none" stroke="var(--mark)" stroke-width="2" stroke-linejoin="round"'
        ' vector-effect="non-scaling-stroke"/></svg>'
    )
    unit = report.ticks.unit
    scale = [_element("span", human_bytes(value)) for value in (high, (low + high) / 2, low)]
    warmup = f"grey: {units(unit, report.ticks.warmup)} of warm-up" if warm else ""
    ends = [_element("span", text) for text in (f"{unit} {first[0]}", warmup, f"{unit} {last[0]}")]
    return _element(
        "section",
        _element("div", _element("h3", title), _element("span", said, grown, css="dim"), css="title"),
        _element(
            "div", _element("div", *scale, css="scale"), drawing, _element("div", *ends, css="ticks"), css="figure"
        ),
        css="card",
    )


def _fewer(points: Sequence[tuple[int, int]]) -> Sequence[tuple[int, int]]:
    """At most `MOST_POINTS` of the points: the lowest and the highest of each stretch, so that no spike is lost."""
    if len(points) <= MOST_POINTS:
        return points
    stretches = MOST_POINTS // 2 - 1
    kept = {points[0], points[-1]}
    for number in range(stretches):
        stretch = points[number * len(points) // stretches : (number + 1) * len(points) // stretches]
        kept.add(min(stretch, key=lambda point: point[1]))
        kept.add(max(stretch, key=lambda point: point[1]))
    return sorted(kept)


_WHOLE = "RSS"  # the layer that the others add up to


def _waterfall(start: Sequence[Layer], end: Sequence[Layer], times: tuple[str, str]) -> Iterable[_Html]:
    if not end:
        return
    before = {layer.name: layer.bytes for layer in start}
    after = {layer.name: layer.bytes for layer in end}
    names = list(dict.fromkeys([*after, *before]))
    parts_of = [{name: size for name, size in side.items() if name != _WHOLE} for side in (before, after)]
    colors = {name: f"var(--p{number % 8})" for number, name in enumerate(names)}
    total = max(sum(max(0, size or 0) for size in side.values()) for side in parts_of) or 1
    yield _element("h2", "Where the resident memory is")
    bars = []
    for label, side, whole in zip(times, parts_of, (before, after), strict=True):
        if not side:
            continue
        parts = [
            _element(
                "span",
                style=f"width: {100 * size / total:.2f}%; background: {colors[name]}",
                title=f"{name}: {human_bytes(size)}",
            )
            for name, size in side.items()
            if size is not None and size > 0
        ]
        known = human_bytes(whole.get(_WHOLE) or sum(size for size in side.values() if size is not None))
        bars += [_element("div", f"{label}, {known}", css="dim"), _element("div", *parts, css="bar")]
    rows = []
    for name in names:
        old, new = before.get(name), after.get(name)
        change = "" if old is None or new is None else f"{'+' if new > old else ''}{human_bytes(new - old)}"
        swatch = _element("span", css="swatch", style=f"background: {colors[name]}")
        figures = ["unknown" if size is None else human_bytes(size) for size in (old, new)]
        rows.append([_element("td", swatch, name), *(_number(text) for text in (*figures, change))])
    yield _element("section", *bars, _table(["", "start", "end", "change"], rows), css="card")


def _autopsy(report: Report) -> Iterable[_Html]:
    if not report.autopsy:
        return
    yield _element("h2", "What each release gave back")
    rows = [
        [_element("td", part.action), _number(rate(part.bytes_per_tick, report.ticks.unit))] for part in report.autopsy
    ]
    yield _element("section", _table(["action", "gave back"], rows), css="card")


def _rest(report: Report) -> Iterable[_Html]:
    if report.notes:
        yield _element("h2", "Notes")
        yield _element("ul", *(_element("li", note) for note in report.notes))
    if report.missing:
        yield _element("h2", "Figures that could not be had")
        rows = [[_element("td", part.figure), _element("td", part.why)] for part in report.missing]
        yield _element("section", _table(["figure", "why"], rows, numbers=False), css="card")
    versions = ", ".join(f"{name} {version}" for name, version in report.versions.items() if version)
    status = "" if report.exit_status is None else f" · exit status {report.exit_status}"
    function = f" · cycle {report.ticks.function}" if report.ticks.function else ""
    yield _element("p", versions, function, status, css="dim")


def _table(heads: Sequence[str], rows: Sequence[Sequence[_Html]], numbers: bool = True) -> _Html:
    top = [_element("th", head, css="number" if numbers and column else "") for column, head in enumerate(heads)]
    body = [_element("tr", *row) for row in rows]
    return _element("div", _element("table", _element("tr", *top), *body), css="scroll")


def _number(text: str) -> _Html:
    return _element("td", text, css="number")
