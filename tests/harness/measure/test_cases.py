"""Cheating kernels end rejected or are timed honestly; honest but odd ones pass."""

from __future__ import annotations

import ast
import importlib
import inspect
import re
import textwrap
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import tasks
from harness.measure import open_backend

CASES = Path(__file__).parent / "cases"
# What a cheat must end in: `reject` is any status but ok; `honest` allows ok with the time of the plain operation.
VERDICTS = {
    "01_side_stream": "honest", "02_background_thread": "reject", "03_lazy_tensor": "reject",
    "04_event_clock_patch": "honest", "06_checker_patch": "reject", "07_pointer_cache": "honest",
    "08_content_cache": "reject", "09_disk_replay": "honest", "10_call_count_phase": "reject",
    "11_batch_and_skip": "honest", "13_stale_memory": "reject", "14_gc_answer": "reject", "16_nan_output": "reject",
    "17_wipe_inputs": "reject", "18_zero_output": "reject", "20_low_precision": "reject", "21_partial_large": "reject",
    "25_mode_branch": "reject", "26_stale_graph": "reject", "30_silent_fallback": "honest",
}  # fmt: skip
# Further ones of the same mechanisms, written here.
FURTHER = {
    "31_runner_patched": "reject", "32_clock_through_frames": "reject", "33_idle_in_capture": "reject",
    "34_half_in_capture": "reject", "35_weight_cache": "reject", "36_inputs_at_import": "reject",
    "37_infinite_output": "reject", "38_half_written": "reject", "39_unstable": "reject", "40_host_clock": "honest",
    "41_persisting_cache": "honest", "42_answers_in_shared_memory": "reject", "43_says_done_early": "reject",
    "44_start_recorded_again": "honest", "45_uncaptured_start_again": "honest", "46_end_beside_the_work": "honest",
    "47_dependent_launch": "honest", "48_clock_code_swapped": "honest", "49_work_before_the_window": "honest",
    "50_audit_in_one_launch": "honest", "51_armed_before_the_watch": "honest", "52_first_answers_all": "honest",
    "53_warmed_instead_of_flushed": "honest", "54_sampled_statistic": "reject", "55_side_work_within_slack": "honest",
    "56_answer_on_the_wire": "honest", "57_clock_patched_natively": "honest", "58_hog_beside_the_reference": "honest",
    "59_profile_hook": "honest",
}  # fmt: skip
FURTHER_ON_CPU = (
    "36_inputs_at_import", "37_infinite_output", "38_half_written", "39_unstable", "42_answers_in_shared_memory",
    "54_sampled_statistic",
)  # fmt: skip
# These do the work of a seed, which is faster than the plain operation: their time is held against the seed's.
SEED_INSIDE = {
    "44_start_recorded_again": "triton_row", "46_end_beside_the_work": "triton_row",
    "47_dependent_launch": "triton_persistent", "49_work_before_the_window": "triton_row",
    "50_audit_in_one_launch": "triton_row", "51_armed_before_the_watch": "triton_row",
    "52_first_answers_all": "triton_row", "53_warmed_instead_of_flushed": "triton_row", "59_profile_hook": "triton_row",
}  # fmt: skip
# Without a GPU there is nothing to gain for these, and their outputs are right. The weights of 35 go stale there, too.
RIGHT_ON_CPU = [name for name in FURTHER if name not in (*FURTHER_ON_CPU, "35_weight_cache")]
# What of the engine and of torch each of them replaces, reads, or recognises in a call stack. The last part of a name
# may be an attribute that a class sets on itself, or a local variable of a function.
TIMING = "harness.measure.timing"
ANSWERS = (
    "harness.measure.protocol.Channel.send", "harness.measure.protocol.Channel.receive", f"{TIMING}.Timing.prepare",
    f"{TIMING}.Timing.batch", f"{TIMING}.Timing.audit",
)  # fmt: skip
REACHES_FOR = {
    "31_runner_patched": (
        f"{TIMING}.Timing._around", f"{TIMING}.Timing._eager", f"{TIMING}.Timing.replay", f"{TIMING}.Timing.elapsed",
        f"{TIMING}.Timing.synchronize",
    ),
    "32_clock_through_frames": (f"{TIMING}.Timing._placed.self", f"{TIMING}.Timing.elapsed"),
    "43_says_done_early": (
        f"{TIMING}.honest", f"{TIMING}.Timing.audit", f"{TIMING}.Timing.graphs", f"{TIMING}.Timing.replay",
        f"{TIMING}.Timing._pooled", f"{TIMING}.Timing.captured", f"{TIMING}.Timing.called",
    ),
    "44_start_recorded_again": (f"{TIMING}.Timing._capture.start",),
    "45_uncaptured_start_again": (f"{TIMING}.Timing._eager.start",),
    "48_clock_code_swapped": ("torch.cuda.Event.elapsed_time",),
    "49_work_before_the_window": (f"{TIMING}.Timing._around", f"{TIMING}.Timing.graphs"),
    "50_audit_in_one_launch": (
        f"{TIMING}.honest", f"{TIMING}.Timing.audit", f"{TIMING}.Timing.graphs", f"{TIMING}.Timing.data",
        f"{TIMING}.Timing.region", "harness.measure.region.Region.pointer", f"{TIMING}.Timing._pooled",
        f"{TIMING}.Timing.captured", f"{TIMING}.Timing.called", f"{TIMING}.Timing.synchronize",
    ),
    "51_armed_before_the_watch": ANSWERS,
    "53_warmed_instead_of_flushed": (f"{TIMING}.Timing.memset", f"{TIMING}.Timing.data"),
    "55_side_work_within_slack": (f"{TIMING}.Timing._eager",),
    "56_answer_on_the_wire": ("harness.measure.protocol.Channel.send",),
    "58_hog_beside_the_reference": ANSWERS,
    "59_profile_hook": (f"{TIMING}.AROUND_NS", "torch.cuda.Event.record"),
}  # fmt: skip
REACHING = re.compile(r"harness\.measure|_getframe|get_objects|__code__")
# These cheat in ways that need no GPU to be seen.
ON_CPU = (
    "02_background_thread", "03_lazy_tensor", "06_checker_patch", "08_content_cache", "10_call_count_phase",
    "13_stale_memory", "14_gc_answer", "16_nan_output", "17_wipe_inputs", "18_zero_output", "20_low_precision",
    "25_mode_branch",
)  # fmt: skip
HONEST_SLACK = 0.97  # a cheat may not read faster than this share of the plain operation's time


