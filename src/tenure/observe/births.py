"""Where things are made: the user's line for each variable, graph, function, optimizer, and for eager ops on demand.

Constructors are hooked once and cost nothing between births. Ops are told by TensorFlow's own callbacks, and only while
a finding is being explained. Nothing made is kept alive: objects are known by weak references, attributes of ops by
short strings (an attribute holds its ConcreteFunction: 243 KB a tick when kept).
"""

from __future__ import annotations

import os
import sys
import threading
import weakref
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from importlib import import_module
from types import CodeType, FrameType
from typing import Any

from tenure.observe import sources
from tenure.probes.heap import frame_locals
from tenure.probes.kinds import is_a
from tenure.records import Birth, Changed, Missing

__all__ = ["Births", "Made", "NewKeys", "Ops", "Scalars", "noting", "user_site"]

Site = tuple[str, int, str]
"""File, line and function of a user's line. Equal sites are one object."""

_OBJECTS = 200_000  # objects whose birth is remembered, about 40 MB; the oldest are forgotten first
_SITES = 20_000  # a program has far fewer lines that make things; generated ones must not grow without end
_KEYS = 100_000  # hashes of (op, attributes) seen
_VALUES = 4096  # distinct Python scalars counted a line; from there on "at least"
_SHORT = 60  # characters of an attribute's value
_LAST = 3  # values of a changing attribute that are shown


@dataclass(frozen=True, slots=True)
class Made:
    """How many of one kind were made at one line."""

    kind: str
    birth: Birth
    count: int


@dataclass(frozen=True, slots=True)
class Ops:
    """How often one line ran one type of op, eagerly or while a graph was traced."""

    op: str
    birth: Birth
    count: int
    traced: bool


@dataclass(frozen=True, slots=True)
class NewKeys:
    """A line whose op had attributes never seen before: each such key is a new kernel in the eager context's cache."""

    op: str
    birth: Birth
    count: int
    changed: Changed | None  # the attribute that differs from the line's op before; None where none does


@dataclass(frozen=True, slots=True)
class Scalars:
    """How many distinct Python scalars one line turned into tensors; `at_least` once the count is full."""

    birth: Birth
    distinct: int
    at_least: bool


# -- the user's line -------------------------------------------------------------------------------------------------

_NOT, _USER, _GENERATED = 0, 1, 2
_whose: dict[str, int] = {}  # by file name, so that the walk over frames costs one look-up a frame
_sites: dict[Site, Site] = {}
_maps: dict[str, dict[int, Site]] = {}  # AutoGraph's generated file -> its lines' origins
_UNKNOWN: Site = ("", 0, "")


def user_site(frame: FrameType | None) -> Site | None:
    """The innermost line of the user's at or outside a frame; in AutoGraph's generated code the line it came from."""
    at = frame
    while True:
        found = _walk(at, _whose, _sites)
        if found is None or type(found) is tuple:
            return found
        at = found
        file = at.f_code.co_filename
        kind = _whose.get(file)
        if kind is None:
            _judge(file)
            continue
        site = _site_of_code(at.f_code, at.f_lineno) if kind == _USER else _original(at)
        if site is not None:
            return site
        at = at.f_back


def _walk_in_python(frame: Any, whose: dict[str, int], sites: Mapping[Site, Any]) -> Any:
    """The twin of `probes/_births.c`: what `sites` has for the first frame that is the user's, None past the outermost
    frame, or the frame that must be judged: its file or its line is new, or its code was generated."""
    try:
        while not (kind := whose[frame.f_code.co_filename]):
            frame = frame.f_back
    except KeyError:
        return frame
    except AttributeError:  # past the outermost frame
        return None
    if kind != _USER:
        return frame
    code = frame.f_code
    return sites.get((code.co_filename, frame.f_lineno, code.co_name), frame)


