"""The words of the text: sizes, times, rates, places, and what is shown when."""

from __future__ import annotations

from dataclasses import replace

import pytest
from test_report_fakes import END, FLAT, INCONCLUSIVE, KEPT, LEAK, POOL, RETRACE, START

from tenure.records import Birth, Finding, Growth, Holder, Layer, Missing, Ticks, a_unit, counted, units
from tenure.report.text import human_bytes, human_duration, place, render, resident_grew


@pytest.mark.parametrize(
    ("count", "text"),
    [
        (0, "0 B"),
        (0.4, "0.4 B"),
        (512, "512 B"),
        (999, "999 B"),
        (999.6, "1.0 KB"),
        (1000, "1.0 KB"),
        (9_949, "9.9 KB"),
        (9_960, "10 KB"),
        (66_900, "67 KB"),
        (999_499, "999 KB"),
        (999_500, "1.0 MB"),
        (7_400_000, "7.4 MB"),
        (61_000_000, "61 MB"),
        (25_769_803_776, "26 GB"),
        (-7_400_000, "-7.4 MB"),
        (5e18, "5000 PB"),
        (float("nan"), "unknown"),
    ],
)
def test_bytes(count: float, text: str) -> None:
    assert human_bytes(count) == text


@pytest.mark.parametrize(
    ("seconds", "text"),
    [
        (0, "0 seconds"),
        (1, "1 second"),
        (40, "40 seconds"),
        (600, "10 minutes"),
        (54 * 3600, "54 hours"),
        (4 * 86400, "4 days"),
        (90 * 86400, "3 months"),
        (5 * 365.25 * 86400, "5 years"),
        (1e12, "more than 100 years"),
        (float("inf"), "unknown time"),
    ],
)
def test_durations(seconds: float, text: str) -> None:
    assert human_duration(seconds) == text


def test_units() -> None:
    assert [a_unit(unit) for unit in ("tick", "epoch", "batch")] == ["a tick", "an epoch", "a batch"]
    assert [units("batch", 1), units("batch", 2), units("step", 12000)] == ["1 batch", "2 batches", "12,000 steps"]
    assert [units(unit, 2) for unit in ("second", "epoch", "call")] == ["2 seconds", "2 epochs", "2 calls"]


@pytest.mark.parametrize(
    ("number", "name", "text"),
    [
        (1.0, "graph", "1 graph"),
        (1.0, "second", "1 second"),
        (0.5, "registry entry", "0.5 registry entries"),
        (2, "ndarray", "2 ndarrays"),
        (3, "bytes", "3 bytes objects"),
        (12345.6, "tensor", "12,346 tensors"),
        (float("nan"), "tensor", "nan tensors"),
    ],
)
def test_what_is_counted(number: float, name: str, text: str) -> None:
    assert counted(number, name) == text


def test_paths_are_relative_inside_the_directory_only() -> None:
    assert place("/home/ann/job/a/b.py", 3, "/home/ann/job") == "a/b.py:3"
    assert place("/home/bob/b.py", 3, "/home/ann/job") == "/home/bob/b.py:3"
    assert place("/home/ann/jober.py", 3, "/home/ann/job") == "/home/ann/jober.py:3"
    assert place("b.py", None, "/home/ann/job") == "b.py"


def test_flat_is_one_or_two_lines() -> None:
    text = render(FLAT, 80, False, recording="run.tenure", cwd="/")

    assert text == ("tenure  FLAT  200 steps   growth of 2.0 KB a step would have been seen\n recording run.tenure\n")
    assert render(FLAT, 80, False).count("\n") == 1
    assert len(render(replace(FLAT, findings=(POOL,)), 80, False).splitlines()) == 2


def test_inconclusive_says_which_run_decides() -> None:
    assert render(INCONCLUSIVE, 80, False, cwd="/") == (
        "tenure  INCONCLUSIVE  12 batches\n"
        " why    growth slows down from window to window; 40 batches would tell whether\n"
        "        it ends\n"
        " could not be had: malloc in use (this C library has no mallinfo2)\n"
    )


def test_never_quite_sure() -> None:
    growth = Growth(100.0, 100.0, 120.0, 1.0, 1.0)
    text = render(replace(LEAK, growth=growth), 80, False)

    assert "10 fits, 99 % sure of 100 to 120 B\n" in text


def test_without_a_rate_the_leaks_are_summed() -> None:
    report = replace(LEAK, growth=None, findings=(KEPT, KEPT, RETRACE))

    assert render(report, 80, False).startswith("tenure  LEAK  134 KB a fit   10 fits\n")


def test_the_waterfall_shows_when_it_grew_or_when_asked() -> None:
    assert resident_grew(START, END)
    assert not resident_grew(START, START)
    assert not resident_grew((Layer("a", None),), (Layer("a", 10**9),))
    assert "resident memory" in render(LEAK, 80, False)
    assert "resident memory" not in render(replace(LEAK, waterfall_end=START), 80, False)
    assert "resident memory" not in render(FLAT, 80, False)
    assert "resident memory" in render(FLAT, 80, False, waterfall=True)


