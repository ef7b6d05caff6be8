"""Edits of what one program does: persistent programs and several rows per program."""

from __future__ import annotations

import ast
import random

from harness.search.mutate.memory import read, written
from harness.search.mutate.registry import edit
from harness.search.mutate.source import (
    Launch,
    assigned,
    called,
    calls,
    expression,
    fresh,
    is_autotuned,
    launches,
    replace_node,
    set_keyword,
    statement,
)

PROGRAMS = (132, 264, 528, 1056, 2112)
ROWS = (2, 4, 8)


def add_constant(module: ast.Module, stem: str, value: int) -> str:
    """Bind a new constant after the imports and return its name."""
    name = fresh(module, stem)
    place = next((i for i, s in enumerate(module.body) if isinstance(s, (ast.FunctionDef, ast.ClassDef))), 0)
    module.body.insert(place, statement(f"{name} = {value}"))
    return name


def add_parameter(launch: Launch, name: str, value: ast.expr, constexpr: bool = False) -> None:
    """Add a parameter to a kernel and pass it by keyword in its launch."""
    annotation = expression("tl.constexpr") if constexpr else None
    launch.kernel.args.args.append(ast.arg(name, annotation))
    set_keyword(launch.call, name, value)


def one_dimensional_grid(module: ast.Module, launch: Launch) -> ast.expr | None:
    """Return the extent of a launch's grid if it has one dimension and the kernel is launched in one place."""
    if sum(other.kernel is launch.kernel for other in launches(module)) != 1 or is_autotuned(launch.kernel):
        return None
    grid = launch.grid.slice
    if isinstance(grid, ast.Tuple) and len(grid.elts) == 1:
        return grid.elts[0]
    if isinstance(grid, ast.Name):
        bound = assigned(launch.host, grid.id)
        if len(bound) == 1 and isinstance(bound[0], ast.Tuple) and len(bound[0].elts) == 1:
            return expression(f"{grid.id}[0]")
    return None


def _loopable(module: ast.Module) -> list[tuple[Launch, ast.expr]]:
    """Return the launches whose programs can become iterations: no program asks how many programs there are."""
    found = []
    for launch in launches(module):
        extent = one_dimensional_grid(module, launch)
        body = launch.kernel
        plain = not any(isinstance(n, ast.Return) for n in ast.walk(body)) and not calls(body, "tl.num_programs")
        if extent is not None and plain and calls(body, "tl.program_id"):
            found.append((launch, extent))
    return found


def invariant_prefix(body: list[ast.stmt], varying: set[str]) -> tuple[list[ast.stmt], list[ast.stmt]]:
    """Divide statements into those that give the same in every iteration, and the rest."""
    counts: dict[str, int] = {}
    for s in body:
        for name in written(s):
            counts[name] = counts.get(name, 0) + 1
    varying = varying | {name for name, count in counts.items() if count > 1}
    before, rest = [], []
    for s in body:
        simple = isinstance(s, ast.Assign) and not any(isinstance(n, ast.For) for n in ast.walk(s))
        if simple and not (read(s) | written(s)) & varying and not calls(s, "tl.program_id"):
            before.append(s)
        else:
            rest.append(s)
            varying |= written(s)
    return before, rest


def _into_loop(module: ast.Module, launch: Launch, header: str, program: str, hoist: bool) -> None:
    kernel = launch.kernel
    for node in list(ast.walk(kernel)):
        # The interpreter counts loops in Python integers, which have no method `to`.
        if (
            isinstance(node, ast.Call)
            and isinstance(node.func, ast.Attribute)
            and called(node.func.value) == "tl.program_id"
        ):
            replace_node(kernel, node, expression(f"tl.cast({program}, {ast.unparse(node.args[0])})"))
    for call in calls(ast.Module(kernel.body, []), "tl.program_id"):
        replace_node(kernel, call, ast.Name(program, ast.Load()))
    before, rest = invariant_prefix(kernel.body, {program}) if hoist else ([], kernel.body)
    loop = statement(f"for {program} in {header}:\n    pass")
    assert isinstance(loop, ast.For)
    loop.body = rest
    kernel.body = [*before, loop]


@edit("persistent", "loop", "triton", weight=2.0)
def persistent(module: ast.Module, rng: random.Random, partner: ast.Module | None) -> bool:
    """Launch a fixed number of programs, each of which strides over what were the programs."""
    sites = _loopable(module)
    if not sites:
        return False
    launch, extent = rng.choice(sites)
    program, total = fresh(module, "program"), fresh(module, "programs_total")
    _into_loop(module, launch, f"range(tl.program_id(0), {total}, tl.num_programs(0))", program, rng.random() < 0.7)
    limit = add_constant(module, "PROGRAMS", rng.choice(PROGRAMS))
    add_parameter(launch, total, extent)
    launch.grid.slice = expression(f"(min({ast.unparse(extent)}, {limit}),)")
    return True


@edit("rows_per_program", "loop", "triton", weight=1.5)
def rows_per_program(module: ast.Module, rng: random.Random, partner: ast.Module | None) -> bool:
    """Let each program do the work of several neighbouring ones, one after another."""
    sites = _loopable(module)
    if not sites:
        return False
    launch, extent = rng.choice(sites)
    program, total, rows = fresh(module, "program"), fresh(module, "programs_total"), fresh(module, "ROWS_EACH")
    first = f"tl.program_id(0) * {rows}"
    _into_loop(module, launch, f"range({first}, tl.minimum({first} + {rows}, {total}))", program, rng.random() < 0.7)
    constant = add_constant(module, rows, rng.choice(ROWS))
    add_parameter(launch, total, extent)
    add_parameter(launch, rows, ast.Name(constant, ast.Load()), constexpr=True)
    launch.grid.slice = expression(f"(triton.cdiv({ast.unparse(extent)}, {constant}),)")
    return True
