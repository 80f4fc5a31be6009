"""Each eager op, each op of a graph being traced, and each Python scalar that becomes a tensor, told as it happens.

TensorFlow's own op callbacks (`op_callbacks.add_op_callback`, 2.16 to 2.22) are per thread, so threads that start while
the watch is on get theirs as they start. Threads that ran before, and TensorFlow's own (tf.data), have none.
`tf.constant` raises no callback: `convert_to_eager_tensor` is wrapped for it. Scalars that C converts on its fast path
stay unseen. A step of 0.7 ms took 1.02 times its CPU with an empty callback.
"""

from __future__ import annotations

import functools
import sys
import threading
from collections.abc import Callable, Sequence
from types import ModuleType
from typing import Any

from tenure.probes import ProbeError
from tenure.probes.kinds import is_a

__all__ = ["SCALAR", "OnOp", "OpWatch", "self_test"]

SCALAR = "PythonValueToTensor"
"""The op type under which values that became tensors are told: the value is the one input."""

OnOp = Callable[[str, Sequence[Any], Sequence[Any], Sequence[Any], Any], None]
"""Called with op type, attributes (name, value, name, value, ...), inputs, outputs, graph (None when eager)."""


class OpWatch:
    """Calls `on_op(op_type, attrs, inputs, outputs, graph)` for each op from `start()` to `stop()`.

    The callee must keep nothing it is given but strings: attributes hold ConcreteFunctions (243 KB a tick seen).
    An exception in it ends the watch: `failed` says which, and the program never sees it. Only one watch may run.
    """

    _running: OpWatch | None = None

    def __init__(self, on_op: OnOp) -> None:
        self.failed: str | None = None
        self._on_op = on_op
        self._on = False  # ops are told
        self._started = False  # and what start() changed is still changed, also after the callee failed
        self._restore: list[Callable[[], None]] = []
        self._own = threading.local()

    def start(self) -> None:
        """Begins on this thread and on all that start from now. A second call does nothing."""
        if self._started:
            return
        if OpWatch._running is not None:
            raise ProbeError("another watch of the ops is running")
        self._on = self._started = True
        OpWatch._running = self
        try:
            self._patch_convert()
            self._patch_threads()
            self._join_thread()
        except Exception as error:
            self.stop()
            raise ProbeError(f"the ops can't be watched ({type(error).__name__}: {error})") from error

    def stop(self) -> None:
        """Ends it and puts everything back. Other threads' callbacks leave at their next op. Safe to call again."""
        if not self._started:
            return
        self._on = self._started = False
        OpWatch._running = None
        for restore in reversed(self._restore):
            restore()
        self._restore.clear()
        self._leave_thread()

    def _join_thread(self) -> None:
        from tensorflow.python.framework import op_callbacks

        op_callbacks.add_op_callback(self._thread_callback())

    def _leave_thread(self) -> None:
        from tensorflow.python.eager import context, execute
        from tensorflow.python.framework import op_callbacks

        # A callback that is not there raises.
        if self._thread_callback() in context.context().op_callbacks:
            op_callbacks.remove_op_callback(self._thread_callback())
        # While a function is traced TensorFlow leaves its slower `execute` in place; with no callback it acts the same.
        elif not context.context().op_callbacks and execute.execute is execute.execute_with_callbacks:
            execute.execute = execute.quick_execute

    def _thread_callback(self) -> Callable[..., None]:
        """The calling thread's callback: its own, so that it can tell in a variable whether it is under way."""
        callback: Callable[..., None] | None = getattr(self._own, "callback", None)
        if callback is None:
            callback = self._own.callback = self._teller()
        return callback

    def _teller(self) -> Callable[..., None]:
        """An op callback, as one function with what it needs in its cells, because it runs for every op.

        TensorFlow's own part is 0.3 us an op; a `threading.local` instead of the cell costs 0.3 more.
        """
        on_op, inside = self._on_op, False

        def callback(
            op_type: str | bytes,
            inputs: Sequence[Any],
            attrs: Sequence[Any],
            outputs: Sequence[Any],
            op_name: str | None = None,
            graph: Any = None,
        ) -> None:
            nonlocal inside
            if not self._on:
                self._leave_quietly()
                return
            if inside:  # the callee made an op itself
                return
            inside = True
            try:
                plain = op_type if type(op_type) is str and op_type[:1] != "_" else _plain(op_type)
                on_op(plain, attrs or (), inputs, outputs, graph)
            except Exception as error:
                self._on = False
                self.failed = f"the watch of the ops ended: {type(error).__name__}: {error}"
            finally:
                inside = False

        return callback

    def _leave_quietly(self) -> None:
        from tensorflow.python.eager import context

        callbacks = context.context().op_callbacks
        if self._thread_callback() in callbacks:
            callbacks.remove(self._thread_callback())

    def _patch_convert(self) -> None:
        from tensorflow.python.framework import constant_op, ops

        original, tensor_type = constant_op.convert_to_eager_tensor, ops.EagerTensor

        @functools.wraps(original)
        def convert_to_eager_tensor(value: Any, *args: Any, **kwargs: Any) -> Any:
            tensor = original(value, *args, **kwargs)
            if self._on and type(value) is not tensor_type:
                self._thread_callback()(SCALAR, (value,), (), (tensor,))
            return tensor

        for module in _modules_with("convert_to_eager_tensor", original):
            _patch(module, "convert_to_eager_tensor", convert_to_eager_tensor, self._restore)

    def _patch_threads(self) -> None:
        original = getattr(threading.Thread, "_bootstrap_inner", None)
        if original is None:
            return  # an interpreter without it: ops of later threads stay unseen, this thread's are seen

        @functools.wraps(original)
        def bootstrap_inner(thread: threading.Thread) -> None:
            if self._on:
                try:
                    self._join_thread()
                except Exception as error:  # the program's thread must start whatever happens to ours
                    self.failed = f"a thread's ops are unseen: {type(error).__name__}: {error}"
            original(thread)

        _patch(threading.Thread, "_bootstrap_inner", bootstrap_inner, self._restore)


