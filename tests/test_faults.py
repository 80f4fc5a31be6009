"""A probe that fails costs its own figure: no exception, no verdict made of it, and the report says what is missing."""

from __future__ import annotations

import os
import sqlite3
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from tenure.explain import running
from tenure.explain.aside import Aside
from tenure.explain.running import RunWatching
from tenure.explain.schedule import plan
from tenure.explain.soak import SoakWatching
from tenure.explain.watching import Watching
from tenure.observe import recording
from tenure.observe.births import Births, noting
from tenure.observe.memory import Counters
from tenure.probes import ProbeError, heap, process, read
from tenure.records import Report, Sample

pytestmark = pytest.mark.slow

SOURCE = Path(__file__).parents[1] / "src"
CYCLES = 40
kept: list[Any] = []


def broken(*args: object, **kwargs: object) -> Any:
    raise RuntimeError("broken on purpose")


def no_fork() -> int:
    raise OSError(12, "Cannot allocate memory")


@pytest.fixture(autouse=True)
def nothing_left() -> Iterator[None]:
    yield
    kept.clear()
    assert noting() is None


def grow() -> None:
    kept.append(bytearray(20_000))


def soaked(turn: Callable[[], None], record: Path | None = None) -> Report:
    return watched(SoakWatching(("fake",), plan(CYCLES), record, 4096.0, None), turn)


def ran(turn: Callable[[], None], record: Path | None = None) -> Report:
    return watched(RunWatching(("fake",), record), turn, pause=0.002)


def watched(watching: Watching, turn: Callable[[], None], pause: float = 0.0, cycles: int = CYCLES) -> Report:
    watching.start()
    watching.set_ticks("tick", "fake")
    for _ in range(cycles):
        turn()
        time.sleep(pause)
        watching.tick()
    return watching.finish(0)


def figures(report: Report) -> dict[str, str]:
    return {missing.figure: missing.why for missing in report.missing}


WAYS = pytest.mark.parametrize("way", [soaked, ran])


# -- counters ----------------------------------------------------------------------------------------------------------


@WAYS
@pytest.mark.parametrize(
    ("probe", "figure", "field"),
    [
        ("rss", "resident memory", "rss"),
        ("mallinfo", "malloc in use", "malloc_used"),
        ("python_blocks", "Python's blocks", "python_blocks"),
    ],
)
def test_a_counter_that_fails_is_missing_and_flat_stays_flat(
    monkeypatch: pytest.MonkeyPatch, way: Callable[..., Report], probe: str, figure: str, field: str
) -> None:
    monkeypatch.setattr(process, probe, broken)
    report = way(lambda: None)
    assert report.verdict == "flat", report.why
    assert figures(report) == {figure: "RuntimeError: broken on purpose"}
    assert all(getattr(sample, field) is None for sample in report.samples)


@WAYS
def test_all_counters_fail_and_a_leak_of_objects_is_still_found(
    monkeypatch: pytest.MonkeyPatch, way: Callable[..., Report]
) -> None:
    for probe in ("rss", "mallinfo", "python_blocks", "rss_by_mapping", "memory_limit"):
        monkeypatch.setattr(process, probe, broken)
    report = way(grow)
    assert report.verdict == "leak"
    assert report.findings[0].bytes_per_tick == pytest.approx(20_000, rel=0.1)
    assert set(figures(report)) == {
        "resident memory",
        "malloc in use",
        "Python's blocks",
        "resident memory by mapping",
        "memory limit",
    }
    assert report.growth is not None and report.growth.seconds_to_limit is None
    assert {layer.bytes for layer in report.waterfall_end if layer.name in ("RSS", "mapped files")} == {None}


def test_a_counter_that_comes_back_does_not_look_like_growth(monkeypatch: pytest.MonkeyPatch) -> None:
    real, calls = process.mallinfo, [0]

    def sometimes() -> process.Malloc:
        calls[0] += 1
        if calls[0] % 3:
            raise ProbeError("not now")
        return real()

    monkeypatch.setattr(process, "mallinfo", sometimes)
    assert soaked(lambda: None).verdict == "flat"


# -- the heap ----------------------------------------------------------------------------------------------------------


