"""The lines of a module that store into a name or an attribute, read from its syntax tree in one pass.

Aliases, loop variables and parameters are followed one step: `def keep(box, x): box.append(x)` stores into what
`keep(history, loss)` is called with.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace

from tenure.observe.sites import ANY, Site

__all__ = ["Reader"]

_APPENDING = frozenset(
    ("append", "appendleft", "add", "extend", "extendleft", "insert", "update", "setdefault", "__setitem__")
) | {"put", "put_nowait", "push", "set", "register", "write"}
# Functions that store into their first argument.
_APPENDING_FUNCTIONS = frozenset(("heappush", "heappushpop", "insort", "insort_left", "insort_right", "setitem"))
_EMPTY_CALLS = frozenset(("list", "dict", "set", "deque", "defaultdict", "OrderedDict", "Counter", "field")) | {
    *("WeakValueDictionary", "WeakKeyDictionary", "Queue", "ContextVar", "local")
}

_Function = ast.FunctionDef | ast.AsyncFunctionDef


@dataclass(slots=True)
class _Scope:
    name: str  # qualified, "" for the module
    parameters: list[str]
    bound: set[str]
    globals: set[str]
    nonlocals: set[str]
    aliases: dict[str, tuple[ast.expr, tuple[object, ...]]]


@dataclass(frozen=True, slots=True)
class _Target:
    """What an expression stores into: `self.history['loss']` is the attribute `history`, keys `('loss',)`."""

    base: str
    keys: tuple[object, ...]
    scope: str | None
    owner: str | None = None
    receiver: str = ""
    indirect: bool = False


class Reader:
    """One pass over a module's tree that notes every line that stores into something with a name."""

    def __init__(self, text: str) -> None:
        """`text` is the module's source. Raises SyntaxError, ValueError or RecursionError when it does not parse."""
        self.tree = tree = ast.parse(text)
        self.sites: list[Site] = []
        self.functions: list[tuple[int, int, str]] = []
        self.imports: list[tuple[str, str, str | None]] = []
        self.parameters: dict[str, list[str]] = {}  # qualified function name -> its parameters
        self.calls: list[tuple[str, bool, int | str, _Target]] = []  # function, is a method, argument, what is passed
        self.classes = {n.name for n in ast.walk(tree) if isinstance(n, ast.ClassDef)}
        self.scopes: list[_Scope] = [_Scope("", [], set(), set(), set(), {})]
        self.path: list[str] = []  # qualified name so far
        self.owner: str = ""  # the class around, qualified
        self.in_class_body = False

    def read(self) -> None:
        self._body(self.tree.body)

    def all_sites(self) -> Iterator[Site]:
        yield from self.sites
        yield from self._through_parameters()

    def _through_parameters(self) -> Iterator[Site]:
        """`remember(history, x)` stores into history where `remember` stores into its parameter (one call deep)."""
        by_name: dict[str, list[str]] = {}
        for qualified in self.parameters:
            by_name.setdefault(qualified.rpartition(".")[2], []).append(qualified)
        into: dict[tuple[str, str], list[Site]] = {}
        for site in self.sites:
            fills = not site.definition and site.verb != "="
            if fills and site.scope and site.base in self.parameters.get(site.scope, ()):
                into.setdefault((site.scope, site.base), []).append(site)
        for callee, method, argument, target in self.calls:
            for qualified in by_name.get(callee, ()):
                names = self.parameters[qualified]
                if isinstance(argument, int):
                    place = argument + (1 if method and names[:1] == ["self"] else 0)
                    if place >= len(names):
                        continue
                    argument_name = names[place]
                else:
                    argument_name = argument
                for site in into.get((qualified, argument_name), ()):
                    yield replace(
                        site,
                        base=target.base,
                        keys=target.keys + site.keys,
                        scope=target.scope,
                        owner=target.owner,
                        receiver=target.receiver,
                        indirect=True,
                    )

    # -- the tree ------------------------------------------------------------------------------------------------

    def _body(self, body: Sequence[ast.stmt]) -> None:
        for statement in body:
            self._statement(statement)

    def _statement(self, node: ast.stmt) -> None:
        if isinstance(node, _Function):
            self._function(node)
            return
        if isinstance(node, ast.ClassDef):
            self._class(node)
            return
        if isinstance(node, (ast.Import, ast.ImportFrom)):
            self._import(node)
            return
        if isinstance(node, ast.Assign):
            for target in node.targets:
                self._assign(target, node.value, node.lineno)
        elif isinstance(node, ast.AnnAssign):
            # A class-level annotation without a value declares a dataclass field: the container's definition.
            if node.value is not None or self.in_class_body:
                self._assign(node.target, node.value, node.lineno)
        elif isinstance(node, ast.AugAssign):
            self._emit(node.target, "+=", (ANY,), node.lineno)
            self._emit(node.target, "+=", (), node.lineno)
        elif isinstance(node, (ast.For, ast.AsyncFor)):
            self._alias_loop(node.target, node.iter)
            if isinstance(node.target, (ast.Attribute, ast.Subscript)):
                self._assign(node.target, None, node.lineno)
        elif isinstance(node, (ast.With, ast.AsyncWith)):
            for item in node.items:
                if item.optional_vars is not None:
                    self._assign(item.optional_vars, item.context_expr, node.lineno)
        for child in ast.iter_child_nodes(node):
            self._visit(child)

    def _visit(self, node: ast.AST) -> None:
        if isinstance(node, ast.stmt):
            self._statement(node)
            return
        if isinstance(node, ast.Call):
            self._call(node)
        elif isinstance(node, ast.NamedExpr):
            self._assign(node.target, node.value, node.lineno)
        for child in ast.iter_child_nodes(node):
            self._visit(child)

    def _function(self, node: _Function) -> None:
        for decorator in node.decorator_list:
            self._visit(decorator)
        arguments = node.args
        names = [a.arg for a in (*arguments.posonlyargs, *arguments.args, *arguments.kwonlyargs)]
        extra = [a.arg for a in (arguments.vararg, arguments.kwarg) if a is not None]
        self.path.append(node.name)
        qualified = ".".join(self.path)
        first = min([node.lineno, *(d.lineno for d in node.decorator_list)])
        self.functions.append((first, node.end_lineno or node.lineno, qualified))
        self.parameters[qualified] = names
        scope = _Scope(qualified, names, set(names) | set(extra), set(), set(), {})
        for inner in _own_statements(node.body):
            if isinstance(inner, ast.Global):
                scope.globals.update(inner.names)
            elif isinstance(inner, ast.Nonlocal):
                scope.nonlocals.update(inner.names)
            elif isinstance(inner, ast.Name) and isinstance(inner.ctx, ast.Store):
                scope.bound.add(inner.id)
            elif isinstance(inner, (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef)):
                scope.bound.add(inner.name)
        scope.bound -= scope.globals | scope.nonlocals
        positional = [*arguments.posonlyargs, *arguments.args]
        defaults = [*zip(reversed(positional), reversed(arguments.defaults), strict=False)]
        defaults += [(a, d) for a, d in zip(arguments.kwonlyargs, arguments.kw_defaults, strict=True) if d is not None]
        for argument, default in defaults:
            at = Site(default.lineno, qualified, "define", argument.arg, (), qualified, definition=True)
            self.sites.append(at)
        self.scopes.append(scope)
        self.path.append("<locals>")
        was, self.in_class_body = self.in_class_body, False
        self._body(node.body)
        self.in_class_body = was
        del self.path[-2:]
        self.scopes.pop()

    def _class(self, node: ast.ClassDef) -> None:
        self.path.append(node.name)
        was = self.owner, self.in_class_body
        self.owner, self.in_class_body = ".".join(self.path), True
        self._body(node.body)
        self.owner, self.in_class_body = was
        self.path.pop()

    def _import(self, node: ast.Import | ast.ImportFrom) -> None:
        for name in node.names:
            if isinstance(node, ast.Import):
                local = name.asname or name.name.partition(".")[0]
                self.imports.append((local, name.name if name.asname else local, None))
            else:
                self.imports.append((name.asname or name.name, node.module or "", name.name))

    def _call(self, node: ast.Call) -> None:
        function = node.func
        if isinstance(function, ast.Attribute) and function.attr in _APPENDING:
            key: object = ANY
            if function.attr in ("setdefault", "__setitem__") and node.args:
                key = _constant(node.args[0])
            # ContextVar.set, and a writer's or a set's `set`, put the value one step below the name.
            self._emit(function.value, function.attr, (key,), node.lineno)
        name = function.attr if isinstance(function, ast.Attribute) else getattr(function, "id", None)
        if name in _APPENDING_FUNCTIONS and node.args:
            self._emit(node.args[0], str(name), (ANY,), node.lineno)
        elif name == "setattr" and len(node.args) == 3 and isinstance(_constant(node.args[1]), str):
            self._note(_attribute(node.args[0], str(_constant(node.args[1])), self), "=", (), node.lineno, False)
        elif name is not None:
            method = isinstance(function, ast.Attribute)
            arguments: list[tuple[int | str, ast.expr]] = [*enumerate(node.args)]
            arguments += [(k.arg, k.value) for k in node.keywords if k.arg is not None]
            for argument, passed in arguments:
                if isinstance(passed, (ast.Name, ast.Attribute, ast.Subscript)):
                    for target in self._targets(passed):
                        self.calls.append((str(name), method, argument, target))

    # -- stores --------------------------------------------------------------------------------------------------

    def _assign(self, target: ast.expr, value: ast.expr | None, line: int) -> None:
        if isinstance(target, (ast.Tuple, ast.List)):
            values = value.elts if isinstance(value, (ast.Tuple, ast.List)) else [None] * len(target.elts)
            for t, v in zip(target.elts, values, strict=False):
                self._assign(t, v, line)
            return
        if isinstance(target, ast.Starred):
            self._assign(target.value, None, line)
            return
        if isinstance(target, ast.Subscript):
            self._emit(target, "[]=", (), line)
            return
        if isinstance(target, ast.Name):
            if self.in_class_body:
                at = Site(line, "", "define", target.id, (), None, self.owner, self.owner, definition=True)
                self.sites.append(at)
                return
            scope = self.scopes[-1]
            if value is not None and target.id in scope.bound and _peelable(value):
                scope.aliases[target.id] = (value, ())
            for found in self._targets(target, aliases=False):
                again = value is not None and found.base in {n.id for n in ast.walk(value) if isinstance(n, ast.Name)}
                makes = not again and (found.scope == scope.name or _empty(value))
                self._note(found, "define" if makes else "=", (), line, makes)
            return
        if isinstance(target, ast.Attribute):
            for found in self._targets(target):
                inside = self.scopes[-1].name.rpartition(".")[2] in ("__init__", "__post_init__", "build", "setup")
                read = ast.walk(value) if value is not None else ()
                again = found.base in {n.attr for n in read if isinstance(n, ast.Attribute)}
                makes = not again and (inside or _empty(value))
                self._note(found, "define" if makes else "=", (), line, makes)

    def _emit(self, expression: ast.expr, verb: str, keys: tuple[object, ...], line: int) -> None:
        for target in self._targets(expression):
            self._note(target, verb, keys, line, False)

    def _note(self, target: _Target, verb: str, keys: tuple[object, ...], line: int, definition: bool) -> None:
        self.sites.append(
            Site(
                line,
                self.scopes[-1].name,
                verb,
                target.base,
                target.keys + keys,
                target.scope,
                target.owner,
                target.receiver,
                definition,
                target.indirect,
            )
        )

    def _targets(self, expression: ast.expr, *, aliases: bool = True, depth: int = 0) -> list[_Target]:
        """What the expression names, with its subscripts; also what a local second name stands for."""
        base, keys = _peel(expression)
        if isinstance(base, ast.Name):
            if base.id == "globals" and keys and isinstance(keys[0], str):
                return [_Target(keys[0], keys[1:], "")]
            found = [_Target(base.id, keys, self._resolve(base.id), indirect=depth > 0)]
            alias = self.scopes[-1].aliases.get(base.id) if aliases else None
            if alias is not None and depth < 4:
                for target in self._targets(alias[0], depth=depth + 1):
                    if target.scope == found[0].scope and target.base == base.id:
                        continue
                    found.append(replace(target, keys=target.keys + alias[1] + keys, indirect=True))
            return found
        if isinstance(base, ast.Attribute):
            if base.attr == "__dict__" and keys and isinstance(keys[0], str):
                return [replace(_attribute(base.value, keys[0], self), keys=keys[1:])]
            return [replace(_attribute(base.value, base.attr, self), keys=keys, indirect=depth > 0)]
        if isinstance(base, ast.Call):
            name = getattr(base.func, "id", None)
            if name == "getattr" and len(base.args) >= 2 and isinstance(_constant(base.args[1]), str):
                return [replace(_attribute(base.args[0], str(_constant(base.args[1])), self), keys=keys)]
            if name == "vars" and base.args and keys and isinstance(keys[0], str):
                return [replace(_attribute(base.args[0], keys[0], self), keys=keys[1:])]
            if name == "globals" and keys and isinstance(keys[0], str):
                return [_Target(keys[0], keys[1:], "")]
        return []

    def _alias_loop(self, target: ast.expr, over: ast.expr) -> None:
        """`for name, bucket in buckets.items()`: bucket stands for `buckets[*]`."""
        if isinstance(over, ast.Call):
            name = over.func.attr if isinstance(over.func, ast.Attribute) else getattr(over.func, "id", "")
            if name in ("items", "values") and isinstance(over.func, ast.Attribute):
                over = over.func.value
            elif name == "enumerate" and over.args:
                over = over.args[0]
            else:
                return
            if name in ("items", "enumerate"):
                if not (isinstance(target, ast.Tuple) and len(target.elts) == 2):
                    return
                target = target.elts[1]
        if isinstance(target, ast.Name) and _peelable(over):
            self.scopes[-1].aliases[target.id] = (over, (ANY,))

    def _resolve(self, name: str) -> str:
        for scope in reversed(self.scopes[1:]):
            if name in scope.globals:
                return ""
            if name in scope.bound:
                return scope.name
        return ""

    def class_of(self, receiver: ast.expr) -> str | None:
        """The class an attribute belongs to where the receiver tells it: `self`, `cls`, `type(self)`, `Registry`."""
        if isinstance(receiver, ast.Call) and getattr(receiver.func, "id", "") == "type" and receiver.args:
            receiver = receiver.args[0]
        if isinstance(receiver, ast.Attribute) and receiver.attr == "__class__":
            receiver = receiver.value
        if not isinstance(receiver, ast.Name):
            return None
        for scope in reversed(self.scopes[1:]):
            if receiver.id in scope.bound:
                inside_class = self.owner and scope.name.startswith(self.owner + ".")
                return self.owner if inside_class and scope.parameters[:1] == [receiver.id] else None
        return receiver.id if receiver.id in self.classes else None


