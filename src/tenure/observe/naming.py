"""The path from a root to a thing in the user's words: `case.history['loss'][*]`.

A path comes as a list of objects (the heap walk finds it); here each edge gets the name a user would write (`edges`),
and what repeats is folded. Only printed paths are named: reading `__dict__` of an object makes a dict that was not
there before, and a walk that named everything would make one for every object it passed.
"""

from __future__ import annotations

import os
import re
import sys
import types
from collections.abc import Sequence

from tenure.observe import sources
from tenure.observe.edges import Step, frame_words, name_edge, name_global, name_registered
from tenure.observe.sources import module_name, source_path
from tenure.probes.kinds import is_a

__all__ = ["Step", "name_path", "path_text"]


def name_path(root_label: str, objects: Sequence[object], target: object) -> list[Step]:
    """The steps from a root to the target in the user's words. `objects` runs from the root to the holder inclusive.

    Each element of a list, tuple or deque reads `[*]`, its index stands in the step's `name`. Trivial edges are merged:
    an object, its `__dict__` and a value are one step `.x`.
    """
    chain = [*objects, target]
    steps = [_root_step(root_label, chain[0])]
    place = 0
    if len(chain) > 1 and type(chain[0]) is dict and root_label.startswith("module "):
        named = name_global(chain[0], steps[0].name, chain[1])
        if named is not None:
            steps, place = [*steps, named], 1
    if root_label.startswith("TensorFlow's ") and len(chain) > 1:
        added, place = name_registered(chain, place)
        steps.extend(added)
    while place < len(chain) - 1:
        if chain[place + 1] is ...:  # the walk has left out the middle of a long path
            steps.append(_MORE)
            place += 2
            continue
        added, place = name_edge(chain, place, steps)
        steps.extend(added)
    return _folded(steps)


_MORE = Step("[...]", "more")
_REPEATS = 4  # a node's `.parent.parent` is a place, `.next.next.next.next` a list
_LONGEST_UNIT = 4
_FIRST_STEPS, _LAST_STEPS = 14, 6
_LONGEST = 160  # characters


def _folded(steps: list[Step]) -> list[Step]:
    """The steps of a linked structure once, with `[...]` for its repeats: `head.next[...]`."""
    folded: list[Step] = []
    at = 0
    while at < len(steps):
        unit, repeats = _repeated(steps, at)
        folded += steps[at : at + unit]
        at += unit * repeats
        if repeats > 1:
            folded.append(_MORE)
            passed = {_MORE.text, *(step.text for step in steps[at - unit : at])}
            while at < len(steps) and steps[at].text in passed:
                if steps[at] is _MORE:  # what follows begins somewhere in the repeats, in a node's `__dict__` perhaps
                    at = max((i for i in range(at, len(steps)) if steps[i].text in passed), default=at)
                at += 1
    if len(folded) > _FIRST_STEPS + _LAST_STEPS:
        return [*folded[:_FIRST_STEPS], _MORE, *folded[-_LAST_STEPS:]]
    return folded


def _repeated(steps: list[Step], at: int) -> tuple[int, int]:
    """How long the unit is that repeats from here on, and how often; (1, 1) where none does."""
    for unit in range(1, _LONGEST_UNIT + 1):
        repeats = 1
        while _alike(steps, at, at + unit * repeats, unit):
            repeats += 1
        if repeats >= _REPEATS:
            return unit, repeats
    return 1, 1


def _alike(steps: list[Step], here: int, there: int, unit: int) -> bool:
    pairs = zip(steps[here : here + unit], steps[there : there + unit], strict=False)
    return there + unit <= len(steps) and all((a.kind, a.text) == (b.kind, b.text) for a, b in pairs)


_VARIABLE = re.compile(r"(?P<name>.+) in (?P<function>.+)\(\) (?P<file>.+):(?P<line>[0-9]+)")


def _root_step(label: str, root: object) -> Step:
    kind, _, name = label.partition(" ")
    if kind == "module":
        module = root if is_a(root, (types.ModuleType, dict)) else sys.modules.get(name)
        return Step(f"module {module_name(name, module)}", "module", name)
    if is_a(root, types.FrameType):
        return Step(frame_words(root), "word")
    variable = _VARIABLE.fullmatch(label)  # heap.frame_roots
    if variable is None:
        return Step(label, "word")
    name, function, file, line = variable.groups()
    file = source_path(file)
    if function == "<module>":
        return Step(f"{os.path.basename(file)} global '{name}'", "local", name, files=(file,), scopes=("",))
    scope = sources.function_at(file, int(line)) or function
    return Step(f"frame {function}() local '{name}'", "local", name, True, (file,), (scope,), int(line))


def path_text(steps: Sequence[Step]) -> str:
    """`case.norm.estimates[*]`: Python where Python has a word for the step, else a phrase set off by ` > `."""
    text = ""
    after_word = False
    for step in steps:
        if step.kind == "module":
            text = step.text.removeprefix("module ")
        elif not text or step.word or after_word:
            text += (" > " if text else "") + step.text
        else:
            text += f".{step.text}" if step.kind == "name" else step.text
        after_word = step.word and step.kind != "module"
    return text if len(text) <= _LONGEST else f"{text[: _LONGEST * 5 // 8]}...{text[3 - _LONGEST * 3 // 8 :]}"
