"""Which files a child may open: the Landlock security module of Linux, asked for by its system calls.

It restricts the calling process and all it starts, for good. It covers opening, making, renaming, removing, truncating
and running files, device ioctls, TCP (from version 4 of its interface), signals and abstract sockets (from version 6),
and looking into any process outside: ptrace, and of /proc/PID what needs the right to it (mem, environ, maps, fd,
root). It does not cover file descriptors that are open already, stat, chmod, chown, times and extended attributes, nor
connecting to a Unix socket that has a path. Mounting is forbidden as a whole. Source: the kernel's
Documentation/userspace-api/landlock.rst.
"""

from __future__ import annotations

import ctypes
import errno
import os
import stat
import struct
from collections.abc import Iterable
from pathlib import Path

CREATE_RULESET, ADD_RULE, RESTRICT_SELF = 444, 445, 446  # the same on every architecture
VERSION_FLAG, PATH_BENEATH = 1, 1
PR_SET_NO_NEW_PRIVS = 38
EXECUTE, WRITE_FILE, READ_FILE, READ_DIR = 1 << 0, 1 << 1, 1 << 2, 1 << 3
REFER, TRUNCATE, IOCTL_DEV = 1 << 13, 1 << 14, 1 << 15
BASIC = (1 << 13) - 1  # the rights of version 1
DEVICE_KINDS = (1 << 6) | (1 << 11)  # making character and block devices, which nobody here needs
ADDED = {2: REFER, 3: TRUNCATE, 5: IOCTL_DEV}  # rights by the version that brought them
FOR_FILES = EXECUTE | WRITE_FILE | READ_FILE | TRUNCATE | IOCTL_DEV
TCP_RIGHTS, TCP_VERSION = 0b11, 4
SCOPES, SCOPE_VERSION = 0b11, 6
COMPLETE_VERSION = 3


def version() -> int:
    """Return the version of Landlock's interface that this kernel offers; 0 if it has none."""
    return max(0, _call(CREATE_RULESET, None, 0, VERSION_FLAG))


def confine(
    readable: Iterable[str | Path],
    writable: Iterable[str | Path],
    devices: Iterable[str | Path],
    listable: Iterable[str | Path] = (),
) -> str:
    """Let this process and all it starts open nothing but what is listed; returns why that does not hold, or "".

    Files under `readable` can be read and run, those under `writable` also changed, made and removed; `devices` can be
    read, written and controlled; folders under `listable` show their names. Paths that do not exist are left out. What
    an older kernel lacks is left out too, except rights to files: below version 3 the answer is never "", and below
    version 2 nothing is restricted, as it would forbid the renames by which caches are written.
    """
    found = version()
    if found < 2:
        return "the kernel has no Landlock" if not found else "the kernel's Landlock is version 1, at least 2 is needed"
    others = len(os.listdir("/proc/self/task")) - 1
    if others:
        return f"{others} other threads of this process would stay as they are"
    rights = BASIC | sum(added for since, added in ADDED.items() if since <= found)
    network = TCP_RIGHTS if found >= TCP_VERSION else 0
    scopes = SCOPES if found >= SCOPE_VERSION else 0
    size = (
        8 if found < TCP_VERSION else 16 if found < SCOPE_VERSION else 24
    )  # older kernels refuse what they do not know
    ruleset = _call(CREATE_RULESET, struct.pack("=QQQ", rights, network, scopes)[:size], size, 0)
    if ruleset < 0:
        return f"cannot make rules: {os.strerror(-ruleset)}"
    try:
        read = EXECUTE | READ_FILE | READ_DIR
        for paths, wanted in (
            (readable, read), (writable, rights & ~DEVICE_KINDS & ~IOCTL_DEV), (listable, READ_DIR),
            (devices, READ_FILE | WRITE_FILE | TRUNCATE | IOCTL_DEV),
        ):  # fmt: skip
            for path in paths:
                if reason := _allow(ruleset, os.fspath(path), wanted & rights):
                    return reason
        if reason := _restrict(ruleset):
            return reason
    finally:
        os.close(ruleset)
    return "" if found >= COMPLETE_VERSION else "the kernel's Landlock is version 2, which lets every file be truncated"


def _allow(ruleset: int, path: str, rights: int) -> str:
    try:
        place = os.open(path, os.O_PATH | os.O_CLOEXEC)
    except (FileNotFoundError, NotADirectoryError, PermissionError):
        return ""
    try:
        if not stat.S_ISDIR(os.fstat(place).st_mode):
            rights &= FOR_FILES
        # A rule without rights is an error to the kernel, but only says what holds anyway.
        answer = _call(ADD_RULE, ruleset, PATH_BENEATH, struct.pack("=Qi", rights, place), 0) if rights else 0
    finally:
        os.close(place)
    return "" if answer >= 0 else f"cannot allow {path}: {os.strerror(-answer)}"


def _restrict(ruleset: int) -> str:
    libc = ctypes.CDLL(None, use_errno=True)
    if libc.prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0):
        return f"cannot give up new privileges: {os.strerror(ctypes.get_errno())}"
    answer = _call(RESTRICT_SELF, ruleset, 0)
    return "" if answer >= 0 else f"cannot restrict this process: {os.strerror(-answer)}"


def _call(number: int, *arguments: int | bytes | None) -> int:
    """Make a system call and return its answer, or -errno."""
    libc = ctypes.CDLL(None, use_errno=True)
    words = [ctypes.c_long(a) if isinstance(a, int) else ctypes.c_char_p(a) for a in arguments]
    libc.syscall.restype = ctypes.c_long
    answer = int(libc.syscall(ctypes.c_long(number), *words))
    return answer if answer >= 0 else -(ctypes.get_errno() or errno.EIO)
