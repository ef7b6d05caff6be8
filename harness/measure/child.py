"""The process in which foreign kernels are built, called and timed; nothing it says is believed without a check.

It holds no seed, no expected output and no deadline. Inputs and output space are memory of the judge. Requests come
from the engine: load, check, prepare, batch, audit, facts, and reset where the process serves one kernel after another;
a builder, which has no device, is asked to build ahead.
"""

from __future__ import annotations

import os
import socket
import time
import traceback
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

from harness.measure import ahead, sandbox
from harness.measure.files import Files
from harness.measure.protocol import Channel, PeerGone
from harness.measure.runner import NoKernel, Runner, load_kernel
from harness.measure.timing import Wrong

ERROR_CHARACTERS = 4000
BUILD_NICENESS = 10  # builds take what the cores have left: those who check and time keep the GPU waiting
MANY_CORES, KEPT_CORES = 8, 3


def preload(device: str) -> None:
    """Import what the children of a fork server need; called once, before any fork.

    CUDA stays untouched, for it does not survive a fork: see `nvrtc.preload` about torch.utils.cpp_extension.
    """
    import torch
    import torch.nn.functional
    import triton
    import triton.language

    if device == "cuda":
        ahead.preload()
    if torch.cuda.is_initialized():
        raise RuntimeError("the fork server must not touch CUDA")
    del triton


_COMPILER_ERRORS = (
    "CompilationError", "CompileTimeAssertionFailure", "UnsupportedLanguageConstruct", "PTXASError", "OutOfResources",
)  # fmt: skip


def _failure(error: BaseException) -> dict[str, Any]:
    name = type(error).__name__
    if isinstance(error, Wrong):
        kind = "wrong"
    elif isinstance(error, (SyntaxError, NoKernel)):
        kind = "compile"
    elif "OutOfMemory" in name and "OutOfResources" not in name:
        kind = "oom"
    elif name in _COMPILER_ERRORS or "NVRTC" in str(error) or "Kernel compilation failed" in str(error):
        kind = "compile"
    else:
        kind = "runtime"
    text = str(error) if isinstance(error, (Wrong, NoKernel)) else f"{name}: {error}"
    where = "".join(traceback.format_exception(error))
    return {"error": text[:ERROR_CHARACTERS], "kind": kind, "traceback": where[-ERROR_CHARACTERS:]}


def serve_measurement(
    channel: Channel, served: Mapping[str, Callable[[dict[str, Any]], dict[str, Any]]], go_on: bool = False
) -> None:
    """Serve requests until the engine closes. A failed one is answered with its error, and ends it unless `go_on`.

    Every call of a kernel has this function's name below it, so that a kernel which looks for words of timing in its
    call stack finds one when it is checked, too.
    """
    while True:
        request = channel.receive()
        try:
            answer = served[request["do"]](request)
        except KeyboardInterrupt:
            raise
        except BaseException as error:  # SystemExit of a kernel is its failure, not ours
            answer = _failure(error)
        channel.send(answer)
        if "error" in answer and not go_on:
            return


def _run(channel: Channel, workdir: Path, device: str, missing: Sequence[str], shared: bool) -> None:
    started = time.monotonic()
    runner = Runner(workdir, device)
    if shared:
        runner.baseline()
    channel.send({"missing": missing, "context_s": time.monotonic() - started})
    served = {
        "load": runner.load, "check": runner.check, "facts": runner.facts, "detach": runner.detach,
        "reset": runner.reset,
    }  # fmt: skip
    if device == "cuda":
        timing = runner.timing
        served |= {
            "calibrate": timing.calibrate,
            "idle": timing.idle,
            "prepare": runner.prepare,
            "batch": timing.batch,
            "audit": timing.audit,
        }
    serve_measurement(channel, served, go_on=shared)


def _build(channel: Channel, workdir: Path, missing: Sequence[str]) -> None:
    os.nice(BUILD_NICENESS)
    cores = sorted(os.sched_getaffinity(0))
    if len(cores) >= MANY_CORES:  # who is waited for while a kernel is timed has some to himself
        os.sched_setaffinity(0, cores[KEPT_CORES:])
    os.environ["CUDA_VISIBLE_DEVICES"] = ""  # fake tensors would ask a device that is there for a context

    def build(request: dict[str, Any]) -> dict[str, Any]:
        calls = [[(tuple(shape), dtype) for shape, dtype in call] for call in request["calls"]]
        return ahead.build(lambda: load_kernel(workdir, request["code"], "kernel_source"), calls, request["device"])

    channel.send({"missing": missing})
    serve_measurement(channel, {"ahead": build})


def main(sock: socket.socket, workdir: Path, device: str, role: str, files: Files) -> None:
    """Enter the sandbox and serve as `runner`, `shared` (a runner for many kernels) or `builder`, then end."""
    channel = Channel(sock)
    missing = sandbox.enter(workdir, files)
    sandbox.silence_output(workdir)
    try:
        if role == "builder":
            _build(channel, workdir, missing)
        else:
            _run(channel, workdir, device, missing, role == "shared")
    except PeerGone:
        pass
    except BaseException as error:
        channel.send(_failure(error))
