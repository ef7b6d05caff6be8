"""Audit a packaged dataset: what could give an answer away, how noisy the labels are, and how balanced the rows."""

from __future__ import annotations

import re
from collections import Counter, defaultdict
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from benchmark.bins import BINS
from benchmark.code_view import parse
from benchmark.integrity import read_manifest
from benchmark.near_duplicate import THRESHOLD, Signature, minhash_signature, most_alike
from benchmark.parquet import read_table
from benchmark.probes import BASELINES, LEAKS, at_chance, probe_aurocs, probe_scores
from benchmark.query import SPLITS, TEST_SPLITS
from benchmark.records import STATUSES, TAUS
from benchmark.self_description import describes_itself
from benchmark.source_writer import cuda_texts
from benchmark.telling_names import collect, is_telling, renames

_WORD = re.compile(r"[A-Za-z_]\w*")
Row = dict[str, Any]
Tables = Mapping[str, list[Row]]
_COLUMNS: Mapping[str, tuple[str, ...]] = {
    "kernels": ("kernel_id", "task", "language", "code", "code_view", "structure_hash", "self_describing", "status",
                "speedup", "speedup_low", "speedup_high", "bin", "second_speedup", "second_speedup_low",
                "second_speedup_high", "split"),
    "nodes": ("search_id", "kernel_id", "step"),
    "pairs": ("pair_id", "task", "search_id", "parent_id", "child_id", "child_status", "operator", "operator_class",
              "speedup", "speedup_low", "speedup_high", "bin", *(f"resolved_{t}" for t in TAUS), "changed", "frontier",
              "undo", "second_speedup", "split"),
    "same_program": ("speedup", "speedup_low", "speedup_high", "changed", "task", "split"),
}  # fmt: skip
CAPS = {"operator_class": 0.4, "operator": 0.2, "task": 0.15}  # the largest share of the test pairs that one may have


def audit(
    folder: Path,
    stage: Callable[[str, int], Callable[[int], None]] = lambda label, total: lambda n: None,
    signatures: Mapping[str, Signature] | None = None,
) -> dict[str, Any]:
    """Return the findings of a packaged dataset as one JSON object.

    `near_duplicates` across splits, `telling_text` (rows whose source or view states a speed or a target), `probes`
    (AUROC of discovery on the test pairs for what is no code), `correlations` of speedup with order, id and length,
    `label_noise`, `unresolved` (share of pairs whose interval holds a tau), `composition` of the test pairs against its
    caps, and `balance` of statuses and bins per task. `stage(label, total)` is called as the
    one long step begins and gives a function that counts what is done; `signatures` has what is known of the structures
    already. Raises RecordError for a file that cannot be read.
    """
    manifest = read_manifest(folder)
    tables = {name: _read(folder, manifest, name) for name in _COLUMNS}
    test_pairs = [row for row in tables["pairs"] if row["split"] in TEST_SPLITS]
    return {
        "dataset": manifest["dataset"],
        "near_duplicates": _near_duplicates(tables["kernels"], stage, signatures or {}),
        "telling_text": _telling_text(tables["kernels"]),
        "probes": _probes(test_pairs, tables),
        "correlations": _correlations(tables["kernels"]),
        "label_noise": _label_noise(tables),
        "unresolved": _unresolved(tables["pairs"]),
        "composition": _composition(test_pairs),
        "balance": _balance(tables["kernels"]),
    }


def _read(folder: Path, manifest: Mapping[str, Any], name: str) -> list[Row]:
    rows: list[Row] = []
    for relative in manifest["files"]:
        if relative.startswith(f"{name}/"):
            rows += read_table(folder / relative, name, _COLUMNS[name]).to_pylist()
    return rows


