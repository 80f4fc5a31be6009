"""Imports of ours beside a program whose own files may have the names of what we import: statistics.py, rich.py.

What only tenure has imported under such a name leaves `sys.modules` before the program starts, so that the program gets
its own file, as it does without tenure. Within `own_imports` the path and the modules are those that held before.
"""

from __future__ import annotations

import contextlib
import sys
import threading
from collections.abc import Iterable, Iterator
from importlib import import_module
from importlib.machinery import PathFinder
from types import ModuleType
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    import numpy as numpy

__all__ = ["make_room", "numpy", "own_imports"]

# Python itself has these before a program's first line, so no file beside the program takes their place.
_AT_START = {"__main__", "_collections_abc", "_sitebuiltins", "abc", "codecs", "encodings", "genericpath", "io", "os"}
_AT_START |= {"posixpath", "ntpath", "site", "stat", "zipimport", *sys.builtin_module_names}

_path: list[str] | None = None
_names: set[str] = set()
_ours: dict[str, ModuleType] = {}
_one_at_a_time = threading.RLock()


def make_room(folder: str, libraries: Iterable[str] = ()) -> None:
    """Leaves the `libraries`, and each name that `folder` has a module of, to the program.

    Call it before the program's path is in place. `folder` is the first of that path, or empty where it has none.
    """
    global _path
    _path = list(sys.path)
    _names.update(libraries)
    if folder:
        known = {name.partition(".")[0] for name in sys.modules} | sys.stdlib_module_names | {"psutil"}
        _names.update(name for name in known - _AT_START - {"tenure"} if _lies_in(folder, name))
    _ours.update(_taken())


@contextlib.contextmanager
def own_imports() -> Iterator[None]:
    """Within it an import is ours; the program's modules are back in place after it."""
    if _path is None:
        yield
        return
    with _one_at_a_time:
        theirs, path = _taken(), sys.path
        sys.modules.update(_ours)
        sys.path = list(_path)
        try:
            yield
        finally:
            _ours.update(_taken())
            sys.modules.update(theirs)
            sys.path = path


def _taken() -> dict[str, ModuleType]:
    """Takes the modules of the names that are the program's out of `sys.modules`."""
    found = [name for name in list(sys.modules) if name.partition(".")[0] in _names]
    return {name: sys.modules.pop(name) for name in found}


def _lies_in(folder: str, name: str) -> bool:
    try:
        spec = PathFinder.find_spec(name, [folder])
    except (ImportError, ValueError):
        return False
    if spec is None or spec.loader is None:  # a folder without __init__.py comes after the standard library
        return False
    module = sys.modules.get(name)
    return module is None or getattr(module, "__file__", None) != spec.origin


class _Later:
    """A module that is imported when something of it is first asked for: the program may set its environment before."""

    def __init__(self, name: str) -> None:
        self._name = name

    def __getattr__(self, attribute: str) -> Any:
        if attribute.startswith("__"):
            raise AttributeError(attribute)
        value = getattr(sys.modules.get(self._name), "__dict__", {}).get(attribute)
        if value is None:  # not imported yet, or a part that the module itself imports when it is asked for
            with own_imports():
                value = getattr(import_module(self._name), attribute)
        self.__dict__[attribute] = value
        return value


if not TYPE_CHECKING:
    numpy = _Later("numpy")
