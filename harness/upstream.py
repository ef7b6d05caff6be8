"""Where the release of the paper is: on the Hub, or in folders that lie side by side."""

from __future__ import annotations

from pathlib import Path

from benchmark.upstream.release import OWNER, TABLES
from harness.hub import fetch


def release_folders(source: str, revision: str | None = None) -> dict[str, Path]:
    """Return the folder of each dataset of the release: fetched from the Hub (`hub`), else below the folder `source`.

    Raises FileNotFoundError for a folder that is not there, TransferError for a fetch that failed.
    """
    if source == "hub":
        return {name: fetch(f"{OWNER}/{table.dataset}", revision) for name, table in TABLES.items()}
    root = Path(source)
    if not root.is_dir():
        names = ", ".join(table.dataset for table in TABLES.values())
        raise FileNotFoundError(f"{root}: no such folder; expected one that holds {names}")
    return {name: root / table.dataset for name, table in TABLES.items()}
