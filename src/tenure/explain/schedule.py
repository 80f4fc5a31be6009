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


@dataclass(slots=True)
class OpenPlan:
    """When to read the heap in a run of unknown length: at ticks half as far again, at each tick while ticks are slow.

    `kept` are the ticks of the snapshots in memory: when there are more than `most`, every other old one is dropped,
    so that a run of any length keeps a dozen that reach back to its start.
    """

    most: int = 12
    kept: list[int] = field(default_factory=list)
    next_tick: int = 8
    _last: tuple[int, float] | None = None

    def due(self, tick: int, seconds: float, cost: float) -> bool:
        """Whether to read now, given the clock and what a reading costs in seconds.

        A program of a few slow ticks (a fit each) is read at every tick: readings take a fifth of the time at most.
        """
        if tick >= self.next_tick:
            return True
        last = self._last
        if last is None:
            self._last = (tick, seconds)
            return False
        return tick < 8 and tick > last[0] and seconds - last[1] > 5 * cost

    def taken(self, tick: int, seconds: float) -> list[int]:
        """Notes a reading; the ticks whose snapshots should be dropped now."""
        self.kept.append(tick)
        slow = self._last is not None and tick > self._last[0] and tick <= 16
        per_tick = (seconds - self._last[1]) / (tick - self._last[0]) if self._last is not None and slow else 0.0
        self._last = (tick, seconds)
        self.next_tick = tick + 1 if per_tick > 0.5 else tick + max(1, tick // 2)
        if len(self.kept) <= self.most:
            return []
        dropped = self.kept[1:-4:2]
        self.kept = [kept for kept in self.kept if kept not in dropped]
        return dropped
