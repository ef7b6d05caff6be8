"""Scores of whole submissions: invariances, the rule for missing forecasts, intervals, and comparisons."""

from __future__ import annotations

import dataclasses
import json
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

from benchmark.answers import Labels, align
from benchmark.bins import bin_mass
from benchmark.comparison import compare, ranks
from benchmark.forecasts import ForecastError, Forecasts, write_forecasts
from benchmark.metrics import calibration, discovery, ranking
from benchmark.metrics.catalogue import METRICS
from benchmark.query import Forecast
from benchmark.scoring import ScoreResult, score, score_by_class, score_labels
from tests.benchmark.synthetic import forecasts_of, label_table, noisy_forecasts, uniform_forecasts

TABLE = label_table()
LABELS = Labels.from_table(TABLE)


def _score(forecasts: Forecasts, track: str = "pairs", labels: Labels = LABELS, **options: Any) -> ScoreResult:
    return score_labels(forecasts, labels, track, "test", "synthetic", **{"resamples": 200, **options})


def _rows(forecasts: Forecasts, rows: np.ndarray) -> Forecasts:
    changed = {
        f.name: getattr(forecasts, f.name)[rows]
        for f in dataclasses.fields(Forecasts)
        if isinstance(getattr(forecasts, f.name), np.ndarray)
    }
    return dataclasses.replace(forecasts, **changed)


def _value(result: ScoreResult, metric: str) -> float:
    value = result.metrics[metric].value
    assert value is not None
    return value


@pytest.mark.parametrize("track", ["pairs", "pool"])
def test_each_figure_is_the_macro_mean_of_the_pure_metric(track: str) -> None:
    forecasts = noisy_forecasts(TABLE, 0.5)
    result = _score(forecasts, track)
    answers = align(forecasts, 0, LABELS)
    expected: dict[str, list[float | None]] = {}
    for t in range(len(LABELS.tasks)):
        all_rows = np.flatnonzero(LABELS.task == t)
        rows = all_rows[LABELS.measured[all_rows]]
        key, speedup, mass = answers.key[rows], LABELS.speedup[rows], LABELS.mass[rows]
        at = [forecasts.query_id.tolist().index(i) for i in LABELS.query_id[rows]]
        p = forecasts.probabilities[at]
        figures = {
            "spearman": ranking.spearman(key, speedup).value,
            "rps": float(calibration.ranked_probability_score(p, mass).mean()),
            "rps_excess": float(((np.cumsum(p, 1) - np.cumsum(mass, 1)) ** 2).sum(axis=1).mean() / 7),
            "half_brier": float(calibration.half_brier(p, mass).mean()),
            "log_loss": float(calibration.log_loss(p, mass).mean()),
            "entropy": float(calibration.entropy(p).mean()),
        }
        if track == "pairs":
            above, y = p[:, 5:].sum(axis=1), speedup > 2**0.5
            figures["ap_141"] = discovery.average_precision(above, y).value
            figures["auroc_141"] = discovery.auroc(above, y).value
            figures["base_rate_141"] = float(y.mean())
        else:
            pool_key, pool_speedup = answers.key[all_rows], LABELS.speedup[all_rows]
            figures["auc_best"] = ranking.recovered_area(pool_key, pool_speedup).value
            figures["best@10"] = ranking.recovered_fraction(pool_key, pool_speedup, 0.1).value
            figures["pairwise"] = ranking.pairwise_accuracy(key, LABELS.low[rows], LABELS.high[rows]).value
        for name, figure in figures.items():
            expected.setdefault(name, []).append(figure)
    for name, figures_of_tasks in expected.items():
        assert _value(result, name) == pytest.approx(np.mean(np.array(figures_of_tasks, dtype=float))), name
    assert set(result.metrics) == set(METRICS[track])


