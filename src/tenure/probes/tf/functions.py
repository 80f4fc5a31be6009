"""What a polymorphic `tf.function` holds: its traces by signature, and which argument makes new ones.

Read from `_function_cache` (2.16 to 2.21), an ordered map of (context, type) to ConcreteFunction, in order of tracing.
Values are shortened to text at once; no trace record refers to the program's objects.
"""

from __future__ import annotations

import itertools
import re
import reprlib
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import tensorflow as tf
from tensorflow.core.function.trace_type import default_types
from tensorflow.python.eager import context
from tensorflow.python.eager.polymorphic_function import polymorphic_function

from tenure.probes import ProbeError
from tenure.probes.kinds import is_a

__all__ = [
    "Argument",
    "ChangedArgument",
    "Trace",
    "changed_argument",
    "is_function",
    "library_names",
    "name",
    "plain_name",
    "self_test",
    "site",
    "trace_count",
    "traces",
]

# `__inference_NAME_123`, `__forward_NAME_123`, `__backward_NAME_123`, with TensorFlow's own digits on both ends.
_TRACED = re.compile(r"^__(?:inference|forward|backward)_(?P<name>.+)_\d+$")

_short = reprlib.Repr()
_short.maxstring = _short.maxother = 60
_short.maxtuple = _short.maxlist = _short.maxdict = 4


class Argument(NamedTuple):
    """One leaf of a signature. `kind`: tensor, python-value, object or other. `key` is equal when TensorFlow would
    take two leaves for the same, `text` is for people. `shape` and `dtype` are texts, for tensors only."""

    kind: str
    text: str
    key: str
    shape: str = ""
    dtype: str = ""


@dataclass(frozen=True, slots=True)
class Trace:
    """One ConcreteFunction: its name without digits, its leaves by path (`step`, `config['rate']`, `batch[0]`), and
    where it was called from (`context` is equal for calls from eager code on one device)."""

    name: str
    arguments: Mapping[str, Argument]
    context: str


class ChangedArgument(NamedTuple):
    """The leaf that differs between successive traces, its last values, and what about it changes: `python-value`,
    `shape`, `dtype`, `object`, or None when something else does (another structure, another calling context)."""

    argument: str
    values: tuple[str, ...]
    kind: str | None


def is_function(obj: object) -> bool:
    """Whether this is a polymorphic `tf.function`."""
    return is_a(obj, polymorphic_function.Function)


def name(function: Any) -> str:
    """The function's name as TensorFlow uses it for its traces."""
    return str(getattr(function, "name", "") or getattr(function, "__name__", "") or "function")


def jit_compiled(function: Any) -> bool:
    """Whether XLA compiles the function (`jit_compile=True`): one executable for each signature, never evicted."""
    return getattr(function, "_jit_compile", None) is True


def compiles_each_shape(function: Any) -> bool:
    """Whether one trace of a function that XLA compiles takes many shapes: each new one is compiled without a trace."""
    leaves = (leaf for trace in traces(function) for leaf in trace.arguments.values())
    return jit_compiled(function) and any("?" in (leaf.shape or "") for leaf in leaves)


def site(function: Any) -> tuple[str, int] | None:
    """File and first line of the Python function under its decorators; None when it has no code of its own."""
    inner = getattr(function, "python_function", function)
    for _ in range(16):
        target = getattr(inner, "__wrapped__", None) or getattr(inner, "__func__", None)
        if target is None:
            break
        inner = target
    code = getattr(inner, "__code__", None) or getattr(getattr(inner, "func", None), "__code__", None)
    return (code.co_filename, code.co_firstlineno) if code is not None else None


def trace_count(function: Any) -> int:
    """How many traces the function holds. Cheap enough for a counter at each tick."""
    return len(_cache(function))