def _near_duplicates(
    kernels: Sequence[Row], stage: Callable[[str, int], Callable[[int], None]], known: Mapping[str, Signature]
) -> list[Row]:
    """Kernels of each training side that are near copies of one that is scored, by exact form and by MinHash."""
    code = {row["structure_hash"]: row["code"] for row in kernels}
    advance = stage("comparing structures", len(code))
    signatures: dict[str, Signature] = {}
    for structure, source in sorted(code.items()):
        signatures[structure] = known[structure] if structure in known else minhash_signature(source)
        advance(1)
    rows = []
    for side, scored in (("train", ("validation", *TEST_SPLITS)), ("validation", TEST_SPLITS)):
        own = [row["structure_hash"] for row in kernels if row["split"] == side]
        others = sorted({row["structure_hash"] for row in kernels if row["split"] in scored})
        if not own or not others:
            continue
        distinct, count = np.unique(own, return_counts=True)
        best, _ = most_alike(np.array([signatures[s] for s in distinct]), np.array([signatures[s] for s in others]))
        same = np.isin(distinct, others)
        rows.append(
            {"split": side, "against": list(scored), "kernels": len(own), "structures": len(distinct),
             "same_structure": int(count[same].sum()), "near_duplicates": int(count[(best >= THRESHOLD) & ~same].sum()),
             "highest_jaccard": float(best.max())}
        )  # fmt: skip
    return rows


def _telling_text(kernels: Sequence[Row]) -> Row:
    views = [row["kernel_id"] for row in kernels if describes_itself(row["code_view"])]
    names = [row["kernel_id"] for row in kernels if _telling_names(row["code_view"])]
    return {
        "rows": len(kernels),
        "in_code": sum(row["self_describing"] for row in kernels),
        "in_view": len(views),
        "telling_names_in_view": len(names),
        "examples": sorted({*views, *names})[:5],
    }


def _telling_names(view: str) -> bool:
    """Whether a view defines a telling name itself; names of libraries and of compiler options are not its own."""
    if not any(map(is_telling, set(_WORD.findall(view)))):
        return False
    tree = parse(view)
    return tree is not None and bool(renames(collect(tree, cuda_texts(tree))))


def _probes(pairs: Sequence[Row], tables: Tables) -> list[Row]:
    if not pairs:
        return []
    kernels = {row["kernel_id"]: row for row in tables["kernels"]}
    found = probe_aurocs(pairs, probe_scores(pairs, kernels, tables["nodes"]))
    return [
        {"probe": name, "must_be_chance": name in LEAKS, **found[name], "at_chance": at_chance(found[name])}
        for name in (*LEAKS, *BASELINES)
    ]


def _correlations(kernels: Sequence[Row]) -> list[Row]:
    """Spearman's correlation of log speedup with what is no code, as the mean over the tasks of a split."""
    from scipy.stats import rankdata

    rows = []
    for split in SPLITS:
        values: dict[str, list[float]] = {"order": [], "id": [], "length": []}
        by_task: dict[str, list[Row]] = defaultdict(list)
        for row in kernels:
            if row["split"] == split and row["speedup"] is not None:
                by_task[row["task"]].append(row)
        for members in by_task.values():
            speedup = rankdata([row["speedup"] for row in members])
            seen: dict[str, list[float]] = {
                "order": [float(place) for place in range(len(members))],
                "id": [int(row["kernel_id"][2:], 16) / 16**16 for row in members],
                "length": [float(len(row["code_view"])) for row in members],
            }
            for name, x in seen.items():
                ranks = rankdata(x)
                if len(members) > 2 and np.ptp(ranks) and np.ptp(speedup):
                    values[name].append(float(np.corrcoef(ranks, speedup)[0, 1]))
        if by_task:
            rows.append({"split": split, "tasks": len(by_task), **{n: _mean(v) for n, v in values.items()}})
    return rows


def _mean(values: Sequence[float]) -> float | None:
    return float(np.mean(values)) if values else None


def _log2_sd(rows: Sequence[Row]) -> np.ndarray[Any, np.dtype[np.float64]]:
    low = np.array([row["speedup_low"] for row in rows], dtype=float)
    high = np.array([row["speedup_high"] for row in rows], dtype=float)
    sd: np.ndarray[Any, np.dtype[np.float64]] = np.log2(high / low) / (2 * 1.959963984540054)
    return sd


