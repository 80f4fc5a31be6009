"""Memory that an allocator holds though the program has given it back: told beside the verdict, and never a leak.

Pure: the waterfall in, drafts of findings of the class `retention` out. People see it in the resident memory, which
stays at its peak, and take it for a leak.
"""

from __future__ import annotations

from collections.abc import Iterable

from tenure.explain.evidence import HeldFree
from tenure.explain.matchers import Draft

__all__ = ["retained"]

_MUCH = 64e6  # bytes, and a share of what is resident: less is what every allocator keeps
_SHARE = 0.1
_GIVEN = 0.5  # of what malloc held free: when less than that came back by malloc_trim, it lies between live blocks


def retained(held: HeldFree | None) -> list[Draft]:
    """Drafts without bytes a tick; none when what is held free is little."""
    if held is None:
        return []
    least = max(_MUCH, _SHARE * held.rss)
    found = []
    pool, malloc = held.pool or 0, held.malloc or 0
    stuck = malloc >= least and held.trimmed is not None and held.trimmed < _GIVEN * malloc
    if pool + malloc >= least and not (stuck and pool < least):
        parts = [(pool, "TensorFlow's CPU pool"), (0 if stuck else malloc, "malloc")]
        found.append(_draft("allocator-retention", f"{_held(parts)}, free for reuse"))
    if stuck:
        back = f"{held.trimmed / 1e6:,.0f} MB" if held.trimmed else "nothing"
        lies = f"{_held([(malloc, 'malloc')])} between blocks that are alive"
        found.append(_draft("allocator-fragmentation", f"{lies}; malloc_trim gave back {back}"))
    return found


def _held(parts: Iterable[tuple[int, str]]) -> str:
    return " and ".join(f"{size / 1e6:,.0f} MB held by {holder}" for size, holder in parts if size >= 1e6)


def _draft(cause: str, told: str) -> Draft:
    draft = Draft(cause, 0.0, 0.0, 0.0, kind="retention")
    draft.evidence.append(told)
    return draft
