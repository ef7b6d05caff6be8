"""CUDA C++ kernels that torch compiles at run time (`torch.cuda._compile_kernel`): a cache of them on disk.

NVRTC needs no GPU, so a process without one fills the cache, and one that holds a CUDA context only loads from it.
"""

from __future__ import annotations

import hashlib
import inspect
import json
import os
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from functools import cache
from pathlib import Path
from typing import Any

from harness.measure.replaced import replaced


@cache
def preload() -> None:
    """Import what torch needs to compile CUDA C++, without the question for a GPU that its import asks.

    That question starts the CUDA runtime, which a fork does not survive.
    """
    import torch.cuda

    with replaced(torch.cuda, is_available=lambda: True):
        import torch.utils.cpp_extension


@contextmanager
def compiled_cache(folder: Path) -> Iterator[list[str]]:
    """Let torch look a CUDA C++ kernel up in `folder` before it compiles it; yields the names of those it compiled."""
    import torch.cuda._utils as cuda_utils

    compiled: list[str] = []
    with replaced(cuda_utils, _nvrtc_compile=_caching(cuda_utils._nvrtc_compile, folder, compiled)):
        yield compiled


def use_compiled_cache(folder: Path) -> list[str]:
    """Do so for the rest of this process; the list grows by the name of each kernel that was not in the cache."""
    import torch.cuda._utils as cuda_utils

    compiled: list[str] = []
    cuda_utils._nvrtc_compile = _caching(cuda_utils._nvrtc_compile, folder, compiled)
    return compiled


def _caching(compile_kernel: Callable[..., Any], folder: Path, compiled: list[str]) -> Callable[..., tuple[bytes, str]]:
    signature = inspect.signature(compile_kernel)
    versions = _versions()

    def look_up_or_compile(*args: Any, **options: Any) -> tuple[bytes, str]:
        request = signature.bind(*args, **options)
        request.apply_defaults()
        if request.arguments["compute_capability"] is None:
            request.arguments["compute_capability"] = _capability()
        path = folder / _key(versions, request.arguments)
        found = _read(path)
        if found is None:
            found = compile_kernel(*request.args, **request.kwargs)
            compiled.append(str(request.arguments["kernel_name"]))
            _write(path, *found)
        return found

    return look_up_or_compile


def _versions() -> list[str]:
    import torch

    return [torch.__version__, str(torch.version.cuda)]


def _capability() -> str:
    import torch

    found = torch.cuda.get_device_properties(torch.cuda.current_device())
    return f"{found.major}{found.minor}"


def _key(versions: list[str], arguments: Mapping[str, Any]) -> str:
    # Options are added in place by torch, so the key is taken before the compiler sees them.
    text = json.dumps([versions, {name: arguments[name] for name in sorted(arguments)}], default=str)
    return hashlib.sha256(text.encode()).hexdigest()


def _read(path: Path) -> tuple[bytes, str] | None:
    """Return (binary, name of the function), or None if there is no such file or only part of one."""
    try:
        head, _, binary = path.read_bytes().partition(b"\n")
        facts = json.loads(head)
        return (binary, str(facts["function"])) if facts["nbytes"] == len(binary) else None
    except (OSError, ValueError, KeyError, TypeError):
        return None


def _write(path: Path, binary: bytes, function: str) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    part = path.with_name(f"{path.name}.{os.getpid()}.part")
    part.write_bytes(json.dumps({"function": function, "nbytes": len(binary)}).encode() + b"\n" + binary)
    os.replace(part, path)
