"""The engine on the CPU backend: real processes, real kernels through Triton's interpreter, no GPU."""

from __future__ import annotations

import os
import time
from pathlib import Path

import pytest

import tasks
from harness.measure import NoDevice, open_backend

HEAD = "import os, sys, time, signal, torch\nimport torch.nn.functional as F\n"
HONEST = "def custom_kernel(data):\n    x, w = data\n    return F.rms_norm(x, (x.shape[-1],), w, 1e-6)\n"
LIMITS = {"build_s": 40.0, "check_s": 8.0}


@pytest.fixture(scope="module")
def engine():
    with open_backend("cpu", workers=2, **LIMITS) as backend:
        yield backend


def measure(engine, body, task="rms_norm"):
    return engine.submit(task, HEAD + body).result(120)


def in_kernel(*lines):
    return "def custom_kernel(data):\n    x, w = data\n" + "".join(f"    {line}\n" for line in lines)


@pytest.mark.parametrize("task, seed", [("rms_norm", "triton_row"), ("fp8_quant", "torch_eager")])
def test_a_right_kernel_is_ok_and_the_cpu_gives_it_no_time(engine, task, seed):
    result = engine.submit(task, tasks.seed_code(task, seed)).result(120)
    assert (result.status, result.error, result.cases) == ("ok", "", ())
    assert result.check_s > 0 and result.session_id == engine.session["session_id"]


ANSWER = """
def _answer(text):
    for fd in range(3, 30):
        path = f"/proc/self/fd/{fd}"
        if os.path.exists(path) and os.readlink(path).startswith("socket"):
            os.write(fd, len(text).to_bytes(4, "big") + text)
"""
FAULTS = {
    "does not parse": ("def custom_kernel(data:\n", "compile", "build", "SyntaxError"),
    "no entry": ("def other(data): return data\n", "compile", "build", "no function custom_kernel"),
    "raises on import": ("raise ValueError('at import')\n", "runtime", "build", "at import"),
    "raises": (in_kernel("raise RuntimeError('x' * 1_000_000)"), "runtime", "check", "RuntimeError: xxx"),
    "exits": (in_kernel("sys.exit(0)"), "runtime", "check", "SystemExit"),
    "kills itself": (in_kernel("os.kill(os.getpid(), 9)"), "runtime", "check", "SIGKILL"),
    "leaves at once": (in_kernel("os._exit(0)"), "runtime", "check", "exit status 0"),
    "segfaults": ("import ctypes\n" + in_kernel("ctypes.string_at(0)"), "runtime", "check", "SIGSEGV"),
    "zeros": (in_kernel("return torch.zeros_like(x)"), "incorrect", "check", "case "),
    "nan": (in_kernel("return torch.full_like(x, float('nan'))"), "incorrect", "check", "case "),
    "unwritten": (in_kernel("return torch.empty_like(x)"), "incorrect", "check", "case "),
    "another dtype": (in_kernel("return x.double()"), "incorrect", "check", "float64"),
    "another shape": (in_kernel("return x[:1]"), "incorrect", "check", "expected"),
    "two outputs": (in_kernel("return x, w"), "incorrect", "check", "2 outputs"),
    "not a tensor": (in_kernel("return 3"), "incorrect", "check", "is a int"),
    "a view of the input": (in_kernel("return x"), "incorrect", "check", "is an input"),
    "wipes its input": (
        in_kernel("y = F.rms_norm(x, (x.shape[-1],), w, 1e-6)", "x.zero_()", "return y"),
        "incorrect", "check", "input 0 was changed",
    ),
    "patched checker": (
        "torch.allclose = torch.equal = lambda *a, **k: True\n" + in_kernel("return torch.zeros_like(x)"),
        "incorrect", "check", "case ",
    ),
    "writes to the channel": (
        in_kernel("[os.write(fd, b'\\x00\\x00\\x00\\x02[]') for fd in range(3, 30) if _is_socket(fd)]", "return x + 1")
        + "def _is_socket(fd):\n    try:\n        return os.readlink(f'/proc/self/fd/{fd}').startswith('socket')\n"
        + "    except OSError:\n        return False\n",
        "rejected", "check", "channel",
    ),
    "answers in our place": (
        ANSWER + in_kernel("_answer(b'{\"seconds\": NaN}')", "return x + 1"),
        "rejected", "check", "without the number 'seconds'",
    ),
    "nests its answer deeply": (
        ANSWER + in_kernel("_answer(b'[' * 100_000)", "return x + 1"),
        "rejected", "check", "channel",
    ),
}  # fmt: skip


@pytest.mark.parametrize("name", FAULTS)
def test_a_bad_kernel_gets_its_status_and_the_engine_goes_on(engine, name):
    body, status, stage, words = FAULTS[name]
    result = measure(engine, body)
    assert (result.status, result.stage) == (status, stage), result.error
    assert words in result.error
    assert len(result.error) < 10_000
    assert result.cases == ()


LOOPS = {
    "python loop": in_kernel("while True: pass"),
    "loop that ignores SIGTERM": in_kernel(
        "signal.signal(signal.SIGTERM, signal.SIG_IGN)", "while True: time.sleep(1)"
    ),
    "loop on import": "while True: pass\n",
}


@pytest.mark.slow
@pytest.mark.parametrize("name", LOOPS)
def test_a_kernel_that_never_ends_is_killed_at_its_limit(name):
    with open_backend("cpu", workers=1, build_s=3.0, check_s=1.0) as engine:
        started = time.monotonic()
        result = measure(engine, LOOPS[name])
        assert result.status == "timeout", result.error
        assert time.monotonic() - started < 4 + 5
        assert measure(engine, HONEST).status in ("ok", "timeout")


