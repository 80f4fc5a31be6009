"""The frozen value types that the parts of tenure exchange.

No TensorFlow, no input or output: probes and observers fill these in, the verdict and the reports read them.
Bytes are bytes, times are seconds, rates are per tick unless a name says otherwise.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

__all__ = [
    "Birth",
    "Changed",
    "Finding",
    "GivenBack",
    "GrowingLine",
    "Growth",
    "Holder",
    "Layer",
    "Missing",
    "Report",
    "Sample",
    "Ticks",
    "a_unit",
    "counted",
    "units",
]


@dataclass(frozen=True, slots=True)
class Missing:
    """A figure that could not be had, and why in one clause."""

    figure: str
    why: str


@dataclass(frozen=True, slots=True)
class Birth:
    """The user's line that makes a thing."""

    file: str
    line: int
    function: str
    text: str


@dataclass(frozen=True, slots=True)
class GrowingLine:
    """By how many bytes native memory grew in a tick while one of the user's lines ran; no `birth`: in none of them."""

    birth: Birth | None
    bytes_per_tick: float


@dataclass(frozen=True, slots=True)
class Holder:
    """What keeps a thing alive, told as the shortest path from a root.

    `text` is the path in the user's words with indices blanked (`case.norm.estimates[*]`), `path` the same in steps
    (`("module case", "norm", ".estimates", "[*]")`). `file` and `line` are the user's line that stores the reference
    where it could be told, else where the container is defined; None when only the framework holds it.
    """

    text: str
    path: tuple[str, ...]
    file: str | None = None
    line: int | None = None


@dataclass(frozen=True, slots=True)
class Changed:
    """The argument of a `tf.function` (or attribute of an op) that was new at each tick, and its last values, short."""

    argument: str
    values: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Finding:
    """One thing that grows (or costs): what, how much, who made it, who holds it, why, the cure.

    `versions` and `upstream` are of a framework's own fault: where it is known to be, and its public issues as
    `owner/name#number`.
    """

    cause: str
    code: str
    kind: str  # the contract's `class`: leak, cost, peak, retention, hazard
    origin: str  # user, framework, allocator
    confidence: float
    bytes_per_tick: float | None
    tensor_bytes_per_tick: float | None
    objects_per_tick: float | None
    remedy: str
    birth: Birth | None = None
    holder: Holder | None = None
    changed: Changed | None = None
    also: tuple[str, ...] = ()
    evidence: tuple[str, ...] = ()
    fingerprint: str = ""
    versions: str = ""
    upstream: tuple[str, ...] = ()

    def __str__(self) -> str:
        """The finding in one line: cause, code, class, bytes a tick, where it is made and what holds it."""
        parts = [f"{self.cause} ({self.code}, {self.kind})"]
        parts += [f"{self.bytes_per_tick:,.0f} bytes a tick"] if self.bytes_per_tick is not None else []
        parts += [f"made at {self.birth.file}:{self.birth.line}"] if self.birth is not None else []
        parts += [f"held by {self.holder.text}"] if self.holder is not None else []
        return ", ".join(parts)


@dataclass(frozen=True, slots=True)
class Growth:
    """Growth of the whole program in bytes a tick with its interval; `smallest_seen` is what this run could have seen.

    `limit_bytes` is the tightest memory limit on the process (cgroup, RLIMIT_AS or the machine's).
    """

    bytes_per_tick: float
    low: float
    high: float
    confidence: float
    smallest_seen: float
    seconds_to_limit: float | None = None
    limit_bytes: int | None = None


@dataclass(frozen=True, slots=True)
class Ticks:
    """The program's own cycle: its unit (tick, step, batch, epoch, call, second), how many were seen and warmed up."""

    unit: str
    function: str | None
    count: int
    warmup: int


@dataclass(frozen=True, slots=True)
class Layer:
    """One part of the resident memory by what it is (the waterfall). `bytes` is None when it could not be had."""

    name: str
    bytes: int | None


@dataclass(frozen=True, slots=True)
class GivenBack:
    """What one release action gave back, in bytes a tick (autopsy)."""

    action: str
    bytes_per_tick: float


@dataclass(frozen=True, slots=True)
class Sample:
    """The cheap counters at one tick. A counter that could not be read is None.

    `pool_regions` is what the allocator pool was seen to take from malloc since watching began: malloc counts a whole
    region as in use although most of it may be free inside the pool. `pool_held` is what the pool must have taken in
    all to have reached its peak.
    """

    tick: int
    seconds: float
    rss: int | None = None
    malloc_used: int | None = None
    malloc_mapped: int | None = None
    malloc_free: int | None = None
    pool_used: int | None = None
    pool_peak: int | None = None
    python_blocks: int | None = None
    gradient_registry: int | None = None
    py_functions: int | None = None
    variables: int | None = None
    graphs: int | None = None
    pool_regions: int = 0
    pool_held: int | None = None

    @property
    def native(self) -> int | None:
        """Live native bytes: malloc in use without the pool's own regions, plus what is in use inside the pool."""
        if self.malloc_used is None:
            return None
        return self.malloc_used - self.pool_regions + (self.pool_used or 0)


@dataclass(frozen=True, slots=True)
class Report:
    """Everything one run, soak or recording has to say; `report/` turns it into text, JSON and HTML."""

    tenure: str
    versions: Mapping[str, str | None]
    program: tuple[str, ...]
    exit_status: int | None
    verdict: str  # leak, flat, inconclusive
    why: str
    ticks: Ticks
    growth: Growth | None
    waterfall_start: tuple[Layer, ...] = ()
    waterfall_end: tuple[Layer, ...] = ()
    waterfall_ticks: tuple[int, int] | None = None  # after which ticks the two were read
    findings: tuple[Finding, ...] = ()
    autopsy: tuple[GivenBack, ...] | None = None
    notes: tuple[str, ...] = ()
    missing: tuple[Missing, ...] = ()
    samples: tuple[Sample, ...] = field(default=(), repr=False)

    def __str__(self) -> str:
        """The verdict and why, and a line for each finding: what `print(tenure.soak(f))` shows."""
        return "\n".join([f"{self.verdict}: {self.why}", *(f"  {finding}" for finding in self.findings)])


def counted(number: float, name: str) -> str:
    """A figure with what it counts: `1 graph`, `2.5 entries`, `3 arrays`, `2 bytes objects`."""
    figure = f"{number:,.0f}" if abs(number) >= 100 else f"{number:.3g}"
    if figure == "1":
        return f"1 {name}"
    if name.endswith("s"):  # a type's name, such as bytes
        return f"{figure} {name} objects"
    if name.endswith("y") and name[-2:-1] not in "aeiou":
        return f"{figure} {name[:-1]}ies"
    hisses = name.endswith(("ch", "sh", "x")) and not name.endswith("och")  # batches, but epochs
    return f"{figure} {name}{'es' if hisses else 's'}"


def units(unit: str, count: int) -> str:
    """A count with its unit: `1 batch`, `12 batches`."""
    return counted(count, unit)


def a_unit(unit: str) -> str:
    """The unit with its article: `a step`, `an epoch`."""
    return f"{'an' if unit[:1] in 'aeio' else 'a'} {unit}"
