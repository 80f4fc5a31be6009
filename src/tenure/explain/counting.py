"""Counters that call back right after one turn of a user's function or loop, at the cost of one Python call a turn.

`FunctionCounter` swaps the `__code__` of one function for a trampoline with the same signature, name, file, line and
free variables: every reference to the function (global, method, closure, callback in a list) is counted, its identity,
pickling by name and `inspect.signature` stay, and the call back runs after the body's frame has died. From Python 3.11
the trampoline's frame is not seen while the body runs (`sys._getframe`, `stacklevel`, tracebacks), and it holds no
argument. A function that calls itself has its own code during an outermost call, so that it may go as deep as ever.
`LineCounter` counts the turns of a loop by its line with `sys.monitoring` (Python 3.12 and later); no other code pays
for it. Neither lets an error of the call back into the program; whoever is called back leaves forked children out.
"""

from __future__ import annotations

import ast
import gc
import opcode
import sys
import types
from _thread import get_ident as _get_ident
from collections.abc import Callable, Iterable, Iterator
from functools import lru_cache, partial
from typing import Any

from tenure.probes.kinds import is_a

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
_CLASS_DICT = type.__dict__["__dict__"].__get__  # past what a metaclass makes of it


def countable(code: types.CodeType) -> bool:
    """True when one call of this code can be one turn: a function or coroutine; no module, class body or generator.

    Nor one that looks at the frame of its caller, where the trampoline's could be seen in its place.
    """
    if not code.co_flags & _OPTIMIZED or code.co_flags & (_GENERATOR | _ASYNC_GENERATOR):
        return False
    if _looks_back(code) and (code.co_flags & _COROUTINE or not _can_hide()):
        return False
    return code.co_name not in {"<listcomp>", "<setcomp>", "<dictcomp>", "<genexpr>"}


_LOOKING = {"_getframe", "_getframemodulename", "currentframe", "f_back", "walk_stack", "extract_stack", "print_stack"}


def _looks_back(code: types.CodeType) -> bool:
    names = code.co_names
    by_name = not _LOOKING.isdisjoint(names) or ("stack" in names and "inspect" in names)
    return by_name or any(type(const) is tuple and "stacklevel" in const for const in code.co_consts)


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


def _functions_within(value: Any, depth: int) -> Iterator[types.FunctionType]:
    if depth > 4:
        return
    if is_a(value, types.FunctionType):
        yield value
        for cell in value.__closure__ or ():
            try:
                held = cell.cell_contents
            except ValueError:  # an empty cell
                continue
            if is_a(held, (types.FunctionType, types.MethodType)):
                yield from _functions_within(held, depth + 1)
        wrapped = value.__dict__.get("__wrapped__")
        if wrapped is not None:
            yield from _functions_within(wrapped, depth + 1)
    elif is_a(value, (types.MethodType, staticmethod, classmethod)):
        yield from _functions_within(value.__func__, depth + 1)
    elif is_a(value, property):
        for part in (value.fget, value.fset):
            yield from _functions_within(part, depth + 1)
    elif type(value) is type or (is_a(value, type) and depth == 0):
        for inner in list(_CLASS_DICT(value).values()):
            yield from _functions_within(inner, depth + 1)


def functions_of_by_heap(code: types.CodeType) -> list[types.FunctionType]:
    """The functions that run `code`, nested ones included. Walks the gc heap: only on the main thread."""
    return [f for f in gc.get_referrers(code) if is_a(f, types.FunctionType) and f.__code__ is code]


# --- counting calls ------------------------------------------------------------------------------------------


