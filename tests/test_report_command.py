"""`tenure report` shows any recording with status 0, and says in one sentence with status 2 what is no recording."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from click.testing import CliRunner, Result
from test_report_fakes import LEAK, VERSIONS, samples

from tenure import __version__
from tenure.cli import tenure
from tenure.observe.recording import Recorder
from tenure.records import Ticks


def report(*words: str | Path) -> Result:
    return CliRunner().invoke(tenure, ["report", *map(str, words)])


@pytest.fixture
def ended(tmp_path: Path) -> Path:
    path = tmp_path / "run.tenure"
    with Recorder(path, ["train.py", "30"], VERSIONS) as recorder:
        for sample in samples(30):
            recorder.add_sample(sample)
        recorder.set_report(LEAK)
    return path


@pytest.fixture
def early(tmp_path: Path) -> Path:
    """A recording that its writer left before the first verdict, with the log beside it."""
    path = tmp_path / "early.tenure"
    recorder = Recorder(path, ["train.py"], VERSIONS)
    recorder.set_ticks(Ticks("batch", "train.step", 0, 3))
    for sample in samples(12):
        recorder.add_sample(sample)
    recorder.flush()
    copy = tmp_path / "copy.tenure"
    for suffix in ("", "-wal"):
        copy.with_name(copy.name + suffix).write_bytes(path.with_name(path.name + suffix).read_bytes())
    recorder.close()
    return copy


def test_a_recording_is_shown_again(ended: Path) -> None:
    result = report(ended)

    assert result.exit_code == 0
    assert result.stdout.startswith("tenure  LEAK  7.4 MB a fit   10 fits, 95 % sure of 7.2 to 7.6 MB")
    assert "killed" not in result.stdout


def test_json_and_html_are_written(ended: Path, tmp_path: Path) -> None:
    result = report("--json", tmp_path / "r.json", "--html", tmp_path / "r.html", ended)

    assert result.exit_code == 0, result.output
    assert json.loads((tmp_path / "r.json").read_text())["verdict"] == "leak"
    page = (tmp_path / "r.html").read_text(encoding="utf-8")
    assert "<polyline" in page
    assert "fit 29" in page


def test_json_on_standard_output_stands_alone(ended: Path) -> None:
    assert json.loads(report("--json", "-", ended).stdout)["schema"] == "tenure/report/1"


def test_redact_hides_values_everywhere(ended: Path, tmp_path: Path) -> None:
    shown = report("--redact", "--html", tmp_path / "r.html", ended).stdout
    value = json.loads(report("--redact", "--json", "-", ended).stdout)

    assert "17, 18" not in shown
    assert "17, 18" not in (tmp_path / "r.html").read_text(encoding="utf-8")
    assert value["findings"][2]["changed"]["values"] == ["<redacted>"] * 3


def test_a_recording_without_a_verdict_is_inconclusive_and_tells_the_ticks(early: Path) -> None:
    result = report(early)
    value = json.loads(report("--json", "-", early).stdout)

    assert result.exit_code == 0
    assert result.stdout.startswith("tenure  INCONCLUSIVE  12 batches\n")
    text = " ".join(result.stdout.split())
    assert "12 batches were seen and no verdict was stored; a run of 43 batches would decide" in text
    assert "the program was killed or still runs; the last sample is of batch 11" in text
    assert value["verdict"] == "inconclusive"
    assert value["tenure"] == __version__
    assert value["ticks"] == {"unit": "batch", "function": "train.step", "count": 12, "warmup": 3}
    assert value["versions"] == VERSIONS


def test_no_sample_at_all(tmp_path: Path) -> None:
    path = tmp_path / "none.tenure"
    Recorder(path, ["p"], {}).close()

    result = report(path)

    assert result.exit_code == 0
    assert "0 ticks were seen" in result.stdout


def test_an_output_over_the_recording_keeps_it(ended: Path) -> None:
    before = ended.read_bytes()

    result = report("--json", ended, ended)

    assert result.exit_code == 2
    assert f"--json would overwrite {ended}" in result.stderr
    assert ended.read_bytes() == before


def test_a_device_is_no_recording() -> None:
    result = report("/dev/zero")

    assert result.exit_code == 2
    assert result.stderr == "tenure report: /dev/zero is a device or a pipe, not a recording.\n"


@pytest.mark.parametrize("kind", ["missing", "text"])
def test_what_is_no_recording_is_one_sentence_and_status_2(tmp_path: Path, kind: str) -> None:
    path = tmp_path / "x.tenure"
    if kind == "text":
        path.write_text("hello " * 200)

    result = report(path)

    assert result.exit_code == 2
    assert result.stdout == ""
    assert result.stderr.startswith(f"tenure report: {path} ")
    assert result.stderr.count("\n") == 1


def test_a_place_that_cannot_be_written_is_told(ended: Path, tmp_path: Path) -> None:
    result = report("--html", tmp_path / "nowhere" / "r.html", ended)

    assert result.exit_code == 2
    assert "r.html can't be written: no such file or directory." in result.stderr
