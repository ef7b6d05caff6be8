"""`kernelcast forecast`: a surrogate's forecasts of one track and split, as a file."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any

import typer

SURROGATE_HELP = (
    "NAME, module:Class, trained=DIR, openai=MODEL, hf=DIR, gguf=FILE or WRAPPER(SURROGATE,...), each with options "
    "?key=value&... of its own. Wrappers, to any depth: recalibrated(X)?method=temperature|isotonic, "
    "ensemble(X,Y,...)?weights=equal|fitted, repeated(X)?n=3, swapped(X). Quote it: the shell reads ?, & and ()."
)
BATCH_HELP = "Queries given at a time; by default what the surrogate declares, else 64."
CONCURRENCY_HELP = "Calls at the same time, for a surrogate that takes several; by default what it declares."
TIMEOUT_HELP = "Seconds that one call may take; a query that takes longer is an error. 0 is no limit."
CACHE_HELP = "Keep the answers in this folder, over runs; by default beside --out until the run is complete."
SAVE_HELP = "Save the fitted surrogate in this new folder; trained=DIR uses it."
EXPORT_HELP = "Ask nothing: write the prompts of openai=MODEL to this file, in the OpenAI batch format (JSONL)."
IMPORT_HELP = "Ask nothing: read the answers to such prompts from this file, matched by custom_id."
TIMEOUT_S = 600.0


def forecast(
    surrogate: Annotated[str, typer.Argument(help=SURROGATE_HELP)],
    track: Annotated[str, typer.Option("--track", help="pairs, eval or pool.")],
    out: Annotated[Path | None, typer.Option("--out", help="The Parquet file to write.")] = None,
    split: Annotated[str, typer.Option("--split", help="train, validation, test or test_unseen_task.")] = "test",
    dataset: Annotated[str | None, typer.Option("--dataset", help="The dataset; by default the newest.")] = None,
    batch: Annotated[int | None, typer.Option("--batch", min=1, help=BATCH_HELP)] = None,
    concurrency: Annotated[int | None, typer.Option("--concurrency", min=1, help=CONCURRENCY_HELP)] = None,
    timeout: Annotated[float, typer.Option("--timeout", min=0.0, help=TIMEOUT_HELP)] = TIMEOUT_S,
    cache: Annotated[Path | None, typer.Option("--cache", help=CACHE_HELP)] = None,
    limit: Annotated[int | None, typer.Option("--limit", min=1, help="Only the first queries by id.")] = None,
    seed: Annotated[int | None, typer.Option("--seed", help="Passed to a surrogate that takes one.")] = None,
    save: Annotated[Path | None, typer.Option("--save", help=SAVE_HELP)] = None,
    batch_export: Annotated[Path | None, typer.Option("--batch-export", help=EXPORT_HELP)] = None,
    batch_import: Annotated[Path | None, typer.Option("--batch-import", help=IMPORT_HELP)] = None,
    overwrite: Annotated[bool, typer.Option("--overwrite", help="Replace the file if it exists.")] = False,
    as_json: Annotated[bool, typer.Option("--json", help="Print one JSON object.")] = False,
    quiet: Annotated[bool, typer.Option("--quiet", help="No messages, no progress.")] = False,
) -> None:
    """Write a surrogate's forecasts of one track and split to a file.

    Interrupted, the same command goes on where it stopped.
    """
    from benchmark.data_access import DEFAULT_DATASET
    from harness.cli.asking import Asked
    from harness.cli.console import print_json, require_new, say
    from harness.surrogates.run import Manner
    from harness.surrogates.spec import parse, seeded
    from harness.surrogates.submission import write

    spec = seeded(parse(surrogate), seed)
    if batch_export:
        from harness.cli.batch import export

        if out or batch_import or save:
            raise ValueError("--batch-export writes prompts, not forecasts; leave out --out, --batch-import and --save")
        export(spec, track, split, dataset or DEFAULT_DATASET, limit, batch_export, overwrite, as_json, quiet)
        return
    if out is None:
        raise ValueError("--out is missing: it names the Parquet file to write")
    require_new(out, overwrite)
    manner = Manner(batch, concurrency, timeout or None)
    asked = Asked(spec, dataset or DEFAULT_DATASET, manner, out, cache, save, quiet)
    if batch_import:
        from harness.cli.batch import imported

        asked.surrogate = imported(asked.surrogate, track, split, asked.dataset, limit, batch_import, quiet)
    with asked.answers({track: [split]}, limit) as answers:
        (answered,) = answers
        if answered.n_ok:
            write(answered, spec, out, spec.target, overwrite)
        if as_json:
            print_json(_report(answered, split, out))
        if not answered.n_ok:
            say("no query was answered, so that no file was written")
            raise typer.Exit(1)
        say(f"wrote {out}", quiet)


def _report(answered: Any, split: str, out: Path) -> dict[str, Any]:
    return {
        "out": str(out) if answered.n_ok else None,
        "dataset": answered.dataset,
        "track": answered.track,
        "split": split,
        "queries": len(answered.queries),
        "answered": answered.n_ok,
        "answered_before": answered.n_kept,
        "seconds": round(answered.seconds, 3),
        "input_tokens": answered.tokens[0],
        "output_tokens": answered.tokens[1],
        "problems": dict(answered.problems),
    }
