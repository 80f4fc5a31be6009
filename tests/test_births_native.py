"""The C walk over frames and its Python twin give the same answer: the user's line, none, or the frame to judge."""

from __future__ import annotations

import gc
import os
import random
import subprocess
import sys
from collections.abc import Callable, Iterator
from types import FrameType
from typing import Any

import pytest

from tenure.observe import births
from tenure.observe.births import Site, _walk_in_python, user_site

native: Any = pytest.importorskip("tenure.probes._births", reason="the C module is not built")

LIBRARY, OTHER, GENERATED = "<library>", "<other>", "__autograph_generated_file_x.py"
KINDS = {LIBRARY: 0, OTHER: 1, GENERATED: 2}


def call_from(file: str, inner: Callable[[], Any]) -> Callable[[], Any]:
    """A function that lies in `file` and calls `inner` from its second line."""
    space: dict[str, Any] = {"inner": inner}
    exec(compile("def outer():\n    return inner()\n", file, "exec"), space)
    made: Callable[[], Any] = space["outer"]
    return made


def both(frame: FrameType | None, whose: dict[str, int], sites: dict[Site, Site]) -> Any:
    in_c, in_python = native.site(frame, whose, sites), _walk_in_python(frame, whose, sites)
    assert in_c is in_python
    return in_c


@pytest.mark.parametrize("seed", range(40))
def test_they_agree_on_stacks_at_random(seed: int) -> None:
    chance = random.Random(seed)
    files = [chance.choice([LIBRARY, LIBRARY, LIBRARY, OTHER, GENERATED, "<unseen>"]) for _ in range(30)]
    sites: dict[Site, Site] = {}
    if chance.random() < 0.5:
        known: Site = (OTHER, 2, "outer")
        sites[known] = known
    whose = {**KINDS, __file__: 0}

    def look() -> Any:
        return both(sys._getframe(1), whose, sites)

    call: Callable[[], Any] = look
    for file in files:
        call = call_from(file, call)
    answer = call()

    first = next((file for file in files if file != LIBRARY), None)  # `files` goes from the innermost outward
    if first == OTHER and sites:
        assert answer is next(iter(sites))
    elif first is not None:
        assert isinstance(answer, FrameType)
        assert answer.f_code.co_filename == first
    del answer


def test_past_the_outermost_frame_there_is_nothing() -> None:
    whose = dict.fromkeys(files_of(sys._getframe()), 0)

    assert both(None, whose, {}) is None
    assert both(sys._getframe(), whose, {}) is None


def files_of(frame: FrameType | None) -> Iterator[str]:
    while frame is not None:
        yield frame.f_code.co_filename
        frame = frame.f_back


def test_the_site_is_the_interned_one_and_frames_are_given_back() -> None:
    site = user_site(sys._getframe())
    gc.collect()
    before = sys.getrefcount(site)
    for _ in range(1000):
        user_site(sys._getframe()), user_site(sys._getframe())
    assert abs(sys.getrefcount(site) - before) < 100
    frame = sys._getframe()
    count = sys.getrefcount(frame)
    for _ in range(1000):
        native.site(frame, {}, {})  # judged by Python: the frame comes back
    assert sys.getrefcount(frame) == count


def test_wrong_arguments_are_refused() -> None:
    for arguments in ((), (1, {}, {}), (None, [], {}), (sys._getframe(), {}, 3)):
        with pytest.raises(TypeError):
            native.site(*arguments)
    with pytest.raises(TypeError):
        native.site(sys._getframe(), {__file__: "x"}, {})


def test_a_new_line_is_told_by_either(monkeypatch: pytest.MonkeyPatch) -> None:
    answers = []
    for walk in (native.site, _walk_in_python):
        monkeypatch.setattr(births, "_walk", walk)
        monkeypatch.setattr(births, "_sites", {})
        monkeypatch.setattr(births, "_whose", {})
        answers.append(call_from(f"{os.sep}nowhere{os.sep}user.py", lambda: user_site(sys._getframe(1)))())
    assert answers[0] == answers[1] == (f"{os.sep}nowhere{os.sep}user.py", 2, "outer")


def test_the_twin_is_there_when_asked_for() -> None:
    code = "from tenure.observe import births; print(births._walk is births._walk_in_python)"
    for value, expected in (("1", "True"), ("", "False")):
        env = {**os.environ, "TENURE_PURE_PYTHON": value}
        done = subprocess.run([sys.executable, "-c", code], env=env, capture_output=True, text=True, check=True)
        assert done.stdout.strip() == expected
