"""Watching does no harm: no race with the program's code, bounded memory, and nothing of the program's kept alive."""

from __future__ import annotations

import contextlib
import gc
import os
import subprocess
import sys
import threading
import time
import tracemalloc
import weakref
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tenure.explain.running import RunWatching
from tenure.explain.schedule import plan
from tenure.explain.soak import SoakWatching
from tenure.explain.ticks import TickSource
from tenure.records import Report

pytestmark = pytest.mark.slow

kept: list[Any] = []


@pytest.fixture(autouse=True)
def nothing_kept() -> Iterator[None]:
    yield
    kept.clear()


def hammer(watching: RunWatching, calls: int, each: int) -> None:
    """Builds a tuple from an iterator of unknown length `calls` times: CPython fills it while a gc walk may see it."""
    expected = tuple(range(7))
    for call in range(calls):
        made = tuple(map(int, expected))
        if made != expected:
            raise AssertionError(f"call {call} gave {made}")
        if call % each == 0:
            watching.tick()


CLOSES = """
import os, time
from tenure.explain.aside import Aside
def work():
    time.sleep(0.5)
    return 7
aside = Aside(work)
time.sleep(0.1)
os.closerange(3, 64)
pipes = [os.pipe() for _ in range(6)]
for _, write_end in pipes:
    os.write(write_end, b"mine")
assert aside.result(20) == 7
time.sleep(0.1)
for read_end, _ in pipes:
    os.set_blocking(read_end, False)
    assert os.read(read_end, 9) == b"mine"
"""


def test_a_copy_answers_when_the_program_closes_all_descriptors_and_takes_nothing_of_the_programs() -> None:
    alone(CLOSES)


def alone(code: str, *options: str) -> str:
    """What the code prints in a process of its own."""
    whole = {**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)}
    command = [sys.executable, *options, "-c", code]
    done = subprocess.run(command, env=whole, capture_output=True, text=True, timeout=120)
    assert done.returncode == 0, done.stderr
    return done.stdout


ABSENT = {"Keras' batches and epochs", "calls of tf.functions"}  # what there is none of without TensorFlow


def test_a_million_tuples_are_built_unharmed_beside_a_watch() -> None:
    # gc.get_objects() in another thread makes tuple(map(...)) raise SystemError: a half-built tuple gets a second owner
    watching = RunWatching(("fake",))
    watching.start()
    watching.set_ticks("tick", "fake")
    source = TickSource(watching)
    source.start()
    stop = threading.Event()

    def others() -> None:
        while not stop.is_set():
            assert tuple(map(int, "0123456")) == (0, 1, 2, 3, 4, 5, 6)

    thread = threading.Thread(target=others)
    thread.start()
    interval = sys.getswitchinterval()
    sys.setswitchinterval(1e-5)
    try:
        hammer(watching, 1_000_000, 2_000)
    finally:
        sys.setswitchinterval(interval)
        stop.set()
        thread.join()
        source.stop()
        report = watching.finish(0)
    assert report.ticks.count > 0
    # On a busy machine a copy may not have answered in time; nothing else may be missing.
    late = "the forked reader of the heap has not answered yet"
    assert [m for m in report.missing if m.figure not in ABSENT and m.why != late] == []
    assert source.missing == []


def test_the_hammer_finds_the_race_it_looks_for() -> None:
    """A walk of the gc heap from another thread does break the program: the test above is able to fail."""
    if sys.version_info >= (3, 14):
        pytest.skip("the race is known up to 3.13")
    stop = threading.Event()

    def walk() -> None:
        while not stop.is_set():
            held = gc.get_objects()
            time.sleep(0)
            del held

    class Nobody:
        def tick(self, turns: int = 1) -> int:
            return 1

    thread = threading.Thread(target=walk)
    thread.start()
    interval = sys.getswitchinterval()
    sys.setswitchinterval(1e-6)
    broke = False
    deadline = time.monotonic() + 20
    try:
        while time.monotonic() < deadline and not broke:
            try:
                hammer(Nobody(), 20_000, 1_000_000)  # type: ignore[arg-type]
                slow_iterators()
            except SystemError:
                broke = True
    finally:
        sys.setswitchinterval(interval)
        stop.set()
        thread.join()
    assert broke


def slow_iterators() -> None:
    for _ in range(200):
        assert tuple(map(pause, range(12))) == tuple(range(12))


def pause(value: int) -> int:
    time.sleep(0)  # gives the interpreter away in the middle of a tuple
    return value


def ticked(watching: RunWatching, count: int) -> None:
    for _ in range(count):
        watching.tick()


