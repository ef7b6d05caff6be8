"""The figures of each track: their names, direction, and why one may be undefined."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from benchmark.metrics.calibration import LOG_LOSS_VERSION
from benchmark.metrics.discovery import NO_POSITIVE, ONE_CLASS
from benchmark.metrics.ranking import CONSTANT, FRACTIONS, SATURATED
from benchmark.records import TAUS

NO_SPEEDUP = "no row has a speedup"
NO_ANSWER = "no answered row has a speedup"
NO_P_FAIL = "the submission gives no p_fail for every answered row"
TOP_FRACTION = 0.10


@dataclass(frozen=True)
class Metric:
    """One figure. `better` is higher, lower, or none for a figure that describes and does not judge.

    A `binned` figure has one signed part for each calibration bin and task; parts are averaged over tasks before the
    absolute values are summed. `version` names whatever constant the figure depends on.
    """

    name: str
    title: str
    better: str
    undefined: str
    binned: bool = False
    version: str | None = None


def _metrics(*metrics: Metric) -> Mapping[str, Metric]:
    return {m.name: m for m in metrics}


def fraction_name(fraction: float) -> str:
    """Return the name of best@f with f in percent, `best@10`."""
    return f"best@{fraction:.0%}".rstrip("%")


_CALIBRATION = (
    Metric("rps", "ranked probability score", "lower", NO_SPEEDUP),
    Metric("rps_excess", "ranked probability score above the least", "lower", NO_SPEEDUP),
    Metric("rps_hard", "ranked probability score, hard bins", "lower", NO_SPEEDUP),
    Metric("half_brier", "half-Brier score", "lower", NO_SPEEDUP),
    Metric("half_brier_excess", "half-Brier score above the least", "lower", NO_SPEEDUP),
    Metric("half_brier_hard", "half-Brier score, hard bins", "lower", NO_SPEEDUP),
    Metric("log_loss", "log loss (nats)", "lower", NO_SPEEDUP, version=LOG_LOSS_VERSION),
    Metric("log_loss_excess", "log loss above the least (nats)", "lower", NO_SPEEDUP, version=LOG_LOSS_VERSION),
    Metric("log_loss_hard", "log loss, hard bins (nats)", "lower", NO_SPEEDUP, version=LOG_LOSS_VERSION),
    Metric("ece", "top-label calibration error, equal-width bins", "none", NO_ANSWER, binned=True),
    Metric("ece_mass", "top-label calibration error, equal-mass bins", "none", NO_ANSWER, binned=True),
    Metric("entropy", "mean forecast entropy (nats)", "none", NO_ANSWER),
    Metric("fail_auroc", "AUROC of p_fail", "higher", f"{NO_P_FAIL}, or {ONE_CLASS}"),
    Metric("fail_half_brier", "half-Brier score of p_fail", "lower", NO_P_FAIL),
)
_DISCOVERY = tuple(
    metric
    for tau, threshold in TAUS.items()
    for metric in (
        Metric(f"ap_{tau}", f"average precision at S > {threshold:.3g}", "higher", NO_POSITIVE),
        Metric(f"ap_{tau}_random", f"average precision of a random order at S > {threshold:.3g}", "none", NO_POSITIVE),
        Metric(f"ap_{tau}_resolved", f"average precision at S > {threshold:.3g}, resolved rows", "higher", NO_POSITIVE),
        Metric(f"auroc_{tau}", f"AUROC at S > {threshold:.3g}", "higher", ONE_CLASS),
        Metric(f"lift_{tau}", f"precision of the top {TOP_FRACTION:.0%} over the base rate", "higher", NO_POSITIVE),
        Metric(f"base_rate_{tau}", f"share of rows with S > {threshold:.3g} where there is one", "none", NO_POSITIVE),
    )
)
_NO_SUCCESS = "no kernel of the pool has a speedup"
_RECOVERY = (
    Metric(
        "auc_best", "area under normalised best@f over log f", "higher",
        f"random choice recovers more than {SATURATED} of the best speedup",
    ),
    *(
        Metric(fraction_name(f), f"best speedup in the top {f:.0%} over the best", "higher", _NO_SUCCESS)
        for f in FRACTIONS
    ),
    Metric("recall@10", "overlap with the fastest 10%", "higher", _NO_SUCCESS),
    Metric("pairwise", "pairwise accuracy of resolved pairs", "higher", "no two intervals are apart"),
    Metric("kendall", "Kendall tau-b", "higher", CONSTANT),
    Metric("spearman_within_seed", "Spearman within a seed's descendants", "higher", CONSTANT),
)  # fmt: skip
_SPEARMAN = Metric("spearman", "Spearman rank correlation", "higher", CONSTANT)

PAIRS = _metrics(*_DISCOVERY, _SPEARMAN, *_CALIBRATION)
POOL = _metrics(*_RECOVERY, _SPEARMAN, *_CALIBRATION)
METRICS: Mapping[str, Mapping[str, Metric]] = {"pairs": PAIRS, "eval": PAIRS, "pool": POOL}
HEADLINES: Mapping[str, str] = {"pairs": "ap_141", "eval": "rps", "pool": "auc_best"}
