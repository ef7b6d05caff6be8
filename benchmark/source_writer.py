"""Write a syntax tree back as source, with names replaced and string literals in one form on every Python version."""

from __future__ import annotations

import ast
import re

from benchmark.cuda_source import is_cuda, normalise
from benchmark.telling_names import Names, rename_in_text, root

_FIRST_MARK = 0xE000  # private-use characters stand for the expressions of an f-string while its text is rewritten


def _join(node: ast.JoinedStr) -> str:
    """The text of an f-string, its expressions replaced by private-use characters."""
    return "".join(
        str(part.value) if isinstance(part, ast.Constant) else chr(_FIRST_MARK + i)
        for i, part in enumerate(node.values)
    )


def cuda_texts(tree: ast.AST) -> list[str]:
    """Return the CUDA sources among the strings of a tree, an f-string's expressions replaced by one character each."""
    texts: list[str] = []
    inside: set[int] = set()
    for node in ast.walk(tree):
        if isinstance(node, ast.JoinedStr):
            inside.update(id(part) for part in node.values)
            texts.append(_join(node))
        elif isinstance(node, ast.Constant) and isinstance(node.value, str) and id(node) not in inside:
            texts.append(node.value)
    return [text for text in texts if is_cuda(text)]


def _quoted(text: str, quote: str) -> str:
    """The body of a string literal; only printable ASCII stays as is, since what else prints differs by version."""
    body = text.replace("\\", "\\\\")
    if len(quote) == 1:
        body = body.replace(quote, "\\" + quote)
    else:
        body = body.replace(quote, "\\" + quote[0] + "\\" + quote[0] + "\\" + quote[0])
        if body.endswith(quote[0]):
            body = body[:-1] + "\\" + quote[0]
    keep = "\n" if len(quote) == 3 else ""
    return "".join(c if " " <= c <= "~" or c in keep else ascii(c)[1:-1] for c in body)


