"""What the process holds, as the system, the C library and the interpreter count it. No TensorFlow.

All figures are bytes unless a name says otherwise. A reader that can't give its figure raises `ProbeError`.
"""

from __future__ import annotations

import atexit
import contextlib
import ctypes
import os
import resource
import sys
from collections import Counter
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

import psutil

from tenure.probes import ProbeError

__all__ = [
    "Limit",
    "Malloc",
    "Mappings",
    "mallinfo",
    "malloc_trim",
    "memory_limit",
    "opened",
    "peak_rss",
    "python_blocks",
    "python_heap_bytes",
    "rss",
    "rss_by_mapping",
]

_PROC = Path("/proc")
_CGROUP = Path("/sys/fs/cgroup")
# A cgroup v1 without a limit reads LONG_MAX rounded down to a page; anything past an exbibyte is no limit.
_NO_LIMIT = 1 << 60


@dataclass(frozen=True, slots=True)
class Mappings:
    """Resident bytes by what backs them; `heap` (the brk heap) is part of `anonymous`, None when it has no mapping."""

    anonymous: int
    file: int
    shmem: int
    heap: int | None


@dataclass(frozen=True, slots=True)
class Limit:
    """The tightest limit on this process's memory, and who sets it."""

    bytes: int
    source: str


@dataclass(frozen=True, slots=True)
class Malloc:
    """The C library's own account over all its arenas.

    `used` is in use (`uordblks + hblkhd`, TensorFlow's pool regions included), `free` is held but free (`fordblks`),
    `mapped` is in blocks of their own (`hblkhd`, part of `used`), `arena` is taken from the system otherwise.
    `wraps` is true when the counters are 32 bits wide (glibc before 2.33) and wrong past 2 GiB.
    """

    used: int
    free: int
    mapped: int
    arena: int
    wraps: bool = False


def rss() -> int:
    """Resident bytes of this process now. RSS is not evidence of a leak: allocators keep freed memory."""
    statm = _lines(_PROC / "self/statm")
    if statm:
        return int(statm[0].split()[1]) * resource.getpagesize()
    return int(psutil.Process().memory_info().rss)


def peak_rss() -> int:
    """The most this process has had resident (`VmHWM`; `ru_maxrss` where there is no /proc)."""
    if (_PROC / "self/status").exists():
        return _status_kib("VmHWM") * 1024
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    return peak if sys.platform == "darwin" else peak * 1024


def rss_by_mapping() -> Mappings:
    """Resident bytes split into anonymous, file-backed and shared memory, with the brk heap told apart."""
    return Mappings(
        anonymous=_status_kib("RssAnon") * 1024,
        file=_status_kib("RssFile") * 1024,
        shmem=_status_kib("RssShmem") * 1024,
        heap=_heap_rss(),
    )


def memory_limit(proc: Path = _PROC, cgroup: Path = _CGROUP) -> Limit:
    """The tightest of the cgroup limits (v2 and v1, parents included), RLIMIT_AS and the machine's memory."""
    limits = [*_cgroup_limits(proc, cgroup)]
    soft, _ = resource.getrlimit(resource.RLIMIT_AS)
    if soft != resource.RLIM_INFINITY:
        limits.append(Limit(soft, "RLIMIT_AS"))
    for line in _lines(proc / "meminfo"):
        if line.startswith("MemTotal:"):
            limits.append(Limit(int(line.split()[1]) * 1024, "physical memory"))
            break
    if not limits:
        raise ProbeError("no cgroup limit, no RLIMIT_AS, and /proc/meminfo can't be read")
    return min(limits, key=lambda limit: limit.bytes)


def mallinfo() -> Malloc:
    """malloc's account by `mallinfo2` (glibc 2.33), by `mallinfo` before; musl, macOS and other mallocs have none."""
    libc = _glibc()
    read, wraps = _mallinfo_function(libc)
    info = read()
    fields = {name: getattr(info, name) & 0xFFFFFFFF if wraps else getattr(info, name) for name in _COUNTERS}
    return Malloc(
        used=fields["uordblks"] + fields["hblkhd"],
        free=fields["fordblks"],
        mapped=fields["hblkhd"],
        arena=fields["arena"],
        wraps=wraps,
    )


def malloc_trim() -> bool:
    """Gives malloc's free pages back to the system; true when some went. glibc only."""
    trim = _glibc().malloc_trim
    trim.argtypes, trim.restype = [ctypes.c_size_t], ctypes.c_int
    return bool(trim(0))


def python_blocks() -> int:
    """Blocks (not bytes) that the interpreter's small-object allocator has handed out."""
    blocks = sys.getallocatedblocks()
    if blocks == 0:
        raise ProbeError("the interpreter's own allocator is off (PYTHONMALLOC=malloc)")
    return blocks


def python_heap_bytes() -> int:
    """Never a figure so far: the interpreter tells its arenas only through `sys._debugmallocstats`.

    That writes to the process's standard error, which can't be captured without taking it from the program and its
    other threads for a moment.
    """
    raise ProbeError("the interpreter prints its arenas to stderr only (sys._debugmallocstats)")


# fmt: off
_COUNTERS = (
    "arena", "ordblks", "smblks", "hblks", "hblkhd", "usmblks", "fsmblks", "uordblks", "fordblks", "keepcost",
)
# fmt: on


