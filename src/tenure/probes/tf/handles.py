"""What a tensor, a variable or an array weighs, by shape x dtype, and which buffer it shares with others.

Nothing here copies a tensor or moves one between devices. `sys.getsizeof` of a 1 MiB tensor is 184: bytes are shape x
dtype, counted once a buffer. Views (reshape, identity, `variable.value()`) share a buffer, and its address tells so.
"""

from __future__ import annotations

import math
import os
import sys
from typing import Any, NamedTuple

import numpy as np
import tensorflow as tf
from tensorflow.python.data.ops import dataset_ops, iterator_ops
from tensorflow.python.eager import context, record
from tensorflow.python.eager.polymorphic_function import atomic_function, concrete_function
from tensorflow.python.eager.polymorphic_function import polymorphic_function as polymorphic
from tensorflow.python.framework import dtypes, func_graph, ops
from tensorflow.python.ops import gen_resource_variable_ops, resource_variable_ops, tensor_array_ops

from tenure.probes.kinds import is_a

__all__ = [
    "ArrayOwner",
    "array_owner",
    "buffer_address",
    "handle_bytes",
    "is_array",
    "is_eager_tensor",
    "is_resource",
    "is_variable",
    "self_test",
    "tensor_bytes",
    "tensor_types",
    "variable_handle",
]

_PID = os.getpid()
_RESOURCE, _VARIANT, _STRING = dtypes.resource, dtypes.variant, dtypes.string


class ArrayOwner(NamedTuple):
    """Whose memory an array looks at. `kept` bytes stay alive through it, `seen` are what it shows. `address` is the
    start of the kept buffer, equal to a tensor's `buffer_address` when it is one; `of_tensor` tells whether it is."""

    kept: int
    seen: int
    address: int | None
    of_tensor: bool


def is_eager_tensor(obj: object) -> bool:
    """Whether this is a tensor with a value (not a symbolic one)."""
    return is_a(obj, ops.EagerTensor)


def is_resource(tensor: Any) -> bool:
    """Whether this tensor is a resource handle: it owns a variable's bytes, a table, an iterator."""
    return bool(tensor.dtype == _RESOURCE)


def is_variable(obj: object) -> bool:
    """Whether this is a `tf.Variable` or a Keras variable."""
    return is_a(obj, (resource_variable_ops.BaseResourceVariable, *_keras_variables()))


def is_array(obj: object) -> bool:
    """Whether this is a NumPy array."""
    return is_a(obj, np.ndarray)


def variable_handle(variable: Any) -> Any:
    """The resource handle that owns the variable's bytes; None for one that is not built or not in a resource.

    A Keras variable's is its backend variable's. A graph's variable has a symbolic handle.
    """
    if is_a(variable, _keras_variables()):
        variable = getattr(variable, "_value", None)
    try:
        return variable.handle if is_a(variable, resource_variable_ops.BaseResourceVariable) else None
    except (AttributeError, ValueError):
        return None


def tensor_bytes(obj: Any) -> int:
    """Bytes of the tensor's elements: shape x dtype. Variants and resources have none, strings count 24 an element.

    A string's 24 bytes are TensorFlow's `tstring`, which holds up to 22 characters in place; longer text comes on top
    and can't be counted without a copy.
    """
    dtype = obj.dtype
    if dtype in (_RESOURCE, _VARIANT):
        return 0
    # Not `shape` where there is another way: asked once, a tensor keeps it, 136 bytes that are not the program's.
    elements = math.prod(obj._shape_tuple()) if isinstance(obj, ops.EagerTensor) else _elements(obj.shape)
    return elements * (24 if dtype == _STRING else max(int(dtype.size), 1))


def handle_bytes(handle: Any) -> int:
    """Bytes that a resource handle owns, by the shape and dtype in its `_handle_data`; 0 when it has none (a table,
    an iterator). A variable whose shape is left open is asked for the one it has now; in a forked copy, where no op may
    run, that is 0."""
    data = getattr(handle, "_handle_data", None)
    if data is None or not data.is_set:
        return 0
    total = 0
    for part in data.shape_and_type:
        dtype = dtypes.as_dtype(part.dtype)
        size = 24 if dtype == _STRING else 0 if dtype in (_RESOURCE, _VARIANT) else max(int(dtype.size), 1)
        if not part.shape.unknown_rank and all(dim.size >= 0 for dim in part.shape.dim):
            total += math.prod(dim.size for dim in part.shape.dim) * size
        elif len(data.shape_and_type) == 1 and os.getpid() == _PID and context.executing_eagerly():
            with record.stop_recording():
                shape = gen_resource_variable_ops.variable_shape(handle, out_type=dtypes.int64)
            total += math.prod(int(dim) for dim in shape.numpy()) * size
    return total


def buffer_address(tensor: Any) -> int | None:
    """The address of the tensor's buffer; equal for tensors that share it. None when the host can't read it in place
    (another device, another machine, strings, variants, resources) or it is empty.

    `_numpy()` of a host tensor is a zero-copy view (1.4 us); a scalar's is a copy, so its memoryview is asked.
    """
    if tensor.dtype in (_RESOURCE, _VARIANT, _STRING) or not _on_this_host(tensor):
        return None
    try:
        view = tensor._numpy()
        if not is_a(view, np.ndarray):
            view = np.asarray(memoryview(tensor))
        return int(view.__array_interface__["data"][0]) if view.size else None
    except (TypeError, ValueError, RuntimeError, tf.errors.OpError, AttributeError):
        return None  # a tensor whose op failed (asynchronous execution), a packed or deleted one


