"""Where a newcomer stands: the table of the committed submissions, with one more among them."""

from __future__ import annotations

import re
from collections.abc import Collection, Mapping
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any


def submission_name(expression: str) -> str:
    """Return the name that a surrogate's row gets when none is asked for."""
    return re.sub(r"[^\w.=+-]+", "-", expression).strip("-._") or "newcomer"


def table_with(
    files: Mapping[str, Path],
    manifest: Mapping[str, str],
    resamples: int,
    seed: int = 0,
    submissions: Path | None = None,
) -> dict[str, Any]:
    """Return the leaderboard's table with a newcomer, in place of a committed submission of its name.

    `files` are its forecast files by track, `manifest` the fields of its `submission.yaml`. Only those tracks are in
    the table; its name is under `newcomer`.
    """
    import yaml

    from leaderboard.submission import MANIFEST, SUBMISSIONS, find_submissions
    from leaderboard.table import build_table

    with TemporaryDirectory(prefix="kernelcast-") as temporary:
        folder = Path(temporary)
        for other in find_submissions(submissions or SUBMISSIONS):
            if other.name != manifest["name"]:
                (folder / other.name).symlink_to(other.folder.resolve(), target_is_directory=True)
        own = folder / manifest["name"]
        own.mkdir()
        (own / MANIFEST).write_text(yaml.safe_dump(dict(manifest)), encoding="utf-8")
        for track, path in files.items():
            (own / f"{track}.parquet").symlink_to(path.resolve())
        table = build_table(manifest["dataset"], resamples, seed, folder, list(files))
    return {**table, "newcomer": manifest["name"]}


def places(table: Mapping[str, Any], wanted: Collection[tuple[str, str]] | None = None) -> list[str]:
    """Return one line for each track and split (of those wanted, if given): the newcomer's rank and headline figure."""
    lines = []
    for row in table["rows"]:
        if row["name"] != table["newcomer"] or (wanted and (row["track"], row["split"]) not in wanted):
            continue
        headline = table["headlines"][row["track"]]
        figure = row["metrics"][headline]
        same = [r for r in table["rows"] if (r["track"], r["split"]) == (row["track"], row["split"])]
        ranked = sum(r["rank"] is not None for r in same)
        rank = f"rank {row['rank']} of {ranked}" if row["rank"] is not None else f"not ranked: {row['unranked']}"
        lines.append(f"{row['name']}, {row['track']}, {row['split']}: {rank}; {headline} {text_of(figure)}")
    return lines


def text_of(figure: Mapping[str, Any]) -> str:
    """Return a figure with its interval, or why there is none."""
    if figure["value"] is None:
        return f"undefined ({figure['reason']})"
    interval = f" [{figure['low']:.3f}, {figure['high']:.3f}]" if figure["low"] is not None else ""
    return f"{figure['value']:.3f}{interval}"
