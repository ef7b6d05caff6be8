"""Prove that a task can be trusted: seeds pass, wrong kernels fail, inputs repeat, the case list says what is true.

Run it as `python3 -m tasks.verify --all --device cuda --out FILE.json` on a machine that has only torch and triton.
"""

from __future__ import annotations

import argparse
import json
import os
import shlex
import sys
import time
from collections.abc import Callable, Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import tasks
from tasks.report import Report, best_seed, document, show
from tasks.steps import DEVICES, make_bench, perform, prepare, proof_steps, skipped_seeds
from tasks.supervise import Limits, Run

SAY_EVERY_S = 10.0


def verify(name: str, device: str = "cpu") -> Report:
    """Prove one task in this process, on `cpu` (interpreter, small cases), `cuda` (all cases, capture) or `sm_90`.

    Raises UnknownTaskError, or ValueError if the device is unknown or absent, or triton was imported in the wrong mode;
    an exception of the task's own code comes through.
    """
    task = tasks.get(name)
    prepare(device)
    started = time.monotonic()
    bench = make_bench(task, device)
    proofs = [proof for step in proof_steps(task, device) for proof in perform(step, task, device, lambda: bench)]
    return Report(name, device, tuple(proofs), skipped_seeds(task, device), time.monotonic() - started)


def verify_many(
    names: Sequence[str],
    device: str,
    jobs: int | None = None,
    limits: Limits | None = None,
    out: Path | None = None,
    on_step: Callable[[int], None] = lambda n: None,
    on_report: Callable[[Report], None] = lambda report: None,
) -> dict[str, Any]:
    """Prove tasks in processes of their own and return the result as JSON values; `out` is rewritten after each task.

    On `cuda` the seeds that pass are timed roughly at the end. Raises ValueError if the device cannot be used.
    """
    done: list[Report] = []
    facts = {"device": device, "date": datetime.now(UTC).isoformat(timespec="seconds"), "command": _command()}

    def keep(report: Report) -> None:
        done.append(report)
        _write(out, document(done, {**run.environment, **facts}))
        on_report(report)

    run = Run(names, device, jobs, limits, on_step, keep)
    result = document(run.verify(), {**run.environment, **facts})
    _write(out, result)
    return result


def _write(out: Path | None, result: dict[str, Any]) -> None:
    if out is not None:
        part = out.with_name(f"{out.name}.part")
        part.write_text(json.dumps(result, indent=1, allow_nan=False) + "\n", encoding="utf-8")
        os.replace(part, out)


def _command() -> str:
    module = getattr(sys.modules["__main__"], "__spec__", None)
    start = ["python3", "-m", module.name] if module is not None else [Path(sys.argv[0]).name]
    # A result file may be published, and where it lay on this machine is nobody's business.
    return shlex.join([*start, *(Path(word).name if os.path.isabs(word) else word for word in sys.argv[1:])])


class _Counter:
    """Says on standard error how many steps and tasks are over, how fast, and what is left."""

    def __init__(self, steps: int, tasks: int) -> None:
        self.steps, self.tasks, self.done, self.reports = steps, tasks, 0, 0
        self.started = self.said = time.monotonic()

    def step(self, n: int) -> None:
        self.done += n
        if time.monotonic() - self.said >= SAY_EVERY_S:
            self.say()

    def report(self, report: Report) -> None:
        self.reports += 1
        print(show(report), flush=True)
        self.say()

    def say(self) -> None:
        self.said = time.monotonic()
        rate = self.done / max(self.said - self.started, 1e-9)
        left = f"{(self.steps - self.done) / rate:.0f} s left" if rate else "unknown time left"
        line = f"{self.reports}/{self.tasks} tasks, {self.done}/{self.steps} steps, {rate:.1f} steps/s, {left}"
        print(line, file=sys.stderr, flush=True)


def main(arguments: Sequence[str] | None = None) -> int:
    """Verify the tasks named on the command line; returns 1 if a proof fails, 2 for bad input."""
    parser = argparse.ArgumentParser(prog="python3 -m tasks.verify", description="Prove that tasks can be trusted.")
    parser.add_argument("names", nargs="*", metavar="NAME")
    parser.add_argument("--all", action="store_true", help="every task")
    parser.add_argument("--device", choices=DEVICES, default="cpu", help="sm_90: compile the seeds for it, run nothing")
    parser.add_argument("--jobs", type=int, help="tasks at a time (cuda: up to 12; cpu: half the cores)")
    parser.add_argument("--step-limit", type=float, default=Limits.step_s, metavar="S", help="for one case or seed")
    parser.add_argument("--task-limit", type=float, default=Limits.task_s, metavar="S", help="for one task")
    parser.add_argument("--time-limit", type=float, default=Limits.total_s, metavar="S", help="for everything")
    parser.add_argument("--out", type=Path, help="JSON file to create")
    parser.add_argument("--overwrite", action="store_true", help="replace the file of --out")
    options = parser.parse_args(arguments)
    if bool(options.names) == options.all:
        parser.error("give task names or --all")
    if options.out and options.out.exists() and not options.overwrite:
        parser.error(f"{options.out} exists; add --overwrite to replace it")
    try:
        names = tasks.names() if options.all else tuple(tasks.folder(name).name for name in options.names)
        limits = Limits(options.step_limit, options.task_limit, options.time_limit)
        counter = _Counter(Run(names, options.device).steps(), len(names))
        result = verify_many(names, options.device, options.jobs, limits, options.out, counter.step, counter.report)
    except (ValueError, KeyError) as error:
        parser.error(str(error))
    return finish(result)


def finish(result: dict[str, Any]) -> int:
    """Print the best seeds and the outcome of a run, and return the exit code."""
    for row in result["rows"]:
        if row["launch_bound"]:
            cases = ", ".join(row["launch_bound"])
            print(f"{row['task']}: here the times of {cases} are those of a launch; a timing case has to be larger")
        best = best_seed(row["rough_speedup"])
        if best:
            print(f"{row['task']}: best seed {best[0]}, roughly {best[1]:.2f} times as fast as the reference")
    bad = [row["task"] for row in result["rows"] if not row["ok"]]
    totals = result["totals"]
    print(f"{totals['tasks_ok']} of {totals['tasks']} tasks verified" + (f"; failed: {', '.join(bad)}" if bad else ""))
    return 1 if bad or not result["rows"] else 0


if __name__ == "__main__":
    sys.exit(main())
