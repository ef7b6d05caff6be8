"""What a child gives up before it runs foreign code, and a plain statement of what could not be enforced."""

from __future__ import annotations

import ctypes
import os
import resource
import signal
import tempfile
from pathlib import Path

from harness.measure import landlock, seccomp, users
from harness.measure.files import Files

CLONE_NEWNET = 0x40000000
PR_SET_PDEATHSIG = 1
PR_SET_DUMPABLE = 4
PR_SET_NO_NEW_PRIVS = 38
# Address space is not limited: CUDA reserves more of it than any machine has memory.
LIMITS = {resource.RLIMIT_CORE: 0, resource.RLIMIT_FSIZE: 1 << 30, resource.RLIMIT_NOFILE: 1024}
PROCESSES = 1024  # and threads, of a user; not where it is the engine's own, whose others would count
CAP_VERSION = 0x20080522


class _CapHeader(ctypes.Structure):
    _fields_ = [("version", ctypes.c_uint32), ("pid", ctypes.c_int)]


class _CapData(ctypes.Structure):
    """Effective, permitted and inheritable capabilities, two words each; all zero gives every one up."""

    _fields_ = [("words", ctypes.c_uint32 * 6)]


def enter(workdir: Path, files: Files) -> list[str]:
    """Confine this process: own session, no network, no capability, limits, private HOME and caches in `workdir`.

    It becomes the user who owns `workdir`. Besides that folder, only `files` can be opened. Returns the parts that
    could not be enforced, each with its reason; an empty list means all hold.
    """
    missing: list[str] = []
    os.setsid()
    libc = ctypes.CDLL(None, use_errno=True)
    if libc.prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0):
        missing.append(f"no-new-privileges: {os.strerror(ctypes.get_errno())}")
    if libc.unshare(CLONE_NEWNET):
        missing.append(f"network: {os.strerror(ctypes.get_errno())}")
    owner = workdir.stat().st_uid
    limits = LIMITS if owner == os.geteuid() else LIMITS | {resource.RLIMIT_NPROC: PROCESSES}
    if reason := users.become(owner):
        missing.append(f"user: {reason}")
    # Both are lost with the user; who is not dumpable cannot write the names of its own threads, as CUDA does.
    libc.prctl(PR_SET_DUMPABLE, 1, 0, 0, 0)
    libc.prctl(PR_SET_PDEATHSIG, signal.SIGKILL, 0, 0, 0)
    if libc.capset(ctypes.byref(_CapHeader(CAP_VERSION, 0)), ctypes.byref(_CapData())):
        missing.append(f"capabilities: {os.strerror(ctypes.get_errno())}")
    if reason := landlock.confine(files.readable, [workdir], files.devices, files.listable):
        missing.append(f"files: {reason}")
    if reason := seccomp.confine():
        missing.append(f"signals and memory of other processes: {reason}")
    for limit, value in limits.items():
        _, hard = resource.getrlimit(limit)
        value = value if hard == resource.RLIM_INFINITY else min(value, hard)
        resource.setrlimit(limit, (value, value))
    os.environ["USER"] = os.environ["LOGNAME"] = "kernel"  # who has no name in /etc/passwd
    for variable, name in (
        ("HOME", "home"), ("TMPDIR", "tmp"), ("TRITON_CACHE_DIR", "triton"), ("TRITON_HOME", "home"),
        ("TORCH_EXTENSIONS_DIR", "extensions"), ("TORCHINDUCTOR_CACHE_DIR", "inductor"), ("CUDA_CACHE_PATH", "cuda"),
        ("XDG_CACHE_HOME", "cache"),
    ):  # fmt: skip
        folder = workdir / name
        folder.mkdir(exist_ok=True)
        os.environ[variable] = str(folder)
    tempfile.tempdir = None  # the parent's choice would be kept, and cannot be written
    os.chdir(workdir)
    for signum in (signal.SIGINT, signal.SIGTERM):
        signal.signal(signum, signal.SIG_DFL)
    return missing


def silence_output(workdir: Path) -> None:
    """Send standard output and error to a file in `workdir` that RLIMIT_FSIZE bounds; standard input is empty."""
    null = os.open(os.devnull, os.O_RDONLY)
    os.dup2(null, 0)
    os.close(null)
    sink = os.open(workdir / "output", os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600)
    os.dup2(sink, 1)
    os.dup2(sink, 2)
    os.close(sink)
