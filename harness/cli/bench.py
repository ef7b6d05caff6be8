"""`kernelcast bench`: what the harness itself can do, measured."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from harness.cli.group import Group

app = typer.Typer(
    cls=Group, help="Measure the harness itself.", no_args_is_help=True, add_completion=False, rich_markup_mode=None
)


@app.callback()
def _group() -> None:
    pass


@app.command("measure")
def measure_command(
    out: Annotated[Path, typer.Option("--out", help="The result, JSON; its log lies beside it and is continued.")],
    kernels: Annotated[int, typer.Option("--kernels", help="Distinct kernels for throughput and agreement.")] = 500,
    sections: Annotated[
        str | None, typer.Option("--sections", help="Some of throughput,twice,shared,repeat,methods,exploits.")
    ] = None,
    backend: Annotated[str, typer.Option("--backend", help="cuda, or cpu to try the path without times.")] = "cuda",
    workers: Annotated[int | None, typer.Option("--workers", help="Kernels built at the same time.")] = None,
    time_limit: Annotated[
        float, typer.Option("--time-limit", help="Seconds, after which another run continues.")
    ] = 3600.0,
    as_json: Annotated[bool, typer.Option("--json", help="Print the whole result as one JSON object.")] = False,
) -> None:
    """Measure throughput, repeatability, agreement and the exploit table of the measuring engine."""
    from harness.cli.console import print_json, print_table, require_torch

    require_torch("measuring")  # asked first: the kernels to measure take a minute to write
    from harness.measure.bench import SECTIONS, measure
    from harness.measure.bench_analysis import headlines

    chosen = SECTIONS if sections is None else [name for name in sections.split(",") if name]
    result = measure(out, kernels, chosen, backend, workers, time_limit)
    if as_json:
        print_json(result)
    else:
        print_table(("figure", "value", "goal"), headlines(result))
    raise typer.Exit(0 if result["complete"] else 1)
