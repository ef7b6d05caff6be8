"""Shared isolation on the CPU backend: what a kernel leaves behind is put back, or costs the process."""

from __future__ import annotations

import pytest

from harness.measure import open_backend
from harness.measure.lanes import moved

HEAD = "import os, signal, sys, threading, time, torch\nimport torch.nn.functional as F\n"
HONEST = "def custom_kernel(data):\n    x, w = data\n    return F.rms_norm(x, (x.shape[-1],), w, 1e-6)\n"
# Settings that are set back: the kernel and its neighbours stay in their lane.
HARMLESS = {
    "default dtype": "torch.set_default_dtype(torch.float64)\n",
    "random state": "torch.manual_seed(7)\n",
    "environment": "os.environ['NVIDIA_TF32_OVERRIDE'] = '1'\n",
    "search path": "sys.path.insert(0, '/nowhere')\n",
    "precision": "torch.backends.cuda.matmul.allow_tf32 = True\n",
    "gradients": "torch.set_grad_enabled(False)\n",
    "folder": "os.chdir('/')\n",
}
# What cannot be put back: the process is replaced.
HARMFUL = {
    "patched torch": ("torch.zeros = lambda *a, **k: None\n", "torch.zeros was replaced"),
    "patched tensor": ("torch.Tensor.sum = lambda *a, **k: None\n", "torch.Tensor.sum was replaced"),
    "patched clock": ("time.monotonic = lambda: 0.0\n", "time.monotonic was replaced"),
    "thread": ("threading.Thread(target=time.sleep, args=(60,), daemon=True).start()\n", "a thread goes on"),
    "signal handler": ("signal.signal(signal.SIGUSR1, lambda *a: None)\n", "signal handlers changed"),
    "import hook": ("sys.meta_path.insert(0, object())\n", "import hooks changed"),
    "exit callback": ("import atexit; atexit.register(print)\n", "callbacks were registered"),
}


@pytest.fixture(scope="module")
def engine():
    with open_backend("cpu", workers=1, isolation="shared") as backend:
        yield backend


def measured(engine, *sources):
    futures = [engine.submit("rms_norm", HEAD + source + f"# {number}\n") for number, source in enumerate(sources)]
    return [future.result(240) for future in futures]


def test_settings_are_put_back_and_the_process_is_kept(engine):
    known = len(engine._lanes.anomalies)
    results = measured(engine, HONEST, *(line + HONEST for line in HARMLESS.values()), HONEST)
    assert engine._lanes.anomalies[known:] == []
    assert [(r.status, r.isolation) for r in results] == [("ok", "shared")] * len(results)
    assert {r.session_id for r in results} == {engine.sessions["shared"]["session_id"]}


@pytest.mark.slow
@pytest.mark.parametrize("name", HARMFUL)
def test_what_cannot_be_put_back_costs_the_process(engine, name):
    line, words = HARMFUL[name]
    (result,) = measured(engine, line + HONEST)
    assert result.isolation == "strict"
    assert words in engine._lanes.anomalies[-1]
    (after,) = measured(engine, HONEST)
    assert (after.status, after.isolation) == ("ok", "shared")


def test_one_patched_kernel_is_told_and_the_next_is_not_harmed(engine):
    line, words = HARMFUL["patched torch"]
    bad, after = measured(engine, line + HONEST, HONEST)
    assert bad.isolation == "strict"
    assert words in engine._lanes.anomalies[-1]
    assert after.status == "ok"


@pytest.mark.parametrize(
    "body, status, isolation",
    [
        ("def custom_kernel(data):\n    return data[0] * 2\n", "incorrect", "shared"),
        ("def custom_kernel(:\n", "compile", "shared"),
        ("def custom_kernel(data):\n    raise RuntimeError('no')\n", "runtime", "strict"),
        ("def custom_kernel(data):\n    os._exit(3)\n", "runtime", "strict"),
    ],
)
def test_a_failure_that_leaves_doubt_is_confirmed_in_a_process_of_its_own(engine, body, status, isolation):
    (result,) = measured(engine, body)
    assert (result.status, result.isolation) == (status, isolation), result.error


def test_a_lane_outlives_the_judge(engine):
    engine.judge.process.kill()
    engine.judge.process.wait()
    first, second = measured(engine, HONEST + "# while it is gone\n", HONEST + "# afterwards\n")
    assert (first.status, second.status) == ("ok", "ok"), (first.error, second.error)


def test_a_canary_whose_time_moved_is_seen():
    before = {"a": 100.0, "b": 50.0}
    assert not moved(before, {"a": 102.0, "b": 49.0})
    assert moved(before, {"a": 100.0, "b": 52.0})


@pytest.mark.parametrize("level", ["container", "Strict"])
def test_an_unknown_level_is_refused(engine, level):
    with pytest.raises(ValueError, match=f"isolation '{level}' is not open here"):
        engine.submit("rms_norm", HONEST, isolation=level)