class _Mallinfo2(ctypes.Structure):
    _fields_ = [(name, ctypes.c_size_t) for name in _COUNTERS]


class _Mallinfo(ctypes.Structure):
    _fields_ = [(name, ctypes.c_int) for name in _COUNTERS]


class _DlInfo(ctypes.Structure):
    _fields_ = [
        ("dli_fname", ctypes.c_char_p),
        ("dli_fbase", ctypes.c_void_p),
        ("dli_sname", ctypes.c_char_p),
        ("dli_saddr", ctypes.c_void_p),
    ]


@cache
def _glibc() -> ctypes.CDLL:
    """The C library, once it is certain that it is glibc and that `malloc` is its own."""
    if not sys.platform.startswith("linux"):
        raise ProbeError(f"malloc's account is read from glibc, and this is {sys.platform}")
    libc = ctypes.CDLL(None)
    if not hasattr(libc, "gnu_get_libc_version"):
        raise ProbeError("the C library is not glibc (musl has no mallinfo)")
    # A preloaded jemalloc or tcmalloc leaves glibc's counters standing still: they would read as a flat program.
    info = _DlInfo()
    libc.dladdr.argtypes, libc.dladdr.restype = [ctypes.c_void_p, ctypes.POINTER(_DlInfo)], ctypes.c_int
    if libc.dladdr(ctypes.cast(libc.malloc, ctypes.c_void_p), ctypes.byref(info)) and info.dli_fname:
        owner = Path(info.dli_fname.decode(errors="replace")).name
        if not owner.startswith(("libc.", "libc-")):
            raise ProbeError(f"malloc comes from {owner}, whose account glibc does not know")
    return libc


def _mallinfo_function(libc: ctypes.CDLL) -> tuple[Any, bool]:
    for name, result, wraps in (("mallinfo2", _Mallinfo2, False), ("mallinfo", _Mallinfo, True)):
        function = getattr(libc, name, None)
        if function is not None:
            function.restype = result
            return function, wraps
    raise ProbeError("this glibc has neither mallinfo2 nor mallinfo")


def _lines(path: Path) -> list[str]:
    """The file's lines; none when it isn't there or may not be read (a container hides parts of /proc and /sys)."""
    try:
        return path.read_text(encoding="utf-8", errors="replace").splitlines()
    except OSError:
        return []


def _status_kib(field: str) -> int:
    for line in _lines(_PROC / "self/status"):
        if line.startswith(f"{field}:"):
            return int(line.split()[1])
    raise ProbeError(f"/proc/self/status gives no {field}")


def _heap_rss() -> int | None:
    try:
        with open(_PROC / "self/smaps", encoding="utf-8", errors="replace") as smaps:
            inside = False
            for line in smaps:
                if inside and line.startswith("Rss:"):
                    return int(line.split()[1]) * 1024
                inside = inside or line.rstrip().endswith("[heap]")
    except OSError:
        return None
    return None


def _cgroup_limits(proc: Path, cgroup: Path) -> list[Limit]:
    limits: list[Limit] = []
    for line in _lines(proc / "self/cgroup"):
        number, controllers, path = line.split(":", 2)
        if number == "0":
            limits += _limits_up(cgroup, path, "memory.max", "cgroup v2")
        elif "memory" in controllers.split(","):
            limits += _limits_up(cgroup / "memory", path, "memory.limit_in_bytes", "cgroup v1")
    return limits


def _limits_up(root: Path, path: str, name: str, source: str) -> list[Limit]:
    """The limits of a group and of all groups above it: each of them binds. In a container only the root may show."""
    parts = [part for part in path.split("/") if part not in ("", "..")]
    limits = []
    for depth in range(len(parts), -1, -1):
        group = root.joinpath(*parts[:depth])
        text = "".join(_lines(group / name)).strip()
        if text.isdigit() and int(text) < _NO_LIMIT:
            limits.append(Limit(int(text), f"{source} {'/' + '/'.join(parts[:depth])}"))
    return limits


def opened() -> dict[str, int]:
    """How many things the process holds open, by kind: they cost little memory, but an end comes when they run out.

    A descriptor by what it leads to, mapped files by mapping, and the functions that wait for the exit (`atexit`).
    """
    counted: Counter[str] = Counter()
    try:
        for descriptor in os.listdir(_PROC / "self/fd"):
            with contextlib.suppress(OSError):  # that of the listing itself is gone again
                counted[_descriptor_kind(os.readlink(_PROC / "self/fd" / descriptor))] += 1
        with open(_PROC / "self/maps", "rb") as maps:
            counted["mapped files"] = sum(b"/" in line for line in maps)
    except OSError as error:
        raise ProbeError(f"/proc/self can't be read: {error.strerror}") from error
    handlers = getattr(atexit, "_ncallbacks", None)
    if handlers is not None:
        counted["exit handlers"] = handlers()
    return dict(counted)


def _descriptor_kind(target: str) -> str:
    kind = target.partition(":")[0]
    return {"socket": "open sockets", "pipe": "open pipes"}.get(
        kind, "open files" if target.startswith("/") else "open descriptors"
    )