def _choose() -> Callable[[Any, dict[str, int], Mapping[Site, Any]], Any]:
    # An eager Keras op is 20 frames deep, so the walk is much of what the births of ops cost.
    if os.environ.get("TENURE_PURE_PYTHON") != "1" and sys.implementation.name == "cpython":
        try:
            walk: Callable[[Any, dict[str, int], Mapping[Site, Any]], Any] = import_module("tenure.probes._births").site
            return walk
        except ImportError:
            return _walk_in_python
    return _walk_in_python


_walk = _choose()


def _judge(file: str) -> None:
    if len(_whose) >= 10_000:  # each trace has a generated file of its own
        _whose.clear()
    generated = os.path.basename(file).startswith("__autograph_generated_file")
    _whose[file] = _GENERATED if generated else _USER if sources.user_file(file) else _NOT


def _site_of_code(code: CodeType, line: int) -> Site:
    return _intern((code.co_filename, line, code.co_name))


def _intern(site: Site) -> Site:
    known = _sites.get(site)
    if known is None:
        if len(_sites) >= _SITES:
            return _UNKNOWN
        known = _sites.setdefault(site, site)
    return known


def _original(frame: FrameType) -> Site | None:
    """Where a generated line came from, by AutoGraph's source map; None where it does not tell."""
    file = frame.f_code.co_filename
    lines = _maps.get(file)
    if lines is None:
        if len(_maps) >= 256:
            _maps.clear()
        lines = _maps[file] = _read_source_map(frame, file)
    return lines.get(frame.f_lineno)


def _read_source_map(frame: FrameType | None, file: str) -> dict[int, Site]:
    """Copies the map into plain numbers and text: `ag_source_map` of the converted function (TensorFlow 2.16 to 2.22).

    The generated code is called by AutoGraph's `converted_call`, which has the function in a variable.
    """
    while frame is not None:
        if frame.f_code.co_name == "converted_call":
            converted = frame_locals(frame).get("converted_f")
            function = getattr(converted, "__func__", converted)
            code = getattr(function, "__code__", None)
            source_map = getattr(function, "ag_source_map", None)
            if code is not None and code.co_filename == file and isinstance(source_map, dict):
                lines: dict[int, Site] = {}
                for generated, origin in source_map.items():
                    site = (origin.loc.filename, origin.loc.lineno, origin.function_name or "")
                    if generated.filename == file and sources.user_file(site[0]):
                        lines[generated.lineno] = _intern(site)
                return lines
        frame = frame.f_back
    return {}


def _birth(site: Site) -> Birth:
    file, line, function = site
    if not file:
        return Birth("", 0, "", f"(more than {_SITES} lines)")
    return Birth(sources.source_path(file), line, function, sources.line_text(file, line))


# -- what was made ---------------------------------------------------------------------------------------------------


class _Known(weakref.ref[Any]):
    """A weak reference that knows where its object was made."""

    __slots__ = ("key", "number", "site")
    key: int
    number: int
    site: Site


class _AtSite:
    """What is known of the ops of one line."""

    __slots__ = ("last", "looked", "new", "ops", "scalars", "site", "traced")

    def __init__(self, site: Site) -> None:
        self.site = site
        self.ops: dict[str, _Seen] = {}
        self.traced: dict[str, int] = {}
        self.last: dict[str, tuple[str, ...]] = {}  # op -> its last attributes: name, value, name, value, shortened
        self.new: dict[str, _New] = {}
        self.scalars: set[int] = set()
        self.looked = 0


class _Seen:
    """One op of one line: how often, the attributes that it usually has, and whether numbers come with it."""

    __slots__ = ("count", "scalars", "usual")

    def __init__(self, op: str) -> None:
        self.count = 0
        self.usual: list[Sequence[Any]] = []
        self.scalars = op == _SCALAR or op in _TAKES_SCALARS


@dataclass(slots=True)
class _New:
    count: int = 0
    argument: str | None = None
    values: tuple[str, ...] = ()


