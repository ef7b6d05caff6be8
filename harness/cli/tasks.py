"""`kernelcast tasks`: list the kernel tasks, show one, and prove that tasks can be trusted."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any

import typer

app = typer.Typer(
    help="List, show and check the kernel tasks.", no_args_is_help=True, add_completion=False, rich_markup_mode=None
)
Json = Annotated[bool, typer.Option("--json", help="Print one JSON object.")]
Quiet = Annotated[bool, typer.Option("--quiet", help="No progress.")]


@app.command("list")
def list_tasks(as_json: Json = False) -> None:
    """List the tasks with the number of their cases and seed kernels."""
    import tasks
    from harness.cli.console import print_json, print_table
    from tasks.spec import SEED_SPLITS

    rows: list[dict[str, Any]] = []
    for name in tasks.names():
        task = tasks.get(name)
        seeds = {split: len(task.seeds.get(split, ())) for split in SEED_SPLITS}
        counts = {"check_cases": len(task.check_cases), "timing_cases": len(task.timing_cases)}
        rows.append({"name": name, "family": task.family, "source": task.source, **counts, "seeds": seeds})
    if as_json:
        print_json({"rows": rows})
        return
    header = ("task", "family", "source", "check", "timing", *(f"{split} seeds" for split in SEED_SPLITS))
    print_table(header, [_flat(row) for row in rows])


def _flat(row: dict[str, Any]) -> list[str]:
    plain = [row["name"], row["family"], row["source"], str(row["check_cases"]), str(row["timing_cases"])]
    return plain + [str(count) for count in row["seeds"].values()]


@app.command("show")
def show_task(
    name: Annotated[str, typer.Argument(help="The task.")],
    as_json: Json = False,
) -> None:
    """Show what a task computes, its cases, tolerances and seed kernels."""
    import tasks
    from benchmark.code_view import language_of
    from harness.cli.console import print_json, print_table

    task = tasks.get(name)
    cases = [
        {
            "case_id": case.case_id,
            "use": use,
            "bytes": case.bytes,
            "flops": case.flops,
            "tolerances": [{"rtol": t.rtol, "atol": t.atol} for t in task.tolerances(case.params)],
        }
        for use, group in (("check", task.check_cases), ("timing", task.timing_cases))
        for case in group
    ]
    seeds = [
        {"name": seed, "split": split, "language": language_of(tasks.seed_code(name, seed))}
        for split, part in task.seeds.items()
        for seed in part
    ]
    if as_json:
        words = {"name": name, "family": task.family, "source": task.source, "statement": task.statement}
        print_json({**words, "notes": task.notes, "sources": list(task.sources), "seeds": seeds, "rows": cases})
        return
    print(f"{name} ({task.family}, {task.source})\n\n{task.statement}\n\n{task.notes}\n")
    print(tasks.reference_code(name))
    header = ("case", "use", "MB", "Mflop", "rtol, atol of each output")
    print_table(
        header,
        [
            [
                case["case_id"],
                case["use"],
                f"{case['bytes'] / 1e6:.3f}",
                f"{case['flops'] / 1e6:.3f}",
                "; ".join(f"{t['rtol']:g}, {t['atol']:g}" for t in case["tolerances"]),
            ]
            for case in cases
        ],
    )
    print()
    print_table(("seed", "split", "language"), [[seed["name"], seed["split"], seed["language"]] for seed in seeds])


@app.command("verify")
def verify_tasks(
    name: Annotated[str | None, typer.Argument(help="The task; or use --all.")] = None,
    every: Annotated[bool, typer.Option("--all", help="Every task.")] = False,
    device: Annotated[str, typer.Option("--device", help="cpu (Triton interpreter, small cases) or cuda.")] = "cpu",
    out: Annotated[Path | None, typer.Option("--out", help="JSON file to create.")] = None,
    overwrite: Annotated[bool, typer.Option("--overwrite", help="Replace the file of --out.")] = False,
    as_json: Json = False,
    quiet: Quiet = False,
) -> None:
    """Prove tasks: seeds pass, trivial and wrong kernels fail, inputs repeat, the case list says what is true."""
    import json

    import tasks
    from harness.cli.console import print_json, progress, require_new, say

    if (name is None) != every:
        raise ValueError("give the name of one task, or --all")
    names = tasks.names() if every else (tasks.get(str(name)).name,)
    if out is not None:
        require_new(out, overwrite)
    from tasks.verify import count_steps, environment, show, verify

    reports = []
    for each in names:
        with progress(each, count_steps(each, device), quiet) as advance:
            reports.append(verify(each, device, lambda done, _total, _label: advance(1) if done else None))
    result = {"environment": environment(device), "rows": [report.to_json() for report in reports]}
    if out is not None:
        out.write_text(json.dumps(result, indent=1) + "\n", encoding="utf-8")
    if as_json:
        print_json(result)
    else:
        for report in reports:
            print(show(report))
    if not all(report.ok for report in reports):
        say("kernelcast: a proof failed", quiet)
        raise typer.Exit(1)