@WAYS
@pytest.mark.parametrize("turn", [grow, lambda: None])
def test_a_heap_that_can_not_be_walked_decides_nothing(
    monkeypatch: pytest.MonkeyPatch, way: Callable[..., Report], turn: Callable[[], None]
) -> None:
    monkeypatch.setattr(heap, "walk", broken)
    report = way(turn)
    assert report.verdict == "inconclusive"
    assert "the heap could not be read" in report.why and "broken on purpose" in report.why
    assert "broken on purpose" in figures(report)["the heap"]
    assert report.findings == ()


def test_without_a_fork_the_heap_is_read_in_the_process(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(heap, "fork", no_fork)
    before = len(os.listdir("/proc/self/fd"))
    report = ran(grow)
    assert report.verdict == "leak"
    assert report.findings[0].holder is not None
    assert len(os.listdir("/proc/self/fd")) == before


def test_a_thread_that_can_not_start_leaves_no_child_and_no_descriptor(monkeypatch: pytest.MonkeyPatch) -> None:
    import threading

    monkeypatch.setattr(threading.Thread, "start", broken)
    before = len(os.listdir("/proc/self/fd"))
    with pytest.raises(OSError, match="no thread"):
        Aside(lambda: 1)
    assert len(os.listdir("/proc/self/fd")) == before
    with pytest.raises(ChildProcessError):
        os.waitpid(-1, os.WNOHANG)


def test_a_child_that_dies_is_not_asked_again_at_each_tick(monkeypatch: pytest.MonkeyPatch) -> None:
    parent, forks = os.getpid(), [0]
    real = heap.fork

    def fork() -> int:
        forks[0] += 1
        return real()

    def walk(*args: object, **kwargs: object) -> Any:
        assert os.getpid() != parent
        os._exit(9)

    monkeypatch.setattr(heap, "fork", fork)
    monkeypatch.setattr(heap, "walk", walk)
    report = ran(grow)
    assert report.verdict == "inconclusive"
    assert "died without an answer" in figures(report)["the heap"]
    assert 1 <= forks[0] <= 12  # of 40 ticks or more


def test_a_child_that_hangs_costs_seconds_and_does_not_outlive_the_report(monkeypatch: pytest.MonkeyPatch) -> None:
    parent, children = os.getpid(), []
    real = heap.fork

    def fork() -> int:
        child = real()
        children.append(child)
        return child

    def walk(*args: object, **kwargs: object) -> Any:
        assert os.getpid() != parent
        time.sleep(600)

    monkeypatch.setattr(heap, "fork", fork)
    monkeypatch.setattr(heap, "walk", walk)
    monkeypatch.setattr(running, "_LAST_WAIT", 1.0)
    monkeypatch.setattr(running, "_PATIENCE", 1.0)
    began = time.monotonic()
    report = ran(grow)
    assert time.monotonic() - began < 10
    assert report.verdict == "inconclusive"
    assert "not answered" in figures(report)["the heap"]
    deadline = time.monotonic() + 5
    while any(alive(child) for child in children) and time.monotonic() < deadline:
        time.sleep(0.02)
    assert not any(alive(child) for child in children)


def alive(pid: int) -> bool:
    return os.path.exists(f"/proc/{pid}")


def test_asides_answer_failure_death_and_patience() -> None:
    assert Aside(lambda: 7).result(10) == 7
    with pytest.raises(ProbeError, match="RuntimeError: broken on purpose"):
        Aside(broken).result(10)
    with pytest.raises(ProbeError, match="died without an answer"):
        Aside(lambda: os._exit(1)).result(10)
    with pytest.raises(ProbeError, match="failed"):
        Aside(lambda: lambda: None).result(10)  # no pickle of a lambda
    slow = Aside(lambda: time.sleep(600))
    with pytest.raises(ProbeError, match="not answered yet"):
        slow.result(0.05)
    slow.end()
    with pytest.raises(ProbeError, match="died without an answer"):
        slow.result(10)
    slow.end()  # a second time does nothing


# -- births, names -----------------------------------------------------------------------------------------------------


@WAYS
def test_births_that_can_not_start(monkeypatch: pytest.MonkeyPatch, way: Callable[..., Report]) -> None:
    monkeypatch.setattr(Births, "start", broken)
    report = way(grow)
    assert report.verdict == "leak"
    assert "broken on purpose" in figures(report)["where things are made"]


@WAYS
def test_a_birth_that_can_not_be_asked_for_costs_the_line_only(
    monkeypatch: pytest.MonkeyPatch, way: Callable[..., Report]
) -> None:
    monkeypatch.setattr(Births, "site_of", broken)
    report = way(grow)
    assert report.verdict == "leak"
    assert report.findings[0].birth is None
    assert report.findings[0].holder is not None
    assert report.findings[0].bytes_per_tick == pytest.approx(20_000, rel=0.1)
    assert "broken on purpose" in figures(report)["where things are made"]


@WAYS
def test_witnesses_that_fail_cost_no_finding(monkeypatch: pytest.MonkeyPatch, way: Callable[..., Report]) -> None:
    monkeypatch.setattr(Births, "new_keys", broken)
    report = way(grow)
    assert report.verdict == "leak"
    assert report.findings[0].holder is not None
    assert "broken on purpose" in figures(report)["tapes, datasets and graphs"]


@WAYS
def test_a_mark_that_fails_costs_no_reading(monkeypatch: pytest.MonkeyPatch, way: Callable[..., Report]) -> None:
    monkeypatch.setattr(Births, "mark", broken)
    report = way(grow)
    assert report.verdict == "leak"
    assert "broken on purpose" in figures(report)["where things are made"]


# -- the recording -----------------------------------------------------------------------------------------------------


@WAYS
def test_a_disk_that_fills_up_is_said_and_nothing_else(
    monkeypatch: pytest.MonkeyPatch, way: Callable[..., Report], tmp_path: Path
) -> None:
    def full(self: object, *args: object) -> None:
        raise sqlite3.OperationalError("database or disk is full")

    for name in ("add_sample", "set_report", "set_ticks"):
        monkeypatch.setattr(recording.Recorder, name, full)
    report = way(grow, tmp_path / "r.tenure")
    assert report.verdict == "leak"
    assert "disk is full" in figures(report)["recording"]


def test_a_recording_never_takes_the_place_of_a_device(tmp_path: Path) -> None:
    # a pipe stands for /dev/null, which a superuser's `--record /dev/null` once turned into a plain file
    os.mkfifo(tmp_path / "pipe")
    with pytest.raises(recording.RecordingError, match="device or a pipe"):
        RunWatching(("fake",), tmp_path / "pipe").start()
    assert (tmp_path / "pipe").is_fifo()


# -- the sampler itself ------------------------------------------------------------------------------------------------


@WAYS
def test_a_sample_that_fails_is_named(monkeypatch: pytest.MonkeyPatch, way: Callable[..., Report]) -> None:
    def no_sample(self: Counters, tick: int, blocks_too: bool = True) -> Sample:
        raise RuntimeError("broken on purpose")

    monkeypatch.setattr(Counters, "sample", no_sample)
    report = way(lambda: None)
    assert report.verdict != "leak"
    assert any("broken on purpose" in why for why in figures(report).values())


def test_an_unknown_error_of_a_probe_becomes_a_missing_figure() -> None:
    assert read(broken, "the figure")[1] is not None
    value, missing = read(lambda: 3)
    assert (value, missing) == (3, None)


# -- TensorFlow's probes, several faults in one process ----------------------------------------------------------------

TENSORFLOW = """
import json, sys, time
import tensorflow as tf
from tenure.explain.running import RunWatching
from tenure.explain.schedule import plan
from tenure.explain.soak import SoakWatching
from tenure.probes.tf import allocator, callbacks, functions, handles, hooks, registries
import tenure.probes.tf.hooks

def broken(*args, **kwargs):
    raise RuntimeError("broken on purpose")

kept = []
state = tf.Variable(tf.zeros([64]))

@tf.function
def step(x):
    state.assign(0.9 * state + x)
    return tf.reduce_sum(state)

def flat(i):
    step(tf.ones([64]))

def leak(i):
    kept.append(tf.random.normal([4096]))

def watch(watching, turn):
    watching.start()
    watching.set_ticks("tick", "turn")
    for i in range(30):
        turn(i)
        time.sleep(0.002)
        watching.tick()
    return watching.finish(0)

FAULTS = [
    ("TensorFlow's CPU pool", allocator, "memory"),
    ("gradient registry", registries, "size"),
    ("Python-function list", registries, "py_function_count"),
    ("TensorFlow's registries", registries, "registry_objects"),
    ("", registries, "entries"),
    ("TensorFlow's types", handles, "tensor_types"),
    ("", functions, "traces"),
    ("where things are made", hooks, "install"),
    ("the lines of ops", callbacks.OpWatch, "start"),
]
told = []
for figure, owner, name in [*FAULTS, ("all", None, "")]:
    places = [(o, n) for f, o, n in FAULTS] if owner is None else [(owner, name)]
    real = [(o, n, getattr(o, n)) for o, n in places]
    for o, n, _ in real:
        setattr(o, n, broken)
    for way in ("soak", "run"):
        for turn in (flat, leak):
            if turn is leak and figure not in ("the lines of ops", "where things are made"):
                continue
            watching = SoakWatching(("x",), plan(30), None, 4096.0, None) if way == "soak" else RunWatching(("x",))
            report = watch(watching, turn)
            kept.clear()
            told.append({"figure": figure, "way": way, "turn": turn.__name__, "verdict": report.verdict,
                         "why": report.why, "missing": {m.figure: m.why for m in report.missing}})
    for o, n, value in real:
        setattr(o, n, value)
print(json.dumps(told))
"""


@pytest.mark.tf
@pytest.mark.slow
def test_tensorflows_probes_fail_one_by_one_and_all_at_once(tmp_path: Path) -> None:
    import json

    (tmp_path / "faults.py").write_text(TENSORFLOW)
    environment = {**os.environ, "PYTHONPATH": str(SOURCE)}
    done = subprocess.run(
        [sys.executable, "faults.py"], cwd=tmp_path, env=environment, capture_output=True, text=True, timeout=280
    )
    assert done.returncode == 0, done.stderr[-3000:]
    assert "Traceback" not in done.stderr
    told = json.loads(done.stdout.splitlines()[-1])
    assert len(told) == 9 * 2 + 2 + 2 * 2
    for case in told:
        where = (case["figure"], case["way"], case["turn"], case["why"], case["missing"])
        assert case["verdict"] == ("leak" if case["turn"] == "leak" else "flat"), where
        unused = case["figure"] == "the lines of ops" and case["turn"] == "flat"  # nothing grew, so no op was watched
        if case["figure"] not in ("", "all") and not unused:
            assert "broken on purpose" in case["missing"][case["figure"]], where


RUN = """
import sys
sys.path.insert(0, {source!r})
from tenure.probes import heap, process
def broken(*args, **kwargs):
    raise RuntimeError("broken on purpose")
for name in ("rss", "mallinfo", "python_blocks"):
    setattr(process, name, broken)
{more}
from tenure.__main__ import main
main()
"""

PROGRAM = """
import sys, time
kept = []
def cycle(i):
    kept.append(bytearray(20_000))
    time.sleep(0.003)
for i in range(60):
    cycle(i)
print("done", len(kept))
sys.exit(3)
"""


@pytest.mark.parametrize(
    ("more", "verdict"),
    [
        ("", "leak"),
        ("heap.walk = broken", "inconclusive"),
        ("from tenure.probes.tf import hooks\nhooks.install = hooks.install_calls = broken", "leak"),
    ],
)
def test_the_program_under_tenure_run_never_notices(tmp_path: Path, more: str, verdict: str) -> None:
    import json

    (tmp_path / "train.py").write_text(PROGRAM)
    launcher = RUN.format(source=str(SOURCE), more=more)
    done = subprocess.run(
        [sys.executable, "-c", launcher, "run", "--json", "out.json", "train.py"],
        cwd=tmp_path,
        capture_output=True,
        text=True,
        timeout=120,
    )
    assert (done.returncode, done.stdout) == (3, "done 60\n")
    assert "Traceback" not in done.stderr
    report = json.loads((tmp_path / "out.json").read_text())
    assert report["verdict"] == verdict, report["why"]
    missing = {item["figure"]: item["why"] for item in report["missing"]}
    assert {"resident memory", "malloc in use", "Python's blocks"} <= set(missing)
    assert report["exit_status"] == 3


def test_a_watch_that_can_not_start_lets_the_program_run(tmp_path: Path) -> None:
    (tmp_path / "train.py").write_text(PROGRAM)
    more = "import tenure.explain.running as r\nr.RunWatching.start = broken"
    done = subprocess.run(
        [sys.executable, "-c", RUN.format(source=str(SOURCE), more=more), "run", "train.py"],
        cwd=tmp_path,
        capture_output=True,
        text=True,
        timeout=120,
    )
    assert (done.returncode, done.stdout) == (3, "done 60\n")
    assert done.stderr == "tenure: this program runs unwatched: RuntimeError: broken on purpose\n"
