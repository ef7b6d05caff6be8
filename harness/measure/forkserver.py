"""A process that has imported torch and triton, has never touched CUDA, and forks a fresh child for every kernel.

Started as `python -m harness.measure.forkserver FD DEVICE CAPABILITY`; FD is a Unix stream socket. Requests:
{"fork": WORKDIR, "role": ROLE} with the child's socket attached -> {"pid": N}; {"reap": PID} -> {"status": N or null};
{"stub": TYPES} -> {"new": BOOL}, see `launchers`.
"""

from __future__ import annotations

import array
import contextlib
import ctypes
import gc
import os
import signal
import socket
import sys
import tempfile
from pathlib import Path

from harness.measure import child, files, launchers
from harness.measure.protocol import Channel, PeerGone

PR_SET_CHILD_SUBREAPER = 36


def _warm_compiler(capability: int) -> None:
    """Compile one small kernel ahead of time: children inherit a warm Triton instead of each warming its own."""
    import triton
    from triton.backends.compiler import GPUTarget
    from triton.compiler import ASTSource

    from harness.measure.warmup_kernel import scale

    source = ASTSource(scale, {"x": "*fp32", "y": "*fp32", "n": "i32", "BLOCK": "constexpr"}, {"BLOCK": 128})
    triton.compile(source, target=GPUTarget("cuda", capability, 32))


def _children() -> set[int]:
    text = Path(f"/proc/self/task/{os.getpid()}/children").read_text()
    return {int(pid) for pid in text.split()}


def _receive_socket(sock: socket.socket) -> socket.socket:
    _, ancillary, _, _ = sock.recvmsg(1, socket.CMSG_SPACE(array.array("i", [0]).itemsize))
    for level, kind, data in ancillary:
        if level == socket.SOL_SOCKET and kind == socket.SCM_RIGHTS:
            return socket.socket(fileno=array.array("i", data[:4])[0])
    raise PeerGone("no socket came with the request")


def serve(sock: socket.socket, device: str) -> None:
    """Answer requests until the other side closes."""
    channel = Channel(sock)
    alive: set[int] = set()
    allowed = {gpu: files.needed(gpu and device == "cuda") for gpu in (False, True)}
    while True:
        try:
            request = channel.receive()
        except PeerGone:
            return
        if "fork" in request:
            peer = _receive_socket(sock)
            pid = os.fork()
            if pid == 0:
                sock.close()
                role = request["role"]
                child.main(peer, Path(request["fork"]), device, role, allowed[role != "builder"])
                os._exit(0)
            peer.close()
            alive.add(pid)
            channel.send({"pid": pid})
        elif "stub" in request:
            channel.send({"new": launchers.compile_stub(request["stub"])})
        else:
            pid = request["reap"]
            done, status = os.waitpid(pid, os.WNOHANG) if pid in alive else (pid, signal.SIGKILL)
            if done:
                alive.discard(pid)
                while orphans := _children() - alive:  # grandchildren that left their group come to this subreaper
                    for orphan in orphans:
                        os.kill(orphan, signal.SIGKILL)
                        os.waitpid(orphan, 0)
            channel.send({"status": os.waitstatus_to_exitcode(status) if done else None})


def main() -> None:
    fd, device, capability = int(sys.argv[1]), sys.argv[2], int(sys.argv[3])
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    ctypes.CDLL(None).prctl(PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0)
    with tempfile.TemporaryDirectory() as empty:
        os.environ["TRITON_CACHE_DIR"] = empty  # what an earlier one left would not be compiled, and not be lent
        child.preload(device)
        if device == "cuda":
            _warm_compiler(capability)
    del os.environ["TRITON_CACHE_DIR"]
    gc.collect()
    gc.freeze()  # children share these objects; collecting them would copy every page
    sock = socket.socket(fileno=fd)
    with contextlib.suppress(PeerGone):  # the engine was ended while this process began
        Channel(sock).send({"ready": True})
        serve(sock, device)


if __name__ == "__main__":
    main()
