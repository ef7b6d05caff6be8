"""Surrogates around other surrogates: recalibrated, pooled, averaged over repeats, or asked both ways round.

Each takes its members as a sequence, so that `harness.surrogates.spec` can write any of them around any other. A member
that raises costs the wrapper the query, as it would by itself; a status such as `unparsed` costs an ensemble only that
member's vote.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from benchmark.bins import Floats, bin_mass
from benchmark.query import Forecast, Query, Surrogate
from harness.surrogates.answer_log import Told
from harness.surrogates.calibration import Calibration, apply_by_kind, check_method, fit_by_kind
from harness.surrogates.foreign import SurrogateError
from harness.surrogates.learned import LEAST_SURVIVAL
from harness.surrogates.mixture import mix, mixture_weights
from harness.surrogates.run import ERROR, forecast_all
from harness.surrogates.training import Labelled

WRAPPABLE = ("source", "compiled")


class Wrapper:
    """What wrappers share: they see what their members see, fit those that learn, and are asked as they are."""

    def __init__(self, members: Sequence[Surrogate]) -> None:
        self.members = tuple(members)
        self.fitted = False
        for member in self.members:
            information = getattr(member, "information", "source")
            if information not in WRAPPABLE:
                raise SurrogateError(f"a surrogate that sees '{information}' stands alone and cannot be wrapped")
        seen = {getattr(member, "information", "source") for member in self.members}
        self.information = "compiled" if "compiled" in seen else "source"
        self.transductive = any(getattr(member, "transductive", False) for member in self.members)
        self.concurrency = min(int(getattr(member, "concurrency", 1)) for member in self.members)
        self.fingerprint = " ".join(str(getattr(member, "fingerprint", "")) for member in self.members)
        self.details = {str(i): found for i, member in enumerate(self.members) if (found := _details(member))}
        sizes = [int(member.batch) for member in self.members if hasattr(member, "batch")]
        if sizes:
            self.batch = min(sizes)

    def forecast(self, queries: Sequence[Query]) -> list[Forecast]:
        """Return one forecast for each query."""
        raise NotImplementedError

    def fit(self, train: Labelled, validation: Labelled) -> None:
        """Fit the members that learn and are not fitted yet, then the wrapper."""
        for member in self.members:
            if hasattr(member, "fit") and getattr(member, "fitted", False) is not True:
                member.fit(train, validation)
        self._fit_self(validation)
        self.fitted = True

    def _fit_self(self, validation: Labelled) -> None:
        """Fit what the wrapper itself learns."""

    def _own_state(self) -> dict[str, Any]:
        return {}

    def _restore_own(self, values: Mapping[str, Any]) -> None:
        pass

    def fitted_state(self) -> tuple[dict[str, Any], dict[str, np.ndarray]]:
        """Return what was learned, by the wrapper and by its members."""
        states, arrays = [], {}
        for number, member in enumerate(self.members):
            values, own = member.fitted_state() if hasattr(member, "fitted_state") else (None, {})
            states.append(values)
            arrays |= {f"{number}:{name}": array for name, array in own.items()}
        return {"own": self._own_state(), "members": states}, arrays

    def restore_fitted(self, values: Mapping[str, Any], arrays: Mapping[str, np.ndarray]) -> None:
        """Take back what `fitted_state` returned."""
        for number, (member, state) in enumerate(zip(self.members, values["members"], strict=True)):
            if state is not None:
                start = f"{number}:"
                own = {n.removeprefix(start): array for n, array in arrays.items() if n.startswith(start)}
                member.restore_fitted(state, own)  # type: ignore[attr-defined]
        self._restore_own(values["own"])
        self.fitted = True


def _details(member: Surrogate) -> Mapping[str, Any]:
    return getattr(member, "details", {})


class Single(Wrapper):
    """A wrapper around exactly one surrogate."""

    def __init__(self, members: Sequence[Surrogate]) -> None:
        super().__init__(members)
        if len(self.members) != 1:
            name = type(self).__name__.lower()
            raise SurrogateError(f"{name}(...) takes one surrogate, {len(self.members)} are given; pool with ensemble")
        self.member = self.members[0]


class Recalibrated(Single):
    """Maps the probabilities of a surrogate to those that fit its own forecasts of the validation split best."""

    def __init__(self, members: Sequence[Surrogate], method: str = "temperature") -> None:
        super().__init__(members)
        self.method = check_method(method)
        self._maps: dict[str, Calibration] = {"": Calibration()}

    def _fit_self(self, validation: Labelled) -> None:
        answers, ok = forecast_all(self.member, validation.queries), validation.ok
        rows = np.array([i for i, answer in enumerate(answers) if ok[i] and answer.status == "ok"], dtype=int)
        if not len(rows):
            raise SurrogateError("there is no validation row with a speedup and an answer to recalibrate on")
        probabilities = np.array([answers[i].probabilities for i in rows], dtype=np.float64)
        target = bin_mass(validation.log2_speedup[rows], validation.log2_sd[rows])
        kinds = [validation.queries[i].anchor_kind for i in rows]
        self._maps = fit_by_kind(self.method, probabilities, target, kinds)

    def forecast(self, queries: Sequence[Query]) -> list[Forecast]:
        out = []
        for query, answer in zip(queries, self.member.forecast(queries), strict=True):
            if answer.probabilities is not None:
                given = np.array([answer.probabilities], dtype=np.float64)
                mapped = apply_by_kind(self._maps, given, [query.anchor_kind])[0]
                answer = replace(answer, probabilities=tuple(mapped.tolist()))
            out.append(answer)
        return out

    def _own_state(self) -> dict[str, Any]:
        return {"maps": {kind: one.to_json() for kind, one in self._maps.items()}}

    def _restore_own(self, values: Mapping[str, Any]) -> None:
        self._maps = {kind: Calibration.from_json(one) for kind, one in values["maps"].items()}


class Ensemble(Wrapper):
    """A linear pool of surrogates; `weights` is equal, or fitted to the likelihood of the validation split."""

    def __init__(self, members: Sequence[Surrogate], weights: str = "equal") -> None:
        super().__init__(members)
        if weights not in ("equal", "fitted"):
            raise SurrogateError(f"unknown weights '{weights}'; expected equal or fitted")
        self.weights = weights
        self._shares = np.full(len(self.members), 1 / len(self.members))

    def _fit_self(self, validation: Labelled) -> None:
        if self.weights == "equal":
            return
        answers = [forecast_all(member, validation.queries) for member in self.members]
        ok = validation.ok
        rows = [i for i in range(len(validation)) if ok[i] and all(own[i].status == "ok" for own in answers)]
        components = np.array([[own[i].probabilities for own in answers] for i in rows], dtype=np.float64)
        if rows:
            target = bin_mass(validation.log2_speedup[rows], validation.log2_sd[rows])
            self._shares = mixture_weights(components, target)

    def forecast(self, queries: Sequence[Query]) -> list[Forecast]:
        answers = [member.forecast(queries) for member in self.members]
        return [pooled(own, self._shares) for own in zip(*answers, strict=True)]

    def _own_state(self) -> dict[str, Any]:
        return {"shares": self._shares.tolist()}

    def _restore_own(self, values: Mapping[str, Any]) -> None:
        self._shares = np.array(values["shares"])


class Repeated(Single):
    """Asks `n` times and averages, for a surrogate that does not say the same thing twice."""

    def __init__(self, members: Sequence[Surrogate], n: int = 3) -> None:
        super().__init__(members)
        if not isinstance(n, int) or n < 1:
            raise SurrogateError(f"repeated(...) needs n of at least 1; found {n!r}")
        self.n = n

    def forecast(self, queries: Sequence[Query]) -> list[Forecast]:
        answers = [self.member.forecast(queries) for _ in range(self.n)]
        return [pooled(own, np.full(self.n, 1 / self.n)) for own in zip(*answers, strict=True)]


class Swapped(Single):
    """Forecasts candidate over anchor and anchor over candidate: the mean of the first and the mirrored second.

    The edges of the bins lie evenly around S = 1, so that bin b mirrors bin 9 - b. The time of the other kernel is not
    known in the second question, and its anchor counts as a parent.
    """

    def __init__(self, members: Sequence[Surrogate], weight: float = 0.5) -> None:
        super().__init__(members)
        if not 0 <= weight <= 1:
            raise SurrogateError(f"swapped(...) needs a weight of the forward forecast from 0 to 1; found {weight!r}")
        self.weight = float(weight)

    def forecast(self, queries: Sequence[Query]) -> list[Forecast]:
        forward = self.member.forecast(queries)
        backward = self.member.forecast([turned(query) for query in queries])
        shares = np.array([self.weight, 1 - self.weight])
        return [
            pooled([there, mirrored(back, there.p_fail)], shares) if there.status == "ok" else there
            for there, back in zip(forward, backward, strict=True)
        ]


def turned(query: Query) -> Query:
    """Return the question the other way round."""
    facts = dict(query.facts)
    if "compiled" in facts:
        facts["compiled"] = {"candidate": facts["compiled"]["anchor"], "anchor": facts["compiled"]["candidate"]}
    return replace(
        query,
        query_id=f"{query.query_id}~",
        anchor_kind="parent",
        anchor_code=query.candidate_code,
        candidate_code=query.anchor_code,
        anchor_time_us=None,
        facts=facts,
    )


def mirrored(answer: Forecast, p_fail: float | None) -> Forecast:
    """Return a forecast of 1 / S as one of S; the chance that the candidate fails is that of the first question."""
    if answer.probabilities is None:
        return answer
    log2 = None if answer.log2_speedup is None else -answer.log2_speedup
    return replace(
        answer, probabilities=tuple(reversed(answer.probabilities)), log2_speedup=log2, rank_score=None, p_fail=p_fail
    )


def pooled(answers: Sequence[Forecast], shares: Floats) -> Forecast:
    """Return the mean of several forecasts of one query, over those with the status `ok`; costs are added up.

    A point estimate or p_fail is the mean where all of them give one; a rank score has no unit and is left out, except
    that a pool's score, which counts failures, follows from the two.
    """
    ok = [i for i, answer in enumerate(answers) if answer.status == "ok"]
    raw = [answer.raw for answer in answers if isinstance(answer, Told)]
    cost: dict[str, Any] = {
        name: sum(given) if (given := [v for a in answers if (v := getattr(a, name)) is not None]) else None
        for name in ("seconds", "input_tokens", "output_tokens")
    }
    if not ok:
        status = next((answer.status for answer in answers if answer.status != "error"), "error")
        return Told(None, status=status, raw=raw or None, **cost) if status != "error" else ERROR
    weights = shares[ok] / shares[ok].sum() if shares[ok].sum() > 0 else np.full(len(ok), 1 / len(ok))
    components = np.array([[answers[i].probabilities for i in ok]], dtype=np.float64)
    means: dict[str, float | None] = {}
    for name in ("log2_speedup", "p_fail"):
        values = [getattr(answers[i], name) for i in ok]
        means[name] = None if None in values else float(np.dot(weights, values))
    log2, p_fail, score = means["log2_speedup"], means["p_fail"], None
    if log2 is not None and p_fail is not None and any(answers[i].rank_score is not None for i in ok):
        score = log2 + float(np.log2(max(1 - p_fail, LEAST_SURVIVAL)))
    probabilities = tuple(mix(components, weights)[0].tolist())
    return Told(probabilities, log2_speedup=log2, rank_score=score, p_fail=p_fail, raw=raw or None, **cost)
