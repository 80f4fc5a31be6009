"""The catalogue of causes: what each means, why it grows, what cures it.

Pure data, in three files by who is behind the growth: the user's code, the framework's caches, the allocators.
Names and codes never change once released: scripts and suppressions rest on them.
"""

from __future__ import annotations

from collections.abc import Mapping
from difflib import get_close_matches
from types import MappingProxyType

from tenure.causes._cause import Cause
from tenure.causes.allocator import ALLOCATOR
from tenure.causes.framework import FRAMEWORK
from tenure.causes.user import USER

__all__ = ["CATALOGUE", "Cause", "by_code", "find", "near"]

_ORDERED = sorted((*USER, *FRAMEWORK, *ALLOCATOR), key=lambda cause: cause.code)

CATALOGUE: Mapping[str, Cause] = MappingProxyType({cause.name: cause for cause in _ORDERED})
"""Every cause by its name, in the order of the codes."""

by_code: Mapping[str, Cause] = MappingProxyType({cause.code: cause for cause in _ORDERED})
"""The same by code (TEN101 ...)."""


def find(key: str) -> Cause:
    """The cause with this name or code, in any case (`TEN201`, `ten201`, `gradient-registry`).

    Raises KeyError, whose argument is the key as given, when there is none; `near` then has suggestions.
    """
    cause = by_code.get(key.upper()) or CATALOGUE.get(key.lower())
    if cause is None:
        raise KeyError(key)
    return cause


def near(key: str) -> tuple[str, ...]:
    """Up to three names or codes that look like the key, the closest first; empty when nothing does."""
    if key.upper().startswith("TEN"):
        return tuple(get_close_matches(key.upper(), by_code, n=3, cutoff=0.6))
    parts = [name for name in CATALOGUE if key.lower() in name]
    close = get_close_matches(key.lower(), CATALOGUE, n=3, cutoff=0.5)
    return tuple(dict.fromkeys([*parts, *close]))[:3]
