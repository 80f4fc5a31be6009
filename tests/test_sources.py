"""Reading the user's source: which lines store into a name, and no error whatever the file is like."""

from __future__ import annotations

import os
import sys
import sysconfig
from pathlib import Path
from textwrap import dedent

import pytest

from tenure.observe import sources
from tenure.observe.sources import ANY, function_at, line_text, storing_lines, user_file


def write(folder: Path, text: str, name: str = "case.py") -> str:
    path = folder / name
    path.write_text(dedent(text).lstrip())
    return str(path)


@pytest.mark.parametrize(
    "store",
    [
        "log.append(x)",
        "log.extend([x])",
        "log.insert(0, x)",
        "log.appendleft(x)",
        "log[n] = x",
        "log += [x]",
        "log.setdefault(n, x)",
        "log.update(n=x)",
        "log.put(x)",
        "log = tf.concat([log, x], 0)",
        "heapq.heappush(log, x)",
        "globals()['log'].append(x)",
    ],
)
def test_each_way_to_store_into_a_global(tmp_path: Path, store: str) -> None:
    file = write(tmp_path, f"log = make()\ndef step(n, x):\n    global log\n    {store}\n")

    lines = [site.line for site in storing_lines(file, "log", keys=(ANY,))]

    assert lines == [4, 1]


@pytest.mark.parametrize(
    "store",
    [
        "self.log.append(x)",
        "self.log[n] = x",
        "setattr(self, 'log', [*self.log, x])",
        "vars(self)['log'].append(x)",
        "log = self.log; log.append(x)",
        "getattr(self, 'log').append(x)",
        "self.log: list = self.log + [x]",
        "n, self.log = n, self.log + [x]",
    ],
)
def test_each_way_to_store_into_an_attribute(tmp_path: Path, store: str) -> None:
    text = f"class Log:\n    def __init__(self):\n        self.log = []\n    def step(self, n, x):\n        {store}\n"
    file = write(tmp_path, text)

    lines = [s.line for s in storing_lines(file, "log", keys=(ANY,), attribute=True, owners=("Log",))]

    assert lines == [5, 3]


def test_the_key_decides_between_two_lines(tmp_path: Path) -> None:
    file = write(tmp_path, "def f(h):\n    pass\nh = {}\nh['a'].append(1)\nh['b'].append(2)\n")

    assert [s.line for s in storing_lines(file, "h", keys=("b", ANY))] == [5, 3]


def test_a_nonlocal_is_found_in_the_function_that_binds_it(tmp_path: Path) -> None:
    file = write(
        tmp_path,
        """
        def outer():
            total = 0
            def inner(x):
                nonlocal total
                total = total + x
            return inner
        """,
    )

    assert [s.line for s in storing_lines(file, "total", scope="outer")] == [5, 2]
    assert storing_lines(file, "total", scope="outer.<locals>.inner") == []


def test_taking_out_is_not_storing(tmp_path: Path) -> None:
    file = write(tmp_path, "q = []\ndef f():\n    q.pop()\n    q.clear()\n    del q[0]\n    return q[0]\n")

    assert [s.line for s in storing_lines(file, "q", keys=(ANY,))] == [1]


def test_function_at_gives_the_innermost_qualified_name(tmp_path: Path) -> None:
    file = write(
        tmp_path,
        "class A:\n    @staticmethod\n    def f():\n        def g():\n            return 1\n        return g\n",
    )

    assert [function_at(file, line) for line in (1, 2, 3, 5, 6)] == [None, "A.f", "A.f", "A.f.<locals>.g", "A.f"]


@pytest.mark.parametrize("content", [b"", b"def (:\n", b"\xff\xfe\x00 not text", b"x = '\x00'\n", b"\n" * 10])
def test_a_file_that_is_no_program_gives_nothing(tmp_path: Path, content: bytes) -> None:
    path = tmp_path / "odd.py"
    path.write_bytes(content)

    assert storing_lines(str(path), "x") == []
    assert function_at(str(path), 1) is None


def test_a_missing_file_gives_nothing() -> None:
    assert line_text("/no/such/file.py", 3) == ""
    assert storing_lines("/no/such/file.py", "x") == []


def test_another_encoding_is_read(tmp_path: Path) -> None:
    path = tmp_path / "latin.py"
    path.write_bytes("# -*- coding: latin-1 -*-\ngrößen = []\ngrößen.append(1)\n".encode("latin-1"))

    assert [s.line for s in storing_lines(str(path), "größen", keys=(ANY,))] == [3, 2]
    assert line_text(str(path), 2) == "größen = []"


def test_a_changed_file_is_read_again_and_a_deleted_one_remembered(tmp_path: Path) -> None:
    file = write(tmp_path, "x = []\n")
    assert [s.line for s in storing_lines(file, "x")] == [1]
    Path(file).write_text("\n\nx = []  # moved\n")
    assert [s.line for s in storing_lines(file, "x")] == [3]
    os.unlink(file)
    assert [s.line for s in storing_lines(file, "x")] == [3]


def test_the_cache_of_parsed_files_has_an_end(tmp_path: Path) -> None:
    for n in range(sources._FILES + 10):
        storing_lines(write(tmp_path, f"x = {n}\n", f"case_{n}.py"), "x")

    assert len(sources._parsed) <= sources._FILES


def test_whose_file_it_is(tmp_path: Path) -> None:
    assert user_file(str(tmp_path / "case.py"))
    assert user_file("<stdin>")
    assert user_file("<ipython-input-3-abc>")
    assert not user_file("<string>")
    assert not user_file("<frozen importlib._bootstrap>")
    assert not user_file(str(tmp_path / "__autograph_generated_fileq8x.py"))
    assert not user_file(os.path.join(sysconfig.get_path("stdlib"), "json", "decoder.py"))
    assert not user_file(os.path.join(sysconfig.get_path("purelib"), "keras", "src", "a.py"))
    assert not user_file(sources.__file__)
    assert sources.user_module("__main__", sys.modules[__name__])
    assert not sources.user_module("json", sys.modules["json"]) if "json" in sys.modules else True
