"""What one walk tells: tiers, paths, barriers, groups, sizes, samples, holders, what was not reached. Both walkers."""

from __future__ import annotations

import collections
import ctypes
import functools
import gc
import os
import sys
import types
import weakref
from collections.abc import Callable, Iterator
from typing import Any

import pytest

from tenure.probes import _heap_python, heap
from tenure.probes.heap import Root

Walk = Callable[..., heap.Heap]


@pytest.fixture(params=["c", "python"], autouse=True)
def walker(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> str:
    if request.param == "c":
        if not heap.NATIVE:
            pytest.skip("the C module is not built")
    else:
        monkeypatch.setattr(heap, "_walker", _heap_python)
    return str(request.param)


class Thing:
    pass


class Other:
    pass


def walk(*objects: object, tier: int = 1, **asked: Any) -> heap.Heap:
    """A walk from these objects alone; all modules are barriers."""
    asked.setdefault("user_globals", frozenset())
    asked["barriers"] = [*asked.get("barriers", ()), *heap.module_roots(lambda name, module: False).barriers]
    roots = [one if isinstance(one, Root) else Root("root", one, tier) for one in objects]
    return heap.walk(roots, **asked)


def table(found: heap.Heap) -> dict[tuple[tuple[str, str], ...], tuple[int, int]]:
    """The groups by path, a step being (label, type)."""
    g = found.groups
    assert g is not None
    rows = {}
    for i in range(len(g)):
        path = tuple((g.labels[j], g.types[j]) for j in g.path(i))
        assert path not in rows
        rows[path] = (g.counts[i], g.bytes[i])
    return rows


def test_the_path_goes_from_the_root_to_the_holder() -> None:
    thing = Thing()
    root = {"a": [(thing,)]}
    (found,) = walk(root, select_types=[Thing], paths=True).found
    assert found.obj is thing
    assert found.root == "root"
    assert [id(step) for step in found.path] == [id(root), id(root["a"]), id(root["a"][0])]


def test_the_path_is_the_shortest() -> None:
    thing = Thing()
    (found,) = walk([[[[thing]]], [thing], [[thing]]], select_types=[Thing], paths=True).found
    assert len(found.path) == 2


def test_a_root_that_is_selected_has_an_empty_path() -> None:
    (found,) = walk(Thing(), select_types=[Thing], paths=True).found
    assert found.path == ()
    assert found.tier == 1


def test_without_paths_only_the_root_is_told() -> None:
    (found,) = walk([Thing()], select_types=[Thing]).found
    assert (found.path, found.root) == ((), "root")


def test_subclasses_are_selected_with_their_class() -> None:
    class Sub(Thing):
        pass

    sub = Sub()
    assert [found.obj for found in walk([sub, Other()], select_types=[Thing]).found] == [sub]


def test_a_lying_metaclass_is_not_asked() -> None:
    class Meta(type):
        def __instancecheck__(cls, instance: object) -> bool:
            raise AssertionError("the walk ran Python code")

        __subclasscheck__ = __instancecheck__

        def __getattribute__(cls, name: str) -> Any:
            raise AssertionError("the walk ran Python code")

    class Liar(metaclass=Meta):
        def __getattribute__(self, name: str) -> Any:
            raise AssertionError("the walk ran Python code")

        def __hash__(self) -> int:
            raise AssertionError("the walk ran Python code")

        def __sizeof__(self) -> int:
            raise AssertionError("the walk ran Python code")

    liar = Liar()
    assert len(walk([liar], {1: liar}, select_types=[Liar]).found) == 1


def test_what_tier_0_reaches_is_not_of_a_later_tier() -> None:
    shared, library, registry = Thing(), Thing(), Thing()
    found = walk(
        Root("registry", [registry, library, shared], 2),
        Root("library", [library, shared], 1),
        Root("mine", [[[shared]]], 0),
        select_types=[Thing],
    ).found
    assert {id(one.obj): (one.tier, one.root) for one in found} == {
        id(shared): (0, "mine"),
        id(library): (1, "library"),
        id(registry): (2, "registry"),
    }


def test_of_a_long_path_the_ends_are_told() -> None:
    things = [Thing() for _ in range(3_000)]
    head: list[object] = []
    for thing in reversed(things):
        head = [thing, head]
    told = {id(one.obj): one.path for one in walk(head, select_types=[Thing], paths=True).found}
    assert len(told) == 3_000
    whole, place = [], head
    for number, thing in enumerate(things):
        whole.append(place)
        place = place[1]  # type: ignore[assignment]
        path = told[id(thing)]
        expected = whole if number < 64 else [*whole[:48], ..., *whole[-16:]]
        assert list(map(id, path)) == list(map(id, expected)), number


def test_a_late_root_has_what_the_rest_of_its_tier_has_not() -> None:
    shared, own, library = Thing(), Thing(), Thing()
    found = walk(
        Root("late", [shared, own], 0, late=True),
        Root("library", [own, library], 1),
        Root("mine", [[[shared]]], 0),
        select_types=[Thing],
    ).found
    assert {id(one.obj): (one.tier, one.root) for one in found} == {
        id(shared): (0, "mine"),
        id(own): (0, "late"),
        id(library): (1, "library"),
    }


def test_a_registry_is_not_entered_from_the_library_that_names_it() -> None:
    registry = {"a": Thing()}
    (found,) = walk(Root("library", [registry], 1), Root("registry", registry, 2), select_types=[Thing]).found
    assert (found.tier, found.root) == (2, "registry")


def test_a_barrier_is_entered_as_a_root_only() -> None:
    space = {"thing": Thing()}
    assert not walk([space], barriers=[space], select_types=[Thing]).found
    (found,) = walk([space], space, barriers=[space], select_types=[Thing]).found
    assert found.tier == 1


def test_a_cut_object_is_never_entered() -> None:
    holder = [Thing()]
    assert not walk(holder, [holder], cut=[holder], select_types=[Thing]).found


def a_function_of(space: dict[str, Any], default: object) -> types.FunctionType:
    function = types.FunctionType((lambda x=None: x).__code__, space)
    function.__defaults__ = (default,)
    return function


def test_foreign_functions_wait_until_the_library_tier() -> None:
    mine, theirs = {"__name__": "mine"}, {"__name__": "theirs"}
    own, foreign = Thing(), Thing()
    roots = [a_function_of(mine, own), a_function_of(theirs, foreign)]
    asked: dict[str, Any] = {"user_globals": frozenset([id(mine)]), "barriers": [mine, theirs], "paths": True}
    asked["select_types"] = [Thing]
    found = {id(one.obj): one for one in walk(roots, tier=0, **asked).found}
    assert found[id(own)].tier == 0
    assert found[id(foreign)].tier == 1
    assert found[id(foreign)].path[:2] == (roots, roots[1])
    # the function itself was reached in tier 0
    kinds = walk(roots, tier=0, **{**asked, "select_types": [types.FunctionType]}).found
    assert [one.tier for one in kinds] == [0, 0]


def test_foreign_classes_wait_until_the_library_tier() -> None:
    space = {"__name__": "mine"}
    own, foreign = Thing(), Thing()
    mine = type("Mine", (), {"__module__": "mine", "thing": own})
    theirs = type("Theirs", (), {"__module__": "theirs", "thing": foreign})
    found = walk(
        [mine, theirs], tier=0, user_globals=frozenset([id(space)]), barriers=[space], select_types=[Thing]
    ).found
    assert {id(one.obj): one.tier for one in found} == {id(own): 0, id(foreign): 1}


def test_weak_references_hold_nothing() -> None:
    thing = Thing()
    assert not walk([weakref.ref(thing)], weakref.WeakValueDictionary({1: thing}), select_types=[Thing]).found


class Slots:
    __slots__ = ("one", "two")
    two: object


def holders_of_all_kinds() -> Iterator[tuple[str, Callable[[Thing], object]]]:
    def closure(thing: Thing) -> object:
        return lambda: thing

    def generator(thing: Thing) -> object:
        def run() -> Iterator[None]:
            yield
            print(thing)

        started = run()
        next(started)
        return started

    def slots(thing: Thing) -> object:
        holder = Slots()
        holder.two = thing
        return holder

    def inline(thing: Thing) -> object:
        holder = Other()
        holder.one = 1  # type: ignore[attr-defined]
        holder.two = thing  # type: ignore[attr-defined]
        return holder

    def own_dict(thing: Thing) -> object:
        holder = inline(thing)
        assert vars(holder)
        return holder

    def method(thing: Thing) -> object:
        return functools.partial(Other.__init__, thing).__call__

    def cached(thing: Thing) -> object:
        call = functools.lru_cache(maxsize=None)(lambda x: None)
        call(thing)
        return call

    def subclass(thing: Thing) -> object:
        class Table(dict[str, object]):
            pass

        return Table(a=thing)

    def metaclass(thing: Thing) -> object:
        class Meta(type):
            pass

        Meta.kept = thing  # type: ignore[attr-defined]
        return Meta("Class", (), {})()

    def default(thing: Thing) -> object:
        made: collections.defaultdict[str, object] = collections.defaultdict(list)
        made["a"] = [thing]
        return made

    yield "closure", closure
    yield "generator", generator
    yield "slots", slots
    yield "inline attributes", inline
    yield "attribute dict", own_dict
    yield "partial and method-wrapper", method
    yield "lru_cache", cached
    yield "dict subclass", subclass
    yield "metaclass", metaclass
    yield "defaultdict", default
    yield "deque", lambda thing: collections.deque([thing])
    yield "set", lambda thing: {thing}
    yield "dict key", lambda thing: {thing: 1}
    yield "OrderedDict", lambda thing: collections.OrderedDict(a=thing)
    yield "bound method", lambda thing: types.MethodType(len, thing)
    yield "mappingproxy", lambda thing: types.MappingProxyType({"a": thing})
    yield "SimpleNamespace", lambda thing: types.SimpleNamespace(a=thing)
    yield "property", lambda thing: property(lambda self: thing)
    yield "iterator", lambda thing: iter([thing])
    yield "map", lambda thing: map(str, [thing])
    yield "weak key's value", lambda thing: weakref.WeakKeyDictionary({Slots: thing})


@pytest.mark.parametrize("make", [pytest.param(make, id=name) for name, make in holders_of_all_kinds()])
def test_each_kind_of_holder_is_walked_through(make: Callable[[Thing], object]) -> None:
    thing = Thing()
    (found,) = walk([make(thing)], select_types=[Thing], paths=True).found
    assert found.obj is thing


def test_inline_attributes_are_not_turned_into_a_dict() -> None:
    """The walk must not read `__dict__`: on Python 3.11 and 3.12 that would give each object a dict of its own."""
    things = [Thing() for _ in range(100)]
    for thing in things:
        thing.one, thing.two = [1], {"a": [2]}  # type: ignore[attr-defined]
    before = [sys.getsizeof(thing) for thing in things], [gc.get_referents(thing) for thing in things]
    walk(things, select_types=[Thing], paths=True)
    assert ([sys.getsizeof(thing) for thing in things], [gc.get_referents(thing) for thing in things]) == before


# ---- groups ----


def test_groups_blank_indices_and_count() -> None:
    rows = table(walk([{"a": [Thing(), Thing()]}, {"b": [Thing()]}]))
    path = (("root", "list"), ("", "dict"), ("", "list"), ("", f"{__name__}.Thing"))
    assert rows[path][0] == 3
    assert rows[path[:2]][0] == 2


def test_groups_name_the_variables_of_a_module() -> None:
    space = {"__name__": "mine", "first": [Thing()], "second": [Thing(), Thing()]}
    rows = table(walk(Root("module mine", space, 0), barriers=[space], user_globals=frozenset([id(space)])))
    name = f"{__name__}.Thing"
    assert rows[("module mine", "dict"), ("first", "list"), ("", name)][0] == 1
    assert rows[("module mine", "dict"), ("second", "list"), ("", name)][0] == 2


def test_groups_name_attributes_in_a_dict_of_their_own_and_not_the_keys_of_a_table() -> None:
    holder = types.SimpleNamespace(cache={f"key{i}": [Thing()] for i in range(5)}, other=[Thing()])
    rows = table(walk(holder))
    top, name = (("root", "types.SimpleNamespace"), ("", "dict")), f"{__name__}.Thing"
    cached, other = (*top, ("cache", "dict"), ("", "list"), ("", name)), (*top, ("other", "list"), ("", name))
    assert rows[cached][0] == 5
    assert rows[other][0] == 1


def test_inline_attributes_of_different_names_are_different_groups() -> None:
    things = [Thing() for _ in range(7)]
    for thing in things:
        thing.short, thing.long = [Other()], [Other(), Other()]  # type: ignore[attr-defined]
    name = f"{__name__}.Other"
    counts = sorted(count for path, (count, _) in table(walk(things)).items() if path[-1][1] == name)
    assert counts == [7, 14]


def test_a_dict_in_an_inline_attribute_is_a_table_not_a_namespace() -> None:
    thing = Thing()
    thing.cache = {f"key{i}": [Other()] for i in range(9)}  # type: ignore[attr-defined]
    counts = [count for path, (count, _) in table(walk(thing)).items() if path[-1][1] == f"{__name__}.Other"]
    assert counts == [9]


def test_a_linked_list_has_few_groups() -> None:
    head: Any = None
    for _ in range(1000):
        node = Thing()
        node.next = head  # type: ignore[attr-defined]
        head = node
    deep: Any = {}
    for _ in range(1000):
        deep = {"a": deep}
    found = walk([head, deep])
    assert found.groups is not None
    assert len(found.groups) < 40
    assert sum(found.groups.counts) == found.objects


def test_a_namespace_with_many_names_is_a_table() -> None:
    space = {f"name{i}": [i] for i in range(1000)}
    rows = table(walk(Root("module theirs", space, 1), barriers=[space]))
    assert rows[("module theirs", "dict"), ("", "list")][0] == 1000
    mine = table(walk(Root("module mine", space, 0), barriers=[space]))
    assert mine[("module mine", "dict"), ("name7", "list")][0] == 1


def test_group_keys_are_the_same_from_walk_to_walk_and_in_a_forked_child() -> None:
    data = {"a": [Thing() for _ in range(10)], "b": (1, [2])}
    first, second = walk(data).groups, walk(data).groups
    assert first is not None and second is not None
    assert first.keys == second.keys
    read, write = os.pipe()
    if not (pid := heap.fork()):
        try:
            child = walk(data).groups
            os.write(write, child.keys.tobytes() if child else b"")
        finally:
            os._exit(0)
    os.close(write)
    with os.fdopen(read, "rb") as pipe:
        told = pipe.read()
    assert os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]) == 0
    assert told == first.keys.tobytes()


