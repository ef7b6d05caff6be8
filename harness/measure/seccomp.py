"""A system-call filter for children: no signal to another process, no look into its memory, no mark left behind.

Children run under the user of the engine, so without it a kernel could end the judge, or read what it holds. What
outlives a process without being a file would let one kernel tell a later one which inputs are shown more than once.
"""

from __future__ import annotations

import ctypes
import errno
import os
import platform
import struct

PR_SET_SECCOMP = 22
SECCOMP_MODE_FILTER = 2
ALLOW, ERRNO = 0x7FFF0000, 0x00050000
AUDIT_ARCH = {"x86_64": 0xC000003E, "aarch64": 0xC00000B7}
# Calls whose first argument must be this process: kill, tgkill. And calls that no kernel needs: tkill, rt_sigqueueinfo,
# rt_tgsigqueueinfo, pidfd_send_signal, pidfd_open, pidfd_getfd, ptrace, process_vm_readv, process_vm_writev, kcmp.
TO_ITSELF = {"x86_64": (62, 234), "aarch64": (129, 131)}
FORBIDDEN = {
    "x86_64": (200, 129, 297, 424, 434, 438, 101, 310, 311, 312),
    "aarch64": (130, 138, 240, 424, 434, 438, 117, 270, 271, 272),
}
# shmget, semget, msgget, mq_open; add_key, request_key, keyctl; setxattr, lsetxattr, fsetxattr; utimensat, and where it
# is there utime, utimes, futimesat.
LASTING = {
    "x86_64": (29, 64, 68, 240, 248, 249, 250, 188, 189, 190, 280, 132, 235, 261),
    "aarch64": (194, 190, 186, 180, 217, 218, 219, 5, 6, 7, 88),
}
_LOAD, _EQUAL, _RETURN = 0x20, 0x15, 0x06  # BPF: load a 32-bit word, jump if equal, return
_NUMBER, _ARCH, _FIRST_ARGUMENT = 0, 4, 16  # byte offsets in struct seccomp_data


class _Program(ctypes.Structure):
    _fields_ = [("length", ctypes.c_ushort), ("filter", ctypes.c_void_p)]


def _instructions(machine: str, pid: int) -> list[tuple[int, int, int, int]]:
    deny = (_RETURN, 0, 0, ERRNO | errno.EPERM)
    allow = (_RETURN, 0, 0, ALLOW)
    # A call of another architecture (32-bit code) has other numbers, so it is denied as a whole.
    program = [(_LOAD, 0, 0, _ARCH), (_EQUAL, 1, 0, AUDIT_ARCH[machine]), deny, (_LOAD, 0, 0, _NUMBER)]
    for number in FORBIDDEN[machine] + LASTING[machine]:
        program += [(_EQUAL, 0, 1, number), deny]
    for number in TO_ITSELF[machine]:
        program += [(_EQUAL, 0, 4, number), (_LOAD, 0, 0, _FIRST_ARGUMENT), (_EQUAL, 1, 0, pid), deny, allow]
    return [*program, allow]


def confine() -> str | None:
    """Install the filter in this process and all it forks; returns why not, or None. No-new-privileges must be set."""
    machine = platform.machine()
    if machine not in AUDIT_ARCH:
        return f"no filter for {machine}"
    packed = b"".join(struct.pack("HBBI", *instruction) for instruction in _instructions(machine, os.getpid()))
    buffer = ctypes.create_string_buffer(packed)
    program = _Program(len(packed) // 8, ctypes.cast(buffer, ctypes.c_void_p))
    libc = ctypes.CDLL(None, use_errno=True)
    if libc.prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, ctypes.byref(program), 0, 0):
        return os.strerror(ctypes.get_errno())
    return None
