"""`kernelcast compare`: paired differences between two submissions, metric by metric and task by task."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from difflib import get_close_matches
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

if TYPE_CHECKING:
    from benchmark.answers import Labels
    from benchmark.comparison import Difference
    from benchmark.forecasts import Forecasts
    from benchmark.scoring import ScoreResult

Files = Mapping[str, Path]


@dataclass(frozen=True)
class Compared:
    """Two scored submissions on one track and split, and their differences: of the means over tasks, and by task."""

    first: ScoreResult
    second: ScoreResult
    overall: Sequence[Difference]
    by_task: Sequence[Difference]


def compare(
    first: Annotated[str, typer.Argument(help="A committed submission's name, or a file or folder.")],
    second: Annotated[str, typer.Argument(help="The one to compare it with, likewise.")],
    track: Annotated[str | None, typer.Option("--track", help="One track; by default all that both have.")] = None,
    split: Annotated[str | None, typer.Option("--split", help="One split; by default the test splits.")] = None,
    dataset: Annotated[str | None, typer.Option("--dataset", help="By default what the files say.")] = None,
    resamples: Annotated[int, typer.Option("--resamples", min=0, help="Bootstrap resamples.")] = 2000,
    seed: Annotated[int, typer.Option("--seed", help="Seed of the bootstrap.")] = 0,
    as_json: Annotated[bool, typer.Option("--json", help="Print one JSON object.")] = False,
    quiet: Annotated[bool, typer.Option("--quiet", help="No messages, no progress.")] = False,
) -> None:
    """Compare two submissions: paired differences with 95% intervals and p-values, per metric and task."""
    from benchmark.query import TEST_SPLITS
    from harness.cli.console import print_json, progress

    files = _files_of(first, track), _files_of(second, track)
    shared = [name for name in files[0] if name in files[1]]
    if not shared:
        has = [f"{name} has {', '.join(found)}" for name, found in zip((first, second), files, strict=True)]
        raise ValueError(f"no track in common: {'; '.join(has)}")
    splits = [split] if split else list(TEST_SPLITS)
    names = _short_names(first, second)
    with progress("scoring", 2 * len(shared), quiet) as advance:
        found = []
        for name in shared:
            pair = (files[0][name], files[1][name])
            found += list(_compared(pair, names, name, splits, dataset, resamples, seed))
            advance(2)
    if as_json:
        print_json(_json(found))
    else:
        for one in found:
            _print(one)


def _short_names(first: str, second: str) -> tuple[str, str]:
    """Return what the two are called in the output: the last part of a path, or all of it where that is the same."""
    short = Path(first).name.removesuffix(".parquet"), Path(second).name.removesuffix(".parquet")
    return short if short[0] != short[1] else (first, second)


def _files_of(name: str, track: str | None) -> dict[str, Path]:
    """Return the forecast files by track. Raises ValueError, naming what there is, for anything else."""
    from benchmark.query import OFFLINE_TRACKS

    if track is not None and track not in OFFLINE_TRACKS:
        raise ValueError(f"track '{track}' is not scored from forecasts; expected one of {', '.join(OFFLINE_TRACKS)}")
    path = _located(name)
    files = _in_folder(path) if path.is_dir() else {_track_of(path, track): path}
    wanted = {t: file for t, file in files.items() if track in (None, t)}
    if not wanted:
        raise ValueError(f"{name} has no forecasts for track '{track}'; it has {', '.join(files)}")
    return wanted


def _located(name: str) -> Path:
    from leaderboard.submission import SUBMISSIONS

    committed = SUBMISSIONS / name
    if Path(name).name == name and committed.is_dir():
        return committed
    if Path(name).exists():
        return Path(name)
    known = sorted(p.name for p in SUBMISSIONS.iterdir() if p.is_dir() and p.name[0] not in "._")
    close = get_close_matches(name, known, n=1)
    hint = f" (did you mean '{close[0]}'?)" if close else ""
    raise ValueError(f"'{name}' is no file, folder or committed submission{hint}; committed: {', '.join(known)}")


def _in_folder(folder: Path) -> dict[str, Path]:
    from benchmark.query import OFFLINE_TRACKS
    from leaderboard.submission import MANIFEST, read_submission, standing

    if (folder / MANIFEST).is_file():
        submission = read_submission(folder.resolve(), in_place=False)
        place = standing(submission)
        if place.group is None:
            raise ValueError(f"{folder.name} is not compared: {place.reason}")
        return submission.files
    files = {track: folder / f"{track}.parquet" for track in OFFLINE_TRACKS if (folder / f"{track}.parquet").is_file()}
    if not files:
        expected = ", ".join(f"{track}.parquet" for track in OFFLINE_TRACKS)
        raise ValueError(f"{folder} holds no forecasts; expected {MANIFEST} or one of {expected}")
    return files


def _track_of(path: Path, track: str | None) -> str:
    from benchmark.forecasts import read_forecasts

    found = read_forecasts(path, track=track).metadata.get("track") or track
    if found is None:
        raise ValueError(f"{path} does not say which track it is for; give --track")
    return found


def _compared(
    files: tuple[Path, Path],
    names: tuple[str, str],
    track: str,
    splits: Sequence[str],
    dataset: str | None,
    resamples: int,
    seed: int,
) -> Iterator[Compared]:
    """Yield the comparison on each split that both files have forecasts of."""
    from benchmark.comparison import differences, task_differences
    from benchmark.data_access import DEFAULT_DATASET
    from benchmark.forecasts import read_forecasts
    from benchmark.query import SPLITS
    from benchmark.scoring import labels_by_split, score_labels

    metadata = [read_forecasts(file, dataset=dataset, track=track).metadata for file in files]
    data = dataset or metadata[0].get("dataset") or metadata[1].get("dataset") or DEFAULT_DATASET
    every = labels_by_split(track, data, SPLITS)
    known = {i for labels in every.values() for i in labels.query_id.tolist()}
    forecasts = [read_forecasts(file, known, dataset=data, track=track) for file in files]
    covered = [_covered(f, every) for f in forecasts]
    both = [split for split in splits if split in covered[0] & covered[1]]
    if not both:
        has = [f"{file} has {', '.join(sorted(c)) or 'none'}" for file, c in zip(files, covered, strict=True)]
        raise ValueError(f"no forecasts of {' or '.join(splits)} in both: {'; '.join(has)}")
    for split in both:
        a, b = (
            score_labels(f, every[split], track, split, data, resamples, seed, name, keep_draws=True)
            for f, name in zip(forecasts, names, strict=True)
        )
        yield Compared(a, b, differences(a, b), task_differences(a, b))


def _covered(forecasts: Forecasts, labels: Mapping[str, Labels]) -> set[str]:
    ids = set(forecasts.query_id.tolist())
    return {split for split, one in labels.items() if not ids.isdisjoint(one.query_id.tolist())}


def _json(found: Sequence[Compared]) -> dict[str, Any]:
    rows = []
    for one in found:
        place = {"dataset": one.first.dataset, "track": one.first.track, "split": one.first.split}
        rows += [{**place, **d.to_dict()} for d in (*one.overall, *one.by_task)]
    first = found[0].first
    names = {"first": first.name, "second": found[0].second.name}
    return {**names, "resamples": first.resamples, "seed": first.seed, "rows": rows}


def _print(one: Compared) -> None:
    from benchmark.metrics.catalogue import HEADLINES, METRICS
    from harness.cli.console import print_table

    a, b = one.first, one.second
    print(f"{a.name} against {b.name}: {a.dataset}, track {a.track}, split {a.split}; {a.queries} queries, ", end="")
    print(f"answered {a.coverage:.1%} and {b.coverage:.1%}")
    headline, catalogue = HEADLINES[a.track], METRICS[a.track]
    shown = [d for d in one.overall if catalogue[d.metric].better != "none" and d.value is not None]
    header = [a.name, b.name, "difference [95% interval]", "p", "better"]
    rows = [[f"{d.metric} *" if d.metric == headline else d.metric, *_cells(d, a.name, b.name)] for d in shown]
    print_table(["metric", *header], rows)
    print()
    tasks = [d for d in one.by_task if d.metric == headline]
    print_table([f"task ({headline})", *header], [[d.task or "", *_cells(d, a.name, b.name)] for d in tasks])
    reasons = sorted({d.reason for d in (*shown, *tasks) if d.reason})
    print(f"* ranks. {a.resamples} cluster resamples, seed {a.seed}; each p-value stands for itself, without Holm.")
    for reason in reasons:
        print(f"Where there is no interval: {reason}.")
    print()


def _cells(d: Difference, first: str, second: str) -> list[str]:
    figures = ["-" if v is None else f"{v:.3f}" for v in (d.first, d.second)]
    if d.value is None:
        return [*figures, "-", "-", "-"]
    interval = f" [{d.low:+.3f}, {d.high:+.3f}]" if d.low is not None else ""
    better = "equal" if d.value == 0 else first if d.first_is_better else second
    return [*figures, f"{d.value:+.3f}{interval}", "-" if d.p_value is None else f"{d.p_value:.3f}", better]
