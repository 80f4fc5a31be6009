"""What kind of thing an object of the program's is, without a line of its code being run."""

from __future__ import annotations

from typing import Any, TypeGuard, TypeVar, overload

__all__ = ["is_a"]

T = TypeVar("T")


@overload
def is_a(obj: Any, kinds: type[T]) -> TypeGuard[T]: ...


@overload
def is_a(obj: Any, kinds: tuple[type, ...]) -> bool: ...


def is_a(obj: Any, kinds: type | tuple[type, ...]) -> bool:
    """Whether the object's type is one of these or below one. `isinstance` would read its `__class__` on a miss: a
    property of the program's may raise there, and a lazy module or a proxy loads what it stands for."""
    return issubclass(type(obj), kinds)
