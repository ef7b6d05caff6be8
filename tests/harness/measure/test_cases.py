"""Cheating kernels end rejected or are timed honestly; honest but odd ones pass."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

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


@pytest.fixture(scope="module")
def cpu():
    with open_backend("cpu", workers=2) as engine:
        yield engine


@pytest.mark.parametrize("name", ON_CPU)
def test_a_cheat_is_seen_without_a_gpu(cpu, name):
    assert cpu.submit("rms_norm", source("exploits", name)).result(120).status != "ok"


@pytest.mark.parametrize("name", ["03_workspace"])
def test_an_odd_but_honest_kernel_passes_without_a_gpu(cpu, name):
    result = cpu.submit("rms_norm", source("honest", name)).result(120)
    assert result.status == "ok", result.error


@pytest.fixture(scope="module")
def cuda():
    with open_backend("cuda", workers=8) as engine:
        yield engine


@pytest.mark.gpu
@pytest.mark.parametrize("name", VERDICTS)
def test_a_cheat_gains_nothing(cuda, name):
    result = cuda.submit("rms_norm", source("exploits", name)).result(300)
    if VERDICTS[name] == "reject":
        assert result.status != "ok"
    elif result.status == "ok":
        for case in result.cases:
            assert np.median(case.candidate_ns) > HONEST_SLACK * np.median(case.reference_ns), case.case_id


@pytest.mark.gpu
@pytest.mark.parametrize("name", [p.stem for p in sorted((CASES / "honest").glob("*.py"))])
def test_an_odd_but_honest_kernel_passes(cuda, name):
    result = cuda.submit("rms_norm", source("honest", name)).result(300)
    assert result.status == "ok", result.error