def test_samples_of_a_group_are_its_last_objects() -> None:
    things = [Thing() for _ in range(50)]
    rows = walk(tuple(things)).groups
    assert rows is not None
    key = rows.keys[rows.types.index(f"{__name__}.Thing")]
    found = walk(tuple(things), select_groups={key: 3}, paths=True).found
    visited = [one.obj for one in walk(tuple(things), select_types=[Thing]).found]
    assert [one.obj for one in found] == visited[-3:]
    assert all(rows.keys[one.group] == key for one in found)
    assert len(walk(tuple(things), select_groups={key: 500}).found) == 50
    assert not walk(tuple(things), select_groups={key: 0, 12345: 7}).found


def test_atoms_count_for_the_only_container_that_holds_them() -> None:
    shared = float("1.25")
    numbers = [float(i) + 0.5 for i in range(1000)]
    rows = table(walk(numbers))
    assert rows[(("root", "list"),)] == (1, sys.getsizeof(numbers) + 1000 * sys.getsizeof(1.5))
    numbers = [shared] * 1000
    assert table(walk(numbers))[(("root", "list"),)] == (1, sys.getsizeof(numbers))


def a_generator() -> Iterator[int]:
    yield 1


SIZED = [
    *([], [1, 2, 3], (), (1, 2), {}, {"a": 1}, {i: i for i in range(100)}, set(), set(range(100)), frozenset([1])),
    *(b"x" * 1000, bytearray(2000), "y" * 1000, "\u1234" * 1000, "\U00012345" * 1000),
    *(Thing(), Slots(), Thing, a_generator, a_generator(), collections.deque(range(100)), iter([])),
    *(collections.OrderedDict(a=1), collections.defaultdict(list), functools.partial(print), property(), [0] * 1000),
    *(types.SimpleNamespace(a=1), ValueError("x"), weakref.ref(Thing), memoryview(b"abc"), slice(1)),
]


