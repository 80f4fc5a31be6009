"""The user's source, read once a file: the text of a line, the function around it, the lines that store into a name.

Text comes through `linecache`, so notebook cells and interactive input are read like files. A file that is gone, does
not parse or is not text gives empty answers, never an error: the caller then knows a name but no line.
"""

from __future__ import annotations

import linecache
import os
import sys
import sysconfig
import types
from collections import OrderedDict
from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass

from tenure.observe.sites import ANY, Site
from tenure.probes.kinds import is_a

__all__ = [
    "ANY",
    "Site",
    "Source",
    "absolute",
    "function_at",
    "line_text",
    "module_file",
    "module_name",
    "source",
    "source_path",
    "storing_lines",
    "user_file",
    "user_frame",
    "user_module",
]

# -- whose code is it ------------------------------------------------------------------------------------------------

_TENURE = os.path.dirname(os.path.dirname(os.path.abspath(__file__))) + os.sep
_STDLIB = tuple({os.path.realpath(sysconfig.get_path(name)) + os.sep for name in ("stdlib", "platstdlib")})
_INSTALLED = (f"{os.sep}site-packages{os.sep}", f"{os.sep}dist-packages{os.sep}")
_TYPED_IN = ("<stdin>", "<ipython-input", "<python-input", "<doctest ")
_GENERATED = "__autograph_generated_file"


def _current_folder() -> str:
    try:
        return os.getcwd()
    except OSError:  # it was removed
        return os.sep


_BEGAN_IN = _current_folder()


def absolute(file: str) -> str:
    """The file in full. A relative one is seen from the folder that tenure was loaded in: the program may leave it."""
    first = os.path.normpath(os.path.join(_BEGAN_IN, file))
    if os.path.isabs(file) or os.path.exists(first):
        return first
    try:
        return os.path.abspath(file)
    except OSError:
        return first


_users: dict[str, bool] = {}
_MEMO = 10_000  # a traced function's generated file has a new name each time, so the memo must have an end


def user_file(path: str) -> bool:
    """True for a file the user wrote: not the standard library's, not installed, not TensorFlow-generated, not ours."""
    known = _users.get(path)
    if known is None:
        if len(_users) >= _MEMO:
            _users.clear()
        known = _users[path] = _is_user_file(path)
    return known


def _is_user_file(path: str) -> bool:
    if path.startswith("<"):
        # `python -c` runs as <string>; so does generated code (dataclasses, namedtuples) of every other program.
        return path.startswith(_TYPED_IN) or (
            path == "<string>" and not hasattr(sys.modules.get("__main__"), "__file__")
        )
    if os.path.basename(path).startswith(_GENERATED):
        return False
    full = absolute(path)
    if full.startswith(_TENURE) or any(part in full for part in _INSTALLED):
        return False
    # A virtual environment links to the standard library of the interpreter it was made from.
    return not os.path.realpath(full).startswith(_STDLIB)


def user_frame(frame: types.FrameType) -> bool:
    """True for a frame that runs the user's code."""
    return user_file(frame.f_code.co_filename)


def user_module(name: str, module: object) -> bool:
    """True for `__main__` and for modules whose file the user wrote."""
    file = module_file(module)
    if name == "__main__":
        return file is None or not absolute(file).startswith(_TENURE)
    return file is not None and user_file(file)


def module_file(module: object) -> str | None:
    """The file that a module, or the namespace of one, came from, or None. Wakes no lazy module."""
    # Not getattr: a lazy module loads itself when asked for an attribute.
    names = module.__dict__ if is_a(module, types.ModuleType) else module if type(module) is dict else {}
    file = names.get("__file__")
    return file if is_a(file, str) else None


def module_name(name: str, module: object = None) -> str:
    """The user's word for a module: the stem of its file, so that a program has one name as script and as import."""
    file = module_file(sys.modules.get(name) if module is None else module)
    if file is None or (name != "__main__" and not user_file(file)):
        return name
    stem = os.path.splitext(os.path.basename(file))[0]
    return stem if stem not in ("__init__", "__main__") else os.path.basename(os.path.dirname(absolute(file)))


# -- what is in a file ------------------------------------------------------------------------------------------------

_FILES = 64  # parsed files kept; a program's own files are few, and a tree of 1,000 lines takes about 2 MB
_LARGEST = 2_000_000  # characters; beyond it a file is generated data, not a program


@dataclass(frozen=True, slots=True)
class Source:
    """One parsed file: where it stores, its functions by line, its imports."""

    file: str
    sites: tuple[Site, ...]
    functions: tuple[tuple[int, int, str], ...]  # first line (decorators included), last line, qualified name
    imports: tuple[tuple[str, str, str | None], ...]  # local name, module, name in that module or None


