"""The constants of kernel files that a task declares with their ranges, for a search to choose from."""

from __future__ import annotations

import ast
from collections.abc import Mapping

import tasks
from tasks.spec import EVERY_SEED, Ranges, Task


def ranges_of(constants: Mapping[str, Ranges], seed: str) -> dict[str, tuple[int, ...]]:
    """Return the ranges of a seed by name of the constant; its own go before those of every seed."""
    return {**constants.get(EVERY_SEED, {}), **constants.get(seed, {})}


def top_constants(module: ast.Module) -> dict[str, ast.Constant]:
    """Return the integers that are assigned to plain names at the top level of a kernel file, by name."""
    return {
        s.targets[0].id: s.value
        for s in module.body
        if isinstance(s, ast.Assign)
        and isinstance(s.targets[0], ast.Name)
        and isinstance(s.value, ast.Constant)
        and type(s.value.value) is int
    }


def wrong_constants(task: Task) -> list[str]:
    """Return what is wrong with the ranges that a task declares, one line each.

    A range has at least two different integers, and belongs to a constant at the top of its seed, which has one of
    these values there; a range of EVERY_SEED to that of each seed that has it and does not declare its own.
    """
    if not isinstance(task.constants, Mapping) or not all(isinstance(r, Mapping) for r in task.constants.values()):
        return [f"{task.constants!r}, expected the names of constants with their ranges, by seed"]
    found: list[str] = []
    if not task.constants:
        return found
    values = {seed: top_constants(ast.parse(tasks.seed_code(task.name, seed))) for seed in tasks.seed_names(task.name)}
    for seed, ranges in task.constants.items():
        if seed != EVERY_SEED and seed not in values:
            found.append(f"no seed: '{seed}'")
            continue
        for name, allowed in ranges.items():
            if not isinstance(allowed, tuple) or len(set(allowed)) < 2 or any(type(v) is not int for v in allowed):
                found.append(f"{seed}: {name} has {allowed!r}, expected a tuple of at least two integers")
                continue
            general = [s for s in values if name not in task.constants.get(s, {})]
            held = {s: values[s][name].value for s in (general if seed == EVERY_SEED else [seed]) if name in values[s]}
            if not held:
                found.append(f"{seed}: no integer {name} at the top of the file")
            found += [f"{s}: {name} is {v!r}, which is not in {allowed}" for s, v in held.items() if v not in allowed]
    return found
