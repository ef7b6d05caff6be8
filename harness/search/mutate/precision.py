"""Edits of number formats: where values are widened, narrowed or accumulated."""

from __future__ import annotations

import ast
import random

from harness.search.mutate.registry import edit
from harness.search.mutate.source import calls, expression, kernels, keyword, parents, replace_node, set_keyword

FLOATS = ("tl.float32", "tl.float16", "tl.bfloat16", "tl.float64")
PRECISIONS = ("ieee", "tf32", "tf32x3")


def _casts(module: ast.Module) -> list[tuple[ast.FunctionDef, ast.Call]]:
    return [
        (kernel, node)
        for kernel in kernels(module)
        for node in ast.walk(kernel)
        if isinstance(node, ast.Call)
        and isinstance(node.func, ast.Attribute)
        and node.func.attr == "to"
        and len(node.args) == 1
        and ast.unparse(node.args[0]) in FLOATS
    ]


@edit("drop_cast", "precision", "triton", weight=0.5)
def drop_cast(module: ast.Module, rng: random.Random, partner: ast.Module | None) -> bool:
    """Compute in the format of the input in place of a wider one."""
    sites = _casts(module)
    if not sites:
        return False
    kernel, call = rng.choice(sites)
    assert isinstance(call.func, ast.Attribute)
    replace_node(kernel, call, call.func.value)
    return True


@edit("cast_late", "precision", "triton", weight=1.2)
def cast_late(module: ast.Module, rng: random.Random, partner: ast.Module | None) -> bool:
    """Keep a loaded tile in its own format and widen it at each use: half the registers, more conversions."""
    sites = []
    for kernel, call in _casts(module):
        holder = parents(kernel)[call]
        if (
            isinstance(holder, ast.Assign)
            and isinstance(holder.targets[0], ast.Name)
            and ast.unparse(call.args[0]) == FLOATS[0]
        ):
            sites.append((kernel, holder, call))
    if not sites:
        return False
    kernel, holder, call = rng.choice(sites)
    name = holder.targets[0].id  # type: ignore[attr-defined]
    if sum(isinstance(n, ast.Name) and n.id == name and isinstance(n.ctx, ast.Store) for n in ast.walk(kernel)) > 1:
        return False
    assert isinstance(call.func, ast.Attribute)
    holder.value = call.func.value
    for node in [
        n for n in ast.walk(kernel) if isinstance(n, ast.Name) and n.id == name and isinstance(n.ctx, ast.Load)
    ]:
        replace_node(kernel, node, expression(f"{name}.to(tl.float32)"))
    return True


@edit("cast_format", "precision", "triton", weight=0.3)
def cast_format(module: ast.Module, rng: random.Random, partner: ast.Module | None) -> bool:
    """Convert to another format than before, wider or narrower."""
    sites = _casts(module)
    if not sites:
        return False
    _, call = rng.choice(sites)
    current = ast.unparse(call.args[0])
    call.args[0] = expression(rng.choice([f for f in FLOATS if f != current]))
    return True


@edit("accumulate_wide", "precision", "triton")
def accumulate_wide(module: ast.Module, rng: random.Random, partner: ast.Module | None) -> bool:
    """Sum in double precision and round the total."""
    sites = [(k, c) for k in kernels(module) for c in calls(k, "tl.sum") if c.args and "float64" not in ast.unparse(c)]
    if not sites:
        return False
    kernel, call = rng.choice(sites)
    rest = "".join(f", {ast.unparse(a)}" for a in call.args[1:]) + "".join(
        f", {k.arg}={ast.unparse(k.value)}" for k in call.keywords
    )
    code = f"tl.sum(({ast.unparse(call.args[0])}).to(tl.float64){rest}).to(tl.float32)"
    replace_node(kernel, call, expression(code))
    return True


@edit("accumulator_format", "precision", "triton", weight=0.6)
def accumulator_format(module: ast.Module, rng: random.Random, partner: ast.Module | None) -> bool:
    """Allocate a running tile in another format."""
    sites = [c for k in kernels(module) for c in calls(k, "tl.zeros", "tl.full") if keyword(c, "dtype")]
    if not sites:
        return False
    call = rng.choice(sites)
    current = ast.unparse(keyword(call, "dtype").value)  # type: ignore[union-attr]
    set_keyword(call, "dtype", expression(rng.choice([f for f in FLOATS if f != current])))
    return True


@edit("narrow_operand", "precision", "triton", weight=0.4)
def narrow_operand(module: ast.Module, rng: random.Random, partner: ast.Module | None) -> bool:
    """Round one loaded tile to 16 bits before it is used, to halve what it occupies."""
    sites = [
        (kernel, node)
        for kernel, node in _casts(module)
        if ast.unparse(node.args[0]) == FLOATS[0] and "tl.load" in ast.unparse(node)
    ]
    if not sites:
        return False
    kernel, call = rng.choice(sites)
    narrow = rng.choice(("tl.float16", "tl.bfloat16"))
    replace_node(kernel, call, expression(f"{ast.unparse(call.func.value)}.to({narrow}).to(tl.float32)"))  # type: ignore[attr-defined]
    return True


@edit("dot_precision", "precision", "triton", weight=2.0)
def dot_precision(module: ast.Module, rng: random.Random, partner: ast.Module | None) -> bool:
    """Multiply matrices in another precision, or with operands rounded to 16 bits."""
    sites = [(k, c) for k in kernels(module) for c in calls(k, "tl.dot") if len(c.args) >= 2]
    if not sites:
        return False
    _, call = rng.choice(sites)
    if rng.random() < 0.5:
        found = keyword(call, "input_precision")
        current = ast.unparse(found.value).strip("'\"") if found else "tf32"
        set_keyword(call, "input_precision", ast.Constant(rng.choice([p for p in PRECISIONS if p != current])))
        return True
    narrow = rng.choice(("tl.bfloat16", "tl.float16"))
    call.args[:2] = [expression(f"({ast.unparse(a)}).to({narrow})") for a in call.args[:2]]
    call.keywords = [k for k in call.keywords if k.arg not in ("input_precision", "allow_tf32")]
    return True