class Births:
    """Notes where things are made, from `start()` to `stop()`, on all threads.

    `mark()` begins a new count beside the one over all. While `explain_ops` is on, eager ops are noted too, on the
    calling thread and on threads that start later. Without TensorFlow the hooks wait for its import.
    """

    def __init__(self) -> None:
        self._lock = threading.RLock()  # an RLock: a finaliser may make a variable inside
        self._counts: dict[tuple[str, Site], int] = {}
        self._at_mark: dict[tuple[str, Site], int] = {}
        self._known: dict[int, _Known] = {}
        self._numbered = 0
        self._uninstall: Callable[[], None] | None = None
        self._watch: Any = None
        self._at: dict[Site, _AtSite] = {}
        self._ops_at_mark: dict[tuple[Site, str, bool], int] = {}
        self._keys: set[int] = set()
        self._marked = False
        self._forget = self._forgetter()

    def start(self) -> None:
        """Hooks the constructors. A second call does nothing."""
        if self._uninstall is None:
            from tenure.probes.tf import hooks

            undo_made, undo_calls = hooks.install(self._made), hooks.install_calls(self._called)

            def uninstall() -> None:
                undo_calls()
                undo_made()

            self._uninstall = uninstall
            _noting.add(self)

    def stop(self) -> None:
        """Takes everything off again; what was noted stays readable."""
        self.explain_ops(False)
        if self._uninstall is not None:
            self._uninstall()
            self._uninstall = None
            _noting.discard(self)

    def mark(self) -> None:
        """From here on, `since_mark` counts begin at 0 and every (op, attributes) not seen before is a new key."""
        with self._lock:
            self._at_mark = dict(self._counts)
            self._ops_at_mark = dict(self._op_counts())
            for at in list(self._at.values()):
                at.new.clear()
                at.scalars.clear()
                at.looked = 0
            self._marked = True

    def missing(self) -> tuple[Missing, ...]:
        """What could not be hooked or noted, and why."""
        from tenure.probes.tf import hooks

        missing = [Missing(f"births: {what}", why) for what, why in hooks.missing().items()]
        if self._watch is not None and self._watch.failed:
            missing.append(Missing("births of ops", self._watch.failed))
        if len(self._keys) >= _KEYS:
            missing.append(Missing("new op attributes", f"more than {_KEYS} were seen; later ones were not told apart"))
        return tuple(missing)

    def made(self, *, since_mark: bool = False) -> list[Made]:
        """What was made and where, the most frequent first."""
        with self._lock:
            counts = dict(self._counts)
            before = self._at_mark if since_mark else {}
        rows = [(kind, site, count - before.get((kind, site), 0)) for (kind, site), count in counts.items()]
        rows.sort(key=lambda row: -row[2])
        return [Made(kind, _birth(site), count) for kind, site, count in rows if count > 0]

    def site_of(self, thing: object) -> Birth | None:
        """Where a thing was made, or None where that is not known. Keeps nothing."""
        known = self._known.get(id(thing))
        if known is not None and known() is thing:
            return _birth(known.site)
        if type(thing).__name__ == "EagerTensor":
            site = getattr(thing, "_tenure_birth", None)
            if type(site) is tuple:
                return _birth(site)
        return None

    def number_of(self, thing: object) -> int:
        """A number that is larger for what was made later; 0 for a thing whose birth is not known."""
        known = self._known.get(id(thing))
        return known.number if known is not None and known() is thing else 0

    def _made(self, kind: str, thing: object) -> None:
        site = user_site(sys._getframe(1))
        if site is None:
            return
        with self._lock:
            key = (kind, site)
            self._counts[key] = self._counts.get(key, 0) + 1
            known = self._known.get(id(thing))
            if known is not None and known() is thing:
                return  # a subclass's constructor told it already
            try:
                known = _Known(thing, self._forget)
            except TypeError:  # no weak references to it: counted, not remembered
                return
            self._numbered += 1
            known.key, known.site, known.number = id(thing), site, self._numbered
            if len(self._known) >= _OBJECTS:
                self._known.pop(next(iter(self._known)), None)
            self._known[known.key] = known

    def _called(self, what: str, when: str, model: object, items: int | None = None) -> None:
        """A fit, evaluate, predict or train_on_batch begins: counted by its line like a thing that is made.

        One with a single item is counted once more, as `predict-one` and so on.
        """
        if when != "enter":
            return
        site = user_site(sys._getframe(1))
        if site is not None:
            with self._lock:
                for kind in (what, f"{what}-one") if items == 1 else (what,):
                    self._counts[kind, site] = self._counts.get((kind, site), 0) + 1

    def _forgetter(self) -> Callable[[_Known], None]:
        known = self._known

        def forget(reference: _Known) -> None:
            # Ids are reused: a new object may stand there already.
            if known.get(reference.key) is reference:
                del known[reference.key]

        return forget

    # -- ops ---------------------------------------------------------------------------------------------------------

    def explain_ops(self, on: bool = True) -> None:
        """Notes each op's line from now on, or stops. Raises ProbeError where TensorFlow's callbacks can't be had."""
        if on and self._watch is None:
            from tenure.probes.tf.callbacks import OpWatch

            watch = OpWatch(self._teller())
            watch.start()
            self._watch = watch
        elif not on and self._watch is not None:
            self._watch.stop()
            self._watch = None

    def ops(self, *, since_mark: bool = False) -> list[Ops]:
        """The ops that ran while they were noted, by line and type, the most frequent first."""
        before = self._ops_at_mark if since_mark else {}
        rows = [(key, count - before.get(key, 0)) for key, count in self._op_counts()]
        rows.sort(key=lambda row: -row[1])
        return [Ops(op, _birth(site), count, traced) for (site, op, traced), count in rows if count > 0]

    def new_keys(self) -> list[NewKeys]:
        """Lines that, since the mark, ran an op with attributes never seen before, the most frequent first."""
        found = []
        for at in list(self._at.values()):
            for op, new in list(at.new.items()):
                changed = Changed(new.argument, new.values) if new.argument is not None else None
                found.append(NewKeys(op, _birth(at.site), new.count, changed))
        return sorted(found, key=lambda row: -row.count)

    def scalars(self) -> list[Scalars]:
        """Lines that, since the mark, turned Python scalars into tensors, with how many distinct ones."""
        rows = [(at.site, len(at.scalars)) for at in list(self._at.values()) if at.scalars]
        rows.sort(key=lambda row: -row[1])
        return [Scalars(_birth(site), count, count >= _VALUES) for site, count in rows]

    def _op_counts(self) -> Iterable[tuple[tuple[Site, str, bool], int]]:
        for at in list(self._at.values()):
            for op, seen in list(at.ops.items()):
                yield (at.site, op, False), seen.count
            for op, count in list(at.traced.items()):
                yield (at.site, op, True), count

    def _teller(self) -> Callable[[str, Sequence[Any], Sequence[Any], Sequence[Any], Any], None]:
        """What `OpWatch` tells each op to: one function with what it needs in its cells, as it runs for every op."""
        walk, whose, known, frame_of = _walk, _whose, self._at, sys._getframe

        def note(op: str, attrs: Sequence[Any], inputs: Sequence[Any], outputs: Sequence[Any], graph: Any) -> None:
            # No lock: a count that two threads raise at once may lose one; a lock would cost each op.
            at = walk(frame_of(2), whose, known)  # the callback's own two frames are none of the user's
            if type(at) is not _AtSite:
                site = user_site(at)
                if site is None:
                    return
                at = known.get(site) or known.setdefault(site, _AtSite(site))
            if graph is not None:
                at.traced[op] = at.traced.get(op, 0) + 1
                return
            for output in outputs:
                output._tenure_birth = at.site
            seen = at.ops.get(op)
            if seen is None:
                seen = at.ops.setdefault(op, _Seen(op))
            seen.count += 1
            # Attributes that were here before are the same few objects; in a hash a DType is asked in Python.
            if attrs and attrs not in seen.usual:
                self._note_attributes(at, op, attrs)
                if len(seen.usual) < _USUAL and _holds_nothing(attrs):
                    seen.usual.append(attrs)
            if seen.scalars:
                _note_scalars(at, op, inputs)

        return note

    def _note_attributes(self, at: _AtSite, op: str, attrs: Sequence[Any]) -> None:
        try:
            key = hash((op, attrs))
        except TypeError:  # a list of shapes, a function's proto
            key = hash((op, *_shortened(attrs)))
        if key in self._keys or len(self._keys) >= _KEYS:
            return
        self._keys.add(key)
        values = _shortened(attrs)
        last, at.last[op] = at.last.get(op), values
        if not self._marked:
            return
        new = at.new.setdefault(op, _New())
        new.count += 1
        if last is None or len(last) != len(values):
            return
        for place in range(0, len(values), 2):
            if last[place + 1] != values[place + 1]:
                if new.argument != values[place]:
                    new.argument, new.values = values[place], (last[place + 1],)
                new.values = (*new.values, values[place + 1])[-_LAST:]
                return


