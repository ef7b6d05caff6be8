"""Prove that a task can be trusted: seeds pass, wrong kernels fail, inputs repeat, the case list says what is true.

Run it as `python3 -m tasks.verify NAME --device cuda --out FILE.json` on a machine that has only torch and triton.
"""

from __future__ import annotations

import argparse
import json
import os
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import tasks
from tasks.proofs import Bench, Proof
from tasks.spec import Case, Task

DEVICES = ("cpu", "cuda")
MIN_CPU_CASES = 5
Progress = Callable[[int, int, str], None]


@dataclass(frozen=True)
class Report:
    """All proofs of one task on one device, and the seeds that the device cannot run, with the reason."""

    task: str
    device: str
    proofs: tuple[Proof, ...]
    skipped: tuple[tuple[str, str], ...]
    seconds: float

    @property
    def ok(self) -> bool:
        """Whether every proof holds."""
        return all(proof.passed for proof in self.proofs)

    @property
    def failures(self) -> tuple[Proof, ...]:
        """The proofs that do not hold."""
        return tuple(proof for proof in self.proofs if not proof.passed)

    def to_json(self) -> dict[str, Any]:
        """Return plain JSON values."""
        return {**asdict(self), "ok": self.ok}


def verify(name: str, device: str = "cpu", progress: Progress | None = None) -> Report:
    """Prove the task on `cpu` (Triton interpreter, small checking cases) or `cuda` (all cases, and graph capture).

    Raises UnknownTaskError, or ValueError if the device is unknown or absent, or triton was imported in the wrong mode.
    """
    task = tasks.get(name)
    prepare(device)
    started = time.monotonic()
    steps = list(_steps(task, Bench(task, device)))
    proofs: list[Proof] = []
    for done, (label, step) in enumerate(steps):
        if progress is not None:
            progress(done, len(steps), label)
        proofs += step()
    if progress is not None:
        progress(len(steps), len(steps), "done")
    skipped = tuple(task.cpu_skip.items()) if device == "cpu" else ()
    return Report(name, device, tuple(proofs), skipped, time.monotonic() - started)


def count_steps(name: str, device: str) -> int:
    """Return how many steps `verify` reports to `progress`."""
    task = tasks.get(name)
    return sum(1 for _ in _steps(task, Bench(task, device)))


def prepare(device: str) -> None:
    """Choose Triton's mode before triton is imported; raises ValueError if that is no longer possible."""
    if device not in DEVICES:
        raise ValueError(f"unknown device '{device}'; expected {' or '.join(DEVICES)}")
    if "triton" in sys.modules and _interpreted() != (device == "cpu"):
        wanted = "with TRITON_INTERPRET=1 set" if device == "cpu" else "without TRITON_INTERPRET"
        raise ValueError(
            f"triton was imported before the device was known; start Python {wanted} for device '{device}'"
        )
    if device == "cpu":
        os.environ["TRITON_INTERPRET"] = "1"
        return
    os.environ.pop("TRITON_INTERPRET", None)
    import torch

    if not torch.cuda.is_available():
        raise ValueError("device 'cuda' was asked for, but torch finds no CUDA device; use device 'cpu'")


def _interpreted() -> bool:
    import triton

    # Triton's own library functions keep the mode that was set when triton was imported, whatever the environment says.
    return not isinstance(triton.language.sum, triton.runtime.JITFunction)


def _steps(task: Task, bench: Bench) -> Iterator[tuple[str, Callable[[], Sequence[Proof]]]]:
    cpu = bench.device == "cpu"
    yield "case list", lambda: case_list(task)
    check = [case for case in task.check_cases if case.cpu or not cpu]
    cases = check if cpu else [*check, *task.timing_cases]
    for case in cases:
        yield f"case {case.case_id}", lambda case=case: bench.prove_case(case)
    for seed in tasks.seed_names(task.name):
        if cpu and seed in task.cpu_skip:
            continue
        yield f"seed {seed}", lambda seed=seed: bench.prove_seed(seed, cases)
        if not cpu:
            yield f"capture {seed}", lambda seed=seed: bench.prove_capture(seed, check)
    yield "wrong kernels", lambda: bench.prove_wrong(check)


