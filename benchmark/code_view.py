"""The view of a kernel's source that a surrogate sees: no comments, no docstrings, no telling names, one formatting."""

from __future__ import annotations

import ast
import re
import warnings
from functools import lru_cache

from benchmark.cuda_source import is_cuda
from benchmark.identity import normalise_newlines
from benchmark.source_writer import SourceWriter, cuda_texts
from benchmark.telling_names import collect, descendants, renames

_CUDA_ENTRY = re.compile(r"\b(?:load_inline|_compile_kernel|RawModule|RawKernel|nvrtc\w*|NVRTC\w*)\b")
_PYTHON_TOKEN = re.compile(
    r"""
      (?P<comment>\#[^\n]*)
    | (?P<string>\b[rRbBuUfF]{0,2}(?:\"\"\".*?(?:\"\"\"|\Z)|'''.*?(?:'''|\Z)|"(?:\\.|[^"\\\n])*"|'(?:\\.|[^'\\\n])*')
                 |\"\"\".*?(?:\"\"\"|\Z)|'''.*?(?:'''|\Z)|"(?:\\.|[^"\\\n])*"|'(?:\\.|[^'\\\n])*')
    | (?P<other>.)
    """,
    re.VERBOSE | re.DOTALL,
)


def parse(code: str) -> ast.Module | None:
    """Return the syntax tree of a kernel file, None if it is not valid Python."""
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            return ast.parse(normalise_newlines(code))
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        return None


def strip_lexically(code: str) -> str:
    """Return the code without comments and blank line ends, found token by token: works on invalid Python too."""
    tokens = _PYTHON_TOKEN.finditer(normalise_newlines(code))
    text = "".join("" if m.lastgroup == "comment" else m.group() for m in tokens)
    return "\n".join(line.rstrip() for line in text.split("\n") if line.strip())


def language_of(code: str) -> str:
    """Return `cuda` if the file holds CUDA C++ in a string or compiles some, else `triton` if it uses triton.jit, else
    `torch`.
    """
    tree = parse(code)
    if tree is None:
        text = strip_lexically(code)
        if is_cuda(text) or _CUDA_ENTRY.search(text):
            return "cuda"
        return "triton" if re.search(r"\btriton\.jit\b", text) else "torch"
    remove_docstrings(tree)
    aliases = {"triton"}
    jits: set[str] = set()
    triton = False
    for node in ast.walk(tree):
        if isinstance(node, ast.Constant) and isinstance(node.value, str) and is_cuda(node.value):
            return "cuda"
        if isinstance(node, ast.Name | ast.Attribute):
            if _CUDA_ENTRY.fullmatch(node.id if isinstance(node, ast.Name) else node.attr):
                return "cuda"
        elif isinstance(node, ast.Import):
            aliases.update(a.asname for a in node.names if a.name == "triton" and a.asname)
        elif isinstance(node, ast.ImportFrom) and node.module == "triton":
            jits.update(a.asname or a.name for a in node.names if a.name == "jit")
    for node in ast.walk(tree):
        if isinstance(node, ast.Attribute) and node.attr == "jit":
            triton |= isinstance(node.value, ast.Name) and node.value.id in aliases
        triton |= isinstance(node, ast.Name) and node.id in jits
    return "triton" if triton else "torch"


@lru_cache(maxsize=4096)
def code_view(code: str) -> str:
    """Return the source without comments, docstrings and telling names, in one formatting, with LF line ends.

    Embedded CUDA C++ loses its comments and gets one white space form. Idempotent, and equal on CPython 3.11 to 3.13
    for code that 3.11 can parse. Invalid Python only loses its comments.
    """
    tree = parse(code)
    if tree is None:
        return strip_lexically(code)
    remove_docstrings(tree)
    names = collect(tree, cuda_texts(tree))
    mapping = renames(names)
    writer = SourceWriter(names, mapping)
    try:
        return writer.source(writer.visit(tree)).strip("\n") + "\n"
    except RecursionError:
        return strip_lexically(code)


def remove_docstrings(tree: ast.AST) -> None:
    """Take out every string that stands alone as a statement: a docstring, or a comment in disguise."""
    for node in descendants(tree):
        for part in ("body", "orelse", "finalbody"):
            statements = getattr(node, part, None)
            if isinstance(statements, list):
                kept = [s for s in statements if not _is_text(s)]
                if statements and not kept and part != "orelse" and not isinstance(node, ast.Module):
                    kept = [ast.Pass()]
                setattr(node, part, kept)


def _is_text(node: ast.AST) -> bool:
    if not isinstance(node, ast.Expr):
        return False
    return isinstance(node.value, ast.JoinedStr) or (
        isinstance(node.value, ast.Constant) and isinstance(node.value.value, str | bytes)
    )
