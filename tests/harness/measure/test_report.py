from __future__ import annotations

import pytest

from harness.measure import CaseTimes, Measurement
from harness.measure.report import summary, table

CASE = "4096x8192-bf16"


def measured(candidate: float, reference: float) -> Measurement:
    times = CaseTimes(CASE, (candidate,) * 8, tuple(range(8)), (reference,) * 8, tuple(range(8, 16)), "graph")
    return Measurement("k-1", "rms_norm", "ok", cases=(times,))


def test_a_case_has_its_time_speedup_and_share_of_the_copy_rate():
    row = summary(measured(40_000.0, 60_000.0), "a.py", "NVIDIA H200")
    (case,) = row["cases"]
    assert (case["time_us"], case["reference_us"], case["speedup"]) == pytest.approx((40.0, 60.0, 1.5))
    # 2 * 4096 * 8192 + 8192 elements of two bytes in 40 us, over 4.3e12 bytes per second.
    assert case["bandwidth_share"] == pytest.approx((2 * 4096 * 8192 + 8192) * 2 / 40e-6 / 4.3e12)
    assert row["speedup"] == pytest.approx(1.5)


def test_an_unknown_gpu_has_no_share_of_a_copy_rate():
    (case,) = summary(measured(40_000.0, 60_000.0), "a.py", "another card")["cases"]
    assert case["bandwidth_share"] is None


def test_a_failed_kernel_has_a_status_and_no_number():
    row = summary(Measurement("k-1", "rms_norm", "incorrect", "wrong\nlong story", "check"), "a.py", "NVIDIA H200")
    assert row["speedup"] is row["time_us_geomean"] is None
    text = table([row])
    assert "check: wrong" in text and "long story" not in text


def test_a_failed_measurement_cannot_carry_times():
    with pytest.raises(ValueError, match="carries no times"):
        Measurement("k-1", "rms_norm", "timeout", cases=measured(1.0, 1.0).cases)


def test_a_measurement_survives_its_log():
    first = measured(40_000.0, 60_000.0)
    assert Measurement.from_json({**first.to_json(), "of a later version": 1}) == first


def test_the_table_is_aligned():
    rows = [summary(measured(40_000.0, 60_000.0), name, "NVIDIA H200") for name in ("a.py", "a_longer_name.py")]
    lines = table(rows).splitlines()
    assert len({line.index("graph") for line in lines if "graph" in line}) == 1