@pytest.mark.parametrize("thing", SIZED, ids=lambda thing: type(thing).__name__)
def test_sizes_are_those_of_getsizeof(thing: object) -> None:
    """No atoms here that nothing else refers to: small numbers and constants of this module."""
    g = walk(thing, select_types=[object], groups=True).groups
    assert g is not None
    assert g.bytes[0] == sys.getsizeof(thing)


def test_large_bytes_and_texts_are_things_small_ones_are_not() -> None:
    rows = table(walk([b"a" * 511, b"a" * 512, "a" * 511, "a" * 512, "\u1234" * 255, "\u1234" * 256, bytearray(512)]))
    counts = {path[-1][1]: count for path, (count, _) in rows.items()}
    assert counts == {"list": 1, "bytes": 1, "str": 2, "bytearray": 1}


def test_without_groups_there_are_none() -> None:
    thing = Thing()
    found = walk([thing], select_types=[Thing], groups=False)
    assert found.groups is None
    assert [one.group for one in found.found] == [-1]


# ---- selection by identity, holders ----


def test_a_selected_object_is_found_with_all_its_holders() -> None:
    thing = Thing()
    lists = [[thing] for _ in range(12)]
    (found,) = walk([thing, thing, lists], select_ids=[id(thing)], paths=True).found
    assert found.obj is thing
    assert len(found.path) == 1
    assert len(found.holders) == 8
    assert found.holders[0].path == found.path
    assert len({id(holder.path[-1]) for holder in found.holders}) == 8
    assert all(any(item is thing for item in holder.path[-1]) for holder in found.holders)  # type: ignore[attr-defined]


