"""KernelCast's kernel tasks: every folder here that holds a `task.py` with a `TASK` is one task.

Importing this package loads neither torch nor triton; only `implementation` and `load_kernel` need them.
"""

from __future__ import annotations

from collections.abc import Callable
from difflib import get_close_matches
from functools import cache
from importlib import import_module
from pathlib import Path
from types import ModuleType
from typing import Any

from tasks.spec import Task

__all__ = [
    "UnknownTaskError",
    "get",
    "implementation",
    "load_kernel",
    "names",
    "reference_code",
    "seed_code",
    "seed_names",
]

_ROOT = Path(__file__).resolve().parent


class UnknownTaskError(KeyError):
    """A task or seed name that the registry does not have."""

    def __str__(self) -> str:
        return str(self.args[0])


@cache
def names() -> tuple[str, ...]:
    """Return the names of all tasks in alphabetical order."""
    return tuple(sorted(folder.name for folder in _ROOT.iterdir() if (folder / "task.py").is_file()))


@cache
def get(name: str) -> Task:
    """Return the task `name`; raises UnknownTaskError with the closest name, ValueError if its folder is malformed."""
    if name not in names():
        raise UnknownTaskError(_unknown("task", name, names()))
    task = getattr(import_module(f"tasks.{name}.task"), "TASK", None)
    if not isinstance(task, Task):
        raise ValueError(f"tasks/{name}/task.py: expected a module-level TASK of type tasks.spec.Task, found {task!r}")
    if task.name != name:
        raise ValueError(f"tasks/{name}/task.py: TASK.name is '{task.name}', expected the folder's name '{name}'")
    return task


def implementation(name: str) -> ModuleType:
    """Return the module with the task's `make_inputs`, `reference` and `oracle`; imports torch."""
    get(name)
    return import_module(f"tasks.{name}.reference")


@cache
def reference_code(name: str) -> str:
    """Return the reference as a self-contained module: `reference` and the top-level names that it needs."""
    from tasks.extract import definition_closure

    get(name)
    return definition_closure((_ROOT / name / "reference.py").read_text(encoding="utf-8"), "reference")


def seed_names(name: str, split: str | None = None) -> tuple[str, ...]:
    """Return the task's seed kernels, of one split or of all in split order; raises ValueError for an unknown split."""
    seeds = get(name).seeds
    if split is None:
        return tuple(seed for part in seeds.values() for seed in part)
    if split not in seeds:
        raise ValueError(f"task '{name}' has no seeds for split '{split}'; it has {', '.join(seeds)}")
    return tuple(seeds[split])


def seed_code(name: str, seed: str) -> str:
    """Return the source of a seed kernel; raises UnknownTaskError with the closest name."""
    if seed not in seed_names(name):
        raise UnknownTaskError(_unknown(f"seed of task '{name}'", seed, seed_names(name)))
    return (_ROOT / name / "seeds" / f"{seed}.py").read_text(encoding="utf-8")


def load_kernel(path: str | Path) -> Callable[[Any], Any]:
    """Return `custom_kernel` of a trusted kernel file; runs the file in this process, so never for outside code."""
    from importlib.util import module_from_spec, spec_from_file_location

    path = Path(path)
    spec = spec_from_file_location(f"kernel_{path.stem}", path)
    if spec is None or spec.loader is None:
        raise ValueError(f"{path}: expected a Python file")
    module = module_from_spec(spec)
    spec.loader.exec_module(module)
    kernel = getattr(module, "custom_kernel", None)
    if not callable(kernel):
        raise ValueError(f"{path}: expected a function custom_kernel(data)")
    return kernel


def _unknown(kind: str, name: str, known: tuple[str, ...]) -> str:
    near = get_close_matches(name, known, n=1)
    hint = f" Did you mean '{near[0]}'?" if near else ""
    return f"unknown {kind} '{name}'.{hint} Known: {', '.join(known)}"
