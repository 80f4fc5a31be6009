"""The constructors and calls that tell when TensorFlow and Keras make a thing, and when a training tick passes.

`install` and `install_calls` wrap them and return the function that puts everything back. Where TensorFlow or Keras is
not imported yet the wrapping waits for the end of its import; nothing is imported for it. A wrapper keeps the
signature and the docstring, calls the observer after the original, and swallows nothing but the observer's exception,
which ends that observer. TensorFlow 2.16 to 2.21, Keras 3; tf-keras where it is loaded.
"""

from __future__ import annotations

import functools
import importlib
import importlib.abc
import importlib.machinery
import inspect
import sys
import threading
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from types import ModuleType
from typing import Any

__all__ = [
    "CALLS",
    "KINDS",
    "OnCall",
    "OnMade",
    "install",
    "install_calls",
    "install_function_calls",
    "install_tapes",
    "missing",
    "self_test",
]

OnMade = Callable[[str, object], None]
"""Called with the kind and the thing just made, on the thread that made it, before its maker gets it."""

OnCall = Callable[[str, str, object, "int | None"], None]
"""Called with what (`fit`, `evaluate`, `predict`, `train_on_batch`; `train-batch`, `test-batch`, `predict-batch`,
`epoch`), when (`enter` and `leave` for the first four, `tick` for the rest), the model or callback list, and of how
many items the call's array is (None where that is not known)."""


@dataclass(frozen=True, slots=True)
class _Point:
    """A method to wrap, or a function of the module's where there is no owner.

    `argument` is the place of the argument that is told instead of self; `accept` filters by (self, told); `once` tells
    the outermost of nested constructors only. `optional`: not all versions have it.
    """

    kind: str
    module: str
    owner: str
    method: str = "__init__"
    argument: int | None = None
    accept: Callable[[Any, Sequence[Any]], bool] | None = None
    once: bool = False
    optional: bool = False


def _by_the_program(session: Any, args: Sequence[Any]) -> bool:
    return sys._getframe(2).f_code.co_name != "__del__"  # the caller of the wrapper


def _own_graph(graph: Any, args: Sequence[Any]) -> bool:
    return type(graph).__name__ == "Graph"


def _lasting_variable(variable: Any, args: Sequence[Any]) -> bool:
    return type(variable).__name__ != "_UnreadVariable"  # an assign's result in a graph, not a variable of its own


def _custom_gradient(registry: Any, args: Sequence[Any]) -> bool:
    return len(args) > 1 and str(args[1]).startswith("CustomGradient-")


def _chosen_strategy(strategy: Any, args: Sequence[Any]) -> bool:
    return not type(strategy).__name__.startswith("_Default")


_POLYMORPHIC = "tensorflow.python.eager.polymorphic_function."
_POINTS: dict[str, tuple[_Point, ...]] = {
    "tensorflow": (
        _Point(
            "variable",
            "tensorflow.python.ops.resource_variable_ops",
            "BaseResourceVariable",
            accept=_lasting_variable,
        ),
        _Point("graph", "tensorflow.python.framework.func_graph", "FuncGraph"),
        _Point("graph-v1", "tensorflow.python.framework.ops", "Graph", accept=_own_graph),
        _Point("function", _POLYMORPHIC + "polymorphic_function", "Function"),
        _Point("trace", _POLYMORPHIC + "concrete_function", "ConcreteFunction"),
        _Point("tape", "tensorflow.python.eager.backprop", "GradientTape"),
        _Point("dataset", "tensorflow.python.data.ops.dataset_ops", "DatasetV2"),
        _Point("iterator", "tensorflow.python.data.ops.iterator_ops", "OwnedIterator"),
        _Point("session", "tensorflow.python.client.session", "BaseSession"),
        _Point("session-close", "tensorflow.python.client.session", "BaseSession", "close", accept=_by_the_program),
        _Point("saved-model-load", "tensorflow.python.saved_model.load", "Loader"),
        _Point("saved-model-save", "tensorflow.python.saved_model.save", "", "save_and_return_nodes"),
        _Point("tensor-array", "tensorflow.python.ops.tensor_array_ops", "TensorArray"),
        _Point("summary-writer", "tensorflow.python.ops.summary_ops_v2", "_ResourceSummaryWriter"),
        _Point("summary-writer", "tensorflow.python.summary.writer.writer", "FileWriter"),
        _Point("lookup-table", "tensorflow.python.ops.lookup_ops", "LookupInterface"),
        # What a SavedModel brings back with its own create function: a table, as far as TensorFlow itself goes.
        _Point("lookup-table", "tensorflow.python.trackable.resource", "RestoredResource"),
        _Point(
            "strategy",
            "tensorflow.python.distribute.distribute_lib",
            "StrategyBase",
            accept=_chosen_strategy,
        ),
        _Point("py-function", "tensorflow.python.ops.script_ops", "FuncRegistry", "insert", argument=0),
        _Point(
            "gradient-entry",
            "tensorflow.python.framework.registry",
            "Registry",
            "register",
            argument=0,
            accept=_custom_gradient,
        ),
    ),
    "keras": (
        _Point("keras-variable", "keras.src.backend.common.variables", "Variable", optional=True),
        _Point("keras-variable", "keras.src.backend.common.variables", "KerasVariable", optional=True),
        _Point("model", "keras.src.models.model", "Model", once=True),
        _Point("model", "keras.src.models.functional", "Functional", once=True),
        _Point("optimizer", "keras.src.optimizers.base_optimizer", "BaseOptimizer"),
        _Point("keras-load", "keras.src.saving.saving_lib", "", "load_model"),
        _Point("keras-load", "keras.src.legacy.saving.legacy_h5_format", "", "load_model_from_hdf5"),
    ),
    "tf_keras": (
        _Point("model", "tf_keras.src.engine.training", "Model", once=True),
        _Point("optimizer", "tf_keras.src.optimizers.optimizer", "_BaseOptimizer"),
    ),
}