def traces(function: Any) -> list[Trace]:
    """The function's traces in the order they were made, by signature."""
    found = []
    for key, concrete in list(_cache(function).items()):
        where, function_type = key if isinstance(key, tuple) and len(key) == 2 else ("", concrete.function_type)
        leaves: dict[str, Argument] = {}
        for parameter in function_type.parameters.values():
            for path, argument in _leaves(parameter.name, getattr(parameter, "type_constraint", None)):
                leaves[path] = argument
        text = concrete.name.decode() if isinstance(concrete.name, bytes) else str(concrete.name)
        found.append(Trace(plain_name(text), leaves, _context_text(where)))
    return found


def changed_argument(found: Sequence[Trace], last: int = 12) -> ChangedArgument | None:
    """The leaf that changes most often between successive traces of the last ones; None with fewer than two traces.

    The values are the changing leaf's last three, in order.
    """
    recent = list(found)[-last:]
    if len(recent) < 2:
        return None
    changes: dict[str, list[str]] = {}
    others = 0
    for before, after in itertools.pairwise(recent):
        differing = [
            (path, kind)
            for path in before.arguments.keys() & after.arguments.keys()
            if (kind := _difference(before.arguments[path], after.arguments[path])) is not None
        ]
        for path, kind in differing:
            changes.setdefault(path, []).append(kind)
        others += not differing
    order = {path: place for place, path in enumerate(recent[-1].arguments)}
    ranked = sorted(changes, key=lambda path: (-len(changes[path]), order.get(path, len(order))))
    if not ranked or others > len(changes[ranked[0]]):
        return _changed_otherwise(recent)
    path = ranked[0]
    kinds = changes[path]
    values = tuple(trace.arguments[path].text for trace in recent if path in trace.arguments)[-3:]
    return ChangedArgument(path, values, max(set(kinds), key=kinds.count))


def plain_name(text: str) -> str:
    """A function's name without what TensorFlow adds to each trace: `__inference_step_123` -> `step`."""
    while match := _TRACED.match(text):  # a gradient's name wraps its function's: __backward___inference_step_12_34
        text = match["name"]
    return text


def library_names() -> frozenset[str]:
    """The names of all functions that remain in the eager context's library. A dropped trace leaves it with its
    graph; what remains though its `tf.function` is gone is kept by something."""
    listed = getattr(context.context(), "list_function_names", None)
    if listed is None:
        raise ProbeError("this TensorFlow's context can't list its functions")
    context.ensure_initialized()
    return frozenset(entry.decode() if isinstance(entry, bytes) else str(entry) for entry in listed())


def self_test() -> str | None:
    """None when two traces of a small function tell the value that made them; else the reason."""

    def tenure_self_test(x: Any, step: Any) -> Any:
        return x

    function = tf.function(tenure_self_test, autograph=False)
    x = tf.constant(1.0)
    function(x, 1)
    function(x, 2)
    found = changed_argument(traces(function))
    if found != ("step", ("1", "2"), "python-value"):
        return f"two traces by step=1 and step=2 read as {found}"
    return None


def _cache(function: Any) -> Mapping[Any, Any]:
    cache = getattr(function, "_function_cache", None)
    primary = getattr(cache, "_primary", None)
    if primary is None:
        raise ProbeError("this TensorFlow's functions keep no _function_cache")
    return primary  # type: ignore[no-any-return]


def _leaves(path: str, constraint: Any, depth: int = 0) -> Iterator[tuple[str, Argument]]:
    """The leaves of a trace type by path. Composite specs (datasets, iterators) are told by what they contain."""
    if depth > 6:
        yield path, _opaque(constraint)
        return
    inner: list[tuple[str, Any]]
    if isinstance(constraint, default_types.List):
        constraint = constraint.components_tuple
    if isinstance(constraint, default_types.Tuple):
        inner = [(f"{path}[{place}]", part) for place, part in enumerate(constraint.components)]
    elif isinstance(constraint, default_types.Dict):
        inner = [(f"{path}[{key!r}]", part) for key, part in constraint.mapping.items()]
    elif isinstance(constraint, (default_types.NamedTuple, default_types.Attrs)):
        named = getattr(constraint, "named_attributes", constraint)
        fields = zip(named.attribute_names, named.attributes.components, strict=True)
        inner = [(f"{path}.{field}", part) for field, part in fields]
    elif isinstance(constraint, (tuple, list)):
        inner = [(f"{path}[{place}]", part) for place, part in enumerate(constraint)]
    elif isinstance(constraint, dict):
        inner = [(f"{path}[{key!r}]", part) for key, part in constraint.items()]
    elif (spec := getattr(constraint, "_element_spec", None)) is not None:
        inner = [(f"{path}'s elements", spec)]
    else:
        yield path, _leaf(constraint)
        return
    if not inner:
        yield path, _opaque(constraint)
    for below, part in inner:
        yield from _leaves(below, part, depth + 1)


