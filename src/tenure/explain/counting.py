"""Counters that call back right after one turn of a user's function or loop, at the cost of one Python call a turn.

`FunctionCounter` swaps the `__code__` of one function for a trampoline with the same signature, name, file, line and
free variables: every reference to the function (global, method, closure, callback in a list) is counted, its identity,
pickling by name and `inspect.signature` stay, and the call back runs after the body's frame has died. `LineCounter`
counts the turns of a loop by its line with `sys.monitoring` (Python 3.12 and later); no other code pays for it.
Neither lets an error of the call back into the program, and neither counts in a forked child.
"""

from __future__ import annotations

import ast
import gc
import os
import sys
import threading
import types
from collections.abc import Callable, Iterable, Iterator
from typing import Any

__all__ = [
    "FunctionCounter",
    "LineCounter",
    "can_count_lines",
    "countable",
    "functions_of",
    "functions_of_by_heap",
    "is_trampoline",
]

_OPTIMIZED, _GENERATOR, _COROUTINE, _ASYNC_GENERATOR = 0x1, 0x20, 0x80, 0x200
_VARARGS, _VARKEYWORDS = 0x4, 0x8
_TOOL_NAME = "tenure"


def countable(code: types.CodeType) -> bool:
    """True when one call of this code can be one turn: a function or coroutine; no module, class body or generator."""
    if not code.co_flags & _OPTIMIZED or code.co_flags & (_GENERATOR | _ASYNC_GENERATOR):
        return False
    return code.co_name not in {"<listcomp>", "<setcomp>", "<dictcomp>", "<genexpr>"}


def is_trampoline(code: types.CodeType) -> bool:
    """True for the code that a `FunctionCounter` puts before a user's function."""
    return _RESULT in code.co_varnames


# --- finding the function object of a code object ------------------------------------------------------------


def functions_of(code: types.CodeType, namespace: dict[str, Any]) -> list[types.FunctionType]:
    """The functions that run `code` and are found in a module's namespace: globals, methods, decorated ones."""
    found: dict[int, types.FunctionType] = {}
    for value in list(namespace.values()):
        for function in _functions_within(value, 0):
            if function.__code__ is code:
                found[id(function)] = function
    return list(found.values())


def _functions_within(value: object, depth: int) -> Iterator[types.FunctionType]:
    if depth > 4:
        return
    if isinstance(value, types.FunctionType):
        yield value
        for cell in value.__closure__ or ():
            try:
                held = cell.cell_contents
            except ValueError:  # an empty cell
                continue
            if isinstance(held, types.FunctionType | types.MethodType):
                yield from _functions_within(held, depth + 1)
        wrapped = value.__dict__.get("__wrapped__")
        if wrapped is not None:
            yield from _functions_within(wrapped, depth + 1)
    elif isinstance(value, types.MethodType | staticmethod | classmethod):
        yield from _functions_within(value.__func__, depth + 1)
    elif isinstance(value, property):
        for part in (value.fget, value.fset):
            yield from _functions_within(part, depth + 1)
    elif type(value) is type or (isinstance(value, type) and depth == 0):
        for inner in list(vars(value).values()):
            yield from _functions_within(inner, depth + 1)


def functions_of_by_heap(code: types.CodeType) -> list[types.FunctionType]:
    """The functions that run `code`, nested ones included. Walks the gc heap: only on the main thread."""
    return [f for f in gc.get_referrers(code) if isinstance(f, types.FunctionType) and f.__code__ is code]


# --- counting calls ------------------------------------------------------------------------------------------