KINDS: tuple[str, ...] = tuple(dict.fromkeys(point.kind for points in _POINTS.values() for point in points))
"""All kinds that `install` can tell."""

CALLS = ("fit", "evaluate", "predict", "train_on_batch")
_TICKS = {
    "on_train_batch_end": "train-batch",
    "on_test_batch_end": "test-batch",
    "on_predict_batch_end": "predict-batch",
    "on_epoch_end": "epoch",
}
_CALL_POINTS: dict[str, tuple[_Point, ...]] = {
    "keras": (
        *(_Point(call, "keras.src.backend.tensorflow.trainer", "TensorFlowTrainer", call) for call in CALLS),
        *(_Point(tick, "keras.src.callbacks.callback_list", "CallbackList", on) for on, tick in _TICKS.items()),
    ),
    "tf_keras": (
        *(_Point(call, "tf_keras.src.engine.training", "Model", call) for call in CALLS),
        *(_Point(tick, "tf_keras.src.callbacks", "CallbackList", on) for on, tick in _TICKS.items()),
    ),
}

_FUNCTION_POINTS: dict[str, tuple[_Point, ...]] = {
    "tensorflow": (_Point("function-call", _POLYMORPHIC + "polymorphic_function", "Function", "__call__"),),
}

_TAPE_POINTS: dict[str, tuple[_Point, ...]] = {
    "tensorflow": (_Point("tape-end", "tensorflow.python.eager.backprop", "GradientTape", "__exit__"),),
}

_missing: dict[str, str] = {}


def install(on_made: OnMade) -> Callable[[], None]:
    """Tells `on_made(kind, thing)` of each thing made from now on; call the result to put everything back.

    The observer may not keep the thing (a weak reference is fine) and should be quick: it runs in the constructor.
    """
    observer = _Observer(on_made)
    return _install(_POINTS, lambda point, original: _made_wrapper(point, original, observer))


def install_calls(on_call: OnCall) -> Callable[[], None]:
    """Tells `on_call(what, when, model)` of Keras' fit, evaluate, predict and train_on_batch, and of their ticks.

    Nothing is added to the program's own callbacks. A test or predict batch inside `fit` is told as such.
    """
    observer = _Observer(on_call)
    return _install(_CALL_POINTS, lambda point, original: _call_wrapper(point, original, observer))


def install_function_calls(on_return: Callable[[object], None]) -> Callable[[], None]:
    """Tells `on_return(function)` after each call of a `tf.function` that is made from outside of all of them.

    Keras' own compiled steps are told too: the observer must look whose the function is.
    """
    observer = _Observer(on_return)
    return _install(_FUNCTION_POINTS, lambda point, original: _function_wrapper(original, observer))


def install_tapes(on_end: Callable[[object], None]) -> Callable[[], None]:
    """Tells `on_end(tape)` after each `with tf.GradientTape()` has ended, on the thread that ran it."""
    observer = _Observer(lambda kind, tape: on_end(tape))
    return _install(_TAPE_POINTS, lambda point, original: _made_wrapper(point, original, observer))


