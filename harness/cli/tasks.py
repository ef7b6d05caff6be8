"""`kernelcast tasks`: list the kernel tasks, show one, and prove that tasks can be trusted."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any

import typer

from harness.cli.group import Group

app = typer.Typer(
    cls=Group,
    help="List, show, check and start kernel tasks.",
    no_args_is_help=True,
    add_completion=False,
    rich_markup_mode=None,
)
Json = Annotated[bool, typer.Option("--json", help="Print one JSON object.")]
Quiet = Annotated[bool, typer.Option("--quiet", help="No progress.")]
# Written by `kernelcast tasks verify --all --device cuda`; an installation without the checkout does not have it.
VERIFIED = Path(__file__).resolve().parents[1] / "results" / "tasks_verify.json"


def _rough_speedups(verified: Path) -> dict[str, dict[str, float]]:
    """The rough speedups of each task's seeds from the result of a verification, empty where there is none."""
    import json

    if not verified.is_file():
        return {}
    try:
        rows = json.loads(verified.read_text(encoding="utf-8"))["rows"]
        return {row["task"]: row["rough_speedup"] for row in rows}
    except (ValueError, KeyError, TypeError) as error:
        raise ValueError(f"{verified}: not a result of `kernelcast tasks verify` ({error!r})") from None


@app.command("list")
def list_tasks(as_json: Json = False) -> None:
    """List the tasks with the number of their cases and seed kernels, and the best seed where seeds were timed."""
    import tasks
    from harness.cli.console import print_json, print_table
    from tasks.report import best_seed
    from tasks.spec import SEED_SPLITS

    rough = _rough_speedups(VERIFIED)
    rows: list[dict[str, Any]] = []
    for name in tasks.names():
        task = tasks.get(name)
        best = best_seed(rough.get(name, {}))
        rows.append({
            "name": name, "family": task.family, "source": task.source, "check_cases": len(task.check_cases),
            "timing_cases": len(task.timing_cases),
            "timing_sets": {name: len(cases) for name, cases in task.timing_sets.items()},
            "seeds": {split: len(task.seeds.get(split, ())) for split in SEED_SPLITS},
            "best_seed": best and {"name": best[0], "rough_speedup": best[1]},
        })  # fmt: skip
    if as_json:
        print_json({"rows": rows})
        return
    seeds = "seeds " + "/".join(split[:5] for split in SEED_SPLITS)
    print_table(("task", "family", "source", "check", "timed", seeds, "best seed"), [_flat(row) for row in rows])


def _flat(row: dict[str, Any]) -> list[str]:
    best = row["best_seed"]
    shown = f"{best['name']} {best['rough_speedup']:.2f}x" if best else "-"
    seeds = "/".join(str(count) for count in row["seeds"].values())
    cases = [str(row["check_cases"]), str(row["timing_cases"])]
    return [row["name"], row["family"], row["source"], *cases, seeds, shown]


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
        for use, group in (
            ("check", task.check_cases),
            ("timing", task.timing_cases),
            ("timing, small card", task.small_timing_cases),
            ("timing, paper", task.paper_timing_cases),
        )
        for case in group
    ]
    rough = _rough_speedups(VERIFIED).get(name, {})
    seeds = [
        {
            "name": seed,
            "split": split,
            "language": language_of(tasks.seed_code(name, seed)),
            "rough_speedup": rough.get(seed),
        }
        for split, part in task.seeds.items()
        for seed in part
    ]
    if as_json:
        words = {"name": name, "family": task.family, "source": task.source, "statement": task.statement}
        print_json({**words, "notes": task.notes, "sources": list(task.sources), "seeds": seeds, "rows": cases})
        return
    notes = f"\n\n{task.notes}" if task.notes else ""
    print(f"{name} ({task.family}, {task.source})\n\n{task.statement}{notes}\n")
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
    if seeds:
        print()
        speedups = ["-" if seed["rough_speedup"] is None else f"{seed['rough_speedup']:.2f}x" for seed in seeds]
        cells = [[seed["name"], seed["split"], seed["language"]] for seed in seeds]
        print_table(
            ("seed", "split", "language", "rough speedup"), [[*c, s] for c, s in zip(cells, speedups, strict=True)]
        )


@app.command("new")
def new_task(
    name: Annotated[str, typer.Argument(help="The task's name: lower-case letters, digits and _.")],
    into: Annotated[Path | None, typer.Option("--into", help="Folder for the task's folder; default: tasks.")] = None,
    as_json: Json = False,
) -> None:
    """Write the template of a task, with a TODO at every place that has to be filled in."""
    import tasks
    from harness.cli.console import print_json, say
    from tasks.template import create

    files = create(name, into or Path(tasks.__file__).parent)
    if as_json:
        print_json({"name": name, "rows": [str(path) for path in files]})
        return
    print("\n".join(map(str, files)))
    own = f"{tasks.FOLDERS_VARIABLE}={into} " if into else ""
    say(f"fill in every TODO, then: {own}kernelcast tasks verify {name}")


@app.command("verify")
def verify_tasks(
    names: Annotated[list[str] | None, typer.Argument(help="The tasks; or use --all.", metavar="NAME...")] = None,
    every: Annotated[bool, typer.Option("--all", help="Every task.")] = False,
    device: Annotated[
        str, typer.Option("--device", help="cpu (Triton interpreter, small cases), cuda, or sm_90.")
    ] = "cpu",
    jobs: Annotated[int | None, typer.Option("--jobs", help="Tasks at a time (cuda: up to 12).")] = None,
    step_limit: Annotated[float, typer.Option("--step-limit", help="Seconds for one case or seed.")] = 120.0,
    task_limit: Annotated[float, typer.Option("--task-limit", help="Seconds for one task.")] = 600.0,
    time_limit: Annotated[float, typer.Option("--time-limit", help="Seconds for everything.")] = 86_400.0,
    out: Annotated[Path | None, typer.Option("--out", help="JSON file to create; kept up to date.")] = None,
    overwrite: Annotated[bool, typer.Option("--overwrite", help="Replace the file of --out.")] = False,
    as_json: Json = False,
    quiet: Quiet = False,
) -> None:
    """Prove tasks: seeds pass, trivial and wrong kernels fail, inputs repeat, the case list says what is true.

    With --device cuda, the seeds that pass are also timed roughly; --device sm_90 compiles every seed for an H200, with
    no such device.
    """
    import sys

    import tasks
    from harness.cli.console import print_json, progress, require_new, require_torch
    from tasks.report import show
    from tasks.supervise import Limits, Run
    from tasks.verify import finish, verify_many

    if bool(names) == every:
        raise ValueError("give the names of tasks, or --all")
    chosen = tasks.names() if every else tuple(tasks.folder(name).name for name in names or ())
    require_torch("proving tasks")
    if out is not None:
        require_new(out, overwrite)
    limits = Limits(step_limit, task_limit, time_limit)
    with progress("verify", Run(chosen, device, jobs).steps(), quiet) as advance:
        result = verify_many(
            chosen, device, jobs, limits, out, advance,
            lambda report: (
                None if quiet and report.ok else print(show(report), file=sys.stderr if as_json else sys.stdout)
            ),
        )  # fmt: skip
    if as_json:
        print_json(result)
        raise typer.Exit(0 if result["rows"] and all(row["ok"] for row in result["rows"]) else 1)
    raise typer.Exit(finish(result))