class FunctionCounter:
    """Calls `on_turn` after each outermost call of the given functions (which all run one code object)."""

    def __init__(self, functions: Iterable[types.FunctionType], on_turn: Callable[[], None]) -> None:
        self.on_turn: Callable[[], None] | None = on_turn
        self._pid = os.getpid()
        self._swapped: list[tuple[types.FunctionType, types.CodeType, types.CodeType]] = []
        self._bodies: dict[int, types.CodeType] = {}
        self._depth: dict[int, int] = {}
        self._unwound: set[int] = set()
        for function in functions:
            self._swap(function)

    @property
    def installed(self) -> bool:
        return bool(self._swapped)

    def _swap(self, function: types.FunctionType) -> None:
        body = types.FunctionType(
            function.__code__, function.__globals__, function.__name__, None, function.__closure__
        )
        body.__qualname__ = function.__qualname__
        body.__module__ = function.__module__
        is_coroutine = bool(function.__code__.co_flags & _COROUTINE)
        if is_coroutine:
            hooks: dict[str, Any] = {"enter": _nothing, "failed": _nothing, "left": self._left_coroutine}
        else:
            hooks = {"enter": self._enter, "failed": self._failed, "left": self._left}
        hooks = {name: _Hook(hook) for name, hook in hooks.items()}
        old = function.__code__
        new = _trampoline(old, {"call": body, **hooks})
        function.__code__ = new
        self._swapped.append((function, old, new))
        self._bodies[id(old)] = old

    def remove(self) -> None:
        """Gives the functions their own code back; calls under way finish uncounted."""
        self.on_turn = None
        for function, old, new in self._swapped:
            if function.__code__ is new:  # else the program has swapped it itself: hands off
                function.__code__ = old
        self._swapped.clear()

    # The three below run inside the user's call: they must be short and must not raise.

    def _enter(self) -> None:
        thread = threading.get_ident()
        depth = self._depth.get(thread, 0)
        self._depth[thread] = depth + 1
        if depth == 0 and thread in self._unwound:
            self._unwound.discard(thread)
            self._turn()  # the call before this one ended by an exception: its traceback has died only now

    def _left(self) -> None:
        if self._leave() == 0:
            self._turn()

    def _failed(self) -> None:
        if self._leave() == 0:
            self._unwound.add(threading.get_ident())
        error = sys.exc_info()[1]
        if error is not None and error.__traceback__ is not None and sys.version_info >= (3, 11):
            # The trampoline's own line goes out of the traceback (3.10 restores it from its stack, so it stays there).
            error.__traceback__ = error.__traceback__.tb_next

    def _leave(self) -> int:
        thread = threading.get_ident()
        depth = self._depth.get(thread, 1) - 1
        if depth > 0:
            self._depth[thread] = depth
        else:
            self._depth.pop(thread, None)
        return depth

    def _left_coroutine(self) -> None:
        frame: types.FrameType | None = sys._getframe(1)
        while frame is not None:
            if id(frame.f_code) in self._bodies:
                return  # awaited by another call of itself
            frame = frame.f_back
        self._turn()

    def _turn(self) -> None:
        if self.on_turn is not None and os.getpid() == self._pid:
            self.on_turn()


class _Hook:
    """A hook as a constant of the trampoline; pickled by value (cloudpickle does) it becomes one that does nothing."""

    __slots__ = ("__weakref__", "_run")

    def __init__(self, run: Callable[[], None]) -> None:
        self._run = run

    def __call__(self) -> None:
        self._run()

    def __reduce__(self) -> str | tuple[Any, ...]:
        return (_Hook, (_nothing,))


def _nothing() -> None:
    """What a pickled trampoline calls."""