def test_an_oracle_is_perfect_and_uniform_is_at_chance() -> None:
    truth = np.array([0.0 if s is None else np.log2(s) for s in TABLE.column("speedup").to_pylist()])
    failed = np.array([s is None for s in TABLE.column("speedup").to_pylist()])
    ids = TABLE.column("query_id").to_pylist()
    sd = np.array([0.0 if s is None else s for s in TABLE.column("log2_sd").to_pylist()])
    score_of = np.where(failed, -99.0, truth)
    oracle = forecasts_of(ids, bin_mass(truth, sd), rank_score=score_of, p_fail=failed.astype(float))
    pairs, pool = _score(oracle), _score(oracle, "pool")
    for metric in ("ap_141", "auroc_200", "spearman", "fail_auroc"):
        assert _value(pairs, metric) == pytest.approx(1.0)
    for metric in ("rps_excess", "half_brier_excess", "log_loss_excess", "fail_half_brier"):
        assert _value(pairs, metric) == pytest.approx(0.0, abs=2e-3)
    for metric in ("auc_best", "best@1", "pairwise", "kendall", "spearman_within_seed", "recall@10"):
        assert _value(pool, metric) == pytest.approx(1.0)
    chance = _score(uniform_forecasts(TABLE), "pool")
    assert _value(chance, "auc_best") == pytest.approx(0.0, abs=1e-9)
    assert _value(chance, "pairwise") == 0.5
    assert _value(_score(uniform_forecasts(TABLE)), "auroc_141") == 0.5


def test_a_constant_forecast_has_no_correlation_and_says_so() -> None:
    value = _score(uniform_forecasts(TABLE)).metrics["spearman"]
    assert value.value is None
    assert value.reason == ranking.CONSTANT
    value = _score(uniform_forecasts(TABLE)).metrics["fail_auroc"]
    assert value.value is None
    assert "p_fail" in str(value.reason)


def test_a_mean_says_how_many_tasks_it_leaves_out() -> None:
    forecasts = noisy_forecasts(TABLE, 0.5)
    flat = np.array([t == "task-0" for t in TABLE.column("task").to_pylist()])
    p = np.where(flat[:, None], 1 / 8, forecasts.probabilities)
    result = _score(dataclasses.replace(forecasts, probabilities=p))
    assert str(result.metrics["spearman"].reason).startswith("mean of 3 of 4 tasks")
    assert result.per_task["task-0"]["spearman"].value is None
    others = [result.per_task[f"task-{t}"]["spearman"].value for t in (1, 2, 3)]
    assert _value(result, "spearman") == pytest.approx(np.mean(np.array(others, dtype=float)))


@pytest.mark.parametrize("track", ["pairs", "pool"])
def test_shuffling_rows_changes_no_number(track: str) -> None:
    forecasts, rng = noisy_forecasts(TABLE, 0.5, p_fail=np.linspace(0, 1, TABLE.num_rows)), np.random.default_rng(0)
    forecasts = dataclasses.replace(forecasts, probabilities=np.round(forecasts.probabilities, 1))
    forecasts = dataclasses.replace(
        forecasts, probabilities=forecasts.probabilities / forecasts.probabilities.sum(axis=1, keepdims=True)
    )
    shuffled = _rows(forecasts, rng.permutation(len(forecasts)))
    labels = Labels.from_table(TABLE.take(pa.array(rng.permutation(TABLE.num_rows))))
    first, second = _score(forecasts, track), _score(shuffled, track, labels)
    assert json.dumps(first.to_dict()) == json.dumps(second.to_dict())
    assert first.per_task == second.per_task


def _without_answer(forecasts: Forecasts, rows: np.ndarray) -> Forecasts:
    status, p = forecasts.status.copy(), forecasts.probabilities.copy()
    status[rows], p[rows] = "unparsed", np.nan
    return dataclasses.replace(forecasts, status=status, probabilities=p)


def test_a_row_left_out_and_an_unparsed_row_cost_the_same() -> None:
    forecasts = noisy_forecasts(TABLE, 0.5)
    gone = np.arange(len(forecasts)) % 9 == 0
    for track in ("pairs", "pool"):
        absent = _score(_rows(forecasts, np.flatnonzero(~gone)), track)
        unparsed = _score(_without_answer(forecasts, gone), track)
        assert absent.metrics == unparsed.metrics
        assert absent.coverage == unparsed.coverage == pytest.approx(1 - gone.mean())


def test_a_missing_forecast_gets_the_worse_of_uniform_and_the_own_mean() -> None:
    forecasts = noisy_forecasts(TABLE, 0.5)
    gone = np.arange(len(forecasts)) % 9 == 0
    full, part = align(forecasts, 0, LABELS), align(_without_answer(forecasts, gone), 0, LABELS)
    chance = align(uniform_forecasts(TABLE), 0, LABELS)
    missing = ~part.answered
    for name in ("rps", "half_brier", "log_loss"):
        for t in range(len(LABELS.tasks)):
            here = (LABELS.task == t) & LABELS.measured
            own = full.losses[name][here & ~missing].mean()
            expected = np.maximum(chance.losses[name][here & missing], own)
            assert part.losses[name][here & missing] == pytest.approx(expected)
    assert (part.key[missing] == -1).all()
    assert (part.key[~missing] >= 0).all()