def test_a_flood_of_output_harms_nobody(engine):
    result = measure(engine, "for _ in range(200_000): print('x' * 100)\n" + HONEST)
    assert result.status == "ok", result.error


def test_a_grandchild_does_not_outlive_its_kernel(engine):
    name = f"orphan-{os.getpid()}"
    body = (
        "import ctypes\n"
        "if os.fork() == 0:\n    os.setsid()\n"
        f"    ctypes.CDLL(None).prctl(15, b'{name}', 0, 0, 0)\n"  # PR_SET_NAME
        "    open('mark', 'w').close()\n    time.sleep(600)\n    os._exit(0)\n"
        "while not os.path.exists('mark'): time.sleep(0.01)\n"
    )

    def alive():
        found = []
        for path in Path("/proc").glob("[0-9]*/comm"):
            try:
                found.append(path.read_text().strip())
            except OSError:  # it ended meanwhile
                continue
        return name[:15] in found

    assert measure(engine, body + HONEST).status == "ok"
    deadline = time.monotonic() + 5
    while alive() and time.monotonic() < deadline:
        time.sleep(0.05)
    assert not alive()


NOSY = """
import ctypes
libc = ctypes.CDLL(None, use_errno=True)
def refused(call):
    try:
        call()
    except PermissionError:
        return True
    return False
assert refused(lambda: os.kill(os.getppid(), 9))
assert refused(lambda: os.killpg(os.getpgid(os.getppid()), 9))
assert refused(lambda: signal.pidfd_send_signal(os.pidfd_open(os.getppid()), 9))
assert libc.ptrace(16, os.getppid(), 0, 0) == -1 and ctypes.get_errno() == 1
"""


def test_a_kernel_can_neither_end_nor_trace_another_process(engine):
    if "signals" in engine.session["sandbox"]:
        pytest.skip("this machine has no system-call filter")
    result = measure(engine, NOSY + HONEST)
    assert result.status == "ok", result.error


LASTING = """
import ctypes, tempfile
libc = ctypes.CDLL(None, use_errno=True)
def refused(name, *arguments):
    return getattr(libc, name)(*arguments) == -1 and ctypes.get_errno() == 1
here = __file__.encode()
assert refused("shmget", 7, 4096, 0o1600)
assert refused("semget", 7, 1, 0o1600)
assert refused("msgget", 7, 0o1600)
assert refused("syscall", 248, b"user", b"mark", b"1", 1, -4)  # add_key, to the user's keyring
assert refused("setxattr", here, b"user.mark", b"1", 1, 0)
try:
    os.utime(here, (1, 1))
except PermissionError:
    pass
else:
    raise SystemExit("times of a file were set")
"""


@pytest.mark.skipif(os.uname().machine != "x86_64", reason="one call has its number of x86_64 here")
def test_a_kernel_leaves_no_mark_for_a_later_one(engine):
    if "signals" in engine.session["sandbox"]:
        pytest.skip("this machine has no system-call filter")
    result = measure(engine, LASTING + HONEST)
    assert result.status == "ok", result.error


def test_a_kernel_sees_neither_network_nor_another_kernels_files(engine):
    body = (
        "import socket\n"
        "assert os.environ['HOME'] == os.path.join(os.getcwd(), 'home'), os.environ['HOME']\n"
        "assert not [n for n in os.listdir('.') if n.startswith('kernel_') and n != 'kernel_source.py']\n"
    )
    if "network" not in engine.session["sandbox"]:
        body += (
            "s = socket.socket(); s.settimeout(2)\n"
            "try:\n    s.connect(('127.0.0.1', 9))\n"
            "except OSError as error:\n    assert error.errno in (13, 101), error\n"
        )
    result = measure(engine, body + HONEST)
    assert result.status == "ok", result.error


def test_a_kernel_reads_and_writes_nothing_but_its_own(engine, tmp_path):
    if "files" in engine.session["sandbox"]:
        pytest.skip("this machine has no Landlock")
    secret = tmp_path / "secret"
    secret.write_text("x")
    refused = [f"open({str(secret)!r})", f"open({str(tmp_path / 'new')!r}, 'w')", "open('/dev/shm/left', 'w')"]
    refused += ["open('/tmp/left', 'w')", f"open({tasks.__file__!r})", "open(f'/proc/{os.getppid()}/environ')"]
    body = "open('mine', 'w').close()\n"
    for call in refused:
        body += f"try:\n    {call}\nexcept PermissionError:\n    pass\nelse:\n    raise SystemExit({call!r})\n"
    result = measure(engine, body + HONEST)
    assert result.status == "ok", result.error


def test_an_unknown_task_is_refused_before_anything_runs(engine):
    with pytest.raises(KeyError, match="rms_norm"):
        engine.submit("rms_nrom", HONEST)


def test_without_a_gpu_one_clear_line(monkeypatch):
    monkeypatch.setenv("PATH", "/nowhere")
    with pytest.raises(NoDevice, match="no NVIDIA GPU"):
        open_backend("cuda")
    with pytest.raises(ValueError, match="known backends: cuda, cpu"):
        open_backend("tpu")


def test_closing_leaves_no_process_and_no_folder():
    engine = open_backend("cpu", workers=1)
    folder, pids = engine.folder, [engine.judge.process.pid, engine.forkserver.process.pid]
    engine.close()
    assert not folder.exists()
    for pid in pids:
        with pytest.raises(ProcessLookupError):
            os.kill(pid, 0)