def array_owner(array: np.ndarray[Any, Any]) -> ArrayOwner:
    """Whose memory this array keeps, along its bases: another array, a memoryview, a tensor's buffer.

    NumPy shortens chains itself, so a slice of a slice names the owner directly. A mapped file counts its bytes too.
    """
    seen = int(array.nbytes)
    kept, owner = seen, array
    address: int | None = _start(array)
    base: Any = array.base
    for _ in range(32):
        if is_a(base, np.ndarray):
            owner = base
            kept, address = max(kept, int(base.nbytes)), _start(base)
            base = base.base
        elif is_a(base, memoryview):
            kept = max(kept, base.nbytes)
            base = base.obj
        else:
            break
    of_tensor = type(base).__name__ == "tensorflow_wrapper" or is_eager_tensor(base)
    if base is None and not owner.flags.owndata:
        address = None
    return ArrayOwner(kept, seen, address, of_tensor)


def tensor_types() -> dict[str, tuple[type, ...]]:
    """The types that a census selects, by kind. Keras kinds are there only once Keras is loaded; nothing is imported.

    Kinds: tensor, variable, keras-variable, graph (a function's), graph-v1, trace, atomic-function, function, tape,
    dataset, iterator, session, tensor-array, model, layer, optimizer, summary-writer, lookup-table, array.
    A type may fall under two kinds (each FuncGraph is a Graph): the first in this order is meant.
    """
    kinds: dict[str, list[type | None]] = {
        "tensor": [type(tf.constant(0)) if tf.executing_eagerly() else ops.EagerTensor],
        "variable": [resource_variable_ops.BaseResourceVariable],
        "keras-variable": list(_keras_variables()),
        "graph": [func_graph.FuncGraph],
        "graph-v1": [ops.Graph],
        "trace": [concrete_function.ConcreteFunction],
        "atomic-function": [getattr(atomic_function, "AtomicFunction", None)],
        "function": [polymorphic.Function],
        "tape": [tf.GradientTape],
        "dataset": [dataset_ops.DatasetV2],
        "iterator": [iterator_ops.OwnedIterator],
        "session": [_loaded("tensorflow.python.client.session", "BaseSession")],
        "tensor-array": [
            getattr(tensor_array_ops, name, None)
            for name in ("TensorArray", "_EagerTensorArray", "_GraphTensorArrayV2", "_GraphTensorArray")
        ],
        "model": [
            _loaded("keras.src.models.model", "Model"),
            _loaded("tf_keras.src.engine.training", "Model"),
        ],
        "layer": [
            _loaded("keras.src.layers.layer", "Layer"),
            _loaded("tf_keras.src.engine.base_layer", "Layer"),
        ],
        "optimizer": [
            _loaded("keras.src.optimizers.base_optimizer", "BaseOptimizer"),
            _loaded("tf_keras.src.optimizers.optimizer", "_BaseOptimizer"),
        ],
        "summary-writer": [
            _loaded("tensorflow.python.ops.summary_ops_v2", "_ResourceSummaryWriter"),
            _loaded("tensorflow.python.summary.writer.writer", "FileWriter"),
        ],
        "lookup-table": [_loaded("tensorflow.python.ops.lookup_ops", "LookupInterface")],
        "array": [np.ndarray],
    }
    present = {kind: tuple(type_ for type_ in types if type_ is not None) for kind, types in kinds.items()}
    return {kind: types for kind, types in present.items() if types}


def self_test() -> str | None:
    """None when a tensor's bytes, a view's shared buffer and a variable's handle read right; else the reason."""
    tensor = tf.zeros([4, 8]) + 1.0
    if tensor_bytes(tensor) != 128:
        return f"a tensor of 128 bytes reads as {tensor_bytes(tensor)}"
    if _on_this_host(tensor) and buffer_address(tensor) != buffer_address(tf.reshape(tensor, [32])):
        return "a reshaped tensor does not share its buffer"
    handle = variable_handle(tf.Variable(tensor, trainable=False))
    if handle is None or handle_bytes(handle) != 128:
        return "a variable's handle does not tell its bytes"
    return None


def _elements(shape: Any) -> int:
    return 0 if shape.rank is None else math.prod(size or 0 for size in shape.as_list())


def _on_this_host(tensor: Any) -> bool:
    """Whether the value lies in this process's own memory: reading another device's would copy it over."""
    device = getattr(tensor, "backing_device", "")
    return "CPU" in device and not getattr(tensor, "is_packed", False) and device.startswith(_local_prefix())


def _local_prefix() -> str:
    """`/job:localhost/replica:0/task:0`, or this worker's own name in a cluster."""
    name = tf.config.list_logical_devices("CPU")[0].name
    return name.split("/device:")[0] if name.startswith("/job:") else "/job:localhost"


def _start(array: np.ndarray[Any, Any]) -> int:
    return int(array.__array_interface__["data"][0])


def _keras_variables() -> tuple[type, ...]:
    return tuple(
        type_
        for type_ in (_loaded("keras.src.backend.common.variables", name) for name in ("Variable", "KerasVariable"))
        if type_ is not None
    )


def _loaded(module: str, name: str) -> type | None:
    """The type when its module is loaded already, and whole; never an import of our own."""
    found = getattr(sys.modules.get(module), name, None)
    return found if isinstance(found, type) else None