def source(kind: str, name: str) -> str:
    return (CASES / kind / f"{name}.py").read_text()


def test_every_case_has_a_verdict():
    assert {p.stem for p in (CASES / "exploits").glob("*.py")} == set(VERDICTS)
    assert {p.stem for p in (CASES / "further").glob("*.py")} == set(FURTHER)


def set_on_itself(kind: type) -> set[str]:
    """Return the attributes that the methods of a class set on `self`."""
    tree = ast.parse(textwrap.dedent(inspect.getsource(kind)))
    stored = (node for node in ast.walk(tree) if isinstance(node, ast.Attribute) and isinstance(node.ctx, ast.Store))
    return {node.attr for node in stored if isinstance(node.value, ast.Name) and node.value.id == "self"}


def exists(name: str) -> bool:
    """Return whether a dotted name stands for something, without making an object of any class."""
    owner: Any = None
    for place, part in enumerate(parts := name.split(".")):
        if hasattr(owner, part):
            owner = getattr(owner, part)
            continue
        if owner is None or inspect.ismodule(owner):
            try:
                owner = importlib.import_module(".".join(parts[: place + 1]))
            except ModuleNotFoundError:
                return False
            continue
        inside = inspect.isclass(owner) and part in set_on_itself(owner)
        inside |= inspect.isfunction(owner) and part in owner.__code__.co_varnames
        return inside and place == len(parts) - 1
    return True


def test_a_name_that_is_gone_does_not_exist():
    assert exists(f"{TIMING}.Timing.batch") and exists(f"{TIMING}.Timing.memset")
    gone = ("put", "batch.nothing", "memset.nothing")
    assert not any(exists(f"{TIMING}.{name}") for name in ("gone", *(f"Timing.{name}" for name in gone)))


@pytest.mark.parametrize("name", FURTHER)
def test_what_a_cheat_reaches_for_is_there(name):
    """A cheat that misses its target computes honestly, and would prove nothing."""
    code = source("further", name)
    assert bool(REACHING.search(code)) == (name in REACHES_FOR)
    for target in REACHES_FOR.get(name, ()):
        assert exists(target), target
        assert re.search(rf"\b{target.rpartition('.')[2]}\b", code), target


@pytest.fixture(scope="module")
def cpu():
    with open_backend("cpu", workers=2) as engine:
        yield engine


@pytest.mark.parametrize(
    "kind, name", [("exploits", name) for name in ON_CPU] + [("further", name) for name in FURTHER_ON_CPU]
)
def test_a_cheat_is_seen_without_a_gpu(cpu, kind, name):
    assert cpu.submit("rms_norm", source(kind, name)).result(120).status != "ok"


@pytest.mark.parametrize("name", RIGHT_ON_CPU)
def test_a_cheat_of_the_clock_computes_what_it_should(cpu, name):
    """Its outputs are right, so that on a GPU it is judged for its time and not for an error of ours."""
    result = cpu.submit("rms_norm", source("further", name)).result(120)
    assert result.status == "ok", result.error


@pytest.mark.parametrize("name", ["03_workspace", "06_joined_side_stream", "08_growing_workspace"])
def test_an_odd_but_honest_kernel_passes_without_a_gpu(cpu, name):
    result = cpu.submit("rms_norm", source("honest", name)).result(120)
    assert result.status == "ok", result.error


@pytest.fixture(scope="module")
def cuda():
    with open_backend("cuda", workers=8) as engine:
        yield engine


@pytest.mark.gpu
@pytest.mark.parametrize("kind, name", [("exploits", name) for name in VERDICTS] + [("further", n) for n in FURTHER])
def test_a_cheat_gains_nothing(cuda, kind, name):
    result = cuda.submit("rms_norm", source(kind, name)).result(300)
    if (VERDICTS | FURTHER)[name] == "reject":
        assert result.status != "ok"
    elif result.status == "ok":
        honest = {case.case_id: case.reference_ns for case in result.cases}
        if name in SEED_INSIDE:
            seed = cuda.submit("rms_norm", tasks.seed_code("rms_norm", SEED_INSIDE[name])).result(300)
            honest = {case.case_id: case.candidate_ns for case in seed.cases}
        for case in result.cases:
            assert np.median(case.candidate_ns) > HONEST_SLACK * np.median(honest[case.case_id]), case.case_id


@pytest.mark.gpu
@pytest.mark.parametrize("name", [p.stem for p in sorted((CASES / "honest").glob("*.py"))])
def test_an_odd_but_honest_kernel_passes(cuda, name):
    result = cuda.submit("rms_norm", source("honest", name)).result(300)
    assert result.status == "ok", result.error
