"""`kernelcast data`: what a dataset holds, whether it can be trusted, and how it is made from its logs."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any

import typer

from harness.cli.group import Group

app = typer.Typer(
    cls=Group,
    help="List, check, package, publish and fetch the datasets.",
    no_args_is_help=True,
    add_completion=False,
    rich_markup_mode=None,
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
    print()
    for name, value in found["counts"].items():
        if name != "ok_per_task":
            print(f"{name.replace('_', ' ')}: {_flat(value)}")


def _flat(value: Any) -> str:
    if isinstance(value, dict):
        shown = ((k, v) for k, v in value.items() if not isinstance(v, list | dict))
        return ", ".join(f"{k.replace('_', ' ')} {_flat(v)}" for k, v in shown)
    return "-" if value is None else f"{value:.3g}" if isinstance(value, float) else str(value)


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
    from benchmark.integrity import check_dataset, read_manifest
    from harness.cli.console import print_json, progress, say

    name = dataset or DEFAULT_DATASET
    folder = dataset_path(name)
    with progress("checking files", len(read_manifest(folder)["files"]), quiet or as_json) as advance:
        problems = check_dataset(folder, advance)
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
    """Make the tables, the card and the manifest of a dataset from the event logs of its searches."""
    from benchmark.data_access import data_root
    from benchmark.package import package as make
    from harness.cli.console import print_json, say, stages

    folder = out or data_root() / dataset
    with stages(quiet or as_json) as stage:
        manifest = make(dataset, raw or folder / "raw", folder, overwrite, stage)
    if as_json:
        rows = [{"file": file, **entry} for file, entry in manifest["files"].items()]
        dropped = [{k: v for k, v in entry.items() if k != "ids"} for entry in manifest["dropped"]]
        selection = manifest["eval_selection"]
        print_json({"dataset": dataset, "out": str(folder), "rows": rows, "dropped": dropped, "eval": selection})
    torn = [log["search_id"] for log in manifest["logs"] if log["torn_tail"]]
    if torn:
        say(f"the last line of {len(torn)} log(s) was cut and left out: {', '.join(torn)}", quiet)
    for cell in manifest["eval_selection"]["cells"]:
        if cell["short"]:
            place = f"bin {cell['bin']} with anchor {cell['anchor_kind']}"
            found = f"{cell['selected']} rows of {cell['available']} measured twice, {cell['short']} short"
            say(f"eval, {place}: {found}", quiet or as_json)
    say(f"wrote {len(manifest['files'])} files into {folder}", quiet)


@app.command()
def audit(dataset: Dataset = None, as_json: Json = False, quiet: Quiet = False) -> None:
    """Look for leaks, noise and imbalance: near-duplicates, telling text, probes, unresolved rows, shares."""
    from benchmark.audit import audit as look
    from benchmark.card import audit_text
    from benchmark.data_access import DEFAULT_DATASET, dataset_path
    from harness.cli.console import print_json, stages

    with stages(quiet or as_json) as stage:
        found = look(dataset_path(dataset or DEFAULT_DATASET), stage)
    if as_json:
        print_json(found)
    else:
        print(audit_text(found))


@app.command()
def card(
    dataset: Dataset = None,
    out: Annotated[Path, typer.Option("--out", help="The file to write.")] = Path("DATASET_CARD.md"),
    check: Annotated[bool, typer.Option("--check", help="Write nothing; fail if the file differs.")] = False,
    quiet: Quiet = False,
) -> None:
    """Write the repository's card from the card of a dataset."""
    from benchmark.card import root_card
    from benchmark.data_access import DEFAULT_DATASET, dataset_path
    from harness.cli.console import say

    name = dataset or DEFAULT_DATASET
    text = root_card((dataset_path(name) / "README.md").read_text(encoding="utf-8"), name)
    if not check:
        out.write_text(text, encoding="utf-8", newline="\n")
    elif not out.is_file() or out.read_text(encoding="utf-8") != text:
        say(f"{out}: is not the card of {name}; `kernelcast data card --out {out}` writes it")
        raise typer.Exit(1)
    say(f"{out}: the card of {name}", quiet)


