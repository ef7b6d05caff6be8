"""The proofs that need shapes alone: what a case moves, and that every seed compiles for the device it is meant for."""

from __future__ import annotations

import traceback
from collections.abc import Sequence
from typing import Any

import torch
from torch._subclasses.fake_tensor import FakeTensorMode
from torch.overrides import TorchFunctionMode

import tasks
from tasks.proofs import one_line, seed_path
from tasks.report import Proof
from tasks.sm90 import Launch, compiled_only
from tasks.spec import Case, Task

Data = tuple[torch.Tensor, ...]
CUDA = torch.device("cuda", 0)


class _MetaAsCuda(TorchFunctionMode):
    """Tensors of the device meta say that they are on cuda, and what is made on cuda is made on meta.

    PyTorch's own fake tensors on cuda need a build with CUDA for many operations.
    """

    def __torch_function__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        if func == torch.Tensor.device.__get__:  # type: ignore[attr-defined]
            device = func(*args)
            return CUDA if device.type == "meta" else device
        if func == torch.Tensor.is_cuda.__get__:  # type: ignore[attr-defined]
            return args[0].is_meta
        meta = {name: _meta(value) for name, value in (kwargs or {}).items()}
        return func(*map(_meta, args), **meta)


def _meta(value: Any) -> Any:
    is_device = isinstance(value, torch.device) or (isinstance(value, str) and value.startswith("cuda"))
    return torch.device("meta") if is_device and torch.device(value).type == "cuda" else value


class ShapeBench:
    """One task with tensors that have a shape, a dtype and a device but no values, so that any size is free."""

    def __init__(self, task: Task) -> None:
        self.task = task
        self.functions = tasks.implementation(task.name)
        self._drawn: dict[str, tuple[Data, Data]] = {}

    def drawn(self, case: Case) -> tuple[Data, Data]:
        """Return the inputs of a case and the reference's outputs, without their values."""
        if case.case_id not in self._drawn:
            with FakeTensorMode(), torch.no_grad():
                data = self.functions.make_inputs(torch.Generator().manual_seed(0), "cpu", **case.params)
                outputs = self.functions.reference(data)
            self._drawn[case.case_id] = data, (outputs,) if isinstance(outputs, torch.Tensor) else tuple(outputs)
        return self._drawn[case.case_id]

    def prove_bytes(self, cases: Sequence[Case]) -> list[Proof]:
        """Every case says what its tensors move, the timed ones included."""
        proofs = []
        for case in cases:
            data, outputs = self.drawn(case)
            read = [value for place, value in enumerate(data) if place not in self.task.writes]
            moved = sum(value.numel() * value.element_size() for value in (*read, *outputs))
            detail = "" if moved == case.bytes else f"the case says {case.bytes}, its tensors have {moved}"
            proofs.append(Proof("cases", f"bytes: {case.case_id}", not detail, detail))
        return proofs

    def prove_compiled(self, seed: str, cases: Sequence[Case]) -> list[Proof]:
        """A seed's kernels compile for sm_90 for every case, fit an H200, and the outputs have the right form."""
        kernel = tasks.load_kernel(seed_path(self.task.name, seed))
        launches: dict[Launch, None] = {}
        for case in cases:
            wrong = self._try(kernel, case, launches)
            if wrong:
                return [Proof("compile", seed, False, wrong, case.case_id)]
        return [Proof("compile", seed, True, described(list(launches)))]

    def _try(self, kernel: Any, case: Case, launches: dict[Launch, None]) -> str | None:
        seen: list[Launch] = []
        inputs, like = self.drawn(case)
        data = tuple(torch.empty_strided(v.shape, v.stride(), dtype=v.dtype, device="meta") for v in inputs)
        try:
            with torch.no_grad(), compiled_only(seen.append), _MetaAsCuda():
                outputs = kernel(data)
        except Exception as error:
            return f"{one_line(error)} ({_place(error)})"
        launches.update(dict.fromkeys(seen))
        for launch in seen:
            if launch.problems:
                return f"{launch.kernel}: {'; '.join(launch.problems)}"
        outputs = (outputs,) if isinstance(outputs, torch.Tensor) else tuple(outputs)
        got, expected = ([(tuple(v.shape), v.dtype) for v in part] for part in (outputs, like))
        if got != expected:
            return f"outputs {got}, expected {expected}"
        return None if all(v.is_meta for v in outputs) else "an output is not on the device of the inputs"


def described(launches: Sequence[Launch]) -> str:
    """Return what the kernels of a seed use, in one line."""
    if not launches:
        return "no kernel of its own"
    kernels = len({launch.kernel for launch in launches})
    registers, stack, shared = (
        max(getattr(launch, name) for launch in launches) for name in ("registers", "stack_bytes", "shared_bytes")
    )
    return (
        f"{kernels} kernels in {len(launches)} forms: up to {registers} registers, {stack} B stack, {shared} B shared"
    )


def _place(error: BaseException) -> str:
    """Where in the kernel's file an exception came from."""
    frames = traceback.extract_tb(error.__traceback__)
    own = [frame for frame in frames if "/seeds/" in frame.filename] or frames[-1:]
    return f"line {own[-1].lineno}" if own else "unknown line"
