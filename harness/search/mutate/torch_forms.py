"""Edits of PyTorch code that write the same value by other operations: one, several or fused ones."""

from __future__ import annotations

import ast
import random

from harness.search.mutate.registry import edit
from harness.search.mutate.source import called, expression, functions, keyword, replace_node, same
from harness.search.mutate.torch_ops import is_tensor, methods, products


@edit("square_form", "algorithm", "torch")
def square_form(module: ast.Module, rng: random.Random, partner: ast.Module | None) -> bool:
    """Exchange x.square(), x.pow(2) and x * x."""
    sites = []
    for f, call, method in methods(module):
        if (method.attr == "square" and not call.args) or (
            method.attr == "pow" and [ast.unparse(a) for a in call.args] == ["2"]
        ):
            sites.append((f, call, ast.unparse(method.value)))
    if not sites:
        return False
    f, call, x = rng.choice(sites)
    forms = [expression(code) for code in (f"({x}) * ({x})", f"({x}).pow(2)", f"({x}).square()")]
    replace_node(f, call, rng.choice([form for form in forms if not same(form, call)]))
    return True


@edit("mean_form", "algorithm", "torch")
def mean_form(module: ast.Module, rng: random.Random, partner: ast.Module | None) -> bool:
    """Take a mean over the last dimension as a sum, or as a product with a vector of equal weights."""
    sites = [
        (f, c, m)
        for f, c, m in methods(module)
        if m.attr == "mean" and (k := keyword(c, "dim")) and ast.unparse(k.value) == "-1" and keyword(c, "keepdim")
    ]
    if not sites:
        return False
    f, call, method = rng.choice(sites)
    x = ast.unparse(method.value)
    pooled = f"torch.nn.functional.avg_pool1d(({x}).flatten(0, -2)[:, None], ({x}).shape[-1])"
    forms = (f"({x}).sum(dim=-1, keepdim=True) / ({x}).shape[-1]", f"{pooled}.view(*({x}).shape[:-1], 1)")
    replace_node(f, call, expression(rng.choice(forms)))
    return True


@edit("reciprocal_product", "algorithm", "torch")
def reciprocal_product(module: ast.Module, rng: random.Random, partner: ast.Module | None) -> bool:
    """Multiply by the reciprocal of a divisor."""
    sites = [
        (f, n)
        for f in functions(module).values()
        for n in ast.walk(f)
        if isinstance(n, ast.BinOp) and isinstance(n.op, ast.Div) and not isinstance(n.left, ast.Constant)
    ]
    if not sites:
        return False
    f, node = rng.choice(sites)
    replace_node(f, node, expression(f"({ast.unparse(node.left)}) * (1.0 / ({ast.unparse(node.right)}))"))
    return True


@edit("regroup", "algorithm", "torch")
def regroup(module: ast.Module, rng: random.Random, partner: ast.Module | None) -> bool:
    """Regroup a product of three factors, so that small operands meet first."""
    sites = [
        n
        for f in functions(module).values()
        for n in ast.walk(f)
        if isinstance(n, ast.BinOp)
        and isinstance(n.op, ast.Mult)
        and isinstance(n.left, ast.BinOp)
        and isinstance(n.left.op, ast.Mult)
    ]
    if not sites:
        return False
    node = rng.choice(sites)
    assert isinstance(node.left, ast.BinOp)
    parts = [node.left.left, node.left.right, node.right]
    rng.shuffle(parts)
    node.left, node.right = parts[0], ast.BinOp(parts[1], ast.Mult(), parts[2])
    return True


@edit("fused_operation", "fusion", "torch", weight=1.5)
def fused_operation(module: ast.Module, rng: random.Random, partner: ast.Module | None) -> bool:
    """Exchange a chain of operations and the one operation that PyTorch has for it."""
    sites: list[tuple[ast.FunctionDef, ast.AST, str]] = []
    for f in functions(module).values():
        for n in ast.walk(f):
            sites += [(f, n, code) for code in _fused_forms(n)]
    if not sites:
        return False
    f, old, code = rng.choice(sites)
    replace_node(f, old, expression(code))
    return True