@app.command()
def push(
    repository: Annotated[
        str | None, typer.Argument(help="OWNER/NAME on the Hub; by default the configured one.")
    ] = None,
    source: Annotated[Path | None, typer.Option("--from", help="A dataset's folder; by default the newest.")] = None,
    revision: Annotated[str, typer.Option("--revision", help="The branch.")] = "main",
    private: Annotated[bool, typer.Option("--private", help="Create the repository as a private one.")] = False,
    as_json: Json = False,
    quiet: Quiet = False,
) -> None:
    """Send a packaged dataset to the Hugging Face Hub, once every file agrees with the manifest."""
    from benchmark.croissant import hub_repository
    from benchmark.data_access import DEFAULT_DATASET, dataset_path
    from benchmark.integrity import read_manifest
    from harness.cli.console import print_json, say
    from harness.hub import push as send

    folder = source or dataset_path(DEFAULT_DATASET)
    name = repository or hub_repository(read_manifest(folder)["dataset"])
    url = send(folder, name, revision, private)
    if as_json:
        print_json({"repository": name, "revision": revision, "url": url})
    say(f"sent {folder} to {url}", quiet or as_json)


@app.command()
def download(
    source: Annotated[
        str | None,
        typer.Argument(help="A Hub repository, a folder, an archive or its URL; by default the configured one."),
    ] = None,
    revision: Annotated[str | None, typer.Option("--revision", help="Branch, tag or commit of the repository.")] = None,
    out: Annotated[Path | None, typer.Option("--out", help="The folder to make; by default in the cache.")] = None,
    overwrite: Annotated[bool, typer.Option("--overwrite", help="Replace a dataset that is there.")] = False,
    as_json: Json = False,
    quiet: Quiet = False,
) -> None:
    """Fetch a dataset, check every file against its manifest, and put it where loading finds it."""
    from benchmark.croissant import hub_repository
    from benchmark.data_access import DEFAULT_DATASET
    from benchmark.integrity import read_manifest
    from harness.cli.console import print_json, say, stages
    from harness.download import download as bring

    with stages(quiet or as_json) as stage:
        folder = bring(source or hub_repository(DEFAULT_DATASET), revision, out, overwrite, stage)
    manifest = read_manifest(folder)
    if as_json:
        rows = [{"file": file, **entry} for file, entry in manifest["files"].items()]
        print_json({"dataset": manifest["dataset"], "folder": str(folder), "rows": rows})
    say(f"{manifest['dataset']}: {len(manifest['files'])} tables in {folder}, as the manifest says", quiet or as_json)


@app.command("import-upstream")
def import_upstream(
    out: Annotated[Path, typer.Option("--out", help="The folder to make.")],
    source: Annotated[str, typer.Option("--from", help="`hub`, or a folder with the five datasets.")] = "hub",
    revision: Annotated[str | None, typer.Option("--revision", help="Revision of the five repositories.")] = None,
    as_json: Json = False,
    quiet: Quiet = False,
) -> None:
    """Convert the release of the paper: its tables, lineage and forecasts, all or nothing."""
    from benchmark.upstream.convert import import_release
    from benchmark.upstream.source import UpstreamError
    from harness.cli.console import print_json, print_table, require_new, say, stages
    from harness.upstream import release_folders

    require_new(out, False, folder=True)
    try:
        with stages(quiet or as_json) as stage:
            report = import_release(release_folders(source, revision), out, stage)
    except UpstreamError as error:
        for line in error.lines:
            say(line)
        raise
    if as_json:
        print_json(report)
        return
    columns = ("of", "published", "found", "difference")
    print_table(columns, [[str(entry[name]) for name in columns] for entry in report["counts"]])
    for name, n in sorted(report["left_out"].items()):
        print(f"{name.replace('_', ' ')}: {n}")
    for note in report["notes"]:
        say(note, quiet)
    say(f"wrote {out}; {out / 'import.json'} has every count", quiet)
