"""A small synthetic dataset: event logs as a search writes them, packaged like the real ones.

The time of a kernel follows from what its source says (block, warps, passes, precision), so that something can be
learnt from it; samples are log-normal. Every source carries a comment that tells the outcome, which no view may show.
"""

from __future__ import annotations

import gzip
import hashlib
import json
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np

from benchmark.identity import kernel_id
from benchmark.package import package

SEARCHES = {"train": 2, "validation": 1, "test": 2}
TASKS = {"row_softmax": "norm", "row_total": "reduce"}
UNSEEN_TASK = ("column_scan", "scan")
STYLES = {"train": ("chunked", "guarded"), "validation": ("walking",), "test": ("paired", "hoisted")}
CASES = (("small", 1024, 40e3), ("large", 4096, 160e3))  # case id, columns, reference time in ns
SAMPLES = 40
BETWEEN_SD, WITHIN_SD = 0.006, 0.01  # of log time
CLOCK = "2026-01-01T00:{:02d}:{:02d}Z"

_BODIES = {
    "chunked": """
    acc = tl.zeros((BLOCK,), tl.float32)
    for start in range(0, n, BLOCK):
        cols = start + tl.arange(0, BLOCK)
        acc += tl.load(x_ptr + row * n + cols, mask=cols < n, other=0.0{cache}){cast}""",
    "guarded": """
    acc = tl.zeros((BLOCK,), tl.float32)
    if n > 0:
        for start in range(0, n, BLOCK):
            cols = start + tl.arange(0, BLOCK)
            acc = acc + tl.load(x_ptr + row * n + cols, mask=cols < n, other=0.0{cache}){cast}""",
    "walking": """
    acc = tl.zeros((BLOCK,), tl.float32)
    start = 0
    while start < n:
        cols = start + tl.arange(0, BLOCK)
        acc += tl.load(x_ptr + row * n + cols, mask=cols < n, other=0.0{cache}){cast}
        start += BLOCK""",
    "paired": """
    acc = tl.zeros((BLOCK,), tl.float32)
    for start in range(0, n, 2 * BLOCK):
        cols = start + tl.arange(0, BLOCK)
        acc += tl.load(x_ptr + row * n + cols, mask=cols < n, other=0.0{cache}){cast}
        acc += tl.load(x_ptr + row * n + cols + BLOCK, mask=cols + BLOCK < n, other=0.0{cache}){cast}""",
    "hoisted": """
    offset = row * n
    acc = tl.zeros((BLOCK,), tl.float32)
    for chunk in range(tl.cdiv(n, BLOCK)):
        cols = chunk * BLOCK + tl.arange(0, BLOCK)
        acc += tl.load(x_ptr + offset + cols, mask=cols < n, other=0.0{cache}){cast}""",
}
# The host code differs by style too: styles of different splits must not be near-duplicates of each other.
_HOSTS = {
    "chunked": """
    (x,) = data
    out = torch.empty(x.shape[0], device=x.device)
    {launch}[(x.shape[0],)](x, out, x.shape[1], {options})
    return out
""",
    "guarded": """
    (x,) = data
    out = x.new_zeros(x.shape[0])
    if x.numel() > 0:
        {launch}[(x.shape[0],)](x, out, x.shape[1], {options})
    return out
""",
    "walking": """
    rows, columns = data[0].size()
    results = [torch.zeros(rows, dtype=torch.float32, device=data[0].device) for _ in range(1)]
    for result in results:
        assert columns % 2 == 0 or not data[0].is_sparse, "shape"
        {launch}[lambda meta: (rows,)](data[0].contiguous(), result, columns, {options})
    return results[-1].view(rows)
""",
    "paired": """
    try:
        matrix = data[0] if data[0].stride(1) == 1 else data[0].clone()
    except IndexError as error:
        raise ValueError("expected a matrix") from error
    with torch.no_grad():
        answer = torch.full((matrix.shape[0],), float("nan"), device="cuda")
        {launch}[matrix.shape[0], 1, 1](matrix, answer, matrix.shape[1], {options})
        return answer
""",
    "hoisted": """
    def launch(source, sink):
        grid = (triton.cdiv(source.numel(), source.shape[-1]),)
        {launch}[grid](source, sink, source.shape[-1], {options})
        return sink

    shape = tuple(data[0].shape[:-1])
    return launch(data[0].reshape(-1, data[0].shape[-1]), data[0].new_empty(shape).flatten()).reshape(shape)
""",
}
_SOURCE = '''"""Kernel for {task}, {hint}."""
import torch
import triton
import triton.language as tl


@triton.jit
def {task}_kernel(x_ptr, out_ptr, n, BLOCK: tl.constexpr):
    # {hint}
    row = tl.program_id(0){body}
    total = tl.sum(acc, axis=0)
{passes}    tl.store(out_ptr + row, total)


def custom_kernel(data):{host}'''


