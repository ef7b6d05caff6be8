"""A few rows of each dataset of the paper's release, in its exact schema and with both versions of its event log.

`python -m tests.benchmark.release_fixture FOLDER` writes the five datasets as they lie on the Hub: a card with the
configs, one Parquet file for each config and split, and a config `combined` that repeats all rows.
"""

from __future__ import annotations

import hashlib
import json
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

from benchmark.upstream.release import PACKS, SURROGATES, TABLES, upstream_bin

A100, L40S = "NVIDIA A100-SXM4-80GB", "NVIDIA L40S"
V2_SEARCH, V3_SEARCH = "gpu_mode/trimul__e0033__flash.json", "kernelbench_l3/12_VGG19__e0189__flash.json"
Rows = list[dict[str, Any]]
_TEXT, _REAL, _WHOLE = pa.string(), pa.float64(), pa.int64()
_TYPES = {"str": _TEXT, "float": _REAL, "int": _WHOLE, "bool": pa.bool_(), "json": _TEXT,
          "bins": pa.list_(pa.struct({"bin": _WHOLE, "p": _REAL}))}  # fmt: skip


def source(name: str, comment: str = "") -> str:
    """Return a kernel that differs from every other by its name, in a form that no other shares."""
    number = int(hashlib.sha256(name.encode()).hexdigest()[:6], 16)
    return f"import torch\n\n{comment}\ndef custom_kernel(data):\n    return torch.add(data[0], {number})\n"


def _provenance(search: str) -> dict[str, str]:
    return {"source_search": search, "internal_experiment": "e0000"}


def eval_rows() -> dict[str, Rows]:
    """Three rows for each pack; one pair of `trimul` is there twice, and one row describes itself."""
    configs: dict[str, Rows] = {}
    for pack in PACKS:
        rows = []
        for i, speedup in enumerate((0.350631, 1.155647, 4.0)):
            comment = f"# targeting {speedup:.3f}x of the reference" if i == 0 else ""
            code = source(f"{pack}/{i}", comment)
            key = hashlib.sha256(f"{pack}{code}".encode()).hexdigest()[:12]
            rows.append(
                {"comparison_id": key, "pack": pack, "anchor_code": source(f"{pack}/reference"), "candidate_code": code,
                 "hardware": A100, "aggregated_speedup": speedup, "true_bin": upstream_bin(speedup),
                 "source_id": f"binfiller/SEVERE_SLOWDOWN/{key}" if i == 0 else f"flash/{pack}-{i}",
                 **_provenance(f"gpu_mode/{pack}__e0033__flash.json")}
            )  # fmt: skip
        configs[pack] = rows
    configs["trimul"].append(dict(configs["trimul"][1]))
    return configs


def prediction_rows(evals: Mapping[str, Rows]) -> dict[str, Rows]:
    """Two repeats for each row of eval and surrogate; some were not parsed, and gemini3_flash has no parse_error."""
    configs: dict[str, Rows] = {}
    for s, name in enumerate(SURROGATES):
        rows = []
        for i, row in enumerate(row for part in evals.values() for row in part):
            for repeat in range(2):
                failed = name != "gemini3_flash" and (i + repeat + s) % 7 == 0
                bins = [{"bin": b, "p": 0.3 if b == row["true_bin"] else 0.1} for b in range(1, 9)]
                rows.append(
                    {"comparison_id": row["comparison_id"], "pack": row["pack"], "surrogate_label": name,
                     "repeat": repeat, "predicted_bin": None if failed else row["true_bin"],
                     "bin_probabilities": [] if failed else bins, "reasoning": "", "raw_probability_sum":
                     None if failed else 1.02, "parse_failed": failed, "parse_error": "bad JSON" if failed else None,
                     "input_tokens": 3000 + i, "output_tokens": None if failed else 900, "elapsed_s": 12.5}
                )  # fmt: skip
        configs[name] = rows
    return configs


def pool_rows() -> dict[str, Rows]:
    """One row of each pair type for each pack of the pool."""
    configs: dict[str, Rows] = {}
    for pack in TABLES["rl"].configs or ():
        rows = []
        for i, kind in enumerate(("seed", "parent_edit", "pair")):
            anchor = source(f"{pack}/reference") if kind == "seed" else source(f"{pack}/rl/{i}")
            rows.append(
                {"row_id": f"{pack}-{i}", "pack": pack, "anchor_code": anchor,
                 "candidate_code": source(f"{pack}/rl/{i + 1}"), "aggregated_speedup": 0.6 + i, "relative_bin":
                 upstream_bin(0.6 + i), "pair_type": kind, "hardware": A100, "source_id": f"rl/{i}",
                 **_provenance(f"gpu_mode/{pack}__e0111__oss.json")}
            )  # fmt: skip
        configs[pack] = rows
    return configs