def _fused_forms(n: ast.AST) -> list[str]:
    text = ast.unparse
    forms = []
    if isinstance(n, ast.BinOp) and isinstance(n.op, ast.Add):
        for product, other in ((n.left, n.right), (n.right, n.left)):
            if isinstance(product, ast.BinOp) and isinstance(product.op, ast.Mult) and is_tensor(n):
                forms.append(f"torch.addcmul({text(other)}, {text(product.left)}, {text(product.right)})")
    name = called(n)
    if isinstance(n, ast.Call) and name == "torch.addcmul" and len(n.args) == 3:
        value = keyword(n, "value")
        scale = f" * ({text(value.value)})" if value else ""
        forms.append(f"({text(n.args[0])}) + ({text(n.args[1])}) * ({text(n.args[2])}){scale}")
    if isinstance(n, ast.Call) and name == "torch.log_softmax" and (d := keyword(n, "dim")):
        x, dim = text(n.args[0]) + (".float()" if keyword(n, "dtype") else ""), text(d.value)
        forms.append(f"{x} - torch.logsumexp({x}, dim={dim}, keepdim=True)")
        forms.append(f"torch.softmax({x}, dim={dim}).log()")
    if isinstance(n, ast.Call) and name == "torch.logsumexp" and keyword(n, "keepdim") and (d := keyword(n, "dim")):
        x, dim = text(n.args[0]), text(d.value)
        peak = f"{x}.amax(dim={dim}, keepdim=True)"
        forms.append(f"({x} - {peak}).exp().sum(dim={dim}, keepdim=True).log() + {peak}")
    if isinstance(n, ast.Call) and name == "torch.linalg.vector_norm" and (d := keyword(n, "dim")):
        rest = f"dim={text(d.value)}" + (f", keepdim={text(k.value)}" if (k := keyword(n, "keepdim")) else "")
        x = text(n.args[0]) + (".float()" if keyword(n, "dtype") else "")
        forms.append(f"{x}.abs().amax({rest})" if keyword(n, "ord") else f"{x}.square().sum({rest}).sqrt()")
    if (
        isinstance(n, ast.Call)
        and isinstance(n.func, ast.Attribute)
        and n.func.attr in ("amax", "amin")
        and keyword(n, "dim")
    ):
        inner = n.func.value
        if isinstance(inner, ast.Call) and isinstance(inner.func, ast.Attribute) and inner.func.attr == "abs":
            rest = ", ".join(f"{k.arg}={text(k.value)}" for k in n.keywords)
            forms.append(f'torch.linalg.vector_norm({text(inner.func.value)}, ord=float("inf"), {rest})')
    if isinstance(n, ast.Call) and isinstance(n.func, ast.Attribute) and n.func.attr == "clamp" and len(n.args) == 2:
        forms.append(f"({text(n.func.value)}).clamp(min={text(n.args[0])}).clamp(max={text(n.args[1])})")
    return forms


@edit("reduction_form", "algorithm", "torch")
def reduction_form(module: ast.Module, rng: random.Random, partner: ast.Module | None) -> bool:
    """Exchange amax and max, which also finds positions."""
    sites = [(f, c, m) for f, c, m in methods(module) if m.attr == "amax" and keyword(c, "dim")]
    if not sites:
        return False
    f, call, method = rng.choice(sites)
    method.attr = "max"
    replace_node(f, call, expression(f"{ast.unparse(call)}.values"))
    return True


@edit("product_form", "algorithm", "torch", weight=1.5)
def product_form(module: ast.Module, rng: random.Random, partner: ast.Module | None) -> bool:
    """Write a matrix product as an einsum, from a transposed or a contiguous operand, or as an operator."""
    sites = products(module)
    if not sites:
        return False
    f, node, a, b = rng.choice(sites)
    left, right = ast.unparse(a), ast.unparse(b)
    forms = (
        f"torch.einsum('...ij,...jk->...ik', {left}, {right})",
        f"torch.matmul(({right}).mT, ({left}).mT).mT",
        f"torch.matmul({left}, ({right}).mT.contiguous().mT)",
        f"torch.matmul({left}, ({right}).contiguous())",
    )
    others = [form for form in (expression(code) for code in forms) if not same(form, node)]
    replace_node(f, node, rng.choice(others))
    return True
