"""Edits of arithmetic that keep the result up to rounding: other functions, other order, other reductions."""

from __future__ import annotations

import ast
import random

from harness.search.mutate.registry import edit
from harness.search.mutate.source import called, calls, expression, kernels, parents, replace_node

LOG2_E = "1.4426950408889634"
LN_2 = "0.6931471805599453"


def _replace_call(module: ast.Module, rng: random.Random, table: dict[str, str]) -> bool:
    """Replace one call, or all calls of one name, by a template over its only argument."""
    found = [(k, c) for k in kernels(module) for c in calls(k, *table) if len(c.args) == 1 and not c.keywords]
    if not found:
        return False
    name = called(rng.choice(found)[1])
    group = [(k, c) for k, c in found if called(c) == name]
    for kernel, call in group if rng.random() < 0.7 else [rng.choice(group)]:
        if any(node is call for node in ast.walk(kernel)):
            replace_node(kernel, call, expression(table[name].format(ast.unparse(call.args[0]))))
    return True


@edit("exp2", "algorithm", "triton")
def exp2(module: ast.Module, rng: random.Random, partner: ast.Module | None) -> bool:
    """Compute exp(x) as 2^(x log2 e), which is what the hardware has, or back."""
    return _replace_call(
        module,
        rng,
        {
            "tl.exp": f"tl.exp2(({{}}) * {LOG2_E})",
            "tl.exp2": f"tl.exp(({{}}) * {LN_2})",
            "tl.log": f"(tl.log2({{}}) * {LN_2})",
            "tl.log2": f"(tl.log({{}}) * {LOG2_E})",
        },
    )


@edit("root", "algorithm", "triton")
def root(module: ast.Module, rng: random.Random, partner: ast.Module | None) -> bool:
    """Exchange 1 / sqrt(x), rsqrt(x) and their correctly rounded or base-2 forms."""
    for kernel in kernels(module):
        for node in ast.walk(kernel):
            if (
                isinstance(node, ast.BinOp)
                and isinstance(node.op, ast.Div)
                and called(node.right) in ("tl.sqrt", "tl.math.sqrt", "tl.sqrt_rn")
                and isinstance(node.left, ast.Constant)
                and isinstance(node.right, ast.Call)
            ):
                replace_node(kernel, node, expression(f"tl.rsqrt({ast.unparse(node.right.args[0])})"))
                return True
    other = rng.choice(("(1.0 / tl.sqrt({}))", "(1.0 / tl.sqrt_rn({}))", "tl.exp2(-0.5 * tl.log2({}))"))
    return _replace_call(module, rng, {"tl.rsqrt": other, "tl.math.rsqrt": other, "tl.sqrt": "tl.sqrt_rn({})"})


def _divisions(module: ast.Module) -> list[tuple[ast.FunctionDef, ast.BinOp]]:
    return [
        (kernel, node)
        for kernel in kernels(module)
        for node in ast.walk(kernel)
        if isinstance(node, ast.BinOp) and isinstance(node.op, ast.Div)
    ]


@edit("reciprocal", "algorithm", "triton")
def reciprocal(module: ast.Module, rng: random.Random, partner: ast.Module | None) -> bool:
    """Multiply by a reciprocal in place of dividing, so that the division is done once per row."""
    sites = [(k, d) for k, d in _divisions(module) if not isinstance(d.left, ast.Constant)]
    if not sites:
        return False
    kernel, node = rng.choice(sites)
    replace_node(kernel, node, expression(f"({ast.unparse(node.left)}) * (1.0 / ({ast.unparse(node.right)}))"))
    return True


@edit("division_kind", "algorithm", "triton", weight=0.8)
def division_kind(module: ast.Module, rng: random.Random, partner: ast.Module | None) -> bool:
    """Divide with correct rounding or by the approximate instruction."""
    sites = _divisions(module)
    exact = [(k, c) for k in kernels(module) for c in calls(k, "tl.div_rn", "tl.fdiv")]
    if exact and (not sites or rng.random() < 0.5):
        kernel, call = rng.choice(exact)
        replace_node(kernel, call, expression(f"({ast.unparse(call.args[0])}) / ({ast.unparse(call.args[1])})"))
        return True
    if not sites:
        return False
    kernel, node = rng.choice(sites)
    if isinstance(node.left, ast.Constant) or isinstance(node.right, ast.Constant):
        return False
    replace_node(kernel, node, expression(f"tl.div_rn({ast.unparse(node.left)}, ({ast.unparse(node.right)}) * 1.0)"))
    return True


