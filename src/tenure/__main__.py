"""`python -m tenure`, the same as `tenure`."""

from __future__ import annotations


def main() -> None:
    """Runs the command line and exits with its status."""
    from tenure.cli import tenure

    tenure(prog_name="tenure")


if __name__ == "__main__":
    main()
