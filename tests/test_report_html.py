"""The page: what it shows, and that long recordings make short charts."""

from __future__ import annotations

import re
from dataclasses import replace

from test_report_fakes import FLAT, KEPT, LEAK, samples

from tenure.records import Birth, Layer, Sample
from tenure.report.html import MOST_POINTS, render


def test_everything_of_a_finding_is_on_the_page() -> None:
    page = render(LEAK, cwd="/home/ann/job")

    for text in (
        "LEAK</span> 7.4 MB a fit",
        "gradient-registry, with model-refitted",
        "train.py:20 in cycle()",
        "model.fit(x, y, epochs=1)",
        "TensorFlow&#x27;s gradient registry &gt; CustomGradient-40112",
        "2 graphs more at each fit",
        "Call tenure.collect() after each fit",
        "17, 18, 19",
        "7.3 MB a fit",
        "GPU memory",
        "tensorflow 2.21.0",
        "<h2>Memory over fits</h2>",
    ):
        assert text in page, text
    assert page.index("gradient-registry") < page.index("tensors-kept") < page.index("retrace-python-value")


def test_the_programs_text_is_escaped() -> None:
    birth = Birth("<b>.py", 1, "<i>", "</code><script>alert('x')</script>")
    page = render(replace(LEAK, findings=(replace(KEPT, birth=birth),), why='"><img src=x>', program=("<p>",)))

    assert "<script" not in page
    assert "<img" not in page
    assert "&lt;script&gt;alert(&#x27;x&#x27;)&lt;/script&gt;" in page


def test_no_network_and_no_script() -> None:
    page = render(LEAK)

    assert "default-src 'none'" in page
    assert "http" not in page.replace("http-equiv", "")
    assert "<script" not in page


def test_a_chart_has_few_points_and_keeps_the_spike() -> None:
    many = [Sample(tick=tick, seconds=0.0, rss=500_000_000 + 10 * tick) for tick in range(20_000)]
    many[12_345] = replace(many[12_345], rss=900_000_000)
    page = render(FLAT, many)

    lines = re.findall(r'<polyline points="([^"]*)"', page)
    assert len(lines) == 1
    points = [tuple(map(float, point.split(","))) for point in lines[0].split()]
    assert len(points) <= MOST_POINTS
    x, y = min(points, key=lambda point: point[1])
    assert abs(x - 600 * 12_345 / 19_999) < 0.1
    assert y < 10
    assert points[0][0] == 0
    assert points[-1][0] == 600


def test_bars_share_one_scale() -> None:
    page = render(LEAK)
    bars = re.findall(r'<div class="bar">(.*?)</div>', page)
    widths = [sum(map(float, re.findall(r"width: ([\d.]+)%", bar))) for bar in bars]

    assert len(widths) == 2
    assert abs(widths[1] - 100) < 0.1
    assert abs(widths[0] - 100 * 470 / 545) < 0.1


def test_resident_memory_is_the_whole_and_no_part_of_its_bar() -> None:
    layers = (Layer("live tensors", 300 << 20), Layer("unaccounted", 100 << 20), Layer("RSS", 400 << 20))
    page = render(replace(LEAK, waterfall_start=layers, waterfall_end=layers))
    (first, second) = re.findall(r'<div class="bar">(.*?)</div>', page)
    assert re.findall(r"width: ([\d.]+)%", first) == re.findall(r"width: ([\d.]+)%", second) == ["75.00", "25.00"]
    assert "end, 419 MB" in page


def test_without_samples_and_figures_the_page_still_stands() -> None:
    bare = replace(FLAT, growth=None, waterfall_start=(), waterfall_end=())

    page = render(bare)

    assert "FLAT" in page
    assert "<svg" not in page
    assert "<svg" not in render(bare, samples(1))
