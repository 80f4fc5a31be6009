"""Who holds a thing: the shortest path from a root in the user's words, and the line that stores the reference."""

from __future__ import annotations

import atexit
import sys
import threading
import types
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from tenure.observe import sources
from tenure.observe.naming import Step, name_path, path_text
from tenure.observe.sources import module_file, user_file, user_frame, user_module
from tenure.probes.heap import frame_locals
from tenure.probes.kinds import is_a
from tenure.records import Birth, Holder

if TYPE_CHECKING:
    from tenure.probes.heap import Found

__all__ = [
    "Why",
    "holder_line",
    "holder_lines",
    "name_group",
    "name_path",
    "user_file",
    "user_frame",
    "user_module",
    "why",
]

Line = tuple[str, int]

_ITEMS = ("key", "index", "member", "cached")  # steps into a container, which differ from sample to sample
_NAMES = ("name", "attribute", "variable", "default", "local", "cache")  # steps that a line of source can store into
_OTHER_FILES = 200  # the user's modules searched for a line that fills another module's container
_LINES = 5  # the best line and four more: where else the container is filled


def name_group(paths: Sequence[Sequence[Step]]) -> Holder:
    """One holder for several samples of a group that grows: a key that differs among them reads `[*]`, one that agrees
    stays. Its line is the one that fills the container whose keys differ most."""
    paths = _with_any_name(paths)
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
            if different > 1 and step.kind == "key" and step.text.startswith("["):
                steps[place] = Step("[*]", "key", "*", step.mutable)
            # On a tie the outer one: each new outer thing brings its own inner ones.
            if different > most:
                most, grows = different, place
    return _holder(steps, grows)


def _with_any_name(paths: Sequence[Sequence[Step]]) -> Sequence[Sequence[Step]]:
    """The paths; with `*` where nearly each has its own name at one place (`setattr(module, f"batch_{i}", x)`)."""
    kinds = Counter(tuple(step.kind for step in path) for path in paths)
    alike = [path for path in paths if tuple(step.kind for step in path) == kinds.most_common(1)[0][0]]
    names = {place: {step.name for step in steps} for place, steps in enumerate(zip(*alike, strict=True))}
    differ = [place for place in names if alike[0][place].kind in ("name", "attribute") and len(names[place]) > 1]
    if len(alike) < 4 or len(differ) != 1 or len(names[differ[0]]) < 0.8 * len(alike):
        return paths
    (place,) = differ
    text = ".*" if alike[0][place].text.startswith(".") else "*"
    return [[*path[:place], replace(path[place], text=text, name="*"), *path[place + 1 :]] for path in alike]


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
        if is_a(module, types.ModuleType) and user_module(name, module):
            file = module_file(module)
            if file is not None and file not in but:
                found[file] = None
        if len(found) >= _OTHER_FILES:
            break
    return iter(found)


# -- tenure.why ------------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Why:
    """Why one object is alive. `holder` is None where only native code, garbage or the asker's variable holds it.

    `names` are the asker's own variables for it: they hold it too, but the asker knows them.
    """

    what: str
    text: str  # one line: what holds it
    path: tuple[str, ...]
    holder: Holder | None
    alternatives: tuple[Holder, ...] = ()
    birth: Birth | None = None
    names: tuple[str, ...] = ()

    def __str__(self) -> str:
        lines = [f"{self.what} is {self.text}"]
        if self.holder is not None:
            lines += _place("stored", self.holder)
        if self.birth is not None:
            lines.append(
                f"  made    {self.birth.file}:{self.birth.line}  {self.birth.text}  in {self.birth.function}()"
            )
        for other in self.alternatives:
            lines.append(f"  also    {other.text}")
            lines += _place("stored", other)
        return "\n".join(lines)


def _place(word: str, holder: Holder) -> list[str]:
    if holder.file is None or holder.line is None:
        return []
    return [f"  {word}  {holder.file}:{holder.line}  {sources.line_text(holder.file, holder.line)}"]