def test_the_waterfall_tells_after_which_ticks_it_was_read() -> None:
    page = render(replace(LEAK, waterfall_ticks=(2, 24_890)), 80, False)
    (head,) = [line for line in page.splitlines() if line.startswith(" resident memory")]
    assert head.split() == ["resident", "memory", "fit", "2", "fit", "24,890", "change"]


def test_calls_are_told_with_the_function() -> None:
    called = replace(FLAT, ticks=Ticks("call", "train.step", 1200, 30))
    assert render(called, 100, False).startswith("tenure  FLAT  1,200 calls of train.step   growth of")


def test_users_text_is_no_markup_and_no_control() -> None:
    finding = replace(
        KEPT,
        birth=Birth("[red]x.py", 1, "f", "losses['[bold]'] = x[0][/]  \x1b[31m# :smile:"),
        holder=Holder("case.d['[link=http://a]']", ("module case",)),
    )
    text = render(replace(LEAK, findings=(finding,)), 120, False)

    assert "[red]x.py:1   losses['[bold]'] = x[0][/] \N{REPLACEMENT CHARACTER}[31m# :smile:" in text
    assert "case.d['[link=http://a]']" in text


def test_colour_is_only_there_when_asked_for(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("NO_COLOR", raising=False)
    assert "\x1b[1;31mLEAK" in render(LEAK, 80, True)
    assert "\x1b" not in render(LEAK, 80, False)
    assert "\x1b" not in render(LEAK, 80)  # stderr is no terminal here
    monkeypatch.setattr("sys.stderr.isatty", lambda: True, raising=False)
    monkeypatch.setenv("TERM", "xterm")
    assert "\x1b" in render(LEAK, 80)
    monkeypatch.setenv("NO_COLOR", "1")
    assert "\x1b" not in render(LEAK, 80)


def test_many_findings_are_cut_and_counted() -> None:
    text = render(replace(LEAK, findings=(KEPT,) * 14), 80, False)

    assert "\n10  tensors-kept" in text
    assert "\n11  tensors-kept" not in text
    assert " and 4 more findings, 268 KB a fit together" in text


def test_unattributed_growth_tells_all_that_is_known() -> None:
    known = tuple(f"fact {number}" for number in range(5))
    text = render(replace(LEAK, findings=(replace(KEPT, cause="unattributed-growth", evidence=known),)), 80, False)

    assert [fact for fact in known if fact not in text] == []
    assert "fact 2" not in render(replace(LEAK, findings=(replace(KEPT, evidence=known),)), 80, False)


def test_a_program_that_failed_is_told() -> None:
    assert " the program ended with status 3\n" in render(replace(FLAT, exit_status=3), 80, False)
    assert " the program was ended by signal 9\n" in render(replace(FLAT, exit_status=-9), 80, False)


def test_one_tick() -> None:
    assert render(replace(FLAT, ticks=Ticks("epoch", None, 1, 0), growth=None), 80, False) == "tenure  FLAT  1 epoch\n"


def test_a_cause_that_the_catalogue_lacks_has_no_why() -> None:
    text = render(replace(LEAK, findings=(replace(KEPT, cause="of-tomorrow"),)), 80, False)

    assert "of-tomorrow" in text
    assert "\n    why " not in text
    assert "Keep float(loss)" in text


def test_what_the_verdict_says_already_is_not_told_twice() -> None:
    why = "--tick train:step: the module train has no function step; check its name"
    report = replace(INCONCLUSIVE, why=why, missing=(Missing("ticks", why),))

    assert render(report, 100, False).count("--tick train:step") == 1


def test_a_leak_without_a_line_says_why_there_is_none() -> None:
    unborn = replace(KEPT, birth=None)
    lost = Missing("births: tensorflow", "the hook is gone")

    assert "made   its line is not known: the hook is gone" in text_of(unborn, lost)
    assert "made   its line is not noted: tenure notes those of TensorFlow's objects only" in text_of(
        replace(unborn, tensor_bytes_per_tick=0.0)
    )
    assert "made" not in text_of(unborn)


def text_of(finding: Finding, *missing: Missing) -> str:
    return render(replace(LEAK, findings=(finding,), missing=missing), 100, False)


def test_one_finding_more() -> None:
    assert " and 1 more finding, 67 KB a fit together" in render(replace(LEAK, findings=(KEPT,) * 11), 80, False)


def test_a_report_printed_as_it_is_tells_the_verdict_and_each_finding_in_a_line() -> None:
    first, *rest = str(replace(LEAK, findings=(KEPT,))).splitlines()
    assert first == f"leak: {LEAK.why}"
    assert rest == [f"  {KEPT}"]
    assert str(KEPT).startswith("tensors-kept (TEN107, leak), ")
    assert (
        "bytes a tick, made at " in str(KEPT)
        and "train.py:13, " in str(KEPT)
        and "held by train.history['loss'][*]" in str(KEPT)
    )
    assert str(FLAT) == f"flat: {FLAT.why}"
