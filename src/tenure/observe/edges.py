"""One edge of a path in the user's words: what leads from a holder to what it holds.

A namer a type of holder; each is given the path as a list of objects and the place in it, and gives the steps and the
place reached, which is further on where edges are one step to the user: an object, its `__dict__` and a value are `.x`.
"""

from __future__ import annotations

import contextvars
import functools
import os
import re
import sys
import threading
import types
import weakref
from collections import deque
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from tenure.observe import sources
from tenure.observe.sources import module_file, module_name, source_path, user_file
from tenure.probes.heap import frame_locals
from tenure.probes.kinds import is_a

__all__ = ["Step", "frame_words", "name_edge", "name_global", "name_registered"]


@dataclass(frozen=True, slots=True)
class Step:
    """One edge of a path in the user's words. Holds text only, no object of the user's."""

    text: str  # as in the holder's path: "norm", ".estimates", "['loss']", "[*]", "frame process() local 'mixed'"
    kind: str  # module, name, attribute, key, index, member, variable, default, local, cache, cached, word, inside
    name: str = ""  # the bare name or the concrete key: "estimates", "17"
    mutable: bool = True  # an item of a tuple or a frozenset was not stored: the tuple was
    files: tuple[str, ...] = ()  # the user's files that may store it: the module's, the classes', the function's
    scopes: tuple[str, ...] = ()  # the classes that may own an attribute; the functions that may bind a variable
    line: int = 0  # the first line of the function that has the variable, the default or the cache
    key: object = sources.ANY  # a plain key (str, int, bytes, float) as it stands in the source

    @property
    def word(self) -> bool:
        """Set off by ` > ` rather than written as Python would."""
        return self.kind in ("module", "variable", "default", "local", "cache", "word", "inside")


_Named = tuple[list[Step], int]


def name_edge(chain: Sequence[object], place: int, before: list[Step]) -> _Named:
    """Names the edge at `place`; gives the steps and the place reached, which is further on where edges are merged."""
    parent, child = chain[place], chain[place + 1]
    for kind, name_it in _BY_TYPE:
        if issubclass(type(parent), kind):  # not isinstance: a proxy says it is what it wraps
            found = name_it(chain, place)
            if found is not None:
                return found
    special = _special(type(parent))
    if special is not None:
        found = special(chain, place, before)
        if found is not None:
            return found
    found = _attribute(chain, place)
    if found is not None:
        return found
    return _through(chain, place) or ([Step(f"(inside {_type_name(parent)})", "inside", _type_name(child))], place + 1)


def _module(chain: Sequence[object], place: int) -> _Named | None:
    module = chain[place]
    assert isinstance(module, types.ModuleType)
    names = module.__dict__
    at = place + 1
    if chain[at] is names:
        at += 1
    if at >= len(chain):
        return [], at - 1
    step = name_global(names, module.__name__, chain[at])
    return ([step], at) if step is not None else None


def name_global(names: dict[str, object], module: str, value: object) -> Step | None:
    """A global variable in the namespace of a module."""
    name = _name_in(names, value)
    file = module_file(names)
    return Step(name, "name", name, files=(file,) if file else (), scopes=(module,)) if name is not None else None


def _dict(chain: Sequence[object], place: int) -> _Named | None:
    holder, child = chain[place], chain[place + 1]
    assert isinstance(holder, dict)
    # One C call, so that a thread that writes to the dict meanwhile cannot break the loop.
    for key, value in list(dict.items(holder)):
        if value is child:
            return [_key_step(key)], place + 1
        if key is child:
            return [Step("{*}", "member", "key")], place + 1
    return None


def _key_step(key: object) -> Step:
    if type(key) in (str, int, bytes, float, bool):
        return Step(f"[{_short(key)}]", "key", repr(key)[:80], key=key)
    return Step("[*]", "key", _short(key) if _plain(key) else f"{_type_name(key)} at {id(key):#x}")


