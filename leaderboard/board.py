"""The board: every submission of a dataset read, checked and scored; what table, site and comparisons are made of."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from benchmark.answers import Labels
from benchmark.data_access import DEFAULT_DATASET, available_tracks
from benchmark.forecasts import ForecastError, Forecasts, read_forecasts
from benchmark.revision import dataset_revision
from benchmark.scoring import ScoreResult, labels_by_split, score_labels
from leaderboard.submission import SUBMISSIONS, Skipped, Submission, find_submissions, standing

RESAMPLES = 2000

Scored = Callable[[str, str], None]  # a submission's name, the track that is done


@dataclass(frozen=True)
class Entry:
    """A submission with its forecasts by track."""

    submission: Submission
    forecasts: Mapping[str, Forecasts]


@dataclass(frozen=True)
class Board:
    """Everything that is shown: labels by track and split, and the results there by submission.

    `entries` holds the submissions that some view shows, by name; `retracted` those that none does.
    """

    dataset: str
    revision: str
    resamples: int
    seed: int
    labels: Mapping[str, Mapping[str, Labels]]
    entries: Mapping[str, Entry]
    retracted: Sequence[Submission]
    results: Mapping[tuple[str, str], Mapping[str, ScoreResult]]

    @property
    def places(self) -> Iterator[tuple[str, str]]:
        """Every track and split, in the order in which they are shown."""
        return ((track, split) for track, splits in self.labels.items() for split in splits)


def score_board(
    dataset: str = DEFAULT_DATASET,
    resamples: int = RESAMPLES,
    seed: int = 0,
    submissions: Path = SUBMISSIONS,
    tracks: Iterable[str] | None = None,
    scored: Scored | None = None,
    skipped: Skipped | None = None,
) -> Board:
    """Read and score every submission of a dataset that has not been retracted, on all tracks or on some.

    `scored` is called with each submission's name and track once it is done. The first submission that breaks the rules
    raises SubmissionError or ForecastError, unless `skipped` is given: it is told the name and what is wrong, and the
    board is made of the others.
    """
    labels = {track: labels_by_split(track, dataset) for track in tracks or available_tracks(dataset)}
    found = [s for s in find_submissions(submissions, skipped) if s.dataset == dataset]
    entries = read_entries([s for s in found if standing(s).group is not None], labels, skipped)
    results: dict[tuple[str, str], dict[str, ScoreResult]] = {
        (track, split): {} for track, splits in labels.items() for split in splits
    }
    for name, entry in entries.items():
        for track, forecasts in entry.forecasts.items():
            for split, truth in labels[track].items():
                result = score_labels(forecasts, truth, track, split, dataset, resamples, seed, name)
                results[track, split][name] = result
            if scored:
                scored(name, track)
    return Board(
        dataset=dataset,
        revision=dataset_revision(dataset),
        resamples=resamples,
        seed=seed,
        labels=labels,
        entries=entries,
        retracted=[s for s in found if standing(s).group is None],
        results=results,
    )


def read_entries(
    submissions: Sequence[Submission], labels: Mapping[str, Mapping[str, Labels]], skipped: Skipped | None = None
) -> dict[str, Entry]:
    """Return submissions with their forecasts by name; one with a broken file raises, or is skipped as a whole."""
    known = {track: {i for one in splits.values() for i in one.query_id.tolist()} for track, splits in labels.items()}
    found = {}
    for submission in submissions:
        files = {track: path for track, path in submission.files.items() if track in labels}
        try:
            forecasts = {
                track: read_forecasts(path, known[track], dataset=submission.dataset, track=track)
                for track, path in files.items()
            }
        except (ForecastError, OSError) as error:
            if skipped is None:
                raise
            skipped(submission.name, str(error))
            continue
        found[submission.name] = Entry(submission, forecasts)
    return found