def test_an_atom_can_be_selected_by_identity() -> None:
    number = 10**30 + len(sys.argv)
    (found,) = walk([{"a": number}], select_ids=[id(number)], paths=True).found
    assert found.obj is number


def test_an_object_that_is_not_there_is_not_found() -> None:
    thing = Thing()
    assert not walk([Thing()], select_ids=[id(thing)]).found


def test_reachable_tells_what_a_cut_cuts_off() -> None:
    one, two = Thing(), Thing()
    cut = [one]
    roots = [Root("root", [cut, two], 0)]
    assert heap.reachable(roots, [one, two, Thing()]) == {id(one), id(two)}
    assert heap.reachable(roots, [one, two], cut=[cut]) == {id(two)}


def test_retained_is_what_only_the_target_keeps() -> None:
    own, shared, text = Thing(), Thing(), b"x" * 5000
    target, second = [own, shared, text, [1.5 * len(sys.argv)]], [[own]]
    roots = [Root("root", [target, second, shared], 0)]
    asked: dict[str, Any] = {"barriers": [globals()], "select_types": [Thing]}
    first, rest = heap.retained(roots, [target, second[0]], **asked)
    assert first.found == [own]
    assert first.objects == 4
    assert first.bytes == sum(map(sys.getsizeof, [target, target[3], own, text, 1.5]))
    assert (rest.found, rest.objects) == ([], 1)
    (alone,) = heap.retained(roots, [target], **asked)
    assert alone.found == []  # `second` keeps it too


