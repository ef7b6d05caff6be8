"""`kernelcast data`: what a dataset holds, whether it can be trusted, and how it is made from its logs."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any

import typer

app = typer.Typer(
    help="List, check and package the datasets.", no_args_is_help=True, add_completion=False, rich_markup_mode=None
)
Dataset = Annotated[str | None, typer.Argument(help="The dataset; by default the newest.")]
Json = Annotated[bool, typer.Option("--json", help="Print one JSON object.")]
Quiet = Annotated[bool, typer.Option("--quiet", help="No messages.")]


@app.command()
def info(dataset: Dataset = None, as_json: Json = False) -> None:
    """Show rows, outcomes, bins and sizes by table and split."""
    from benchmark.data_access import DEFAULT_DATASET, dataset_names
    from benchmark.overview import overview
    from harness.cli.console import print_json, print_table

    found = overview(dataset or DEFAULT_DATASET)
    if as_json:
        print_json({**found, "datasets": list(dataset_names())})
        return
    size = found["bytes"] / 1e6
    gpus = ", ".join(found["gpus"]) or "no GPU"
    print(f"{found['dataset']}: {found['searches']} searches, {size:.1f} MB of tables, measured on {gpus}\n")
    header = ("table", "split", "rows", "kB", "tasks", "ok", "bins 1 to 8", "> sqrt 2", "unresolved", "changed")
    print_table(header, [_cells(row) for row in found["rows"]])
    for entry in found["dropped"]:
        print(f"left out of {entry['table']}: {entry['rows']} ({entry['reason']})")


def _cells(row: dict[str, Any]) -> list[str]:
    def percent(name: str) -> str:
        return "" if row.get(name) is None else f"{row[name]:.1%}"

    return [
        row["table"],
        row["split"] or "-",
        str(row["rows"]),
        f"{row['bytes'] / 1e3:.0f}",
        str(row.get("tasks", "")),
        percent("ok_share"),
        " ".join(str(n) for n in row.get("bins", ())),
        str(row.get("discoveries", "")),
        percent("unresolved_share"),
        percent("changed_share"),
    ]


@app.command()
def validate(dataset: Dataset = None, as_json: Json = False, quiet: Quiet = False) -> None:
    """Check files, schemas and every reference between tables; exit 1 if anything is wrong."""
    from benchmark.data_access import DEFAULT_DATASET, dataset_path
    from benchmark.integrity import check_dataset
    from harness.cli.console import print_json, say

    name = dataset or DEFAULT_DATASET
    problems = check_dataset(dataset_path(name))
    if as_json:
        print_json({"dataset": name, "ok": not problems, "rows": [{"problem": problem} for problem in problems]})
    for problem in problems:
        say(problem, as_json)
    if problems:
        say(f"{name}: {len(problems)} problem(s)", as_json)
        raise typer.Exit(1)
    say(f"{name}: no problem found", quiet)


@app.command()
def package(
    dataset: Annotated[str, typer.Argument(help="The name of the dataset.")],
    raw: Annotated[Path | None, typer.Option("--raw", help="The folder of SEARCH_ID/events.jsonl[.gz].")] = None,
    out: Annotated[Path | None, typer.Option("--out", help="The folder of the dataset to write.")] = None,
    overwrite: Annotated[bool, typer.Option("--overwrite", help="Replace a packaged dataset.")] = False,
    as_json: Json = False,
    quiet: Quiet = False,
) -> None:
    """Make the tables of a dataset from the event logs of its searches."""
    from benchmark.data_access import data_root
    from benchmark.package import package as make
    from harness.cli.console import print_json, say

    folder = out or data_root() / dataset
    manifest = make(dataset, raw or folder / "raw", folder, overwrite)
    if as_json:
        rows = [{"file": file, **entry} for file, entry in manifest["files"].items()]
        dropped = [{k: v for k, v in entry.items() if k != "ids"} for entry in manifest["dropped"]]
        print_json({"dataset": dataset, "out": str(folder), "rows": rows, "dropped": dropped})
    torn = [log["search_id"] for log in manifest["logs"] if log["torn_tail"]]
    if torn:
        say(f"the last line of {len(torn)} log(s) was cut and left out: {', '.join(torn)}", quiet)
    say(f"wrote {len(manifest['files'])} files into {folder}", quiet)
