"""`tenure soak` on the command line: a mistake is one sentence and status 2, a failing target is its own traceback."""

from __future__ import annotations

import importlib.util
import json
import os
import re
import sys
from collections.abc import Callable, Iterator
from importlib import metadata
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner, Result

from tenure.cli import soak as command
from tenure.observe import births

pytestmark = pytest.mark.slow

Soak = Callable[..., Result]

PROGRAM = """
import asyncio
import sys

kept = []
seen = []
number = 7
nothing = None


def cycle(i):
    seen.append(i)


def leaks(i):
    kept.append(bytearray(20_000))


def no_index():
    seen.append(None)


def any_arguments(*args):
    seen.append(args)


def only_keywords(*, name):
    pass


def two(first, second):
    pass


async def later(i):
    await asyncio.sleep(0)
    seen.append(i)


def raises_at_five(i):
    inner(i)


def inner(i):
    if i == 5:
        raise ValueError("the fifth is bad")


def exits(i):
    if i == 12:
        sys.exit(3)


def interrupted(i):
    if i == 12:
        raise KeyboardInterrupt


class Stop(BaseException):
    pass


def stops(i):
    if i == 12:
        raise Stop("enough")


def closes(i):
    if i == 12:
        raise GeneratorExit


async def cancelled(i):
    if i == 12:
        raise asyncio.CancelledError


def moves(i):
    import os, tempfile
    kept.append(bytearray(20_000))
    if i == 0:
        folder = tempfile.mkdtemp()
        os.chdir(folder)
        os.rmdir(folder)


def before():
    seen.append("before")


async def async_before():
    seen.append("async before")


def after():
    seen.append("after")


def broken():
    raise LookupError("no such thing")


class Job:
    def __init__(self):
        self.turns = 0

    def __call__(self, i):
        self.turns += 1
        seen.append(self.turns)

    def step(self):
        seen.append("step")


class Plain:
    pass


class Unmakeable:
    def __init__(self):
        raise OSError("no database")


class Stopping:
    def __init__(self):
        raise Stop("no more")


job = Job()
"""


@pytest.fixture()
def soak(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Soak]:
    """Runs `tenure soak ARGUMENTS` in a folder with `job.py` in this process, TensorFlow installed or not."""
    (tmp_path / "job.py").write_text(PROGRAM)
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "argv", list(sys.argv))
    monkeypatch.setattr(sys, "path", list(sys.path))
    monkeypatch.setattr(command, "require_tensorflow", lambda name: None)
    before = set(sys.modules)

    def run(*arguments: str) -> Result:
        return CliRunner().invoke(command.command, list(arguments), prog_name="tenure soak")

    yield run
    for left in list(births._noting):
        left.stop()
    for name in set(sys.modules) - before:
        if str(getattr(sys.modules[name], "__file__", "")).startswith(str(tmp_path)):
            del sys.modules[name]


def module() -> Any:
    return sys.modules["job"]


def mistake(result: Result, *words: str) -> str:
    """The one sentence of a user's mistake."""
    assert result.exit_code == 2, result.output
    assert "Traceback" not in result.output
    lines = result.output.strip().splitlines()
    assert len(lines) == 1, result.output
    assert lines[0].startswith("tenure soak: ")
    assert lines[0].endswith(".") and not lines[0].endswith("..")
    for word in words:
        assert word in lines[0]
    return lines[0]


# -- what was given ----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("target", ["job.py", "job.py:", ":cycle", "", "cycle"])
def test_a_target_without_its_two_parts(soak: Soak, target: str) -> None:
    mistake(soak(target), "path.py:function", "package.module:function")


def test_a_script_that_is_not_there(soak: Soak) -> None:
    mistake(soak("jobs.py:cycle"), "jobs.py", "does not exist")


def test_a_directory(soak: Soak, tmp_path: Path) -> None:
    mistake(soak(f"{tmp_path}:cycle"), str(tmp_path), "is a directory")


def test_a_module_that_is_not_there(soak: Soak) -> None:
    mistake(soak("no_such_package.train:cycle"), "no_such_package.train")


def test_a_syntax_error_names_file_and_line(soak: Soak, tmp_path: Path) -> None:
    (tmp_path / "bad.py").write_text("x = 1\ndef f(:\n    pass\n")
    mistake(soak("bad.py:f"), "bad.py", "syntax error", "line 2")


