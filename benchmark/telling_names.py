"""Names that tell a kernel's outcome ("fast_softmax", "baseline") and the neutral names that replace them."""

from __future__ import annotations

import ast
import builtins
import keyword
import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field

from benchmark.cuda_source import is_cuda, scan

TELLING = frozenset((
    "fast", "faster", "fastest", "slow", "slower", "slowest", "quick", "quicker", "quickest", "speed", "speedy",
    "speedup", "speedups", "optimized", "optimised", "optimal", "optimum", "optimize", "optimise", "unoptimized",
    "unoptimised", "suboptimal", "baseline", "naive", "best", "better", "worst", "worse", "improved",
    "improvement", "superior", "inferior", "efficient", "inefficient", "winner", "winning", "loser", "champion",
    "sota", "tuned", "untuned", "turbo", "ultrafast", "superfast", "hyperfast", "blazing", "performant",
    "regression", "regressed",
))  # fmt: skip
NEUTRAL = "variant"
_PARTS = re.compile(r"_+|[A-Z]+(?![a-z])[0-9]*|[A-Z]?[a-z]+[0-9]*|[0-9]+[xX](?![A-Za-z0-9])|[0-9]+|.")
_FACTOR = re.compile(r"[0-9]+x|x[0-9]+", re.IGNORECASE)
CPP_KEYWORDS = frozenset((
    "auto", "bool", "break", "case", "char", "class", "const", "constexpr", "continue", "default", "delete", "do",
    "double", "else", "enum", "explicit", "extern", "false", "float", "for", "friend", "goto", "if", "inline",
    "int", "long", "namespace", "new", "operator", "private", "protected", "public", "register", "restrict",
    "return", "short", "signed", "sizeof", "static", "struct", "switch", "template", "this", "throw", "true",
    "try", "typedef", "typename", "union", "unsigned", "using", "virtual", "void", "volatile", "while", "half",
))  # fmt: skip


def is_telling(name: str) -> bool:
    """Return whether a part of the identifier (split at underscores and capitals) states a speed."""
    return any(part.rstrip("0123456789").lower() in TELLING for part in _PARTS.findall(name))


def neutral(name: str) -> str:
    """Return the identifier with each telling part replaced by `variant` and stated factors such as `2x` left out."""
    parts: list[str] = []
    for part in _PARTS.findall(name):
        word = part.rstrip("0123456789")
        if word.lower() in TELLING:
            part = NEUTRAL.upper() if word.isupper() else NEUTRAL.capitalize() if word[0].isupper() else NEUTRAL
        elif _FACTOR.fullmatch(part):
            part = ""
        parts.append(part)
    result = re.sub(r"(?<=[^_])_+(?=_)", "", "".join(parts))
    return result if result.endswith("_") == name.endswith("_") else result.rstrip("_")


@dataclass
class Names:
    """The identifiers of one module, as far as renaming has to know them."""

    imported: set[str] = field(default_factory=set)
    fixed: set[str] = field(default_factory=lambda: {"custom_kernel"})
    bound: dict[str, None] = field(default_factory=dict)  # in order of appearance
    parameters: set[str] = field(default_factory=set)
    attributes: set[str] = field(default_factory=set)
    cuda: dict[str, None] = field(default_factory=dict)
    used: set[str] = field(default_factory=set)


def descendants(tree: ast.AST) -> list[ast.AST]:
    """Return a tree's nodes in the order of `ast.walk`, which takes three times as long, without their contexts."""
    found = [tree]
    for node in found:  # grows as it goes
        for name in node._fields:
            value = None if name == "ctx" else getattr(node, name, None)
            if isinstance(value, ast.AST):
                found.append(value)
            elif isinstance(value, list):
                found += [item for item in value if isinstance(item, ast.AST)]
    return found


def root(node: ast.AST) -> str | None:
    """Return the name at the start of an attribute, call or subscript chain, None if it starts with something else."""
    while isinstance(node, ast.Attribute | ast.Call | ast.Subscript):
        node = node.func if isinstance(node, ast.Call) else node.value
    return node.id if isinstance(node, ast.Name) else None


