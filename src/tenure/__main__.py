"""`python -m tenure`, the same as `tenure`."""

from __future__ import annotations

import os
import sys


def main() -> None:
    """Runs the command line and exits with its status."""
    from tenure.cli import tenure

    tenure(prog_name="tenure")


def _leave_current_folder() -> None:
    """Takes the current folder, which `-m` puts first, out of our path: a statistics.py there is not meant for us.

    As for the command `tenure`, the executable's folder takes its place; it has no modules. `soak` keeps the current
    folder, since what it calls may import from there.
    """
    ours = os.path.dirname(os.path.dirname(os.path.realpath(__file__)))
    if not getattr(sys.flags, "safe_path", False) and sys.argv[1:2] != ["soak"]:
        sys.path[0] = sys.path[0] if os.path.realpath(sys.path[0]) == ours else os.path.dirname(sys.executable)


if __name__ == "__main__":
    _leave_current_folder()
    main()
