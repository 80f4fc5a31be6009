"""Output files: told before the program runs when they can't be written, and replaced as a whole."""

from __future__ import annotations

import contextlib
import os
import tempfile
from collections.abc import Iterable, Mapping
from pathlib import Path

__all__ = ["overwritten", "unwritable", "write_atomically"]


def unwritable(path: Path) -> str | None:
    """Why a file can't be written at `path`, or None. Nothing stays behind."""
    if path.is_dir():
        return "it is a folder"
    if not path.parent.is_dir():
        return f"there is no folder {path.parent}"
    if path.exists() and not os.access(path, os.W_OK):
        return "it is read-only"
    if path.exists() and not path.is_file():
        return None  # a pipe or a device is written to as it is
    try:
        descriptor, name = tempfile.mkstemp(prefix=f".{path.name}.", dir=path.parent)
    except OSError as error:
        return (error.strerror or str(error)).lower()
    os.close(descriptor)
    os.unlink(name)
    return None


def overwritten(outputs: Mapping[str, Path], inputs: Iterable[str]) -> str | None:
    """One sentence when an output would take the place of a file that is read, or of another output; else None."""
    for option, path in outputs.items():
        for given in inputs:
            with contextlib.suppress(OSError):
                if os.path.samefile(path, given):
                    return f"{option} would overwrite {given}; give another place"
    if len({os.path.realpath(path) for path in outputs.values()}) < len(outputs):
        return f"{' and '.join(outputs)} name the same file; give each its own"
    return None


def write_atomically(path: Path, text: str) -> None:
    """Writes beside and moves into place: a reader sees the old file or the whole new one."""
    if path.exists() and not path.is_file():  # a pipe or a device is written to; replaced, /dev/null would be a file
        path.write_text(text, encoding="utf-8", errors="backslashreplace")
        return
    descriptor, name = tempfile.mkstemp(prefix=f".{path.name}.", dir=path.parent)
    try:
        with os.fdopen(descriptor, "w", encoding="utf-8", errors="backslashreplace") as file:
            file.write(text)
        os.chmod(name, path.stat().st_mode & 0o777 if path.exists() else 0o666 & ~_umask())
        os.replace(name, path)
    except BaseException:
        with contextlib.suppress(OSError):
            os.unlink(name)
        raise


def _umask() -> int:
    mask = os.umask(0)
    os.umask(mask)
    return mask
