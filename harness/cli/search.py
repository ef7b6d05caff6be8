"""`kernelcast search`: run one search or a campaign, report on them, and ask a language model in a batch."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from harness.cli.group import Group

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from harness.search.campaign import Outcome

app = typer.Typer(
    cls=Group,
    help="Run kernel searches, replay them, and report on them.", no_args_is_help=True, add_completion=False,
    rich_markup_mode=None,
)  # fmt: skip
Out = Annotated[Path, typer.Option(help="Folder for the logs; a search that is there already is continued.")]
Backend = Annotated[
    str,
    typer.Option(help="cuda (local GPUs), ray (a cluster), cpu (interpreter, correctness only) or replay (a dataset)."),
]
Workers = Annotated[int, typer.Option(help="Kernels that are built and checked at once.")]
Isolation = Annotated[
    str, typer.Option(help="strict: a process for each kernel; shared: for kernels of the built-in mutator only.")
]
Gpus = Annotated[str | None, typer.Option(help="Numbers of GPUs as nvidia-smi gives them, or all.")]
Ray = Annotated[str, typer.Option(help="Address of the cluster of --backend ray.")]
TimeLimit = Annotated[float | None, typer.Option(help="Seconds after which no measurement is started any more.")]
Dataset = Annotated[
    str | None, typer.Option(help="What replay reads and surrogates are fitted on; by default the newest.")
]
Mutator = Annotated[str, typer.Option(help="source, or llm=MODEL?url=http://HOST/v1.")]
AtOnce = Annotated[int | None, typer.Option(help="Searches at the same time; by default all, of replays one.")]
Json = Annotated[bool, typer.Option("--json", help="Print one JSON object.")]
Quiet = Annotated[bool, typer.Option("--quiet", help="No progress on standard error.")]


@app.command()
def run(
    task: Annotated[str, typer.Option(help="Task to search.")],
    out: Out,
    split: Annotated[str | None, typer.Option(help="Split whose seeds start it; train, of a replay test.")] = None,
    arm: Annotated[str, typer.Option(help="gpu-only, speculative, filter, selective, random or oracle.")] = "gpu-only",
    surrogate: Annotated[str | None, typer.Option(help="Surrogate that the arm follows: NAME or module:Class.")] = None,
    budget: Annotated[int, typer.Option(help="Candidate measurements, the seeds included.")] = 64,
    seed: Annotated[int, typer.Option(help="Seed of the search.")] = 0,
    parents: Annotated[int, typer.Option(help="Parents of a step.")] = 2,
    children: Annotated[int, typer.Option(help="Children proposed for each of them.")] = 8,
    measured: Annotated[int, typer.Option(help="Of these, measured by arms that choose.")] = 2,
    backend: Backend = "cuda",
    workers: Workers = 8,
    isolation: Isolation = "strict",
    gpus: Gpus = None,
    ray: Ray = "auto",
    time_limit: TimeLimit = None,
    dataset: Dataset = None,
    mutator: Mutator = "source",
    as_json: Json = False,
    quiet: Quiet = False,
) -> None:
    """Search for fast kernels of one task; the same command continues an interrupted search."""
    from harness.search.launch import Options, run_single

    options = Options(out, backend, workers, isolation, gpus, ray, time_limit, dataset, mutator, quiet=quiet)
    outcomes = run_single(
        options, task=task, split=split or ("test" if backend == "replay" else "train"), arm=arm, surrogate=surrogate,
        budget=budget, seed=seed, parents_per_step=parents, children_per_parent=children, measured_per_parent=measured,
    )  # fmt: skip
    _finish(outcomes, as_json)


@app.command()
def campaign(
    file: Annotated[Path, typer.Argument(help="TOML file with tasks, splits, arms and budgets.")],
    out: Out,
    backend: Backend = "cuda",
    workers: Workers = 8,
    isolation: Isolation = "strict",
    gpus: Gpus = None,
    ray: Ray = "auto",
    time_limit: TimeLimit = None,
    dataset: Dataset = None,
    mutator: Mutator = "source",
    at_once: AtOnce = None,
    as_json: Json = False,
    quiet: Quiet = False,
) -> None:
    """Run the searches of a campaign side by side; the same command continues it."""
    from harness.search.launch import Options, run_file

    options = Options(out, backend, workers, isolation, gpus, ray, time_limit, dataset, mutator, at_once, quiet)
    _finish(run_file(options, file), as_json)


@app.command()
def second(
    raw: Annotated[Path, typer.Argument(help="Folder with SEARCH_ID/events.jsonl[.gz].")],
    out: Out,
    splits: Annotated[str, typer.Option(help="Splits to measure again, comma-separated.")] = "test,test_unseen_task",
    backend: Backend = "cuda",
    workers: Workers = 8,
    isolation: Isolation = "strict",
    gpus: Gpus = None,
    ray: Ray = "auto",
    time_limit: TimeLimit = None,
    as_json: Json = False,
    quiet: Quiet = False,
) -> None:
    """Measure the kernels of finished searches once more, for the noise ceiling; the same command continues."""
    from harness.cli.console import print_json
    from harness.search.launch import Options
    from harness.search.second import remeasure

    options = Options(out, backend, workers, isolation, gpus, ray, time_limit, quiet=quiet)
    done = remeasure(raw, [name.strip() for name in splits.split(",")], options)
    if as_json:
        print_json({"kernels": done.kernels, "measured": done.measured, "complete": not done.stopped})
    else:
        typer.echo(done.line())


@app.command()
def join(
    raw: Annotated[Path, typer.Argument(help="Folder with SEARCH_ID/events.jsonl[.gz].")],
    second: Annotated[Path, typer.Argument(help="Folder that `search second` filled.")],
    out: Annotated[Path, typer.Option(help="Folder for the joined logs, compressed.")],
) -> None:
    """Write the logs of searches with their second measurement appended."""
    from harness.destination import check_destination
    from harness.search.second import join_folder

    check_destination(out, folder=True)
    typer.echo(f"{join_folder(raw, second, out)} searches have a second measurement")


@app.command()
def report(
    folders: Annotated[list[Path], typer.Argument(metavar="DIR...", help="Folders of searches.")],
    out: Annotated[Path | None, typer.Option(help="Folder for report.html and figures as PNG.")] = None,
    overwrite: Annotated[bool, typer.Option("--overwrite", help="Replace the folder's report.")] = False,
    as_json: Json = False,
    quiet: Quiet = False,
) -> None:
    """Compare searches: best speedups with intervals over seeds, costs, and the share of good children by operator."""
    from harness.cli.console import print_json, print_table, require_new, say
    from harness.search.page import cell
    from harness.search.report import confirmations, find_runs, operators, rows_of

    if out is not None:
        require_new(out, overwrite, folder=True)
    runs = find_runs(folders)
    tables = {"rows": rows_of(runs), "confirmations": confirmations(runs), "operators": operators(runs)}
    if as_json:
        print_json(tables)
    else:
        for found in filter(None, tables.values()):
            header = [name.replace("_", " ") for name in found[0]]
            print_table(header, [[cell(name, value) for name, value in row.items()] for row in found])
            typer.echo()
    if out is not None:
        titles = {"rows": "Searches", "confirmations": "Confirmations in strict", "operators": "Operators"}
        _write_report(out, runs, {titles[name]: found for name, found in tables.items() if found}, quiet)
        say(f"wrote {out / 'report.html'}", quiet)


def _write_report(out: Path, runs: Sequence[Any], tables: Mapping[str, Sequence[Any]], quiet: bool) -> None:
    from harness.cli.console import progress
    from harness.search.figures import best_so_far, lineage
    from harness.search.page import page

    out.mkdir(parents=True, exist_ok=True)
    tasks = sorted({run.group[:2] for run in runs})
    figures: dict[str, bytes] = {}
    with progress("figures", len(tasks) + len(runs), quiet) as advance:
        for task, split in tasks:
            members = [run for run in runs if run.group[:2] == (task, split)]
            figures[f"{task} {split}: best speedup so far"] = best_so_far(f"{task}, {split}", members)
            advance(1)
        for run in runs:
            figures[f"{run.state.search_id}: lineage"] = lineage(run.state)
            advance(1)
    for caption, png in figures.items():
        (out / f"{caption.replace(': ', '-').replace(' ', '-')}.png").write_bytes(png)
    text = page("Kernel searches", tables, figures)
    (out / "report.html").write_text(text, encoding="utf-8")


@app.command("batch-export")
def batch_export(
    out: Annotated[Path, typer.Option(help="Folder of the batch, to be created.")],
    model: Annotated[str, typer.Option(help="Model that the requests name.")],
    task: Annotated[list[str] | None, typer.Option(help="Ask about the seeds of this task; repeatable.")] = None,
    split: Annotated[str, typer.Option(help="Split of the seeds.")] = "train",
    source: Annotated[list[Path] | None, typer.Option("--from", help="Ask about kernels of these searches.")] = None,
    parents: Annotated[int, typer.Option(min=1, help="Parents from each search.")] = 8,
    fastest: Annotated[bool, typer.Option("--fastest", help="The fastest ones, not some drawn at random.")] = False,
    children: Annotated[int, typer.Option(min=1, help="Requests for each parent.")] = 4,
    seed: Annotated[int, typer.Option(help="Seed of the draw.")] = 0,
    temperature: Annotated[float, typer.Option(help="Sampling temperature.")] = 1.0,
    max_tokens: Annotated[int, typer.Option(help="Limit of tokens of an answer.")] = 16384,
    hardware: Annotated[str, typer.Option(help="GPU that the prompt names.")] = "NVIDIA H200",
    as_json: Json = False,
) -> None:
    """Write prompts for faster kernels in the OpenAI batch format."""
    from harness.cli.console import print_json
    from harness.destination import check_destination
    from harness.search.batch import export, searched_parents, seed_parents
    from harness.search.mutate.llm import LlmOptions
    from harness.search.report import find_runs

    check_destination(out, folder=True)
    chosen = [parent for name in task or () for parent in seed_parents(name, split)]
    for run in find_runs(source or ()):
        chosen += searched_parents(run.state, parents, seed, fastest)
    if not chosen:
        raise ValueError("nothing to ask about: give --task for its seeds, or --from with folders of searches")
    options = LlmOptions(model, temperature=temperature, max_tokens=max_tokens, hardware=hardware)
    count = export(chosen, children, options, out)
    if as_json:
        print_json({"requests": count, "prompts": str(out / "prompts.jsonl")})
    else:
        typer.echo(f"{count} requests in {out / 'prompts.jsonl'}")


@app.command("batch-import")
def batch_import(
    folder: Annotated[Path, typer.Argument(help="Folder that `search batch-export` made.")],
    answers: Annotated[Path, typer.Argument(help="JSONL file of answers in the OpenAI batch format.")],
    backend: Backend = "cuda",
    workers: Workers = 8,
    gpus: Gpus = None,
    ray: Ray = "auto",
    time_limit: TimeLimit = None,
    as_json: Json = False,
    quiet: Quiet = False,
) -> None:
    """Measure the kernels in a batch's answers, each in a process of its own; the same command continues."""
    from harness.cli.console import print_json
    from harness.search.batch_run import import_batch
    from harness.search.launch import Options

    options = Options(folder, backend, workers, "strict", gpus, ray, time_limit, quiet=quiet)
    states = import_batch(folder, answers, options)
    rows = [
        {
            "search_id": s.search_id,
            "reason": s.completed,
            "measured": s.measured,
            "children": sum(node.origin == "llm" and node.step > 0 for node in s.nodes.values()),
            "rejected": s.costs.rejected,
            "tokens": s.costs.proposal_tokens,
        }
        for s in states
    ]
    if as_json:
        print_json({"rows": rows})
    else:
        for row in rows:
            typer.echo(", ".join(f"{name.replace('_', ' ')} {value}" for name, value in row.items()))


def _finish(outcomes: Sequence[Outcome], as_json: bool) -> None:
    from harness.cli.console import print_json
    from harness.search.launch import describe, row

    if as_json:
        print_json({"rows": [row(outcome) for outcome in outcomes]})
    else:
        for outcome in outcomes:
            typer.echo(describe(outcome))
    if any(outcome.error for outcome in outcomes):
        raise typer.Exit(1)
