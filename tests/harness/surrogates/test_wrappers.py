"""Surrogates around surrogates: what each wrapper does to the forecasts of its members."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from zlib import crc32

import numpy as np
import pytest

from benchmark.query import Forecast, Query
from harness.surrogates.answer_log import Told
from harness.surrogates.baselines import Oracle
from harness.surrogates.foreign import SurrogateError
from harness.surrogates.probes import Probe
from harness.surrogates.run import forecast_all
from harness.surrogates.spec import create, parse
from harness.surrogates.training import Labelled
from harness.surrogates.wrappers import Ensemble, Recalibrated, Repeated, Swapped, pooled, turned

Rows = Callable[[int, int], Labelled]
LOW, HIGH = (0.5, 0.5, 0, 0, 0, 0, 0, 0), (0, 0, 0, 0, 0, 0, 0.25, 0.75)


class Says:
    """Answers the same to every query, one of several answers for each call in turn."""

    def __init__(self, *answers: Forecast, information: str = "source") -> None:
        self.answers, self.information, self.calls = answers, information, 0

    def forecast(self, queries: Sequence[Query]) -> list[Forecast]:
        self.calls += 1
        return [self.answers[(self.calls - 1) % len(self.answers)] for _ in queries]


class LongerIsFaster:
    """Puts all on bin 7 if the candidate is longer than its anchor, else on bin 2."""

    def forecast(self, queries: Sequence[Query]) -> list[Forecast]:
        longer = [len(q.candidate_code) > len(q.anchor_code) for q in queries]
        return [Forecast(tuple(np.eye(8)[6 if up else 1]), log2_speedup=1.5 if up else -1.5) for up in longer]


QUERY = Query("p-1", "pairs", "t", "", "parent", "short", "much longer", 10.0, "H200", {"compiled": {
    "candidate": {"registers": 1}, "anchor": {"registers": 2}}})  # fmt: skip


def test_a_swapped_question_and_its_mirrored_answer_agree_with_a_consistent_surrogate() -> None:
    (once,) = LongerIsFaster().forecast([QUERY])
    (both,) = Swapped([LongerIsFaster()]).forecast([QUERY])
    assert both.probabilities == once.probabilities and both.log2_speedup == once.log2_speedup


def test_swapping_cancels_what_does_not_depend_on_the_order() -> None:
    # Whoever says "faster" both ways round says nothing: the mean of HIGH and its mirror image.
    answer = Forecast(HIGH, log2_speedup=2.0, rank_score=1.0, p_fail=0.5)
    (both,) = Swapped([Says(answer)]).forecast([QUERY])
    assert both.probabilities == pytest.approx((0.375, 0.125, 0, 0, 0, 0, 0.125, 0.375))
    assert (both.log2_speedup, both.p_fail, both.rank_score) == (0.0, 0.5, -1.0)
    (forward,) = Swapped([Says(answer)], weight=1.0).forecast([QUERY])
    assert forward.probabilities == pytest.approx(HIGH)


def test_the_other_way_round_nothing_is_told_of_the_other_kernel() -> None:
    back = turned(QUERY)
    assert (back.anchor_code, back.candidate_code, back.anchor_time_us) == ("much longer", "short", None)
    assert back.facts["compiled"] == {"candidate": {"registers": 2}, "anchor": {"registers": 1}}
    assert back.query_id != QUERY.query_id


def test_an_ensemble_is_the_mean_and_leaves_out_who_did_not_answer() -> None:
    members = [Says(Forecast(LOW, 0.0, p_fail=0.0)), Says(Forecast(HIGH, 1.0, p_fail=0.5))]
    (answer,) = Ensemble(members).forecast([QUERY])
    assert answer.probabilities == pytest.approx((0.25, 0.25, 0, 0, 0, 0, 0.125, 0.375))
    assert (answer.log2_speedup, answer.p_fail, answer.rank_score) == (0.5, 0.25, None)
    (alone,) = Ensemble([Says(Forecast(None, status="unparsed")), members[0]]).forecast([QUERY])
    assert alone.probabilities == pytest.approx(LOW)
    (none,) = Ensemble([Says(Forecast(None, status="refused"))]).forecast([QUERY])
    assert (none.status, none.probabilities) == ("refused", None)


def test_fitted_weights_prefer_who_knows(rows: Rows) -> None:
    train, validation = rows(200, 1), rows(120, 2)
    ensemble = create(parse("ensemble(uniform,gbdt?iterations=20)?weights=fitted"))
    ensemble.fit(train, validation)  # type: ignore[attr-defined]
    assert ensemble._shares[1] > 0.9  # type: ignore[attr-defined]


def test_costs_add_up_and_raw_answers_stay_with_who_gave_them() -> None:
    answers = [Told(LOW, input_tokens=10, output_tokens=1, seconds=2.0, raw="a"), Told(HIGH, input_tokens=20, raw="b")]
    answer = pooled(answers, np.array([0.5, 0.5]))
    assert (answer.input_tokens, answer.output_tokens, answer.seconds) == (30, 1, 2.0)
    assert isinstance(answer, Told) and answer.raw == ["a", "b"]


def test_repeats_are_averaged() -> None:
    member = Says(Forecast(LOW), Forecast(HIGH))
    (answer,) = Repeated([member], n=4).forecast([QUERY])
    assert member.calls == 4
    assert answer.probabilities == pytest.approx((0.25, 0.25, 0, 0, 0, 0, 0.125, 0.375))


@pytest.mark.parametrize("method", ["temperature", "isotonic"])
def test_recalibration_helps_who_is_too_sure(rows: Rows, method: str) -> None:
    class TooSure:
        """Guesses, and says it without a doubt."""

        def forecast(self, queries: Sequence[Query]) -> list[Forecast]:
            return [Forecast(tuple(0.93 * np.eye(8)[crc32(q.query_id.encode()) % 8] + 0.07 / 8)) for q in queries]

    validation, unseen = rows(200, 2), rows(200, 3)
    wrapper = Recalibrated([TooSure()], method=method)
    wrapper.fit(rows(50, 1), validation)

    def loss(forecasts: Sequence[Forecast]) -> float:
        bins = np.searchsorted([-2, -1, -0.5, 0, 0.5, 1, 2], unseen.log2_speedup[unseen.ok])
        p = np.array([f.probabilities for f in forecasts])[unseen.ok]
        return float(-np.log(p[np.arange(len(bins)), bins]).mean())

    assert loss(wrapper.forecast(unseen.queries)) < loss(TooSure().forecast(unseen.queries)) - 0.5


def test_a_wrapper_sees_what_its_members_see_and_asks_as_they_are_asked() -> None:
    first, second = Says(Forecast(LOW)), Says(Forecast(LOW), information="compiled")
    first.batch, first.concurrency, second.concurrency = 5, 4, 2  # type: ignore[attr-defined]
    ensemble = Ensemble([first, second])
    assert (ensemble.information, ensemble.batch, ensemble.concurrency) == ("compiled", 5, 2)


def test_a_member_that_raises_costs_its_query_alone() -> None:
    class Raises(LongerIsFaster):
        def forecast(self, queries: Sequence[Query]) -> list[Forecast]:
            if any(q.query_id == "p-2" for q in queries):
                raise RuntimeError("no idea")
            return super().forecast(queries)

    told: dict[str, str] = {}
    queries = [replace(QUERY, query_id=f"p-{n}") for n in range(5)]
    answers = forecast_all(Ensemble([Raises(), LongerIsFaster()]), queries, report=told.__setitem__)
    assert [a.status for a in answers] == ["ok", "ok", "error", "ok", "ok"]
    assert told == {"p-2": "RuntimeError: no idea"}


@pytest.mark.parametrize(
    ("make", "words"),
    [
        (lambda: Ensemble([Oracle()]), "sees 'oracle' stands alone"),
        (lambda: Swapped([Probe()]), "sees 'probe' stands alone"),
        (lambda: Swapped([LongerIsFaster()] * 2), "takes one surrogate, 2 are given"),
        (lambda: Repeated([LongerIsFaster()], n=0), "n of at least 1; found 0"),
        (lambda: Swapped([LongerIsFaster()], weight=1.5), "from 0 to 1; found 1.5"),
        (lambda: Ensemble([LongerIsFaster()], weights="best"), "expected equal or fitted"),
        (lambda: Recalibrated([LongerIsFaster()], method="platt"), "unknown calibration 'platt'"),
    ],
)
def test_what_cannot_be_wrapped(make: Callable[[], object], words: str) -> None:
    with pytest.raises(SurrogateError, match=words):
        make()
