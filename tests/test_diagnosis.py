"""Findings and verdicts from evidence alone: no TensorFlow, no program."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from tenure.causes import CATALOGUE
from tenure.explain.diagnosis import diagnose, fingerprint
from tenure.explain.evidence import (
    Bound,
    CachingDataset,
    Evidence,
    Garbage,
    GrowingGraph,
    JitFunction,
    Made,
    Native,
    OpenTape,
    OpSite,
    Population,
)
from tenure.records import Birth, Changed, GivenBack, Holder, Ticks

TICKS = Ticks("tick", "train.step", 100, 15)
BORN = Birth("train.py", 10, "step", "history.append(loss)")
HELD = Holder("train.history[*]", ("module train", "history", "[*]"), "train.py", 3)


def population(**changes: Any) -> Population:
    usual = Population(
        0, "module train", "EagerTensor", 1.0, 66000.0, 65536.0, kinds={"tensor": 1.0}, holder=HELD, birth=BORN
    )
    return replace(usual, **changes)


def steady(rate: float, **changes: Any) -> Native:
    return replace(Native(rate, rate * 0.9, rate * 1.1, True, True, False), **changes)


def verdict_on(windows: int = 5, **fields: Any) -> Any:
    return diagnose(Evidence(ticks=TICKS, **fields), windows)


def causes(**fields: Any) -> list[str]:
    return [finding.cause for finding in verdict_on(**fields).findings]


@pytest.mark.parametrize(
    ("changes", "cause"),
    [
        ({}, "tensors-kept"),
        ({"kinds": {"variable": 1.0, "tensor": 1.0}}, "variables-created-per-step"),
        ({"kinds": {"model": 1.0, "variable": 6.0}}, "models-kept"),
        ({"kinds": {"optimizer": 1.0, "variable": 6.0}}, "models-kept"),
        ({"kinds": {"tape": 1.0}}, "tape-kept"),
        ({"through": ("exception", "frame")}, "exception-kept"),
        ({"through": ("lru-cache",), "kinds": {"variable": 1.0}}, "cache-on-method"),
        ({"views": True, "kinds": {"array": 1.0}}, "numpy-view-kept"),
        ({"single": True}, "concat-growing-state"),
        ({"through": ("tensor-array",)}, "tensorarray-grows"),
        ({"through": ("function", "jit-function"), "kinds": {"trace": 1.0}}, "xla-compilation-cache"),
        ({"kinds": {"summary-writer": 1.0}}, "summary-writer-recreated"),
        ({"kinds": {"lookup-table": 1.0}}, "lookup-table-recreated"),
        ({"kinds": {"function": 1.0, "trace": 1.0}}, "function-recreated"),
        ({"tier": 2, "root": "TensorFlow's gradient registry", "kinds": {"graph": 2.0}}, "gradient-registry"),
        ({"tier": 2, "root": "TensorFlow's list of Python functions", "kinds": {}}, "py-function-registry"),
        ({"type_name": "bytes", "kinds": {}, "tensor_bytes_per_tick": 0.0}, "unattributed-growth"),
    ],
)
def test_a_population_gets_its_cause(changes: dict[str, Any], cause: str) -> None:
    assert causes(populations=(population(**changes),)) == [cause]


@pytest.mark.parametrize(
    ("kind", "cause"),
    [
        ("python-value", "retrace-python-value"),
        ("shape", "retrace-new-shape"),
        ("dtype", "retrace-new-shape"),
        ("object", "retrace-new-object"),
    ],
)
def test_a_retrace_is_told_by_the_argument_that_changed(kind: str, cause: str) -> None:
    changed = Changed("step", ("17", "18", "19"))
    grown = population(through=("function",), kinds={"trace": 1.0, "graph": 1.0}, changed=changed, changed_kind=kind)
    (finding,) = verdict_on(populations=(grown,)).findings
    assert (finding.cause, finding.changed) == (cause, changed)


def test_the_kernels_of_a_retrace_belong_to_it() -> None:
    grown = population(
        through=("function",),
        kinds={"trace": 1.0},
        changed_kind="python-value",
        bytes_per_tick=67_000.0,
        tensor_bytes_per_tick=0.0,
    )
    given = (GivenBack("kernel-cache", 180_000.0),)
    (finding,) = verdict_on(populations=(grown,), autopsy=given, native=steady(480_000.0), differential=True).findings
    assert finding.cause == "retrace-python-value" and "eager-kernel-cache" in finding.also
    assert finding.bytes_per_tick == pytest.approx(480_000, rel=0.01)


@pytest.mark.parametrize("kind", ["summary-writer", "lookup-table"])
def test_the_kernels_of_a_named_resource_belong_to_what_makes_it(kind: str) -> None:
    few = population(kinds={kind: 1.0}, bytes_per_tick=368.0, tensor_bytes_per_tick=0.0)
    given = (GivenBack("kernel-cache", 8600.0),)
    (finding,) = verdict_on(populations=(few,), autopsy=given, native=steady(8600.0), differential=True).findings
    assert (finding.cause, finding.also) == (f"{kind}-recreated", ("eager-kernel-cache",))
    assert finding.bytes_per_tick == pytest.approx(8968)


def test_a_new_optimizer_a_round_is_the_kernel_cache_with_its_line() -> None:
    site = OpSite(replace(BORN, line=18), "VarHandleOp", 0.0, 8.0, Changed("shared_name", ("a", "b", "c")))
    made = (Made("optimizer", replace(BORN, line=13), 1.0),)
    (finding,) = verdict_on(
        autopsy=(GivenBack("kernel-cache", 360_000.0),),
        native=steady(370_000.0),
        ops=(site,),
        made=made,
        differential=True,
    ).findings
    assert (finding.cause, finding.birth.line, finding.also) == ("eager-kernel-cache", 18, ("optimizer-recreated",))


def test_seeds_that_change_are_told_from_other_kernels() -> None:
    site = OpSite(BORN, "RandomStandardNormal", 0.0, 3.0, Changed("seed2", ("4", "5", "6")))
    assert causes(
        autopsy=(GivenBack("kernel-cache", 1.8e6),), native=steady(1.8e6), ops=(site,), differential=True
    ) == ["seeded-random-ops"]


def test_kernels_built_while_warming_up_are_no_leak() -> None:
    """A single release at the end of a run gives back the kernels of every program."""
    given = (GivenBack("kernel-cache", 40_000.0),)
    assert verdict_on(autopsy=given).verdict == "flat"
    assert verdict_on(autopsy=given, native=steady(3000.0)).verdict == "flat"


def test_a_few_kilobytes_of_kernels_are_what_is_left_of_warming_up() -> None:
    given = (GivenBack("kernel-cache", 4960.0),)
    assert verdict_on(autopsy=given, native=steady(6800.0), differential=True).verdict == "flat"


def test_kernels_of_the_warm_up_are_no_second_finding() -> None:
    given = (GivenBack("kernel-cache", 14_000.0),)
    assert causes(populations=(population(),), autopsy=given, native=steady(66_500.0)) == ["tensors-kept"]


def test_new_scalars() -> None:
    made = (Made("scalar", BORN, 1000.0),)
    assert causes(
        autopsy=(GivenBack("scalar-cache", 650_000.0),), native=steady(660_000.0), scalars=made, differential=True
    ) == ["eager-scalar-cache"]


@pytest.mark.parametrize(("numbers", "named"), [(150.0, True), (1.0, False)])
def test_a_line_that_makes_too_few_numbers_is_not_the_one(numbers: float, named: bool) -> None:
    found = verdict_on(
        autopsy=(GivenBack("scalar-cache", 117_000.0),), scalars=(Made("scalar", BORN, numbers),), differential=True
    ).findings[0]
    assert found.cause == "eager-scalar-cache"
    assert (found.birth == BORN) is named


def test_native_growth_of_a_function_that_is_compiled_for_each_shape() -> None:
    compiled = JitFunction("smooth", BORN, HELD)
    found = verdict_on(native=steady(380_000.0), jit_functions=(compiled,), differential=True).findings
    assert [(f.cause, f.birth, f.holder) for f in found] == [("xla-compilation-cache", BORN, HELD)]


def test_native_growth_beside_tables_that_are_restored_each_tick() -> None:
    made = (Made("lookup-table", BORN, 1.0),)
    found = verdict_on(native=steady(50_000.0), made=made, differential=True).findings
    assert [(f.cause, f.birth) for f in found] == [("lookup-table-recreated", BORN)]


def test_a_region_that_an_allocator_takes_does_not_hide_the_weight_of_writers() -> None:
    writers = population(bytes_per_tick=400.0, tensor_bytes_per_tick=0.0, kinds={"summary-writer": 1.0})
    jumped = steady(9_000.0, steady=False, high=280_000.0)
    assert causes(populations=(writers,), native=jumped) == ["summary-writer-recreated"]
    assert causes(native=jumped) == []


def test_a_new_model_a_tick_is_told_beside_its_kernels() -> None:
    found = verdict_on(
        autopsy=(GivenBack("kernel-cache", 144_000.0),), made=(Made("model", BORN, 1.0),), differential=True
    ).findings[0]
    assert (found.cause, found.also, found.birth) == ("eager-kernel-cache", ("model-rebuilt",), BORN)


def test_a_tape_that_still_records_holds_what_nothing_else_does() -> None:
    tape = OpenTape(True, True, BORN, HELD)
    assert causes(held_tensor_bytes_per_tick=160_000.0, held_tensors_per_tick=20.0, tapes=(tape,)) == ["tape-left-open"]
    assert causes(held_tensor_bytes_per_tick=160_000.0, held_tensors_per_tick=20.0) == ["unattributed-growth"]


def test_native_growth_goes_to_the_dataset_that_caches_without_end() -> None:
    endless = CachingDataset("cache() after repeat() without a count", BORN, HELD)
    (finding,) = verdict_on(native=steady(200_000.0), datasets=(endless,)).findings
    assert (finding.cause, finding.birth) == ("dataset-cache-unbounded", BORN)
    assert causes(native=steady(200_000.0)) == ["unattributed-growth"]
    assert verdict_on(datasets=(endless,)).verdict == "flat"


def test_a_graph_that_gets_ops_takes_the_native_growth() -> None:
    graph = GrowingGraph("the graph", 2.0, BORN, HELD)
    (finding,) = verdict_on(native=steady(300_000.0), graphs=(graph,)).findings
    assert (finding.cause, finding.bytes_per_tick) == ("graph-grows-in-session-loop", pytest.approx(300_000))


def test_the_ops_in_a_graph_bring_their_native_weight() -> None:
    ops = population(
        type_name="Operation", kinds={}, through=("graph-v1",), bytes_per_tick=7400.0, tensor_bytes_per_tick=0.0
    )
    (finding,) = verdict_on(populations=(ops,), native=steady(242_000.0)).findings
    assert (finding.cause, finding.bytes_per_tick) == ("graph-grows-in-session-loop", pytest.approx(242_000))


def test_cycles_wait_for_a_collector_that_is_off() -> None:
    assert causes(garbage=Garbage(10.0, 330_000.0, 320_000.0)) == ["cycles-with-gc-off"]


def test_the_wake_of_a_leak_is_no_second_finding() -> None:
    wake = population(
        tier=1,
        root="module tensorflow",
        type_name="tuple",
        kinds={},
        bytes_per_tick=3000.0,
        tensor_bytes_per_tick=0.0,
        holder=None,
        birth=None,
    )
    registry = population(
        tier=2,
        root="TensorFlow's gradient registry",
        kinds={"graph": 1.0},
        bytes_per_tick=9000.0,
        holder=None,
        birth=None,
    )
    (finding,) = verdict_on(populations=(population(), wake, registry)).findings
    assert finding.cause == "tensors-kept" and finding.also == ("gradient-registry",)
    assert finding.bytes_per_tick == pytest.approx(66_000 + 3000 + 9000)


def test_plain_objects_in_a_container_are_a_leak_of_their_own_and_the_users() -> None:
    log = Holder("train.log[*]", ("module train", "log", "[*]"), "train.py", 8)
    plain = population(type_name="bytearray", kinds={}, tensor_bytes_per_tick=0.0, bytes_per_tick=50_000.0, holder=log)
    large = population(bytes_per_tick=360_000.0, tensor_bytes_per_tick=360_000.0)
    found = verdict_on(populations=(large, plain)).findings
    assert [(f.cause, f.origin, f.bytes_per_tick) for f in found] == [
        ("tensors-kept", "user", 360_000.0),
        ("unattributed-growth", "user", 50_000.0),
    ]
    assert "train.log[*]" in found[1].remedy


def test_what_comes_seldom_is_told_by_its_distance() -> None:
    (found,) = verdict_on(populations=(population(objects_per_tick=0.05),)).findings
    assert found.evidence[0] == "1 EagerTensor more each 20 ticks"


def test_two_leaks_are_two_findings_largest_first() -> None:
    other = population(
        bytes_per_tick=200_000.0,
        holder=replace(HELD, text="train.models[*]", line=5),
        birth=replace(BORN, line=20),
        kinds={"model": 1.0},
    )
    assert causes(populations=(population(), other)) == ["models-kept", "tensors-kept"]


@pytest.mark.parametrize(
    ("fields", "verdict"),
    [
        ({"populations": (population(bytes_per_tick=900.0),)}, "flat"),
        ({"populations": (population(steady=False),)}, "flat"),
        ({"populations": (population(slowing=True),)}, "inconclusive"),
        ({"native": steady(6000.0)}, "flat"),
        ({"native": steady(50_000.0, stands=False)}, "flat"),
        ({"native": steady(9_000.0, low=4_900.0)}, "flat"),
        ({"native": steady(50_000.0, low=20_000.0)}, "flat"),
        ({"native": steady(6_000.0, slowing=True)}, "flat"),
        ({"native": steady(50_000.0, steady=False)}, "flat"),
        ({"native": steady(50_000.0, slowing=True)}, "inconclusive"),
        ({}, "flat"),
    ],
)
def test_what_is_no_leak(fields: dict[str, Any], verdict: str) -> None:
    assert verdict_on(**fields).verdict == verdict


def test_too_few_windows_are_inconclusive_and_say_what_would_decide() -> None:
    told = verdict_on(windows=2, populations=(population(),))
    assert told.verdict == "inconclusive" and "read after warm-up 3 times only" in told.why and told.findings == ()


def test_what_comes_once_an_epoch_is_judged_by_the_epoch() -> None:
    kept = population(bytes_per_tick=2100.0, tensor_bytes_per_tick=2048.0)
    assert causes(populations=(kept,)) == []
    assert causes(populations=(kept,), epoch=512) == ["tensors-kept"]
    assert causes(populations=(replace(kept, holder=None),), epoch=512) == []
    assert causes(populations=(replace(kept, tensor_bytes_per_tick=0.0),), epoch=512) == []
    assert causes(populations=(population(bytes_per_tick=200.0, tensor_bytes_per_tick=190.0),), epoch=512) == []


def test_small_growth_is_a_note() -> None:
    (note,) = verdict_on(populations=(population(bytes_per_tick=900.0),)).notes
    assert "train.history[*] grows by 900 bytes" in note


def test_a_fingerprint_survives_line_shifts_and_indices() -> None:
    (finding,) = verdict_on(populations=(population(),)).findings
    moved = replace(
        finding,
        birth=replace(BORN, line=99),
        holder=replace(HELD, text="train.history[17]", line=70),
        bytes_per_tick=1.0,
    )
    assert finding.fingerprint == fingerprint(moved) != ""
    assert fingerprint(replace(finding, cause="models-kept")) != finding.fingerprint


def test_every_cause_that_can_be_told_is_in_the_catalogue() -> None:
    from tenure.explain import matchers

    assert {cause for _, cause in matchers._MATCHERS} <= set(CATALOGUE)


def test_a_container_with_a_bound_that_is_not_full_yet_decides_nothing() -> None:
    ring = population(bound=Bound("maxlen", 500, 100))
    verdict = verdict_on(populations=(ring,))
    assert (verdict.verdict, verdict.findings) == ("inconclusive", ())
    assert "train.history still fills: it holds 100 of at most 500 (maxlen)" in verdict.why
    assert "750 ticks would tell" in verdict.why


def test_a_bound_beyond_the_memory_is_none() -> None:
    ring = population(bound=Bound("maxlen", 10**6, 100))
    assert verdict_on(populations=(ring,), room=1e9).verdict == "leak"
    assert verdict_on(populations=(ring,), room=1e12).verdict == "inconclusive"
    assert verdict_on(populations=(ring,), room=None).verdict == "inconclusive"


def test_a_cache_that_takes_far_longer_to_fill_than_the_run_is_a_leak() -> None:
    cache = population(through=("lru-cache",), bound=Bound("maxsize", 100_000, 100))
    assert causes(populations=(cache,)) == ["cache-on-method"]
    assert causes(populations=(replace(cache, bound=Bound("maxsize", 128, 100)),)) == []


def test_a_leak_beside_a_ring_that_fills_is_a_leak() -> None:
    ring = population(bound=Bound("maxlen", 500, 100), key=1)
    other = population(holder=replace(HELD, text="train.losses[*]"), birth=replace(BORN, line=30), key=2)
    verdict = verdict_on(populations=(ring, other))
    assert [finding.holder.text for finding in verdict.findings] == ["train.losses[*]"]


def test_kernels_built_again_by_work_that_comes_now_and_then_are_no_growth() -> None:
    """A dict of at most 150 variables that fills ever more slowly: 18.5 KB a tick came back, malloc grew by 1.9."""
    native = Native(1872.0, 1625.0, 3495.0, True, False, False)
    given = (GivenBack("kernel-cache", 18_498.0),)
    assert verdict_on(autopsy=given, native=native, differential=True).verdict == "flat"


def test_tensors_that_have_come_to_a_megabyte_are_judged_however_fast_the_ticks_are() -> None:
    kept = population(bytes_per_tick=1456.0, tensor_bytes_per_tick=1024.0)
    few, many = Ticks("tick", None, 100, 15), Ticks("tick", None, 25_000, 30)
    assert diagnose(Evidence(ticks=few, populations=(kept,)), 5).verdict == "flat"
    (finding,) = diagnose(Evidence(ticks=many, populations=(kept,)), 5).findings
    assert (finding.cause, finding.bytes_per_tick) == ("tensors-kept", 1456.0)
    numbers = replace(kept, tensor_bytes_per_tick=4.0)
    assert diagnose(Evidence(ticks=many, populations=(numbers,)), 5).verdict == "flat"


def test_a_holder_that_leaks_is_not_noted_as_too_small_beside() -> None:
    leak = population(kinds={"trace": 1.0}, through=("function",))
    rest = population(kinds={}, bytes_per_tick=2480.0, tensor_bytes_per_tick=0.0)
    verdict = verdict_on(populations=(leak, rest))
    assert verdict.verdict == "leak" and not [note for note in verdict.notes if "below the least" in note]


def test_a_fault_of_tensorflows_own_tells_its_versions_and_public_issues() -> None:
    registry = population(tier=2, root="TensorFlow's gradient registry", kinds={"graph": 2.0})
    (finding,) = verdict_on(populations=(registry,)).findings
    assert finding.cause == "gradient-registry"
    assert "2.16 to 2.21" in finding.versions
    assert "tensorflow/tensorflow#27492" in finding.upstream


def test_the_programs_own_fault_tells_no_versions() -> None:
    (finding,) = verdict_on(populations=(population(),)).findings
    assert (finding.versions, finding.upstream) == ("", ())
