"""When to read the heap: the plan for a soak whose length is known, and for a run whose length is not. Pure."""

from __future__ import annotations

from dataclasses import dataclass, field

from tenure.explain.growth import boundaries

__all__ = ["FixedPlan", "OpenPlan", "plan"]


@dataclass(frozen=True, slots=True)
class FixedPlan:
    """The parts of a soak of `cycles` ticks: warm-up, windows (the heap is read at each of `marks`), ops watched for
    their lines until `explained`, and the autopsy: released at `explained`, after one more tick, and at the end."""

    cycles: int
    warmup: int
    marks: tuple[int, ...]
    explained: int
    first_release: int

    @property
    def windows(self) -> int:
        """How many windows lie between the marks."""
        return max(len(self.marks) - 1, 0)


def plan(cycles: int, warmup: int | None = None) -> FixedPlan:
    """The plan for this many cycles: a seventh to warm up (2 to 30), a few at the end to explain, the rest in windows.

    The tail is used only when something grew; it is part of the cycles that were asked for, so that a target which
    can serve just that many is not called once too often.
    """
    autopsy = max(min(cycles // 5, 10), 2)
    explain = max(min(cycles // 12, 6), 2)
    last = max(cycles - autopsy - 1 - explain, 1)
    start = max(min(cycles // 7, 30), 2) if warmup is None else warmup
    start = min(start, max(last - 1, 0))
    return FixedPlan(cycles, start, boundaries(start, last), last + explain, last + explain + 1)


_SLOW = 0.3  # seconds: a reading's usual cost; ticks that take longer are read one by one at first
_BRISK = 0.05  # seconds: programs with faster ticks have many of them
_FAST = 0.0005  # seconds: and these have so many that the first few tell nothing


@dataclass(slots=True)
class OpenPlan:
    """When to read the heap in a run of unknown length: at ticks half or a quarter as far again, at each slow one.

    `kept` are the ticks of the snapshots in memory: when there are more than `most`, every other old one is dropped,
    so that a run of any length keeps a dozen that reach back to its start.
    """

    most: int = 12
    kept: list[int] = field(default_factory=list)
    next_tick: int = 2

    def due(self, tick: int, seconds_per_tick: float) -> bool:
        """Whether to read now, given the program's own time a tick. The first tick that is read is 2, 4 or 8."""
        first = 2 if seconds_per_tick > _BRISK else 4 if seconds_per_tick > _FAST else 8
        return tick >= max(self.next_tick, 0 if self.kept else first)

    def taken(self, tick: int, seconds_per_tick: float) -> list[int]:
        """Notes a reading; the ticks whose snapshots should be dropped now."""
        self.kept.append(tick)
        brisk = seconds_per_tick > _BRISK or (tick < 15 and seconds_per_tick > _FAST)  # it may be a short program
        early = tick if seconds_per_tick <= _FAST and tick < 16 else tick // 2
        share = 1 if seconds_per_tick > _SLOW and tick < 16 else tick // 4 if brisk else early
        self.next_tick = tick + max(1, share)
        if len(self.kept) <= self.most:
            return []
        dropped = self.kept[1:-4:2]
        self.kept = [kept for kept in self.kept if kept not in dropped]
        return dropped
