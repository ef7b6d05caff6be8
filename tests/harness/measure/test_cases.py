"""Cheating kernels end rejected or are timed honestly; honest but odd ones pass."""

from __future__ import annotations

from pathlib import Path

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
    "47_dependent_launch": "honest", "48_clock_code_swapped": "honest", "49_work_in_the_copy": "honest",
    "50_audit_shortcut": "reject", "51_idle_early_rounds": "honest", "52_pool_read_ahead": "honest",
    "53_flush_intercepted": "honest", "54_sampled_statistic": "reject", "55_side_work_within_slack": "honest",
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
    "47_dependent_launch": "triton_persistent", "49_work_in_the_copy": "triton_row",
    "51_idle_early_rounds": "triton_row", "53_flush_intercepted": "triton_row", "59_profile_hook": "triton_row",
}  # fmt: skip
# Without a GPU there is nothing to gain for these, and their outputs are right.
RIGHT_ON_CPU = [name for name in FURTHER if name >= "44" and name not in FURTHER_ON_CPU]
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
