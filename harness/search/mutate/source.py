"""Kernel files as syntax trees: parsing, writing back, and finding Triton kernels and their launches."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from dataclasses import dataclass


class _LiftTexts(ast.NodeTransformer):
    """Put a name in the place of every string of several lines."""

    def __init__(self) -> None:
        self.texts: list[str] = []

    def visit_Constant(self, node: ast.Constant) -> ast.expr:
        if not isinstance(node.value, str) or "\n" not in node.value:
            return node
        self.texts.append(node.value)
        return ast.Name(f"__text_{len(self.texts) - 1}__", ast.Load())

    def visit_JoinedStr(self, node: ast.JoinedStr) -> ast.expr:
        return node


def _literal(text: str) -> str:
    for quotes in ('"""', "'''"):
        if quotes not in text and not text.endswith((quotes[0], "\\")):
            prefix = "r" if "\\" in text else ""
            return prefix + quotes + text + quotes
    return repr(text)


def unparse(module: ast.Module) -> str:
    """Return the source of a module; strings of several lines (C++ sources) keep their lines."""
    lift = _LiftTexts()
    # The tree is written from a copy: lifting replaces nodes in place.
    code = ast.unparse(lift.visit(ast.parse(ast.unparse(ast.fix_missing_locations(module)))))
    for position, text in enumerate(lift.texts):
        code = code.replace(f"__text_{position}__", _literal(text), 1)
    return code + "\n"


def expression(code: str) -> ast.expr:
    """Return one expression as a tree."""
    return ast.parse(code, mode="eval").body


def statement(code: str) -> ast.stmt:
    """Return one statement as a tree."""
    return ast.parse(code).body[0]


def same(a: ast.AST, b: ast.AST) -> bool:
    """Return whether two trees are equal, positions apart."""
    return ast.dump(a) == ast.dump(b)


def names(tree: ast.AST) -> set[str]:
    """Return every identifier that a tree reads or writes."""
    return {node.id for node in ast.walk(tree) if isinstance(node, ast.Name)}


def fresh(module: ast.AST, stem: str) -> str:
    """Return an identifier made from the stem that the module does not use."""
    used = names(module) | {a.arg for a in ast.walk(module) if isinstance(a, ast.arg)}
    used |= {f.name for f in ast.walk(module) if isinstance(f, ast.FunctionDef)}
    number = 0
    while (name := f"{stem}{number or ''}") in used:
        number += 1
    return name


def called(node: ast.AST) -> str:
    """Return the dotted name that a call node calls, or an empty string."""
    if not isinstance(node, ast.Call):
        return ""
    func, parts = node.func, []
    while isinstance(func, ast.Attribute):
        parts.append(func.attr)
        func = func.value
    return ".".join(reversed([*parts, func.id])) if isinstance(func, ast.Name) else ""


def calls(tree: ast.AST, *names: str) -> list[ast.Call]:
    """Return the calls of the given dotted names, in the order of the tree walk."""
    return [node for node in ast.walk(tree) if isinstance(node, ast.Call) and called(node) in names]


def keyword(call: ast.Call, name: str) -> ast.keyword | None:
    """Return a keyword argument of a call."""
    return next((k for k in call.keywords if k.arg == name), None)


def set_keyword(call: ast.Call, name: str, value: ast.expr) -> None:
    """Add or replace a keyword argument of a call."""
    if found := keyword(call, name):
        found.value = value
    else:
        call.keywords.append(ast.keyword(name, value))


def functions(module: ast.Module) -> dict[str, ast.FunctionDef]:
    """Return the functions at the top level by name."""
    return {node.name: node for node in module.body if isinstance(node, ast.FunctionDef)}


def is_kernel(function: ast.FunctionDef) -> bool:
    """Return whether a function is decorated with triton.jit."""
    return any("jit" in ast.unparse(decorator).split("(")[0].split(".") for decorator in function.decorator_list)


def is_autotuned(function: ast.FunctionDef) -> bool:
    """Return whether a kernel chooses its launch options itself."""
    return any("autotune" in ast.unparse(decorator) for decorator in function.decorator_list)


def kernels(module: ast.Module) -> list[ast.FunctionDef]:
    """Return the Triton kernels and device functions at the top level."""
    return [function for function in functions(module).values() if is_kernel(function)]


@dataclass(frozen=True)
class Launch:
    """One launch `kernel[grid](...)` and the function it stands in."""

    call: ast.Call
    grid: ast.Subscript
    kernel: ast.FunctionDef
    host: ast.FunctionDef


def launches(module: ast.Module) -> list[Launch]:
    """Return the launches of top-level kernels, in the order of the source."""
    table = {kernel.name: kernel for kernel in kernels(module)}
    found = []
    for host in functions(module).values():
        if is_kernel(host):
            continue
        for node in ast.walk(host):
            if isinstance(node, ast.Call) and isinstance(node.func, ast.Subscript):
                base = node.func.value
                if isinstance(base, ast.Name) and base.id in table:
                    found.append(Launch(node, node.func, table[base.id], host))
    return found


def assigned(tree: ast.AST, name: str) -> list[ast.expr]:
    """Return every expression that is assigned to a plain name."""
    return [
        node.value
        for node in ast.walk(tree)
        if isinstance(node, ast.Assign) and isinstance(node.targets[0], ast.Name) and node.targets[0].id == name
    ]


def blocks(tree: ast.AST) -> Iterator[list[ast.stmt]]:
    """Yield every list of statements in a tree."""
    for node in ast.walk(tree):
        for name in ("body", "orelse", "finalbody"):
            block = getattr(node, name, None)
            if isinstance(block, list) and block and isinstance(block[0], ast.stmt):
                yield block


def parents(tree: ast.AST) -> dict[ast.AST, ast.AST]:
    """Return the parent of every node below a tree."""
    return {child: node for node in ast.walk(tree) for child in ast.iter_child_nodes(node)}


def replace_node(tree: ast.AST, old: ast.AST, new: ast.AST) -> None:
    """Put a node in the place of another one. Raises ValueError if that is not in the tree."""
    for node in ast.walk(tree):
        for name, value in ast.iter_fields(node):
            if value is old:
                setattr(node, name, new)
                return
            if isinstance(value, list) and any(item is old for item in value):
                value[next(i for i, item in enumerate(value) if item is old)] = new
                return
    raise ValueError("the node to replace is not in the tree")
