"""The C walk and its Python twin agree object for object; the C walk survives odd types and a full memory."""

from __future__ import annotations

import dataclasses
import gc
import importlib.util
import os
import pickle
import random
import shutil
import subprocess
import sys
import sysconfig
import textwrap
import threading
from pathlib import Path
from typing import Any

import pytest

from tenure.probes import _heap_python, heap
from tenure.probes.heap import Root

pytestmark = [pytest.mark.slow, pytest.mark.skipif(not heap.NATIVE, reason="the C module is not built")]


class Node:
    pass


class Slotted:
    __slots__ = ("a", "b")
    b: object


def a_graph(seed: int) -> list[Any]:
    """A few thousand objects of many kinds that refer to each other at random."""
    rng = random.Random(seed)
    made: list[Any] = [[]]
    for i in range(3000):
        some = [rng.choice(made) for _ in range(rng.randrange(4))]
        kind = rng.randrange(12)
        if kind == 0:
            made.append(some)
        elif kind == 1:
            made.append(tuple(some))
        elif kind == 2:
            made.append({f"k{i}": one for i, one in enumerate(some)})
        elif kind == 3:
            made.append({1.5 * i: "v" * rng.randrange(1000), i: some})
        elif kind in (4, 5):
            node = Node()
            for name in rng.sample("abcdef", 3):
                setattr(node, name, rng.choice([rng.random(), "x" * rng.randrange(700), *some]))
            if kind == 5:
                node.__dict__["late"] = i
            made.append(node)
        elif kind == 6:
            slotted = Slotted()
            slotted.b = some
            made.append(slotted)
        elif kind == 7:
            made.append(lambda a=some, b=i: (a, b))
        elif kind == 8:
            space = {"__module__": rng.choice(["mine", "theirs"]), "x": some}
            made.append(type(f"Made{rng.randrange(5)}", (Node,), space))
        elif kind == 9:
            made.append(one for one in some)
        elif kind == 10:
            made[rng.randrange(len(made))]  # a reference back, through a list that grows
            target = rng.choice([one for one in made if type(one) is list])
            target.append(made[-1])
        else:
            made.append(b"z" * rng.randrange(1200))
    return made


def both(roots: list[Root], **asked: Any) -> tuple[heap.Heap, heap.Heap]:
    native = heap.walk(roots, **asked)
    # a name that the first result refers to is no longer its dict's alone in the second walk
    native = dataclasses.replace(native, groups=pickle.loads(pickle.dumps(native.groups)))
    walker = heap._walker
    heap._walker = _heap_python  # by hand: pytest's monkeypatch makes objects, which the twin would see
    try:
        twin = heap.walk(roots, **asked)
    finally:
        heap._walker = walker
    assert (native.native, twin.native) == (True, False)
    return native, twin


def holders(found: heap.Found) -> list[tuple[str, list[int]]]:
    return [(holder.root, [id(step) for step in holder.path]) for holder in found.holders]


def assert_equal(native: heap.Heap, twin: heap.Heap) -> None:
    assert (native.objects, native.edges) == (twin.objects, twin.edges)
    assert native.groups == twin.groups
    assert native.unreached == twin.unreached
    assert len(native.found) == len(twin.found)
    for ours, theirs in zip(native.found, twin.found, strict=True):
        assert ours.obj is theirs.obj
        assert (ours.group, ours.tier, ours.root) == (theirs.group, theirs.tier, theirs.root)
        assert list(map(id, ours.path)) == list(map(id, theirs.path))
        assert holders(ours) == holders(theirs)


