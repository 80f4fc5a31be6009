"""The line that makes native memory grow: read at each line of the user's, told apart from what comes and goes."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator
from pathlib import Path
from textwrap import dedent

import pytest

from tenure.explain.diagnosis import diagnose
from tenure.explain.evidence import Evidence, Native, OpSite
from tenure.observe.native_lines import NativeLines
from tenure.probes import ProbeError
from tenure.records import Birth, GrowingLine, Ticks

HEAP = {"used": 0}


@pytest.fixture(autouse=True)
def untraced() -> Iterator[None]:
    before = sys.gettrace()
    sys.settrace(None)
    HEAP["used"] = 0
    yield
    sys.settrace(before)


def take(size: int) -> int:
    HEAP["used"] += size
    return size


def give(size: int) -> None:
    HEAP["used"] -= size


def turn() -> None:
    held = take(500)
    take(100)
    give(held)


def watched(turns: int, body: Callable[[], object]) -> dict[str, float]:
    """Bytes a turn by the text of the line."""
    lines = NativeLines(lambda: HEAP["used"])
    lines.start()
    for _ in range(turns):
        body()
        lines.turn()
        lines.go_on()
    return {line.birth.text if line.birth else "": line.bytes_per_tick for line in lines.stop()}


def test_each_line_has_what_it_took_and_gave() -> None:
    told = watched(4, turn)
    # The callers' lines are as true as the callee's: what counts is the innermost.
    assert told['HEAP["used"] += size'] == 600
    assert told['HEAP["used"] -= size'] == -500
    assert sum(told.values()) == 100


def test_what_a_line_of_a_library_takes_is_the_users_line_that_called_it() -> None:
    values = [30, 30]

    def body() -> None:
        sum(map(HEAP.__setitem__.__self__.get, ()), 0)
        HEAP.update(used=HEAP["used"] + values[0])

    told = watched(3, body)
    assert told == {'HEAP.update(used=HEAP["used"] + values[0])': 30}


def test_what_happens_between_turns_is_nobodys() -> None:
    lines = NativeLines(lambda: HEAP["used"])
    lines.start()
    for _ in range(3):
        turn()
        lines.turn()
        take(7000)
        lines.go_on()
    assert sum(line.bytes_per_tick for line in lines.stop()) == 100


def test_no_frame_keeps_a_trace_function_and_none_is_left() -> None:
    watched(2, turn)
    assert sys.gettrace() is None
    assert sys._getframe().f_trace is None


def test_a_program_keeps_its_own_trace_function() -> None:
    def tracer(*_: object) -> None:
        return None

    sys.settrace(tracer)
    with pytest.raises(ProbeError, match="trace function of its own"):
        NativeLines(lambda: HEAP["used"]).start()
    assert sys.gettrace() is tracer


def test_a_trace_function_that_the_program_sets_meanwhile_stays() -> None:
    def tracer(*_: object) -> None:
        return None

    lines = NativeLines(lambda: HEAP["used"])
    lines.start()
    sys.settrace(tracer)
    lines.stop()
    assert sys.gettrace() is tracer


def test_a_turn_of_too_many_lines_ends_the_watching(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("tenure.observe.native_lines._MOST_SECONDS", 0.0)
    lines = NativeLines(lambda: HEAP["used"])
    lines.start()
    turn()
    lines.turn()
    assert sys.gettrace() is None
    assert lines.gave_up is not None and "lines" in lines.gave_up
    assert lines.stop() == ()


def test_exceptions_and_generators_leave_the_right_caller() -> None:
    def failing() -> None:
        take(10)
        raise ValueError

    def giving() -> Iterator[int]:
        yield take(1)
        yield take(2)

    def body() -> None:
        try:
            failing()
        except ValueError:
            HEAP.update(used=HEAP["used"] + 1000)
        for _ in giving():
            HEAP.update(used=HEAP["used"] + 20)

    told = watched(2, body)
    assert told['HEAP.update(used=HEAP["used"] + 1000)'] == 1000
    assert told['HEAP.update(used=HEAP["used"] + 20)'] == 40
    assert told['HEAP["used"] += size'] == 13


def test_other_threads_are_not_traced() -> None:
    seen: list[object] = []
    lines = NativeLines(lambda: HEAP["used"])
    lines.start()
    thread = threading.Thread(target=lambda: seen.append(sys.gettrace()))
    thread.start()
    thread.join()
    lines.stop()
    assert seen == [None]


# ---------------------------------------------------------------------------------------------- the verdict's line


def grown(line: int, size: float) -> GrowingLine:
    return GrowingLine(Birth("p.py", line, "f", f"line {line}"), size)


def evidence(*lines: GrowingLine, ops: tuple[OpSite, ...] = ()) -> Evidence:
    native = Native(34_000.0, 33_000.0, 35_000.0, stands=True, steady=True, slowing=False)
    return Evidence(Ticks("tick", "p.cycle", 60, 8), native=native, differential=True, lines=lines, ops=ops)


def line_told(of: Evidence) -> int | None:
    (finding,) = diagnose(of, 6).findings
    return finding.birth.line if finding.birth else None


def test_the_line_that_grew_by_what_all_did_is_the_one() -> None:
    told = evidence(grown(3, 40_000), grown(5, 34_000), grown(7, 8_000), GrowingLine(None, -48_000))
    assert line_told(told) == 5


def test_two_lines_that_may_be_meant_are_told_as_such() -> None:
    told = evidence(grown(3, 34_000), grown(5, 34_100), GrowingLine(None, -34_000))
    (finding,) = diagnose(told, 6).findings
    assert finding.birth is None
    assert "native code" not in finding.remedy
    assert any("p.py:3" in text for text in finding.evidence) and any("p.py:5" in text for text in finding.evidence)


def test_a_measured_line_is_better_than_one_of_new_kernels() -> None:
    ops = (OpSite(Birth("p.py", 99, "f", "other"), "Add", 1.0, 1.0),)
    assert line_told(evidence(grown(5, 34_000), ops=ops)) == 5
    assert line_told(evidence(ops=ops)) == 99


# ---------------------------------------------------------------------------------------------- whole programs

PROGRAMS = {
    "queue": (
        """
        import tensorflow as tf
        inbox = tf.queue.FIFOQueue(10_000_000, [tf.float32], shapes=[[1000]])

        def other():
            return tf.reduce_sum(tf.ones([1000]) * 2.0)

        def cycle(i):
            other()
            for _ in range(8):
                inbox.enqueue(tf.random.uniform([1000]))  # here
            other()
        """
    ),
    "table": (
        """
        import tensorflow as tf

        class Index:
            def __init__(self):
                self.rows = tf.lookup.experimental.MutableHashTable(tf.int64, tf.float32, [0.0] * 64)

            def learn(self, keys):
                values = tf.random.uniform([100, 64])
                self.rows.insert(keys, values)  # here
                return self.rows.lookup(keys)

        index = Index()

        def cycle(i):
            return index.learn(tf.range(i * 100, (i + 1) * 100, dtype=tf.int64))
        """
    ),
    "malloc": (
        """
        import ctypes
        import numpy as np

        libc = ctypes.CDLL(None)
        libc.malloc.restype = ctypes.c_void_p

        def cycle(i):
            a = np.ones(5000)
            ctypes.memset(libc.malloc(30000), 1, 30000)  # here
            return a.sum()
        """
    ),
}
AS_SCRIPT = """
import sys, time
for i in range(int(sys.argv[1])):
    cycle(i)
