"""`import tenure` is cheap, and imports no TensorFlow."""

from __future__ import annotations

import importlib
import importlib.util
import re
import subprocess
import sys
from pathlib import Path

import pytest

import tenure

ROOT = Path(__file__).parents[1]
HEAVY = ("tensorflow", "keras", "numpy", "rich", "click", "psutil")


def python(code: str) -> str:
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    return done.stdout.strip()


def test_import_loads_nothing_heavy() -> None:
    code = f"import sys, tenure; print([name for name in {HEAVY!r} if name in sys.modules])"

    assert python(code) == "[]"


def test_import_costs_milliseconds() -> None:
    code = "import time, typing, importlib; t = time.process_time(); import tenure; print(time.process_time() - t)"

    # 1 ms on an idle core; the best of three, since the machine may be busy.
    assert min(float(python(code)) for _ in range(3)) < 0.05


def test_help_loads_no_command_and_no_tensorflow() -> None:
    code = (
        "import sys\n"
        "from click.testing import CliRunner\n"
        "from tenure.cli import COMMANDS, tenure\n"
        "assert CliRunner().invoke(tenure, ['--help']).exit_code == 0\n"
        "heavy = [module for module, _ in COMMANDS.values()] + ['tensorflow', 'rich', 'numpy']\n"
        "print([name for name in heavy if name in sys.modules])"
    )

    assert python(code) == "[]"


def test_public_names_are_lazy_and_there() -> None:
    for name in tenure.__all__:
        assert getattr(tenure, name) is not None
        assert name in dir(tenure)


def test_a_name_that_is_not_there() -> None:
    with pytest.raises(AttributeError, match="no attribute 'nothing'"):
        tenure.nothing  # noqa: B018  # the access is what is tested


def test_every_module_but_probes_tf_imports_without_tensorflow() -> None:
    code = (
        "import sys, pkgutil, importlib\n"
        "sys.modules['tensorflow'] = sys.modules['keras'] = None\n"
        "import tenure\n"
        "skip = ('tenure.probes.tf', 'tenure.state', 'tenure.demo', 'tenure.probes._heap', 'tenure.cli.startup')\n"
        "names = [m.name for m in pkgutil.walk_packages(tenure.__path__, 'tenure.', onerror=lambda name: None)]\n"
        "names = [n for n in names if not n.startswith(skip) and not n.endswith('__main__')]\n"
        "[importlib.import_module(name) for name in names]\n"
        "print(len(names))"
    )

    assert int(python(code)) > 10


def test_the_start_up_hook_costs_nothing_without_its_variable() -> None:
    hook = (ROOT / "tenure_run.pth").read_text()

    assert hook.startswith("import ")
    assert hook.count("\n") == 1
    code = f"import os, sys; os.environ.pop('TENURE_RUN', None)\n{hook}print('tenure' in sys.modules)"
    assert python(code) == "False"


def test_the_start_up_hook_names_a_module_that_exists() -> None:
    hook = (ROOT / "tenure_run.pth").read_text()
    found = re.search(r'__import__\("([\w.]+)"\)', hook)

    assert found
    assert importlib.util.find_spec(found[1]) is not None


def test_version_is_the_distribution_s() -> None:
    metadata = importlib.import_module("importlib.metadata")
    try:
        installed = metadata.version("tenure")
    except metadata.PackageNotFoundError:
        pytest.skip("tenure is not installed here, only on the path")

    assert installed == tenure.__version__