_parsed: OrderedDict[str, tuple[int, Source | None]] = OrderedDict()


def source_path(file: str) -> str:
    """The file of a code object in full: a script's code has the path as it was typed, its module the whole one."""
    return file if file.startswith("<") else absolute(file)


def line_text(file: str, line: int) -> str:
    """The line, stripped; empty where the file or the line is not to be had."""
    return linecache.getline(source_path(file), line).strip()


def source(file: str) -> Source | None:
    """The parsed file, or None where there is no text or it does not parse. Read again when the file has changed.

    A file that was deleted after it was first read keeps its answers.
    """
    file = source_path(file)
    if os.path.exists(file):
        linecache.checkcache(file)
    text = "".join(linecache.getlines(file))
    stamp = hash(text)
    known = _parsed.get(file)
    if known is not None and known[0] == stamp:
        _parsed.move_to_end(file)
        return known[1]
    parsed = _parse(file, text)
    _parsed[file] = (stamp, parsed)
    _parsed.move_to_end(file)
    while len(_parsed) > _FILES:
        _parsed.popitem(last=False)
    return parsed


def function_at(file: str, line: int) -> str | None:
    """The qualified name of the innermost function around a line (its decorators count), or None outside functions."""
    parsed = source(file)
    if parsed is None:
        return None
    around = [f for f in parsed.functions if f[0] <= line <= f[1]]
    return max(around, key=lambda f: (f[0], -f[1]))[2] if around else None


def storing_lines(
    file: str,
    name: str,
    *,
    keys: Sequence[object] = (),
    attribute: bool = False,
    scope: str = "",
    owners: Collection[str] = (),
    module: str | None = None,
) -> list[Site]:
    """The lines of a file that store into a name, the likeliest first; definitions come after every line that fills.

    `keys` are the steps from the name to the value that is kept (`history['loss'][*]` is `("loss", ANY)`). A variable
    is looked for in `scope` (the function it is local to, "" for a global); an attribute in the classes `owners`
    (qualified or plain names) and wherever the receiver does not tell its class. With `module` the file is another one
    than the module's own: only lines that reach the name through an import of that module count.
    """
    parsed = source(file)
    if parsed is None:
        return []
    if attribute:
        of_class = [s for s in parsed.sites if s.scope is None and s.base == name]
        found = [s for s in of_class if s.owner is None or s.owner in owners]
    elif module is None:
        found = [s for s in parsed.sites if s.scope == scope and s.base == name]
    else:
        found = list(_imported(parsed, module, name))
    found = [s for s in found if _keys_agree(s.keys, keys)]
    # Two names of one line (an alias and what it stands for) are one line.
    by_line: dict[int, Site] = {}
    for site in sorted(found, key=lambda s: _rank(s, len(keys))):
        by_line.setdefault(site.line, site)
    return list(by_line.values())


def _imported(parsed: Source, module: str, name: str) -> Iterator[Site]:
    tail = module.rpartition(".")[2]
    names = {local for local, origin, member in parsed.imports if member == name and origin.rpartition(".")[2] == tail}
    modules = {local for local, origin, member in parsed.imports if (member or origin.rpartition(".")[2]) == tail}
    for site in parsed.sites:
        by_name = site.scope == "" and site.base in names and not site.definition
        if by_name or (site.scope is None and site.base == name and site.receiver in modules):
            yield site


def _keys_agree(written: Sequence[object], asked: Sequence[object]) -> bool:
    return all(w in (a, ANY) or a == ANY for w, a in zip(written, asked, strict=False))


def _rank(site: Site, depth: int) -> tuple[int, ...]:
    exact = sum(k != ANY for k in site.keys)
    return (
        site.definition,
        abs(len(site.keys) - depth),
        -exact,
        not site.function,
        site.function.rpartition(".")[2] in ("__init__", "__post_init__"),
        site.scope is None and site.owner is None,
        site.indirect,
        site.line,
    )


def _parse(file: str, text: str) -> Source | None:
    if not text or len(text) > _LARGEST:
        return None
    from tenure.observe.assignments import Reader  # with all of `ast` it costs 13 ms, and few runs need it

    try:
        reader = Reader(text)
    except (SyntaxError, ValueError, RecursionError):
        return None
    try:
        reader.read()
    except RecursionError:  # an expression nested thousands deep is data
        return None
    return Source(file, tuple(reader.all_sites()), tuple(reader.functions), tuple(reader.imports))