def discovery_rows() -> dict[str, Rows]:
    """Pairs of nodes of the two searches of `event_rows`; one pair is there twice."""

    def row(problem: str, family: str, search: str, gpu: str, child: int, speedup: float) -> dict[str, Any]:
        return {
            "pair_id": f"{problem}-{child}", "problem_id": problem, "benchmark_family": family,
            "parent_code": source(f"{search}/0"), "child_code": source(f"{search}/{child}"), "g_speedup": speedup,
            "true_bin": upstream_bin(speedup), "hardware": gpu, "parent_node_id": "N0", "child_node_id": f"N{child}",
            "source_id": f"{search}#{child}", **_provenance(search),
        }  # fmt: skip

    first = row("trimul", "gpu_mode", V2_SEARCH, A100, 1, 1.5)
    third = row("12_VGG19", "kernelbench_l3", V3_SEARCH, L40S, 1, 0.9)
    return {"gpu_mode": [first, dict(first)], "kernelbench_l3": [third]}


def _success(speedup: float) -> dict[str, Any]:
    cases = [{"correct": True, "runtime_ns": t, "ref_runtime_ns": t * speedup} for t in (1000.0, 4000.0)]
    feedback = {
        "kind": "success",
        "aggregated_speedup": speedup,
        "aggregation_method": "geomean",
        "per_case_speedups": [],
    }
    return {"observation": {"feedback": feedback, "per_case_results": cases}, "reward": speedup}


def _plain(kind: str, **fields: Any) -> dict[str, Any]:
    return {"observation": {"feedback": {"kind": kind, **fields}}, "reward": None}


def v2_events() -> Rows:
    """A search of the first version: no hardware, children have ids of their own, one evaluation is asked for twice."""
    root = {"ulid": "N0", "program_code": source(f"{V2_SEARCH}/0"), "ancestors": [], "is_seed": True,
            "evaluation": _success(1.1)}  # fmt: skip
    events: list[tuple[str, dict[str, Any]]] = [
        ("search_initialized", {"root": root}), ("step_started", {"step": 1, "parent_ulids": ["N0"]}),
    ]  # fmt: skip
    outcomes = [
        _success(1.65), _plain("compile_failed", compilation_error="no such intrinsic"),
        _plain("incorrect", error_message="off by one"), _plain("infrastructure_failure", reason="container lost"),
    ]  # fmt: skip
    for i, outcome in enumerate(outcomes, start=1):
        asked = {"request_id": f"r{i}", "child_ulid": f"N{i}", "parent_ulid": "N0", "code": source(f"{V2_SEARCH}/{i}"),
                 "from_mutation_request_id": f"m{i}", "started_at": "2026-04-01T00:00:00Z"}  # fmt: skip
        events += [
            ("mutation_requested", {"request_id": f"m{i}", "parent_ulid": "N0", "started_at": None}),
            ("mutation_completed", {"request_id": f"m{i}", "code": asked["code"], "completed_at": None}),
            ("evaluation_requested", asked), *([("evaluation_requested", asked)] if i == 1 else []),
            ("evaluation_completed",
             {"request_id": f"r{i}", "evaluation": outcome, "completed_at": "2026-04-01T00:01:00Z"}),
        ]  # fmt: skip
    events += [
        ("evaluation_requested", {**asked, "request_id": "r9", "child_ulid": "N9", "code": source(f"{V2_SEARCH}/9")}),
        ("evaluation_failed", {"request_id": "r9", "reason": "evaluation timed out", "completed_at": None}),
        ("mutation_failed", {"request_id": "m10", "reason": "no code block", "completed_at": None}),
        ("step_completed", {"step": 1}),
    ]  # fmt: skip
    return _numbered(events, V2_SEARCH)


