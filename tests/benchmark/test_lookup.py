from __future__ import annotations

import time

import pytest

from benchmark.data_access import DataError, load_kernels
from benchmark.lookup import Lookup


def test_rows_are_found_by_id_at_once(synthetic_dataset: object) -> None:
    kernels = Lookup("kernels", dataset="synthetic")
    rows = {row["kernel_id"]: row for row in load_kernels(dataset="synthetic").to_pylist()}
    assert dict(kernels) == rows and len(kernels) == len(rows)
    ids = sorted(rows) * 5
    start = time.thread_time()
    for key in ids:
        assert kernels[key]["kernel_id"] == key
    assert (time.thread_time() - start) / len(ids) < 1e-3


def test_what_is_not_there_is_said(synthetic_dataset: object) -> None:
    kernels = Lookup("kernels", "test", "synthetic")
    assert "k-0" not in kernels and kernels.get("k-0") is None
    with pytest.raises(DataError, match="unknown kernel_id 'k-0' among"):
        kernels["k-0"]
    with pytest.raises(DataError, match="unknown table with one id 'measurements'"):
        Lookup("measurements", dataset="synthetic")