def test_a_syntax_error_in_what_the_script_imports_names_that_file(soak: Soak, tmp_path: Path) -> None:
    (tmp_path / "helper_bad.py").write_text("\n\n\ny = (\n")
    (tmp_path / "good.py").write_text("import helper_bad\ndef f(): pass\n")
    mistake(soak("good.py:f"), "helper_bad.py", "line 4")


@pytest.mark.parametrize(("name", "near"), [("cycel", "cycle"), ("Leaks", "leaks"), ("raises_at_5", "raises_at_five")])
def test_a_function_that_is_not_there_offers_a_near_name(soak: Soak, name: str, near: str) -> None:
    mistake(soak(f"job.py:{name}"), repr(name), f"did you mean {near!r}?")


def test_nothing_near_offers_nothing(soak: Soak) -> None:
    assert "did you mean" not in mistake(soak("job.py:zzzzzz"), "'zzzzzz'")


@pytest.mark.parametrize(("name", "kind"), [("kept", "list"), ("number", "int"), ("Plain", "Plain")])
def test_what_can_not_be_called(soak: Soak, name: str, kind: str) -> None:
    mistake(soak(f"job.py:{name}"), f"job.py:{name}", kind, "not a function")


@pytest.mark.parametrize(("name", "wants"), [("two", "second"), ("only_keywords", "name")])
def test_a_target_that_wants_more_than_the_index(soak: Soak, name: str, wants: str) -> None:
    mistake(soak(f"job.py:{name}"), f"job.py:{name}", wants)


@pytest.mark.parametrize("option", ["--setup", "--teardown"])
def test_a_setup_that_is_not_there(soak: Soak, option: str) -> None:
    mistake(soak(option, "befor", "job.py:cycle"), "job.py has no function 'befor'")


@pytest.mark.parametrize("option", ["--json", "--report", "--record"])
@pytest.mark.parametrize("file", ["missing/out", "."])
def test_an_output_that_can_not_be_written_is_said_before_the_run(soak: Soak, option: str, file: str) -> None:
    mistake(soak(option, file, "job.py:cycle"), file)
    assert "job" not in sys.modules


def test_an_output_in_a_folder_without_permission(soak: Soak, tmp_path: Path) -> None:
    # the superuser may write everywhere but into /proc
    mistake(soak("--json", "/proc/out.json", "job.py:cycle"), "/proc/out.json", "can't be written")
    assert "job" not in sys.modules


def test_two_outputs_in_one_file(soak: Soak, tmp_path: Path) -> None:
    mistake(soak("--json", "out", "--record", str(tmp_path / "out"), "job.py:cycle"), "--json", "--record", "same file")
    assert "job" not in sys.modules


def test_a_record_over_another_file_keeps_it(soak: Soak, tmp_path: Path) -> None:
    (tmp_path / "notes.txt").write_text("my own notes\n")
    mistake(soak("--record", "notes.txt", "--cycles", "9", "job.py:cycle"), "notes.txt")
    assert (tmp_path / "notes.txt").read_text() == "my own notes\n"


def test_an_output_over_the_target_keeps_it(soak: Soak, tmp_path: Path) -> None:
    before = (tmp_path / "job.py").read_text()
    mistake(soak("--json", "job.py", "--cycles", "9", "job.py:cycle"), "--json would overwrite job.py")
    assert (tmp_path / "job.py").read_text() == before


@pytest.mark.parametrize("cycles", ["0", "-1", "-60"])
def test_cycles_below_one(soak: Soak, cycles: str) -> None:
    mistake(soak(f"--cycles={cycles}", "job.py:cycle"), "--cycles", cycles)
    assert "job" not in sys.modules


def test_cycles_that_are_no_number(soak: Soak) -> None:
    result = soak("--cycles", "many", "job.py:cycle")
    assert result.exit_code == 2
    assert "'--cycles': 'many' is not a valid integer" in result.output


def test_a_warmup_below_zero(soak: Soak) -> None:
    mistake(soak("--warmup=-1", "job.py:cycle"), "--warmup", "-1")


@pytest.mark.parametrize("time", ["0", "0s", "-5s", "ten", "10x", "", "1h30m", "nan", "inf"])
def test_a_time_that_is_none(soak: Soak, time: str) -> None:
    mistake(soak(f"--for={time}", "job.py:cycle"), repr(time), "10m")
    assert "job" not in sys.modules