def _sequence(chain: Sequence[object], place: int) -> _Named | None:
    holder, child = chain[place], chain[place + 1]
    assert isinstance(holder, (list, tuple, deque))
    kind: Any = list if is_a(holder, list) else tuple if is_a(holder, tuple) else deque
    for index, value in enumerate(list(kind.__iter__(holder))):
        if value is child:
            fields = getattr(type(holder), "_fields", None) if kind is tuple else None
            if fields:
                return [Step(f".{fields[index]}", "index", str(index), mutable=False)], place + 1
            return [Step("[*]", "index", str(index), mutable=kind is not tuple)], place + 1
    return None


def _set(chain: Sequence[object], place: int) -> _Named | None:
    holder, child = chain[place], chain[place + 1]
    assert isinstance(holder, (set, frozenset))
    base: Any = set if is_a(holder, set) else frozenset
    if any(value is child for value in list(base.__iter__(holder))):
        return [Step("{*}", "member", f"{id(child):#x}", mutable=base is set)], place + 1
    return None


def _function(chain: Sequence[object], place: int) -> _Named | None:
    function, child = chain[place], chain[place + 1]
    assert isinstance(function, types.FunctionType)
    code, qualified = function.__code__, function.__qualname__
    where: dict[str, Any] = {"files": (source_path(code.co_filename),), "line": code.co_firstlineno}
    at = place + 1
    if child is function.__closure__:
        at += 1
        child = chain[at] if at < len(chain) else child
    for name, cell in zip(code.co_freevars, function.__closure__ or (), strict=False):
        if cell is child:
            scopes = tuple(_enclosing(qualified))
            step = Step(f"closure variable '{name}' of {qualified}", "variable", name, scopes=scopes, **where)
            return [step], _into_cell(chain, at)
    if child is function.__defaults__ or child is function.__kwdefaults__:
        at = place + 2
        if at < len(chain):
            names = code.co_varnames[: code.co_argcount]
            defaults = function.__defaults__ or ()
            pairs = [*zip(names[len(names) - len(defaults) :], defaults, strict=False)]
            for name, value in [*pairs, *(function.__kwdefaults__ or {}).items()]:
                if value is chain[at]:
                    step = Step(f"default of '{name}' in {qualified}", "default", name, scopes=(qualified,), **where)
                    return [step], at
        return None
    if child is function.__globals__:
        module = sys.modules.get(function.__module__ or "")
        if module is not None and at + 1 < len(chain):
            named = _module([module, *chain[at:]], 0)
            if named is not None:
                lead = Step(f"globals of {qualified}: {module_name(module.__name__, module)}", "word")
                return [lead, *named[0]], named[1] + place
    if child is function.__code__:
        return [Step(f"code of {qualified}", "word")], at
    return _attribute(chain, place)


def _enclosing(qualified: str) -> Iterable[str]:
    """The functions around a function, innermost first: where a closure variable may be bound."""
    while "<locals>" in qualified:
        qualified = qualified.rpartition(".<locals>")[0]
        yield qualified


def _into_cell(chain: Sequence[object], place: int) -> int:
    """A cell and its contents are one thing to the user."""
    return place + 1 if place + 1 < len(chain) and is_a(chain[place], types.CellType) else place


def _cell(chain: Sequence[object], place: int) -> _Named | None:
    return [], place + 1


def _method(chain: Sequence[object], place: int) -> _Named | None:
    method, child = chain[place], chain[place + 1]
    assert isinstance(method, types.MethodType)
    if child is method.__self__:
        name = getattr(method.__func__, "__qualname__", "a method")
        return [Step(f"self of {name}", "word", name)], place + 1
    return [], place + 1  # method.__func__ is the same thing to the user


def _builtin(chain: Sequence[object], place: int) -> _Named | None:
    function, child = chain[place], chain[place + 1]
    assert isinstance(function, types.BuiltinFunctionType)
    return ([Step(f"self of {function.__qualname__}", "word")], place + 1) if child is function.__self__ else None


