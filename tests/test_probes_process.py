"""What the process holds: figures that move with what we allocate, and limits read from made-up cgroups."""

from __future__ import annotations

import ctypes
import mmap
import subprocess
import sys
from pathlib import Path

import pytest

from tenure.probes import ProbeError, process, read

MIB = 1 << 20
linux = pytest.mark.skipif(not sys.platform.startswith("linux"), reason="/proc")


@linux
def test_rss_follows_touched_pages() -> None:
    before = process.rss()
    block = mmap.mmap(-1, 64 * MIB)
    block.write(b"\1" * (64 * MIB))
    grown = process.rss() - before
    block.close()
    assert 60 * MIB < grown < 140 * MIB  # the bytes literal may be resident beside the mapping
    assert process.peak_rss() >= before + grown


@linux
def test_mappings_add_up_to_rss() -> None:
    parts = process.rss_by_mapping()
    assert abs(parts.anonymous + parts.file + parts.shmem - process.rss()) < 8 * MIB
    assert parts.heap is None or 0 < parts.heap <= parts.anonymous


@linux
def test_malloc_counts_used_then_free() -> None:
    libc = ctypes.CDLL(None)
    libc.malloc.restype, libc.malloc.argtypes = ctypes.c_void_p, [ctypes.c_size_t]
    libc.free.argtypes = [ctypes.c_void_p]
    before = process.mallinfo()
    small = [libc.malloc(50_000) for _ in range(100)]
    large = libc.malloc(48 * MIB)  # past glibc's largest mmap threshold: a mapping of its own
    held = process.mallinfo()
    for block in [*small, large]:
        libc.free(block)
    freed = process.mallinfo()
    assert held.used - before.used == pytest.approx(5_000_000 + 48 * MIB, rel=0.05)
    assert held.mapped - before.mapped >= 48 * MIB
    assert freed.used - before.used < MIB
    assert not held.wraps


def test_python_blocks_follow_objects() -> None:
    before = process.python_blocks()
    kept = [(index, index) for index in range(100_000)]
    assert process.python_blocks() - before > 90_000
    del kept
    assert process.python_blocks() - before < 20_000


def test_blocks_are_missing_without_the_interpreters_allocator() -> None:
    code = "from tenure.probes import process, read; print(read(process.python_blocks)[1].why)"
    source = str(Path(__file__).parents[1] / "src")
    done = subprocess.run(
        [sys.executable, "-c", code],
        env={"PYTHONMALLOC": "malloc", "PYTHONPATH": source},
        capture_output=True,
        text=True,
        check=True,
    )
    assert "PYTHONMALLOC" in done.stdout


def _tree(root: Path, files: dict[str, str]) -> Path:
    for name, text in files.items():
        path = root / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
    return root


@pytest.mark.parametrize(
    ("proc", "cgroup", "expected"),
    [
        ({"self/cgroup": "0::/a/b\n"}, {"a/b/memory.max": "max\n", "a/memory.max": "1048576\n"}, ("cgroup v2 /a", MIB)),
        ({"self/cgroup": "0::/../x\n"}, {"memory.max": "2097152\n"}, ("cgroup v2 /", 2 * MIB)),
        (
            {"self/cgroup": "5:cpu,cpuacct:/\n4:memory:/docker/c\n"},
            {"memory/docker/c/memory.limit_in_bytes": "3145728\n", "memory/memory.limit_in_bytes": f"{2**63 - 4096}\n"},
            ("cgroup v1 /docker/c", 3 * MIB),
        ),
        ({"meminfo": "MemTotal:  4096 kB\n"}, {}, ("physical memory", 4 * MIB)),
    ],
)
def test_the_tightest_limit_is_named(
    tmp_path: Path, proc: dict[str, str], cgroup: dict[str, str], expected: tuple[str, int]
) -> None:
    limit = process.memory_limit(_tree(tmp_path / "proc", proc), _tree(tmp_path / "cgroup", cgroup))
    assert (limit.source, limit.bytes) == expected


def test_a_failing_probe_costs_its_own_figure_only() -> None:
    def unreadable() -> int:
        raise ProbeError("the machine has none")

    def broken() -> int:
        return [][0]

    value, missing = read(unreadable, "a figure")
    assert value is None
    assert missing is not None
    assert (missing.figure, missing.why) == ("a figure", "the machine has none")
    _, missing = read(broken)
    assert missing is not None
    assert (missing.figure, missing.why) == ("broken", "IndexError: list index out of range")
    assert read(lambda: 3) == (3, None)
    assert read(process.python_heap_bytes)[1] is not None
