"""A program under `tenure run` sees what it sees under plain Python, and ends as it ends there."""

from __future__ import annotations

import json
import sys
import zipfile
from pathlib import Path

import pytest
from run_fakes import python, run

pytestmark = pytest.mark.slow

SEEN = """
import sys, json
m = sys.modules["__main__"]
def f(): pass
print(json.dumps({
    "argv": sys.argv, "path": sys.path[0], "name": __name__, "file": __file__, "package": __package__,
    "spec": None if __spec__ is None else __spec__.name, "loader": type(__loader__).__name__,
    "main": m.f is f, "code": f.__code__.co_filename, "module": f.__module__, "click": "click" in sys.modules,
    "threads": __import__("threading").active_count(), "excepthook": sys.excepthook is sys.__excepthook__,
}))
"""


@pytest.fixture()
def folder(tmp_path: Path) -> Path:
    (tmp_path / "train.py").write_text(SEEN)
    (tmp_path / "pack").mkdir()
    (tmp_path / "pack" / "__init__.py").write_text("")
    (tmp_path / "pack" / "__main__.py").write_text(SEEN)
    (tmp_path / "pack" / "part.py").write_text(SEEN)
    with zipfile.ZipFile(tmp_path / "app.zip", "w") as archive:
        archive.writestr("__main__.py", SEEN)
    return tmp_path


@pytest.mark.parametrize(
    "words",
    [
        ["train.py"],
        ["./train.py", "--json", "x", "-m", "y", "--", "--help"],
        ["-m", "pack", "--tick", "z"],
        ["-m", "pack.part", "1"],
        ["pack", "a"],
        ["app.zip", "b"],
    ],
)
def test_the_program_sees_the_same(words: list[str], folder: Path) -> None:
    watched, plain = run(words, folder), python(words, folder)
    assert watched.returncode == plain.returncode == 0, watched.stderr
    assert json.loads(watched.stdout) == json.loads(plain.stdout)
    assert "tenure" in watched.stderr


@pytest.mark.parametrize(
    "body",
    [
        "import sys; sys.exit()",
        "import sys; sys.exit(3)",
        "raise SystemExit(258)",
        "import sys; print('out'); sys.exit('a reason')",
        "def f():\n    raise ValueError('no')\nf()",
        "import json; json.loads('{')",
        "try:\n    1 / 0\nexcept ZeroDivisionError as e:\n    raise RuntimeError('then') from e",
        "import sys\nsys.excepthook = lambda *a: print('mine', a[0].__name__)\n1 / 0",
        "import atexit\natexit.register(print, 'first')\natexit.register(print, 'second')\nprint('body')",
        "import threading, time\nthreading.Thread(target=lambda: (time.sleep(0.2), print('late'))).start()",
        "import atexit\natexit.register(lambda: 1 / 0)",
        "x: int = 1\nprint(__annotations__ if '__annotations__' in globals() else None)",
        "print(__annotations__)",
        "def deep(n): return 0 if n == 0 else 1 + deep(n - 1)\nprint(deep(990))",
        "import os, sys\npid = os.fork()\nif pid == 0:\n    sys.exit(7)\n"
        "print(os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]))",
        "import multiprocessing as m\ndef f(x): return x * 2\nif __name__ == '__main__':\n"
        "    for way in ('fork', 'spawn'):\n        with m.get_context(way).Pool(2) as p: print(p.map(f, [1, 2]))",
        "import os\nos._exit(5)",
        "import pickle\ndef f(): pass\nassert pickle.loads(pickle.dumps(f)) is f",
        "import asyncio\nasync def a(): return 4\nprint(asyncio.run(a()))",
        "import sys\nprint(sys.stdin.read())",
        "import warnings\nwarnings.warn('careful')",
    ],
)
def test_the_program_ends_the_same(body: str, tmp_path: Path) -> None:
    (tmp_path / "train.py").write_text(body)
    watched, plain = run(["train.py"], tmp_path), python(["train.py"], tmp_path)
    assert watched.returncode == plain.returncode
    assert watched.stdout == plain.stdout
    assert watched.stderr.count("note: The program did not import TensorFlow") == 1
    before, _, _ = watched.stderr.partition("tenure  FLAT")
    # the address of a lambda differs from run to run
    assert before.strip().split(" at 0x")[0] == plain.stderr.strip().split(" at 0x")[0]
    assert "/tenure/" not in watched.stderr


def test_the_report_comes_after_the_programs_atexit_handlers(tmp_path: Path) -> None:
    (tmp_path / "train.py").write_text("import atexit, sys\natexit.register(lambda: print('mine', file=sys.stderr))\n")
    done = run(["train.py"], tmp_path)
    assert done.stderr.index("mine") < done.stderr.index("tenure  FLAT")


def test_a_file_beside_the_script_is_found_before_our_libraries(tmp_path: Path) -> None:
    for name in ("click", "rich"):
        (tmp_path / f"{name}.py").write_text("mine = True\n")
    (tmp_path / "train.py").write_text("import click, rich\nprint(click.mine, rich.mine)\n")
    done = run(["train.py"], tmp_path)
    assert done.stdout == "True True\n"
    assert "tenure  FLAT" in done.stderr


def test_a_syntax_error_is_one_sentence_with_its_line(tmp_path: Path) -> None:
    (tmp_path / "train.py").write_text("x = 1\ny = (\n")
    done = run(["train.py"], tmp_path)
    assert done.returncode == 2
    assert done.stderr.startswith("tenure run: train.py has a syntax error on line 2, '(' was never closed")
    assert "Traceback" not in done.stderr


def test_tensorflow_that_is_not_there_is_one_sentence(tmp_path: Path) -> None:
    program = "import sys\nsys.modules.pop('tensorflow', None)\n"
    program += "raise ModuleNotFoundError(\"No module named 'tensorflow'\", name='tensorflow')\n"
    (tmp_path / "train.py").write_text(program)
    done = run(["train.py"], tmp_path)
    assert done.returncode == 2
    first = done.stderr.splitlines()[0]
    assert "train.py:3 imports tensorflow, which is not installed" in first
    assert "Traceback" not in done.stderr


def test_os_fork_raises_no_warning_for_our_thread(tmp_path: Path) -> None:
    (tmp_path / "train.py").write_text(
        "import os, time, warnings\nwarnings.simplefilter('error')\ntime.sleep(0.1)\nfor _ in range(3):\n"
        "    pid = os.fork()\n    if not pid:\n        os._exit(0)\n    os.waitpid(pid, 0)\n    time.sleep(0.02)\n"
        "print('fine')\n"
    )
    done = run(["train.py"], tmp_path)
    assert done.stdout == "fine\n", done.stderr
    assert sys.version_info >= (3, 10)
