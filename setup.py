"""What pyproject.toml can't say: the optional C modules, and the start-up hook.

The hook is one line in `tenure_run.pth`, which Python reads at each start. It costs nothing unless TENURE_RUN is set;
then it does what `tenure run` does, for programs whose command line can't be changed.
"""

from __future__ import annotations

import os

from setuptools import Extension, setup
from setuptools.command.build_py import build_py

HOOK = "tenure_run.pth"


class BuildWithHook(build_py):
    """Puts the hook at the root of site-packages: in the wheel, and in the wheel that an editable install makes."""

    def run(self) -> None:
        super().run()
        self.copy_file(HOOK, self._hook_target())

    def _hook_target(self) -> str:
        # An editable install copies no package; its wheel is what lies in the folder that `install` would fill.
        root = self.get_finalized_command("install").install_platlib if self.editable_mode else self.build_lib
        os.makedirs(root, exist_ok=True)
        return os.path.join(root, HOOK)

    def get_outputs(self, include_bytecode: bool = True) -> list[str]:
        outputs = super().get_outputs(include_bytecode)
        return outputs if self.editable_mode else [*outputs, self._hook_target()]


setup(
    ext_modules=[
        # Optional: without a compiler the install goes on, and probes/heap.py walks in Python (10-12 times slower).
        Extension("tenure.probes._heap", ["src/tenure/probes/_heap.c"], optional=True),
        # Optional too: observe/births.py walks over frames in Python then.
        Extension("tenure.probes._births", ["src/tenure/probes/_births.c"], optional=True),
        # Optional as well: a program inside a long call in C then hears SIGTERM when the call is over.
        Extension("tenure.probes._signals", ["src/tenure/probes/_signals.c"], libraries=["rt"], optional=True),
    ],
    cmdclass={"build_py": BuildWithHook},
)