@pytest.mark.parametrize("seed", range(6))
def test_random_graphs(monkeypatch: pytest.MonkeyPatch, seed: int) -> None:
    made = a_graph(seed)
    space = {"__name__": "mine", "kept": made[50:60], **{f"n{i}": made[i] for i in range(100, 110)}}
    barriers = [space, globals(), vars(sys.modules["builtins"]), sys.modules["builtins"]]
    roots = [Root("module mine", space, 0), Root("lib", made[-300:], 1), Root("lib", made[7], 1), Root("reg", made, 2)]
    ids = [id(one) for one in made[::100]]
    asked = {"user_globals": frozenset([id(space)]), "barriers": barriers, "cut": [made[20]]}
    assert_equal(*both(roots, select_types=[object], select_ids=ids, paths=True, **asked))
    native, twin = both(roots, **asked)
    assert_equal(native, twin)
    assert native.groups is not None
    some = {key: 1 + i % 5 for i, key in enumerate(native.groups.keys[::7])}
    assert_equal(*both(roots, select_groups=some, paths=True, **asked))
    assert_equal(*both(roots, select_types=[Node], groups=False, paths=True, **asked))
    targets = [made[300], made[900]]
    kept: dict[str, Any] = {"user_globals": frozenset(), "barriers": barriers, "select_types": [Node]}
    ours = heap.retained(roots[:2], targets, **kept)
    monkeypatch.setattr(heap, "_walker", _heap_python)
    theirs = heap.retained(roots[:2], targets, **kept)
    assert [(one.objects, one.bytes, [*map(id, one.found)]) for one in ours] == [
        (one.objects, one.bytes, [*map(id, one.found)]) for one in theirs
    ]


def test_records_with_objects() -> None:
    np = pytest.importorskip("numpy")
    records = np.empty(50, dtype=[("a", "i1"), ("b", "O"), ("c", [("d", "O"), ("e", "f4")])])
    for row in range(50):
        records[row] = (row, [float(row) + 0.5], ({"x": [row]}, 0.5))
    assert_equal(*both([Root("records", [records], 1)], user_globals=frozenset(), barriers=[globals()]))


def test_a_long_path() -> None:
    head: list[object] = []
    for _ in range(200):
        head = [Node(), head]
    asked: Any = {"user_globals": frozenset(), "barriers": [globals()], "select_types": [Node], "paths": True}
    native, twin = both([Root("head", head, 1)], **asked)
    assert max(len(found.path) for found in native.found) == 65
    assert_equal(native, twin)


def test_the_whole_program() -> None:
    modules = heap.module_roots(lambda name, module: name.startswith("test_"))
    fixed: Any = {"user_globals": modules.user_globals, "barriers": modules.barriers, "cut": modules.cut}
    gc.collect()
    native, twin = both(modules.roots, **fixed)
    assert native.objects > 20_000
    assert_equal(native, twin)


def test_what_is_not_reached(monkeypatch: pytest.MonkeyPatch) -> None:
    modules = heap.module_roots(lambda name, module: name.startswith("test_"))
    fixed: Any = {"user_globals": modules.user_globals, "barriers": modules.barriers, "cut": modules.cut}
    gc.collect()
    gc.disable()
    try:
        node = Node()
        node.me = [node, b"x" * 600]  # type: ignore[attr-defined]
        del node
        told = []
        for walker in (heap._walker, _heap_python):
            monkeypatch.setattr(heap, "_walker", walker)
            found = heap.walk(modules.roots, select_types=[Node], unreached=True, **fixed)
            assert found.unreached is not None
            told.append((found.unreached, [one.tier for one in found.found]))
            del found
    finally:
        gc.enable()
    (native, tiers), (twin, twin_tiers) = told
    assert tiers == twin_tiers == [4]
    assert native.garbage == twin.garbage
    assert {"bytes", "list", f"{__name__}.Node"} <= {group.type_name for group in native.garbage}
    ours = {group.type_name: group.count for group in native.native}
    theirs = {group.type_name: group.count for group in twin.native}
    # the result of the first walk is alive in the second
    assert all(abs(count - theirs.get(name, 0)) <= 20 for name, count in ours.items() if "TypeGroup" not in name)


