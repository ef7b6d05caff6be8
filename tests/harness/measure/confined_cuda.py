"""Start CUDA under one part of a child's confinement: `python -m tests.harness.measure.confined_cuda PART [PATH]`.

PATH is a folder that may be written besides, to find out what a driver misses. Prints `started` or the error.
"""

from __future__ import annotations

import ctypes
import os
import sys
import tempfile
from pathlib import Path

from harness.measure import files, landlock, sandbox, seccomp

PARTS = ("nothing", "files", "system calls", "capabilities", "network", "everything")


def confine(part: str, folder: Path, also: list[str]) -> str | None:
    """Enter one part; returns why it could not be entered."""
    libc = ctypes.CDLL(None, use_errno=True)
    needed = files.needed(gpu=True)
    if part == "files":
        return landlock.confine(needed.readable, [folder, *also], needed.devices, needed.listable)
    if part == "system calls":
        libc.prctl(sandbox.PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0)
        return seccomp.confine()
    if part == "capabilities":
        answer = libc.capset(ctypes.byref(sandbox._CapHeader(sandbox.CAP_VERSION, 0)), ctypes.byref(sandbox._CapData()))
        return "refused" if answer else None
    if part == "network":
        return "refused" if libc.unshare(sandbox.CLONE_NEWNET) else None
    if part == "everything":
        return "; ".join(sandbox.enter(folder, needed))
    return None


def main(part: str, also: list[str]) -> None:
    import torch

    if os.fork():  # a forked process has one thread, as those of the engine
        os.wait()
        return
    folder = Path(tempfile.mkdtemp())
    missing = confine(part, folder, also)
    try:
        value = float(torch.ones(4, device="cuda").sum())
        said = "started" if value == 4 else f"wrong value {value}"
    except Exception as error:
        said = f"{type(error).__name__}: {error}".splitlines()[0]
    print(f"{said} (not enforced: {missing})" if missing else said, flush=True)
    os._exit(0)


if __name__ == "__main__":
    main(sys.argv[1], sys.argv[2:])
