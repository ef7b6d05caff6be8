"""Start a new task: a folder with everything that a task consists of, and a TODO at every place that is still open."""

from __future__ import annotations

import keyword
import re
from pathlib import Path

import tasks

MARK = "TODO"
_NAME = re.compile(r"[a-z][a-z0-9_]*")

_TASK = '''"""TODO: what the task computes, in one line."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from tasks.spec import Case, Task, Tolerance


def tolerances(params: Mapping[str, Any]) -> tuple[Tolerance, ...]:
    """Return the tolerance of each output."""
    # TODO: a few times the rounding error of the output's dtype; the notes say how it was derived.
    return (Tolerance(rtol=0.0, atol=0.0),)


def case(rows: int, columns: int, cpu: bool = False) -> Case:
    """Return the case; least traffic is each input read once and each output written once."""
    # TODO: parameters that fit make_inputs, bytes, and the operations of the plain algorithm.
    return Case(
        case_id=f"{rows}x{columns}",
        params={"rows": rows, "columns": columns},
        bytes=0,
        flops=0,
        cpu=cpu,
    )


TASK = Task(
    name="@NAME@",
    source="operator",  # TODO: gpu_mode, operator or network
    family="norm",  # TODO: norm, matmul, attention, scan, conv, quantise, reduce, block or loss
    statement="TODO: the mathematics, shapes, dtypes and what is timed: all that a forecaster is told.",
    # TODO: at least five small ones for the interpreter (cpu=True) with sizes that are no power of two, size 1 and
    # difficult values, and a few medium ones for a GPU alone.
    check_cases=(),
    timing_cases=(),  # TODO: two or three, on which the reference takes 50 us to 3 ms
    tolerances=tolerances,
    seeds={
        "train": ("torch_eager", "triton_first"),
        "validation": ("torch_second",),
        "test": ("triton_second", "triton_third"),
    },
    notes="TODO: where the tolerances come from.",
    sources=(),  # TODO: where the operation comes from
)
'''

_REFERENCE = '''"""TODO: what the task computes: inputs, PyTorch reference and float64 oracle."""

from __future__ import annotations

import torch


def make_inputs(
    generator: torch.Generator, device: torch.device | str, *, rows: int, columns: int
) -> tuple[torch.Tensor, ...]:
    """Return the contiguous input tensors, drawn with the generator."""
    # TODO: values for which every term of the operation matters: no zero bias, no gate that vanishes.
    raise NotImplementedError


def reference(data):
    """Return the output tensors; plain PyTorch that a CUDA graph can hold."""
    # TODO: no .item(), no set-up, no shape that depends on values; the inputs stay unchanged.
    raise NotImplementedError


def oracle(data: tuple[torch.Tensor, ...]) -> tuple[torch.Tensor, ...]:
    """Return the exact outputs for the given inputs in float64."""
    # TODO: an algorithm that is accurate rather than fast, in chunks where the tensors are large.
    raise NotImplementedError
'''

_WRONG = '''"""Plausible wrong kernels of @NAME@, each of which a checking case has to expose."""

from __future__ import annotations

# TODO: at least three functions of data that make the mistakes a kernel could make, by name.
WRONG = {}
'''

_SEED = """from __future__ import annotations

import torch


def custom_kernel(data):
    # TODO: @HOW@. A seed has no comments.
    raise NotImplementedError
"""

_SEEDS = {
    "torch_eager": "plain PyTorch operations",
    "torch_second": "PyTorch operations in another formulation",
    "triton_first": "a fused Triton kernel",
    "triton_second": "a Triton kernel with another algorithm, for example two passes",
    "triton_third": "a Triton kernel with another tiling or a persistent grid",
}


def create(name: str, into: Path) -> list[Path]:
    """Write the template of a task to `into`/`name` and return its files.

    Raises ValueError if the name is not a lower-case identifier or is taken, or `into` is not a folder.
    """
    if not _NAME.fullmatch(name) or keyword.iskeyword(name):
        raise ValueError(f"'{name}' cannot name a task: expected lower-case letters, digits and _, a letter first")
    if name in tasks.names() or name in tasks.taken():
        raise ValueError(f"'{name}' is taken; choose another name for the task")
    if not into.is_dir():
        raise ValueError(f"'{into}' is not a folder")
    if (into / name).exists():
        raise ValueError(f"'{into / name}' exists already; choose another name for the task")
    texts = {"task.py": _TASK, "reference.py": _REFERENCE, "wrong.py": _WRONG}
    texts |= {f"seeds/{seed}.py": _SEED.replace("@HOW@", how) for seed, how in _SEEDS.items()}
    (into / name / "seeds").mkdir(parents=True)
    for path, text in texts.items():
        (into / name / path).write_text(text.replace("@NAME@", name), encoding="utf-8")
    return [into / name / path for path in texts]


def open_places(folder: Path) -> list[str]:
    """Return `file:line` of every TODO in a task's folder."""
    return [
        f"{path.relative_to(folder)}:{number}"
        for path in sorted(folder.rglob("*.py"))
        for number, line in enumerate(path.read_text(encoding="utf-8").splitlines(), 1)
        if MARK in line
    ]
