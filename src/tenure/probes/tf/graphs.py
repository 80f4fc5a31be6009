"""What a graph holds: its operations, the program's lines that made the last of them, and the sessions on it.

TensorFlow 1 graphs grow by each op that a loop adds; a session's graph tells lines by `op.traceback`.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import tensorflow as tf
from tensorflow.python.framework import func_graph, ops

from tenure.probes.kinds import is_a

__all__ = ["OpLine", "default_graph", "is_func_graph", "is_graph", "last_ops", "op_count", "self_test", "session_state"]


@dataclass(frozen=True, slots=True)
class OpLine:
    """An operation and the frames of its creation, outermost first, as (file, line, function, text).

    TensorFlow's own frames are among them: the program's is the last that is not its. The text is empty where
    TensorFlow keeps none (2.16 to 2.21).
    """

    name: str
    type: str
    frames: tuple[tuple[str, int, str, str], ...]


def is_graph(obj: object) -> bool:
    """Whether this is a `tf.Graph`, a function's graph included."""
    return is_a(obj, ops.Graph)


def is_func_graph(obj: object) -> bool:
    """Whether this is a function's graph."""
    return is_a(obj, func_graph.FuncGraph)


def default_graph() -> Any:
    """The outermost default graph of this thread: a TensorFlow 1 program's own, an idle one under eager execution."""
    graph = tf.compat.v1.get_default_graph()
    while getattr(graph, "outer_graph", None) is not None:
        graph = graph.outer_graph
    return graph


def op_count(graph: Any) -> int:
    """How many operations the graph has, without making Python objects for them where that can be helped."""
    count = getattr(graph, "num_operations", None)  # 2.16 and later have it in the C++ base
    return int(count()) if callable(count) else len(graph.get_operations())


def last_ops(graph: Any, count: int = 8) -> tuple[OpLine, ...]:
    """The operations made last, oldest first, with the frames that made them."""
    return tuple(OpLine(op.name, op.type, _frames(op)) for op in graph.get_operations()[-count:])


def session_state(session: Any) -> tuple[bool, int]:
    """Whether a session is closed, and how many operations its graph has."""
    return bool(getattr(session, "_closed", False)), op_count(session.graph)


def self_test() -> str | None:
    """None when a graph's growth shows and an op tells its frames; else the reason."""
    graph = ops.Graph()
    with graph.as_default():
        before = op_count(graph)
        tf.constant(1.0)
    if op_count(graph) != before + 1:
        return "a graph's operations can't be counted"
    last = last_ops(graph, 1)
    if not last or not last[0].frames:
        return "an operation does not tell where it was made"
    return None


def _frames(op: Any) -> tuple[tuple[str, int, str, str], ...]:
    try:
        trace = op.traceback
    except (AttributeError, TypeError):
        return ()
    return tuple((frame.filename, int(frame.lineno), frame.name, frame.line or "") for frame in trace or ())
