"""The published forecasts of the release as submissions in KernelCast's format."""

from __future__ import annotations

import json
from collections import Counter, defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from benchmark.bins import BINS
from benchmark.forecasts import write_forecasts
from benchmark.query import Forecast, Query
from benchmark.upstream.release import SURROGATES
from benchmark.upstream.source import Placed, Surprises

SUM_TOLERANCE = 1e-4


@dataclass(frozen=True)
class Answer:
    """One published forecast of one query."""

    query_id: str
    repeat: int
    forecast: Forecast


def read_answers(
    rows: Sequence[Placed], query_of: Mapping[str, str], surprises: Surprises
) -> tuple[dict[str, list[Answer]], Counter[str]]:
    """Return the answers of each surrogate, one for each query and repeat, and counts of what was left out.

    The release asked for bins by the edges that KernelCast uses, so probabilities carry over as they are. A repeated
    answer to a repeated pair is left out; a comparison that eval lacks is reported.
    """
    answers: dict[str, dict[tuple[str, int], Answer]] = defaultdict(dict)
    counts: Counter[str] = Counter()
    for row in rows:
        name = row["surrogate_label"]
        if name not in SURROGATES:
            surprises.add(row.where, "surrogate_label", name, f"one of {', '.join(SURROGATES)}")
        query = query_of.get(row["comparison_id"])
        if query is None:
            surprises.add(row.where, "comparison_id", row["comparison_id"], "a comparison_id of the evaluation set")
            continue
        if row["repeat"] < 0:
            surprises.add(row.where, "repeat", row["repeat"], "a number from 0")
        answer = Answer(query, row["repeat"], _forecast(row, surprises))
        if (query, row["repeat"]) in answers[name]:
            counts["repeated_forecasts"] += 1
            continue
        answers[name][query, row["repeat"]] = answer
        counts["unparsed_forecasts"] += answer.forecast.status != "ok"
    return {name: [found[key] for key in sorted(found)] for name, found in sorted(answers.items())}, counts


def _forecast(row: Placed, surprises: Surprises) -> Forecast:
    seconds, tokens = float(row["elapsed_s"]), (row["input_tokens"], row["output_tokens"])
    if row["parse_failed"]:
        return Forecast(None, status="unparsed", seconds=seconds, input_tokens=tokens[0], output_tokens=tokens[1])
    bins = row["bin_probabilities"] or {}
    probabilities = [float(bins.get(b, 0.0)) for b in BINS]
    total = sum(probabilities)
    if abs(total - 1) > SUM_TOLERANCE:
        surprises.add(
            row.where, "bin_probabilities", total, "probabilities that sum to 1, because parse_failed is false"
        )
        return Forecast(None, status="error")
    chosen = row["predicted_bin"]
    if chosen is None or not 1 <= chosen <= len(BINS):
        surprises.add(row.where, "predicted_bin", chosen, "a bin from 1 to 8, because parse_failed is false")
    return Forecast(
        tuple(p / total for p in probabilities), seconds=seconds, input_tokens=tokens[0], output_tokens=tokens[1]
    )


def write_submissions(answers: Mapping[str, Sequence[Answer]], folder: Path, dataset: str, revision: str) -> None:
    """Write `NAME/eval.parquet` and `NAME/submission.yaml` for each surrogate."""
    import yaml

    for name, found in answers.items():
        label = f"upstream-{name.replace('_', '-')}"
        metadata = {
            "dataset": dataset,
            "track": "eval",
            "surrogate": name,
            "configuration": json.dumps({"temperature": 1.0}),
        }
        queries = [Query(a.query_id, "eval", "", "", "reference", "", "", None, "") for a in found]
        repeats = [a.repeat for a in found]
        write_forecasts(
            folder / label / "eval.parquet", queries, [a.forecast for a in found], metadata, repeats=repeats
        )
        about = {
            "name": label, "kind": "surrogate", "information": "source",
            "description": f"forecasts of {name} as the paper published them (arXiv 2605.31464)",
            "command": "kernelcast data import-upstream", "dataset": dataset, "revision": revision,
            "training_data": "the release's RL training pool" if name.startswith("trained") else "not published",
            "cost": "not published", "contamination": "sources may state their own speed (self_describing)",
            "status": "recomputed",
        }  # fmt: skip
        text = yaml.safe_dump(about, sort_keys=False, allow_unicode=True, width=120)
        (folder / label / "submission.yaml").write_text(text, encoding="utf-8", newline="\n")