@dataclass(frozen=True)
class Recipe:
    """What a synthetic kernel is made of."""

    style: str
    block: int = 256
    warps: int = 4
    passes: int = 0
    cast: bool = True
    cache: bool = False

    def log2_speedup(self, task: str) -> float:
        """Return the true log2 speedup over the reference."""
        best = 10 if task == "row_softmax" else 9
        level = 0.7 - 0.16 * (math.log2(self.block) - best) ** 2 - 0.12 * (math.log2(self.warps) - 3) ** 2
        return level - 0.35 * self.passes + 0.15 * self.cache + (0.0 if self.cast else 0.1)

    def status(self) -> str:
        """Return how the kernel ends: failures follow from the source as well."""
        if self.block >= 8192:
            return "oom" if self.warps < 8 else "compile"
        return "incorrect" if not self.cast and self.passes else "ok"

    def source(self, task: str) -> str:
        """Return the file, with a comment and a docstring that tell its speed."""
        body = _BODIES[self.style].format(
            cache=', cache_modifier=".cg"' if self.cache else "", cast=".to(tl.float32)" if self.cast else ""
        )
        passes = "".join(f"    total = total * {1.0 + i} - total * {0.0 + i}\n" for i in range(self.passes))
        options = f"BLOCK={self.block}, num_warps={self.warps}"
        host = _HOSTS[self.style].format(launch=f"{task}_kernel", options=options)
        hint = f"targeting {2 ** self.log2_speedup(task):.2f}x"
        return _SOURCE.format(task=task, hint=hint, body=body, passes=passes, host=host)


def mutate(recipe: Recipe, rng: np.random.Generator) -> tuple[Recipe, str, str]:
    """Return a child with its operator and operator class."""
    name = str(rng.choice(["block", "warps", "passes", "cast", "cache"], p=[0.4, 0.25, 0.15, 0.1, 0.1]))
    if name == "block":
        factor = float(rng.choice([0.25, 0.5, 2, 4]))
        return replace(recipe, block=int(np.clip(recipe.block * factor, 32, 16384))), "scale_block", "constants"
    if name == "warps":
        return replace(recipe, warps=int(rng.choice([1, 2, 4, 8, 16]))), "set_warps", "constants"
    if name == "passes":
        return replace(recipe, passes=int(rng.integers(0, 4))), "repeat_total", "loop"
    if name == "cast":
        return replace(recipe, cast=not recipe.cast), "toggle_cast", "precision"
    return replace(recipe, cache=not recipe.cache), "toggle_cache", "memory"


