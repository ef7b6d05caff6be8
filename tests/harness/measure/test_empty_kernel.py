"""A19: what an empty kernel takes, and a problem that takes no more, on a GPU.

python -m pytest -q -m gpu tests/harness/measure/test_empty_kernel.py
"""

from __future__ import annotations

import pytest

import tasks
from harness.measure import open_backend
from harness.measure.report import summary

pytestmark = pytest.mark.gpu

RMS_NORM = """import torch


class Model(torch.nn.Module):
    def forward(self, x):
        return torch.nn.functional.rms_norm(x, (x.shape[-1],), eps=1e-6)


def get_inputs():
    return [torch.randn(4, 4)]


def get_init_inputs():
    return []
"""


@pytest.mark.parametrize("method", ["graph", "event", "cupti"])
def test_a_few_elements_are_launch_bound_and_a_tasks_own_cases_are_not(method, tmp_path):
    (tmp_path / "problem.py").write_text(RMS_NORM)
    own = tasks.seed_code("rms_norm", "triton_row")
    with open_backend("cuda", workers=2, method=method, timing_s=120.0) as engine:
        empty = engine.session["empty_kernel_ns"]
        small = engine.submit(f"kernelbench:{tmp_path / 'problem.py'}", RMS_NORM.replace("Model", "ModelNew"))
        large = engine.submit("rms_norm", own)
        small, large = (summary(one.result(300), "a.py", engine.session) for one in (small, large))
    assert empty.keys() == {method, "event"} and all(500.0 < ns < 100_000.0 for ns in empty.values()), empty
    assert small["status"] == large["status"] == "ok", (small["error"], large["error"])
    assert small["launch_bound"] is True and small["speedup"] is None, (small["cases"], empty)
    assert large["speedup"] is not None and not any(case["launch_bound"] for case in large["cases"]), empty
