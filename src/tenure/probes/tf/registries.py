"""The framework's registries that keep a program's objects alive: gradients by name, and Python functions by token.

`ops.gradient_registry` gets one `CustomGradient-N` entry for each trace of a `tf.custom_gradient` function; its closure
holds the whole FuncGraph and nothing removes it (TensorFlow 2.16 to 2.21; in 2.22 the entry stays, its graph goes;
tensorflow#27492, #97697). `script_ops` appends each Python function to the outermost graph's list, never
removes it, and hangs it on the program's function (`ag_dnc_wrapper__`); its token registry is weak. What an eager
`py_function` did under a tape stays in `script_ops.tape_cache`, with its tensors, until its gradient is taken.
"""

from __future__ import annotations

import types
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

from tensorflow.python.framework import func_graph, ops
from tensorflow.python.ops import script_ops

from tenure.probes import ProbeError
from tenure.probes.kinds import is_a

__all__ = [
    "GRADIENTS",
    "PY_FUNCTIONS",
    "PY_FUNCTION_TAPES",
    "Entry",
    "PyFunction",
    "entries",
    "py_function_count",
    "py_functions",
    "registry_objects",
    "remove",
    "remove_py_functions",
    "self_test_gradients",
    "self_test_py_functions",
    "size",
]

GRADIENTS = "TensorFlow's gradient registry"
PY_FUNCTIONS = "TensorFlow's list of Python functions"
PY_FUNCTION_TAPES = "TensorFlow's tapes of Python functions"

_PREFIX = "CustomGradient-"


@dataclass(frozen=True, slots=True)
class Entry:
    """One `CustomGradient-*` entry. It refers to the program's objects: use it within the call, never keep it.

    `graphs` are the FuncGraphs met within a few steps of the function's closure: the first of them holds the rest.
    """

    name: str
    function: Any
    graphs: tuple[Any, ...]


@dataclass(frozen=True, slots=True)
class PyFunction:
    """One function in an outermost graph's list. It refers to the program's objects: use it within the call.

    `function` is what TensorFlow keeps (an `EagerFunc` or the callable), `user_function` what the program gave.
    """

    token: str | None
    function: Any
    user_function: Any


_counted: tuple[int, int] = (-1, 0)  # the registry's length when it was counted, and the count


def size() -> int:
    """How many `CustomGradient-*` entries there are. Cheap enough for a counter at each tick."""
    global _counted
    gradients = _gradients()
    if len(gradients) != _counted[0]:  # 600 names take 50 us, and nothing but those entries comes and goes
        _counted = (len(gradients), sum(1 for name in list(gradients) if name.startswith(_PREFIX)))
    return _counted[1]


def entries() -> list[Entry]:
    """The `CustomGradient-*` entries with their functions and the FuncGraphs reachable directly from their closures."""
    return [
        Entry(name, function, tuple(_closure_graphs(function)))
        for name, value in list(_gradients().items())
        if name.startswith(_PREFIX)
        for function in [_candidate(value)]
    ]


def registry_objects() -> list[tuple[str, Any]]:
    """Label and container of each registry that a walk must take as a root of the last tier.

    The containers are TensorFlow's own and live as long as the process: what only they reach is an orphan.
    """
    found: list[tuple[str, Any]] = [(GRADIENTS, _gradients())]
    found += [(PY_FUNCTIONS, functions) for functions in _py_function_lists()]
    tapes = _py_function_tapes()
    return [*found, (PY_FUNCTION_TAPES, tapes)] if tapes else found


def remove(names: Iterable[str]) -> int:
    """Removes these `CustomGradient-*` entries; how many there were. A live function's gradient needs its entry:
    give names whose graphs nothing else reaches."""
    gradients = _gradients()
    removed = 0
    for name in names:
        if not name.startswith(_PREFIX):
            raise ValueError(f"{name!r} is no gradient of a custom function, and TensorFlow needs it")
        removed += gradients.pop(name, None) is not None
    return removed


def py_function_count() -> int:
    """How many registered Python functions are alive, whoever keeps them. Any thread; cheap enough for each tick."""
    return int(_token_registry().size())


def py_functions() -> list[PyFunction]:
    """The functions that this thread's outermost graphs keep, with the tokens that kernels and datasets call by."""
    tokens = {id(function): token for token, function in list(_token_registry()._funcs.items())}
    return [
        PyFunction(tokens.get(id(function)), function, _user_function(function))
        for functions in _py_function_lists()
        for function in list(functions)
    ]


