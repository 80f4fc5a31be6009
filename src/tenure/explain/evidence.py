"""What a diagnosis is made from: frozen facts that the observers gathered, without any object of the user's program."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from tenure.records import Birth, Changed, GivenBack, GrowingLine, Holder, Ticks

__all__ = [
    "Bound",
    "CachingDataset",
    "Evidence",
    "Garbage",
    "GrowingGraph",
    "HeldFree",
    "JitFunction",
    "Made",
    "Native",
    "OpSite",
    "OpenTape",
    "Population",
]


@dataclass(frozen=True, slots=True)
class Bound:
    """The most that a container will ever hold, by its own word, and what it holds now.

    `by` is what sets it, `maxlen` of a deque or `maxsize` of an LRU cache.
    """

    by: str
    most: int
    holds: int


@dataclass(frozen=True, slots=True)
class Population:
    """A population of objects at one holder path that grew in every window: the topmost group that grows.

    `tier` says how it is reached: 0 from the user's modules and frames, 1 only through libraries, 2 only through a
    registry of the framework, 3 held by native code alone. `kinds` counts what comes with it, per tick, by kind
    (tensor, variable, model, graph, trace, tape, ...); `through` names the kinds of the objects on the path to it.
    `low` and `high` are the bytes a tick of
    its slowest and fastest window. `single` is one object that gets larger instead of more objects. `views` are small
    array views of large buffers, `kept_bytes` what they keep beyond what was counted. `bound`: the container that
    holds them will be full one day.
    """

    tier: int
    root: str
    type_name: str
    objects_per_tick: float
    bytes_per_tick: float
    tensor_bytes_per_tick: float
    steady: bool = True
    slowing: bool = False
    single: bool = False
    kinds: Mapping[str, float] = field(default_factory=dict)
    through: tuple[str, ...] = ()
    holder: Holder | None = None
    birth: Birth | None = None
    changed: Changed | None = None
    changed_kind: str | None = None
    function: str | None = None
    kept_bytes: float = 0.0
    views: bool = False
    key: int = 0
    low: float | None = None
    high: float | None = None
    bound: Bound | None = None


@dataclass(frozen=True, slots=True)
class Native:
    """Growth of malloc and pool in use, in bytes a tick; `stands` when it rose in every window.

    `span` is how many ticks lie between the first and the last mark. `stopped`: it did not go on after the last mark.
    """

    bytes_per_tick: float
    low: float
    high: float
    stands: bool
    steady: bool
    slowing: bool
    python_bytes_per_tick: float = 0.0
    span: int = 100
    stopped: bool = False


@dataclass(frozen=True, slots=True)
class Made:
    """How many things of one kind one line of the user's makes each tick, after warm-up."""

    kind: str
    birth: Birth
    per_tick: float


@dataclass(frozen=True, slots=True)
class OpSite:
    """One line's ops, watched for some ticks: how many a tick, and how many (op, attributes) keys a tick were new."""

    birth: Birth
    op: str
    per_tick: float
    new_keys_per_tick: float
    changed: Changed | None = None


@dataclass(frozen=True, slots=True)
class OpenTape:
    """A gradient tape that is alive between ticks."""

    recording: bool
    persistent: bool
    birth: Birth | None
    holder: Holder | None


@dataclass(frozen=True, slots=True)
class CachingDataset:
    """A live dataset whose `cache()` never ends; `reason` says why (`repeat() before cache()`)."""

    reason: str
    birth: Birth | None
    holder: Holder | None


@dataclass(frozen=True, slots=True)
class JitFunction:
    """A live function that XLA compiles anew for each shape, without a new trace."""

    name: str
    birth: Birth | None
    holder: Holder | None


@dataclass(frozen=True, slots=True)
class GrowingGraph:
    """A graph-mode graph to which ops are added each tick."""

    name: str
    ops_per_tick: float
    birth: Birth | None
    holder: Holder | None


@dataclass(frozen=True, slots=True)
class Garbage:
    """Unreachable reference cycles that wait for a collector that is off (or frozen)."""

    objects_per_tick: float
    bytes_per_tick: float
    tensor_bytes_per_tick: float
    birth: Birth | None = None


@dataclass(frozen=True, slots=True)
class HeldFree:
    """Bytes at the end that an allocator holds free and that are resident; None where that is not known.

    `trimmed`: by how much `malloc_trim` lowered what is resident, where it was asked for.
    """

    rss: int
    pool: int | None
    malloc: int | None
    trimmed: int | None = None


@dataclass(frozen=True, slots=True)
class Evidence:
    """All that is known of one program's growth. Rates are per tick after warm-up.

    `epoch`: how many of these ticks are one turn further out, where that is known (the batches of an epoch).
    `differential`: the autopsy compared two releases, so that what the program built while it warmed up is not in it.
    `lines`: by how much native memory grew at each line, where that was watched.
    `room`: the bytes that the process may still take, None where that is not known.
    """

    ticks: Ticks
    populations: tuple[Population, ...] = ()
    native: Native | None = None
    autopsy: tuple[GivenBack, ...] | None = None
    made: tuple[Made, ...] = ()
    ops: tuple[OpSite, ...] = ()
    scalars: tuple[Made, ...] = ()
    tapes: tuple[OpenTape, ...] = ()
    datasets: tuple[CachingDataset, ...] = ()
    graphs: tuple[GrowingGraph, ...] = ()
    jit_functions: tuple[JitFunction, ...] = ()
    lines: tuple[GrowingLine, ...] = ()
    garbage: Garbage | None = None
    held_free: HeldFree | None = None
    held_tensor_bytes_per_tick: float = 0.0
    held_tensors_per_tick: float = 0.0
    versions: Mapping[str, str | None] = field(default_factory=dict)
    min_growth: float = 4096.0
    differential: bool = False
    epoch: int = 1
    room: float | None = None
