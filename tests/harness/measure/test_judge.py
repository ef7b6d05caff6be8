"""Regions of the trusted process over the stages of a run, on the CPU."""

from __future__ import annotations

import os

import pytest
import torch

import tasks
from harness.measure.copies import Copies
from harness.measure.judge import Judge


@pytest.fixture
def judge(tmp_path):
    return Judge("cpu", tmp_path)


CASES = [case.case_id for case in tasks.get("rms_norm").check_cases if case.cpu]


def opened(judge, run, cases, holder=""):
    return judge.open_check({"run": run, "holder": holder, "task": "rms_norm", "cases": CASES[-cases:]})


def test_the_stages_of_a_run_use_one_region(judge):
    first = opened(judge, 1, 0)
    second = opened(judge, 1, 2)
    assert second["handle"] == first["handle"] and second["token"] != first["token"]
    assert opened(judge, 2, 2)["handle"] != first["handle"]
    stage = judge.runs[1].stages[second["token"]]
    assert list(judge.runs[1].stages) == [second["token"]]
    _, known, inputs, outputs = stage.calls[0]
    assert torch.equal(stage.region.tensor(inputs[0]), known.inputs[0])
    assert bool(stage.region.tensor(outputs[0]).isnan().all())


def test_a_run_that_never_ended_goes_with_its_holder(judge):
    handles = [opened(judge, run, 1, "lane-0")["handle"] for run in (1, 2)]
    other = opened(judge, 3, 1, "lane-1")["handle"]
    judge.free({"holder": "lane-0"})
    assert all(map(os.path.exists, handles))
    judge.free({"holder": "lane-0", "gone": True})
    assert not any(map(os.path.exists, handles))
    assert os.path.exists(other) and list(judge.runs) == [3]


def test_a_run_keeps_no_inputs_that_it_was_shown(judge):
    opened(judge, 1, 1)
    assert all(isinstance(number, int) for number in judge.runs[1].had)


def test_copies_that_take_much_longer_than_they_can_tell_of_somebody_else():
    copies = Copies("cpu")
    key = ("rms_norm", "a case")
    assert not copies.slow(key, 16, 16 * 100_000.0)
    assert not copies.slow(key, 16, 16 * 130_000.0)
    assert copies.slow(key, 16, 16 * 200_000.0)
    assert not copies.slow(key, 32, 32 * 90_000.0)
    assert copies.slow(key, 16, 16 * 90_000.0 * 1.5 + 200_001.0)
    assert not copies.slow(key, 1, 90_000.0 * 1.5 + 150_000.0)  # too short to tell
    assert not copies.slow(("rms_norm", "another"), 16, 16 * 900_000.0)
