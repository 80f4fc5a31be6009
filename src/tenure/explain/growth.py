"""Tells growth from noise: does a series rise in every window, how fast, and with what confidence. Pure functions.

A series is read at window boundaries after warm-up, at unequal distances, because equal windows alias with the
program's own periods (a sawtooth of 20 ticks, measured). What does not rise in every window is not a leak; what rises
ever more slowly is not decided.
"""

from __future__ import annotations

import itertools
import math
import random
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cache
from statistics import NormalDist, median

__all__ = [
    "CONFIDENCE",
    "Slope",
    "Trend",
    "boundaries",
    "seconds_to_limit",
    "slope",
    "spacing",
    "sparse_trend",
    "thirds",
    "trend",
    "window_rate",
]

CONFIDENCE = 0.95

# Shares of the measured stretch at which the heap is read: unequal on purpose, so that no period divides them all.
_SHARES = (0.0, 0.17, 0.37, 0.52, 0.71, 0.84, 1.0)
_ENDS = 0.4  # of the usual rate: what grows by less at the end is coming to rest
_FEW_SHARES = (0.0, 0.19, 0.43, 0.62, 0.81, 1.0)


@dataclass(frozen=True, slots=True)
class Slope:
    """A rate per tick by Theil and Sen with its interval."""

    value: float
    low: float
    high: float


@dataclass(frozen=True, slots=True)
class Trend:
    """How one series behaved: `rises` in every window, `steady`: a line fits it, `slowing`: each window rises less."""

    rises: bool
    steady: bool
    slowing: bool
    rate: float


@cache
def boundaries(first: int, last: int) -> tuple[int, ...]:
    """The ticks at which to read, from `first` to `last`, at unequal distances; fewer when there is no room.

    Among shifted choices the first is taken at which no sawtooth of any period rises steadily: a period of 30 ticks
    passed for a leak of 220 at fixed shares.
    """
    length = last - first
    shares = _SHARES if length >= 30 else _FEW_SHARES
    jitter = random.Random(length)
    marks = sorted({first + round(share * length) for share in shares})
    for _ in range(200):
        if not _aliased(marks):
            break
        inner = (share + jitter.uniform(-0.06, 0.06) for share in shares[1:-1])
        marks = sorted({first, last, *(first + round(share * length) for share in inner)})
    return tuple(marks)


