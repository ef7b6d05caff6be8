"""Who may import whom, and what a bare GPU machine has to have."""

from __future__ import annotations

import ast
import re
import sys
import tomllib
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest

ALLOWED = {
    "benchmark": {"benchmark"},
    "tasks": {"tasks", "benchmark"},
    "harness": {"harness", "tasks", "benchmark"},
    "leaderboard": {"leaderboard", "benchmark"},
}
OURS = {*ALLOWED, "kernelcast"}
PRINTS_THE_TABLE = ("harness.cli", "harness.reproduce")
GPU_PATH = ("tasks", "harness.measure", "harness.search")
ON_A_GPU_MACHINE = {*sys.stdlib_module_names, "torch", "triton", "numpy"}
# A GPU machine may use these where they are installed: a mutator that asks a model, a Ray cluster, a task.yml, the
# figures of a report.
OPT_IN = {"matplotlib", "openai", "ray", "yaml"}
DISTRIBUTIONS = {"sklearn": "scikit-learn", "yaml": "pyyaml"}
DOTTED = re.compile(r"(?:benchmark|tasks|harness|leaderboard)(?:\.[a-z_]\w*)+(?::\w+)?")


@dataclass(frozen=True)
class Import:
    """One module that a file imports, by statement or by a dotted name in a string."""

    importer: str
    target: str
    line: int
    at_start: bool

    def __str__(self) -> str:
        return f"{self.importer}:{self.line} imports {self.target}"


def _module_name(path: Path) -> str:
    parts = path.with_suffix("").parts
    return ".".join(parts[:-1] if parts[-1] == "__init__" else parts)


def _only_for_types(node: ast.AST) -> bool:
    return isinstance(node, ast.If) and "TYPE_CHECKING" in ast.unparse(node.test)


def _walk(node: ast.AST, at_start: bool = True) -> Iterator[tuple[ast.AST, bool]]:
    for child in ast.iter_child_nodes(node):
        if _only_for_types(child):
            continue
        inside = at_start and not isinstance(child, ast.FunctionDef | ast.AsyncFunctionDef | ast.Lambda)
        yield child, inside
        yield from _walk(child, inside)


def imports_of(source: str, importer: str, is_package: bool, modules: set[str]) -> list[Import]:
    """Return what a source file imports; `modules` are the names of our own modules."""
    package = importer if is_package else importer.rpartition(".")[0]
    found = []
    for node, at_start in _walk(ast.parse(source)):
        targets: list[str] = []
        if isinstance(node, ast.Import):
            targets = [alias.name for alias in node.names]
        elif isinstance(node, ast.ImportFrom):
            above = package.split(".")[: len(package.split(".")) - node.level + 1] if node.level else []
            base = ".".join([*above, *([node.module] if node.module else [])])
            submodules = [f"{base}.{alias.name}" for alias in node.names if f"{base}.{alias.name}" in modules]
            targets = [base, *submodules]
        elif isinstance(node, ast.Constant) and isinstance(node.value, str) and DOTTED.fullmatch(node.value):
            name = node.value.partition(":")[0]
            targets, at_start = ([name] if name in modules else []), False
        found += [Import(importer, target, getattr(node, "lineno", 0), at_start) for target in targets]
    return found


@pytest.fixture(scope="module")
def imports(root: Path, project_files: list[Path]) -> list[Import]:
    ours = [p for p in project_files if p.suffix == ".py" and p.parts[0] in ALLOWED]
    modules = {_module_name(path) for path in ours}
    return [
        found
        for path in ours
        for found in imports_of((root / path).read_text(), _module_name(path), path.name == "__init__.py", modules)
    ]


def _within(module: str, *packages: str) -> bool:
    return any(module == package or module.startswith(package + ".") for package in packages)


def test_each_package_imports_only_what_lies_below_it(imports: list[Import]) -> None:
    wrong = []
    for found in imports:
        allowed = ALLOWED[found.importer.split(".")[0]]
        if _within(found.importer, *PRINTS_THE_TABLE):
            allowed = allowed | {"leaderboard"}
        top = found.target.split(".")[0]
        if top in OURS and top not in allowed:
            wrong.append(str(found))
    assert not wrong


def test_nothing_imports_the_command_line(imports: list[Import]) -> None:
    outside = [f for f in imports if not _within(f.importer, "harness.cli")]
    assert not [str(f) for f in outside if _within(f.target, "harness.cli")]


def test_a_gpu_machine_needs_only_torch_triton_and_numpy(imports: list[Import]) -> None:
    at_start = [f for f in imports if f.at_start]
    reached = {f.importer for f in at_start if _within(f.importer, *GPU_PATH)}
    while True:
        targets = {f.target for f in at_start if f.importer in reached and f.target.split(".")[0] in ALLOWED}
        packages = {t.rpartition(".")[0] for t in targets if "." in t}
        if targets | packages <= reached:
            break
        reached |= targets | packages
    later = [f for f in imports if not f.at_start and _within(f.importer, *GPU_PATH)]
    others = [f for f in at_start if f.importer in reached and f.target.split(".")[0] not in ALLOWED]
    assert others
    assert not [str(f) for f in others if f.target.split(".")[0] not in ON_A_GPU_MACHINE]
    assert not [str(f) for f in later if f.target.split(".")[0] not in ON_A_GPU_MACHINE | OURS | OPT_IN]


def test_every_package_that_is_imported_is_declared(imports: list[Import], root: Path) -> None:
    project = tomllib.loads((root / "pyproject.toml").read_text())["project"]
    extras = [line for name, lines in project["optional-dependencies"].items() if name != "dev" for line in lines]
    declared = {re.split(r"[^\w-]", line)[0].lower() for line in [*project["dependencies"], *extras]}
    outside = [f for f in imports if f.target.split(".")[0] not in {*sys.stdlib_module_names, *OURS}]
    tops = {top: DISTRIBUTIONS.get(top, top).lower() for top in (f.target.split(".")[0] for f in outside)}
    assert not [str(f) for f in outside if tops[f.target.split(".")[0]] not in declared]


@pytest.mark.parametrize(
    ("source", "expected"),
    [
        ("import torch.nn", [("torch.nn", True)]),
        ("def f():\n    import pandas", [("pandas", False)]),
        ("class C:\n    import pandas", [("pandas", True)]),
        ("try:\n    import pandas\nexcept ImportError:\n    pandas = None", [("pandas", True)]),
        ("from tasks import spec", [("tasks", True), ("tasks.spec", True)]),
        ("from . import spec", [("tasks", True), ("tasks.spec", True)]),
        ("from .spec import Task", [("tasks.spec", True)]),
        ("NAMES = {'Task': 'tasks.spec:Task', 'x': 'tasks.absent'}", [("tasks.spec", False)]),
        ("from typing import TYPE_CHECKING\nif TYPE_CHECKING:\n    import pandas", [("typing", True)]),
    ],
)
def test_imports_are_found_wherever_they_stand(source: str, expected: list[tuple[str, bool]]) -> None:
    found = imports_of(source, "tasks", True, {"tasks", "tasks.spec"})
    assert [(f.target, f.at_start) for f in found] == expected