def missing() -> dict[str, str]:
    """The points that could not be wrapped so far, or whose observer failed, and why."""
    return dict(_missing)


def self_test() -> str | None:
    """None when a variable, a function and its trace are told and all is put back; else the reason."""
    import tensorflow as tf
    from tensorflow.python.ops import resource_variable_ops

    made: list[str] = []
    before = resource_variable_ops.BaseResourceVariable.__init__
    uninstall = install(lambda kind, thing: made.append(kind))
    try:
        tf.Variable(1.0, trainable=False)
        tf.function(lambda x: x, autograph=False)(tf.constant(1.0))
    finally:
        uninstall()
    unseen = {"variable", "function", "graph", "trace"} - set(made)
    if unseen:
        return f"constructors were not told: {', '.join(sorted(unseen))}"
    if resource_variable_ops.BaseResourceVariable.__init__ is not before:
        return "a constructor was not put back"
    return "; ".join(f"{point}: {why}" for point, why in _missing.items()) or None


class _Observer:
    """The caller's function, ended by its first exception: the program goes on unseen rather than broken."""

    __slots__ = ("call",)

    def __init__(self, call: Callable[..., None]) -> None:
        self.call: Callable[..., None] | None = call

    def __call__(self, *args: object) -> None:
        call = self.call
        if call is None:
            return
        try:
            call(*args)
        except Exception as error:
            self.call = None
            _missing[getattr(call, "__qualname__", "an observer")] = f"it raised {type(error).__name__}: {error}"


def _made_wrapper(point: _Point, original: Callable[..., Any], observer: _Observer) -> Callable[..., Any]:
    kind, argument, accept = point.kind, point.argument, point.accept
    if point.once:
        return _once_wrapper(kind, original, observer)
    if not point.owner:

        @functools.wraps(original)
        def function(*args: Any, **kwargs: Any) -> Any:
            result = original(*args, **kwargs)
            observer(kind, result)
            return result

        return function

    @functools.wraps(original)
    def wrapper(self: Any, *args: Any, **kwargs: Any) -> Any:
        result = original(self, *args, **kwargs)
        if observer.call is not None and (accept is None or accept(self, args)):
            told = self if argument is None else args[argument] if len(args) > argument else None
            observer(kind, told)
        return result

    return wrapper


# Which objects' nested constructors run on this thread: Model.__init__ calls Functional.__init__ on the same object.
_under_way = threading.local()


def _once_wrapper(kind: str, original: Callable[..., Any], observer: _Observer) -> Callable[..., Any]:
    @functools.wraps(original)
    def wrapper(self: Any, *args: Any, **kwargs: Any) -> Any:
        under_way: set[int] = _under_way.__dict__.setdefault("objects", set())
        if id(self) in under_way:
            return original(self, *args, **kwargs)
        under_way.add(id(self))
        try:
            result = original(self, *args, **kwargs)
        finally:
            under_way.discard(id(self))
        if observer.call is not None and not _inner_model(self, sys._getframe(1).f_globals.get("__name__", "")):
            observer(kind, self)
        return result

    return wrapper


def _inner_model(model: Any, maker: str) -> bool:
    """Whether this is the Functional that a Sequential builds inside itself."""
    return type(model).__name__ == "Functional" and maker.endswith(".sequential")


def _call_wrapper(point: _Point, original: Callable[..., Any], observer: _Observer) -> Callable[..., Any]:
    what = point.kind
    if what not in CALLS:

        @functools.wraps(original)
        def tick(self: Any, *args: Any, **kwargs: Any) -> Any:
            result = original(self, *args, **kwargs)
            observer(what, "tick", self, None)
            return result

        return tick

    @functools.wraps(original)
    def call(self: Any, *args: Any, **kwargs: Any) -> Any:
        items = _items(args[0] if args else kwargs.get("x"))
        observer(what, "enter", self, items)
        try:
            return original(self, *args, **kwargs)
        finally:
            observer(what, "leave", self, items)

    return call


def _items(given: Any) -> int | None:
    """Of how many items the arrays given to fit, evaluate or predict are."""
    try:
        while isinstance(given, (dict, list, tuple)) and given:
            given = next(iter(given.values() if isinstance(given, dict) else given))
        return int(given.shape[0])
    except Exception:  # a dataset, a generator, a list of numbers
        return None


