"""Attribution by intervention: apply one release action after another and see what each gives back.

What frees it names it. The actions run in an order that credits none with another's share: garbage first, then
orphaned registry entries (whose graphs hold kernels' functions), then the kernel cache, then the scalar cache. A single
release also credits kernels that every program builds while it warms up, so a soak releases three times: after
warm-up, after one more tick, and after several; the difference of the last two is the leak.
"""

from __future__ import annotations

from collections.abc import Sequence

from tenure.observe.memory import collector_off
from tenure.observe.snapshot import roots, tensorflow_loaded
from tenure.probes import heap, release
from tenure.records import GivenBack

__all__ = ["Autopsy", "orphans"]


class Autopsy:
    """Releases by stage and what each gave back. `cut` are tenure's own objects, which no walk may enter."""

    def __init__(self, cut: Sequence[object] = ()) -> None:
        self._cut = cut
        self._stages: dict[str, dict[str, release.Released]] = {}

    def release(self, stage: str) -> None:
        """Runs all actions now and notes what each gave back under this stage."""
        done: list[release.Released] = []
        if not collector_off():
            done.append(release.collect_garbage())
        if tensorflow_loaded():
            done.append(release.gradient_registry(lambda: orphans(self._cut)))
            done.append(release.kernel_cache())
            done.append(release.scalar_cache())
        self._stages[stage] = {item.action: item for item in done}

    def given_back(self, ticks: int, entries_per_tick: float = 0.0) -> tuple[GivenBack, ...]:
        """Bytes a tick by action over `ticks` ticks since the stage `one` (or since the start without one).

        Without that stage `entries_per_tick`, how many entries the gradient registry got a tick, weighs what its
        orphans gave back: some were made before the first tick that was counted.
        """
        last, one = self._stages.get("rest", {}), self._stages.get("one")
        found = []
        for action, done in last.items():
            if action == "gc":
                continue
            if one is not None and ticks > 1:
                rate = (done.bytes - (one[action].bytes if action in one else 0)) / (ticks - 1)
            elif action == "gradient-registry" and entries_per_tick > 0 and done.objects:
                rate = done.bytes / done.objects * entries_per_tick
            else:
                rate = done.bytes / max(ticks, 1)
            found.append(GivenBack(action, max(rate, 0.0)))
        return tuple(found)


def orphans(cut: Sequence[object] = ()) -> list[str]:
    """The `CustomGradient-*` entries whose graphs only the gradient registry reaches. Main thread; one walk.

    The registry is the walk's last tier, so a graph that is found there was reached from nowhere else. An entry without
    a known graph, or with one that anything else reaches, or that native code holds, is not named.
    """
    from tenure.probes.tf import handles, registries

    entries = registries.entries()
    if not entries:
        return []
    listed, fixed = roots()
    fixed["cut"] = [*fixed["cut"], *cut, entries]
    walked = heap.walk(listed, select_types=handles.tensor_types()["graph"], groups=False, **fixed)
    alone = {id(found.obj) for found in walked.found if found.tier == 2}
    names = [e.name for e in entries if e.graphs and all(id(graph) in alone for graph in e.graphs)]
    del walked, entries
    return names