def _aliased(marks: Sequence[int]) -> bool:
    """Whether some sawtooth looks like a leak at these marks."""
    for period in range(2, min(marks[-1] - marks[0], 400) + 1):
        for phase in range(0, period, max(period // 8, 1)):
            told = trend(marks, [float((mark + phase) % period) for mark in marks])
            if told.rises and told.steady:
                return True
    return False


def slope(ticks: Sequence[int], values: Sequence[float], confidence: float = CONFIDENCE) -> Slope:
    """The median of all pairwise slopes (Theil 1950) and its interval (Sen 1968); zero for fewer than two points.

    The same figures as `scipy.stats.theilslopes`, which a test compares; importing that would cost the watched program
    over half a second and tens of megabytes, measured.
    """
    pairs = itertools.combinations(zip(ticks, values, strict=True), 2)
    slopes = sorted((y2 - y1) / (x2 - x1) for (x1, y1), (x2, y2) in pairs if x2 != x1)
    if not slopes:
        return Slope(0.0, 0.0, 0.0)
    count, number = len(values), len(slopes)
    ties = sum(n * (n - 1) * (2 * n + 5) for n in Counter(values).values())
    spread = math.sqrt(max(count * (count - 1) * (2 * count + 5) - ties, 0) / 18)  # of Kendall's S, Sen's equation 2.6
    reach = NormalDist().inv_cdf((1 + confidence) / 2) * spread
    low = max(round((number - reach) / 2) - 1, 0)
    high = min(round((number + reach) / 2), number - 1)
    return Slope(median(slopes), slopes[low], slopes[high])


def window_rate(ticks: Sequence[int], values: Sequence[float]) -> float:
    """The median of the windows' rates. One jump (a region that an allocator takes) spoils one window of them, where it
    lies between many pairs of points."""
    rates = [(v2 - v1) / (t2 - t1) for (t1, v1), (t2, v2) in itertools.pairwise(zip(ticks, values, strict=True))]
    return median(rates) if rates else 0.0


def trend(ticks: Sequence[int], values: Sequence[float], noise: float = 0.0) -> Trend:
    """How a series behaves over its windows. A rise of no more than `noise` (in the unit of the values) is no rise.

    `steady` asks for a straight line: the correlation with the ticks is 0.95 or more, which a sawtooth read at
    unequal distances does not reach even when it happens to rise in each window, and the last window rises as the
    others did: a buffer that is full in the middle of it rises too.
    """
    windows = len(ticks) - 1
    if windows < 1:
        return Trend(False, False, False, 0.0)
    steps = [values[i + 1] - values[i] for i in range(windows)]
    rates = [step / (ticks[i + 1] - ticks[i]) for i, step in enumerate(steps)]
    rises = all(step > noise for step in steps)
    rate = (values[-1] - values[0]) / (ticks[-1] - ticks[0])
    slowing = rises and windows >= 3 and all(b <= 0.85 * a for a, b in itertools.pairwise(rates))
    ends = windows >= 3 and rates[-1] < _ENDS * median(rates[:-1])
    return Trend(rises, rises and not ends and _correlation(ticks, values) >= 0.95, slowing, rate)


def thirds(count: int) -> tuple[int, ...]:
    """Of so many marks those that leave three windows, each about a third of the stretch."""
    return (0, round((count - 1) / 3), round(2 * (count - 1) / 3), count - 1)


def sparse_trend(ticks: Sequence[int], values: Sequence[float]) -> Trend:
    """How a series behaves that rises at some ticks only, so that a short window may miss all of them: it never falls
    and rises in each third. For seven marks and more."""
    if len(ticks) < 7 or any(b < a for a, b in itertools.pairwise(values)):
        return Trend(False, False, False, 0.0)
    chosen = thirds(len(ticks))
    told = trend([ticks[i] for i in chosen], [values[i] for i in chosen])
    return replace(told, steady=told.rises and _correlation(ticks, values) >= 0.95)


def spacing(ticks: Sequence[int], values: Sequence[float]) -> float | None:
    """How many ticks lie between the rises of a series that may still go on: rises of about the same size with quiet
    windows between them, no fall, and no longer quiet at the end. None for any other series, such as a buffer that
    fills."""
    steps = [b - a for a, b in itertools.pairwise(values)]
    rises = [place for place, step in enumerate(steps) if step]
    sizes = [steps[place] for place in rises]
    if len(rises) < 2 or min(sizes) < 0 or max(sizes) > 3 * min(sizes) or rises[-1] - rises[0] < len(rises):
        return None
    last = ticks[rises[-1] + 1]
    between = (last - ticks[rises[0] + 1]) / (len(rises) - 1)
    return between if ticks[-1] - last <= between else None


def seconds_to_limit(
    bytes_per_tick: float, seconds_per_tick: float, used: int | None, limit: int | None
) -> float | None:
    """How long until the limit is full at this rate; None when it does not grow or the limit is not known."""
    if bytes_per_tick <= 0 or used is None or limit is None or limit <= used:
        return None
    return (limit - used) / bytes_per_tick * seconds_per_tick


def _correlation(xs: Sequence[float], ys: Sequence[float]) -> float:
    mean_x, mean_y = sum(xs) / len(xs), sum(ys) / len(ys)
    var_x = sum((x - mean_x) ** 2 for x in xs)
    var_y = sum((y - mean_y) ** 2 for y in ys)
    if var_x == 0 or var_y == 0:
        return 0.0
    covariance = sum((x - mean_x) * (y - mean_y) for x, y in zip(xs, ys, strict=True))
    return covariance / math.sqrt(var_x * var_y)