class FunctionCounter:
    """Calls `on_turn` after each outermost call of the given functions (which all run one code object)."""

    def __init__(self, functions: Iterable[types.FunctionType], on_turn: Callable[[], None]) -> None:
        self.on_turn: Callable[[], None] | None = on_turn
        self._swapped: list[tuple[types.FunctionType, types.CodeType, types.CodeType]] = []
        self._bodies: dict[int, types.CodeType] = {}
        self._depth: dict[int, int] = {}
        self._unwound: set[int] = set()
        self._calls_itself = False
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
        hidden = not is_coroutine and _can_hide()
        if is_coroutine:
            hooks: dict[str, Any] = {
                "enter": self._enter_coroutine,
                "failed": self._leave_coroutine,
                "left": self._left_coroutine,
            }
        else:
            hooks = {"enter": self._enter, "failed": partial(self._failed, hidden), "left": self._left}
        hooks = {name: _Hook(hook) for name, hook in hooks.items()}
        old = function.__code__
        new = _trampoline(old, {"call": body, **hooks}, hidden)
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

    def _own_code(self) -> None:
        for function, old, new in self._swapped:
            if function.__code__ is new:
                function.__code__ = old

    def _own_code_no_more(self) -> None:
        if self._calls_itself and not self._depth:
            for function, old, new in self._swapped:
                if function.__code__ is old:
                    function.__code__ = new

    # What is below runs inside the user's call: it must be short and must not raise. The argument is what `enter` gave.

    def _enter(self) -> None:
        thread = _get_ident()
        if thread not in self._depth and not self._calls_itself and not self._unwound:
            self._depth[thread] = 1
            return
        depth = self._depth.get(thread, 0)
        self._depth[thread] = depth + 1
        if depth:
            self._calls_itself = True
        if self._calls_itself:
            self._own_code()  # the calls within this one go without a trampoline: two frames each would be too deep
        if depth == 0 and thread in self._unwound:
            self._unwound.discard(thread)
            self._turn()  # the call before this one ended by an exception: its traceback has died only now

    def _left(self, _: None) -> None:
        thread = _get_ident()
        if not self._calls_itself and self._depth.get(thread) == 1:
            del self._depth[thread]
            if self.on_turn is not None:
                self.on_turn()
        elif self._leave() == 0:
            self._turn()

    def _failed(self, hidden: bool, _: None) -> None:
        if self._leave() == 0:
            self._unwound.add(_get_ident())
        error = sys.exc_info()[1]
        if not hidden and error is not None and error.__traceback__ is not None and sys.version_info >= (3, 11):
            # The trampoline's own line goes out of the traceback (3.10 restores it from its stack, so it stays there).
            error.__traceback__ = error.__traceback__.tb_next

    def _leave(self) -> int:
        thread = _get_ident()
        depth = self._depth.get(thread, 1) - 1
        if depth > 0:
            self._depth[thread] = depth
        else:
            self._depth.pop(thread, None)
            self._own_code_no_more()
        return depth

    def _enter_coroutine(self) -> bool:
        """Whether no other call of itself awaits this one. Calls of several tasks are under way at a time."""
        frame: types.FrameType | None = sys._getframe(1)  # the trampoline
        frame = frame.f_back if frame is not None else None
        while frame is not None and id(frame.f_code) not in self._bodies:
            frame = frame.f_back
        if frame is None:
            self._depth[0] = self._depth.get(0, 0) + 1
        else:
            self._calls_itself = True
        if self._calls_itself:
            self._own_code()
        return frame is None

    def _leave_coroutine(self, outermost: bool) -> None:
        if outermost:
            under_way = self._depth.pop(0, 1) - 1
            if under_way > 0:
                self._depth[0] = under_way
            self._own_code_no_more()

    def _left_coroutine(self, outermost: bool) -> None:
        self._leave_coroutine(outermost)
        if outermost:
            self._turn()

    def _turn(self) -> None:
        if self.on_turn is not None:
            self.on_turn()


class _Hook(partial[Any]):
    """A hook as a constant of the trampoline; pickled by value (cloudpickle does) it becomes one that does nothing."""

    def __reduce__(self) -> str | tuple[Any, ...]:
        return (_Hook, (_nothing,))


def _nothing(*_: object) -> None:
    """What a pickled trampoline calls."""


