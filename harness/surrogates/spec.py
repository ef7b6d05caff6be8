"""The expression that names a surrogate.

    NAME                     one of the bundled surrogates, such as gbdt
    module:Class             a class of yours, found in the working directory or among the installed packages
    SOURCE=WHERE             trained=DIR, and what else `harness.surrogates.SOURCES` lists
    WRAPPER(SURROGATE, ...)  one of `harness.surrogates.WRAPPERS` around any of these, to any depth

each followed by its own options, `?key=value&key=value`, encoded as in a URL: `,`, `(`, `)` and `&` in a value of a
surrogate inside a wrapper are written %2C, %28, %29 and %26. For example

    swapped(gbdt?seed=1)
    recalibrated(ensemble(gbdt,neural?epochs=4))?method=isotonic
"""

from __future__ import annotations

import difflib
import hashlib
import inspect
import json
import os
import re
import sys
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, replace
from importlib import import_module
from pathlib import Path
from typing import Any
from urllib.parse import parse_qsl, urlencode

from benchmark.query import Surrogate
from harness.surrogates import BUNDLED, SOURCES, WRAPPERS, Entry
from harness.surrogates.foreign import SurrogateError, foreign

OURS = ("benchmark", "tasks", "harness", "leaderboard", "kernelcast")
_CLASS_PATH = re.compile(r"[A-Za-z_]\w*(\.[A-Za-z_]\w*)*:[A-Za-z_]\w*")
_FILE_PATH = re.compile(r"(?:.*/)?([A-Za-z_]\w*)\.py:([A-Za-z_]\w*)")


@dataclass(frozen=True)
class SurrogateSpec:
    """A parsed expression: `target` is what stands before the options, without the `members` of a wrapper."""

    target: str
    options: Mapping[str, Any] = field(default_factory=dict)
    members: tuple[SurrogateSpec, ...] = ()

    @property
    def bundled(self) -> bool:
        """Whether this is one of KernelCast's own surrogates by name, or a wrapper around such ones only."""
        if self.members:
            return all(member.bundled for member in self.members)
        return self.target in BUNDLED

    @property
    def entry(self) -> Entry | None:
        """The registered entry of the target; None for a class of the user's."""
        if self.members:
            return WRAPPERS[self.target]
        source, separator, _ = self.target.partition("=")
        return SOURCES[source] if separator else BUNDLED.get(self.target)

    def __str__(self) -> str:
        inner = f"({','.join(str(member) for member in self.members)})" if self.members else ""
        return f"{self.target}{inner}" + (f"?{urlencode(self.options)}" if self.options else "")

    def configuration(self) -> dict[str, Any]:
        """Return what a forecast file records: the target, its options and its members, as JSON values."""
        members = {"members": [member.configuration() for member in self.members]} if self.members else {}
        return {"target": self.target, "options": dict(self.options), **members}

    def leaves(self) -> Iterator[SurrogateSpec]:
        """Yield the surrogates that are no wrapper, in the order written."""
        for member in self.members:
            yield from member.leaves()
        if not self.members:
            yield self


def parse(expression: str) -> SurrogateSpec:
    """Return the spec that an expression writes down. Raises SurrogateError, naming what exists."""
    text = expression.strip()
    wrapper = re.match(r"([\w-]+)\(", text)
    if wrapper:
        return _wrapped(wrapper[1], text)
    target, _, query = text.partition("?")
    source, separator, where = target.partition("=")
    if separator and source in SOURCES:
        if not where:
            raise SurrogateError(
                f"'{expression}' does not say where: write {source}=... ({SOURCES[source].description})"
            )
    elif file := _FILE_PATH.fullmatch(target):
        raise SurrogateError(f"'{target}' names a file: write '{file[1]}:{file[2]}', in the folder where it lies")
    elif target not in BUNDLED and not _CLASS_PATH.fullmatch(target):
        close = difflib.get_close_matches(target, [*BUNDLED, *WRAPPERS], n=1)
        hint = f"did you mean '{close[0]}'? " if close else ""
        known = ", ".join([*BUNDLED, *(f"{name}=..." for name in SOURCES), *(f"{name}(...)" for name in WRAPPERS)])
        raise SurrogateError(f"unknown surrogate '{target}': {hint}write one of {known}, or module:Class for your own")
    return SurrogateSpec(target, _options(expression, query))


