"""Cut one function out of a module together with everything of the module that it uses."""

from __future__ import annotations

import ast


def definition_closure(source: str, name: str) -> str:
    """Return the imports, assignments, classes and functions of `source` that `name` reaches, in their order.

    Only plain top-level definitions are followed. Raises ValueError if the module does not define `name`.
    """
    statements = [node for node in ast.parse(source).body if _defines(node)]
    owner = {defined: node for node in statements for defined in _defines(node)}
    if name not in owner:
        raise ValueError(f"the module does not define '{name}' at its top level")
    needed: list[ast.stmt] = []
    pending = [owner[name]]
    while pending:
        node = pending.pop()
        if node in needed:
            continue
        needed.append(node)
        used = {child.id for child in ast.walk(node) if isinstance(child, ast.Name)}
        pending += [owner[other] for other in sorted(used & owner.keys())]
    parts: list[str] = []
    previous: ast.stmt | None = None
    for node in sorted(needed, key=lambda item: item.lineno):
        if previous is not None:
            parts.append("\n" if _is_import(previous) and _is_import(node) else "\n\n\n")
        parts.append(_segment(source, node))
        previous = node
    return "".join(parts) + "\n"


def _segment(source: str, node: ast.stmt) -> str:
    decorators = getattr(node, "decorator_list", [])
    first = min([node.lineno, *(d.lineno for d in decorators)])
    return "\n".join(source.splitlines()[first - 1 : node.end_lineno])


def _is_import(node: ast.stmt) -> bool:
    return isinstance(node, ast.Import | ast.ImportFrom)


def _defines(node: ast.stmt) -> list[str]:
    match node:
        case ast.Import(names=aliases):
            return [alias.asname or alias.name.split(".")[0] for alias in aliases]
        case ast.ImportFrom(module=module, names=aliases) if module != "__future__":
            return [alias.asname or alias.name for alias in aliases]
        case ast.FunctionDef(name=name) | ast.ClassDef(name=name):
            return [name]
        case ast.Assign(targets=targets):
            return [target.id for target in targets if isinstance(target, ast.Name)]
        case ast.AnnAssign(target=ast.Name(id=name)):
            return [name]
        case _:
            return []
