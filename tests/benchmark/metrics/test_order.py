"""The order key and the probability of exceeding a threshold."""

from __future__ import annotations

import numpy as np
import pytest

from benchmark.metrics.order import expected_log2, order_key, probability_above

SURE_OF_6 = np.eye(8)[5]
MIXED = np.array([0.0, 0.0, 0.1, 0.2, 0.3, 0.2, 0.1, 0.1])


def test_expected_log2_is_the_mean_of_the_representative_values() -> None:
    assert expected_log2([SURE_OF_6, MIXED]) == pytest.approx(
        [0.75, -0.75 * 0.1 - 0.25 * 0.2 + 0.25 * 0.3 + 0.75 * 0.2 + 1.5 * 0.1 + 2.5 * 0.1]
    )


def test_the_key_prefers_the_rank_score_then_the_point_estimate_by_row() -> None:
    p = [SURE_OF_6, MIXED]
    assert order_key(p, [0.1, np.nan], [7.0, -3.0]).tolist() == [7.0, -3.0]
    assert order_key(p, [0.1, np.nan]).tolist() == [0.1, expected_log2([MIXED])[0]]
    assert order_key(p).tolist() == expected_log2(p).tolist()


def test_a_rank_score_for_some_rows_only_is_refused() -> None:
    with pytest.raises(ValueError, match="rank_score must be finite in every row"):
        order_key([SURE_OF_6, MIXED], None, [1.0, np.nan])


def test_renormalised_copies_of_a_forecast_tie() -> None:
    thrice = MIXED * 3
    assert len(set(order_key([MIXED, thrice / thrice.sum(), (MIXED * 1.00003) / (MIXED * 1.00003).sum()]))) == 1


def test_at_an_edge_the_probability_is_the_sum_of_the_bins_above() -> None:
    assert probability_above([MIXED], 2**0.5)[0] == pytest.approx(0.4, abs=1e-15)
    assert probability_above([MIXED], 1.0)[0] == pytest.approx(0.7, abs=1e-15)
    assert probability_above([np.eye(8)[4]], 2**0.5)[0] == 0.0
    assert probability_above([SURE_OF_6], 2**0.5)[0] == 1.0


def test_inside_a_bin_the_share_is_linear_in_log2() -> None:
    assert probability_above([SURE_OF_6], 2**0.6)[0] == pytest.approx(0.8)
    assert probability_above([np.eye(8)[4]], 2**0.125)[0] == pytest.approx(0.75)
    assert probability_above([np.eye(8)[7]], 2**2.5)[0] == pytest.approx(0.5)
    assert probability_above([np.eye(8)[7]], 2**9)[0] == 0.0


@pytest.mark.parametrize("tau", [0.0, -1.0, np.nan, np.inf])
def test_a_threshold_has_to_be_a_speedup(tau: float) -> None:
    with pytest.raises(ValueError, match="tau"):
        probability_above([MIXED], tau)


def test_a_forecast_has_eight_bins() -> None:
    with pytest.raises(ValueError, match=r"expected \(n, 8\)"):
        expected_log2([[0.5, 0.5]])
