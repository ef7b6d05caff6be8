"""What `forecast` does with `--batch-export` and `--batch-import`: the prompts and the answers travel as files."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

from harness.cli.console import print_json, say

if TYPE_CHECKING:
    from benchmark.query import Query, Surrogate
    from harness.surrogates.spec import SurrogateSpec


def export(
    spec: SurrogateSpec, track: str, split: str, dataset: str, limit: int | None, path: Path, overwrite: bool,
    as_json: bool, quiet: bool,
) -> None:  # fmt: skip
    """Write the prompts of a track and split. Raises ValueError for a surrogate that has none."""
    from harness.surrogates.lm.batch_file import export_batch
    from harness.surrogates.spec import create

    model, queries = _remote(create(spec)), _queries(track, split, dataset, limit)
    export_batch(model, queries, path, overwrite)
    if as_json:
        print_json({"batch": str(path), "dataset": dataset, "track": track, "split": split, "queries": len(queries)})
    say(f"wrote {len(queries)} prompts to {path}; --batch-import reads the answers to them", quiet)


def imported(
    surrogate: Surrogate, track: str, split: str, dataset: str, limit: int | None, path: Path, quiet: bool
) -> Surrogate:
    """Return the answers in a file, in the place of the surrogate. Raises ValueError if none of them belongs here."""
    from harness.surrogates.lm.batch_file import ImportedAnswers

    answers = ImportedAnswers(_remote(surrogate), path)
    say(answers.require_match(_queries(track, split, dataset, limit)), quiet)
    return answers


def _remote(surrogate: Surrogate) -> Any:
    from harness.surrogates.lm.remote import RemoteModel

    if not isinstance(surrogate, RemoteModel):
        raise ValueError("--batch-export and --batch-import work with openai=MODEL?... and with no other surrogate")
    return surrogate


def _queries(track: str, split: str, dataset: str, limit: int | None) -> list[Query]:
    from benchmark.data_access import load_queries

    return load_queries(track, split, dataset)[:limit]