def _partial(chain: Sequence[object], place: int) -> _Named | None:
    partial, child = chain[place], chain[place + 1]
    assert isinstance(partial, functools.partial)
    name = getattr(partial.func, "__qualname__", _type_name(partial.func))
    if child is partial.func:
        return [Step(f"partial of {name}", "word", name)], place + 1
    if place + 2 < len(chain):
        for index, value in enumerate(partial.args):
            if child is partial.args and value is chain[place + 2]:
                return [Step(f"argument {index} of partial({name})", "word", name)], place + 2
        for key, value in partial.keywords.items():
            if child is partial.keywords and value is chain[place + 2]:
                return [Step(f"argument '{key}' of partial({name})", "word", name)], place + 2
    return _attribute(chain, place)


def _frame(chain: Sequence[object], place: int) -> _Named | None:
    frame, child = chain[place], chain[place + 1]
    assert isinstance(frame, types.FrameType)
    at = place + 1
    names = frame_locals(frame)
    if type(child) is dict and at + 1 < len(chain) and (child is names or child.keys() == names.keys()):
        at += 1
    child = chain[at]
    words = frame_words(frame)
    for name, value in names.items():
        # A variable that a nested function shares is held by its cell.
        if value is child or (type(child) is types.CellType and _contents(child) is value):
            return [_local_step(words, name, frame.f_code)], _into_cell(chain, at)
    if child is frame.f_back:
        return [], place + 1
    return [Step(f"{words}, a value being computed", "word")], place + 1


def _local_step(words: str, name: str, code: types.CodeType) -> Step:
    scope = _qualified(code)
    if name.startswith("."):
        return Step(f"{words}, a value being looped over", "word")
    if scope == "<module>":
        return Step(f"{words} global '{name}'", "local", name, files=(source_path(code.co_filename),), scopes=("",))
    return Step(
        f"{words} local '{name}'", "local", name, True, (source_path(code.co_filename),), (scope,), code.co_firstlineno
    )


def frame_words(frame: types.FrameType) -> str:
    name = frame.f_code.co_name
    return f"frame {name}()" if name != "<module>" else f"frame of {os.path.basename(frame.f_code.co_filename)}"


def _qualified(code: types.CodeType) -> str:
    name: str | None = getattr(code, "co_qualname", None)  # Python 3.11
    return name or sources.function_at(code.co_filename, code.co_firstlineno) or code.co_name


def _suspended(chain: Sequence[object], place: int) -> _Named | None:
    """A generator, coroutine or asynchronous generator that waits: its variables by name."""
    thing: Any = chain[place]
    frame = getattr(thing, "gi_frame", None) or getattr(thing, "cr_frame", None) or getattr(thing, "ag_frame", None)
    words = {"gi_code": "generator", "cr_code": "coroutine", "ag_code": "generator"}
    word = next((w for a, w in words.items() if hasattr(thing, a)), "generator")
    if frame is None:
        return None
    child = chain[place + 1]
    for name, value in frame_locals(frame).items():
        if value is child or (type(child) is types.CellType and _contents(child) is value):
            return [_local_step(f"{word} {thing.__qualname__}()", name, frame.f_code)], _into_cell(chain, place + 1)
    return [Step(f"{word} {thing.__qualname__}()", "word")], place + 1


def _traceback(chain: Sequence[object], place: int) -> _Named | None:
    return [], place + 1  # its frame is named next


def _contents(cell: types.CellType) -> object:
    try:
        return cell.cell_contents
    except ValueError:  # an empty cell
        return None


def _wrapper(chain: Sequence[object], place: int) -> _Named | None:
    """staticmethod, classmethod, property: the function inside is the same thing to the user."""
    return [], place + 1


def _weak(chain: Sequence[object], place: int) -> _Named | None:
    return [Step("callback of a weak reference", "word")], place + 1


def _type(chain: Sequence[object], place: int) -> _Named | None:
    kind, child = chain[place], chain[place + 1]
    assert isinstance(kind, type)
    at = place + 1
    names = type.__dict__["__dict__"].__get__(kind)
    if type(child) is dict and at + 1 < len(chain) and _name_in(names, chain[at + 1]) is not None:
        at += 1
    name = _name_in(names, chain[at])
    if name is not None:
        return [_attribute_step(name, kind)], at
    mro = type.__dict__["__mro__"].__get__(kind)
    if child is mro or any(child is base for base in mro[1:]):
        return [Step(f"base class of {kind.__qualname__}", "word")], at
    return None


