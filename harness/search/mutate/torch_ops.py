"""Edits of PyTorch code: in-place and functional forms, number formats, and work in chunks of rows."""

from __future__ import annotations

import ast
import random

from harness.search.mutate.programs import add_constant
from harness.search.mutate.registry import edit
from harness.search.mutate.source import called, calls, expression, functions, keyword, replace_node, statement

IN_PLACE = (
    "mul",
    "add",
    "sub",
    "div",
    "exp",
    "clamp",
    "rsqrt",
    "sqrt",
    "reciprocal",
    "neg",
    "log",
    "clamp_min",
    "pow",
    "square",
)
OPERATORS = {ast.Mult: "mul_", ast.Add: "add_", ast.Sub: "sub_", ast.Div: "div_"}
# What returns a view or the tensor itself: writing into it would write into an input.
SHARING = (
    "float",
    "to",
    "half",
    "bfloat16",
    "view",
    "reshape",
    "squeeze",
    "unsqueeze",
    "flatten",
    "unflatten",
    "expand",
    "contiguous",
)
PRODUCTS = ("torch.matmul", "torch.bmm", "torch.mm")
ROWS = (64, 128, 256, 512, 1024)


def methods(module: ast.Module) -> list[tuple[ast.FunctionDef, ast.Call, ast.Attribute]]:
    return [
        (f, n, n.func)
        for f in functions(module).values()
        for n in ast.walk(f)
        if isinstance(n, ast.Call) and isinstance(n.func, ast.Attribute)
    ]


def _fresh_tensor(node: ast.expr) -> bool:
    """Return whether an expression makes a new tensor that nobody else holds."""
    if isinstance(node, ast.BinOp):
        return True
    if not isinstance(node, ast.Call) or not isinstance(node.func, ast.Attribute):
        return False
    return node.func.attr not in SHARING and not node.func.attr.endswith("_")


def products(module: ast.Module) -> list[tuple[ast.FunctionDef, ast.expr, ast.expr, ast.expr]]:
    """Return the matrix products of a module with their operands; one that writes into `out=` is left alone."""
    found: list[tuple[ast.FunctionDef, ast.expr, ast.expr, ast.expr]] = []
    for f in functions(module).values():
        for n in ast.walk(f):
            if isinstance(n, ast.BinOp) and isinstance(n.op, ast.MatMult):
                found.append((f, n, n.left, n.right))
            elif isinstance(n, ast.Call) and called(n) in PRODUCTS and len(n.args) == 2 and not n.keywords:
                found.append((f, n, n.args[0], n.args[1]))
    return found


@edit("in_place", "memory", "torch", weight=1.5)
def in_place(module: ast.Module, rng: random.Random, partner: ast.Module | None) -> bool:
    """Write the result of an operation into its first operand, a temporary."""
    sites: list[tuple[ast.FunctionDef, ast.AST, ast.expr]] = []
    for f, call, method in methods(module):
        if method.attr in IN_PLACE and _fresh_tensor(method.value) and ast.unparse(method.value) != "torch":
            sites.append((f, call, expression(ast.unparse(call))))
    operations = [(f, n) for f in functions(module).values() for n in ast.walk(f) if isinstance(n, ast.BinOp)]
    for f, node in operations:
        if type(node.op) in OPERATORS and _fresh_tensor(node.left) and is_tensor(node.left):
            code = f"({ast.unparse(node.left)}).{OPERATORS[type(node.op)]}({ast.unparse(node.right)})"
            sites.append((f, node, expression(code)))
    if not sites:
        return False
    f, old, new = rng.choice(sites)
    if isinstance(old, ast.Call) and isinstance(new, ast.Call) and isinstance(new.func, ast.Attribute):
        new.func.attr += "_"
    replace_node(f, old, new)
    return True


def is_tensor(node: ast.expr) -> bool:
    text = ast.unparse(node)
    return any(
        mark in text for mark in ("torch.", ".float()", ".exp", ".abs()", ".sum(", ".mean(", ".rsqrt", ".square(")
    )


@edit("functional", "memory", "torch")
def functional(module: ast.Module, rng: random.Random, partner: ast.Module | None) -> bool:
    """Let an in-place operation make a new tensor."""
    sites = [
        (f, c, m)
        for f, c, m in methods(module)
        if m.attr.endswith("_") and not m.attr.startswith("_") and m.attr.rstrip("_") in IN_PLACE
    ]
    if not sites:
        return False
    f, call, method = rng.choice(sites)
    discarded = [s for s in ast.walk(f) if isinstance(s, ast.Expr) and s.value is call]
    method.attr = method.attr.rstrip("_")
    if discarded:
        if not isinstance(method.value, ast.Name):
            return False
        replace_node(f, discarded[0], statement(f"{method.value.id} = {ast.unparse(call)}"))
    return True


