"""`kernelcast measure`: compile, check and time kernel files."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer


def measure(
    files: Annotated[list[Path], typer.Argument(help="Kernel files; each defines custom_kernel(data).")],
    task: Annotated[str, typer.Option("--task", help="A task's name, kernelbench:FILE.py or gpu_mode:FOLDER.")],
    backend: Annotated[str, typer.Option("--backend", help="cuda, or cpu to check without timing.")] = "cuda",
    workers: Annotated[int, typer.Option("--workers", help="Kernels built at the same time.")] = 8,
    gpus: Annotated[
        str | None, typer.Option("--gpus", help="Numbers of GPUs, comma-separated, or all. Default: the first.")
    ] = None,
    ray: Annotated[str | None, typer.Option("--ray", help="Address of a Ray cluster, whose every GPU is used.")] = None,
    isolation: Annotated[
        str, typer.Option("--isolation", help="strict: a process for each kernel; shared: only for trusted code.")
    ] = "strict",
    out: Annotated[
        Path | None, typer.Option("--out", help="A log of the results; kernels that it holds are skipped.")
    ] = None,
    as_json: Annotated[bool, typer.Option("--json", help="Print one JSON object.")] = False,
    quiet: Annotated[bool, typer.Option("--quiet", help="No progress.")] = False,
) -> None:
    """Compile, check and time kernels of a task; each runs in a process of its own."""
    from harness.measure.command import measure_files, show

    rows = measure_files(files, task, backend, workers, quiet, out, gpus=gpus, ray=ray, isolation=isolation)
    raise typer.Exit(show(rows, as_json))
