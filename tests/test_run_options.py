"""The options of `tenure run`: what they write, when the status is 10, and one sentence for each mistake."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest
from run_fakes import SOURCE, run


@pytest.fixture()
def folder(tmp_path: Path) -> Path:
    (tmp_path / "train.py").write_text("print('ran')\n")
    (tmp_path / "fails.py").write_text("import sys; sys.exit(3)\n")
    (tmp_path / "empty").mkdir()
    (tmp_path / "more").mkdir()
    (tmp_path / "more" / "train.py").write_text("print('ran')\n")
    (tmp_path / "bad.json").write_text("{]")
    (tmp_path / "null.py").write_bytes(b"x = 1\0")
    return tmp_path


@pytest.mark.parametrize(
    ("words", "sentence"),
    [
        ([], "no program was given"),
        (["-m"], "no module follows -m"),
        (["nothing.py"], "there is no file nothing.py"),
        (["empty"], "empty is a folder without __main__.py"),
        (["-m", "no_such_module_here"], "there is no module no_such_module_here"),
        (["-m", "json.no_such_part"], "No module named json.no_such_part"),
        (["-m", "no_such_module_here.part"], "there is no module no_such_module_here.part"),
        (["-m", "json"], "No module named json.__main__; 'json' is a package and cannot be directly executed"),
        (["-m", "sys"], "No code object available for sys"),
        (["-m", ".train"], "there is no module .train; give its whole name"),
        (["-m", "./train.py"], "there is no module ./train.py; it is a file: leave out -m"),
        (["-m", "more/train.py"], "there is no module more/train.py; it is a file: leave out -m"),
        (["--nonsense", "train.py"], "--nonsense"),
        (["--json"], "--json"),
        (["--json", "no/where.json", "train.py"], "--json no/where.json can't be written: there is no folder"),
        (["--report", "empty", "train.py"], "--report empty can't be written: it is a folder"),
        (["--record", "no/r", "train.py"], "--record no/r can't be written"),
        (["--json", "x", "--report", "x", "train.py"], "name the same file"),
        (["--json", "train.py", "train.py"], "--json would overwrite train.py; give another place"),
        (["--report", "./empty/../train.py", "train.py"], "--report would overwrite train.py"),
        (["--json", "bad.json", "--fail-on", "new", "--baseline", "bad.json", "train.py"], "would overwrite bad.json"),
        (["null.py"], "null.py is no Python source: "),
        (["--tick", "step", "train.py"], "--tick step names no function; write MODULE:FUNCTION"),
        (["--fail-on", "rain", "train.py"], "rain"),
        (["--fail-on", "new", "train.py"], "--fail-on new needs --baseline FILE"),
        (["--baseline", "x", "train.py"], "--baseline is read for --fail-on new only"),
        (["--fail-on", "new", "--baseline", "none.json", "train.py"], "--baseline none.json can't be read"),
        (["--fail-on", "new", "--baseline", "bad.json", "train.py"], "neither a report of --json nor a list"),
    ],
)
def test_a_mistake_is_one_sentence_and_status_2(words: list[str], sentence: str, folder: Path) -> None:
    done = run(words, folder)
    assert done.returncode == 2
    assert sentence in done.stderr
    assert done.stderr.startswith("tenure run: ")
    assert done.stderr.count("\n") == 1
    assert done.stdout == ""  # nothing of the program ran
    assert "Traceback" not in done.stderr


@pytest.mark.parametrize("place", ["/dev/full", "bad.json"])
def test_a_recording_that_cannot_be_begun_is_told_before_the_program_runs(place: str, folder: Path) -> None:
    done = subprocess.run(
        [sys.executable, "-m", "tenure", "run", "--fail-on", "leak", "--record", place, "train.py"],
        cwd=folder,
        env={**os.environ, "PYTHONPATH": str(SOURCE)},
        capture_output=True,
        text=True,
        check=False,
    )
    assert (done.returncode, done.stdout) == (2, "")
    assert done.stderr.startswith("tenure run: ") and done.stderr.count("\n") == 1
    assert (folder / "bad.json").read_text() == "{]"


@pytest.mark.skipif(os.geteuid() == 0, reason="root may write anywhere")
def test_a_folder_without_write_permission(folder: Path) -> None:
    (folder / "empty").chmod(0o500)
    done = run(["--json", "empty/out.json", "train.py"], folder)
    assert done.returncode == 2
    assert "permission denied" in done.stderr


def test_fail_on_leak_only_when_the_program_succeeded(folder: Path) -> None:
    leak = {"FAKE_LEAK": "abc"}
    assert run(["--fail-on", "leak", "train.py"], folder, env=leak).returncode == 10
    assert run(["--fail-on", "leak", "fails.py"], folder, env=leak).returncode == 3
    assert run(["--fail-on", "never", "train.py"], folder, env=leak).returncode == 0
    assert run(["train.py"], folder, env=leak).returncode == 0
    assert run(["--fail-on", "leak", "train.py"], folder).returncode == 0


def test_fail_on_new_compares_with_the_baseline(folder: Path) -> None:
    assert run(["--json", "base.json", "train.py"], folder, env={"FAKE_LEAK": "old"}).returncode == 0
    options = ["--fail-on", "new", "--baseline", "base.json", "train.py"]
    assert run(options, folder, env={"FAKE_LEAK": "old"}).returncode == 0
    assert run(options, folder, env={"FAKE_LEAK": "fresh"}).returncode == 10
    (folder / "base.json").write_text(json.dumps(["fresh"]))
    assert run(options, folder, env={"FAKE_LEAK": "fresh"}).returncode == 0


def test_the_outputs_replace_the_old_files_as_a_whole(folder: Path) -> None:
    (folder / "out.json").write_text("old")
    done = run(["--json", "out.json", "train.py"], folder)
    assert done.stdout == "ran\n"
    assert json.loads((folder / "out.json").read_text())["program"] == ["train.py"]
    assert [p.name for p in folder.iterdir() if p.name.startswith(".")] == []


def test_an_unwritable_output_is_told_before_the_old_one_is_touched(folder: Path) -> None:
    (folder / "out.json").write_text("old")
    run(["--json", "out.json", "--report", "no/x.html", "train.py"], folder)
    assert (folder / "out.json").read_text() == "old"


def test_the_json_can_go_to_a_device(folder: Path) -> None:
    assert run(["--json", "/dev/null", "train.py"], folder).returncode == 0
    assert Path("/dev/null").is_char_device()