def _wrapped(name: str, text: str) -> SurrogateSpec:
    if name not in WRAPPERS:
        raise SurrogateError(f"unknown wrapper '{name}' in '{text}'; expected one of {', '.join(WRAPPERS) or 'none'}")
    depth, start, parts = 0, len(name) + 1, []
    for end in range(len(name), len(text)):
        depth += (text[end] == "(") - (text[end] == ")")
        if depth == 0 or (depth == 1 and text[end] == ","):
            parts.append(text[start:end])
            start = end + 1
        if depth == 0:
            break
    rest = text[start:]
    if depth or (rest and not rest.startswith("?")):
        raise SurrogateError(f"cannot read '{text}': write {name}(SURROGATE, ...)?key=value")
    if not all(part.strip() for part in parts):
        raise SurrogateError(f"'{text}' has an empty place: write {name}(SURROGATE, ...)")
    return SurrogateSpec(name, _options(text, rest[1:]), tuple(parse(part) for part in parts))


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
    if seed is None:
        return spec
    spec = replace(spec, members=tuple(seeded(member, seed) for member in spec.members))
    if "seed" in spec.options or "seed" not in inspect.signature(_class_of(spec)).parameters:
        return spec
    return replace(spec, options={**spec.options, "seed": seed})


def create(spec: SurrogateSpec) -> Surrogate:
    """Return a new surrogate.

    Raises SurrogateError if the class cannot be loaded, does not accept an option, or has no `forecast` method.
    """
    kind = _class_of(spec)
    given: tuple[Any, ...] = ()
    if spec.members:
        given = (tuple(create(member) for member in spec.members),)
    elif "=" in spec.target:
        given = (spec.target.partition("=")[2],)
    accepted = list(inspect.signature(kind).parameters.values())[len(given) :]
    takes_any = any(p.kind is p.VAR_KEYWORD for p in accepted)
    for key in spec.options:
        if key not in [p.name for p in accepted] and not takes_any:
            known = ", ".join(p.name for p in accepted) or "none"
            raise SurrogateError(f"surrogate '{spec.target}' has no option '{key}'; its options: {known}")
    with foreign(f"create '{spec.target}'"):
        surrogate = kind(*given, **spec.options)
    if not isinstance(surrogate, Surrogate):
        raise SurrogateError(f"'{spec.target}' did not give an object with a method forecast(queries)")
    return surrogate


def fingerprint(spec: SurrogateSpec, surrogate: Surrogate) -> str:
    """Return a hash of the code that answers, and of what the surrogate says its answers depend on besides."""
    digest = hashlib.sha256(str(getattr(surrogate, "fingerprint", "")).encode())
    files = {file for leaf in spec.leaves() if (file := _source_file(_class_of(leaf)))}
    folder = Path(__file__).parent
    if any(folder in file.parents for file in files) or spec.members:
        files |= set(folder.rglob("*.py"))
    for file in sorted(files):
        digest.update(file.read_bytes())
    return digest.hexdigest()[:16]


def _source_file(kind: Any) -> Path | None:
    try:
        file = inspect.getsourcefile(kind)
    except TypeError:  # a compiled class has no source
        return None
    return Path(file) if file else None


def _class_of(spec: SurrogateSpec) -> Any:
    if spec.entry is None:
        kind = _load_from_working_directory(spec.target)
        if not (callable(kind) and callable(getattr(kind, "forecast", None))):
            needs = "it needs to be a class with a method forecast(queries) -> forecasts"
            raise SurrogateError(f"'{spec.target}' is not a surrogate: {needs}")
        return kind
    module, _, name = spec.entry.path.partition(":")
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