def case_list(task: Task) -> list[Proof]:
    """Prove what the case and seed lists promise, without torch."""
    cases: tuple[Case, ...] = (*task.check_cases, *task.timing_cases)
    ids = [case.case_id for case in cases]
    cpu = sum(case.cpu for case in task.check_cases)
    seeds = tasks.seed_names(task.name)
    on_disk = {path.stem for path in (Path(tasks.__file__).parent / task.name / "seeds").glob("*.py")}
    shared = sorted({seed for seed in seeds if seeds.count(seed) > 1})
    facts = [
        ("timing cases", bool(task.timing_cases), "there is none"),
        ("checking cases", cpu >= MIN_CPU_CASES, f"{cpu} for the interpreter, at least {MIN_CPU_CASES} expected"),
        ("case ids", len(set(ids)) == len(ids), "a case_id occurs twice"),
        ("costs", all(case.bytes > 0 and case.flops > 0 for case in cases), "bytes and flops must be positive"),
        ("seed files", set(seeds) == on_disk, f"listed or present, not both: {sorted(set(seeds) ^ on_disk)}"),
        ("seed splits", not shared, f"in more than one place: {shared}"),
        ("skipped seeds", set(task.cpu_skip) <= set(seeds), f"no seed: {sorted(set(task.cpu_skip) - set(seeds))}"),
    ]
    return [Proof("cases", subject, bool(holds), "" if holds else detail) for subject, holds, detail in facts]


def show(report: Report) -> str:
    """Return the report as text: one line per failed proof and a closing line."""
    lines = [f"{report.task}: {p.kind} {p.subject}: {p.detail}" for p in report.failures]
    lines += [f"{report.task}: seed {seed} not run: {reason}" for seed, reason in report.skipped]
    held = len(report.proofs) - len(report.failures)
    lines.append(
        f"{report.task}: {held} of {len(report.proofs)} proofs hold on {report.device} ({report.seconds:.0f} s)"
    )
    return "\n".join(lines)


def main(arguments: Sequence[str] | None = None) -> int:
    """Verify the tasks named on the command line; returns 1 if a proof fails, 2 for bad input."""
    parser = argparse.ArgumentParser(prog="python3 -m tasks.verify", description="Prove that tasks can be trusted.")
    parser.add_argument("names", nargs="*", metavar="NAME")
    parser.add_argument("--all", action="store_true", help="every task")
    parser.add_argument("--device", choices=DEVICES, default="cpu")
    parser.add_argument("--out", type=Path, help="JSON file to create")
    parser.add_argument("--overwrite", action="store_true", help="replace the file of --out")
    options = parser.parse_args(arguments)
    if bool(options.names) == options.all:
        parser.error("give task names or --all")
    if options.out and options.out.exists() and not options.overwrite:
        parser.error(f"{options.out} exists; add --overwrite to replace it")
    reports = []
    try:
        for name in tasks.names() if options.all else options.names:
            reports.append(verify(name, options.device, _to_stderr))
            print(show(reports[-1]), flush=True)
    except (ValueError, KeyError) as error:
        parser.error(str(error))
    if options.out:
        rows = [report.to_json() for report in reports]
        options.out.write_text(json.dumps({"environment": environment(options.device), "rows": rows}, indent=1) + "\n")
    return 0 if all(report.ok for report in reports) else 1


def environment(device: str) -> dict[str, str]:
    """Return the versions and the device that a report came from."""
    import platform

    import torch
    import triton

    gpu = torch.cuda.get_device_name() if device == "cuda" else "none (Triton interpreter)"
    return {"python": platform.python_version(), "torch": torch.__version__, "triton": triton.__version__, "gpu": gpu}


def _to_stderr(done: int, total: int, label: str) -> None:
    print(f"[{done}/{total}] {label}", file=sys.stderr, flush=True)


if __name__ == "__main__":
    sys.exit(main())
