"""KernelCast's kernel tasks: every folder here that holds a `task.py` with a `TASK` is one task.

Importing this package loads neither torch nor triton; only `implementation` and `load_kernel` need them.
"""

from __future__ import annotations

import os
from collections.abc import Callable
from difflib import get_close_matches
from functools import cache
from importlib import import_module
from pathlib import Path
from pkgutil import iter_modules
from types import ModuleType
from typing import Any

from tasks import adapters
from tasks.spec import Task

__all__ = [
    "UnknownTaskError",
    "candidate_source",
    "folder",
    "get",
    "implementation",
    "load_kernel",
    "names",
    "reference_code",
    "seed_code",
    "seed_names",
    "taken",
]

FOLDERS_VARIABLE = "KERNELCAST_TASKS"
UNSEEN_SPLIT = "test_unseen_task"
# The folders that hold tasks: this one, then those of the user. As they are the package's path, a user's task is
# imported as tasks.NAME like any other.
__path__ += [os.path.abspath(path) for path in os.environ.get(FOLDERS_VARIABLE, "").split(os.pathsep) if path]


class UnknownTaskError(KeyError):
    """A task or seed name that the registry does not have."""

    def __str__(self) -> str:
        return str(self.args[0])


def _folders() -> dict[str, Path]:
    found: dict[str, Path] = {}
    for root in map(Path, __path__):
        if not root.is_dir():
            raise ValueError(f"{FOLDERS_VARIABLE} names '{root}', which is not a folder")
        for path in sorted(root.iterdir()):
            if not (path / "task.py").is_file():
                continue
            if path.name in found:
                raise ValueError(f"two tasks are named '{path.name}': '{found[path.name]}' and '{path}'; rename one")
            if path.name in taken() or not path.name.isidentifier():
                raise ValueError(f"'{path}' cannot be a task of that name; rename the folder")
            found[path.name] = path
    return dict(sorted(found.items()))


@cache
def taken() -> frozenset[str]:
    """Return the names that no task can have, because a module here has them."""
    return frozenset(module.name for module in iter_modules(__path__[:1]))


def names() -> tuple[str, ...]:
    """Return the names of all tasks in alphabetical order, those in the folders of KERNELCAST_TASKS included."""
    return tuple(_folders())


def folder(name: str) -> Path:
    """Return the folder of a task; raises UnknownTaskError with the closest name."""
    known = _folders()
    if name not in known:
        raise UnknownTaskError(_unknown("task", name, tuple(known)))
    return known[name]


@cache
def get(name: str) -> Task:
    """Return the task `name`: a folder's name, `kernelbench:FILE.py` or `gpu_mode:FOLDER`.

    Raises UnknownTaskError with the closest name, ValueError if the folder or the problem is malformed.
    """
    if adapters.is_outside(name):
        return adapters.task(name)
    place = folder(name) / "task.py"
    task = getattr(import_module(f"tasks.{name}.task"), "TASK", None)
    if not isinstance(task, Task):
        raise ValueError(f"{place}: expected a module-level TASK of type tasks.spec.Task, found {task!r}")
    if task.name != name:
        raise ValueError(f"{place}: TASK.name is '{task.name}', expected the folder's name '{name}'")
    return task


def implementation(name: str) -> ModuleType:
    """Return the module with the task's `make_inputs`, `reference` and `oracle`; imports torch.

    A problem of another format may also have `check(data, outputs)`, which then decides in place of the tolerances.
    """
    if adapters.is_outside(name):
        return adapters.implementation(name)
    get(name)
    return import_module(f"tasks.{name}.reference")


@cache
def reference_code(name: str) -> str:
    """Return the reference as a self-contained module: `reference` and the top-level names that it needs."""
    from tasks.extract import definition_closure

    if adapters.is_outside(name):
        return adapters.reference_code(name)
    get(name)
    return definition_closure((folder(name) / "reference.py").read_text(encoding="utf-8"), "reference")


def candidate_source(name: str, code: str) -> str:
    """Return what to run for a kernel file: the file itself, or wrapped if the task is a problem of another format."""
    return adapters.candidate_source(name, code) if adapters.is_outside(name) else code


def seed_names(name: str, split: str | None = None) -> tuple[str, ...]:
    """Return the task's seed kernels, of one split or of all in split order; raises ValueError for an unknown split.

    A task that training never sees has all of its seeds in the split `test_unseen_task`.
    """
    seeds = get(name).seeds
    if split in (None, UNSEEN_SPLIT):
        return tuple(seed for part in seeds.values() for seed in part)
    if split not in seeds:
        raise ValueError(f"task '{name}' has no seeds for split '{split}'; it has {', '.join(seeds)}")
    return tuple(seeds[split])


def seed_code(name: str, seed: str) -> str:
    """Return the source of a seed kernel; raises UnknownTaskError with the closest name."""
    if seed not in seed_names(name):
        raise UnknownTaskError(_unknown(f"seed of task '{name}'", seed, seed_names(name)))
    return (folder(name) / "seeds" / f"{seed}.py").read_text(encoding="utf-8")


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
