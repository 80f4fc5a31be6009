"""A line of the user's source that stores into something with a name."""

from __future__ import annotations

from dataclasses import dataclass

__all__ = ["ANY", "Site"]

ANY = "*"
"""A key that the source does not tell: a variable index, or the end of a list."""


@dataclass(frozen=True, slots=True)
class Site:
    """A line that stores into a name or an attribute, and how."""

    line: int
    function: str  # qualified name of the function around the line; "" outside functions
    verb: str  # the method called, or one of "[]=", "=", "+=", "define"
    base: str  # the variable or attribute stored into
    keys: tuple[object, ...]  # the subscripts between `base` and the new value, ANY where the source does not tell
    scope: str | None  # a variable: the function it is local to (qualified), "" for a global; None for an attribute
    owner: str | None = None  # an attribute: the class it belongs to, where the receiver tells (`self`, `Registry`)
    receiver: str = ""  # an attribute: the name it is read from
    definition: bool = False  # makes the container rather than filling it
    indirect: bool = False  # through a second name or a parameter