@pytest.mark.parametrize("option", ["--json", "--report", "--record"])
def test_a_pipe_is_never_replaced(soak: Soak, tmp_path: Path, option: str) -> None:
    os.mkfifo(tmp_path / "pipe")  # stands for /dev/null
    reader = os.open(tmp_path / "pipe", os.O_RDONLY | os.O_NONBLOCK)
    try:
        result = soak("--cycles", "3", option, "pipe", "job.py:no_index")
        assert result.exit_code == (2 if option == "--record" else 4), result.output
        assert (tmp_path / "pipe").is_fifo()
        if option == "--json":
            assert os.read(reader, 100_000).startswith(b'{\n  "schema": "tenure/report/1"')
    finally:
        os.close(reader)


def test_cycles_and_a_time(soak: Soak) -> None:
    mistake(soak("--cycles", "9", "--for", "1s", "job.py:cycle"), "not both")


def test_an_option_that_does_not_exist_is_no_target(soak: Soak) -> None:
    mistake(soak("--cylces", "9", "job.py:cycle"), "--cylces", "no option", "--cycles")


# -- TensorFlow --------------------------------------------------------------------------------------------------------


def test_tensorflow_that_is_not_installed(soak: Soak, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.undo()
    found = importlib.util.find_spec
    monkeypatch.setattr(importlib.util, "find_spec", lambda name, *a: None if name == "tensorflow" else found(name, *a))
    mistake(CliRunner().invoke(command.command, ["job.py:cycle"]), "TensorFlow is not installed", "pip install")


@pytest.mark.parametrize("version", ["2.15.1", "2.4", "1.15.0"])
def test_tensorflow_that_is_too_old(soak: Soak, monkeypatch: pytest.MonkeyPatch, version: str) -> None:
    monkeypatch.undo()
    monkeypatch.setattr(importlib.util, "find_spec", lambda *a: object())
    monkeypatch.setattr(metadata, "version", lambda name: version)
    mistake(CliRunner().invoke(command.command, ["job.py:cycle"]), f"TensorFlow {version} is too old", "2.16")


# -- what the target does ----------------------------------------------------------------------------------------------


def test_a_flat_target(soak: Soak) -> None:
    result = soak("--cycles", "30", "job.py:no_index")
    assert result.exit_code == 0, result.output
    assert "FLAT" in result.output and "30 ticks" in result.output
    assert module().seen == [None] * 30


def test_a_leak_names_its_holder_and_exits_with_one(soak: Soak) -> None:
    result = soak("--cycles", "40", "--json", "out.json", "job.py:leaks")
    assert result.exit_code == 1, result.output
    found = json.loads(Path("out.json").read_text())["findings"][0]
    assert found["holder"]["text"] == "job.kept[*]"
    assert found["bytes_per_tick"] == pytest.approx(20_000, rel=0.1)


@pytest.mark.parametrize("cycles", [1, 5, 7])
def test_too_few_cycles_are_inconclusive_and_say_how_many_decide(soak: Soak, cycles: int) -> None:
    result = soak("--cycles", str(cycles), "--json", "out.json", "job.py:leaks")
    assert result.exit_code == 4, result.output
    report = json.loads(Path("out.json").read_text())
    assert report["verdict"] == "inconclusive"
    assert "at least 10" in report["why"]
    assert report["ticks"]["count"] == cycles


def test_as_many_cycles_as_it_asks_for_decide(soak: Soak) -> None:
    assert soak("--cycles", "9", "job.py:leaks").exit_code == 4
    assert soak("--cycles", "10", "job.py:leaks").exit_code == 1


def test_a_long_warmup_needs_more_cycles_and_says_how_many(soak: Soak) -> None:
    result = soak("--cycles", "20", "--warmup", "40", "--json", "out.json", "job.py:leaks")
    assert result.exit_code == 4
    needed = re.search(r"at least (\d+) would decide", json.loads(Path("out.json").read_text())["why"])
    assert needed is not None and int(needed[1]) > 43
    assert soak("--cycles", needed[1], "--warmup", "40", "job.py:leaks").exit_code == 1


@pytest.mark.parametrize(
    ("name", "seen"),
    [
        ("cycle", [0, 1, 2]),
        ("no_index", [None, None, None]),
        ("any_arguments", [(0,), (1,), (2,)]),
        ("later", [0, 1, 2]),
        ("Job", [1, 2, 3]),
        ("job", [1, 2, 3]),
        ("job.step", ["step"] * 3),
    ],
)
def test_forms_of_targets(soak: Soak, name: str, seen: list[Any]) -> None:
    result = soak("--cycles", "3", f"job.py:{name}")
    assert result.exit_code == 4, result.output
    assert module().seen == seen


def test_a_target_in_a_module_of_a_package(soak: Soak, tmp_path: Path) -> None:
    (tmp_path / "shop").mkdir()
    (tmp_path / "shop" / "__init__.py").write_text("")
    (tmp_path / "shop" / "train.py").write_text("calls = []\ndef cycle(i):\n    calls.append(i)\n")
    assert soak("--cycles", "3", "shop.train:cycle").exit_code == 4
    assert sys.modules["shop.train"].calls == [0, 1, 2]  # type: ignore[attr-defined]
    for name in ("shop", "shop.train"):
        del sys.modules[name]


def test_the_target_sees_its_own_arguments(soak: Soak, tmp_path: Path) -> None:
    (tmp_path / "words.py").write_text("import sys\nargv = list(sys.argv)\ndef cycle(): pass\n")
    assert soak("--cycles", "2", "words.py:cycle", "a", "b").exit_code == 4
    assert sys.modules["words"].argv == ["words.py", "a", "b"]  # type: ignore[attr-defined]


def test_setup_and_teardown_run_once(soak: Soak) -> None:
    soak("--cycles", "3", "--setup", "async_before", "--teardown", "after", "job.py:cycle")
    assert module().seen == ["async before", 0, 1, 2, "after"]


def test_a_target_that_raises_leaves_the_report_so_far_and_its_own_traceback(soak: Soak) -> None:
    result = soak("--cycles", "60", "--json", "out.json", "--teardown", "after", "job.py:raises_at_five")
    assert result.exit_code == 2
    report = json.loads(Path("out.json").read_text())
    assert report["ticks"]["count"] == 5
    assert report["verdict"] == "inconclusive"
    assert report["exit_status"] == 1
    said = result.output
    assert said.index("INCONCLUSIVE") < said.index("Traceback (most recent call last)")
    assert said.rstrip().endswith("ValueError: the fifth is bad")
    frames = [line for line in said.splitlines() if line.strip().startswith("File ")]
    assert [line.rpartition(" in ")[2] for line in frames] == ["raises_at_five", "inner"]
    assert module().seen == ["after"]


def test_a_target_that_raises_while_it_is_timed(soak: Soak) -> None:
    result = soak("--for", "1s", "--json", "out.json", "job.py:broken")
    assert result.exit_code == 2
    assert result.output.rstrip().endswith("LookupError: no such thing")
    assert "tenure/" not in result.output.partition("Traceback")[2]
    assert json.loads(Path("out.json").read_text())["program"] == ["job.py:broken"]


@pytest.mark.parametrize(("option", "count"), [("--setup", 0), ("--teardown", 9)])
def test_a_setup_that_raises_is_its_own_traceback(soak: Soak, option: str, count: int) -> None:
    result = soak("--cycles", "9", option, "broken", "--json", "out.json", "job.py:cycle")
    assert result.exit_code == 2
    assert result.output.rstrip().endswith("LookupError: no such thing")
    assert "tenure/" not in result.output.partition("Traceback")[2]
    assert json.loads(Path("out.json").read_text())["ticks"]["count"] == count


def test_a_class_that_can_not_be_made_is_its_own_traceback(soak: Soak) -> None:
    result = soak("--cycles", "9", "job.py:Unmakeable")
    assert result.exit_code == 2
    assert "OSError: no database" in result.output
    assert "tenure/cli" not in result.output


def test_sys_exit_in_the_target_is_said_with_the_report_so_far(soak: Soak) -> None:
    result = soak("--cycles", "60", "--json", "out.json", "job.py:exits")
    assert result.exit_code == 2
    assert json.loads(Path("out.json").read_text())["ticks"]["count"] == 12
    assert "Traceback" not in result.output
    assert "cycle 12" in result.output and "exit status 3" in result.output


@pytest.mark.parametrize(
    ("name", "last"), [("stops", "Stop: enough"), ("closes", "GeneratorExit"), ("cancelled", "CancelledError")]
)
def test_what_is_no_exception_ends_it_like_one(soak: Soak, name: str, last: str) -> None:
    result = soak("--cycles", "60", "--json", "out.json", "--teardown", "after", f"job.py:{name}")
    assert result.exit_code == 2
    assert json.loads(Path("out.json").read_text())["ticks"]["count"] == 12
    said = result.output
    assert said.index("INCONCLUSIVE") < said.index("Traceback (most recent call last)")
    assert said.rstrip().endswith(last)
    assert "tenure/" not in said.partition("Traceback")[2]
    assert module().seen == ["after"]


def test_a_class_and_a_module_that_end_by_what_is_no_exception(soak: Soak, tmp_path: Path) -> None:
    made = soak("--cycles", "9", "job.py:Stopping")
    (tmp_path / "script.py").write_text("raise GeneratorExit('now')\ndef f(): pass\n")
    imported = soak("script.py:f")
    for result, said in ((made, "Stop: no more"), (imported, "GeneratorExit: now")):
        assert result.exit_code == 2
        assert said in result.output
        assert "tenure/cli" not in result.output


def test_a_target_that_leaves_its_folder_has_its_report_where_it_was_asked_for(soak: Soak, tmp_path: Path) -> None:
    result = soak("--cycles", "40", "--json", "out.json", "--report", "out.html", "--record", "out.rec", "job.py:moves")
    assert result.exit_code == 1, result.output
    found = json.loads((tmp_path / "out.json").read_text())["findings"][0]
    assert (found["holder"]["text"], found["holder"]["file"]) == ("job.kept[*]", "job.py")
    assert (tmp_path / "out.html").stat().st_size > 0
    assert not (tmp_path / "out.rec-wal").exists()


def test_ctrl_c_gives_the_report_so_far(soak: Soak) -> None:
    result = soak("--cycles", "60", "--json", "out.json", "--teardown", "after", "job.py:interrupted")
    assert result.exit_code == 4, result.output
    report = json.loads(Path("out.json").read_text())
    assert report["ticks"]["count"] == 12
    assert "Traceback" not in result.output
    assert module().seen == ["after"]


def test_ctrl_c_before_the_first_cycle_is_no_leak(soak: Soak, tmp_path: Path) -> None:
    # click ends an interrupted command with status 1, which here means a leak
    (tmp_path / "script.py").write_text("raise KeyboardInterrupt\n")
    mistake(soak("script.py:f"), "Ctrl-C", "script.py")
    (tmp_path / "slow.py").write_text("def before():\n    raise KeyboardInterrupt\ndef f(): pass\n")
    mistake(soak("--setup", "before", "slow.py:f"), "Ctrl-C")


def test_a_module_that_ends_while_it_is_imported(soak: Soak, tmp_path: Path) -> None:
    (tmp_path / "script.py").write_text("import sys\nsys.exit(5)\n")
    mistake(soak("script.py:f"), "script.py", "5", "__main__")


def test_a_module_whose_import_fails_shows_its_own_frames_only(soak: Soak, tmp_path: Path) -> None:
    (tmp_path / "script.py").write_text("def f():\n    return {}['x']\n\nf()\n")
    result = soak("script.py:f")
    assert result.exit_code == 2
    assert "KeyError: 'x'" in result.output
    frames = [line for line in result.output.splitlines() if line.strip().startswith("File ")]
    assert [os.path.basename(line.split('"')[1]) for line in frames] == ["script.py", "script.py"]


def test_json_to_standard_output_is_json_alone(soak: Soak) -> None:
    result = soak("--cycles", "9", "--json", "-", "job.py:no_index")
    text = getattr(result, "stdout", result.output)
    assert json.loads(text[: text.rindex("}") + 1])["schema"] == "tenure/report/1"


@pytest.mark.parametrize("definition", ["def cycle(i):\n    yield i\n", "async def cycle(i):\n    yield i\n"])
def test_a_generator_is_no_target(soak: Soak, tmp_path: Path, definition: str) -> None:
    (tmp_path / "gen.py").write_text(definition)
    mistake(soak("gen.py:cycle"), "gen.py:cycle", "generator function")
