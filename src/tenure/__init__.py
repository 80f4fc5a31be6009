"""What keeps your TensorFlow objects alive.

The public names load on first use; `import tenure` takes milliseconds and imports no TensorFlow.

    tenure.census()    what is alive, how big, who owns it
    tenure.why(obj)    who keeps an object alive, as the shortest path from a root
    tenure.tick()      marks one turn of the program's own cycle, for `tenure run`
    tenure.soak(f)     calls f many times and says whether it grows, why, and the cure
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from tenure.explain.soak import soak as soak
    from tenure.explain.ticks import tick as tick
    from tenure.observe.census import census as census
    from tenure.observe.retention import why as why

__version__ = "0.1.0"

_HOME = {
    "census": "tenure.observe.census",
    "soak": "tenure.explain.soak",
    "tick": "tenure.explain.ticks",
    "why": "tenure.observe.retention",
}

__all__ = ["__version__", "census", "soak", "tick", "why"]


def __getattr__(name: str) -> Any:
    if name not in _HOME:
        raise AttributeError(f"module 'tenure' has no attribute {name!r}")
    value = getattr(import_module(_HOME[name]), name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return sorted({*globals(), *_HOME})
