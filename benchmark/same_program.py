"""Whether two sources are one program: the compiled code is equal, and so is the host code that launches it."""

from __future__ import annotations

import ast
from functools import lru_cache

from benchmark.code_view import code_view, parse
from benchmark.cuda_source import is_cuda


@lru_cache(maxsize=4096)
def host_code(code: str) -> str:
    """Return the syntax tree of a source without device code: Triton functions and CUDA text are taken out.

    Comments, docstrings and formatting do not count. What is not valid Python counts as host code altogether.
    """
    view = code_view(code)
    tree = parse(view)
    if tree is None:
        return view
    return ast.dump(_WithoutDeviceCode().visit(tree))


class _WithoutDeviceCode(ast.NodeTransformer):
    def visit_FunctionDef(self, node: ast.FunctionDef) -> ast.AST:
        if any(_is_jit(decorator) for decorator in node.decorator_list):
            # Its name and parameters stay, because the host code passes arguments by them.
            node.body = [ast.Pass()]
            return node
        return self.generic_visit(node)

    def visit_Constant(self, node: ast.Constant) -> ast.AST:
        if isinstance(node.value, str) and is_cuda(node.value):
            return ast.copy_location(ast.Constant("cuda"), node)
        return node


def _is_jit(decorator: ast.expr) -> bool:
    target = decorator.func if isinstance(decorator, ast.Call) else decorator
    return (isinstance(target, ast.Attribute) and target.attr == "jit") or (
        isinstance(target, ast.Name) and target.id == "jit"
    )


def same_program(first: tuple[str, str | None], second: tuple[str, str | None]) -> bool:
    """Return whether two (source, cubin hash) are one program.

    Without compiled code on both sides, as for PyTorch calls alone, the views have to be equal.
    """
    (code, cubin), (other, other_cubin) = first, second
    if cubin != other_cubin:
        return False
    if cubin is None:
        return code_view(code) == code_view(other)
    return host_code(code) == host_code(other)
