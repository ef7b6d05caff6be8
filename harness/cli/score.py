"""`kernelcast score`: every figure of a forecast file or a submission folder, and its place on the table."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

if TYPE_CHECKING:
    from benchmark.answers import Labels
    from benchmark.forecasts import Forecasts
    from benchmark.scoring import ScoreResult
    from leaderboard.weakness import Weakness


@dataclass(frozen=True)
class Scored:
    """The forecasts and labels of one track and split, their scores, and what costs most."""

    forecasts: Forecasts
    labels: Labels
    result: ScoreResult
    weakness: Weakness

    @property
    def place(self) -> tuple[str, str]:
        """The track and split."""
        return self.result.track, self.result.split


def score(
    path: Annotated[Path, typer.Argument(help="A forecast file, or a submission folder.")],
    track: Annotated[str | None, typer.Option("--track", help="pairs or pool; by default what the file says.")] = None,
    split: Annotated[str | None, typer.Option("--split", help="One split; by default the test splits.")] = None,
    dataset: Annotated[str | None, typer.Option("--dataset", help="By default what the file says.")] = None,
    figures: Annotated[Path | None, typer.Option("--figures", help="Write the figures to this folder.")] = None,
    resamples: Annotated[int, typer.Option("--resamples", min=0, help="Bootstrap resamples.")] = 2000,
    seed: Annotated[int, typer.Option("--seed", help="Seed of the bootstrap.")] = 0,
    alone: Annotated[bool, typer.Option("--alone", help="Leave out the others: faster, and without a place.")] = False,
    overwrite: Annotated[bool, typer.Option("--overwrite", help="Replace figures that exist.")] = False,
    as_json: Annotated[bool, typer.Option("--json", help="Print one JSON object.")] = False,
    quiet: Annotated[bool, typer.Option("--quiet", help="No messages.")] = False,
) -> None:
    """Score a forecast file or a submission folder: all figures, by task, what it does worst, and its place."""
    from benchmark.query import TEST_SPLITS
    from harness.cli.console import print_json, require_new
    from harness.cli.standing import board_with, places
    from leaderboard.render import render
    from leaderboard.table import table_of
    from leaderboard.weakness import behind

    if figures is not None:
        require_new(figures, overwrite, folder=True, option="--figures")
    files, manifest = _from_folder(path) if path.is_dir() else _from_file(path, track, dataset)
    wanted = {name: file for name, file in files.items() if track in (None, name)}
    if not wanted:
        raise ValueError(f"{path} has no forecasts for track '{track}'; it has {', '.join(files)}")
    splits = [split] if split else list(TEST_SPLITS)
    found = _scored(wanted, manifest, splits, resamples, seed)
    table: dict[str, Any] = {"rows": [], "retracted": []}
    rivals: dict[tuple[str, str], list[ScoreResult]] = {}
    if not alone and all(one.result.split in TEST_SPLITS for one in found):
        board = board_with(wanted, manifest, resamples, seed)
        shown = {one.place for one in found}
        table = {**table_of(board), "newcomer": manifest["name"]}
        table["rows"] = [row for row in table["rows"] if (row["track"], row["split"]) in shown]
        ranked = {(r["track"], r["split"], r["name"]) for r in table["rows"] if r["rank"] is not None}
        rivals = {place: [r for name, r in board.results[place].items() if (*place, name) in ranked] for place in shown}
    lags = {one.place: behind(one.result, rivals.get(one.place, [])) for one in found}
    written = _draw(found, figures, quiet) if figures is not None else []
    if as_json:
        own = {(r["track"], r["split"]): r["rank"] for r in table["rows"] if r["name"] == manifest["name"]}
        rows = [_row(one, own.get(one.place), lags[one.place]) for one in found]
        print_json({"rows": rows, "figures": [str(file) for file in written]})
        return
    for one in found:
        _print(one, lags[one.place])
    if table["rows"]:
        print(render(table, mark=manifest["name"]))
        print("\n".join(places(table)))


def _from_folder(folder: Path) -> tuple[dict[str, Path], dict[str, str]]:
    from leaderboard.submission import read_submission

    submission = read_submission(folder.resolve(), in_place=False)
    return submission.files, submission.manifest


def _from_file(path: Path, track: str | None, dataset: str | None) -> tuple[dict[str, Path], dict[str, str]]:
    from benchmark.data_access import DEFAULT_DATASET
    from benchmark.forecasts import read_forecasts
    from benchmark.revision import dataset_revision
    from harness.cli.standing import submission_name
    from harness.surrogates.submission import KINDS
    from leaderboard.submission import MUST_BE_STATED, NOT_STATED

    metadata = read_forecasts(path, dataset=dataset, track=track).metadata
    track = track or metadata.get("track")
    if track is None:
        raise ValueError(f"{path} does not say which track it is for; give --track")
    surrogate = metadata.get("surrogate", path.stem)
    kind = KINDS.get(surrogate, "surrogate")
    name = dataset or metadata.get("dataset") or DEFAULT_DATASET
    return {track: path}, {
        "name": submission_name(surrogate),
        "kind": kind,
        "information": "measured" if kind == "oracle" else "source",
        "description": str(path),
        "command": f"kernelcast score {path}",
        "dataset": name,
        "revision": dataset_revision(name),
        **{field: NOT_STATED for field in MUST_BE_STATED},
        "status": "recomputed",
    }


def _scored(
    files: Mapping[str, Path], manifest: Mapping[str, str], splits: Sequence[str], resamples: int, seed: int
) -> list[Scored]:
    """Score each file on those of the splits that it has forecasts of."""
    from benchmark.data_access import load_labels
    from benchmark.forecasts import read_forecasts
    from benchmark.query import SPLITS
    from benchmark.scoring import check_track, labels_by_split, score_labels
    from leaderboard.weakness import weakness

    dataset = manifest["dataset"]
    found, has, covered = [], [], [""]
    for track, file in files.items():
        check_track(track)
        load_labels(track, splits[0], dataset=dataset)  # an unknown dataset, track or split is an error, not no rows
        every = labels_by_split(track, dataset, SPLITS)
        known = {i for labels in every.values() for i in labels.query_id.tolist()}
        forecasts = read_forecasts(file, known, dataset=dataset, track=track)
        ids = set(forecasts.query_id.tolist())
        covered = [split for split, labels in every.items() if not ids.isdisjoint(labels.query_id.tolist())]
        has.append(f"{file} has forecasts of {', '.join(covered)}")
        for split in (one for one in splits if one in covered):
            truth = every[split]
            result = score_labels(forecasts, truth, track, split, dataset, resamples, seed, manifest["name"])
            found.append(Scored(forecasts, truth, result, weakness(forecasts, truth)))
    if not found:
        wanted = " or ".join(splits)
        advice = f"give --split {covered[0]}, or use `kernelcast forecast --split {splits[0]} --out`"
        raise ValueError(f"{'; '.join(has)}; none of {wanted}: {advice}")
    return found


def _draw(found: Sequence[Scored], folder: Path, quiet: bool) -> list[Path]:
    """Write the figures of each track and split; return the files."""
    from harness.cli.console import say
    from leaderboard.charts import charts_of
    from leaderboard.figures import write_figures

    written: list[Path] = []
    for one in found:
        track, split = one.place
        charts = charts_of(one.forecasts, one.labels, track)
        written += write_figures(charts, folder, f"{track}-{split}", f"{one.result.name}, {track}, {split}")
        for chart in charts:
            if not chart.curves:
                say(f"{track}, {split}, {chart.key}: {chart.note}", quiet)
    say(f"wrote {len(written)} figures to {folder}", quiet)
    return written


def _row(one: Scored, rank: int | None, lags: Sequence[Mapping[str, Any]]) -> dict[str, Any]:
    tasks = {task: {m: v.to_dict() for m, v in values.items()} for task, values in one.result.per_task.items()}
    worst = {**one.weakness.to_dict(), "behind": list(lags)}
    return {**one.result.to_dict(rank), "per_task": tasks, "worst": worst}


def _print(one: Scored, lags: Sequence[Mapping[str, Any]]) -> None:
    from benchmark.metrics.catalogue import METRICS
    from harness.cli.console import print_table
    from leaderboard.notation import number, share, with_reason
    from leaderboard.table import COLUMNS

    result = one.result
    queries = f"{result.queries} queries" + (f", {result.repeats} repeats" if result.repeats > 1 else "")
    print(f"{result.name}: {result.dataset}, track {result.track}, split {result.split}; {queries}, ", end="")
    print(f"{share(result.coverage)} answered")
    catalogue = METRICS[result.track]
    print_table(
        ["metric", "value [95% interval]", "meaning"],
        [[name, with_reason(value.to_dict()), catalogue[name].title] for name, value in result.metrics.items()],
    )
    columns = COLUMNS[result.track]
    print()
    print_table(
        ["task", *columns],
        [[task, *(number(values[m].value) for m in columns)] for task, values in result.per_task.items()],
    )
    print()
    _print_worst(one.weakness, lags)
    print()


def _print_worst(worst: Weakness, lags: Sequence[Mapping[str, Any]]) -> None:
    from benchmark.bins import LABELS
    from harness.cli.console import print_table
    from leaderboard.notation import number, share

    def bias(value: float | None) -> str:
        return "-" if value is None else f"{value:+.2f} bins"

    for what, parts in (("task", worst.tasks), ("class of edits", worst.classes)):
        if parts:
            print_table(
                [f"worst {what}", "rows", worst.loss, "share of it", "forecast - truth"],
                [[p.name, str(p.rows), number(p.loss), share(p.share), bias(p.bias)] for p in parts],
            )
            print()
    if worst.misses:
        print_table(
            ["worst forecasts", "task", worst.loss, "forecast", "measured"],
            [
                [m.query_id, m.task, number(m.loss), "no answer" if m.forecast_bin is None
                 else f"{m.probability:.2f} on {LABELS[m.forecast_bin - 1]}", f"S = {m.speedup:.3f}"]
                for m in worst.misses
            ],
        )  # fmt: skip
    if lags:
        print()
        print_table(
            ["furthest behind in", "value", "best", "by"],
            [[lag["metric"], number(lag["value"]), number(lag["best"]), lag["by"]] for lag in lags],
        )
