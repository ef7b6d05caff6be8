"""The steps of verifying a task on a device, in their order; listing them needs no torch."""

from __future__ import annotations

import os
import sys
from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING

import tasks
from tasks.report import Proof
from tasks.spec import SEED_SPLITS, Case, Task
from tasks.template import open_places

if TYPE_CHECKING:
    from tasks.proofs import Bench

DEVICES = ("cpu", "cuda")
MIN_CPU_CASES = 5


@dataclass(frozen=True)
class Step:
    """One unit of proving: `kind` is cases, case, seed, capture or wrong; `subject` the case's or seed's name."""

    kind: str
    subject: str = ""

    @property
    def label(self) -> str:
        """How the step is named in messages."""
        return f"{self.kind} {self.subject}".strip()


def proof_steps(task: Task, device: str) -> list[Step]:
    """Return the steps for `cpu` (interpreter, small checking cases) or `cuda` (all cases, and graph capture).

    A task that is still a template has one step, which says what is open.
    """
    if open_places(tasks.folder(task.name)):
        return [Step("cases")]
    steps = [Step("cases"), *(Step("case", case.case_id) for case in _described(task, device))]
    for seed in tasks.seed_names(task.name):
        if device == "cuda":
            steps += [Step("seed", seed), Step("capture", seed)]
        elif seed not in task.cpu_skip:
            steps.append(Step("seed", seed))
    return [*steps, Step("wrong")]


def perform(step: Step, task: Task, bench: Callable[[], Bench]) -> list[Proof]:
    """Do one step; `bench` gives the task's bench, which needs torch."""
    check = _check_cases(task, "cpu" if step.kind == "cases" else bench().device)
    match step.kind:
        case "cases":
            return case_list(task)
        case "case":
            cases = _described(task, bench().device)
            return bench().prove_case(next(case for case in cases if case.case_id == step.subject))
        case "seed":
            return bench().prove_seed(step.subject, _run_cases(task, bench().device))
        case "capture":
            return bench().prove_capture(step.subject, check)
        case _:
            return bench().prove_wrong(check)


def case_list(task: Task) -> list[Proof]:
    """Prove what the case and seed lists promise, without torch."""
    cases = (*task.check_cases, *task.timing_cases, *task.small_timing_cases)
    ids = [[case.case_id for case in part] for part in (task.check_cases, task.timing_cases, task.small_timing_cases)]
    cpu = sum(case.cpu for case in task.check_cases)
    seeds = tasks.seed_names(task.name)
    on_disk = {path.stem for path in (tasks.folder(task.name) / "seeds").glob("*.py")}
    shared = sorted({seed for seed in seeds if seeds.count(seed) > 1})
    unique = all(len(set(part)) == len(part) for part in ids)
    empty = [split for split in SEED_SPLITS if not task.seeds.get(split)]
    todo = open_places(tasks.folder(task.name))
    facts = [
        ("template", not todo, f"still to be filled in: {', '.join(todo)}"),
        ("timing cases", bool(task.timing_cases), "there is none"),
        ("checking cases", cpu >= MIN_CPU_CASES, f"{cpu} for the interpreter, at least {MIN_CPU_CASES} expected"),
        ("case ids", unique, "a case_id occurs twice"),
        ("costs", all(case.bytes > 0 and case.flops > 0 for case in cases), "bytes and flops must be positive"),
        ("seeds", not empty, f"there is none for {' and '.join(empty)}"),
        ("seed files", set(seeds) == on_disk, f"listed or present, not both: {sorted(set(seeds) ^ on_disk)}"),
        ("seed splits", not shared, f"in more than one place: {shared}"),
        ("skipped seeds", set(task.cpu_skip) <= set(seeds), f"no seed: {sorted(set(task.cpu_skip) - set(seeds))}"),
    ]
    return [Proof("cases", subject, bool(holds), "" if holds else detail) for subject, holds, detail in facts]


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


def environment(device: str) -> dict[str, str]:
    """Return the versions and the device that a report came from."""
    import platform

    import torch
    import triton

    gpu = torch.cuda.get_device_name() if device == "cuda" else "none (Triton interpreter)"
    return {"python": platform.python_version(), "torch": torch.__version__, "triton": triton.__version__, "gpu": gpu}


def _interpreted() -> bool:
    import triton

    # Triton's own library functions keep the mode that was set when triton was imported, whatever the environment says.
    return not isinstance(triton.language.sum, triton.runtime.JITFunction)


def _check_cases(task: Task, device: str) -> list[Case]:
    return [case for case in task.check_cases if case.cpu or device == "cuda"]


def _run_cases(task: Task, device: str) -> list[Case]:
    return [*_check_cases(task, device), *(task.timing_cases if device == "cuda" else ())]


def _described(task: Task, device: str) -> list[Case]:
    """The cases whose inputs and trivial answers are looked at; a case for small cards may be one of the others."""
    cases = _run_cases(task, device)
    known = {case.case_id for case in cases}
    return [*cases, *(case for case in task.small_timing_cases if device == "cuda" and case.case_id not in known)]
