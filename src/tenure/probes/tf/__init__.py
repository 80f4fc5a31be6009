"""The only user of `tensorflow.python.*` and `keras.src.*`: one file a subsystem, a self-test beside each fact.

Importing this package imports no TensorFlow; its modules do (all but `hooks` and `callbacks`). A probe whose self-test
fails is off alone. `PROBES` lists them for `tenure doctor`.
"""

from __future__ import annotations

import importlib
from dataclasses import dataclass

__all__ = ["PROBES", "Probe"]


@dataclass(frozen=True, slots=True)
class Probe:
    """A probe by the name that people read, and where its self-test is."""

    name: str
    module: str
    test: str = "self_test"

    def self_test(self) -> str | None:
        """None when the probe works here, else the reason. Imports TensorFlow; never raises."""
        try:
            module = importlib.import_module(f"{__name__}.{self.module}")
            why: str | None = getattr(module, self.test)()
        except Exception as error:  # an unknown version may break a probe in any way; the reason is the answer
            return f"{type(error).__name__}: {error}"
        return why


PROBES: tuple[Probe, ...] = (
    Probe("TensorFlow's pool", "allocator"),
    Probe("gradient registry", "registries", "self_test_gradients"),
    Probe("Python-function registry", "registries", "self_test_py_functions"),
    Probe("eager kernel cache", "caches", "self_test_kernel_cache"),
    Probe("eager scalar cache", "caches", "self_test_scalar_cache"),
    Probe("tf.function traces", "functions"),
    Probe("tensor bytes and buffers", "handles"),
    Probe("gradient tapes", "tapes"),
    Probe("tf.data pipelines", "datasets"),
    Probe("graphs", "graphs"),
    Probe("op callbacks", "callbacks"),
    Probe("constructor hooks", "hooks"),
)