ODD = r"""
#include <Python.h>
typedef struct { PyObject_HEAD PyObject *kept; } Odd;
static int traverse(Odd *self, visitproc visit, void *arg)
{
    visit(NULL, arg);                /* Py_VISIT would not */
    visit((PyObject *)self, arg);
    for (int i = 0; i < 3; i++) visit(self->kept, arg);
    return 7;                        /* means nothing */
}
static PyObject *make(PyTypeObject *type, PyObject *args, PyObject *keywords)
{
    PyObject *kept;
    (void)keywords;
    if (!PyArg_ParseTuple(args, "O", &kept)) return NULL;
    Odd *self = PyObject_GC_New(Odd, type);
    if (!self) return NULL;
    Py_INCREF(kept);
    self->kept = kept;
    return (PyObject *)self;         /* never tracked */
}
static void drop(Odd *self) { Py_DECREF(self->kept); PyObject_GC_Del(self); }
static PyTypeObject type = {PyVarObject_HEAD_INIT(NULL, 0) .tp_name = "odd.Odd", .tp_basicsize = sizeof(Odd),
    .tp_flags = Py_TPFLAGS_DEFAULT | Py_TPFLAGS_HAVE_GC, .tp_traverse = (traverseproc)traverse, .tp_new = make,
    .tp_dealloc = (destructor)drop};
static PyTypeObject mute = {PyVarObject_HEAD_INIT(NULL, 0) .tp_name = "odd.Mute", .tp_basicsize = sizeof(Odd),
    .tp_flags = Py_TPFLAGS_DEFAULT | Py_TPFLAGS_HAVE_GC, .tp_traverse = (traverseproc)traverse, .tp_new = make,
    .tp_dealloc = (destructor)drop};
static struct PyModuleDef module = {PyModuleDef_HEAD_INIT, .m_name = "odd", .m_size = -1};
PyMODINIT_FUNC PyInit_odd(void)
{
    PyObject *m = PyModule_Create(&module);
    if (!m || PyType_Ready(&type) || PyType_Ready(&mute)) return NULL;
    mute.tp_traverse = NULL;         /* a type that forgot it */
    PyModule_AddObject(m, "Odd", (PyObject *)&type);
    PyModule_AddObject(m, "Mute", (PyObject *)&mute);
    return m;
}
"""


@pytest.mark.skipif(shutil.which("gcc") is None, reason="no compiler")
def test_types_with_an_odd_traverse(tmp_path: Path) -> None:
    source, library = tmp_path / "odd.c", tmp_path / "odd.so"
    source.write_text(ODD)
    include = sysconfig.get_path("include")
    subprocess.run(["gcc", "-shared", "-fPIC", f"-I{include}", str(source), "-o", str(library)], check=True)
    spec = importlib.util.spec_from_file_location("odd", library)
    assert spec is not None and spec.loader is not None
    odd = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(odd)
    node, hidden = Node(), Node()
    found = heap.walk(
        [Root("root", [odd.Odd(node), odd.Mute(hidden)], 1)],
        user_globals=frozenset(),
        barriers=[globals()],
        select_types=[Node],
    )
    assert [one.obj for one in found.found] == [node]


def test_a_full_memory_is_a_memory_error() -> None:
    code = """
        import resource
        from tenure.probes import heap
        assert heap.NATIVE
        data = [[] for _ in range(2_000_000)]
        roots = [heap.Root("r", data, 1)]
        with open("/proc/self/statm") as statm:
            now = int(statm.read().split()[0]) * resource.getpagesize()
        fine = heap.walk(roots, user_globals=frozenset(), barriers=[]).objects
        for room in range(0, 80 << 20, 4 << 20):
            resource.setrlimit(resource.RLIMIT_AS, (now + room, resource.RLIM_INFINITY))
            try:
                assert heap.walk(roots, user_globals=frozenset(), barriers=[]).objects == fine
            except MemoryError:
                print("full", end=" ")
            else:
                print("done", end=" ")
    """
    run = subprocess.run([sys.executable, "-c", textwrap.dedent(code)], capture_output=True, text=True, timeout=100)
    assert run.returncode == 0, run.stderr
    answers = run.stdout.split()
    assert answers[0] == "full"
    assert answers[-1] == "done"