_noting: weakref.WeakSet[Births] = weakref.WeakSet()


def noting() -> Births | None:
    """The births that are being noted in this process, or None."""
    return next(iter(_noting), None)


_TAKES_SCALARS = frozenset(("AddV2", "Sub", "Mul", "RealDiv", "FloorDiv", "FloorMod", "Pow", "Maximum", "Minimum")) | {
    *("Less", "LessEqual", "Greater", "GreaterEqual", "Equal", "NotEqual", "SelectV2")
}
_LOOKS = 64  # ops of a line whose operands are looked at: 2 us each, and enough to tell which line brings new numbers
_USUAL = 4  # attributes of an op at a line that are known at once: mostly one or two types
_LASTING = frozenset((int, float, bool))
_SCALAR = "PythonValueToTensor"  # callbacks.SCALAR, without importing it before TensorFlow is there
_SCALAR_TYPES = (int, float, bool, complex)


def _note_scalars(at: _AtSite, op: str, inputs: Sequence[Any]) -> None:
    """`x + 0.1` turns the number into a tensor in C, where nothing tells it: what no op has made may be one."""
    if op == _SCALAR:
        if type(inputs[0]) in _SCALAR_TYPES and len(at.scalars) < _VALUES:
            at.scalars.add(hash((type(inputs[0]), inputs[0])))
    elif at.looked < _LOOKS:
        at.looked += 1
        for tensor in inputs:
            if tensor.shape.rank == 0 and not hasattr(tensor, "_tenure_birth") and "CPU" in tensor.backing_device:
                at.scalars.add(hash(tensor.numpy().tobytes()))


def _holds_nothing(attrs: Sequence[Any]) -> bool:
    """Whether these attributes may be kept: an attribute can be a function with all that it holds, or a long text."""
    return all(
        len(value) <= _SHORT if type(value) is str else type(value) in _LASTING or type(value).__name__ == "DType"
        for value in attrs
    )


def _shortened(attrs: Sequence[Any]) -> tuple[str, ...]:
    """Names and values of an op's attributes as short text: an attribute's object would keep the function behind it."""
    return tuple(_short(value) for value in attrs)


def _short(value: Any) -> str:
    if is_a(value, bytes):
        try:
            value = value.decode()
        except UnicodeDecodeError:
            value = f"({len(value)} bytes)"
        if not value.isprintable():  # a serialised proto: nobody reads it
            value = f"({len(value)} bytes)"
    elif not is_a(value, (str, int, float, bool, type(None), list, tuple)):
        name = getattr(value, "name", None)
        value = name if is_a(name, (str, bytes)) else type(value).__name__ if callable(value) else str(value)
    text = str(value)
    return text if len(text) <= _SHORT else f"{text[: _SHORT - 3]}..."
