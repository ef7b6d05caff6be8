"""Host stubs of Triton up to 3.6: one C module per signature, which gcc takes longer for than Triton for the kernel.

A trusted process compiles the stub of a signature once, from nothing but the names of the argument types, and keeps it
in memory that the processes it forks afterwards inherit and cannot change. A child whose caches are empty takes it from
there; a stub that is not there is compiled as ever. Later versions of Triton have one launcher for all signatures.
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
_stubs: dict[str, str] = {}  # hash of the C source -> path of the compiled module
_missed: list[str] = []


def needed() -> bool:
    """Return whether this Triton compiles stubs, and can here: there is the driver's library to link to."""
    from triton.backends.nvidia import driver as nvidia

    return hasattr(nvidia, "make_launcher") and _driver_library()


def lend() -> None:
    """Let Triton take stubs from memory, in this process and in all that it forks.

    The module with Triton's own calls of the driver is loaded as well, which starts nothing; each child would have to
    compile it.
    """
    from triton import knobs
    from triton.backends.nvidia import driver as nvidia

    if _driver_library():
        nvidia.CudaUtils()
    if needed():
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
    from triton.runtime import build

    plain = len(types) <= MAX_ARGUMENTS and all(isinstance(t, str) and TYPE.fullmatch(t) for t in types)
    if not plain or len(_stubs) >= MAX_STUBS or not needed():
        return False
    try:
        source = nvidia.make_launcher({}, dict(enumerate(types)), None)
    except KeyError:  # a pointer may point to anything, a number has one of Triton's types
        return False
    digest = hashlib.sha256(source.encode()).hexdigest()
    if digest in _stubs:
        return False
    with tempfile.TemporaryDirectory() as folder, replaced(build.knobs.build, impl=None):
        path = Path(folder) / f"{NAME}.c"
        path.write_text(source)
        try:
            made = build._build(
                NAME, str(path), folder, nvidia.library_dirs(), nvidia.include_dirs, nvidia.libraries, []
            )  # fmt: skip
        except (OSError, RuntimeError, subprocess.SubprocessError):  # types that C does not know, or no compiler
            return False
        _stubs[digest] = sealed_file(NAME, Path(made).read_bytes())
    return True


def missed() -> int:
    """Return how many stubs this process had to compile itself."""
    return len(_missed)


def _look_up(name: str, source: str, *rest: Any) -> str:
    from triton.runtime import build

    if name == NAME:
        digest = hashlib.sha256(Path(source).read_bytes()).hexdigest()
        if digest in _stubs:
            return _stubs[digest]
        _missed.append(digest)
    with replaced(build.knobs.build, impl=None):
        return str(build._build(name, source, *rest, *(() if len(rest) > 4 else ([],))))