def _context(chain: Sequence[object], place: int) -> _Named | None:
    context: Any = chain[place]
    later = {id(thing): at for at, thing in enumerate(chain[place + 1 :], place + 1)}
    for variable, value in context.items():
        if id(value) in later:
            return [Step(f"context variable '{variable.name}'", "word", variable.name)], later[id(value)]
    return None


# -- attributes ------------------------------------------------------------------------------------------------------


def _attribute(chain: Sequence[object], place: int) -> _Named | None:
    """An instance attribute: in the instance's dict (inline from Python 3.11) or in a slot."""
    thing, child = chain[place], chain[place + 1]
    names = _instance_dict(thing)
    if names is not None:
        at = place + 1
        if child is names:
            if at + 1 >= len(chain):
                return [Step(".__dict__", "attribute", "__dict__")], at
            at += 1
        name = _name_in(names, chain[at])
        if name is not None:
            # A tracked list or dict is a list to the user, whatever the framework keeps it in.
            hidden = name.startswith("_") and type(thing).__module__ in _TRACKING
            return [] if hidden else [_attribute_step(name, type(thing))], at
    for kind in type(thing).__mro__:
        for name, member in list(kind.__dict__.items()):
            if is_a(member, types.MemberDescriptorType) and _slot(member, thing) is child:
                if name in ("__wrapped__", "_self_wrapped"):
                    return [], place + 1
                return [_attribute_step(name, type(thing))], place + 1
    if any(kind.__name__ == "ObjectProxy" and "wrap" in kind.__module__ for kind in type(thing).__mro__):  # wrapt's
        wrapped: Any = thing
        if wrapped.__wrapped__ is child:
            return [], place + 1
    if child is type(thing):
        return [Step(f"class {type(thing).__qualname__}", "word")], place + 1
    if issubclass(type(thing), BaseException):
        for name in ("__traceback__", "__cause__", "__context__", "args"):
            if getattr(thing, name, None) is child:
                return [_attribute_step(name, type(thing))], place + 1
    return None


_TRACKING = ("tensorflow.python.trackable.data_structures", "keras.src.utils.tracking")


def _instance_dict(thing: object) -> dict[str, object] | None:
    """The instance's own dict, past any `__getattribute__` or `__dict__` that its class defines."""
    for kind in type(thing).__mro__:
        descriptor = kind.__dict__.get("__dict__")
        if is_a(descriptor, types.GetSetDescriptorType):
            try:
                names = descriptor.__get__(thing)
            except (AttributeError, TypeError):
                return None
            return names if is_a(names, dict) else None
    return None


def _slot(member: types.MemberDescriptorType, thing: object) -> object:
    try:
        return member.__get__(thing)
    except (AttributeError, TypeError):  # an empty slot
        return None


def _attribute_step(name: str, kind: type) -> Step:
    mro = type.__dict__["__mro__"].__get__(kind)
    for cls in mro:
        hidden = f"_{cls.__name__.lstrip('_')}__"
        if name.startswith(hidden):
            name = "__" + name[len(hidden) :]  # as the user wrote it
            break
    files, scopes = [], []
    for cls in mro:
        module = (
            sys.modules.get(cls.__dict__.get("__module__") or "") if is_a(cls.__dict__.get("__module__"), str) else None
        )
        file = module_file(module)
        if file is not None and (user_file(file) or getattr(module, "__name__", "") == "__main__"):
            files.append(file)
            scopes += [cls.__qualname__, cls.__name__]
    if not files and not _written_by_class(name, mro):
        scopes.append("")  # set from outside on somebody else's class: only a line of the user's can do that
    return Step(f".{name}", "attribute", name, files=tuple(dict.fromkeys(files)), scopes=tuple(dict.fromkeys(scopes)))


