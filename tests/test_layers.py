"""Imports run one way: faces -> report, monitor -> explain, keep -> observe -> probes -> records, causes."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from pathlib import Path

ROOT = Path(__file__).parents[1] / "src" / "tenure"
LAYER = {
    "records": 0,
    "causes": 0,
    "contract": 0.5,
    "probes": 1,
    "observe": 2,
    "explain": 3,
    "keep": 3,
    "report": 4,
    "monitor": 4,
}
ISLANDS = {"lint": {"records", "causes", "lint"}, "state": {"probes", "state"}}
FACE = 5  # cli, __init__, and whatever else a user touches


def imports(path: Path) -> Iterator[str]:
    """Every module the file imports, in a function too; `from a import b` counts as a.b, import_module("a") as a."""
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            assert node.level == 0, f"{path}:{node.lineno}: a relative import; name the module"
            yield from (f"{node.module}.{alias.name}" for alias in node.names)
        elif isinstance(node, ast.Call) and getattr(node.func, "attr", getattr(node.func, "id", "")) == "import_module":
            yield from (arg.value for arg in node.args if isinstance(arg, ast.Constant) and isinstance(arg.value, str))


def wrong(path: Path) -> Iterator[str]:
    where = path.relative_to(ROOT)
    part = where.parts[0].removesuffix(".py")
    for name in imports(path):
        package, _, rest = name.partition(".")
        target = rest.partition(".")[0]
        if package == "tenure" and target != "__version__" and target != part:
            layer = LAYER.get(part, FACE)
            allowed = target in ISLANDS[part] if part in ISLANDS else layer == FACE or LAYER.get(target, FACE) < layer
            if not allowed:
                yield f"{where} imports {name}"
        if f"{name}.".startswith(("tensorflow.python.", "keras.src.")) and where.parts[:2] != ("probes", "tf"):
            yield f"{where} imports {name}, which only probes/tf may"
        if package in ("tensorflow", "keras") and part == "lint":
            yield f"{where} imports {name}: lint runs with no TensorFlow installed"


def test_imports_run_one_way() -> None:
    files = sorted(ROOT.rglob("*.py"))
    assert len(files) > 10
    assert [line for path in files for line in wrong(path)] == []


def test_no_tensorflow_when_a_module_is_imported() -> None:
    """Outside probes/tf, state and the demo's program TensorFlow and probes.tf are imported inside functions only."""
    found = []
    for path in sorted(ROOT.rglob("*.py")):
        where = path.relative_to(ROOT)
        if where.parts[:2] == ("probes", "tf") or where.parts[0] in ("state", "demo"):
            continue
        tree = ast.parse(path.read_text())
        for node in tree.body:
            names = [alias.name for alias in node.names] if isinstance(node, ast.Import) else []
            if isinstance(node, ast.ImportFrom):
                names = [f"{node.module}.{alias.name}" for alias in node.names]
            bad = ("tensorflow.", "keras.", "tenure.probes.tf.")
            found += [f"{where} imports {name} at its top" for name in names if f"{name}.".startswith(bad)]
    assert found == []
