from __future__ import annotations

import json
from pathlib import Path

import pytest

from benchmark.identity import kernel_id
from harness.measure import CaseTimes, Measurement
from harness.measure.command import measure_files, show
from harness.measure.report import summary, table
from harness.search.events import EventLog

CASE = "4096x8192-bf16"
H200 = {"session_id": "s-1", "gpu": "NVIDIA H200", "empty_kernel_ns": {"graph": 4_000.0, "event": 9_000.0}}


def case_times(candidate: float, reference: float, case_id: str = CASE, method: str = "graph") -> CaseTimes:
    return CaseTimes(case_id, (candidate,) * 8, tuple(range(8)), (reference,) * 8, tuple(range(8, 16)), method)


def measured(candidate: float, reference: float) -> Measurement:
    return Measurement("k-1", "rms_norm", "ok", cases=(case_times(candidate, reference),))


def test_a_case_has_its_time_speedup_and_share_of_the_copy_rate():
    row = summary(measured(40_000.0, 60_000.0), "a.py", H200)
    (case,) = row["cases"]
    assert (case["time_us"], case["reference_us"], case["speedup"]) == pytest.approx((40.0, 60.0, 1.5))
    # 2 * 4096 * 8192 + 8192 elements of two bytes in 40 us, over 4.3e12 bytes per second.
    assert case["bandwidth_share"] == pytest.approx((2 * 4096 * 8192 + 8192) * 2 / 40e-6 / 4.3e12)
    assert row["speedup"] == pytest.approx(1.5)
    assert (case["launch_bound"], row["launch_bound"], case["empty_kernel_us"]) == (False, False, 4.0)


def test_an_unknown_gpu_has_no_share_of_a_copy_rate():
    (case,) = summary(measured(40_000.0, 60_000.0), "a.py", {"gpu": "another card"})["cases"]
    assert case["bandwidth_share"] is case["empty_kernel_us"] is None and case["launch_bound"] is False


def test_a_failed_kernel_has_a_status_and_no_number():
    row = summary(Measurement("k-1", "rms_norm", "incorrect", "wrong\nlong story", "check"), "a.py", H200)
    assert row["speedup"] is row["time_us_geomean"] is None and row["launch_bound"] is False
    text = table([row])
    assert "check: wrong" in text and "long story" not in text


def test_a_failed_measurement_cannot_carry_times():
    with pytest.raises(ValueError, match="carries no times"):
        Measurement("k-1", "rms_norm", "timeout", cases=measured(1.0, 1.0).cases)


def test_a_measurement_survives_its_log():
    first = measured(40_000.0, 60_000.0)
    assert Measurement.from_json({**first.to_json(), "of a later version": 1}) == first


def test_the_table_is_aligned():
    rows = [summary(measured(40_000.0, 60_000.0), name, H200) for name in ("a.py", "a_longer_name.py")]
    lines = table(rows).splitlines()
    assert len({line.index("graph") for line in lines if "graph" in line}) == 1


def test_a_launch_bound_case_is_named_and_not_in_the_mean():
    cases = (
        case_times(40_000.0, 60_000.0),
        case_times(4_100.0, 8_200.0, "16384x2048-fp16"),
        case_times(20_000.0, 15_000.0, "4096x5120-fp32", "event"),
    )
    row = summary(Measurement("k-1", "rms_norm", "ok", cases=cases), "a.py", H200)
    assert [case["launch_bound"] for case in row["cases"]] == [False, True, True]
    assert row["launch_bound"] is False
    assert (row["speedup"], row["time_us_geomean"]) == pytest.approx((1.5, 40.0))
    head, plain, small, by_event, mean, note = table([row]).splitlines()
    assert head.split()[-1] == "status" and plain.endswith("graph")
    assert small.split()[-2:] == ["graph", "launch-bound"] and by_event.split()[-2:] == ["event", "launch-bound"]
    assert mean.split() == ["a.py", "geometric", "mean", "40.00", "1.500", "1.500-1.500", "ok"]
    assert note.startswith("launch-bound: both sides take less than 3 times an empty kernel (4.00 us by graph, 9.00 us")


RMS_NORM = """import torch


class Model(torch.nn.Module):
    def forward(self, x):
        return x / torch.sqrt((x * x).mean(1, keepdim=True) + 1e-6)


def get_inputs():
    return [torch.randn(4, 4)]


def get_init_inputs():
    return []
"""


def test_a_problem_of_a_few_elements_has_no_speedup(tmp_path: Path, capsys: pytest.CaptureFixture[str]):
    """A19: RMS norm on (4, 4), as the log of an H200 would hold it; the kernel is in the log, so nothing is started."""
    (tmp_path / "problem.py").write_text(RMS_NORM)
    candidate, log, task = tmp_path / "fast.py", tmp_path / "log.jsonl", f"kernelbench:{tmp_path / 'problem.py'}"
    candidate.write_text(RMS_NORM.replace("Model", "ModelNew"))
    name = kernel_id(task, candidate.read_text())
    times = case_times(4_200.0, 8_800.0, "inputs")
    with EventLog(log) as events:
        events.append("session_started", {"session": H200})
        row = Measurement(name, task, "ok", cases=(times,), session_id="s-1").to_json()
        events.append("measured", {"file": str(candidate), "measurement": row})
    rows = measure_files([candidate], task, "cuda", 1, quiet=True, out=log)
    assert show(rows, as_json=False) == 0
    _, case, kernel, note = capsys.readouterr().out.splitlines()
    assert case.endswith("launch-bound")
    assert kernel.split() == [str(candidate), "every", "case", "is", "launch-bound", "ok"]
    assert "an empty kernel (4.00 us by graph)" in note
    assert show(rows, as_json=True) == 0
    (found,) = json.loads(capsys.readouterr().out)["rows"]
    assert found["launch_bound"] is True and found["cases"][0]["launch_bound"] is True
    assert found["speedup"] is found["speedup_low"] is found["time_us_geomean"] is None
    assert found["gpu"] == "NVIDIA H200"