def _function_wrapper(original: Callable[..., Any], observer: _Observer) -> Callable[..., Any]:
    inside = threading.local()

    @functools.wraps(original)
    def call(self: Any, *args: Any, **kwargs: Any) -> Any:
        if inside.__dict__:  # one function called by another, or traced in it
            return original(self, *args, **kwargs)
        inside.now = True
        try:
            return original(self, *args, **kwargs)
        finally:
            del inside.now
            observer(self)

    return call


def _install(
    points: dict[str, tuple[_Point, ...]], wrap: Callable[[_Point, Callable[..., Any]], Callable[..., Any]]
) -> Callable[[], None]:
    restore: list[Callable[[], None]] = []
    waiting: dict[str, Callable[[], None]] = {}
    for package, package_points in points.items():
        hook = functools.partial(_wrap_all, package_points, wrap, restore)
        if _is_loaded(package):
            hook()
        else:
            waiting[package] = hook
    finder = _AfterImport(waiting) if waiting else None
    if finder is not None:
        sys.meta_path.insert(0, finder)

    def uninstall() -> None:
        waiting.clear()
        if finder is not None and finder in sys.meta_path:
            sys.meta_path.remove(finder)
        for put_back in reversed(restore):
            put_back()
        restore.clear()

    return uninstall


def _wrap_all(
    points: Sequence[_Point],
    wrap: Callable[[_Point, Callable[..., Any]], Callable[..., Any]],
    restore: list[Callable[[], None]],
) -> None:
    for point in points:
        try:
            module = importlib.import_module(point.module)
            owner = getattr(module, point.owner, None) if point.owner else module
            if owner is None and point.optional:
                continue
            _wrap_method(owner, point, wrap, restore)
        except Exception as error:  # one point that another version lacks must not cost the others
            _missing[f"{point.kind} ({point.module}.{point.owner})"] = f"{type(error).__name__}: {error}"


def _wrap_method(
    owner: Any,
    point: _Point,
    wrap: Callable[[_Point, Callable[..., Any]], Callable[..., Any]],
    restore: list[Callable[[], None]],
) -> None:
    original = getattr(owner, point.method)
    wrapper = wrap(point, original)
    # Keras reads constructors by `inspect.getfullargspec`, which follows `__signature__` and not `__wrapped__`.
    wrapper.__signature__ = inspect.signature(original)  # type: ignore[attr-defined]
    own = point.method in vars(owner)
    setattr(owner, point.method, wrapper)

    def put_back() -> None:
        if vars(owner).get(point.method) is not wrapper:
            return  # someone wrapped ours: theirs stays, and ours passes through
        if own:
            setattr(owner, point.method, original)
        else:
            delattr(owner, point.method)

    restore.append(put_back)


def _is_loaded(package: str) -> bool:
    """Whether the package's own import is over (a package that is being imported stands in sys.modules already)."""
    module = sys.modules.get(package)
    spec = getattr(module, "__spec__", None)
    return module is not None and not getattr(spec, "_initializing", False)


class _AfterImport(importlib.abc.MetaPathFinder):
    """Finds nothing itself: for the packages that wait it asks the other finders and runs the hook after the import.

    The loader of that one spec gets an `exec_module` of its own for the length of the import, and loses it then.
    """

    def __init__(self, waiting: dict[str, Callable[[], None]]) -> None:
        self._waiting = waiting
        self._asking = threading.local()

    def find_spec(
        self, fullname: str, path: Sequence[str] | None = None, target: ModuleType | None = None
    ) -> importlib.machinery.ModuleSpec | None:
        # Two of these finders ask each other: the one that is asking already finds nothing.
        if fullname not in self._waiting or getattr(self._asking, "now", False):
            return None
        self._asking.now = True
        try:
            for finder in list(sys.meta_path):
                find = None if finder is self else getattr(finder, "find_spec", None)
                spec = find(fullname, path, target) if find is not None else None
                if spec is not None:
                    self._attach(fullname, spec.loader)
                    return spec  # type: ignore[no-any-return]
        finally:
            self._asking.now = False
        return None

    def _attach(self, fullname: str, loader: Any) -> None:
        execute = getattr(loader, "exec_module", None)
        if execute is None:
            _missing[fullname] = "its loader has no exec_module to wait for"
            return

        def exec_module(module: ModuleType) -> None:
            vars(loader).pop("exec_module", None)
            execute(module)
            hook = self._waiting.pop(fullname, None)
            if hook is not None:
                hook()

        try:
            loader.exec_module = exec_module
        except AttributeError:
            _missing[fullname] = "its loader can't be waited for"
