"""The expression that names a surrogate: `NAME` or `module:Class`, then `?key=value&key=value`."""

from __future__ import annotations

import difflib
import inspect
import json
import os
import re
import sys
from collections.abc import Mapping
from dataclasses import dataclass, field
from importlib import import_module
from typing import Any
from urllib.parse import parse_qsl, urlencode

from benchmark.query import Surrogate
from harness.surrogates import BUNDLED
from harness.surrogates.foreign import SurrogateError, foreign

OURS = ("benchmark", "tasks", "harness", "leaderboard", "kernelcast")
_CLASS_PATH = re.compile(r"[A-Za-z_]\w*(\.[A-Za-z_]\w*)*:[A-Za-z_]\w*")


@dataclass(frozen=True)
class SurrogateSpec:
    """A parsed expression: `target` is a bundled name or `module:Class`, `options` its keyword arguments."""

    target: str
    options: Mapping[str, Any] = field(default_factory=dict)

    @property
    def bundled(self) -> bool:
        """Whether the target is one of KernelCast's own surrogates."""
        return self.target in BUNDLED

    def __str__(self) -> str:
        return f"{self.target}?{urlencode(self.options)}" if self.options else self.target

    def configuration(self) -> dict[str, Any]:
        """Return what a forecast file records: the target and its options, as JSON values."""
        return {"target": self.target, "options": dict(self.options)}


def parse(expression: str) -> SurrogateSpec:
    """Return the spec that an expression writes down. Raises SurrogateError, naming what exists."""
    target, _, query = expression.strip().partition("?")
    if target not in BUNDLED and not _CLASS_PATH.fullmatch(target):
        close = difflib.get_close_matches(target, BUNDLED, n=1)
        hint = f"did you mean '{close[0]}'? " if close else ""
        raise SurrogateError(
            f"unknown surrogate '{target}': {hint}write one of {', '.join(BUNDLED)}, or module:Class for your own"
        )
    return SurrogateSpec(target, _options(expression, query))


def _options(expression: str, query: str) -> dict[str, Any]:
    try:
        pairs = parse_qsl(query, keep_blank_values=True, strict_parsing=True) if query else []
    except ValueError:
        raise SurrogateError(f"cannot read the options of '{expression}': write ?key=value&key=value") from None
    options: dict[str, Any] = {}
    for key, text in pairs:
        if key in options:
            raise SurrogateError(f"option '{key}' is given twice in '{expression}'")
        options[key] = _value(text)
    return options


def _value(text: str) -> Any:
    """Return a JSON number or boolean as such, and anything else as the text it is."""
    try:
        value = json.loads(text)
    except ValueError:
        return text
    return value if isinstance(value, int | float) else text


def seeded(spec: SurrogateSpec, seed: int | None) -> SurrogateSpec:
    """Return the spec with a seed among its options, if its class takes one and the options do not name it."""
    if seed is None or "seed" in spec.options or "seed" not in inspect.signature(_class_of(spec)).parameters:
        return spec
    return SurrogateSpec(spec.target, {**spec.options, "seed": seed})


def create(spec: SurrogateSpec) -> Surrogate:
    """Return a new surrogate.

    Raises SurrogateError if the class cannot be loaded, does not accept an option, or has no `forecast` method.
    """
    kind = _class_of(spec)
    options = dict(spec.options)
    accepted = inspect.signature(kind).parameters
    takes_any = any(p.kind is p.VAR_KEYWORD for p in accepted.values())
    for key in options:
        if key not in accepted and not takes_any:
            known = ", ".join(accepted) or "none"
            raise SurrogateError(f"surrogate '{spec.target}' has no option '{key}'; its options: {known}")
    with foreign(f"create '{spec.target}'"):
        surrogate = kind(**options)
    if not isinstance(surrogate, Surrogate):
        raise SurrogateError(f"'{spec.target}' did not give an object with a method forecast(queries)")
    return surrogate


def _class_of(spec: SurrogateSpec) -> Any:
    if not spec.bundled:
        kind = _load_from_working_directory(spec.target)
        if not (callable(kind) and callable(getattr(kind, "forecast", None))):
            needs = "it needs to be a class with a method forecast(queries) -> forecasts"
            raise SurrogateError(f"'{spec.target}' is not a surrogate: {needs}")
        return kind
    module, _, name = BUNDLED[spec.target][0].partition(":")
    return getattr(import_module(module), name)


def _load_from_working_directory(path: str) -> Any:
    module, _, name = path.partition(":")
    here = os.getcwd()
    # A user's folder may hold a tasks.py or benchmark/ of its own. Ours are imported first and the folder comes last
    # on the path, so that it can add modules but never replace one.
    for package in OURS:
        import_module(package)
    top = module.partition(".")[0]
    if top in OURS and not _is_ours(module):
        raise SurrogateError(f"cannot load '{path}': '{top}' is a package of KernelCast; give your module another name")
    if here not in sys.path:
        sys.path.append(here)
    with foreign(f"import '{module}'"):
        try:
            loaded = import_module(module)
        except ModuleNotFoundError as error:
            if error.name != module and not module.startswith(f"{error.name}."):
                raise
            raise SurrogateError(f"there is no module '{module}' in {here} or among the installed packages") from None
    if not hasattr(loaded, name):
        raise SurrogateError(f"module '{module}' ({getattr(loaded, '__file__', None)}) has no class '{name}'")
    return getattr(loaded, name)


def _is_ours(module: str) -> bool:
    from importlib.util import find_spec

    try:
        return "." in module and find_spec(module) is not None
    except ModuleNotFoundError:
        return False