@edit("drop_widening", "precision", "torch")
def drop_widening(module: ast.Module, rng: random.Random, partner: ast.Module | None) -> bool:
    """Compute in the format of the input in place of float32."""
    sites: list[tuple[ast.FunctionDef, ast.Call, bool]] = [
        (f, c, False) for f, c, m in methods(module) if m.attr == "float" and not c.args
    ]
    sites += [
        (f, c, True)
        for f, c, _ in methods(module)
        if (k := keyword(c, "dtype"))
        and "float32" in ast.unparse(k.value)
        and ("softmax" in called(c) or "norm" in called(c))
    ]
    if not sites:
        return False
    f, call, is_option = rng.choice(sites)
    if is_option:
        call.keywords = [k for k in call.keywords if k.arg != "dtype"]
    else:
        assert isinstance(call.func, ast.Attribute)
        replace_node(f, call, call.func.value)
    return True


@edit("widening_format", "precision", "torch")
def widening_format(module: ast.Module, rng: random.Random, partner: ast.Module | None) -> bool:
    """Compute in double or half precision in place of float32."""
    sites = [m for _, c, m in methods(module) if m.attr in ("float", "double", "half", "bfloat16") and not c.args]
    types = [
        n
        for f in functions(module).values()
        for n in ast.walk(f)
        if isinstance(n, ast.Attribute) and n.attr == "float32"
    ]
    if not sites and not types:
        return False
    if sites and (not types or rng.random() < 0.7):
        site = rng.choice(sites)
        site.attr = rng.choice([n for n in ("float", "double", "double", "half") if n != site.attr])
    else:
        rng.choice(types).attr = rng.choice(("float64", "float64", "bfloat16"))
    return True


@edit("narrow_product", "precision", "torch", weight=2.0)
def narrow_product(module: ast.Module, rng: random.Random, partner: ast.Module | None) -> bool:
    """Multiply matrices with operands rounded to bfloat16."""
    sites = products(module)
    if not sites:
        return False
    f, node, left, right = rng.choice(sites)
    form = called(node) + "({}, {})" if isinstance(node, ast.Call) else "{} @ {}"
    parts = (f"({ast.unparse(side)}).bfloat16()" for side in (left, right))
    replace_node(f, node, expression(f"({form.format(*parts)}).to(({ast.unparse(left)}).dtype)"))
    return True


@edit("chunked_rows", "loop", "torch", weight=2.0)
def chunked_rows(module: ast.Module, rng: random.Random, partner: ast.Module | None) -> bool:
    """Run the whole computation on a few rows at a time, so that temporaries stay in the cache."""
    entry = functions(module).get("custom_kernel")
    if entry is None or "all_rows" in functions(module):
        return False
    entry.name = "all_rows"
    limit = add_constant(module, "CHUNK_ROWS", rng.choice(ROWS))
    module.body += ast.parse(_CHUNKED.format(limit=limit)).body
    return True


_CHUNKED = """
def custom_kernel(data):
    rows = data[0].shape[0]
    parts = []
    for start in range(0, rows, {limit}):
        part = tuple(t[start:start + {limit}] if t.shape[0] == rows else t for t in data)
        result = all_rows(part)
        parts.append((result,) if torch.is_tensor(result) else result)
    joined = tuple(_joined(data, outputs) for outputs in zip(*parts))
    return joined[0] if torch.is_tensor(result) else joined

def _joined(data, outputs):
    for tensor in data:
        if tensor.data_ptr() == outputs[0].data_ptr() and tensor.shape[1:] == outputs[0].shape[1:]:
            return tensor
    return torch.cat(outputs)
"""


@edit("row_chunk_loop", "loop", "torch", weight=0.8)
def row_chunk_loop(module: ast.Module, rng: random.Random, partner: ast.Module | None) -> bool:
    """Run the loop over chunks of rows backwards."""
    sites = [
        n
        for f in functions(module).values()
        for n in ast.walk(f)
        if isinstance(n, ast.For)
        and called(n.iter) == "range"
        and isinstance(n.iter, ast.Call)
        and len(n.iter.args) == 3
    ]
    if not sites:
        return False
    loop = rng.choice(sites)
    loop.iter = expression(f"reversed({ast.unparse(loop.iter)})")
    return "reversed(reversed" not in ast.unparse(loop.iter)


@edit("select_by_index", "memory", "torch", weight=0.6)
def select_by_index(module: ast.Module, rng: random.Random, partner: ast.Module | None) -> bool:
    """Read picked elements by advanced indexing in place of gather."""
    sites = [
        (f, c, m)
        for f, c, m in methods(module)
        if m.attr == "gather" and len(c.args) == 2 and ast.unparse(c.args[0]) == "1"
    ]
    if not sites:
        return False
    f, call, method = rng.choice(sites)
    x, index = ast.unparse(method.value), ast.unparse(call.args[1])
    rows = f"torch.arange(({index}).shape[0], device=({index}).device)[:, None]"
    replace_node(f, call, expression(f"({x})[{rows}, {index}]"))
    return not calls(module, "torch.gather")
