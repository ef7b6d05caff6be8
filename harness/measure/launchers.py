"""C modules that Triton compiles: its calls of the driver, and up to 3.6 a host stub per signature of a kernel.

The C compiler takes longer for a stub than Triton for the kernel. A trusted process compiles the stub of a signature
once, from nothing but the names of the argument types, and keeps it in memory that the processes it forks afterwards
inherit and cannot change. A child whose caches are empty takes it from there; a stub that is not there is compiled as
ever. Later versions of Triton have one launcher for all signatures.
"""

from __future__ import annotations

import hashlib
import re
import subprocess
import tempfile
from collections.abc import Sequence
from functools import cache
from pathlib import Path
from typing import Any

from harness.measure.replaced import replaced
from harness.measure.sealed import sealed_file

NAME = "__triton_launcher"
MAX_STUBS = 256  # each is an open file in every child
MAX_ARGUMENTS = 128
TYPE = re.compile(r"constexpr|\*k?[a-z0-9]{2,10}|[iu](1|8|16|32|64)|fp(16|32|64)|bf16")
_modules: dict[str, str] = {}  # hash of the C source -> path of the compiled module
_missed: list[str] = []


def needed() -> bool:
    """Return whether this Triton compiles stubs, and can here: there is the driver's library to link to."""
    from triton.backends.nvidia import driver as nvidia

    return hasattr(nvidia, "make_launcher") and _driver_library()


def lend() -> None:
    """Let Triton take stubs from memory, in this process and in all that it forks.

    So it does with the module that holds its own calls of the driver, which is compiled here unless Triton's cache has
    it; it starts nothing.
    """
    from triton import knobs
    from triton.backends.nvidia import driver as nvidia

    if not _driver_library():
        return
    with replaced(knobs.build, impl=_keep):
        nvidia.CudaUtils()
    knobs.build.impl = _look_up


@cache
def _driver_library() -> bool:
    from triton.backends.nvidia import driver as nvidia

    try:
        return bool(nvidia.library_dirs())
    except AssertionError:
        return False


def compile_stub(types: Sequence[str]) -> bool:
    """Compile the stub for arguments of these types and keep it; returns whether there is a new one.

    `types` may come from an untrusted process: anything but names of types, and more than a signature holds, is
    refused.
    """
    from triton.backends.nvidia import driver as nvidia

    plain = len(types) <= MAX_ARGUMENTS and all(isinstance(t, str) and TYPE.fullmatch(t) for t in types)
    if not plain or len(_modules) >= MAX_STUBS or not needed():
        return False
    try:
        source = nvidia.make_launcher({}, dict(enumerate(types)), None)
    except KeyError:  # a pointer may point to anything, a number has one of Triton's types
        return False
    if hashlib.sha256(source.encode()).hexdigest() in _modules:
        return False
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / f"{NAME}.c"
        path.write_text(source)
        try:
            _keep(NAME, str(path), folder, nvidia.library_dirs(), nvidia.include_dirs, nvidia.libraries)
        except (OSError, RuntimeError, subprocess.SubprocessError):  # types that C does not know, or no compiler
            return False
    return True


def missed() -> int:
    """Return how many stubs this process had to compile itself."""
    return len(_missed)


def _look_up(name: str, source: str, *rest: Any) -> str:
    digest = _digest(source)
    if digest in _modules:
        return _modules[digest]
    if name == NAME:
        _missed.append(digest)
    return _build(name, source, *rest)


def _keep(name: str, source: str, *rest: Any) -> str:
    path = _build(name, source, *rest)
    _modules[_digest(source)] = sealed_file(name, Path(path).read_bytes())
    return path


def _digest(source: str) -> str:
    return hashlib.sha256(Path(source).read_bytes()).hexdigest()


def _build(name: str, source: str, *rest: Any) -> str:
    from triton.runtime import build

    with replaced(build.knobs.build, impl=None):
        return str(build._build(name, source, *rest, *(() if len(rest) > 4 else ([],))))