def _trampoline(code: types.CodeType, constants: dict[str, Any]) -> types.CodeType:
    """Code with the signature, name, place and free variables of `code`; calls `constants["call"]` between hooks."""
    names = code.co_varnames
    positional, only_positional, only_keyword = code.co_argcount, code.co_posonlyargcount, code.co_kwonlyargcount
    at = positional + only_keyword
    star = names[at] if code.co_flags & _VARARGS else None
    at += star is not None
    stars = names[at] if code.co_flags & _VARKEYWORDS else None

    def argument(name: str) -> ast.arg:
        return ast.arg(arg=name, annotation=None)

    def load(name: str) -> ast.expr:
        return ast.Name(id=name, ctx=ast.Load())

    def hook(name: str, args: list[ast.expr], keywords: list[ast.keyword]) -> ast.expr:
        # `"name".__call__(...)`, whose constant is replaced below: a constant called outright would be a SyntaxWarning
        target = ast.Attribute(value=ast.Constant(value=_PLACE + name), attr="__call__", ctx=ast.Load())
        return ast.Call(func=target, args=args, keywords=keywords)

    arguments = ast.arguments(
        posonlyargs=[argument(n) for n in names[:only_positional]],
        args=[argument(n) for n in names[only_positional:positional]],
        vararg=argument(star) if star else None,
        kwonlyargs=[argument(n) for n in names[positional : positional + only_keyword]],
        kw_defaults=[None] * only_keyword,
        kwarg=argument(stars) if stars else None,
        defaults=[],
    )
    passed: list[ast.expr] = [load(n) for n in names[:positional]]
    if star:
        passed.append(ast.Starred(value=load(star), ctx=ast.Load()))
    named = [ast.keyword(arg=n, value=load(n)) for n in names[positional : positional + only_keyword]]
    if stars:
        named.append(ast.keyword(arg=None, value=load(stars)))
    call = hook("call", passed, named)
    is_coroutine = bool(code.co_flags & _COROUTINE)
    if is_coroutine:
        call = ast.Await(value=call)
    attempt = ast.Try(
        body=[ast.Assign(targets=[ast.Name(id=_RESULT, ctx=ast.Store())], value=call)],
        handlers=[
            ast.ExceptHandler(
                type=None, name=None, body=[ast.Expr(value=hook("failed", [], [])), ast.Raise(exc=None, cause=None)]
            )
        ],
        orelse=[],
        finalbody=[],
    )
    # the arguments die before the turn is told, as they would have with the body's frame
    every = [*names[: positional + only_keyword], *(n for n in (star, stars) if n)]
    forget: list[ast.stmt] = [ast.Delete(targets=[ast.Name(id=n, ctx=ast.Del()) for n in every])] if every else []
    body: list[ast.stmt] = [
        ast.Expr(value=hook("enter", [], [])),
        attempt,
        *forget,
        ast.Expr(value=hook("left", [], [])),
        ast.Return(value=load(_RESULT)),
    ]
    kind: Any = ast.AsyncFunctionDef if is_coroutine else ast.FunctionDef
    definition = kind(name="trampoline", args=arguments, body=body, decorator_list=[], returns=None)
    if sys.version_info >= (3, 12):
        definition.type_params = []
    if code.co_freevars:
        # Inside a function that has these variables, so that the compiler sets up the cells as it did for `code`:
        # with the names alone put into the code object, reading the frame's locals is a crash (3.11).
        uses = ast.Tuple(elts=[load(n) for n in code.co_freevars], ctx=ast.Load())
        definition.body.insert(0, ast.If(test=ast.Constant(value=False), body=[ast.Expr(value=uses)], orelse=[]))
        cells = ast.arguments(
            posonlyargs=[], args=[argument(n) for n in code.co_freevars], vararg=None, kwonlyargs=[], kw_defaults=[],
            kwarg=None, defaults=[],
        )  # fmt: skip
        outer = ast.FunctionDef(name="outer", args=cells, body=[definition], decorator_list=[], returns=None)
        if sys.version_info >= (3, 12):
            outer.type_params = []
        module = ast.Module(body=[outer], type_ignores=[])
    else:
        module = ast.Module(body=[definition], type_ignores=[])
    for node in ast.walk(module):
        node.lineno = node.end_lineno = code.co_firstlineno  # type: ignore[attr-defined]
        node.col_offset = node.end_col_offset = 0  # type: ignore[attr-defined]
    compiled = compile(module, code.co_filename, "exec", dont_inherit=True)
    inner = next(c for c in compiled.co_consts if isinstance(c, types.CodeType))
    if code.co_freevars:
        inner = next(c for c in inner.co_consts if isinstance(c, types.CodeType))
        if inner.co_freevars != code.co_freevars:
            raise ValueError(f"{code.co_name} keeps its variables in another order")
    consts = tuple(
        constants[c[len(_PLACE) :]] if isinstance(c, str) and c.startswith(_PLACE) else c for c in inner.co_consts
    )
    changes: dict[str, Any] = {
        "co_name": code.co_name,
        "co_consts": consts,
        "co_firstlineno": code.co_firstlineno,
    }
    if sys.version_info >= (3, 11):
        changes["co_qualname"] = code.co_qualname
    return inner.replace(**changes)


_PLACE = "\0tenure:"
_RESULT = ".result"  # not an identifier, so no parameter can have this name


# --- counting turns of a loop --------------------------------------------------------------------------------


def can_count_lines() -> bool:
    """True where a loop without a call of a user's function can be counted: Python 3.12 and later."""
    return sys.version_info >= (3, 12)


class LineCounter:
    """Calls `on_turn` each time one line of one code object begins, on the thread that runs it."""

    def __init__(self, code: types.CodeType, line: int, on_turn: Callable[[], None]) -> None:
        self.on_turn: Callable[[], None] | None = on_turn
        self._code, self._line = code, line
        self._pid = os.getpid()
        self._tool: int | None = None
        if sys.version_info >= (3, 12):
            monitoring = sys.monitoring
            for tool in (4, 3):  # 0, 1, 2 and 5 belong to debuggers, coverage, profilers and optimisers
                if monitoring.get_tool(tool) is None:
                    monitoring.use_tool_id(tool, _TOOL_NAME)
                    self._tool = tool
                    monitoring.register_callback(tool, monitoring.events.LINE, self._line_begins)
                    monitoring.set_local_events(tool, code, monitoring.events.LINE)
                    break

    @property
    def installed(self) -> bool:
        return self._tool is not None

    def remove(self) -> None:
        """Ends the events and gives the tool's place back."""
        self.on_turn = None
        tool, self._tool = self._tool, None
        if sys.version_info >= (3, 12) and tool is not None:
            sys.monitoring.set_local_events(tool, self._code, 0)
            sys.monitoring.register_callback(tool, sys.monitoring.events.LINE, None)
            sys.monitoring.free_tool_id(tool)

    def _line_begins(self, code: types.CodeType, line: int) -> object:
        if sys.version_info >= (3, 12):
            if line != self._line or code is not self._code:
                return sys.monitoring.DISABLE
            if self.on_turn is not None and os.getpid() == self._pid:
                self.on_turn()
        return None
