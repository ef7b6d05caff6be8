"""The figures of the engine's benchmark, on measurements whose statistics are known."""

from __future__ import annotations

import numpy as np
import pytest

from harness.measure import bench
from harness.measure.bench_analysis import (
    agreement,
    cold_reads,
    first_median_ns,
    methods,
    repeatability,
    throughput,
    twice,
)
from harness.measure.result import CaseTimes, Measurement


def measurement(name: str, times_ns, reference_ns=(50_000.0,) * 8, case="c", task="rms_norm", **fields):
    times = tuple(float(t) for t in times_ns)
    order = tuple(range(len(times)))
    row = CaseTimes(case, times, order, tuple(reference_ns), tuple(range(len(reference_ns))), "graph")
    return Measurement(name, task, "ok", cases=(row,), **fields)


def flat(name: str, ns: float, **fields):
    return measurement(name, [ns] * 8, **fields)


def test_levels_that_differ_by_a_tenth_of_a_percent_are_equivalent():
    rng = np.random.default_rng(0)
    strict = {str(i): flat(str(i), 40_000.0 + i) for i in range(100)}
    shared = {k: flat(k, m.cases[0].candidate_ns[0] * np.exp(rng.normal(0.001, 0.004))) for k, m in strict.items()}
    found = agreement(strict, shared)
    assert found["kernels"] == 100
    assert found["equivalent"]
    assert found["mean_log_ratio"] == pytest.approx(0.001, abs=0.002)
    shifted = {k: flat(k, m.cases[0].candidate_ns[0] * 1.01) for k, m in strict.items()}
    assert not agreement(strict, shifted)["equivalent"]
    assert agreement(strict, shifted)["median_abs_difference"] == pytest.approx(0.01, abs=1e-6)


def test_repeatability_is_the_coefficient_of_variation():
    # 99, 100 and 101 us: standard deviation 1, mean 100
    found = repeatability([flat("k", ns) for ns in (99_000.0, 100_000.0, 101_000.0)])
    assert found["cv"] == pytest.approx(0.01)
    assert found["cv_by_case"] == {"c": pytest.approx(0.01)}


def test_intervals_that_state_the_true_noise_cover_95_percent():
    rng = np.random.default_rng(1)
    runs = [{}, {}]
    for i in range(300):
        level = rng.uniform(10.0, 12.0)
        for run in runs:
            own = level + rng.normal(0, 0.006)  # between processes, natural log
            run[str(i)] = measurement(str(i), np.exp(own + rng.normal(0, 0.01, size=16)))
    found = twice(*runs, pairs=2000, seed=0)
    assert found["covered"] == pytest.approx(0.95, abs=0.02)
    assert found["between_process_log2_sd"] == pytest.approx(0.006 / np.log(2), rel=0.15)
    assert 0.7 < found["aa_within_1pct"] < 0.9  # the difference of two has sd 0.009


def test_methods_are_compared_net_of_what_an_empty_kernel_takes():
    by_method = {"graph": {"k": flat("k", 50_000.0)}, "event": {"k": flat("k", 53_000.0)}}
    (row,) = methods(by_method, {"graph": 1_000.0, "event": 4_000.0})
    assert row["spread"] == pytest.approx(0.06)
    assert row["net_spread"] == pytest.approx(0.0)


def test_a_cold_read_is_a_share_of_the_peak():
    (row,) = cold_reads(flat("k", 10_000.0, case="1000000-fp32"), peak_bytes_per_s=8e11)
    assert row["share_of_peak"] == pytest.approx(0.5)  # 4 MB in 10 us is 4e11 B/s


def test_what_an_empty_kernel_takes_is_a_median_whatever_the_order_of_samples():
    assert first_median_ns(measurement("k", [900.0, 100.0, 5_000.0, 300.0, 200.0])) == 300.0


def test_throughput_counts_failures_and_says_where_time_goes():
    rows = [flat("a", 1.0, compile_s=2.0), Measurement("b", "rms_norm", "compile", compile_s=1.0)]
    found = throughput(rows, 4.0, {"judge_s": {"fill": 0.5}, "child_s": {}})
    assert (found["kernels_per_s"], found["ok"]) == (0.5, 1)
    assert found["mean_s_per_kernel"]["compile_s"] == 1.5
    assert found["judge_s_per_kernel"] == {"fill": 0.25}


def test_the_kernels_are_distinct_and_the_same_each_time():
    first = bench.kernels(40, "rms_norm", seed=3)
    assert len(set(first)) == 40
    assert first == bench.kernels(40, "rms_norm", seed=3)


@pytest.mark.slow
def test_a_run_that_was_cut_off_continues_from_its_log(tmp_path):
    out = tmp_path / "bench.json"
    cut = bench.measure(out, 3, ["throughput", "shared"], backend="cpu", workers=2, time_limit=0.01)
    assert not cut["complete"]
    whole = bench.measure(out, 3, ["throughput", "shared"], backend="cpu", workers=2)
    assert whole["complete"]
    assert (whole["strict-1"]["kernels"], whole["shared-1"]["kernels"]) == (3, 3)
    assert bench.measure(out, 3, ["throughput", "shared"], backend="cpu", workers=2)["strict-1"] == whole["strict-1"]


def test_what_is_no_result_of_a_bench_is_not_replaced(tmp_path):
    precious = tmp_path / "precious.json"
    for text in ("not JSON", "[1]", '{"command": "another"}'):
        precious.write_text(text)
        with pytest.raises(ValueError, match="exists and is no result of kernelcast bench measure"):
            bench.measure(precious, 3, ["repeat"], backend="cpu")
        assert precious.read_text() == text
    with pytest.raises(ValueError, match="is a folder"):
        bench.measure(tmp_path, 3, ["repeat"], backend="cpu")
    assert [path.name for path in tmp_path.iterdir()] == ["precious.json"]


def test_a_log_of_another_backend_is_not_continued(tmp_path):
    out = tmp_path / "bench.json"
    assert bench.measure(out, 1, ["throughput"], backend="cpu", workers=1, time_limit=0.001)["complete"] is False
    for count, backend in ((1, "cuda"), (2, "cpu")):
        with pytest.raises(ValueError, match=f"not of {count} kernels on backend {backend}"):
            bench.measure(out, count, ["throughput"], backend=backend)


def test_nonsense_is_refused(tmp_path):
    with pytest.raises(ValueError, match="unknown backend 'foo'"):
        bench.measure(tmp_path / "b.json", 3, ["repeat"], backend="foo")
    with pytest.raises(ValueError, match="workers is 0"):
        bench.measure(tmp_path / "b.json", 3, ["repeat"], workers=0)
    with pytest.raises(ValueError, match="no section"):
        bench.measure(tmp_path / "b.json", 3, [])
    with pytest.raises(ValueError, match="unknown section 'speed'"):
        bench.measure(tmp_path / "b.json", 3, ["speed"])
    with pytest.raises(ValueError, match="must be positive"):
        bench.measure(tmp_path / "b.json", 0)
