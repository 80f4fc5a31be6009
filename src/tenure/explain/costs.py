"""What a program rebuilds at each tick though memory does not grow: work for nothing, told beside the verdict.

Pure: evidence in, drafts of findings of the class `cost` out. A line counts when it makes about one a tick or more
after warm-up; what Keras or tf.data makes on the way, under a line that stands for something larger, does not.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from tenure.explain.evidence import Evidence, Made
from tenure.explain.matchers import Draft
from tenure.records import a_unit, counted

__all__ = ["costs"]

_EACH_TICK = 0.9  # made a tick by one line; a tick or two at the edges of the count may be without

Line = tuple[str, int]


@dataclass(frozen=True, slots=True)
class _Cost:
    """One kind of thing whose making at each tick is a cost.

    `called` names one of it in the evidence. `larger`: kinds that, made by the same line, make this one on the way.
    `part_of`: kinds that, made anywhere at each tick, have this one as a part.
    """

    kind: str
    cause: str
    called: str
    larger: tuple[str, ...] = ()
    part_of: tuple[str, ...] = ()


_CALLS = ("fit", "evaluate", "predict", "train_on_batch")
_OF_MODELS = (*_CALLS, "model", "optimizer", "saved-model-load", "saved-model-save", "keras-load")

_COSTS = (
    _Cost("saved-model-load", "saved-model-load-in-loop", "SavedModel load"),
    _Cost("keras-load", "saved-model-load-in-loop", "model load", ("saved-model-load",)),
    _Cost("saved-model-save", "saved-model-save-in-loop", "SavedModel export"),
    _Cost("strategy", "strategy-recreated", "strategy"),
    _Cost(
        "optimizer",
        "optimizer-recreated",
        "optimizer",
        ("keras-load", "saved-model-load", *_CALLS),
        ("model", "keras-load"),
    ),
    _Cost("function", "function-recreated", "tf.function", (*_OF_MODELS, "dataset", "strategy"), ()),
    _Cost("dataset", "dataset-recreated", "dataset", _OF_MODELS),
    _Cost("predict-one", "predict-per-item", "one-item predict"),
    _Cost("evaluate-one", "predict-per-item", "one-item evaluate"),
    _Cost("fit-one", "predict-per-item", "one-item fit"),
)


def costs(evidence: Evidence, leaking: Iterable[Draft]) -> list[Draft]:
    """Drafts without bytes, the most frequent first; none for a cause or a line that a leak names already."""
    each_tick = [made for made in evidence.made if made.per_tick >= _EACH_TICK]
    by_line: dict[Line, set[str]] = {}
    for made in evidence.made:
        by_line.setdefault(_line(made), set()).add(made.kind)
    everywhere = {made.kind for made in each_tick}
    leaks = [draft for draft in leaking if draft.kind == "leak"]
    named = {cause for draft in leaks for cause in (draft.cause, *draft.also)}
    lines = {(draft.birth.file, draft.birth.line) for draft in leaks if draft.birth is not None}
    found: list[Draft] = []
    for cost in _COSTS:
        if cost.cause in named or not everywhere.isdisjoint(cost.part_of):
            continue
        for made in each_tick:
            beside = by_line[_line(made)]
            if made.kind == cost.kind and _line(made) not in lines and beside.isdisjoint(cost.larger):
                found.append(_draft(cost, made, evidence.ticks.unit))
    found += _unclosed(evidence, each_tick, named, lines)
    return sorted(found, key=lambda draft: -draft.objects)


def _draft(cost: _Cost, made: Made, unit: str) -> Draft:
    draft = Draft(cost.cause, 0.0, 0.0, made.per_tick, made.birth, kind="cost")
    draft.evidence.append(f"{counted(made.per_tick, cost.called)} {a_unit(unit)} on this line")
    return draft


def _unclosed(evidence: Evidence, each_tick: Iterable[Made], named: set[str], lines: set[Line]) -> list[Draft]:
    """Sessions that a line opens at each tick while most are never closed, wherever they would be."""
    opened = [made for made in each_tick if made.kind == "session" and _line(made) not in lines]
    if not opened or "session-not-closed" in named:
        return []
    rates: Mapping[str, float] = {
        kind: sum(made.per_tick for made in evidence.made if made.kind == kind) for kind in ("session", "session-close")
    }
    if rates["session-close"] >= 0.5 * rates["session"]:
        return []
    cost = _Cost("session", "session-not-closed", "session")
    found = [_draft(cost, made, evidence.ticks.unit) for made in opened]
    for draft in found:
        draft.evidence.append(f"{counted(rates['session-close'], 'session')} {a_unit(evidence.ticks.unit)} closed")
    return found


def _line(made: Made) -> Line:
    return made.birth.file, made.birth.line
