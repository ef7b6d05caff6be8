"""A copy, from one element to more than the cache holds: shows what timing adds, and how cold the cache is."""

from __future__ import annotations

from tasks.spec import Case, Task, Tolerance


def case(elements: int, cpu: bool = False) -> Case:
    """Return the case of so many float32 elements, each read and written once."""
    return Case(f"{elements}-fp32", {"elements": elements}, bytes=8 * elements, flops=0, cpu=cpu)


TASK = Task(
    name="plain_copy",
    source="operator",
    family="reduce",
    statement="y = x for a contiguous float32 vector x of any length; data = (x,). The result is a new tensor.",
    check_cases=(case(1, cpu=True), case(1000, cpu=True), case(70_001, cpu=True)),
    timing_cases=(case(1), case(2 << 20), case(16 << 20), case(64 << 20)),
    tolerances=lambda params: (Tolerance(rtol=0.0, atol=0.0),),
    seeds={"train": ("triton_copy", "torch_clone"), "validation": (), "test": ()},
    notes="Only `kernelcast bench measure` uses it; it is no task of the benchmark.",
)
