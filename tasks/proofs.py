"""The proofs that run kernels: what passes, what must fail, and what a CUDA graph can hold."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from importlib import import_module
from pathlib import Path
from typing import Any

import torch

import tasks
from tasks.compare import mismatch
from tasks.report import Proof
from tasks.spec import Case, Task

MIN_WRONG_KERNELS = 3
SEED, OTHER_SEED = 20_011, 977
# Expected values stay in memory up to this size together, so that they are not computed again for every seed.
KEPT_BYTES = 3 << 30

Data = tuple[torch.Tensor, ...]
Kernel = Callable[[Data], Any]
ACCEPTED = "accepted as the right answer"
TRIVIAL = ("zeros", "ones", "nan", "copied input", "answer to other inputs")


class Bench:
    """One task on one device: makes inputs, runs kernels on them in this process and judges the outputs."""

    def __init__(self, task: Task, device: str) -> None:
        self.task = task
        self.device = device
        self.functions = tasks.implementation(task.name)
        self._kept: dict[str, tuple[Data, Data]] = {}

    def inputs(self, case: Case, seed: int = SEED) -> Data:
        """Return the inputs of a case for a seed."""
        generator = torch.Generator(self.device).manual_seed(seed)
        return self.functions.make_inputs(generator, self.device, **case.params)

    def judge(self, kernel: Kernel, case: Case, truth: tuple[Data, Data] | None = None) -> str | None:
        """Return why a kernel fails a case, None if it passes; `truth` is (oracle's values, reference's outputs)."""
        data = self.inputs(case)
        before = tuple(value.clone() for value in data)
        expected, like = truth or self.truth(case)
        with torch.no_grad():
            outputs = kernel(data)
        self.synchronize()
        for place, (value, old) in enumerate(zip(data, before, strict=True)):
            if place not in self.task.writes and not same_bits(value, old):
                return f"input {place} was changed"
        kept = {value.untyped_storage().data_ptr() for value in _read(self.task, data)}
        for place, out in enumerate(_as_tuple(outputs)):
            if isinstance(out, torch.Tensor) and out.untyped_storage().data_ptr() in kept:
                return f"output {place} lies in the memory of an input"
        return mismatch(outputs, expected, self.task.tolerances(case.params), like)

    def attempt(self, kernel: Kernel, case: Case, truth: tuple[Data, Data] | None = None) -> str | None:
        """Return why a kernel fails a case, an exception of its own included; None if it passes.

        An exception for want of memory is raised: it depends on what else runs on the device.
        """
        try:
            return self.judge(kernel, case, truth)
        except Exception as error:
            if short_of_memory(error):
                raise
            return one_line(error)

    def truth(self, case: Case) -> tuple[Data, Data]:
        """Return the oracle's values and the reference's outputs for the inputs of a case."""
        if case.case_id in self._kept:
            return self._kept[case.case_id]
        expected = tuple(self.functions.oracle(self.inputs(case)))
        with torch.no_grad():
            like = _as_tuple(self.functions.reference(self.inputs(case)))
        kept = [value for pair in self._kept.values() for values in pair for value in values]
        if sum(value.numel() * value.element_size() for value in (*kept, *expected, *like)) <= KEPT_BYTES:
            self._kept[case.case_id] = expected, like
        return expected, like

    def forget(self) -> None:
        """Free the expected values that were kept."""
        self._kept.clear()

    def synchronize(self) -> None:
        """Wait for the device, so that an error of a kernel is met here."""
        if self.device == "cuda":
            torch.cuda.synchronize()

    def prove_case(self, case: Case) -> list[Proof]:
        """Inputs repeat and depend on the seed, traffic adds up, the reference passes, trivial answers fail."""
        data, again, other = self.inputs(case), self.inputs(case), self.inputs(case, OTHER_SEED)
        expected, like = truth = self.truth(case)
        read = [value for place, value in enumerate(data) if place not in self.task.writes]
        traffic = sum(value.numel() * value.element_size() for value in (*read, *like))
        form = all(v.is_contiguous() and v.device.type == self.device and type(v) is torch.Tensor for v in data)
        exact = all(e.dtype == torch.float64 and bool(e.isfinite().all()) for e in expected)
        facts = [
            ("inputs", "repeat for a seed", all(map(same_bits, data, again)), "two draws with one seed differ"),
            (
                "inputs",
                "depend on the seed",
                not any(map(same_bits, read, _read(self.task, other))),
                "an input is fixed",
            ),
            ("inputs", "form", form, "expected contiguous tensors on the device"),
            ("cases", "bytes", traffic == case.bytes, f"the case says {case.bytes}, its tensors have {traffic}"),
            ("reference", "oracle", exact, "expected finite float64 values"),
        ]
        del again, other
        proofs = [Proof(kind, f"{what}: {case.case_id}", ok, "" if ok else detail) for kind, what, ok, detail in facts]
        wrong = self.attempt(self.functions.reference, case, truth)
        proofs.append(Proof("reference", case.case_id, wrong is None, wrong or ""))
        return proofs + self._trivial(case, data, expected, like)

    def _trivial(self, case: Case, data: Data, expected: Data, like: Data) -> list[Proof]:
        proofs = []
        for answer in TRIVIAL:
            for place in range(len(like)):
                # All other outputs are right, so that each output is shown to be checked.
                outputs = (*like[:place], self._fake(answer, case, data, like, place), *like[place + 1 :])
                caught = mismatch(outputs, expected, self.task.tolerances(case.params), like)
                proofs.append(
                    Proof("trivial", f"{answer} as output {place}", bool(caught), caught or ACCEPTED, case.case_id)
                )
        return proofs

    def _fake(self, answer: str, case: Case, data: Data, like: Data, place: int) -> torch.Tensor:
        out = like[place]
        if answer == "answer to other inputs":
            with torch.no_grad():
                return _as_tuple(self.functions.reference(self.inputs(case, OTHER_SEED)))[place]
        if answer == "copied input":
            read = _read(self.task, data)
            source = next((v for v in read if v.shape == out.shape), read[0]).reshape(-1)
            repeats = -(-out.numel() // source.numel())
            return source.repeat(repeats)[: out.numel()].view(out.shape).to(out.dtype)
        if answer == "nan" and not out.is_floating_point():
            return torch.full_like(out, torch.iinfo(out.dtype).max)
        return torch.full_like(out, {"zeros": 0.0, "ones": 1.0, "nan": float("nan")}[answer])

    def prove_seed(self, seed: str, cases: Sequence[Case]) -> list[Proof]:
        """A seed kernel passes every case."""
        kernel = tasks.load_kernel(seed_path(self.task.name, seed))
        proofs = []
        for case in cases:
            wrong = self.attempt(kernel, case)
            proofs.append(Proof("seed", f"{seed}: {case.case_id}", wrong is None, wrong or ""))
        return proofs

    def prove_capture(self, seed: str, cases: Sequence[Case]) -> list[Proof]:
        """A seed kernel works in a CUDA graph that was captured on other values of the inputs."""
        kernel = tasks.load_kernel(seed_path(self.task.name, seed))
        case = cases[0]
        expected, like = self.truth(case)
        data = self.inputs(case, OTHER_SEED)
        try:
            with torch.no_grad():
                kernel(data)
                self.synchronize()
                graph = torch.cuda.CUDAGraph()
                with torch.cuda.graph(graph):
                    outputs = kernel(data)
                for target, source in zip(data, self.inputs(case), strict=True):
                    target.copy_(source)
                graph.replay()
            self.synchronize()
        except Exception as error:
            if short_of_memory(error):
                raise
            wrong: str | None = one_line(error)
        else:
            wrong = mismatch(outputs, expected, self.task.tolerances(case.params), like)
        return [Proof("capture", f"{seed}: {case.case_id}", wrong is None, wrong or "")]

    def prove_wrong(self, cases: Sequence[Case]) -> list[Proof]:
        """Every plausible wrong kernel of the task fails some checking case."""
        if not (tasks.folder(self.task.name) / "wrong.py").is_file():
            return [Proof("wrong", "kernels", False, f"no wrong.py; it has to give {MIN_WRONG_KERNELS} wrong kernels")]
        wrong: dict[str, Kernel] = import_module(f"tasks.{self.task.name}.wrong").WRONG
        enough = len(wrong) >= MIN_WRONG_KERNELS
        detail = "" if enough else f"{len(wrong)} wrong kernels, at least {MIN_WRONG_KERNELS} expected"
        proofs = [Proof("wrong", "kernels", enough, detail)]
        for name, kernel in wrong.items():
            proofs.append(self._exposed(name, kernel, cases))
        return proofs

    def _exposed(self, name: str, kernel: Kernel, cases: Sequence[Case]) -> Proof:
        for case in cases:
            try:
                answer = self.judge(kernel, case)
            except Exception as error:
                if short_of_memory(error):
                    raise
                # A wrong kernel that cannot run proves nothing about the judge.
                return Proof("wrong", name, False, one_line(error), case.case_id)
            if answer:
                return Proof("wrong", name, True, answer, case.case_id)
        return Proof("wrong", name, False, "passes every checking case")


def seed_path(task: str, seed: str) -> Path:
    """Return the file of a seed kernel."""
    return tasks.folder(task) / "seeds" / f"{seed}.py"


def same_bits(a: torch.Tensor, b: torch.Tensor) -> bool:
    """Whether two tensors hold the same bytes, so that NaN equals NaN."""
    return a.shape == b.shape and a.dtype == b.dtype and torch.equal(_bytes(a), _bytes(b))


def _bytes(value: torch.Tensor) -> torch.Tensor:
    return value.contiguous().reshape(-1).view(torch.uint8)


def _read(task: Task, data: Data) -> list[torch.Tensor]:
    return [value for place, value in enumerate(data) if place not in task.writes]


def _as_tuple(outputs: Any) -> Data:
    return (outputs,) if isinstance(outputs, torch.Tensor) else tuple(outputs)


def short_of_memory(error: BaseException) -> bool:
    """Whether an exception says that the device's memory ran out, in the words of torch, the driver or cuBLAS."""
    text = str(error).lower()
    return isinstance(error, torch.OutOfMemoryError) or "out of memory" in text or "status_alloc_failed" in text


def one_line(error: BaseException) -> str:
    """Return an exception as one line of at most 300 characters and its type."""
    return f"{type(error).__name__}: {' '.join(str(error).split())[:300]}"
