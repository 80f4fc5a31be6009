"""The catalogue of causes: complete, well-formed, and found by name, code or a near miss."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

import pytest

from tenure.causes import CATALOGUE, Cause, by_code, find, near

ENTRIES = pytest.mark.parametrize("cause", CATALOGUE.values(), ids=list(CATALOGUE))

# Released names and codes: scripts and suppressions rest on them, so none may change.
RELEASED = {
    "TEN101": "variables-created-per-step",
    "TEN102": "optimizer-recreated",
    "TEN103": "function-recreated",
    "TEN104": "retrace-python-value",
    "TEN105": "retrace-new-shape",
    "TEN106": "retrace-new-object",
    "TEN107": "tensors-kept",
    "TEN108": "concat-growing-state",
    "TEN109": "buffer-shifted-by-copy",
    "TEN110": "tape-kept",
    "TEN111": "tape-left-open",
    "TEN112": "loop-intermediates-under-tape",
    "TEN113": "models-kept",
    "TEN114": "model-rebuilt",
    "TEN115": "numpy-view-kept",
    "TEN116": "cache-on-method",
    "TEN117": "exception-kept",
    "TEN118": "graph-grows-in-session-loop",
    "TEN119": "session-not-closed",
    "TEN120": "dataset-cache-unbounded",
    "TEN121": "dataset-recreated",
    "TEN122": "saved-model-load-in-loop",
    "TEN123": "saved-model-save-in-loop",
    "TEN124": "summary-writer-recreated",
    "TEN125": "strategy-recreated",
    "TEN126": "tensorarray-grows",
    "TEN127": "cycles-with-gc-off",
    "TEN128": "predict-per-item",
    "TEN129": "detached-feedback-state",
    "TEN130": "model-refitted",
    "TEN131": "lookup-table-recreated",
    "TEN201": "gradient-registry",
    "TEN202": "eager-kernel-cache",
    "TEN203": "seeded-random-ops",
    "TEN204": "eager-scalar-cache",
    "TEN205": "py-function-registry",
    "TEN206": "xla-compilation-cache",
    "TEN207": "threads-created-per-request",
    "TEN301": "allocator-retention",
    "TEN302": "allocator-fragmentation",
    "TEN399": "unattributed-growth",
}


def test_released_names_stand() -> None:
    assert {code: cause.name for code, cause in by_code.items()}.items() >= RELEASED.items()


def test_the_two_indexes_agree_and_are_ordered() -> None:
    assert list(CATALOGUE.values()) == list(by_code.values())
    assert list(by_code) == sorted(by_code)


def test_the_catalogue_can_t_be_changed() -> None:
    with pytest.raises(TypeError):
        CATALOGUE["new"] = find("TEN101")  # type: ignore[index]


@ENTRIES
def test_an_entry_is_well_formed(cause: Cause) -> None:
    assert re.fullmatch(r"[a-z]+(-[a-z]+)*", cause.name)
    assert re.fullmatch(r"TEN\d{3}", cause.code)
    assert cause.kind in {"leak", "cost", "peak", "retention", "hazard"}
    assert cause.origin in {"user", "framework", "allocator", "unknown"}
    assert all((cause.summary, cause.why, cause.remedy, cause.cure, cause.versions))
    assert all(re.fullmatch(r"[\w.-]+/[\w.-]+#\d+", issue) for issue in cause.upstream)


@ENTRIES
def test_the_remedy_is_one_or_two_sentences(cause: Cause) -> None:
    assert cause.remedy.endswith(".")
    assert len(re.findall(r"[.!?](?:\s|$)", cause.remedy)) <= 2
    assert len(cause.remedy) < 220


@ENTRIES
def test_the_codes_an_entry_names_exist(cause: Cause) -> None:
    text = " ".join((cause.summary, cause.why, cause.remedy, cause.cure, cause.versions))

    assert set(re.findall(r"TEN\d{3}", text)) <= set(by_code)


@ENTRIES
def test_the_example_is_python(cause: Cause) -> None:
    body = cause.looks_like.rstrip()
    if body.startswith("except"):
        body = "try: ...\n" + body
    if body.endswith(":"):
        body += " ..."

    compile(body, cause.name, "exec")


@pytest.mark.parametrize("key", ["TEN201", "ten201", "gradient-registry", "Gradient-Registry"])
def test_find_takes_name_or_code(key: str) -> None:
    assert find(key).code == "TEN201"


def test_find_names_the_key_it_has_not() -> None:
    with pytest.raises(KeyError, match="gradient-regstry"):
        find("gradient-regstry")


def test_near_suggests_what_was_meant() -> None:
    assert near("gradient-regstry")[0] == "gradient-registry"
    assert "seeded-random-ops" in near("seed")
    assert "TEN201" in near("TEN21")
    assert near("qqqq") == ()


def test_the_page_in_docs_is_up_to_date() -> None:
    script = Path(__file__).parents[1] / "docs" / "causes.py"

    assert subprocess.run([sys.executable, script, "--check"], check=False).returncode == 0, f"run python {script}"
