"""`kernelcast score`: every figure of a forecast file or a submission folder, and its place on the table."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

if TYPE_CHECKING:
    from benchmark.scoring import ScoreResult


@dataclass(frozen=True)
class Scored:
    """Forecast files by track, what is known about them, and their scores on each split."""

    files: Mapping[str, Path]
    manifest: Mapping[str, str]
    results: Sequence[ScoreResult]


def score(
    path: Annotated[Path, typer.Argument(help="A forecast file, or a submission folder.")],
    track: Annotated[str | None, typer.Option("--track", help="pairs or pool; by default what the file says.")] = None,
    split: Annotated[str | None, typer.Option("--split", help="One split; by default the test splits.")] = None,
    dataset: Annotated[str | None, typer.Option("--dataset", help="By default what the file says.")] = None,
    resamples: Annotated[int, typer.Option("--resamples", min=0, help="Bootstrap resamples.")] = 2000,
    seed: Annotated[int, typer.Option("--seed", help="Seed of the bootstrap.")] = 0,
    as_json: Annotated[bool, typer.Option("--json", help="Print one JSON object.")] = False,
) -> None:
    """Score a forecast file or a submission folder: all figures, by task, and its place on the table."""
    from benchmark.query import TEST_SPLITS
    from harness.cli.console import print_json
    from harness.cli.standing import places, table_with

    files, manifest = _from_folder(path) if path.is_dir() else _from_file(path, track, dataset)
    wanted = {name: file for name, file in files.items() if track in (None, name)}
    if not wanted:
        raise ValueError(f"{path} has no forecasts for track '{track}'; it has {', '.join(files)}")
    splits = [split] if split else list(TEST_SPLITS)
    scored = Scored(wanted, manifest, _results(wanted, manifest, splits, resamples, seed))
    rank, lines = {}, []
    if all(result.split in TEST_SPLITS for result in scored.results):
        table = table_with(wanted, manifest, resamples, seed)
        own = [row for row in table["rows"] if row["name"] == manifest["name"]]
        rank = {(row["track"], row["split"]): row["rank"] for row in own}
        lines = places(table, {(result.track, result.split) for result in scored.results})
    if as_json:
        print_json({"rows": [_row(r, rank.get((r.track, r.split))) for r in scored.results]})
        return
    for result in scored.results:
        _print(result)
    print("\n".join(lines))


def _from_folder(folder: Path) -> tuple[dict[str, Path], dict[str, str]]:
    from leaderboard.submission import read_submission

    entry = read_submission(folder.resolve())
    names = ("name", "kind", "information", "description", "command", "dataset", "training_data", "status", "reason")
    values = {name: getattr(entry, name) for name in names}
    return entry.files, {name: value for name, value in values.items() if value is not None}


def _from_file(path: Path, track: str | None, dataset: str | None) -> tuple[dict[str, Path], dict[str, str]]:
    from benchmark.data_access import DEFAULT_DATASET
    from benchmark.forecasts import read_forecasts
    from harness.cli.standing import submission_name
    from harness.surrogates.submission import KINDS

    metadata = read_forecasts(path, dataset=dataset, track=track).metadata
    track = track or metadata.get("track")
    if track is None:
        raise ValueError(f"{path} does not say which track it is for; give --track")
    surrogate = metadata.get("surrogate", path.stem)
    kind = KINDS.get(surrogate, "surrogate")
    return {track: path}, {
        "name": submission_name(surrogate),
        "kind": kind,
        "information": "measured" if kind == "oracle" else "source",
        "description": str(path),
        "command": f"kernelcast score {path}",
        "dataset": dataset or metadata.get("dataset") or DEFAULT_DATASET,
        "training_data": "not stated",
        "status": "recomputed",
    }


def _results(
    files: Mapping[str, Path], manifest: Mapping[str, str], splits: Sequence[str], resamples: int, seed: int
) -> list[ScoreResult]:
    """Score each file on those of the splits that it has forecasts of."""
    from benchmark.data_access import load_labels
    from benchmark.forecasts import read_forecasts
    from benchmark.query import SPLITS
    from benchmark.scoring import check_track, labels_by_split, score_labels

    dataset = manifest["dataset"]
    results, found = [], []
    for track, file in files.items():
        check_track(track)
        load_labels(track, splits[0], dataset=dataset)  # an unknown dataset, track or split is an error, not no rows
        every = labels_by_split(track, dataset, SPLITS)
        known = {i for labels in every.values() for i in labels.query_id.tolist()}
        forecasts = read_forecasts(file, known, dataset=dataset, track=track)
        ids = set(forecasts.query_id.tolist())
        covered = [split for split, labels in every.items() if not ids.isdisjoint(labels.query_id.tolist())]
        found.append(f"{file} has forecasts of {', '.join(covered)}")
        results += [
            score_labels(forecasts, every[split], track, split, dataset, resamples, seed, manifest["name"])
            for split in splits
            if split in covered
        ]
    if not results:
        wanted = " or ".join(splits)
        advice = f"give --split {covered[0]}, or use `kernelcast forecast --split {splits[0]} --out`"
        raise ValueError(f"{'; '.join(found)}; none of {wanted}: {advice}")
    return results


def _row(result: ScoreResult, rank: int | None) -> dict[str, Any]:
    tasks = {task: {m: v.to_dict() for m, v in values.items()} for task, values in result.per_task.items()}
    return {**result.to_dict(rank), "per_task": tasks}


def _print(result: ScoreResult) -> None:
    from benchmark.metrics.catalogue import METRICS
    from harness.cli.console import print_table
    from harness.cli.standing import text_of
    from leaderboard.table import COLUMNS

    queries = f"{result.queries} queries" + (f", {result.repeats} repeats" if result.repeats > 1 else "")
    print(f"{result.name}: {result.dataset}, track {result.track}, split {result.split}; {queries}, ", end="")
    print(f"{result.coverage:.1%} answered")
    catalogue = METRICS[result.track]
    print_table(
        ["metric", "value [95% interval]", "meaning"],
        [[name, text_of(value.to_dict()), catalogue[name].title] for name, value in result.metrics.items()],
    )
    columns = COLUMNS[result.track]
    print()
    print_table(
        ["task", *columns],
        [[task, *(_short(values[m].value) for m in columns)] for task, values in result.per_task.items()],
    )
    print()


def _short(value: float | None) -> str:
    return "-" if value is None else f"{value:.3f}"