class SourceWriter(ast.NodeTransformer):
    """Renames, and writes string literals itself: `ast.unparse` writes f-strings differently in each version."""

    def __init__(self, names: Names, mapping: dict[str, str]) -> None:
        self.names = names
        self.mapping = mapping
        self.literals: list[str] = []

    def source(self, node: ast.AST) -> str:
        """Return the source of a visited tree."""
        text = ast.unparse(node)
        return re.sub(r"__kernelcast_literal_(\d+)__", lambda m: self.literals[int(m.group(1))], text)

    def _literal(self, text: str) -> ast.Name:
        self.literals.append(text)
        return ast.Name(id=f"__kernelcast_literal_{len(self.literals) - 1}__", ctx=ast.Load())

    def _rename(self, name: str) -> str:
        return self.mapping.get(name, name)

    def visit_Constant(self, node: ast.Constant) -> ast.AST:
        if not isinstance(node.value, str):
            return node
        text = rename_in_text(node.value, self.names, self.mapping)
        if is_cuda(text):
            return self._literal('"""' + _quoted(normalise(text), '"""') + '"""')
        if not text.isascii():
            return self._literal("'" + _quoted(text, "'") + "'")
        return ast.Constant(value=text)

    def visit_JoinedStr(self, node: ast.JoinedStr) -> ast.AST:
        text = rename_in_text(_join(node), self.names, self.mapping)
        text = normalise(text) if is_cuda(text) else text
        parts: list[str | ast.FormattedValue] = []
        for piece in re.split("([\ue000-\uf8ff])", text):
            value = node.values[ord(piece) - _FIRST_MARK] if re.fullmatch("[\ue000-\uf8ff]", piece) else None
            parts.append(self.visit(value) if isinstance(value, ast.FormattedValue) else piece)
        return self._fstring([p for p in parts if p != ""], "\n" in text)

    def visit_FormattedValue(self, node: ast.FormattedValue) -> ast.AST:
        spec = node.format_spec
        if isinstance(spec, ast.JoinedStr):
            values = [self.visit(v) if isinstance(v, ast.FormattedValue) else v for v in spec.values]
            spec = ast.JoinedStr(values=values)
        return ast.FormattedValue(value=self.visit(node.value), conversion=node.conversion, format_spec=spec)

    def _fstring(self, parts: list[str | ast.FormattedValue], multiline: bool) -> ast.expr:
        fields = {i: self._field(part) for i, part in enumerate(parts) if isinstance(part, ast.FormattedValue)}
        quotes = ('"""', "'''") if multiline else ("'", '"', '"""', "'''")
        for quote in quotes:
            if all(quote not in f and "\\" not in f and not (len(quote) < 3 and "\n" in f) for f in fields.values()):
                body = "".join(
                    fields[i] if i in fields else _quoted(str(part).replace("{", "{{").replace("}", "}}"), quote)
                    for i, part in enumerate(parts)
                )
                return self._literal(f"f{quote}{body}{quote}")
        # Before 3.12 a field holds neither a backslash nor the quote of its own f-string: write the same as a join.
        items: list[ast.expr] = []
        for part in parts:
            if isinstance(part, ast.FormattedValue):
                items.append(self._format_call(part))
            else:
                items.append(self._literal("'" + _quoted(str(part), "'") + "'"))
        join = ast.Attribute(value=ast.Constant(value=""), attr="join", ctx=ast.Load())
        return ast.Call(func=join, args=[ast.List(elts=items, ctx=ast.Load())], keywords=[])

    def _field(self, node: ast.FormattedValue) -> str:
        text = self.source(node.value)
        if isinstance(node.value, ast.Lambda | ast.NamedExpr | ast.IfExp | ast.Yield | ast.YieldFrom):
            text = f"({text.removeprefix('(').removesuffix(')')})" if text.startswith("(") else f"({text})"
        text = " " + text if text.startswith("{") else text
        spec = ""
        if isinstance(node.format_spec, ast.JoinedStr):
            for part in node.format_spec.values:
                spec += self._field(part) if isinstance(part, ast.FormattedValue) else str(getattr(part, "value", ""))
            spec = ":" + spec
        return "{" + text + (f"!{chr(node.conversion)}" if node.conversion >= 0 else "") + spec + "}"

    def _format_call(self, node: ast.FormattedValue) -> ast.expr:
        value = node.value
        converter = {115: "str", 114: "repr", 97: "ascii"}.get(node.conversion)
        if converter:
            value = ast.Call(func=ast.Name(id=converter, ctx=ast.Load()), args=[value], keywords=[])
        args = [value]
        if isinstance(node.format_spec, ast.JoinedStr):
            values = node.format_spec.values
            parts = [v if isinstance(v, ast.FormattedValue) else str(getattr(v, "value", "")) for v in values]
            args.append(self._fstring(parts, False))
        return ast.Call(func=ast.Name(id="format", ctx=ast.Load()), args=args, keywords=[])

    def visit_Name(self, node: ast.Name) -> ast.AST:
        node.id = self._rename(node.id)
        return node

    def visit_Attribute(self, node: ast.Attribute) -> ast.AST:
        own = node.attr in self.names.attributes or node.attr in self.names.cuda
        if own and root(node.value) not in self.names.imported:
            node.attr = self._rename(node.attr)
        return self.generic_visit(node)

    def visit_Call(self, node: ast.Call) -> ast.AST:
        if root(node.func) not in self.names.imported:
            for word in node.keywords:
                if word.arg in self.names.parameters:
                    word.arg = self._rename(word.arg or "")
        return self.generic_visit(node)

    def visit_arg(self, node: ast.arg) -> ast.AST:
        node.arg = self._rename(node.arg)
        return self.generic_visit(node)

    def visit_alias(self, node: ast.alias) -> ast.AST:
        node.asname = self._rename(node.asname) if node.asname else None
        return node

    def _definition(self, node: ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef) -> ast.AST:
        node.name = self._rename(node.name)
        return self.generic_visit(node)

    def _bound(self, node: ast.ExceptHandler | ast.MatchAs | ast.MatchStar) -> ast.AST:
        node.name = self._rename(node.name) if node.name else None
        return self.generic_visit(node)

    def visit_MatchMapping(self, node: ast.MatchMapping) -> ast.AST:
        node.rest = self._rename(node.rest) if node.rest else None
        return self.generic_visit(node)

    def _scope(self, node: ast.Global | ast.Nonlocal) -> ast.AST:
        node.names = [self._rename(name) for name in node.names]
        return node

    visit_FunctionDef = visit_AsyncFunctionDef = visit_ClassDef = _definition
    visit_ExceptHandler = visit_MatchAs = visit_MatchStar = _bound
    visit_Global = visit_Nonlocal = _scope
