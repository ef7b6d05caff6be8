from __future__ import annotations

import pytest

from harness.measure.roofline import floor_ns
from tasks.spec import Case

H200 = {
    "peak_bytes_per_s": 4.9e12, "L2_cache_size": 60 << 20, "multi_processor_count": 132, "sm_clock_hz": 1.98e9,
}  # fmt: skip


def case(nbytes: int, flops: int) -> Case:
    return Case("c", {}, nbytes, flops)


def test_the_floor_is_what_memory_must_deliver():
    # (1 GiB - 60 MiB) / 4.9e12 = 206.3 us, less a tenth
    assert floor_ns(case(1 << 30, 1), H200) == pytest.approx(187_530, rel=1e-3)


def test_what_fits_in_the_cache_has_no_floor_but_its_arithmetic():
    # 1e12 / (132 * 1.98e9 * 32768) = 116.8 us
    assert floor_ns(case(1 << 20, 10**12), H200) == pytest.approx(106_150, rel=1e-3)
    assert floor_ns(case(1 << 20, 1000), H200) < 1.0


def test_an_unknown_device_refuses_nothing():
    assert floor_ns(case(1 << 40, 10**15), {}) == 0.0
