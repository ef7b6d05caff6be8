"""The figures of each track: their names, direction, and why one may be undefined."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace

from benchmark.metrics.best_so_far import SHARE
from benchmark.metrics.calibration import LOG_LOSS_VERSION
from benchmark.metrics.discovery import NO_POSITIVE, ONE_CLASS
from benchmark.metrics.permutation import PERMUTATIONS
from benchmark.metrics.ranking import CONSTANT, FRACTIONS, NO_SUCCESS, NONE_APART, SATURATION
from benchmark.records import TAUS

NO_SPEEDUP = "no row has a speedup"
NO_ANSWER = "no answered row has a speedup"
NO_P_FAIL = "the submission gives no p_fail for every answered row"
NO_RUNS = "no replay runs were given"
TOP_FRACTION = 0.10
COVERAGES = (0.2, 0.5, 0.8)
WITHIN = "_within_seed"


@dataclass(frozen=True)
class Metric:
    """One figure. `better` is higher, lower, or none for a figure that describes and does not judge.

    A `binned` figure has one signed part for each calibration bin and task; parts are averaged over tasks before the
    absolute values are summed. A figure that is not `resampled` has no interval. `version` names whatever constant the
    figure depends on.
    """

    name: str
    title: str
    better: str
    undefined: str
    family: str = ""
    binned: bool = False
    resampled: bool = True
    version: str | None = None


def _metrics(**families: Iterable[Metric]) -> Mapping[str, Metric]:
    return {m.name: replace(m, family=family) for family, metrics in families.items() for m in metrics}


def fraction_name(fraction: float) -> str:
    """Return the name of best@f with f in percent, `best@10`."""
    return f"best@{fraction:.0%}".rstrip("%")


def coverage_name(coverage: float) -> str:
    """Return the name of the accuracy at a coverage in percent, `accuracy@50`."""
    return f"accuracy@{coverage:.0%}".rstrip("%")


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
    Metric("ece_class", "class-wise calibration error", "none", NO_ANSWER, binned=True),
    Metric("entropy", "mean forecast entropy (nats)", "none", NO_ANSWER),
    Metric("rps_miscalibration", "part of rps that recalibration removes (CORP)", "none", NO_ANSWER, resampled=False),
    Metric("rps_discrimination", "part of rps gained over the base rate (CORP)", "none", NO_ANSWER, resampled=False),
    Metric("rps_uncertainty", "rps of the base rate itself (CORP)", "none", NO_ANSWER, resampled=False),
)
_SELECTIVE = (
    Metric("aurc", "area under the risk-coverage curve, top bin", "none", NO_SPEEDUP),
    Metric("aurc_excess", "area under the risk-coverage curve above the least", "none", NO_SPEEDUP),
    *(
        Metric(coverage_name(c), f"accuracy of the top bin, surest {c:.0%} of rows", "none", NO_SPEEDUP)
        for c in COVERAGES
    ),
    Metric("accuracy", "accuracy of the top bin", "higher", NO_SPEEDUP),
)
_FAILURE = (
    Metric("fail_auroc", "AUROC of p_fail", "higher", f"{NO_P_FAIL}, or {ONE_CLASS}"),
    Metric("fail_half_brier", "half-Brier score of p_fail", "lower", NO_P_FAIL),
)
_WEIGHTED = (
    Metric("rps_weighted", "ranked probability score at the natural rate", "lower", NO_SPEEDUP),
    Metric("half_brier_weighted", "half-Brier score at the natural rate", "lower", NO_SPEEDUP),
    Metric("log_loss_weighted", "log loss at the natural rate (nats)", "lower", NO_SPEEDUP, version=LOG_LOSS_VERSION),
    Metric("ece_weighted", "top-label calibration error at the natural rate", "none", NO_ANSWER, binned=True),
)


def _discovery(tau: str, threshold: float) -> tuple[Metric, ...]:
    at = f"at S > {threshold:.3g}"
    top = f"top {TOP_FRACTION:.0%}"
    resolved = f"{at}, resolved rows"
    p_value = f"permutation p-value of average precision {at}"
    return (
        Metric(f"ap_{tau}", f"average precision {at}", "higher", NO_POSITIVE),
        Metric(f"ap_{tau}_random", f"average precision of a random order {at}", "none", NO_POSITIVE),
        Metric(f"ap_{tau}_resolved", f"average precision {resolved}", "higher", NO_POSITIVE),
        Metric(f"auroc_{tau}", f"AUROC {at}", "higher", ONE_CLASS),
        Metric(f"auroc_{tau}_resolved", f"AUROC {resolved}", "higher", ONE_CLASS),
        Metric(f"precision_{tau}", f"precision of the {top} {at}", "higher", NO_POSITIVE),
        Metric(f"recall_{tau}", f"recall of the {top} {at}", "higher", NO_POSITIVE),
        Metric(f"lift_{tau}", f"precision of the {top} over the base rate", "higher", NO_POSITIVE),
        Metric(f"base_rate_{tau}", f"share of rows with S > {threshold:.3g} where there is one", "none", NO_POSITIVE),
        Metric(f"ap_{tau}_p", p_value, "none", NO_POSITIVE, resampled=False, version=f"{PERMUTATIONS}-within-searches"),
    )


_SPEARMAN = Metric("spearman", "Spearman rank correlation", "higher", CONSTANT)
_SPEARMAN_WITHIN = Metric(f"spearman{WITHIN}", "Spearman within a seed's descendants", "higher", CONSTANT)
_POOL_RANKING = (
    Metric("auc_best", "area under normalised best@f over log f", "higher", SATURATION),
    *(
        Metric(fraction_name(f), f"best speedup in the top {f:.0%} over the best", "higher", NO_SUCCESS)
        for f in FRACTIONS
    ),
    *(
        Metric(f"{fraction_name(f)}_norm", f"{fraction_name(f)} between chance (0) and 1", "higher", SATURATION)
        for f in FRACTIONS
    ),
    Metric("recall@10", "overlap with the fastest 10%", "higher", NO_SUCCESS),
    Metric("pairwise", "pairwise accuracy of resolved pairs", "higher", NONE_APART),
    Metric("kendall", "Kendall tau-b", "higher", CONSTANT),
    _SPEARMAN,
)
_POOL_WITHIN = tuple(
    replace(m, name=f"{m.name}{WITHIN}", title=f"{m.title}, within a seed's descendants") for m in _POOL_RANKING
)
_DISCOVERY = tuple(metric for tau, threshold in TAUS.items() for metric in _discovery(tau, threshold))
_COMMON = {"calibration": _CALIBRATION, "selective": _SELECTIVE, "failure": _FAILURE}

PAIRS = _metrics(discovery=_DISCOVERY, ranking=(_SPEARMAN, _SPEARMAN_WITHIN), **_COMMON)
EVAL = _metrics(
    discovery=_DISCOVERY,
    ranking=(_SPEARMAN, _SPEARMAN_WITHIN),
    calibration=(*_CALIBRATION, *_WEIGHTED),
    selective=_SELECTIVE,
    failure=_FAILURE,
)
POOL = _metrics(ranking=(*_POOL_RANKING, *_POOL_WITHIN), **_COMMON)
REPLAY = _metrics(
    search=(
        Metric("measurements_to_95", f"measurements to {SHARE:.0%} of the recorded best", "lower", NO_RUNS),
        Metric("reached_95", f"share of runs that reach {SHARE:.0%} of the recorded best", "higher", NO_RUNS),
        Metric("area_under_best", "mean best so far over the recorded best", "higher", NO_RUNS),
        Metric("best", "best at the end of the budget over the recorded best", "higher", NO_RUNS),
    )
)
METRICS: Mapping[str, Mapping[str, Metric]] = {"pairs": PAIRS, "eval": EVAL, "pool": POOL, "replay": REPLAY}
HEADLINES: Mapping[str, str] = {"pairs": "ap_141", "eval": "rps", "pool": "auc_best", "replay": "measurements_to_95"}
