from __future__ import annotations

import pytest

from harness.measure.cupti import MARK, IncompleteTrace, call_times

# (name, on the device, correlation id, start ns, duration ns); the device's clock is 9 us ahead of the host's.
TRACE = [
    (f"{MARK}0", False, 0, 1_000, 5_000),
    ("cudaLaunchKernel", False, 7, 2_000, 100),
    ("cuLaunchKernelEx", False, 8, 3_000, 100),
    ("first", True, 7, 12_000, 4_000),
    ("second", True, 8, 17_000, 2_000),
    ("cudaLaunchKernel", False, 9, 8_000, 100),
    ("flush", True, 9, 19_500, 9_000),
    (f"{MARK}1", False, 0, 9_000, 3_000),
    ("cudaMemcpyAsync", False, 10, 9_500, 100),
    ("copy", True, 10, 30_000, 1_500),
]


def test_a_call_spans_its_activities_by_correlation_whatever_the_clocks_say():
    assert call_times(TRACE, 2) == [7_000.0, 1_500.0]


def test_a_launch_without_its_record_is_an_error_not_a_shorter_time():
    with pytest.raises(IncompleteTrace, match="call 0: no record of cuLaunchKernelEx"):
        call_times([row for row in TRACE if row[0] != "second"], 2)
    with pytest.raises(IncompleteTrace, match="call 1: no launch"):
        call_times([row for row in TRACE if row[0] != "cudaMemcpyAsync"], 2)
