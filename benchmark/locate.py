"""Where a dataset stands: beside the package, in a folder that a variable names, or in the download cache."""

from __future__ import annotations

import json
import os
from collections.abc import Sequence
from difflib import get_close_matches
from pathlib import Path
from typing import Any

from benchmark.records import RecordError

DEFAULT_DATASET = "h200-v0"
ENVIRONMENT_VARIABLE = "KERNELCAST_DATA"
CACHE_VARIABLE = "KERNELCAST_CACHE"


class DataError(KeyError):
    """A dataset, table, split or track that does not exist; the message lists those that do."""

    def __str__(self) -> str:
        return str(self.args[0])


def unknown(what: str, name: str, known: Sequence[str], where: str = "") -> DataError:
    """Return the error that names what was asked for, the nearest name, and all that there are."""
    close = get_close_matches(name, known, n=1)
    hint = f" (did you mean '{close[0]}'?)" if close else ""
    return DataError(f"unknown {what} '{name}'{where}{hint}; expected one of: {', '.join(known) or 'none'}")


def data_root() -> Path:
    """Return the folder that holds the datasets: $KERNELCAST_DATA, else the one beside this module."""
    override = os.environ.get(ENVIRONMENT_VARIABLE)
    return Path(override) if override else Path(__file__).resolve().parent / "data"


def cache_root() -> Path:
    """Return the folder of downloaded datasets: $KERNELCAST_CACHE, else ~/.cache/kernelcast, and `data` in it."""
    override = os.environ.get(CACHE_VARIABLE)
    base = (
        Path(override) if override else Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "kernelcast"
    )
    return base / "data"


def dataset_names() -> tuple[str, ...]:
    """Return the names of the packaged datasets that can be loaded here."""
    roots = [root for root in (data_root(), cache_root()) if root.is_dir()]
    return tuple(sorted({p.parent.name for root in roots for p in root.glob("*/manifest.json")}))


def dataset_path(dataset: str = DEFAULT_DATASET) -> Path:
    """Return the folder of a dataset: beside the package, else in the download cache.

    Raises DataError, with the names that exist and the command that fetches it, if it is not there.
    """
    if Path(dataset).name == dataset:
        for root in (data_root(), cache_root()):
            if (root / dataset / "manifest.json").is_file():
                return root / dataset
    where = (
        f" in {data_root()} (`kernelcast data download` fetches it, or set {ENVIRONMENT_VARIABLE} to another folder)"
    )
    raise unknown("dataset", dataset, dataset_names(), where)


def table_file(dataset: str, relative: str) -> Path:
    """Return the file of a table: the wheel has no samples and events, which a download of the same dataset adds."""
    path = dataset_path(dataset) / relative
    downloaded = cache_root() / dataset / relative
    if path.is_file() or not downloaded.is_file():
        return path
    theirs = json.loads((cache_root() / dataset / "manifest.json").read_text(encoding="utf-8"))["files"]
    return downloaded if theirs.get(relative) == load_manifest(dataset)["files"].get(relative) else path


def load_manifest(dataset: str = DEFAULT_DATASET) -> dict[str, Any]:
    """Return the manifest of a dataset. Raises RecordError if it is not the JSON that packaging wrote."""
    path = dataset_path(dataset) / "manifest.json"
    try:
        manifest = json.loads(path.read_text(encoding="utf-8"))
        if isinstance(manifest["files"], dict) and all("rows" in entry for entry in manifest["files"].values()):
            return dict(manifest)
    except (ValueError, KeyError, TypeError) as error:
        raise RecordError(f"{path}: not a manifest ({error}); package the dataset again") from None
    raise RecordError(f"{path}: 'files' must give the rows of each file; package the dataset again")