def self_test() -> str | None:
    """None when an eager op and a converted scalar are both told, and everything is put back; else the reason."""
    import tensorflow as tf
    from tensorflow.python.framework import constant_op

    if OpWatch._running is not None:
        return None  # it is at work, which is the proof
    before = constant_op.convert_to_eager_tensor
    seen: list[str] = []
    watch = OpWatch(lambda op_type, attrs, inputs, outputs, graph: seen.append(op_type))
    watch.start()
    try:
        tf.constant(0.5) + tf.constant(0.25)
    finally:
        watch.stop()
    if watch.failed:
        return watch.failed
    if SCALAR not in seen or not any(op_type.startswith("Add") for op_type in seen):
        return f"an addition of two constants was told as {seen}"
    if constant_op.convert_to_eager_tensor is not before:
        return "convert_to_eager_tensor was not put back"
    return None


def _plain(op_type: str | bytes) -> str:
    text = op_type.decode(errors="replace") if isinstance(op_type, bytes) else op_type
    if not text.startswith("__"):
        return text
    from tenure.probes.tf.functions import plain_name

    return plain_name(text)


def _modules_with(name: str, value: Any) -> list[ModuleType]:
    """TensorFlow's loaded modules in whose namespace the name stands for this value. Lazy modules stay unloaded."""
    return [
        module
        for path, module in list(sys.modules.items())
        if path.startswith("tensorflow.") and is_a(module, ModuleType) and module.__dict__.get(name) is value
    ]


def _patch(owner: Any, name: str, value: Any, restore: list[Callable[[], None]]) -> None:
    original = getattr(owner, name)
    setattr(owner, name, value)

    def put_back() -> None:
        if getattr(owner, name) is value:  # someone who patched after us keeps theirs, and ours passes through
            setattr(owner, name, original)

    restore.append(put_back)