def _written_by_class(name: str, mro: Iterable[type]) -> bool:
    for cls in mro:
        for member in list(cls.__dict__.values()):
            function = getattr(member, "__func__", member) if is_a(member, (staticmethod, classmethod)) else member
            if is_a(function, types.FunctionType) and name in function.__code__.co_names:
                return True
    return False


def _name_in(names: Mapping[str, object], value: object) -> str | None:
    found = [str(name) for name, held in list(names.items()) if held is value]
    # `__main__` and a module may hold a thing under two names; the public one is the user's.
    return min(found, key=lambda n: (n.startswith("_"), found.index(n))) if found else None


def _through(chain: Sequence[object], place: int) -> _Named | None:
    """An edge without a name inside something opaque: to the next thing on the path that an attribute names."""
    names = _instance_dict(chain[place])
    for at in range(place + 2, min(place + 5, len(chain))):
        name = _name_in(names, chain[at]) if names else None
        if name is not None:
            return [_attribute_step(name, type(chain[place]))], at
    return None


# -- things with a name of their own, told by the name of their type ------------------------------------------------


def _lru_cache(chain: Sequence[object], place: int, before: list[Step]) -> _Named | None:
    cached: Any = chain[place]
    function = _instance_dict(cached) or {}
    inner: Any = function.get("__wrapped__")
    code = getattr(inner, "__code__", None)
    if code is None or chain[place + 1] is inner:
        return None
    names = inner.__qualname__.split(".")
    while len(before) > 1 and names and before[-1].kind in ("name", "attribute") and before[-1].name == names[-1]:
        names.pop()
        before.pop()  # `Detector.anchors` and "cache of Detector.anchors" say the same twice
    step = Step(
        f"cache of {inner.__qualname__}",
        "cache",
        inner.__qualname__,
        files=(source_path(code.co_filename),),
        line=code.co_firstlineno,
    )
    # Its keys, links and results are one thing: what the cache remembers.
    at = place + 1
    part = "result"
    while at < len(chain) - 1 and (
        type(chain[at]).__name__ in ("_lru_list_elem", "_HashedSeq") or type(chain[at]) in (dict, tuple)
    ):
        part = "argument" if type(chain[at]).__name__ == "_HashedSeq" or type(chain[at]) is tuple else part
        at += 1
    return [step, Step("[*]", "cached", f"{part} {id(chain[at]):#x}")], at


def _thread_local(chain: Sequence[object], place: int, before: list[Step]) -> _Named | None:
    for at in range(place + 1, min(place + 3, len(chain) - 1)):
        holder = chain[at]
        if type(holder) is dict:
            name = _name_in(holder, chain[at + 1])
            if name is not None and all(is_a(k, str) for k in list(holder)):
                return [_attribute_step(name, type(chain[place]))], at + 1
    return None


def _array(chain: Sequence[object], place: int, before: list[Step]) -> _Named | None:
    array: Any = chain[place]
    if array.base is chain[place + 1]:
        return [Step(".base", "word", "base")], place + 1
    return [Step("[*]", "index", "element")], place + 1


def _registry(chain: Sequence[object], place: int, before: list[Step]) -> _Named | None:
    names = _instance_dict(chain[place]) or {}
    del before[:]  # the module that happens to hold it tells the user nothing
    added, at = name_registered(chain, place)
    return [Step(f"TensorFlow's {names.get('_name', '')} registry", "word"), *added], at


def name_registered(chain: Sequence[object], place: int) -> _Named:
    """The entry's name and the graph it keeps. Between the two lie the framework's closures; the graph matters."""
    steps: list[Step] = []
    at = place
    while at < len(chain) - 1 and not steps:
        holder = chain[at]
        at += 1
        for key, value in list(holder.items()) if type(holder) is dict else ():
            if value is chain[at] and is_a(key, str) and key != "_registry":
                # Numbered in the order of tracing, so the number is no name.
                steps.append(Step(re.sub(r"[0-9]+$", "*", key), "key", key))
                break
    graph = next((k for k in range(at, len(chain)) if _is_graph(chain[k])), None)
    if not steps or graph is None:
        return [], place
    return [*steps, Step(_graph_words(chain[graph]), "word")], graph