def test_walks_while_other_threads_run() -> None:
    """The walk keeps the GIL, so containers that change all the time are seen whole."""
    stop = threading.Event()
    pool: dict[int, Any] = {}

    def churn(offset: int) -> None:
        i = offset
        while not stop.is_set():
            pool[i] = [Node(), {"a": (i, [i])}]
            pool.pop(i - 400, None)
            i += 4

    threads = [threading.Thread(target=churn, args=(n,)) for n in range(4)]
    for thread in threads:
        thread.start()
    try:
        for _ in range(20):
            modules = heap.module_roots(lambda name, module: False)
            roots = [Root("pool", pool, 0), *heap.frame_roots(lambda frame: False), *modules.roots]
            found = heap.walk(
                roots, user_globals=frozenset(), barriers=modules.barriers, select_types=[Node], paths=True
            ).found
            assert all(type(one.obj) is Node for one in found)
    finally:
        stop.set()
        for thread in threads:
            thread.join()


def test_the_twin_can_be_forced() -> None:
    code = "from tenure.probes import heap; print(heap.NATIVE, heap._walker.__name__)"
    forced = {**os.environ, "TENURE_PURE_PYTHON": "1"}
    run = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True, env=forced)
    assert run.stdout.split() == ["False", "tenure.probes._heap_python"]


def test_the_fork_does_not_warn_in_a_program_with_threads() -> None:
    code = """
        import os, threading, warnings
        from tenure.probes import heap
        warnings.simplefilter("error")
        wait = threading.Event()
        thread = threading.Thread(target=wait.wait)
        thread.start()
        pid = heap.fork()
        if not pid:
            os._exit(7)
        print(os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]))
        wait.set()
        thread.join()
    """
    run = subprocess.run([sys.executable, "-c", textwrap.dedent(code)], capture_output=True, text=True, timeout=100)
    assert run.returncode == 0, run.stderr
    assert run.stdout.split() == ["7"]


def test_a_copy_answers_beside_threads_and_runs_no_hook_of_the_programs() -> None:
    """A lock that an at-fork hook takes may be held by the code that turns the cycle: the fork would wait for ever."""
    program = textwrap.dedent(
        """
        import os, sys, threading
        from tenure.probes import heap
        called = []
        os.register_at_fork(before=lambda: called.append("before"), after_in_parent=lambda: called.append("parent"))
        local, stop = threading.local(), threading.Event()
        def work():
            local.kept = [bytearray(1000)]
            while not stop.is_set():
                sum(range(1000))
        threads = [threading.Thread(target=work) for _ in range(3)]
        for thread in threads:
            thread.start()
        for _ in range(10):
            read_end, write_end = os.pipe()
            pid = heap.fork()
            if pid == 0:
                print("seen by nobody", flush=True)
                os.write(write_end, b"ok" if sum(len([n]) for n in range(10000)) == 10000 else b"no")
                os._exit(0)
            os.close(write_end)
            assert os.read(read_end, 2) == b"ok"
            os.close(read_end)
            os.waitpid(pid, 0)
        stop.set()
        assert sys.version_info >= (3, 13) or called == [], called
        """
    )
    done = subprocess.run(
        [sys.executable, "-W", "error", "-c", program],
        env={**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)},
        capture_output=True,
        text=True,
        timeout=60,
    )
    assert (done.returncode, done.stdout) == (0, ""), done.stderr


AWAITED = """
import asyncio, gc, sys
from tenure.probes import heap

async def main():
    for _ in range(5):
        future = asyncio.get_running_loop().create_future()
        asyncio.get_running_loop().call_soon(future.set_result, 1)
        await future

asyncio.run(main())
for _ in range(3):
    root = heap.Root("asyncio", sys.modules["_asyncio"], 1)
    heap.walk([root], user_globals=frozenset(), barriers=[], select_types=(object,), paths=True)
    gc.collect()
print("collected")
"""


@pytest.mark.parametrize("pure", ["0", "1"])
def test_the_free_list_that_asyncio_shows_the_collector_stays_as_it_is(pure: str) -> None:
    """Python 3.12: taking one of its dead iterators made the list a ring, and the next collection never ended."""
    done = subprocess.run(
        [sys.executable, "-c", AWAITED],
        capture_output=True,
        text=True,
        timeout=60,
        env={**os.environ, "TENURE_PURE_PYTHON": pure, "PYTHONPATH": os.pathsep.join(sys.path)},
    )
    assert (done.returncode, done.stdout) == (0, "collected\n"), done.stderr
