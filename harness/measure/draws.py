"""What kernels are shown: random inputs of a task's cases, near twins of them, and their expected outputs."""

from __future__ import annotations

import secrets
from collections.abc import Sequence

import torch

import tasks
from harness.measure.library import Entry, Known, Library
from harness.measure.region import Form
from tasks.spec import Case, Task

# The second call of a checking case sees the first one's inputs but for a few elements, so that a kernel that answers
# from a fingerprint of its inputs is wrong.
TWIN_SHARE = 0.02
# Inputs without expected outputs that are kept for one timing case, if a quarter of their library holds as many.
KEPT_INPUTS = 64


class Draws:
    """Makes inputs from seeds that are drawn here and never leave.

    `library` keeps those with expected outputs, which take long to make, and `plain` those without.
    """

    def __init__(self, device: str, library: Library, plain: Library) -> None:
        self.device, self.library, self.plain = device, library, plain
        self._known_forms: dict[tuple[str, str], tuple[list[Form], list[Form]]] = {}

    def fresh(self, task: Task, case: Case) -> tuple[torch.Tensor, ...]:
        """Return inputs of a case that nobody has seen."""
        return self._inputs(task, case, secrets.randbits(62))

    def inputs(self, had: set[int], task: Task, case: Case) -> tuple[torch.Tensor, ...]:
        """Return inputs of a case that this run has not seen; other runs may have."""
        size = sum(form.nbytes for form in self.forms(task, case)[0])
        depth = max(1, min(KEPT_INPUTS, self.plain.max_bytes // (4 * max(size, 1))))

        def make() -> Entry:
            return Entry((Known(self.fresh(task, case), (), (), ()),))

        return self.plain.draw((task.name, case.case_id), make, had, depth).sets[0].inputs

    def forms(self, task: Task, case: Case) -> tuple[list[Form], list[Form]]:
        """Return the forms of a case's inputs and outputs."""
        key = task.name, case.case_id
        if key not in self._known_forms:
            data = self.fresh(task, case)
            results = tasks.implementation(task.name).reference(data)
            outputs = results if isinstance(results, tuple) else (results,)
            self._known_forms[key] = [Form.of(t) for t in data], [Form.of(t) for t in outputs]
        return self._known_forms[key]

    def _inputs(self, task: Task, case: Case, seed: int) -> tuple[torch.Tensor, ...]:
        generator = torch.Generator(device=self.device)
        generator.manual_seed(seed)
        return tuple(tasks.implementation(task.name).make_inputs(generator, self.device, **case.params))

    def _twin(self, task: Task, case: Case, data: Sequence[torch.Tensor]) -> tuple[torch.Tensor, ...]:
        """Return the inputs with a few floating-point elements replaced; drawn afresh where they cannot be mixed."""
        seed = secrets.randbits(62)
        other = self._inputs(task, case, seed)
        if not task.twins:
            return other
        generator = torch.Generator(device=self.device)
        generator.manual_seed(seed ^ 1)
        mixed = []
        for value, replacement in zip(data, other, strict=True):
            if value.is_floating_point():
                chance = torch.rand(value.shape, generator=generator, device=self.device)
                value = torch.where(chance < TWIN_SHARE, replacement, value)
            mixed.append(value)
        return tuple(mixed)

    def _known(self, task: Task, case: Case, data: tuple[torch.Tensor, ...]) -> Known:
        functions, outputs = tasks.implementation(task.name), tuple(self.forms(task, case)[1])
        if hasattr(functions, "check"):  # the problem compares for itself
            return Known(data, outputs, (), ())
        return Known(data, outputs, tuple(functions.oracle(data)), tuple(task.tolerances(case.params)))

    def draw(self, had: set[int], task: Task, case: Case, kind: str) -> Entry:
        """Return inputs of a case with expected outputs that this run has not seen; with a twin for a check."""

        def make() -> Entry:
            data = self.fresh(task, case)
            first = self._known(task, case, data)
            return Entry(
                (first, self._known(task, case, self._twin(task, case, data))) if kind == "check" else (first,)
            )

        return self.library.draw((task.name, kind, case.case_id), make, had)

    def check_cases(self, task: Task) -> list[Case]:
        """Return the checking cases that this device can run. Raises ValueError if there is none."""
        cases = [c for c in task.check_cases if c.cpu or self.device == "cuda"]
        if not cases:
            raise ValueError(f"task {task.name} has no checking case that device {self.device} can run")
        return cases