def _trampoline(code: types.CodeType, constants: dict[str, Any], hidden: bool) -> types.CodeType:
    """Code with the signature, name, place and free variables of `code`; calls `constants["call"]` between hooks.

    `hidden`: its frame is not seen while the body runs.
    """
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

    def constant(name: str) -> ast.expr:
        # `"name".__call__(...)`, whose constant is replaced below: a constant called outright would be a SyntaxWarning
        return ast.Attribute(value=ast.Constant(value=_PLACE + name), attr="__call__", ctx=ast.Load())

    def hook(name: str, *args: ast.expr) -> ast.expr:
        return ast.Call(func=constant(name), args=list(args), keywords=[])

    arguments = ast.arguments(
        posonlyargs=[argument(n) for n in names[:only_positional]],
        args=[argument(n) for n in names[only_positional:positional]],
        vararg=argument(star) if star else None,
        kwonlyargs=[argument(n) for n in names[positional : positional + only_keyword]],
        kw_defaults=[None] * only_keyword,
        kwarg=argument(stars) if stars else None,
        defaults=[],
    )
    plain = [*names[:positional], *names[positional : positional + only_keyword]]

    def call(with_stars: bool) -> ast.expr:
        passed: list[ast.expr] = [load(n) for n in plain]
        if passed:
            # The last argument is `(last, a := None, b := None, ...)[0]`: all are on the stack by then, and the callee
            # takes them from there, so that what it deletes is dead, as without the trampoline.
            given_up: list[ast.expr] = [
                ast.NamedExpr(target=ast.Name(id=n, ctx=ast.Store()), value=ast.Constant(value=None)) for n in plain
            ]
            passed[-1] = ast.Subscript(
                value=ast.Tuple(elts=[passed[-1], *given_up], ctx=ast.Load()),
                slice=ast.Constant(value=0),
                ctx=ast.Load(),
            )
        named = [ast.keyword(arg=n, value=v) for n, v in zip(plain[positional:], passed[positional:], strict=True)]
        del passed[positional:]
        if with_stars and star:
            passed.append(ast.Starred(value=load(star), ctx=ast.Load()))
        if with_stars and stars:
            named.append(ast.keyword(arg=None, value=load(stars)))
        # A local where its frame is not seen: then the interpreter moves the arguments over to the callee's frame. Else
        # it would be taken for a variable of the program's.
        func = load(_CALL) if hidden else constant("call")
        return ast.Call(func=func, args=passed, keywords=named)

    calling = call(True)
    if star or stars:  # a call with stars keeps a tuple of all arguments on this side
        any_star = ast.BoolOp(op=ast.Or(), values=[load(n) for n in (star, star, stars, stars) if n])
        calling = ast.IfExp(test=any_star, body=calling, orelse=call(False))
    is_coroutine = bool(code.co_flags & _COROUTINE)
    if is_coroutine:
        calling = ast.Await(value=calling)

    def assign(name: str, value: ast.expr) -> ast.stmt:
        return ast.Assign(targets=[ast.Name(id=name, ctx=ast.Store())], value=value)

    def seen() -> list[ast.stmt]:
        return [ast.Pass()] if hidden else []

    attempt = ast.Try(
        body=[assign(_RESULT, calling)],
        handlers=[
            ast.ExceptHandler(
                type=None,
                name=None,
                body=[*seen(), ast.Expr(value=hook("failed", load(_ENTERED))), ast.Raise(exc=None, cause=None)],
            )
        ],
        orelse=[],
        finalbody=[],
    )
    # the arguments die before the turn is told, as they would have with the body's frame
    every = [*plain, *(n for n in (star, stars) if n), *([_CALL] if hidden else [])]
    forget: list[ast.stmt] = [ast.Delete(targets=[ast.Name(id=n, ctx=ast.Del()) for n in every])] if every else []
    body: list[ast.stmt] = [
        assign(_ENTERED, hook("enter")),
        *([assign(_CALL, ast.Constant(value=_PLACE + "call"))] if hidden else []),
        attempt,
        *forget,
        *seen(),
        ast.Expr(value=hook("left", load(_ENTERED))),
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
        # A `pass` is compiled to an instruction that does nothing as long as it is alone on its line.
        node.lineno = node.end_lineno = code.co_firstlineno + isinstance(node, ast.Pass)  # type: ignore[attr-defined]
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
    if hidden:
        changes["co_code"] = _seen_late(inner, code.co_firstlineno + 1)
    return inner.replace(**changes)


_PLACE = "\0tenure:"
_RESULT, _CALL, _ENTERED = ".result", ".call", ".entered"  # no identifiers, so no parameter can have these names


def _seen_late(code: types.CodeType, line: int) -> bytes:
    """The instructions with RESUME moved from the start to the two `pass` on this line.

    A frame that has not come to the first RESUME is skipped by all that walks frames (Python 3.11 to 3.13).
    """
    made = bytearray(code.co_code)
    resume, nothing = opcode.opmap["RESUME"], opcode.opmap["NOP"]
    first = next(at for at in range(0, len(made), 2) if made[at] == resume)
    positions: Iterable[tuple[int | None, ...]] = getattr(code, "co_positions")()  # noqa: B009 (3.10 has none)
    lines = [position[0] for position in positions]
    places = [at for at in range(0, len(made), 2) if made[at] == nothing and lines[at // 2] == line]
    if len(places) != 2 or made[first + 1] != 0 or any(made[at] == resume for at in range(first + 2, len(made), 2)):
        raise ValueError(f"{code.co_name} is compiled in another way")
    made[first] = nothing
    for place in places:
        made[place : place + 2] = bytes((resume, 0))
    return bytes(made)


@lru_cache(maxsize=1)
def _can_hide() -> bool:
    """Whether a trampoline's frame can be kept out of sight: tried once."""
    if "RESUME" not in opcode.opmap or sys.implementation.name != "cpython":
        return False

    def look(fails: bool) -> types.FrameType | None:
        if fails:
            raise LookupError
        return sys._getframe().f_back

    body = types.FunctionType(look.__code__, globals())
    hooks = {name: _Hook(_nothing) for name in ("enter", "failed", "left")}
    try:
        look.__code__ = _trampoline(look.__code__, {"call": body, **hooks}, True)
        seen = look(False) is sys._getframe()
        try:
            look(True)
        except LookupError as error:
            trace = error.__traceback__.tb_next if error.__traceback__ is not None else None
            return seen and trace is not None and trace.tb_frame.f_code is body.__code__
    except (ValueError, StopIteration, KeyError):
        pass
    return False


# --- counting turns of a loop --------------------------------------------------------------------------------


def can_count_lines() -> bool:
    """True where a loop without a call of a user's function can be counted: Python 3.12 and later."""
    return sys.version_info >= (3, 12)


class LineCounter:
    """Calls `on_turn` each time one line of one code object begins, on the thread that runs it."""

    def __init__(self, code: types.CodeType, line: int, on_turn: Callable[[], None]) -> None:
        self.on_turn: Callable[[], None] | None = on_turn
        self._code, self._line = code, line
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
            if self.on_turn is not None:
                self.on_turn()
        return None