def why(obj: object) -> Why:
    """What keeps an object alive, as the shortest path from a root, with the line that stores it. Main thread only.

    The asker's own variables count last: the answer names them only where nothing else holds the object. Nothing of
    the answer holds it. Takes one walk of the heap (0.1 to 0.3 s a million objects).

    Raises:
        RuntimeError: called off the main thread, where a walk can break the program.
    """
    if threading.current_thread() is not threading.main_thread():
        raise RuntimeError("tenure.why walks the heap; off the main thread that can break the program. Call it there.")
    asker = sys._getframe(1)
    code, space, ident = asker.f_code, asker.f_globals, id(obj)  # by number: a cell of ours would be a holder
    at_module = space is asker.f_locals
    names = () if at_module else tuple(n for n, v in frame_locals(asker).items() if id(v) == ident)
    own_label = f" in {code.co_name}() {code.co_filename}:{code.co_firstlineno}"
    del asker

    from tenure.observe import snapshot
    from tenure.probes import heap

    roots, fixed = snapshot.roots()
    own_roots = {f"{name}{own_label}" for name in names}
    roots = [root for root in roots if id(root.obj) != ident or root.label not in own_roots]
    walked = heap.walk(roots, select_ids=(ident,), paths=True, groups=False, unreached=True, **fixed)
    found: Found | None = next((f for f in walked.found if id(f.obj) == ident), None)
    del roots, fixed, walked
    paths: list[list[Step]] = []
    if found is not None and found.tier <= 2:
        ways = [(found.root, found.path), *((h.root, h.path) for h in found.holders)]
        if not found.path:  # a root itself: another function's variable
            paths.append(name_path(found.root, (), obj))
        # The asker's own global comes last.
        ways.sort(key=lambda way: at_module and len(way[1]) == 1 and way[1][0] is space)
        for root, path in ways:
            if path and root != "native code":
                paths.append(name_path(root, path, obj))
    holders: dict[str, Holder] = {}
    for steps in paths:
        holders.setdefault(path_text(steps), name_group([steps]))
    what = _what(obj)
    birth = _birth_of(obj)
    if holders:
        first, *others = holders.values()
        return Why(what, f"held by {first.text}", first.path, first, tuple(others), birth, names)
    return Why(what, _unheld(obj, found, names, code.co_name), (), None, (), birth, names)


def _unheld(obj: object, found: Found | None, names: tuple[str, ...], function: str) -> str:
    # This argument, why's, getrefcount's; the asker's variables; the record of the walk.
    accounted = 3 + len(names) + (found is not None)
    others = sys.getrefcount(obj) - accounted
    variables = " and ".join(f"`{name}`" for name in names)
    asker = f"the local variable{'s' if len(names) > 1 else ''} {variables} in {function}()" if names else ""
    if others > 0:
        native = _native_words(obj)
        return f"held {native}{f', and by {asker}' if asker else ''}"
    if asker:
        return f"held only by {asker}"
    return "held by nothing but this call"


def _native_words(obj: object) -> str:
    """Who may hold a thing that no Python object reaches: a recording tape above all."""
    import gc

    if "tensorflow" in sys.modules:
        from tenure.probes.tf import tapes

        states = [tapes.state(t) for t in gc.get_objects() if type(t).__name__ == "GradientTape" and tapes.is_tape(t)]
        if any(state.recording for state in states):
            return "natively, by a tape that records"
        if any(state.holds for state in states):
            return "natively, by a tape"
    # Numbers, so that nothing of ours holds them: the walk leaves out what only we hold.
    referrers = [id(r) for r in gc.get_referrers(obj) if not is_a(r, types.FrameType)]
    through = _held_from_outside(referrers) if referrers else ""
    if through is None:
        referrer = next((r for r in gc.get_referrers(obj) if id(r) in referrers), None)
        return f"in a cycle of garbage (through {_what(referrer)}) that gc.collect() frees"
    exits = "an exit handler (atexit), " if getattr(atexit, "_ncallbacks", int)() else ""
    return f"natively{through}: by {exits}a dataset, a running op or another extension"


def _held_from_outside(referrers: Sequence[int]) -> str | None:
    """ ", through partial" where native code holds one of these objects; None where only garbage does."""
    from tenure.observe import snapshot
    from tenure.probes import heap

    roots, fixed = snapshot.roots()
    walked = heap.walk(roots, select_ids=referrers, paths=True, groups=False, unreached=True, **fixed)
    outside = next((f for f in walked.found if f.tier == 3), None)
    return None if outside is None else f", through {_what((*outside.path, outside.obj)[0])}"


def _what(obj: object) -> str:
    name = getattr(obj, "name", None) if type(obj).__module__.partition(".")[0] in ("tensorflow", "keras") else None
    return f"{type(obj).__name__} '{name}'" if is_a(name, str) and name else type(obj).__name__


def _birth_of(obj: object) -> Birth | None:
    """Where it was made, when births are being noted in this process."""
    from tenure.observe.births import noting

    births = noting()
    return births.site_of(obj) if births is not None else None