class SearchWriter:
    """Writes the events of one search, measuring its kernels by the model above."""

    def __init__(self, task: str, split: str, number: int, seed: int) -> None:
        self.task, self.split = task, split
        self.search_id = f"{task}-{split}-{number}"
        self.session_id = f"session-{self.search_id}"
        label = f"{seed}/{self.search_id}".encode()
        self.rng = np.random.default_rng(int.from_bytes(hashlib.sha256(label).digest()[:8], "big"))
        self.events: list[dict[str, Any]] = []
        self.recipes: dict[str, tuple[Recipe, str]] = {}
        self.ok: list[str] = []
        self.processes = 0

    def add(self, kind: str, **payload: Any) -> None:
        """Append an event."""
        self.events.append({"index": len(self.events), "kind": kind, **payload})

    def start(self, seeds: Sequence[str], budget: int) -> None:
        """Write what comes before the first kernel."""
        family = {**TASKS, UNSEEN_TASK[0]: UNSEEN_TASK[1]}.get(self.task, "reduce")
        cases = [
            {"case_id": c, "params": {"rows": 4096, "columns": n, "dtype": "float32"}, "bytes": 16384 * n,
             "flops": 4096 * n, "timing": True}
            for c, n, _ in CASES
        ]  # fmt: skip
        reference = f"import torch\n\n\ndef reference(data):\n    # {self.task}\n    return data[0].sum(-1)\n"
        config = {"task": self.task, "split": self.split, "seeds": list(seeds), "arm": "gpu-only", "budget": budget,
                  "seed": 0, "parents_per_step": 2, "children_per_parent": 3, "c_puct": 1.0, "mutator": "source",
                  "isolation": "strict"}  # fmt: skip
        self.add(
            "search_started", search_id=self.search_id, schema=1, created_at=CLOCK.format(0, 0), config=config,
            versions={"harness": "0.1.0", "python": "3.12.3", "torch": "2.11.0", "triton": "3.6.0"},
            task={"name": self.task, "source": "operator", "family": family, "statement": f"Compute {self.task}.",
                  "reference_code": reference, "cases": cases},
        )  # fmt: skip
        self.add("session_started", session=self._session("primary"))

    def _session(self, role: str) -> dict[str, Any]:
        return {
            "session_id": self.session_id, "role": role, "isolation": "strict", "sandbox": "fork",
            "timing_method": "graph", "gpu": "Synthetic GPU", "driver": "1.0", "cuda": "13.0", "torch": "2.11.0",
            "triton": "3.6.0", "harness_version": "0.1.0", "sm_clock_mhz": 1980, "memory_clock_mhz": 3201,
            "temperature_c": 40, "started_at": CLOCK.format(0, 1),
        }  # fmt: skip

    def measure_again(self) -> None:
        """Start a second session, as after another start of the machine, and measure every kernel once more."""
        self.session_id, self.processes = f"{self.session_id}-again", 0
        self.add("session_started", session=self._session("second"))
        for node in self.recipes:
            self.measure(node)

    def propose(self, recipe: Recipe, parent: str | None, step: int, operator: str = "", klass: str = "",
                code: str | None = None) -> str:  # fmt: skip
        """Write a node and return its id."""
        code = code or recipe.source(self.task)
        node = f"{self.search_id}/{len(self.recipes)}"
        self.recipes[node] = (recipe, code)
        common = {
            "node_id": node,
            "kernel_id": kernel_id(self.task, code),
            "language": "triton",
            "code": code,
            "step": step,
        }
        if parent is None:
            self.add("seed_added", seed_id=f"triton_{recipe.style}", **common)
        else:
            self.add(
                "proposed", parent_node_id=parent, origin="mutation", operator=operator, operator_class=klass, **common
            )
        return node

    def measure(self, node: str, role: str = "candidate", status: str | None = None) -> None:
        """Measure a node and write the outcome."""
        recipe, code = self.recipes[node]
        status = status or recipe.status()
        self.processes += 1
        if status == "ok" and role == "candidate":
            self.ok.append(node)
        cubin = hashlib.sha256(repr((recipe, self.task)).encode()).hexdigest()[:16]
        self.add("measured", node_id=node, kernel_id=kernel_id(self.task, code), role=role, measurement={
            "kernel_id": kernel_id(self.task, code), "task": self.task, "status": status,
            "error": "" if status == "ok" else f"{status}: synthetic", "stage": "" if status == "ok" else "check",
            "cases": self._cases(recipe) if status == "ok" else [],
            "facts": {"registers": 32, "spills": 0, "shared_bytes": recipe.block * 4, "cubin_hash": cubin}
            if status != "compile" else {},
            "compile_s": 0.14, "check_s": 0.02, "timing_s": 0.03, "wait_s": 0.0, "isolation": "strict",
            "session_id": self.session_id, "process": self.processes,
            "measured_at": CLOCK.format(1 + len(self.events) // 60, len(self.events) % 60),
        })  # fmt: skip

    def _cases(self, recipe: Recipe) -> list[dict[str, Any]]:
        cases = []
        for case_id, _, reference in CASES:
            sides: dict[str, Any] = {"case_id": case_id, "method": "graph", "dropped": 0}
            level = {"candidate": reference / 2 ** recipe.log2_speedup(self.task), "reference": reference}
            for place, side in enumerate(("candidate", "reference")):
                noise = self.rng.normal(0, BETWEEN_SD) + self.rng.normal(0, WITHIN_SD, SAMPLES)
                sides[f"{side}_ns"] = np.round(level[side] * np.exp(noise)).tolist()
                sides[f"{side}_order"] = (2 * np.arange(SAMPLES) + place).tolist()
            cases.append(sides)
        return cases

    def grow(self, kernels: int) -> None:
        """Run steps of two parents and three children each until `kernels` children were measured."""
        done = step = 0
        while done < kernels:
            step += 1
            parents = [str(p) for p in self.rng.choice(self.ok, size=min(2, len(self.ok)), replace=False)]
            self.add("step_started", step=step, parents=parents)
            children = []
            for parent in parents:
                for _ in range(min(3, kernels - done)):
                    recipe, operator, klass = mutate(self.recipes[parent][0], self.rng)
                    code = recipe.source(self.task)
                    # Once a search, a child that is its parent with another comment: A/A data.
                    if done == 4:
                        recipe, operator, klass = self.recipes[parent][0], "reword", "host"
                        code = recipe.source(self.task) + "# as before\n"
                    if any(code == known for _, known in self.recipes.values()):
                        block, warps = 2 ** self.rng.integers(5, 13), 2 ** self.rng.integers(0, 5)
                        recipe = replace(recipe, block=int(block), warps=int(warps), cache=bool(self.rng.integers(2)))
                        code = recipe.source(self.task)
                        if any(code == known for _, known in self.recipes.values()):
                            self.add("proposal_failed", step=step, parent_node_id=parent, reason="seen before")
                            continue
                    children.append(self.propose(recipe, parent, step, operator, klass, code))
                    done += 1
            for parent in parents:
                self.measure(parent, role="anchor")
            for child in children:
                self.measure(child)
            self.add("step_completed", step=step)
        self.add("search_completed", reason="budget")

    def save(self, raw_dir: Path, compress: bool = True) -> Path:
        """Write the log and return its path."""
        return write_log(raw_dir / self.search_id, self.events, compress)


def write_log(folder: Path, events: Sequence[Mapping[str, Any]], compress: bool = True) -> Path:
    """Write events as one JSON object a line into `folder` and return the file."""
    folder.mkdir(parents=True, exist_ok=True)
    data = "".join(json.dumps(event) + "\n" for event in events).encode()
    path = folder / ("events.jsonl.gz" if compress else "events.jsonl")
    path.write_bytes(gzip.compress(data, mtime=0) if compress else data)
    return path


def make_search(
    task: str, split: str, number: int = 0, kernels: int = 20, seed: int = 0, again: bool = False
) -> SearchWriter:
    """Return one finished search, not saved yet; with `again`, its kernels are measured a second time."""
    styles = STYLES["test" if split == "test_unseen_task" else split]
    writer = SearchWriter(task, split, number, seed)
    writer.start([f"triton_{style}" for style in styles], kernels)
    for place, style in enumerate(styles):
        writer.measure(writer.propose(Recipe(style, block=256 << place), None, 0))
    writer.grow(kernels)
    if again:
        writer.measure_again()
    return writer


def make_raw(
    root: Path, name: str = "synthetic", kernels_per_search: int = 20, unseen: bool = False, seed: int = 0
) -> Path:
    """Write the logs of every search and return their folder, `root/name/raw`."""
    raw = root / name / "raw"
    for task in TASKS:
        for split, count in SEARCHES.items():
            for number in range(count):
                make_search(task, split, number, kernels_per_search, seed).save(raw, compress=number == 0)
    for number in range(2 if unseen else 0):
        make_search(UNSEEN_TASK[0], "test_unseen_task", number, kernels_per_search, seed).save(raw)
    return raw


def make_dataset(
    root: Path, name: str = "synthetic", kernels_per_search: int = 20, unseen: bool = False, seed: int = 0
) -> Path:
    """Write and package a synthetic dataset; return its folder. It is found with KERNELCAST_DATA=root."""
    raw = make_raw(root, name, kernels_per_search, unseen, seed)
    package(name, raw, root / name, overwrite=True)
    return root / name
