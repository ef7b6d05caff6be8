"""The structure of a kernel's source: what is left when literals, launch options and identifiers are taken out."""

from __future__ import annotations

import ast
import builtins
import hashlib
from collections.abc import Iterator, Sequence
from functools import lru_cache

from benchmark.code_view import parse, remove_docstrings, strip_lexically
from benchmark.cuda_source import is_cuda, scan
from benchmark.telling_names import CPP_KEYWORDS, collect, descendants, root

LAUNCH_OPTIONS = frozenset(("num_warps", "num_stages", "num_ctas", "maxnreg", "configs"))
_BUILTINS = frozenset(dir(builtins))
_SKIPPED_FIELDS = frozenset(("ctx", "kind", "type_comment", "type_ignores", "type_params"))
_CUDA_NAMES = frozenset((
    "threadIdx", "blockIdx", "blockDim", "gridDim", "warpSize", "float2", "float4", "half2", "int2", "int4",
    "uint4", "uint32_t", "uint64_t", "int32_t", "int64_t", "size_t", "expf", "exp2f", "logf", "log2f", "sqrtf",
    "rsqrtf", "fmaxf", "fminf", "fmaf", "fabsf", "tanhf", "max", "min", "atomicAdd", "reinterpret_cast",
    "static_cast", "include", "define", "pragma", "unroll", "ifdef", "ifndef", "endif",
))  # fmt: skip


def structure_tokens(code: str) -> tuple[str, ...]:
    """Return the syntax tree in prefix order without literals, launch options and identifiers.

    Names of imports, builtins, attributes of libraries, CUDA keywords and built-ins stay. Comments, docstrings and
    formatting do not count. Invalid Python gives its tokens, treated alike.
    """
    tree = parse(code)
    if tree is None:
        return tuple(_cuda_tokens(strip_lexically(code)))
    remove_docstrings(tree)
    return tuple(_Serialiser(tree).tokens)


@lru_cache(maxsize=4096)
def structure_hash(code: str) -> str:
    """Return `s-` and 16 hex digits over the structure tokens of a source."""
    return hash_tokens(structure_tokens(code))


def hash_tokens(tokens: Sequence[str]) -> str:
    """Return `s-` and 16 hex digits over structure tokens."""
    return "s-" + hashlib.sha256("\0".join(tokens).encode()).hexdigest()[:16]


def _cuda_tokens(text: str) -> Iterator[str]:
    for kind, token in scan(text):
        if kind == "name":
            known = token in CPP_KEYWORDS or token in _CUDA_NAMES or token.startswith("__")
            yield token if known else "name"
        elif kind in ("number", "string", "char", "raw"):
            yield "literal"
        elif kind == "operator":
            yield token


class _Serialiser:
    def __init__(self, tree: ast.Module) -> None:
        self.names = collect(tree, [])
        self.imports: dict[str, str] = {}
        for node in descendants(tree):
            if isinstance(node, ast.Import):
                for alias in node.names:
                    self.imports[alias.asname or alias.name.split(".")[0]] = (
                        alias.name if alias.asname else alias.name.split(".")[0]
                    )
            elif isinstance(node, ast.ImportFrom):
                for alias in node.names:
                    self.imports[alias.asname or alias.name] = f"{node.module}.{alias.name}"
        self.tokens: list[str] = []
        self._add(tree)

    def _add(self, node: ast.AST) -> None:
        """Add the tree in prefix order, each node with its end, so that no two trees read alike."""
        if isinstance(node, ast.Import | ast.ImportFrom | ast.Pass):
            return
        if isinstance(node, ast.UnaryOp) and isinstance(node.op, ast.USub) and isinstance(node.operand, ast.Constant):
            node = node.operand
        tokens = self.tokens
        if isinstance(node, ast.Constant):
            tokens.append("literal")
            if isinstance(node.value, str) and is_cuda(node.value):
                tokens.extend(_cuda_tokens(node.value))
            return
        tokens.append(type(node).__name__)
        if isinstance(node, ast.JoinedStr):
            text = "".join(str(part.value) if isinstance(part, ast.Constant) else "0" for part in node.values)
            if is_cuda(text):
                tokens.extend(_cuda_tokens(text))
            for part in node.values:
                if isinstance(part, ast.FormattedValue):
                    self._add(part.value)
        else:
            self._add_name(node)
            for field in node._fields:
                value = None if field in _SKIPPED_FIELDS else getattr(node, field, None)
                if value is not None and value != []:
                    self._add_field(node, field, value)
        tokens.append("end")

    def _add_name(self, node: ast.AST) -> None:
        if isinstance(node, ast.Name):
            local = node.id in self.names.bound and node.id not in self.imports
            self.tokens.append(self.imports.get(node.id, node.id if node.id in _BUILTINS and not local else "name"))
        elif isinstance(node, ast.Attribute):
            own = node.attr in self.names.attributes and root(node.value) not in self.imports
            self.tokens.append("attribute" if own else node.attr)

    def _add_field(self, node: ast.AST, field: str, value: object) -> None:
        if field == "keywords" and isinstance(node, ast.Call):
            library = root(node.func) in self.imports
            for word in node.keywords:
                if word.arg not in LAUNCH_OPTIONS:
                    self.tokens.append((word.arg or "**") if library else "keyword")
                    self._add(word.value)
        elif isinstance(value, ast.AST):
            self.tokens.append(field)
            self._add(value)
        elif isinstance(value, list):
            self.tokens.append(field)
            for item in value:
                if isinstance(item, ast.AST):
                    self._add(item)
