"""Arrays in the walk: the collector does not know them; their base and their objects are read from their fields."""

from __future__ import annotations

import sys
from typing import Any

import pytest

from tenure.probes import _heap_python, heap
from tenure.probes.heap import Root

np = pytest.importorskip("numpy")


@pytest.fixture(params=["c", "python"], autouse=True)
def walker(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    if request.param == "python":
        monkeypatch.setattr(heap, "_walker", _heap_python)
    elif not heap.NATIVE:
        pytest.skip("the C module is not built")


class Thing:
    pass


def walk(obj: object, **asked: Any) -> heap.Heap:
    return heap.walk([Root("root", obj, 1)], user_globals=frozenset(), barriers=[globals()], **asked)


def test_a_view_keeps_its_base() -> None:
    base = np.zeros(1000)
    view = [base[10:20]]
    found = walk(view, select_ids=[id(base)], paths=True).found
    assert [one.obj is base for one in found] == [True]
    assert found[0].path[-1] is view[0]


def test_an_array_of_objects_keeps_them() -> None:
    thing = Thing()
    array = np.empty((2, 3), dtype=object)
    array[1, 2] = thing
    assert [one.obj for one in walk([array.T], select_types=[Thing]).found] == [thing]


def test_records_keep_the_objects_in_their_fields() -> None:
    inner = np.dtype([("flag", "i1"), ("part", "O")])
    for aligned in (False, True):
        outer = np.dtype([("number", "i1"), ("thing", "O"), ("inner", inner), ("last", "O")], align=aligned)
        things = [Thing() for _ in range(9)]
        records = np.empty(3, dtype=outer)
        for row in range(3):
            records[row] = (row, things[3 * row], (1, things[3 * row + 1]), things[3 * row + 2])
        found = walk([records], select_types=[Thing], paths=True).found
        assert [one.obj for one in found] == things
        assert found[0].path[-1] is records
        assert [one.obj for one in walk([records[1:2]], select_types=[Thing]).found] == things


def test_records_without_objects_and_empty_ones() -> None:
    plain = np.zeros(3, dtype=[("a", "f8"), ("b", "i1")])
    empty = np.empty(2, dtype=[("a", "f8"), ("b", "O")])
    arrays = np.zeros(2, dtype=[("a", "O", (3,))])
    raw = np.zeros(3, dtype="V20")
    assert walk([plain, empty, arrays, raw], select_types=[Thing]).missing == ()


class Sub(np.ndarray):  # type: ignore[misc, name-defined]
    def __array_finalize__(self, obj: object) -> None:
        self.tag = getattr(obj, "tag", None)


def test_a_subclass_keeps_its_attributes_and_its_base() -> None:
    base = np.zeros(100)
    sub = base.view(Sub)
    sub.tag = Thing()
    found = walk([sub], select_types=[Thing], select_ids=[id(base)]).found
    assert {id(one.obj) for one in found} == {id(sub.tag), id(base)}


def test_memory_behind_a_memoryview_is_found() -> None:
    array = np.zeros(100)
    assert walk([memoryview(array)], select_ids=[id(array)]).found[0].obj is array


def test_only_the_owner_weighs() -> None:
    base = np.zeros(100_000)
    groups = walk([base, base[1:]]).groups
    assert groups is not None
    total = sum(size for size, name in zip(groups.bytes, groups.types, strict=True) if name == "numpy.ndarray")
    assert total == sys.getsizeof(base) + sys.getsizeof(base[1:])
    assert 800_000 < total < 801_000


def test_arrays_of_an_unknown_layout_are_left_alone_and_said(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(heap, "_array_layout", {np.ndarray: False})
    base = np.zeros(1000)
    found = walk([base[1:]], select_ids=[id(base)])
    assert not found.found
    assert [missing.figure for missing in found.missing] == ["arrays behind views"]