def test_two_hundred_thousand_ticks_take_no_memory_that_grows() -> None:
    watching = RunWatching(("fake",))
    watching.start()
    watching.set_ticks("tick", "fake")
    ticked(watching, 50_000)
    gc.collect()
    tracemalloc.start()
    try:
        ticked(watching, 50_000)
        gc.collect()
        first = own_bytes()
        ticked(watching, 100_000)
        gc.collect()
        second = own_bytes()
    finally:
        tracemalloc.stop()
    assert len(watching._samples) <= 4096
    assert len(watching._snapshots) <= 16
    assert second < 4 << 20
    assert second - first < 1 << 20
    assert watching.finish(0).verdict == "flat"


def own_bytes() -> int:
    """What tenure's own lines have allocated since tracemalloc began."""
    package = str(Path(sys.modules["tenure"].__file__ or "").parent)
    filters = [tracemalloc.Filter(True, package + "/*")]
    return sum(stat.size for stat in tracemalloc.take_snapshot().filter_traces(filters).statistics("filename"))


def test_a_long_run_keeps_few_samples_and_snapshots_however_long_it_gets(monkeypatch: pytest.MonkeyPatch) -> None:
    from tenure.explain import watching as module

    monkeypatch.setattr(module, "_SAMPLE_SECONDS", 0.0)
    watching = RunWatching(("fake",))
    watching.start()
    watching.set_ticks("tick", "fake")
    ticked(watching, 20_000)
    assert len(watching._samples) <= 4096
    report = watching.finish(0)
    assert report.samples[0].tick <= 2
    assert report.samples[-1].tick >= 19_990


@pytest.mark.slow
def test_what_grew_in_a_function_that_returned_before_it_was_named_is_not_called_flat() -> None:
    watching = RunWatching(("fake",))
    watching.start()
    watching.set_ticks("second", None)

    def program() -> int:
        kept = []
        while watching._explain_from is None and len(kept) < 40:
            kept.append(Thing())
            time.sleep(0.31)  # slow ticks are read one by one
            watching.tick()
        return len(kept)

    assert program() < 40
    report = watching.finish(0)
    assert report.verdict == "inconclusive", report.why
    assert "was not named in time" in report.why


def test_the_length_of_an_epoch_holds_for_its_batches_only() -> None:
    watching = RunWatching(("fake",))
    watching.set_ticks("batch", None)
    ticked(watching, 3)
    watching.epoch(512)
    assert watching._epoch == 512
    watching.set_ticks("call", "fit")
    assert watching._epoch == 1


class Thing:
    """Something of the program's, with a payload."""

    def __init__(self) -> None:
        self.payload = bytearray(20_000)


@contextlib.contextmanager
def a_watch(kind: str) -> Iterator[Any]:
    watching: Any = RunWatching(("fake",)) if kind == "run" else SoakWatching(("fake",), plan(60), None, 4096.0, None)
    watching.start()
    watching.set_ticks("tick", "fake")
    yield watching
    watching.finish(0)


@pytest.mark.parametrize("kind", ["run", "soak"])
def test_a_things_life_is_its_own_while_it_is_watched(kind: str) -> None:
    with a_watch(kind) as watching:
        for tick in range(60):
            thing = Thing()
            kept.append(thing)
            dead = weakref.ref(thing)
            del thing
            watching.tick()
            if tick % 7 == 0:  # dies in the middle of the watch, right after a tick that may have walked the heap
                kept.pop()
                assert dead() is None, f"tick {tick}"


@pytest.mark.parametrize("kind", ["run", "soak"])
def test_after_an_explained_finding_nothing_of_it_is_held(kind: str) -> None:
    references = []
    with a_watch(kind) as watching:
        for _ in range(60):
            thing = Thing()
            references.append(weakref.ref(thing))
            kept.append(thing)
            del thing
            watching.tick()
            time.sleep(0.002)
        assert all(reference() is not None for reference in references)
        report: Report = watching.finish(0)
        assert report.verdict == "leak"
        assert report.findings[0].holder is not None
        kept.clear()
        assert [r for r in references if r() is not None] == []  # the watch and its report live on


@pytest.mark.tf
def test_tensors_die_at_del_while_their_ops_are_watched() -> None:
    import tensorflow as tf

    with a_watch("soak") as watching:
        for tick in range(60):
            tensor = tf.random.normal([4096])
            kept.append(tensor)
            variable = tf.Variable(tensor)
            seen = weakref.ref(tensor), weakref.ref(variable)
            del tensor, variable
            assert seen[1]() is None, f"tick {tick}"
            watching.tick()
            if tick >= 50:  # the ops' lines are being noted on the tensors themselves by now
                kept.pop()
                assert seen[0]() is None, f"tick {tick}"


def test_a_watch_that_is_over_leaves_nothing_behind() -> None:
    gc.collect()
    threads, hooks = threading.active_count(), list(sys.meta_path)
    with a_watch("run") as watching:
        ticked(watching, 60)
        alive = weakref.ref(watching)
    del watching
    gc.collect()
    assert alive() is None
    assert threading.active_count() <= threads
    assert sys.meta_path == hooks