def v3_events() -> Rows:
    """A search of the second version: forecasts, a deferred candidate, request ids that become nodes."""
    root = {
        "ulid": "N0",
        "program_code": source(f"{V3_SEARCH}/0"),
        "ancestors": [],
        "is_seed": True,
        "evaluation": None,
    }
    forecast = {"predicted_bin": 5, "bin_probabilities": {str(b): 0.125 for b in range(1, 9)}, "reasoning": "",
                "raw_probability_sum": 1.0}  # fmt: skip
    common = {"step": 1, "parent_ulid": "N0"}
    hardware = {"device_name": L40S, "compute_capability": [8, 9]}
    events: list[tuple[str, dict[str, Any]]] = [
        ("search_initialized", {"root": root, "kernel_task": {"op_name": "vgg19", "level_id": 3, "task_id": 12},
                                "seed_reference_code": root["program_code"], "hardware": hardware}),
        ("step_started", {"step": 1, "parent_ulids": ["N0"], "selected_parent_scores": [1.0]}),
    ]  # fmt: skip
    for i in (1, 2):
        asked = {**common, "request_id": f"N{i}"}
        code = source(f"{V3_SEARCH}/{i}")
        events += [
            ("mutation_requested", {**asked, "started_at": None}),
            ("mutation_completed", {**asked, "code": code, "llm_usage": None, "completed_at": None}),
            ("forecast_requested", {**asked, "code": code, "started_at": None}),
            ("forecast_completed", {**asked, "forecast": forecast, "llm_usage": None, "completed_at": None}),
        ]
    chosen, code = {**common, "request_id": "N1"}, source(f"{V3_SEARCH}/1")
    done = {"observation": {"kind": "success", "runtime_us": 2.0, "ref_runtime_us": 1.8, "speedup": 0.9}, "reward": 0.9}
    events += [
        ("candidate_selected", {**chosen, "selection_score": 5.0}),
        ("candidate_deferred", {**common, "request_id": "N2", "selection_score": 4.5}),
        ("evaluation_requested", {**chosen, "code": code, "started_at": "2026-05-01T00:00:00Z"}),
        ("evaluation_completed", {**chosen, "evaluation": done, "completed_at": "2026-05-01T00:01:00Z"}),
        ("mutations_drained", common), ("forecasts_drained", common), ("evaluations_drained", common),
        ("step_completed", {"step": 1}),
    ]  # fmt: skip
    return _numbered(events, V3_SEARCH)


def _numbered(events: Sequence[tuple[str, Mapping[str, Any]]], search: str) -> Rows:
    return [
        {"event_index": i, "event_kind": kind, "payload": json.dumps(payload), **_provenance(search)}
        for i, (kind, payload) in enumerate(events)
    ]


def release() -> dict[str, dict[str, Rows]]:
    """Return the rows of each dataset by config, without `combined`."""
    evals = eval_rows()
    return {
        "eval": evals,
        "predictions": prediction_rows(evals),
        "rl": pool_rows(),
        "discovery": discovery_rows(),
        "events": {"trimul__e0033": v2_events(), "12_VGG19__e0189": v3_events()},
    }


def write_release(root: Path, rows: Mapping[str, Mapping[str, Rows]] | None = None) -> Path:
    """Write the five datasets below `root` and return it."""
    split = {"eval": "eval", "predictions": "predictions", "rl": "train", "discovery": "pairs", "events": "events"}
    for name, configs in (rows or release()).items():
        folder = root / TABLES[name].dataset
        if name == "events":
            (folder / "data" / "_summaries").mkdir(parents=True, exist_ok=True)
            summaries = pa.table(
                {"source_search": [V2_SEARCH, V3_SEARCH], "n_steps": [1, 1], "best_speedup": [1.65, 0.9]}
            )
            pq.write_table(summaries, folder / "data" / "_summaries" / "events-00000-of-00001.parquet")
            every = dict(configs)
        else:
            every = {**configs, "combined": [row for part in configs.values() for row in part]}
        for config, part in every.items():
            path = folder / "data" / config / f"{split[name]}-00000-of-00001.parquet"
            path.parent.mkdir(parents=True, exist_ok=True)
            _write(path, TABLES[name].columns, part)
        names = [*every, *(["_summaries"] if name == "events" else [])]
        card = "".join(
            f"- config_name: {c}\n  data_files:\n  - split: {split[name]}\n    path: data/{c}/{split[name]}-*\n"
            for c in names
        )
        (folder / "README.md").write_text(f"---\nconfigs:\n{card}---\n\nSynthetic rows.\n")
    return root


def _write(path: Path, columns: Mapping[str, str], rows: Rows) -> None:
    """A column without any value has the type null, as it is on the Hub."""
    arrays = {}
    for column, kind in columns.items():
        values = [row[column] for row in rows]
        empty = all(value is None for value in values)
        arrays[column] = pa.array(values, pa.null() if empty else _TYPES[kind.rstrip("?")])
    pq.write_table(pa.table(arrays), path)


if __name__ == "__main__":
    write_release(Path(sys.argv[1]))