def collect(tree: ast.Module, cuda: Iterable[str]) -> Names:
    """Return the identifiers of a module and of the CUDA sources in its strings."""
    names = Names()
    for node in descendants(tree):
        if isinstance(node, ast.Import | ast.ImportFrom):
            for alias in node.names:
                names.imported.add(alias.asname or alias.name.split(".")[0])
                if alias.asname:
                    names.bound.setdefault(alias.asname)
                else:
                    names.fixed.add(alias.name.split(".")[0])
        elif isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef):
            names.bound.setdefault(node.name)
            if isinstance(node, ast.ClassDef):
                for inner in node.body:
                    if isinstance(inner, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef):
                        names.attributes.add(inner.name)
                    targets = inner.targets if isinstance(inner, ast.Assign) else [getattr(inner, "target", None)]
                    names.attributes.update(t.id for t in targets if isinstance(t, ast.Name))
        elif isinstance(node, ast.arg):
            names.bound.setdefault(node.arg)
            names.parameters.add(node.arg)
        elif isinstance(node, ast.Name):
            names.used.add(node.id)
            if isinstance(node.ctx, ast.Store):
                names.bound.setdefault(node.id)
        elif isinstance(node, ast.Attribute):
            names.used.add(node.attr)
            if isinstance(node.ctx, ast.Store):
                names.attributes.add(node.attr)
        elif isinstance(node, ast.ExceptHandler | ast.MatchAs | ast.MatchStar) and node.name:
            names.bound.setdefault(node.name)
        elif isinstance(node, ast.MatchMapping) and node.rest:
            names.bound.setdefault(node.rest)
        elif isinstance(node, ast.keyword) and node.arg:
            names.used.add(node.arg)
    names.used.update(names.bound)
    for source in cuda:
        _collect_cuda(source, names)
    return names


def _collect_cuda(source: str, names: Names) -> None:
    previous, line = "", ""
    for kind, text in scan(source):
        line = "" if "\n" in text else line + text
        if kind == "name":
            names.used.add(text)
            included = re.match(r"\s*#\s*(?:include|pragma)\b", line)
            if previous not in ("::", ".", "->") and not text.startswith("__") and not included:
                names.cuda.setdefault(text)
        if kind not in ("space", "comment"):
            previous = text


def renames(names: Names) -> dict[str, str]:
    """Return {telling name: neutral name} for the names that the module or its CUDA sources define."""
    taken = names.used | names.fixed | set(keyword.kwlist) | set(dir(builtins)) | CPP_KEYWORDS
    result: dict[str, str] = {}
    for name in [*names.bound, *sorted(names.attributes), *names.cuda]:
        if name in result or name in names.fixed or name.startswith("__") or not is_telling(name):
            continue
        base = neutral(name)
        new, number = base, 2
        while new in taken or not new.isidentifier():
            new, number = f"{base}_{number}", number + 1
        taken.add(new)
        result[name] = new
    return result


def rename_in_text(text: str, names: Names, mapping: Mapping[str, str]) -> str:
    """Return a string constant with renamed identifiers: all of them in CUDA source; elsewhere only the name of a
    parameter or CUDA function that is the whole string, a macro definition (`-DNAME`), or is followed by `<` or `(`.
    """
    if is_cuda(text):
        pieces, previous = [], ""
        for kind, token in scan(text):
            keep = kind != "name" or token not in names.cuda or previous == "::"
            pieces.append(token if keep else mapping.get(token, token))
            if kind not in ("space", "comment"):
                previous = token
        return "".join(pieces)
    if text in mapping:
        return mapping[text] if text in names.parameters or text in names.cuda else text

    def replace(match: re.Match[str]) -> str:
        name = match.group(2)
        return match.group(1) + (mapping[name] if name in mapping and name in names.cuda else name)

    text = re.sub(r"^(-D\s*)([A-Za-z_]\w*)(?==|$)", replace, text)
    return re.sub(r"(\b)([A-Za-z_]\w*)(?=\s*[<(])", replace, text)