def _label_noise(tables: Tables) -> Row:
    """How wide the intervals are, and whether repeated programs and repeated measurements agree with them."""
    ok = {
        name: [row for row in tables[name] if row["speedup_low"] is not None]
        for name in ("kernels", "pairs", "same_program")
    }
    same = ok["same_program"]
    again = [row for row in ok["kernels"] if row["second_speedup"] is not None]
    result: Row = {
        "kernels_median_log2_sd": float(np.median(_log2_sd(ok["kernels"]))) if ok["kernels"] else None,
        "pairs_median_log2_sd": float(np.median(_log2_sd(ok["pairs"]))) if ok["pairs"] else None,
        "same_program": {"pairs": len(same), "log2_sd": None, "outside_interval": None, "called_changed": None},
        "second": {"kernels": len(again), "log2_rms_difference": None, "rms_z": None, "same_bin": None},
    }
    if same:
        logs = np.log2([row["speedup"] for row in same])
        result["same_program"] |= {
            "log2_sd": float(np.sqrt(np.mean(logs**2))),
            "outside_interval": float(np.mean([not r["speedup_low"] <= 1 <= r["speedup_high"] for r in same])),
            "called_changed": float(np.mean([r["changed"] for r in same])),
        }
    if again:
        from benchmark.bins import bin_of

        first = np.array([row["speedup"] for row in again])
        second = np.array([row["second_speedup"] for row in again])
        width = np.log2([row["second_speedup_high"] / row["second_speedup_low"] for row in again]) / (
            2 * 1.959963984540054
        )
        difference = np.log2(first) - np.log2(second)
        spread = np.sqrt(_log2_sd(again) ** 2 + width**2)
        result["second"] |= {
            "log2_rms_difference": float(np.sqrt(np.mean(difference**2))),
            "rms_z": float(np.sqrt(np.mean((difference / np.maximum(spread, 1e-12)) ** 2))),
            "same_bin": float(np.mean(bin_of(first) == bin_of(second))),
        }
    return result


def _unresolved(pairs: Sequence[Row]) -> list[Row]:
    rows = []
    for split in SPLITS:
        ok = [row for row in pairs if row["split"] == split and row["resolved_141"] is not None]
        if ok:
            shares = {t: float(np.mean([not row[f"resolved_{t}"] for row in ok])) for t in TAUS}
            rows.append(
                {"split": split, "pairs": len(ok), **shares, "changed": float(np.mean([r["changed"] for r in ok]))}
            )
    return rows


def _composition(pairs: Sequence[Row]) -> list[Row]:
    """The largest share that one class, operator or task has of the test pairs, and of the resolved discoveries."""
    groups = {
        "pairs": list(pairs),
        "discoveries": [p for p in pairs if p["resolved_141"] and p["speedup"] > TAUS["141"]],
    }
    rows = []
    for name, members in groups.items():
        for column, cap in CAPS.items():
            counts = Counter(str(member[column]) for member in members)
            if counts:
                largest, n = max(counts.items(), key=lambda item: (item[1], item[0]))
                share = n / len(members)
                rows.append(
                    {"of": name, "rows": len(members), "by": column, "largest": largest, "share": share, "cap": cap,
                     "within": share <= cap}
                )  # fmt: skip
    return rows


def _balance(kernels: Sequence[Row]) -> list[Row]:
    by_task: dict[tuple[str, str], list[Row]] = defaultdict(list)
    for row in kernels:
        by_task[row["task"], row["split"]].append(row)
    order = {split: place for place, split in enumerate(SPLITS)}
    rows = []
    for (task, split), members in sorted(by_task.items(), key=lambda item: (item[0][0], order[item[0][1]])):
        status = Counter(row["status"] for row in members)
        bins = Counter(row["bin"] for row in members)
        rows.append(
            {"task": task, "split": split, "rows": len(members),
             "status": {s: status[s] for s in STATUSES if status[s]}, "bins": [bins[b] for b in BINS]}
        )  # fmt: skip
    return rows