def _leaf(constraint: Any) -> Argument:
    if isinstance(constraint, default_types.Literal):
        value = constraint.value
        text = "nan" if value is getattr(default_types, "NanMarker", object()) else _short.repr(value)
        return Argument("python-value", text, f"{type(value).__name__} {hash(value)} {text}")
    if isinstance(constraint, default_types.Weakref):
        target = constraint._ref()
        if target is None:  # TensorFlow never takes a dead reference for equal: a bound method dies at once
            return Argument("object", "an object that is gone", f"gone {id(constraint._ref)}")
        label = getattr(target, "__qualname__", None)
        text = f"{type(target).__name__} {label}" if isinstance(label, str) else type(target).__name__
        return Argument("object", text, f"alive {id(target)}")
    shape, dtype = getattr(constraint, "shape", None), getattr(constraint, "dtype", None)
    if dtype is not None and hasattr(dtype, "name"):
        shape_text = "[?]" if shape is None or shape.rank is None else str([_size(size) for size in shape.as_list()])
        shape_text = shape_text.replace("'", "")
        text = f"{dtype.name}{shape_text}"
        return Argument("tensor", text, text, shape_text, str(dtype.name))
    return _opaque(constraint)


def _opaque(constraint: Any) -> Argument:
    text = _short.repr(constraint)
    # A ragged or sparse spec, a custom trace type: its whole text is what it is compared by.
    return Argument("other", text, repr(constraint))


def _size(size: int | None) -> int | str:
    return "?" if size is None else size


def _difference(before: Argument, after: Argument) -> str | None:
    """What differs between two leaves, None when TensorFlow takes them for the same."""
    if before.key == after.key:
        return None
    if before.kind != after.kind:
        return after.kind if after.kind in ("python-value", "object") else "dtype"
    if after.kind == "tensor":
        return "shape" if before.shape != after.shape else "dtype"
    return after.kind if after.kind in ("python-value", "object") else "object"


def _changed_otherwise(recent: Sequence[Trace]) -> ChangedArgument:
    """Nothing that two traces share differs: the number of leaves does (a list that grows), or the calling context."""
    before, after = recent[-2].arguments.keys(), recent[-1].arguments.keys()
    grown = sorted(after ^ before)
    if grown:
        container = _container(grown[0])
        counts = [sum(_container(path) == container for path in trace.arguments) for trace in recent[-3:]]
        return ChangedArgument(container, tuple(f"{count} leaves" for count in counts), "shape")
    return ChangedArgument("(calling context)", tuple(trace.context for trace in recent[-3:]), None)


def _container(path: str) -> str:
    """The argument that a leaf's path starts with."""
    return re.split(r"[.\[]", path)[0]


def _context_text(where: Any) -> str:
    """The calling context as text: device scopes, strategies and the graph that called, without addresses' noise."""
    inner = getattr(where, "context", None)
    if inner is None:
        return ""
    graph = getattr(inner, "parent_graph", None)
    devices = getattr(inner, "device_functions", ())
    scope = getattr(getattr(where, "scope_type", None), "name", "")
    return " ".join(
        part
        for part in (
            f"in graph {getattr(graph, 'name', '')} {id(graph):x}" if graph is not None else "eager",
            f"devices {_short.repr(devices)}" if devices else "",
            scope,
        )
        if part
    )
