"""Each sample that was older than 1 s at a SIGKILL is in the recording: the fast form of benchmarks/kill.py."""

from __future__ import annotations

import importlib.util
import sys
from collections.abc import Iterator
from pathlib import Path
from types import ModuleType

import pytest

pytestmark = pytest.mark.slow

BENCHMARK = Path(__file__).parents[1] / "benchmarks" / "kill.py"


@pytest.fixture(scope="module")
def kill() -> Iterator[ModuleType]:
    sys.path.insert(0, str(BENCHMARK.parent))  # as when it is run
    spec = importlib.util.spec_from_file_location("benchmark_kill", BENCHMARK)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules[spec.name] = module
    spec.loader.exec_module(module)
    yield module
    sys.path.remove(str(BENCHMARK.parent))


@pytest.mark.parametrize(
    ("rhythm", "delay"), [("fast", 0.06), ("fast", 1.6), ("stall", 1.7), ("slow", 1.9), ("full", 2.3)]
)
def test_samples_older_than_a_second_survive(kill: ModuleType, tmp_path: Path, rhythm: str, delay: float) -> None:
    outcome = kill.kill_once(tmp_path, rhythm, delay)

    assert outcome.error is None
    assert outcome.lost == 0
    assert outcome.oldest_lost < 1.0
    assert delay < 1.5 or outcome.made > 0
