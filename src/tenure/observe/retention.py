"""Who holds a thing: the shortest path from a root in the user's words, and the line that stores the reference."""

from __future__ import annotations

import sys
import threading
import types
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from tenure.observe import sources
from tenure.observe.naming import Step, name_path, path_text
from tenure.observe.sources import module_file, user_file, user_frame, user_module
from tenure.records import Holder

__all__ = [
    "holder_line",
    "name_group",
    "name_path",
    "user_file",
    "user_frame",
    "user_module",
]

Line = tuple[str, int]

_ITEMS = ("key", "index", "member", "cached")  # steps into a container, which differ from sample to sample
_NAMES = ("name", "attribute", "variable", "default", "local", "cache")  # steps that a line of source can store into
_OTHER_FILES = 200  # the user's modules searched for a line that fills another module's container
_LINES = 5  # the best line and four more: where else the container is filled


def name_group(paths: Sequence[Sequence[Step]]) -> Holder:
    """One holder for several samples of a group that grows: a key that differs among them reads `[*]`, one that agrees
    stays. Its line is the one that fills the container whose keys differ most."""
    shapes = Counter(tuple((s.kind, "" if s.kind in _ITEMS else s.name) for s in path) for path in paths)
    if not shapes:
        raise ValueError("name_group needs the path of at least one sample")
    shape = shapes.most_common(1)[0][0]
    alike = [p for p in paths if tuple((s.kind, "" if s.kind in _ITEMS else s.name) for s in p) == shape]
    steps = list(alike[0])
    most, grows = 1, None
    for place, step in enumerate(steps):
        if step.kind in _ITEMS:
            different = len({p[place].name for p in alike})
            if different > 1 and step.kind == "key":
                steps[place] = Step("[*]", "key", "*", step.mutable)
            # On a tie the outer one: each new outer thing brings its own inner ones.
            if different > most:
                most, grows = different, place
    return _holder(steps, grows)


def _holder(steps: Sequence[Step], grows: int | None = None) -> Holder:
    lines = holder_lines(steps, grows)
    file, line = lines[0] if lines else (None, None)
    return Holder(path_text(steps), tuple(s.text for s in steps), file, line)


def holder_line(steps: Sequence[Step], grows: int | None = None) -> Line | None:
    """The user's line that stores the reference; else where the container is defined; None where no source tells."""
    lines = holder_lines(steps, grows)
    return lines[0] if lines else None


def holder_lines(steps: Sequence[Step], grows: int | None = None) -> list[Line]:
    """The user's lines that may store the reference, the likeliest first.

    Lines that fill the container nearest to the value come first; `grows` is the step whose keys differ from sample to
    sample, and then the container it goes into is the one that matters, not a fixed one further in.
    """
    end = len(steps) if grows is None else grows + 1
    # What an exception's frames hold was stored by keeping the exception.
    caught = next((i for i, s in enumerate(steps) if s.kind == "attribute" and s.name == "__traceback__"), end)
    end = min(end, caught)
    defined: list[Line] = []
    for place in range(end - 1, -1, -1):
        step = steps[place]
        if step.kind not in _NAMES:
            continue
        after = [s for s in steps[place + 1 : end] if s.mutable]
        keys = []
        for inner in after:
            if inner.kind not in _ITEMS:
                break
            keys.append(inner.key)
        filled: list[Line] = []
        for file, site in _sites(step, keys):
            (defined if site.definition else filled).append((file, site.line))
        if step.kind == "cache":
            filled = [*_decorated(step)]
        if filled:
            return [*filled, *defined][:_LINES]
    return defined[:_LINES]


def _sites(step: Step, keys: Sequence[object]) -> Iterator[tuple[str, sources.Site]]:
    if step.kind == "name":
        for file in filter(user_file, step.files):
            yield from _in(file, sources.storing_lines(file, step.name, keys=keys))
        for file in _user_files(step.files):
            yield from _in(file, sources.storing_lines(file, step.name, keys=keys, module=step.scopes[0]))
    elif step.kind == "attribute":
        if not step.scopes:
            return  # the framework's own attribute
        files = [*step.files, *_user_files(step.files)]
        found = [
            (file, site)
            for file in files
            for site in sources.storing_lines(file, step.name, keys=keys, attribute=True, owners=step.scopes)
        ]
        own = set(step.scopes)
        # A line of the class itself before one that only has the attribute's name in common.
        yield from sorted(found, key=lambda pair: (pair[1].definition, pair[1].owner not in own))
    elif step.kind in ("variable", "local"):
        for file in filter(user_file, step.files):
            for scope in step.scopes:
                found_here = sources.storing_lines(file, step.name, keys=keys, scope=scope)
                yield from _in(file, found_here)
                if found_here:
                    break
    elif step.kind == "default":
        for file in filter(user_file, step.files):
            yield from _in(file, sources.storing_lines(file, step.name, keys=keys, scope=step.scopes[0]))


def _in(file: str, found: Sequence[sources.Site]) -> Iterator[tuple[str, sources.Site]]:
    for site in found:
        yield file, site


def _decorated(step: Step) -> Iterator[Line]:
    """The decorator that makes a function remember; `step.line` is the function's first line, decorators included."""
    for file in filter(user_file, step.files):
        for line in range(step.line, step.line + 10):
            text = sources.line_text(file, line)
            if text.startswith("@") and ("cache" in text or "function" in text):
                yield file, line
                return
            if text.startswith(("def ", "async def ")):
                break
        yield file, step.line


def _user_files(but: Sequence[str]) -> Iterator[str]:
    found: dict[str, None] = {}
    for name, module in list(sys.modules.items()):
        if isinstance(module, types.ModuleType) and user_module(name, module):
            file = module_file(module)
            if file is not None and file not in but:
                found[file] = None
        if len(found) >= _OTHER_FILES:
            break
    return iter(found)
