"""What the release of the paper holds: its five datasets with their configs and columns, and the published counts."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass

OWNER = "codezakh"
COMBINED = "combined"  # a config that repeats the rows of all others
SUMMARIES = "_summaries"
PACKS = ("trimul", "cross_entropy", "gdn_chunk_fwd_h", "gdn_chunk_fwd_o", "gdn_recompute_w_u", "fp8_quant")
SURROGATES = (
    "gemini3_flash", "gpt_oss_120b", "gpt_oss_20b_untrained", "deepseek_v4", "trained_correctness",
    "trained_correctness_brier", "trained_correctness_crps",
)  # fmt: skip
_PROVENANCE = {"source_search": "str", "internal_experiment": "str"}


@dataclass(frozen=True)
class Table:
    """One dataset of the release: its configs (None: one for each search) and its columns, `?` for nullable ones.

    Types are str, int, float, bool, bins (a list of {bin, p}) and json (an object, or the text of one).
    """

    dataset: str
    configs: tuple[str, ...] | None
    columns: Mapping[str, str]


TABLES: Mapping[str, Table] = {
    "eval": Table(
        "gpu-forecasters-eval-set", PACKS,
        {"comparison_id": "str", "pack": "str", "anchor_code": "str", "candidate_code": "str", "hardware": "str",
         "aggregated_speedup": "float", "true_bin": "int", "source_id": "str", **_PROVENANCE},
    ),
    "predictions": Table(
        "gpu-forecasters-eval-set-predictions", SURROGATES,
        {"comparison_id": "str", "pack": "str", "surrogate_label": "str", "repeat": "int", "predicted_bin": "int?",
         "bin_probabilities": "bins?", "reasoning": "str?", "raw_probability_sum": "float?", "parse_failed": "bool",
         "parse_error": "str?", "input_tokens": "int?", "output_tokens": "int?", "elapsed_s": "float"},
    ),
    "rl": Table(
        "gpu-forecasters-rl-training-pool", tuple(pack for pack in PACKS if pack != "gdn_chunk_fwd_o"),
        {"row_id": "str", "pack": "str", "anchor_code": "str", "candidate_code": "str", "aggregated_speedup": "float",
         "relative_bin": "int", "pair_type": "str", "hardware": "str", "source_id": "str", **_PROVENANCE},
    ),
    "discovery": Table(
        "gpu-forecasters-discovery-pairs", ("gpu_mode", "kernelbench_l3"),
        {"pair_id": "str", "problem_id": "str", "benchmark_family": "str", "parent_code": "str", "child_code": "str",
         "g_speedup": "float", "true_bin": "int", "hardware": "str", "parent_node_id": "str", "child_node_id": "str",
         "source_id": "str", **_PROVENANCE},
    ),
    "events": Table(
        "gpu-forecasters-puct-search-events", None,
        {"event_index": "int", "event_kind": "str", "payload": "json", **_PROVENANCE},
    ),
}  # fmt: skip

PAIR_TYPES = ("seed", "parent_edit", "pair")
FAMILIES = ("gpu_mode", "kernelbench_l3")
V2_KINDS = frozenset((
    "search_initialized", "step_started", "mutation_requested", "mutation_completed", "mutation_failed",
    "evaluation_requested", "evaluation_completed", "evaluation_failed", "step_completed",
))  # fmt: skip
V3_KINDS = V2_KINDS | {
    "forecast_requested", "forecast_completed", "forecast_failed", "candidate_selected", "candidate_deferred",
    "mutations_drained", "forecasts_drained", "evaluations_drained",
}  # fmt: skip
PUBLISHED: Mapping[str, int] = {
    "kernels": 12_388, "discovery": 1_347, "eval": 424, "rl": 2_322, "predictions": 8_904,
}  # fmt: skip


def upstream_bin(speedup: float) -> int:
    """Return the release's label of a speedup: clamp(floor(2 log2 S) + 4, 1, 8), never used for scoring."""
    return max(1, min(8, math.floor(2 * math.log2(speedup)) + 4))