def _is_graph(thing: object) -> bool:
    return type(thing).__name__ == "FuncGraph" and type(thing).__module__.startswith("tensorflow.")


def _graph_words(graph: object) -> str:
    name = str(getattr(graph, "name", ""))
    # One function's graphs are called __inference_step_17, __inference_step_42: the number is the trace, not the name.
    return f"FuncGraph {re.sub(r'^__(inference|forward|backward)_|_[0-9]+$', '', name)}".rstrip()


def _function_cache(chain: Sequence[object], place: int, before: list[Step]) -> _Named | None:
    """A tf.function's cache, however deep in its private parts: "function cache of train_step"."""
    owner = next((k for k in range(place - 1, -1, -1) if _is_tf_function(chain[k])), None)
    name = ""
    if owner is not None:
        while before and before[-1].kind == "attribute" and before[-1].name.startswith("_"):
            before.pop()
        python = (_instance_dict(chain[owner]) or {}).get("_python_function")
        code = getattr(python, "__code__", None)
        name = getattr(python, "__qualname__", "").rpartition(".")[2]
        where = (
            ((source_path(code.co_filename),), code.co_firstlineno)
            if code is not None and user_file(code.co_filename)
            else ((), 0)
        )
    else:
        where = ((), 0)
    step = Step(f"function cache of {name}" if name else "function cache", "cache", name, files=where[0], line=where[1])
    at = place + 1
    while at < len(chain) - 1 and is_a(chain[at], (dict, tuple, list)):
        at += 1
    return [step, Step("[*]", "cached", f"{id(chain[at]):#x}")], at


def _is_tf_function(thing: object) -> bool:
    return type(thing).__name__ == "Function" and "polymorphic_function" in type(thing).__module__


_BY_TYPE: tuple[tuple[Any, Callable[[Sequence[object], int], _Named | None]], ...] = (
    (types.ModuleType, _module),
    (dict, _dict),
    ((list, tuple, deque), _sequence),
    ((set, frozenset), _set),
    (types.FunctionType, _function),
    (types.CellType, _cell),
    (types.MethodType, _method),
    (types.BuiltinFunctionType, _builtin),
    (functools.partial, _partial),
    (types.FrameType, _frame),
    ((types.GeneratorType, types.CoroutineType, types.AsyncGeneratorType), _suspended),
    (types.TracebackType, _traceback),
    ((staticmethod, classmethod, property, types.MappingProxyType), _wrapper),
    (weakref.ref, _weak),
    (type, _type),
)
_Special = Callable[[Sequence[object], int, list[Step]], _Named | None]
_OF_PYTHON: tuple[tuple[type, _Special], ...] = (
    (type(functools.lru_cache(str)), _lru_cache),
    (threading.local, _thread_local),
    (contextvars.Context, lambda chain, place, before: _context(chain, place)),
)
# By package and name: these are known without importing NumPy or TensorFlow, and a program's own class may have the
# name (`Context`, `Registry`), not the package.
_OF_PACKAGES: dict[tuple[str, str], _Special] = {
    ("_threading_local", "local"): _thread_local,
    ("numpy", "ndarray"): _array,
    ("tensorflow", "Registry"): _registry,
    ("tensorflow", "FunctionCache"): _function_cache,
}


def _special(kind: type) -> _Special | None:
    for known, name_it in _OF_PYTHON:
        if issubclass(kind, known):
            return name_it
    for base in type.__dict__["__mro__"].__get__(kind):
        name = _OF_PACKAGES.get((str(base.__module__).partition(".")[0], base.__name__))
        if name is not None:
            return name
    return None


def _type_name(thing: object) -> str:
    return type(thing).__name__


def _plain(key: object) -> bool:
    """Whether its repr is Python's own."""
    if type(key) is tuple:
        return all(map(_plain, key))
    return key is None or type(key) in (str, int, bytes, float, bool)


def _short(key: object) -> str:
    text = repr(key)
    return text if len(text) <= 40 else text[:37] + "..."