@edit("associate", "algorithm", "triton", weight=0.6)
def associate(module: ast.Module, rng: random.Random, partner: ast.Module | None) -> bool:
    """Regroup a product or a sum of three factors."""
    sites = []
    for kernel in kernels(module):
        for node in ast.walk(kernel):
            if isinstance(node, ast.BinOp) and isinstance(node.op, (ast.Mult, ast.Add)):
                left = node.left
                if isinstance(left, ast.BinOp) and type(left.op) is type(node.op) and "_ptr" not in ast.unparse(node):
                    sites.append(node)
    if not sites:
        return False
    node = rng.choice(sites)
    left = node.left
    assert isinstance(left, ast.BinOp)
    parts = [left.left, left.right, node.right]
    rng.shuffle(parts)
    node.left, node.right = parts[0], ast.BinOp(parts[1], node.op, parts[2])
    return True


@edit("two_stage_reduction", "algorithm", "triton", weight=0.8)
def two_stage_reduction(module: ast.Module, rng: random.Random, partner: ast.Module | None) -> bool:
    """Reduce a tile as a matrix, first over its rows and then over what is left."""
    sites = [
        (kernel, call)
        for kernel in kernels(module)
        for call in calls(kernel, "tl.sum", "tl.max", "tl.min")
        if len(call.args) == 1
        and [(k.arg, ast.unparse(k.value)) for k in call.keywords] == [("axis", "0")]
        and "tl.reshape" not in ast.unparse(call)
    ]
    if not sites:
        return False
    kernel, call = rng.choice(sites)
    size = _length(kernel, call.args[0])
    if size is None:
        return False
    width = f"({(w := rng.choice((4, 16, 64)))} if {size} >= {w} else 1)"
    name, tile = called(call), ast.unparse(call.args[0])
    inner = f"{name}(tl.reshape({tile}, ({size} // {width}, {width})), axis={{}})"
    axis = rng.choice((0, 1))
    replace_node(kernel, call, expression(f"{name}({inner.format(axis)}, axis=0)"))
    return True


def _length(kernel: ast.FunctionDef, tile: ast.expr) -> str | None:
    """Return the extent of a one-dimensional tile if the kernel has only one extent."""
    extents = {ast.unparse(c.args[1]) for c in calls(kernel, "tl.arange") if len(c.args) == 2}
    flat = not any(isinstance(n, ast.Subscript) for n in ast.walk(kernel))
    return extents.pop() if len(extents) == 1 and flat else None


@edit("where_to_product", "algorithm", "triton", weight=0.6)
def where_to_product(module: ast.Module, rng: random.Random, partner: ast.Module | None) -> bool:
    """Blend by arithmetic in place of a select."""
    sites = [
        (k, c)
        for k in kernels(module)
        for c in calls(k, "tl.where")
        if len(c.args) == 3
        and any(_finite_float(n) for arm in c.args[1:] for n in ast.walk(arm))
        and "inf" not in ast.unparse(c)
    ]
    if not sites:
        return False
    kernel, call = rng.choice(sites)
    if isinstance(parents(kernel)[call], ast.keyword):
        return False
    condition, yes, no = (ast.unparse(a) for a in call.args)
    replace_node(kernel, call, expression(f"(({no}) + ({condition}).to(tl.float32) * (({yes}) - ({no})))"))
    return True


def _finite_float(node: ast.AST) -> bool:
    return isinstance(node, ast.Constant) and isinstance(node.value, float)


@edit("clamp_form", "algorithm", "triton", weight=0.6)
def clamp_form(module: ast.Module, rng: random.Random, partner: ast.Module | None) -> bool:
    """Exchange min(max(x, low), high) and clamp(x, low, high)."""
    for kernel in kernels(module):
        for call in calls(kernel, "tl.minimum"):
            inner = call.args[0]
            if isinstance(inner, ast.Call) and called(inner) == "tl.maximum":
                code = (
                    f"tl.clamp({ast.unparse(inner.args[0])}, {ast.unparse(inner.args[1])}, {ast.unparse(call.args[1])})"
                )
                replace_node(kernel, call, expression(code))
                return True
        for call in calls(kernel, "tl.clamp"):
            x, low, high = (ast.unparse(a) for a in call.args)
            replace_node(kernel, call, expression(f"tl.maximum(tl.minimum({x}, {high}), {low})"))
            return True
    return False
