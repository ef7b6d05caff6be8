"""How long scoring takes at the size of a full dataset, and at ten times its rows: the CPU time of one core."""

from __future__ import annotations

import time

import numpy as np
import pytest

from benchmark.answers import Labels
from benchmark.scoring import score_labels
from tests.benchmark.synthetic import label_table, noisy_forecasts

TASKS = 31
ROWS = {"pairs": 6000, "pool": 4000, "eval": 500}


@pytest.mark.slow
@pytest.mark.parametrize(("scale", "searches"), [(1, 2), (1, 4), (10, 2), (10, 4)])
def test_one_submission_on_all_tracks_with_2000_resamples_takes_under_5_seconds(scale: int, searches: int) -> None:
    spent = 0.0
    for track, rows in ROWS.items():
        table = label_table(TASKS, searches, max(1, round(scale * rows / TASKS / searches)), spread=0.4)
        forecasts = noisy_forecasts(table, 0.5, p_fail=np.random.default_rng(0).random(table.num_rows))
        start = time.process_time()
        result = score_labels(forecasts, Labels.from_table(table), track, "test", "synthetic", 2000)
        spent += time.process_time() - start
        assert result.headline.low is not None
    assert spent < 5, f"{spent:.1f} s"
