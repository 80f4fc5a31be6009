"""The form of an entry in the catalogue of causes."""

from __future__ import annotations

from dataclasses import dataclass

__all__ = ["Cause"]


@dataclass(frozen=True, slots=True)
class Cause:
    """One named reason why memory grows, and its cure.

    `kind` is the usual class (leak, cost, peak, retention, hazard); a finding carries its own. `origin` is user,
    framework, allocator or unknown. `remedy` is what a finding prints, in one or two sentences; `cure` is the longer
    form for a page. `versions` says in which TensorFlow versions it was seen, and `measured` what it cost there: empty
    when nobody measured it.
    `upstream` names public issues as `owner/name#number`. `looks_like` is a short example of the code.
    """

    name: str
    code: str
    kind: str
    origin: str
    summary: str
    why: str
    remedy: str
    cure: str
    versions: str
    looks_like: str
    measured: str = ""
    upstream: tuple[str, ...] = ()