"""


@pytest.mark.slow
@pytest.mark.parametrize("mode", ["soak", "run"])
@pytest.mark.parametrize("name", PROGRAMS)
def test_native_growth_has_its_line(name: str, mode: str, tmp_path: Path) -> None:
    if mode == "run" and name == "malloc":
        pytest.skip("200 ticks without TensorFlow are over before anything is read")
    text = dedent(PROGRAMS[name]) + "\nif __name__ == '__main__':" + AS_SCRIPT.replace("\n", "\n    ")
    program, told = tmp_path / "program.py", tmp_path / "told.json"
    program.write_text(text)
    end = ["--cycles", "60", f"{program}:cycle"] if mode == "soak" else [str(program), "200"]
    command = [sys.executable, "-m", "tenure", mode, "--json", str(told), *end]
    done = subprocess.run(command, capture_output=True, text=True, timeout=240, env={**os.environ})
    report = json.loads(told.read_text())
    (finding,) = report["findings"]
    here = next(number for number, line in enumerate(text.splitlines(), 1) if line.endswith("# here"))
    assert report["verdict"] == "leak", done.stderr
    assert finding["cause"] == "unattributed-growth"
    assert finding["birth"]["line"] == here
    assert f"program.py:{here} gives to native code" in finding["remedy"]