@pytest.mark.parametrize("metric", ["rps", "half_brier", "log_loss"])
def test_answering_only_an_easy_tenth_never_pays(metric: str) -> None:
    forecasts = noisy_forecasts(TABLE, 0.5)
    loss = align(forecasts, 0, LABELS).losses["rps"]
    easy = set(LABELS.query_id[np.argsort(np.nan_to_num(loss, nan=9.0))[: len(LABELS) // 10]].tolist())
    part = _rows(forecasts, np.flatnonzero([i in easy for i in forecasts.query_id]))
    assert _value(_score(part), metric) > _value(_score(forecasts), metric)
    assert _score(part).coverage == pytest.approx(0.1, abs=0.01)


def test_no_answer_at_all_is_the_uniform_forecast_for_proper_scores() -> None:
    nothing = _without_answer(uniform_forecasts(TABLE), np.ones(TABLE.num_rows, dtype=bool))
    result, chance = _score(nothing), _score(uniform_forecasts(TABLE))
    assert result.coverage == 0.0
    assert _value(result, "rps") == _value(chance, "rps")
    assert result.metrics["ece"].value is None


def test_repeats_are_scored_one_by_one_and_averaged() -> None:
    first, second = noisy_forecasts(TABLE, 0.3, seed=1), noisy_forecasts(TABLE, 0.9, seed=2)
    both = {
        f.name: np.concatenate([getattr(first, f.name), getattr(second, f.name)])
        for f in dataclasses.fields(Forecasts)
        if isinstance(getattr(first, f.name), np.ndarray)
    }
    both["repeat"] = np.repeat([0, 1], TABLE.num_rows)
    result = _score(dataclasses.replace(first, **both))
    assert result.repeats == 2
    for metric in ("ap_141", "spearman", "rps", "ece"):
        parts = _value(_score(first), metric), _value(_score(second), metric)
        assert _value(result, metric) == pytest.approx(np.mean(parts))
    half = dataclasses.replace(first, **{k: v[: TABLE.num_rows * 3 // 2] for k, v in both.items()})
    assert _score(half).coverage == pytest.approx(0.75)


def test_failed_rows_count_for_coverage_and_p_fail_only() -> None:
    forecasts = noisy_forecasts(TABLE, 0.5)
    failed = np.array([s != "ok" for s in TABLE.column("status").to_pylist()])
    changed = np.where(failed[:, None], np.eye(8)[7], forecasts.probabilities)
    a, b = _score(forecasts), _score(dataclasses.replace(forecasts, probabilities=changed))
    assert a.metrics == b.metrics
    pool = _score(dataclasses.replace(forecasts, probabilities=changed), "pool")
    assert _value(pool, "auc_best") < _value(_score(forecasts, "pool"), "auc_best")
    assert _value(pool, "spearman") == _value(_score(forecasts, "pool"), "spearman")


def test_scores_by_class_are_scores_of_the_rows_of_that_class() -> None:
    forecasts = noisy_forecasts(TABLE, 0.5)
    by_class = score_by_class(forecasts, LABELS, "pairs", "test", "synthetic")
    classes = np.array(TABLE.column("operator_class").to_pylist())
    assert sorted(by_class) == sorted(set(classes.tolist()))
    assert sum(result.queries for result in by_class.values()) == TABLE.num_rows
    alone = TABLE.filter(pa.array(classes == "loop"))
    expected = _score(forecasts, labels=Labels.from_table(alone), resamples=0, name="loop")
    assert by_class["loop"] == expected


def test_intervals_hold_the_value_and_narrow_with_more_tasks() -> None:
    def width(tasks: int) -> float:
        table = label_table(tasks=tasks)
        value = _score(noisy_forecasts(table, 0.7), labels=Labels.from_table(table)).metrics["rps"]
        assert value.value is not None and value.low is not None and value.high is not None
        assert value.low < value.value < value.high
        return value.high - value.low

    assert width(16) < width(4)


def test_where_there_is_no_interval_the_reason_says_why() -> None:
    forecasts = noisy_forecasts(TABLE, 0.5)
    assert "no resamples" in str(_score(forecasts, resamples=0).metrics["rps"].reason)
    assert "one pool has no interval" in str(_score(forecasts, "pool").per_task["task-0"]["rps"].reason)
    assert _score(forecasts).per_task["task-0"]["rps"].low is not None
    two = label_table(searches=2)
    result = _score(noisy_forecasts(two, 0.5), labels=Labels.from_table(two))
    assert "fewer than 3 searches" in str(result.per_task["task-0"]["rps"].reason)
    assert result.metrics["rps"].low is not None
    one = label_table(tasks=1, searches=2)
    result = _score(noisy_forecasts(one, 0.5), labels=Labels.from_table(one))
    assert result.metrics["rps"].low is None
    assert "clusters" in str(result.metrics["rps"].reason)


def test_scores_are_strict_json_and_reproducible() -> None:
    forecasts = noisy_forecasts(TABLE, 0.5)
    text = json.dumps(_score(forecasts).to_dict(), allow_nan=False)
    assert text == json.dumps(_score(forecasts).to_dict(), allow_nan=False)
    row = json.loads(text)
    assert set(row) == {"name", "dataset", "track", "split", "rank", "coverage", "metrics"}
    assert all(set(v) == {"value", "low", "high", "reason"} for v in row["metrics"].values())
    assert all(v["value"] is not None or v["reason"] for v in row["metrics"].values())
    assert _score(forecasts, seed=1).metrics["rps"] != _score(forecasts).metrics["rps"]


def test_a_file_made_for_another_dataset_or_track_is_refused() -> None:
    forecasts = noisy_forecasts(TABLE, 0.5, metadata={"dataset": "synthetic", "track": "pairs"})
    assert _score(forecasts).coverage == 1.0
    with pytest.raises(ForecastError, match="made for track 'pairs', and is scored on track 'pool'"):
        _score(forecasts, "pool")
    with pytest.raises(ForecastError, match="made for dataset 'other'"):
        _score(dataclasses.replace(forecasts, metadata={"dataset": "other"}))


def test_a_track_without_forecasts_is_refused() -> None:
    with pytest.raises(ValueError, match="'replay' is not scored from forecasts; expected one of pairs, eval, pool"):
        score("absent.parquet", "replay")


def test_identical_submissions_share_every_figure_and_rank() -> None:
    best, twin, worse = noisy_forecasts(TABLE, 0.2), noisy_forecasts(TABLE, 0.2), noisy_forecasts(TABLE, 1.5, seed=3)
    results = [_score(f, resamples=1000, name=n) for f, n in ((worse, "w"), (best, "a"), (twin, "b"))]
    assert results[1].metrics == results[2].metrics
    assert ranks(results) == [3, 1, 1]
    difference = compare(results[1], results[2])
    assert (difference.value, difference.low, difference.high, difference.p_value) == (0.0, 0.0, 0.0, 1.0)
    assert ranks(results, "rps") == [3, 1, 1]


def test_a_comparison_is_antisymmetric_and_knows_the_better_direction() -> None:
    good, bad = _score(noisy_forecasts(TABLE, 0.3)), _score(noisy_forecasts(TABLE, 1.5))
    for metric in ("ap_141", "rps"):
        there, back = compare(good, bad, metric), compare(bad, good, metric)
        assert there.first_is_better and not back.first_is_better
        assert there.value == pytest.approx(-float(back.value or 0))
        assert there.p_value == back.p_value == pytest.approx(2 / 201)
        assert there.low is not None and there.high is not None and there.low * there.high > 0
    assert float(compare(good, bad, "rps").value or 0) < 0 < float(compare(good, bad, "ap_141").value or 0)


def test_only_like_is_compared_with_like() -> None:
    a, other_seed = _score(noisy_forecasts(TABLE, 0.5)), _score(noisy_forecasts(TABLE, 0.5), seed=5)
    with pytest.raises(ValueError, match="differ in seed"):
        compare(a, other_seed)
    with pytest.raises(ValueError, match="'ece' does not judge"):
        compare(a, a, "ece")
    undefined = compare(a, _score(uniform_forecasts(TABLE)), "spearman")
    assert undefined.value is None and undefined.reason == ranking.CONSTANT
    no_interval = _score(noisy_forecasts(TABLE, 0.5), resamples=0)
    assert compare(no_interval, no_interval).p_value is None
    assert ranks([no_interval, no_interval]) == [1, 1]


@pytest.mark.parametrize("track", ["pairs", "pool"])
def test_one_file_is_scored_on_both_test_splits(synthetic_dataset: Path, track: str, tmp_path: Path) -> None:
    from benchmark.data_access import load_queries

    dataset = synthetic_dataset
    queries = [q for s in ("test", "test_unseen_task") for q in load_queries(track, s, dataset=dataset.name)]
    path = tmp_path / "f.parquet"
    metadata = {"dataset": dataset.name, "track": track, "surrogate": "uniform", "configuration": {}}
    write_forecasts(path, queries, [Forecast((0.125,) * 8)] * len(queries), metadata)
    for split in ("test", "test_unseen_task"):
        result = score(path, track, split, dataset.name, resamples=50)
        assert (result.name, result.coverage, result.split) == ("uniform", 1.0, split)
        assert _value(result, "rps") > 0
    stranger = dataclasses.replace(queries[0], query_id="p-of-nobody")
    write_forecasts(path, [stranger], [Forecast((0.125,) * 8)], metadata, overwrite=True)
    with pytest.raises(ForecastError, match="row 0, field 'query_id': found 'p-of-nobody'"):
        score(path, track, "test", dataset.name)


def _with_column(name: str, values: np.ndarray) -> Labels:
    return Labels.from_table(TABLE.append_column(name, pa.array(values)))


@pytest.mark.parametrize("track", ["pairs", "pool"])
def test_the_corp_parts_add_up_to_the_score_when_all_rows_are_answered(track: str) -> None:
    result = _score(noisy_forecasts(TABLE, 0.5), track)
    parts = [_value(result, f"rps_{p}") for p in ("miscalibration", "discrimination", "uncertainty")]
    assert parts[0] - parts[1] + parts[2] == pytest.approx(_value(result, "rps"))
    for values in result.per_task.values():
        own = [values[f"rps_{p}"].value or 0.0 for p in ("miscalibration", "discrimination", "uncertainty")]
        assert own[0] - own[1] + own[2] == pytest.approx(values["rps"].value)
    assert "no interval" in str(result.metrics["rps_miscalibration"].reason)
    flat = _score(uniform_forecasts(TABLE), track)
    assert _value(flat, "rps_discrimination") == pytest.approx(0, abs=1e-12)
    assert _value(flat, "rps_uncertainty") == pytest.approx(parts[2])


def test_eval_weights_give_the_reading_at_the_natural_rate() -> None:
    forecasts = noisy_forecasts(TABLE, 0.5)
    assert {m for m in METRICS["eval"] if m.endswith("_weighted")} == {
        "rps_weighted", "half_brier_weighted", "log_loss_weighted", "ece_weighted",
    }  # fmt: skip
    plain = _score(forecasts, "eval")
    for name in ("rps", "half_brier", "log_loss", "ece"):
        assert _value(plain, f"{name}_weighted") == pytest.approx(_value(plain, name))
    weight = np.random.default_rng(0).integers(1, 5, TABLE.num_rows).astype(float)
    labels = _with_column("weight", weight)
    result = _score(forecasts, "eval", labels)
    assert result.metrics["rps"] == plain.metrics["rps"]
    loss = align(forecasts, 0, labels).losses["rps"]
    kept = [(labels.task == t) & labels.measured for t in range(4)]
    expected = np.mean([np.average(loss[k], weights=labels.weight[k]) for k in kept])
    assert _value(result, "rps_weighted") == pytest.approx(expected)
    with pytest.raises(ValueError, match=r"the weight of query 'q-\d+' is 0\.0, expected a positive number"):
        _with_column("weight", weight * (np.arange(TABLE.num_rows) != 3))


def test_the_pools_best_is_worth_its_second_measurement() -> None:
    forecasts = noisy_forecasts(TABLE, 0.5)
    first = np.array([np.nan if s is None else s for s in TABLE.column("speedup").to_pylist()])
    second = first * 2 ** np.random.default_rng(0).normal(0, 0.3, len(first))
    labels = _with_column("second_speedup", second)
    result, plain = _score(forecasts, "pool", labels), _score(forecasts, "pool")
    assert result.metrics["best@10"] != plain.metrics["best@10"]
    assert result.metrics["spearman"] == plain.metrics["spearman"]
    answers = align(forecasts, 0, labels)
    found = [
        ranking.recovered_fraction(answers.key[r], labels.speedup[r], 0.1, labels.second[r]).value
        for r in (np.flatnonzero(labels.task == t) for t in range(4))
    ]
    assert _value(result, "best@10") == pytest.approx(np.mean(np.array(found, dtype=float)))
    # A second measurement of only a part of a pool is not mixed with the first ones of the others.
    partial = _with_column("second_speedup", np.where(np.arange(len(second)) % 2, second, np.nan))
    assert _score(forecasts, "pool", partial).metrics == plain.metrics


def test_ranking_is_repeated_within_each_seeds_descendants() -> None:
    forecasts = noisy_forecasts(TABLE, 0.5)
    result, answers = _score(forecasts, "pool"), align(forecasts, 0, LABELS)
    for name, function in (("kendall", ranking.kendall), ("spearman", ranking.spearman)):
        per_task = []
        for t in range(4):
            rows = np.flatnonzero((LABELS.task == t) & LABELS.measured)
            groups = [rows[LABELS.seed[rows] == seed] for seed in np.unique(LABELS.seed[rows])]
            per_task.append(np.mean([function(answers.key[g], LABELS.speedup[g]).value for g in groups]))
        assert _value(result, f"{name}_within_seed") == pytest.approx(np.mean(per_task))
    names = {m.removesuffix("_within_seed") for m in METRICS["pool"] if m.endswith("_within_seed")}
    assert {"auc_best", "best@1", "best@50_norm", "recall@10", "pairwise", "kendall", "spearman"} <= names


def test_the_permutation_p_value_tells_skill_from_luck() -> None:
    good, lucky = _score(noisy_forecasts(TABLE, 0.3)), _score(noisy_forecasts(TABLE, 50.0))
    assert _value(good, "ap_141_p") == pytest.approx(1 / 201)
    assert _value(lucky, "ap_141_p") > 0.02
    assert _value(_score(uniform_forecasts(TABLE)), "ap_141_p") == 1.0
    assert good.per_task["task-0"]["ap_141_p"].value is not None


def test_a_missing_forecast_is_the_least_sure_and_has_the_risk_of_the_rule() -> None:
    forecasts = noisy_forecasts(TABLE, 0.2)
    gone = np.arange(len(forecasts)) % 9 == 0
    part, full = _score(_without_answer(forecasts, gone)), _score(forecasts)
    answers = align(_without_answer(forecasts, gone), 0, LABELS)
    missing = LABELS.measured & ~answers.answered
    assert (answers.surety[missing] == -1).all() and (answers.risk[missing] >= 7 / 8).all()
    assert _value(part, "aurc") > _value(full, "aurc")
    assert _value(part, "accuracy") < _value(full, "accuracy")
    assert _value(part, "accuracy@50") >= _value(part, "accuracy")


def test_task_draws_are_kept_on_request_and_give_the_intervals() -> None:
    forecasts = noisy_forecasts(TABLE, 0.5)
    assert _score(forecasts).task_draws is None
    result = _score(forecasts, keep_draws=True)
    draws = result.task_draws
    assert draws is not None
    for metric in ("ap_141", "rps", "ece"):
        value = result.per_task["task-1"][metric]
        low, high = np.quantile(draws.replicates(metric, "task-1"), [0.025, 0.975])
        assert (value.low, value.high) == pytest.approx((low, high))


def test_a_task_without_a_success_is_left_out_and_a_split_without_one_is_undefined() -> None:
    none = label_table(fail=1.0)
    for track in ("pairs", "eval", "pool"):
        result = _score(noisy_forecasts(none, 0.5, p_fail=np.full(none.num_rows, 0.5)), track, Labels.from_table(none))
        assert result.metrics["fail_half_brier"].value == 0.25
        undefined = {name for name, value in result.metrics.items() if value.value is None}
        assert undefined == set(METRICS[track]) - {"fail_half_brier"}
        assert all(result.metrics[name].reason for name in undefined)


def test_a_missing_p_fail_gets_the_worse_of_even_odds_and_the_own_mean() -> None:
    failed = np.array([s != "ok" for s in TABLE.column("status").to_pylist()])
    gone = np.arange(len(failed)) % 9 == 0
    sure = noisy_forecasts(TABLE, 0.5, p_fail=failed.astype(float))
    result = _score(_without_answer(sure, gone))
    tasks = np.array(TABLE.column("task").to_pylist())
    expected = np.mean([0.25 * gone[tasks == t].mean() for t in np.unique(tasks)])
    assert _value(result, "fail_half_brier") == pytest.approx(expected)
    assert _value(result, "fail_auroc") == 1.0
    wrong = noisy_forecasts(TABLE, 0.5, p_fail=1 - failed.astype(float))
    assert _value(_score(_without_answer(wrong, gone)), "fail_half_brier") == 1.0