# ---- what no root reaches ----


def all_modules() -> heap.Modules:
    return heap.module_roots(lambda name, module: name == __name__)


def walk_all(**asked: Any) -> heap.Heap:
    modules = all_modules()
    roots = [*modules.roots, *heap.frame_roots(lambda frame: frame.f_code.co_filename == __file__)]
    return heap.walk(
        roots, user_globals=modules.user_globals, barriers=modules.barriers, cut=modules.cut, unreached=True, **asked
    )


class Lost:
    pass


@pytest.mark.slow
def test_garbage_is_told_from_what_native_code_holds() -> None:
    gc.collect()
    enabled = gc.isenabled()
    gc.disable()
    try:
        garbage = Lost()
        garbage.me = [garbage, b"x" * 4096]  # type: ignore[attr-defined]
        native = Lost()
        native.load = [Lost()]  # type: ignore[attr-defined]
        address = id(native)
        ctypes.pythonapi.Py_IncRef(ctypes.py_object(native))
        kept = Lost()
        del garbage, native
        found = walk_all(select_types=[Lost], paths=True)
        assert found.unreached is not None
        tiers = [one.tier for one in found.found]
        assert sorted(tiers) == [0, 3, 3, 4]
        assert [one.obj for one in found.found if one.tier == 0] == [kept]
        assert {one.root for one in found.found if one.tier > 2} == {"native code", "garbage"}
        counts = {group.type_name: group.count for group in found.unreached.garbage}
        assert counts[f"{__name__}.Lost"] == 1
        assert counts["bytes"] == 1
        assert {g.type_name: g.count for g in found.unreached.native}[f"{__name__}.Lost"] == 2
        del found
        held = ctypes.cast(address, ctypes.py_object).value
        ctypes.pythonapi.Py_DecRef(ctypes.py_object(held))
    finally:
        if enabled:
            gc.enable()
        gc.collect()


