"""With --redact a recording holds no values of arguments either, also one that a killed program leaves."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

from test_report_fakes import LEAK

from tenure.explain.running import RunWatching
from tenure.observe.recording import open_recording
from tenure.report.json import redacted


def test_what_is_stored_is_redacted(tmp_path: Path) -> None:
    for stored, shown in ((None, True), (redacted, False)):
        file = tmp_path / f"{shown}.tenure"
        watching = RunWatching(("train.py", "secret"), file, stored)
        watching._report = lambda status: replace(LEAK, program=("train.py", "secret"))  # type: ignore[method-assign]
        watching.start()
        watching._store_report()
        watching.finish(0)
        report = open_recording(file).report
        assert report is not None and ("secret" in report.program) is shown
