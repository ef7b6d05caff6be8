"""Edits of host code and of the order in which programs are laid out."""

from __future__ import annotations

import ast
import random

from harness.search.mutate.registry import edit
from harness.search.mutate.source import (
    assigned,
    calls,
    expression,
    functions,
    is_autotuned,
    is_kernel,
    kernels,
    launches,
    replace_node,
    statement,
)


def _hosts(module: ast.Module) -> list[ast.FunctionDef]:
    return [f for f in functions(module).values() if not is_kernel(f)]


@edit("output_fill", "host", "triton", "cuda", "torch")
def output_fill(module: ast.Module, rng: random.Random, partner: ast.Module | None) -> bool:
    """Fill an output with zeros when it is allocated; never the reverse, which may leave old memory in a result."""
    sites = [c for h in _hosts(module) for c in calls(h, "torch.empty_like", "torch.empty")]
    if not sites:
        return False
    call = rng.choice(sites)
    assert isinstance(call.func, ast.Attribute)
    call.func.attr = call.func.attr.replace("empty", "zeros")
    return True


@edit("swap_grid", "host", "triton", weight=1.5)
def swap_grid(module: ast.Module, rng: random.Random, partner: ast.Module | None) -> bool:
    """Exchange the two axes of a grid, so that neighbouring programs differ in the other index."""
    sites = []
    for launch in launches(module):
        shapes: list[ast.expr] = [launch.grid.slice]
        if isinstance(launch.grid.slice, ast.Name):
            shapes = assigned(launch.host, launch.grid.slice.id)
        same_kernel = sum(o.kernel is launch.kernel for o in launches(module))
        same_grid = sum(ast.unparse(o.grid.slice) == ast.unparse(launch.grid.slice) for o in launches(module))
        shared = isinstance(launch.grid.slice, ast.Name) and same_grid > 1
        if same_kernel == 1 and not shared and len(shapes) == 1:
            shape = shapes[0]
            if isinstance(shape, ast.Tuple) and len(shape.elts) == 2:
                sites.append((launch.kernel, shape))
    if not sites:
        return False
    kernel, shape = rng.choice(sites)
    shape.elts.reverse()
    for call in calls(kernel, "tl.program_id", "tl.num_programs"):
        if call.args and isinstance(call.args[0], ast.Constant):
            call.args[0] = ast.Constant(1 - int(call.args[0].value))  # type: ignore[arg-type]
    return True


@edit("program_order", "host", "triton", weight=0.7)
def program_order(module: ast.Module, rng: random.Random, partner: ast.Module | None) -> bool:
    """Let the programs of one axis take their work in the reverse order."""
    sites = [(k, c) for k in kernels(module) if not is_autotuned(k) for c in calls(k, "tl.program_id")]
    if not sites:
        return False
    kernel, call = rng.choice(sites)
    axis = ast.unparse(call)[len("tl.program_id(") : -1]
    same_axis = [c for c in calls(kernel, "tl.program_id") if ast.unparse(c) == ast.unparse(call)]
    if len(same_axis) != 1:
        return False
    replace_node(kernel, call, expression(f"(tl.num_programs({axis}) - 1 - tl.program_id({axis}))"))
    return True


@edit("swizzle", "host", "triton", weight=1.5)
def swizzle(module: ast.Module, rng: random.Random, partner: ast.Module | None) -> bool:
    """Walk a two-dimensional grid in groups of rows, so that programs that run together share their inputs."""
    sites = []
    for kernel in kernels(module):
        both = {ast.unparse(c): c for c in calls(kernel, "tl.program_id")}
        text = ast.unparse(kernel)
        if set(both) == {"tl.program_id(0)", "tl.program_id(1)"} and "swizzle2d" not in text:
            sites.append(kernel)
    if not sites:
        return False
    kernel = rng.choice(sites)
    names = {"tl.program_id(0)": "grid_row", "tl.program_id(1)": "grid_column"}
    for call in calls(kernel, "tl.program_id"):
        replace_node(kernel, call, ast.Name(names[ast.unparse(call)], ast.Load()))
    here, sizes = "tl.program_id(0), tl.program_id(1)", "tl.num_programs(0), tl.num_programs(1)"
    group = rng.choice((2, 4, 8, 16))
    kernel.body.insert(0, statement(f"grid_row, grid_column = tl.swizzle2d({here}, {sizes}, {group})"))
    return True


@edit("contiguous_calls", "host", "triton", "cuda", "torch", weight=0.5)
def contiguous_calls(module: ast.Module, rng: random.Random, partner: ast.Module | None) -> bool:
    """Drop a call of contiguous()."""
    sites = [
        (h, n)
        for h in _hosts(module)
        for n in ast.walk(h)
        if isinstance(n, ast.Call) and isinstance(n.func, ast.Attribute) and n.func.attr == "contiguous" and not n.args
    ]
    if not sites:
        return False
    host, node = rng.choice(sites)
    assert isinstance(node.func, ast.Attribute)
    replace_node(host, node, node.func.value)
    return True


@edit("copy_output", "host", "triton", "cuda", weight=0.3)
def copy_output(module: ast.Module, rng: random.Random, partner: ast.Module | None) -> bool:
    """Return a copy of a computed tensor."""
    host = functions(module).get("custom_kernel")
    returns = [n for n in ast.walk(host) if isinstance(n, ast.Return)] if host else []
    if len(returns) != 1 or not isinstance(returns[0].value, ast.Name):
        return False
    returns[0].value = expression(f"{returns[0].value.id}.clone()")
    return True
