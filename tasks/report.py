"""What verifying a task found: a value, its JSON and its text."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field
from typing import Any

from benchmark.speedup import is_launch_bound

HAS_TO_FAIL = ("trivial", "wrong")
REFERENCE, EMPTY = "reference", "empty_kernel"  # what is timed beside the seeds
ROUGH_METHOD = (
    "median of 10 CUDA-event times of an eager call after a warm-up, L2 flushed, all kernels in one process; "
    "a first impression, not a label"
)


@dataclass(frozen=True)
class Proof:
    """One statement about a task, whether it holds, and what was seen."""

    kind: str  # cases | inputs | reference | trivial | wrong | seed | capture | compile | error
    subject: str
    passed: bool
    detail: str = ""
    case_id: str = ""  # of a kernel that has to fail: the case that catches it


@dataclass(frozen=True)
class Report:
    """All proofs of one task on one device, and the seeds that the device cannot run, with the reason.

    `rough_us` are times in microseconds by timing case and kernel, REFERENCE and EMPTY included.
    """

    task: str
    device: str
    proofs: tuple[Proof, ...]
    skipped: tuple[tuple[str, str], ...]
    seconds: float
    rough_us: Mapping[str, Mapping[str, float]] = field(default_factory=dict)

    @property
    def ok(self) -> bool:
        """Whether every proof holds, and there is one."""
        return bool(self.proofs) and all(proof.passed for proof in self.proofs)

    @property
    def failures(self) -> tuple[Proof, ...]:
        """The proofs that do not hold."""
        return tuple(proof for proof in self.proofs if not proof.passed)

    @property
    def launch_bound(self) -> tuple[str, ...]:
        """The timing cases on which the reference and the fastest seed show what a launch takes, and little else."""
        found = []
        for case_id, times in self.rough_us.items():
            ns = {name: 1e3 * us for name, us in times.items()}
            reference, empty = ns.pop(REFERENCE), ns.pop(EMPTY, None)
            if ns and is_launch_bound(min(ns.values()), reference, empty):
                found.append(case_id)
        return tuple(found)

    @property
    def rough_speedup(self) -> dict[str, float]:
        """Reference time over seed time by seed, geometric mean over the timing cases; seeds timed on all of them.

        Launch-bound cases do not count.
        """
        left_out = self.launch_bound
        times = [times for case_id, times in self.rough_us.items() if case_id not in left_out]
        seeds = set.intersection(*(set(case) for case in times)) - {REFERENCE, EMPTY} if times else set()
        logs = {seed: [math.log(case[REFERENCE] / case[seed]) for case in times] for seed in sorted(seeds)}
        return {seed: math.exp(sum(values) / len(values)) for seed, values in logs.items()}

    def to_json(self) -> dict[str, Any]:
        """Return plain JSON values: counts and failures, and for each kernel that has to fail what catches it."""
        held, total = Counter(p.kind for p in self.proofs if p.passed), Counter(p.kind for p in self.proofs)
        return {
            "task": self.task,
            "device": self.device,
            "ok": self.ok,
            "seconds": round(self.seconds, 1),
            "proofs": {kind: {"held": held[kind], "total": total[kind]} for kind in total},
            "failures": [asdict(proof) for proof in self.failures],
            "caught": [
                {"kind": p.kind, "kernel": p.subject, "case_id": p.case_id, "caught": p.passed, "by": p.detail}
                for p in self.proofs
                if p.kind in HAS_TO_FAIL and p.case_id
            ],
            "compiled": [
                {"seed": p.subject, "uses": p.detail} for p in self.proofs if p.kind == "compile" and p.passed
            ],
            "skipped": [{"seed": seed, "reason": reason} for seed, reason in self.skipped],
            "launch_bound": list(self.launch_bound),
            "rough_speedup": self.rough_speedup,
            "rough_us": {case: dict(times) for case, times in self.rough_us.items()},
        }


def document(reports: Sequence[Report], environment: Mapping[str, str]) -> dict[str, Any]:
    """Return the result of a run as JSON values: where it ran, totals, and one row per task."""
    proofs = [proof for report in reports for proof in report.proofs]
    failing = [proof for proof in proofs if proof.kind in HAS_TO_FAIL and proof.case_id]
    totals = {
        "tasks": len(reports),
        "tasks_ok": sum(report.ok for report in reports),
        "proofs": len(proofs),
        "proofs_held": sum(proof.passed for proof in proofs),
        "kernels_that_have_to_fail": len(failing),
        "caught": sum(proof.passed for proof in failing),
        "seeds_timed": sum(len(report.rough_speedup) for report in reports),
    }
    rows = [report.to_json() for report in sorted(reports, key=lambda report: report.task)]
    return {"environment": dict(environment), "totals": totals, "rough_method": ROUGH_METHOD, "rows": rows}


def show(report: Report) -> str:
    """Return the report as text: one line per failed proof and a closing line."""
    lines = [f"{report.task}: {_failure(proof)}" for proof in report.failures]
    lines += [f"{report.task}: seed {seed} not run: {reason}" for seed, reason in report.skipped]
    held = len(report.proofs) - len(report.failures)
    lines.append(
        f"{report.task}: {held} of {len(report.proofs)} proofs hold on {report.device} ({report.seconds:.0f} s)"
    )
    return "\n".join(lines)


def best_seed(speedups: Mapping[str, float]) -> tuple[str, float] | None:
    """Return the seed with the largest rough speedup, None if there is none."""
    return max(speedups.items(), key=lambda item: item[1], default=None)


def _failure(proof: Proof) -> str:
    case = f" on case {proof.case_id}" if proof.case_id else ""
    return f"{proof.kind} {proof.subject}{case}: {proof.detail}"