def _attribute(receiver: ast.expr, name: str, reader: Reader) -> _Target:
    return _Target(name, (), None, reader.class_of(receiver), getattr(receiver, "id", ""))


def _own_statements(body: Sequence[ast.stmt]) -> Iterator[ast.AST]:
    """Every node of a function's body that is not inside a nested function or class; those themselves included."""
    waiting: list[ast.AST] = list(body)
    while waiting:
        node = waiting.pop()
        yield node
        if not isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef, ast.Lambda)):
            waiting.extend(ast.iter_child_nodes(node))


def _peel(expression: ast.expr) -> tuple[ast.expr, tuple[object, ...]]:
    """The named thing below subscripts and `setdefault`/`get` calls, and the keys from it outwards."""
    keys: list[object] = []
    while True:
        if isinstance(expression, ast.Subscript):
            keys.append(_constant(expression.slice))
            expression = expression.value
        elif (
            isinstance(expression, ast.Call)
            and isinstance(expression.func, ast.Attribute)
            and expression.func.attr in ("setdefault", "get")
        ):
            keys.append(_constant(expression.args[0]) if expression.args else ANY)
            expression = expression.func.value
        else:
            return expression, tuple(reversed(keys))


def _peelable(expression: ast.expr) -> bool:
    return isinstance(_peel(expression)[0], (ast.Name, ast.Attribute))


def _constant(expression: ast.expr) -> object:
    if isinstance(expression, ast.Constant) and isinstance(expression.value, (str, int, bytes, float)):
        return expression.value
    return ANY


def _empty(value: ast.expr | None) -> bool:
    """Makes a new, empty or constant thing: a start or a reset, not something kept."""
    if value is None:
        return True
    if isinstance(value, (ast.List, ast.Set, ast.Tuple)):
        return not value.elts
    if isinstance(value, ast.Dict):
        return not value.keys
    if isinstance(value, ast.Call):
        function = value.func
        name = function.attr if isinstance(function, ast.Attribute) else getattr(function, "id", "")
        return name in _EMPTY_CALLS
    return isinstance(value, ast.Constant)
