"""The steps of verifying a task on a device, in their order; listing them needs no torch.

Devices are `cpu` (Triton's interpreter), `cuda`, and `sm_90`: every seed is compiled for an H200, with no such device.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Callable
from dataclasses import dataclass
from itertools import combinations
from typing import TYPE_CHECKING, Any

import tasks
from tasks import nvrtc
from tasks.declared import wrong_constants
from tasks.report import Proof
from tasks.spec import SEED_SPLITS, Case, Task
from tasks.template import open_places

if TYPE_CHECKING:
    from tasks.proofs import Bench
    from tasks.shapes import ShapeBench

DEVICES = ("cpu", "cuda", "sm_90")
COMPILED = "sm_90"
MIN_CPU_CASES = 5
SMALL_BYTES = 4 << 30  # inputs and outputs; expected values in float64 and a reference's intermediates come on top


@dataclass(frozen=True)
class Step:
    """One unit of proving: `kind` is cases, case, seed, capture, wrong, bytes or compile."""

    kind: str
    subject: str = ""

    @property
    def label(self) -> str:
        """How the step is named in messages."""
        return f"{self.kind} {self.subject}".strip()


def proof_steps(task: Task, device: str) -> list[Step]:
    """Return the steps for `cpu` (interpreter, small checking cases), `cuda` (all cases, and graph capture) or `sm_90`.

    A task that is still a template has one step, which says what is open.
    """
    if open_places(tasks.folder(task.name)):
        return [Step("cases")]
    if device == COMPILED:
        left_out = dict(skipped_seeds(task, device))
        return [Step("bytes"), *(Step("compile", seed) for seed in tasks.seed_names(task.name) if seed not in left_out)]
    steps = [Step("cases"), *(Step("case", case.case_id) for case in _described(task, device))]
    for seed in tasks.seed_names(task.name):
        if device == "cuda":
            steps += [Step("seed", seed), Step("capture", seed)]
        elif seed not in task.cpu_skip:
            steps.append(Step("seed", seed))
    return [*steps, Step("wrong")]


def skipped_seeds(task: Task, device: str) -> tuple[tuple[str, str], ...]:
    """Return the seeds that the device cannot run or compile here, each with the reason."""
    if device == "cpu":
        return tuple(task.cpu_skip.items())
    if device != COMPILED or nvrtc.available():
        return ()
    cuda = [seed for seed in tasks.seed_names(task.name) if nvrtc.CALL in tasks.seed_code(task.name, seed)]
    return tuple((seed, f"CUDA C++ is compiled where '{nvrtc.PACKAGE}' is installed") for seed in cuda)


def make_bench(task: Task, device: str) -> Bench | ShapeBench:
    """Return what the steps of a task are done on; imports torch."""
    if device == COMPILED:
        from tasks.shapes import ShapeBench

        return ShapeBench(task)
    from tasks.proofs import Bench

    return Bench(task, device)


def perform(step: Step, task: Task, device: str, bench: Callable[[], Any]) -> list[Proof]:
    """Do one step; `bench` gives what `make_bench` returns, which needs torch."""
    match step.kind:
        case "cases":
            proofs = case_list(task)
        case "case":
            cases = _described(task, device)
            proofs = bench().prove_case(next(case for case in cases if case.case_id == step.subject))
        case "seed":
            proofs = bench().prove_seed(step.subject, _run_cases(task, device))
        case "capture":
            proofs = bench().prove_capture(step.subject, _check_cases(task, device))
        case "wrong":
            proofs = bench().prove_wrong(_check_cases(task, device))
        case "bytes":
            proofs = bench().prove_bytes(task.all_cases)
        case _:
            proofs = bench().prove_compiled(step.subject, task.all_cases)
    return list(proofs)


def case_list(task: Task) -> list[Proof]:
    """Prove what the case and seed lists promise, without torch."""
    cases = task.all_cases
    ids = [[case.case_id for case in part] for part in (task.check_cases, *task.timing_sets.values())]
    cpu = sum(case.cpu for case in task.check_cases)
    large = [case.case_id for case in task.timing_sets["small"] if case.bytes > SMALL_BYTES]
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
        ("small card", not large, f"{', '.join(large)}: beyond {SMALL_BYTES >> 30} GiB, too large for 24 GB"),
        ("case ids", unique, "a case_id occurs twice"),
        ("costs", all(case.bytes > 0 and case.flops > 0 for case in cases), "bytes and flops must be positive"),
        ("seeds", not empty, f"there is none for {' and '.join(empty)}"),
        ("seed files", set(seeds) == on_disk, f"listed or present, not both: {sorted(set(seeds) ^ on_disk)}"),
        ("seed splits", not shared, f"in more than one place: {shared}"),
        ("skipped seeds", set(task.cpu_skip) <= set(seeds), f"no seed: {sorted(set(task.cpu_skip) - set(seeds))}"),
    ]
    alike = [] if shared or set(seeds) != on_disk else near_duplicates(task)
    facts.append(("seeds apart", not alike, "; ".join(alike)))
    undeclared = wrong_constants(task) if set(seeds) == on_disk else []
    facts.append(("constants", not undeclared, "; ".join(undeclared)))
    return [Proof("cases", subject, bool(holds), "" if holds else detail) for subject, holds, detail in facts]


def near_duplicates(task: Task) -> list[str]:
    """Return the pairs of seeds in different splits that differ in little but names and constants, one line each.

    A search starts from its split's seeds, so that such a pair would let a test kernel descend from a training kernel.
    """
    from benchmark.near_duplicate import THRESHOLD, runs
    from benchmark.structure import structure_tokens

    split_of = {seed: split for split, part in task.seeds.items() for seed in part}
    forms = {seed: runs(structure_tokens(tasks.seed_code(task.name, seed))) for seed in split_of}
    found = []
    for a, b in combinations(split_of, 2):
        if split_of[a] != split_of[b]:
            alike = len(forms[a] & forms[b]) / len(forms[a] | forms[b])
            if alike >= THRESHOLD:
                pair = f"{a} ({split_of[a]}) and {b} ({split_of[b]})"
                found.append(f"{pair} are alike to {alike:.2f}, allowed is less than {THRESHOLD}")
    return found


def prepare(device: str) -> None:
    """Choose Triton's mode before triton is imported; raises ValueError if that is no longer possible."""
    if device not in DEVICES:
        raise ValueError(f"unknown device '{device}'; expected {', '.join(DEVICES[:-1])} or {DEVICES[-1]}")
    if "triton" in sys.modules and _interpreted() != (device == "cpu"):
        wanted = "with TRITON_INTERPRET=1 set" if device == "cpu" else "without TRITON_INTERPRET"
        raise ValueError(
            f"triton was imported before the device was known; start Python {wanted} for device '{device}'"
        )
    if device == "cpu":
        os.environ["TRITON_INTERPRET"] = "1"
        return
    os.environ.pop("TRITON_INTERPRET", None)
    if device == COMPILED:
        return
    import torch

    if not torch.cuda.is_available():
        raise ValueError("device 'cuda' was asked for, but torch finds no CUDA device; use device 'cpu'")


def environment(device: str) -> dict[str, str]:
    """Return the versions and the device that a report came from."""
    import platform

    import torch
    import triton

    gpus = {"cpu": "none (Triton interpreter)", COMPILED: "none (compiled for sm_90)"}
    gpu = gpus.get(device) or torch.cuda.get_device_name()
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
    """The cases whose inputs and trivial answers are looked at."""
    return list(task.all_cases) if device == "cuda" else _check_cases(task, device)