def remove_py_functions(tokens: Iterable[str]) -> int:
    """Drops these functions from this thread's outermost graphs' lists, and their tapes; how many functions there were.

    A live dataset or a gradient still to come may call a token: give only what is provably dead. Without it the call
    fails with "Could not find callback with key=pyfunc_N in the registry".
    """
    tokens = list(tokens)
    registry = _token_registry()
    for token in tokens:
        _py_function_tapes().pop(token.encode(), None)
    doomed = {id(function) for token in tokens if (function := registry.get(token)) is not None}
    removed = 0
    for functions in _py_function_lists():
        kept = [function for function in functions if id(function) not in doomed]
        removed += len(functions) - len(kept)
        functions[:] = kept
    return removed


def self_test_gradients() -> str | None:
    """None when a gradient can be registered, seen and removed; else the reason."""
    name = f"{_PREFIX}tenure-self-test"
    before = size()
    ops.RegisterGradient(name)(lambda op, *grads: None)
    seen, listed = size() - before, any(entry.name == name for entry in entries())
    removed = remove([name])
    if (seen, listed, removed, size()) != (1, True, 1, before):
        return "a gradient that was registered can't be seen and removed again"
    return None


def self_test_py_functions() -> str | None:
    """None when the token registry has the shape that is known; else the reason."""
    registry = _token_registry()
    if not callable(getattr(registry, "get", None)) or not hasattr(registry, "insert"):
        return "script_ops' registry of Python functions has another shape"
    _py_function_lists()
    return None


def _gradients() -> dict[str, Any]:
    registry = getattr(ops.gradient_registry, "_registry", None)
    if not isinstance(registry, dict):
        raise ProbeError("this TensorFlow's gradient registry is no dict")
    return registry


def _candidate(value: Any) -> Any:
    return value.get("type") if is_a(value, dict) else value


def _token_registry() -> Any:
    registry = getattr(script_ops, "_py_funcs", None)
    if registry is None or not hasattr(registry, "_funcs"):
        raise ProbeError("this TensorFlow keeps no script_ops._py_funcs")
    return registry


def _py_function_tapes() -> dict[bytes, Any]:
    tapes = getattr(script_ops, "tape_cache", None)
    return tapes if isinstance(tapes, dict) else {}


def _py_function_lists() -> list[list[Any]]:
    """The lists on this thread's default graphs, which live as long as the thread (TensorFlow keeps one a thread).

    A graph that is not there yet is not made. A graph that a program made itself keeps its own list, and ends with it.
    """
    stack = ops._default_graph_stack
    lists: dict[int, list[Any]] = {}
    for graph in (getattr(stack, "_global_default_graph", None), *stack.stack):
        while getattr(graph, "outer_graph", None) is not None:
            graph = graph.outer_graph
        functions = getattr(graph, "_py_funcs_used_in_graph", None)
        if isinstance(functions, list):
            lists[id(functions)] = functions
    return list(lists.values())


def _user_function(function: Any) -> Any:
    """The program's function under TensorFlow's wrappers (`EagerFunc._func`, autograph's `__wrapped__`)."""
    inner = getattr(function, "_func", function)
    for _ in range(8):
        wrapped = getattr(inner, "__wrapped__", None)
        if wrapped is None:
            break
        inner = wrapped
    return inner


def _closure_graphs(function: Any, depth: int = 6) -> list[Any]:
    """FuncGraphs within `depth` steps of the function: closures, short lists, and the graphs of tensors in them.

    Five steps reach the arguments: internal_grad_fn, tape_grad_fn, its cells, a list of tensors, their graph.
    """
    found: dict[int, Any] = {}
    seen: set[int] = set()
    level = [function]
    for _ in range(depth):
        following: list[Any] = []
        for item in level:
            if id(item) in seen:
                continue
            seen.add(id(item))
            if is_a(item, func_graph.FuncGraph):
                found.setdefault(id(item), item)
            elif is_a(item, types.FunctionType):
                following += [cell.cell_contents for cell in item.__closure__ or () if _filled(cell)]
            elif is_a(item, (list, tuple)):
                following += list(item)[:64]
            elif type(item).__module__.startswith("tensorflow."):
                graph = _graph_of(item)
                if is_a(graph, func_graph.FuncGraph):
                    found.setdefault(id(graph), graph)
        level = following
    return list(found.values())


def _filled(cell: types.CellType) -> bool:
    try:
        return cell.cell_contents is not None
    except ValueError:  # the cell's variable was deleted
        return False


def _graph_of(item: Any) -> Any:
    """A symbolic tensor's or an operation's graph; None for the rest (an eager tensor's `.graph` raises)."""
    try:
        return item.graph
    except (AttributeError, NotImplementedError):
        return None