@pytest.mark.slow
def test_the_walk_does_not_count_itself_as_unreached() -> None:
    """Its roots, its arguments and its frames would be thousands of objects that native code seems to hold."""
    gc.collect()
    found = walk_all()
    assert found.unreached is not None
    names = {g.type_name for g in (*found.unreached.native, *found.unreached.garbage)}
    assert not {name for name in names if name.startswith("tenure.probes.heap")}
    assert sum(g.count for g in found.unreached.garbage) == 0


# ---- the walk harms nothing ----


def test_the_walk_leaves_no_reference() -> None:
    thing = Thing()
    root, before = [thing], sys.getrefcount(thing)
    type_before = sys.getrefcount(Thing)
    for _ in range(10):
        found = walk(root, select_types=[Thing], select_ids=[id(thing)], paths=True)
    del found
    assert sys.getrefcount(thing) == before
    assert abs(sys.getrefcount(Thing) - type_before) <= 1
    gone = weakref.ref(thing)
    del thing, root
    assert gone() is None


def test_the_collector_is_on_or_off_as_before() -> None:
    for enable in (gc.disable, gc.enable):
        enable()
        before = gc.isenabled()
        walk([1])
        with pytest.raises((ValueError, TypeError, IndexError, AttributeError)):
            walk([1], select_types=["not a type"])
        assert gc.isenabled() == before


@pytest.mark.slow
def test_a_million_nested_tuples_and_a_million_items() -> None:
    deep: Any = Thing()
    for _ in range(1_000_000):
        deep = (deep,)
    found = walk(deep, select_types=[Thing], groups=True)
    assert found.objects >= 1_000_001
    assert len(found.found) == 1
    wide: list[Any] = [[] for _ in range(1_000_000)]
    table_of = dict.fromkeys(range(1_000_000))
    assert walk(wide, table_of).objects == 1_000_002
    while type(deep) is tuple:  # taken apart one by one
        (deep,) = deep


@pytest.mark.slow
def test_objects_that_die_between_walks() -> None:
    pool: list[Any] = []
    for turn in range(30):
        pool.extend({"turn": turn, "x": [object(), Thing()]} for _ in range(100))
        del pool[::3]
        assert len(walk(pool, select_types=[Thing]).found) == len(pool)


def test_the_own_memory_is_small(walker: str) -> None:
    data = [[i] for i in range(300_000)]
    found = walk(data, groups=False)
    if walker == "c":
        assert found.walk_bytes / found.objects <= 48
    assert found.walk_bytes > 0
