"""The revision of a dataset: a short name for exactly these questions and labels."""

from __future__ import annotations

import hashlib

from benchmark.data_access import DEFAULT_DATASET, load_manifest

TRUTH_TABLES = ("eval", "kernels", "nodes", "pairs", "tasks")


def dataset_revision(dataset: str = DEFAULT_DATASET) -> str:
    """Return 16 hex digits of the SHA-256 over the names and hashes of the tables that questions and labels come from.

    Raw samples and logs are left out: they may be packaged again without moving a label. Raises DataError for an
    unknown dataset.
    """
    files = load_manifest(dataset)["files"]
    truth = {name: entry.get("sha256", "") for name, entry in files.items() if name.split("/")[0] in TRUTH_TABLES}
    text = "".join(f"{name} {truth[name]}\n" for name in sorted(truth))
    return hashlib.sha256(text.encode()).hexdigest()[:16]
