"""The other witnesses beside the heap: what was made where, ops with ever new attributes, tapes, datasets, graphs.

Gathers frozen facts at the moment of explaining; keeps no object of the program's.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from typing import Any

from tenure.explain.evidence import CachingDataset, GrowingGraph, JitFunction, Made, OpenTape, OpSite
from tenure.observe import retention
from tenure.observe.births import Births
from tenure.observe.snapshot import kinds, roots, tensorflow_loaded
from tenure.observe.sources import line_text, user_file
from tenure.probes import heap, read
from tenure.probes.kinds import is_a
from tenure.records import Birth, Holder

__all__ = ["Witnesses", "line_of_ops"]

_MOST = 64  # rows of each sort that a diagnosis needs at most


class Witnesses:
    """Facts for `Evidence`, gathered in two steps: what was made since warm-up, then what the watched ticks showed."""

    def __init__(self) -> None:
        self._made: tuple[Made, ...] = ()
        self._ops: tuple[OpSite, ...] = ()
        self._scalars: tuple[Made, ...] = ()
        self._tapes: tuple[OpenTape, ...] = ()
        self._datasets: tuple[CachingDataset, ...] = ()
        self._graphs: tuple[GrowingGraph, ...] = ()
        self._jit_functions: tuple[JitFunction, ...] = ()
        self._graph_ops: dict[int, tuple[int, int]] = {}

    def told(self) -> dict[str, Any]:
        """The facts by the names of `Evidence`'s fields."""
        return {
            "made": self._made,
            "ops": self._ops,
            "scalars": self._scalars,
            "tapes": self._tapes,
            "datasets": self._datasets,
            "graphs": self._graphs,
            "jit_functions": self._jit_functions,
        }

    def take(self, told: dict[str, Any]) -> None:
        """Takes over what another copy of the process gathered."""
        self._made, self._ops, self._scalars = told["made"], told["ops"], told["scalars"]
        self._tapes, self._datasets, self._graphs = told["tapes"], told["datasets"], told["graphs"]
        self._jit_functions = told["jit_functions"]

    @property
    def lines(self) -> frozenset[tuple[str, int]]:
        """Files and numbers of the lines that make something at the program's ticks."""
        return frozenset((made.birth.file, made.birth.line) for made in self._made if made.per_tick >= 0.05)

    def take_made(self, births: Births, ticks: int) -> None:
        """What each line made a tick since the mark, `ticks` ticks ago."""
        span = max(ticks, 1)
        self._made = tuple(Made(m.kind, m.birth, m.count / span) for m in births.made(since_mark=True)[:_MOST])

    def gather(self, births: Births, watched: int, tick: int, cut: Sequence[object]) -> None:
        """What the last `watched` ticks showed, and which tapes, datasets and graphs are alive now."""
        self._ops = tuple(OpSite(k.birth, k.op, 0.0, k.count / watched, k.changed) for k in births.new_keys()[:_MOST])
        self._scalars = tuple(Made("scalar", s.birth, s.distinct / watched) for s in births.scalars()[:_MOST])
        if not tensorflow_loaded():
            return
        known = kinds()
        kinds_of_witnesses: tuple[str, ...] = ("tape", "dataset", "iterator", "graph-v1", "function")
        wanted = {kind: known[kind] for kind in kinds_of_witnesses if kind in known}
        listed, fixed = roots()
        fixed["cut"] = [*fixed["cut"], *cut]
        walked = heap.walk(
            listed,
            select_types=tuple(t for types in wanted.values() for t in types),
            groups=False,
            paths=True,
            unreached=True,
            **fixed,
        )
        try:
            self._judge(walked.found, births, tick, wanted)
        finally:
            del walked

    def _judge(
        self, found: Sequence[heap.Found], births: Births, tick: int, wanted: dict[str, tuple[type, ...]]
    ) -> None:
        from tenure.probes.tf import datasets, functions, graphs, tapes

        # The newest first: where several could be meant, the last one made is the likeliest.
        found = sorted(found, key=lambda item: -births.number_of(item.obj))
        open_tapes: list[OpenTape] = []
        caches: dict[tuple[str, Birth | None], CachingDataset] = {}
        growing: list[GrowingGraph] = []
        compiling: list[JitFunction] = []
        for item in found:
            if "tape" in wanted and is_a(item.obj, wanted["tape"]):
                state, _ = read(partial(tapes.state, item.obj), "tape")
                if state is not None and (state.recording or state.holds):
                    open_tapes.append(
                        OpenTape(state.recording, state.persistent, births.site_of(item.obj), _holder(item))
                    )
            elif datasets.is_dataset(item.obj) or datasets.is_iterator(item.obj):
                reason, _ = read(partial(datasets.cache_after_unbounded, item.obj), "dataset")
                if reason is not None and item.tier < 4:
                    born = births.site_of(item.obj)
                    caches.setdefault((reason, born), CachingDataset(reason, born, _holder(item)))
            elif functions.is_function(item.obj):
                each_shape, _ = read(partial(functions.compiles_each_shape, item.obj), "compiled function")
                if each_shape and item.tier < 4:
                    name = functions.name(item.obj)
                    compiling.append(JitFunction(name, births.site_of(item.obj), _holder(item)))
            elif graphs.is_graph(item.obj) and not graphs.is_func_graph(item.obj):
                growing += self._graph(item, tick)
        self._tapes = tuple(open_tapes)
        self._datasets = tuple(sorted(caches.values(), key=lambda c: (c.birth is None, c.holder is None)))
        self._graphs = tuple(growing)
        self._jit_functions = tuple(compiling)

    def _graph(self, item: heap.Found, tick: int) -> list[GrowingGraph]:
        from tenure.probes.tf import graphs

        count, _ = read(lambda: graphs.op_count(item.obj), "ops of a graph")
        if count is None:
            return []
        before = self._graph_ops.get(id(item.obj))
        self._graph_ops[id(item.obj)] = (tick, count)
        if before is None or tick <= before[0]:
            return []
        rate = (count - before[1]) / (tick - before[0])
        if rate < 0.5:
            return []
        last, _ = read(lambda: graphs.last_ops(item.obj), "last ops")
        return [GrowingGraph("the graph", rate, line_of_ops(last or ()), _holder(item))]

    def note_graph(self, tick: int) -> None:
        """Counts the default graph's ops now, to compare with later; costs microseconds."""
        if not tensorflow_loaded():
            return
        from tenure.probes.tf import graphs

        graph, _ = read(graphs.default_graph, "default graph")
        count, _ = read(lambda: graphs.op_count(graph), "ops of a graph")
        if graph is not None and count is not None:
            self._graph_ops.setdefault(id(graph), (tick, count))


def line_of_ops(ops: Sequence[Any]) -> Birth | None:
    """The user's innermost line that made the last op that has one."""
    for op in reversed(ops):
        for file, line, function, _ in reversed(op.frames):
            if user_file(file):
                return Birth(file, line, function, line_text(file, line))
    return None


def _holder(item: heap.Found) -> Holder | None:
    if not item.path:
        return None
    return retention.name_group([retention.name_path(item.root, item.path, item.obj)])
