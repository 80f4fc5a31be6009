"""Whatever the program's texts are: JSON keeps them, text and page stay in their bounds and they are never markup."""

from __future__ import annotations

import re
from dataclasses import replace
from html.parser import HTMLParser

import pytest

from tenure.records import (
    Birth,
    Changed,
    Finding,
    GivenBack,
    Growth,
    Holder,
    Layer,
    Missing,
    Report,
    Sample,
    Ticks,
)
from tenure.report import html, text
from tenure.report.json import dumps, in_order, loads

pytest.importorskip("hypothesis")
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

texts = st.text(max_size=30) | st.sampled_from(
    ["[bold]x[/bold]", "[/]", "<script>alert(1)</script>", "a\nb\x1b[31mred", ":smile:", "界" * 40, "x" * 300, "'\"&"]
)
floats = st.floats(allow_nan=False, allow_infinity=False, width=64)
counts = st.integers(0, 2**62)
tuples = st.lists(texts, max_size=3).map(tuple)
layers = st.lists(st.builds(Layer, texts, st.none() | counts), max_size=4).map(tuple)
findings = st.builds(
    Finding,
    cause=st.sampled_from(["tensors-kept", "gradient-registry", "unattributed-growth"]) | texts,
    code=texts,
    kind=st.sampled_from(["leak", "cost", "peak", "retention", "hazard"]),
    origin=st.sampled_from(["user", "framework", "allocator"]),
    confidence=st.floats(0, 1),
    bytes_per_tick=st.none() | floats,
    tensor_bytes_per_tick=st.none() | floats,
    objects_per_tick=st.none() | floats,
    remedy=texts,
    birth=st.none() | st.builds(Birth, texts, counts, texts, texts),
    holder=st.none() | st.builds(Holder, texts, tuples, st.none() | texts, st.none() | counts),
    changed=st.none() | st.builds(Changed, texts, tuples),
    also=tuples,
    evidence=tuples,
    fingerprint=texts,
)
reports = st.builds(
    Report,
    tenure=texts,
    versions=st.dictionaries(texts, st.none() | texts, max_size=3),
    program=tuples,
    exit_status=st.none() | st.integers(-64, 255),
    verdict=st.sampled_from(["leak", "flat", "inconclusive"]),
    why=texts,
    ticks=st.builds(
        Ticks,
        st.sampled_from(["tick", "step", "batch", "epoch", "call", "second"]),
        st.none() | texts,
        st.integers(0, 10**6),
        st.integers(0, 10**6),
    ),
    growth=st.none() | st.builds(Growth, floats, floats, floats, st.floats(0, 1), floats, st.none() | floats),
    waterfall_start=layers,
    waterfall_end=layers,
    waterfall_ticks=st.none() | st.tuples(st.integers(0, 10**6), st.integers(0, 10**6)),
    findings=st.lists(findings, max_size=3).map(tuple),
    autopsy=st.none() | st.lists(st.builds(GivenBack, texts, floats), max_size=2).map(tuple),
    notes=tuples,
    missing=st.lists(st.builds(Missing, texts, texts), max_size=2).map(tuple),
)
samples = st.lists(st.builds(Sample, counts, st.just(0.0), st.none() | counts, st.none() | counts), max_size=20)
quick = settings(max_examples=60, deadline=None, suppress_health_check=[HealthCheck.too_slow])


@quick
@given(reports)
def test_json_keeps_everything_but_the_samples(report: Report) -> None:
    assert loads(dumps(report)) == replace(report, findings=in_order(report.findings))


@quick
@given(reports, st.integers(1, 300), st.booleans())
def test_text_keeps_its_width_and_no_control_characters(report: Report, width: int, waterfall: bool) -> None:
    from rich.cells import cell_len

    page = text.render(report, width, False, recording="run.tenure", waterfall=waterfall, cwd="/home/ann")

    lines = page.split("\n")
    assert lines.pop() == ""
    widest = max(60, min(200, width))
    assert [line for line in lines if cell_len(line) > widest or not (line.isprintable() or line == "")] == []


class Tags(HTMLParser):
    """The tags of a page, and what is not closed."""

    def __init__(self) -> None:
        super().__init__()
        self.seen: set[str] = set()
        self.attributes: set[str] = set()
        self.stack: list[str] = []
        self.wrong: list[str] = []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.seen.add(tag)
        self.attributes |= {name for name, _ in attrs}
        if tag not in ("meta", "link", "br"):
            self.stack.append(tag)

    def handle_startendtag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.seen.add(tag)

    def handle_endtag(self, tag: str) -> None:
        if not self.stack or self.stack.pop() != tag:
            self.wrong.append(tag)


@quick
@given(reports, samples)
def test_the_page_escapes_everything_and_needs_no_network(report: Report, seen: list[Sample]) -> None:
    page = html.render(report, sorted(seen, key=lambda sample: sample.tick))

    tags = Tags()
    tags.feed(page)
    tags.close()
    assert tags.wrong == []
    assert tags.stack == []
    assert not tags.seen & {"script", "img", "iframe", "object", "bold"}
    assert not [name for name in tags.attributes if name.startswith("on") or name == "src"]
    assert re.findall(r'(?:href|url)\s*[=(]\s*"?(?!"?data:)', page) == []
