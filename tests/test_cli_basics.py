"""The group of commands, `tenure explain` and `tenure doctor`."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import click
import pytest
from click.testing import CliRunner, Result

import tenure as tenure_package
from tenure import __version__
from tenure.causes import CATALOGUE
from tenure.cli import COMMANDS, doctor, tenure
from tenure.observe.recording import Recorder


def call(*arguments: str) -> Result:
    return CliRunner().invoke(tenure, list(arguments), prog_name="tenure")


def test_help_names_every_command() -> None:
    done = call("--help")

    assert done.exit_code == 0
    assert all(name in done.output for name in COMMANDS)


def test_version() -> None:
    assert call("--version").output.strip().endswith(__version__)


@pytest.mark.parametrize("name", COMMANDS)
def test_every_command_loads_and_has_help(name: str) -> None:
    done = call(name, "--help")

    assert done.exit_code == 0, done.output
    assert done.output.startswith(f"Usage: tenure {name}")


@pytest.mark.parametrize(
    ("words", "sentence"),
    [
        ("frobnicate", "tenure: No such command 'frobnicate'; see tenure --help."),
        ("--frobnicate", "tenure: No such option '--frobnicate'; see tenure --help."),
        ("doctor --jsn", "tenure doctor: No such option '--jsn'. Did you mean '--json'? See tenure doctor --help."),
        ("doctor here", "tenure doctor: Got unexpected extra argument (here); see tenure doctor --help."),
        ("report", "tenure report: Missing argument 'RECORDING'; see tenure report --help."),
        ("soak --cycles many", "tenure soak: Invalid value for '--cycles': 'many' is not a valid integer; see tenure"),
    ],
)
def test_a_usage_error_is_one_sentence(words: str, sentence: str) -> None:
    done = call(*words.split())

    assert done.exit_code == 2
    assert done.output.replace("No such option: --", "No such option '--").startswith(sentence)
    assert done.output.count("\n") == 1


def test_a_command_that_can_t_be_imported_says_why(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(COMMANDS, "gone", ("tenure.cli.no_such_module", "not there"))

    done = call("gone")

    assert done.exit_code == 1
    assert "no_such_module" in done.output
    assert call("--help").exit_code == 0


@pytest.mark.parametrize("key", ["TEN201", "gradient-registry"])
def test_explain_prints_the_page(key: str) -> None:
    done = call("explain", key)

    assert done.exit_code == 0
    assert done.output.startswith("TEN201  gradient-registry   leak, framework\n")
    assert "tensorflow/tensorflow#27492" in done.output
    assert "\x1b" not in done.output


def test_explain_keeps_square_brackets() -> None:
    assert "image.numpy()[:8, :8]" in call("explain", "TEN115").output


def test_explain_has_no_trailing_blanks() -> None:
    assert [line for line in call("explain", "TEN205").output.splitlines() if line != line.rstrip()] == []


def test_explain_lists_all_causes() -> None:
    done = call("explain")

    assert done.exit_code == 0
    assert all(name in done.output for name in CATALOGUE)


def test_explain_of_an_unknown_cause_suggests_the_nearest() -> None:
    done = call("explain", "gradient-regstry")

    assert done.exit_code == 2
    assert "did you mean gradient-registry" in done.output


@pytest.mark.parametrize("cause", ["nonsense", "TEN999", " "])
def test_explain_of_no_cause_is_one_sentence(cause: str) -> None:
    done = call("explain", cause)

    assert done.exit_code == 2
    assert done.stdout == ""
    assert done.stderr.startswith(f"tenure explain: there is no cause {cause!r}; ")
    assert done.stderr.count("\n") == 1


def in_shell(words: str, output: str) -> subprocess.CompletedProcess[str]:
    source = Path(tenure_package.__file__).parents[1]
    environment = {**os.environ, "PYTHONPATH": str(source), "COMMAND": f"{sys.executable} -m tenure {words}"}
    return subprocess.run(
        ["sh", "-c", f"$COMMAND {output}"], env=environment, text=True, capture_output=True, timeout=60
    )


@pytest.mark.parametrize("words", ["explain", "explain TEN201", "report RECORDING"])
@pytest.mark.parametrize(("output", "why"), [(">&-", "it is closed"), (">/dev/full", "no space left on device")])
def test_an_output_that_can_t_be_written_is_one_sentence(words: str, output: str, why: str, tmp_path: Path) -> None:
    Recorder(tmp_path / "r.db", ["train.py"], {}).close()
    done = in_shell(words.replace("RECORDING", str(tmp_path / "r.db")), output)

    assert (done.returncode, done.stdout) == (1, "")
    assert done.stderr == f"tenure {words.split()[0]}: standard output can't be written: {why}.\n"


@pytest.mark.parametrize("words", ["explain TEN201", "report RECORDING"])
def test_an_output_that_nobody_reads_makes_no_noise(words: str, tmp_path: Path) -> None:
    Recorder(tmp_path / "r.db", ["train.py"], {}).close()

    assert in_shell(words.replace("RECORDING", str(tmp_path / "r.db")), "| true").stderr == ""


def test_a_recording_that_is_not_there_is_one_sentence() -> None:
    done = call("report", "missing.db")

    assert (done.exit_code, done.stdout) == (2, "")
    assert done.stderr == "tenure report: missing.db does not exist.\n"


def test_doctor_without_tensorflow_says_so(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(doctor, "find_spec", lambda name: None)

    done = call("doctor", "--json")

    assert done.exit_code == 0
    report = json.loads(done.output)
    assert report["schema"] == "tenure/doctor/1"
    probes = {probe["probe"]: probe for probe in report["probes"]}
    assert probes["TensorFlow"] == {
        "probe": "TensorFlow",
        "works": False,
        "why": "not installed; its probes are not tried",
    }
    assert probes["resident memory"]["works"]


def test_doctor_prints_a_table(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(doctor, "find_spec", lambda name: None)

    done = call("doctor")

    assert done.exit_code == 0
    assert "resident memory" in done.output
    assert "not installed" in done.output


def test_a_self_test_that_breaks_is_a_finding() -> None:
    def broken() -> str | None:
        raise AttributeError("module has no _registry\nsecond line")

    assert doctor._self_test("registry", broken) == doctor.Check(
        "registry", False, "AttributeError: module has no _registry"
    )


@pytest.mark.tf
def test_doctor_tries_tensorflow_s_probes() -> None:
    done = call("doctor", "--json")

    assert done.exit_code == 0
    names = {probe["probe"] for probe in json.loads(done.output)["probes"]}
    assert len(names) > 8
    assert "TensorFlow" not in names


def test_commands_are_click_commands() -> None:
    with click.Context(tenure) as context:
        assert tenure.list_commands(context) == list(COMMANDS)
