"""What all tests share: a quiet TensorFlow on the CPU, and the `tf` marker that skips where none is installed."""

from __future__ import annotations

import os
from importlib.util import find_spec

import pytest

# Read by TensorFlow while it is imported, so they are set before any test module is.
os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "3")
os.environ.setdefault("CUDA_VISIBLE_DEVICES", "-1")


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    if find_spec("tensorflow") is None:
        skip = pytest.mark.skip(reason="TensorFlow is not installed")
        for item in items:
            if "tf" in item.keywords:
                item.add_marker(skip)
