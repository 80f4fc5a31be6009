"""Files of the program's that are named like what tenure imports, and what is imported before the program begins."""

from __future__ import annotations

from pathlib import Path

import pytest
from run_fakes import python, run, start_watched, tenure

pytestmark = pytest.mark.slow

NAMES = ("statistics", "resource", "pickle", "platform", "tempfile", "textwrap", "html", "decimal", "psutil", "click")
LOOP = "import time\nheld = []\ndef cycle(i):\n    held.append(bytearray(20_000))\n    time.sleep(0.005)\n"


@pytest.fixture()
def folder(tmp_path: Path) -> Path:
    for name in NAMES:
        (tmp_path / f"{name}.py").write_text(f"mine = {name!r}\n")
    (tmp_path / "train.py").write_text(f"import {', '.join(NAMES)}\nprint([{', '.join(f'{n}.mine' for n in NAMES)}])\n")
    return tmp_path


@pytest.mark.parametrize("words", [["train.py"], ["-m", "train"]])
def test_a_file_named_like_a_standard_module_is_the_programs_and_not_ours(words: list[str], folder: Path) -> None:
    watched = run(["--json", "out.json", "--report", "out.html", *words], folder)
    assert watched.stdout == python(words, folder).stdout == f"{list(NAMES)!r}\n", watched.stderr
    assert watched.stderr.startswith("tenure  FLAT"), watched.stderr
    assert (folder / "out.json").exists()
    assert (folder / "out.html").exists()


def test_the_same_under_the_variable(folder: Path) -> None:
    (folder / "train.py").write_text((folder / "train.py").read_text() + LOOP + "for i in range(60):\n    cycle(i)\n")
    done = start_watched(["train.py"], folder)
    assert done.stdout == f"{list(NAMES)!r}\n", done.stderr
    assert done.stderr.startswith("tenure  FLAT"), done.stderr


def test_the_heap_is_read_beside_such_files(folder: Path) -> None:
    (folder / "train.py").write_text((folder / "train.py").read_text() + LOOP + "for i in range(150):\n    cycle(i)\n")
    done = tenure(["run", "train.py"], folder)
    assert done.stdout == f"{list(NAMES)!r}\n", done.stderr
    assert done.stderr.startswith("tenure  LEAK"), done.stderr
    assert "held   train.held[*]" in done.stderr
    assert tenure(["explain", "TEN201"], folder).returncode == 0


def test_numpy_is_imported_by_the_program_not_before_it(tmp_path: Path) -> None:
    (tmp_path / "train.py").write_text("import sys\nprint('numpy' in sys.modules)\n")
    assert tenure(["run", "train.py"], tmp_path).stdout == "False\n"
