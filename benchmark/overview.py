"""What a dataset holds: rows, outcomes, bins, discoveries and sizes, by table and split."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from benchmark.bins import BINS
from benchmark.data_access import DEFAULT_DATASET, load_manifest, load_table
from benchmark.records import TAUS
from benchmark.release_counts import release_counts

if TYPE_CHECKING:
    import pyarrow as pa


def overview(dataset: str = DEFAULT_DATASET) -> dict[str, Any]:
    """Return counts and sizes of a dataset, one entry of `rows` per table and split.

    Entries of kernels and pairs add `ok_share` (of all rows) and `bins` (rows in each bin, 1 to 8); those of pairs
    `discoveries` (speedup over the parent above sqrt 2), `unresolved_share` (of the ok rows, interval includes sqrt 2)
    and `changed_share`. `counts` are those of `release_counts`. A share of nothing is null. Raises DataError for an
    unknown dataset.
    """
    manifest = load_manifest(dataset)
    rows: list[dict[str, Any]] = []
    gpus: set[str] = set()
    for relative, entry in manifest["files"].items():
        table, file = relative.split("/")
        split = file.split("-")[0]
        row: dict[str, Any] = {
            "table": table,
            "split": None if split == "all" else split,
            "rows": entry["rows"],
            "bytes": entry["bytes"],
        }
        if table == "kernels":
            data = load_table(table, split, dataset, ["status", "speedup", "bin", "gpu", "task"])
            gpus.update(data.column("gpu").to_pylist())
            row |= {"tasks": len(set(data.column("task").to_pylist())), **_outcomes(data, "status")}
        elif table == "pairs":
            columns = ["child_status", "speedup", "bin", "resolved_141", "changed", "task"]
            data = load_table(table, split, dataset, columns)
            row |= {"tasks": len(set(data.column("task").to_pylist())), **_outcomes(data, "child_status")}
            speedups = [s for s in data.column("speedup").to_pylist() if s is not None]
            resolved = [r for r in data.column("resolved_141").to_pylist() if r is not None]
            changed = [c for c in data.column("changed").to_pylist() if c is not None]
            row["discoveries"] = sum(s > TAUS["141"] for s in speedups)
            row["unresolved_share"] = _share(len(resolved) - sum(resolved), len(resolved))
            row["changed_share"] = _share(sum(changed), len(changed))
        rows.append(row)
    return {
        "dataset": manifest["dataset"],
        "schema_version": manifest["schema_version"],
        "gpus": sorted(gpus),
        "bytes": sum(entry["bytes"] for entry in manifest["files"].values()),
        "source": manifest.get("source", "measured"),
        "searches": len(manifest["logs"]),
        "dropped": [{k: v for k, v in entry.items() if k != "ids"} for entry in manifest["dropped"]],
        "counts": release_counts(dataset),
        "rows": rows,
    }


def _outcomes(data: pa.Table, status: str) -> dict[str, Any]:
    statuses = data.column(status).to_pylist()
    bins = data.column("bin").to_pylist()
    return {
        "ok_share": _share(statuses.count("ok"), len(statuses)),
        "bins": [bins.count(b) for b in BINS],
    }


def _share(part: int, whole: int) -> float | None:
    return part / whole if whole else None
