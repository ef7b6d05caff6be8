"""Verifying: what it refuses, and that nothing a task does stops a run over many."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import time
from pathlib import Path

import pytest

import tasks
from tasks.report import Proof, Report, document
from tasks.steps import proof_steps
from tasks.supervise import Limits, Run
from tasks.template import create, open_places
from tasks.verify import finish, verify
from tests.tasks import tiny

pytest.importorskip("torch")
pytest.importorskip("triton")

ROOT = Path(tasks.__file__).parents[1]


def messages(report: Report) -> str:
    return "\n".join(f"{p.kind} {p.subject} {p.case_id}: {p.detail}" for p in report.failures)


def run(folder: Path, *arguments: str) -> subprocess.CompletedProcess[str]:
    environment = {k: v for k, v in os.environ.items() if k != "TRITON_INTERPRET"}
    environment |= {"KERNELCAST_TASKS": str(folder), "PYTHONPATH": str(ROOT)}
    return subprocess.run([sys.executable, *arguments], env=environment, capture_output=True, text=True, cwd=folder)


def test_a_filled_in_template_verifies(own_tasks: Path) -> None:
    tiny.make("tiny_good", own_tasks)
    report = verify("tiny_good")
    assert messages(report) == "" and report.ok
    assert {p.kind for p in report.proofs} == {"cases", "inputs", "reference", "trivial", "seed", "wrong"}
    caught = {(row["kernel"], row["case_id"]): row for row in report.to_json()["caught"]}
    assert caught["zeros as output 0", "2x5"]["by"].startswith("output 0: 10 of 10 elements differ")
    assert {kernel for kernel, _ in caught} >= {"add", "bare", "halved", "nan as output 0"}
    assert all(row["caught"] for row in caught.values())


def test_a_template_is_refused_until_it_is_filled_in(own_tasks: Path) -> None:
    create("tiny_open", own_tasks)
    assert [step.kind for step in proof_steps(tasks.get("tiny_open"), "cpu")] == ["cases"]
    report = verify("tiny_open")
    assert not report.ok
    assert "cases template : still to be filled in: reference.py:1, reference.py:" in messages(report)
    tiny.fill_in(own_tasks / "tiny_open")
    assert open_places(own_tasks / "tiny_open") == []


REFUSED = {
    "empty": ("task.py", "check_cases=tuple(case(rows, 5, True) for rows in (2, 3, 4, 5, 7))", "check_cases=()",
              "cases checking cases : 0 for the interpreter, at least 5 expected"),
    "mutates": ("reference.py", "return x * w", "return x.mul_(w).clone()", "reference 2x5 : input 0 was changed"),
    "random": ("reference.py", '"generator": generator, "device"', '"device"',
               "inputs repeat for a seed: 2x5 : two draws with one seed differ"),
    "fixed": ("reference.py", "torch.rand(columns, **at) + 0.5", "torch.ones(columns)", "an input is fixed"),
    "loose": ("task.py", "atol=1e-7", "atol=10.0", "trivial zeros as output 0 2x5: accepted as the right answer"),
    "traffic": ("task.py", "bytes=8 *", "bytes=4 *", "the case says 60, its tensors have 100"),
    "two_wrong": ("wrong.py", "'add': lambda d: d[0] + d[1], ", "", "2 wrong kernels, at least 3 expected"),
    "right": ("wrong.py", "d[0] * d[1] * 0.5", "d[0] * d[1]", "wrong halved : passes every checking case"),
    "broken_wrong": ("wrong.py", "d[0] * d[1] * 0.5", "d[2]", "wrong halved 2x5: IndexError: tuple index out of range"),
    "no_seeds": ("task.py", '"validation": ("torch_second",)', '"validation": ()',
                 "cases seeds : there is none for validation\ncases seed files : listed or present, not both: "
                 "['torch_second']"),
    "alike": ("seeds/torch_second.py", "torch.einsum('rc,c->rc', *data)", "data[0] * data[1]",
              "torch_eager (train) and torch_second (validation) are alike to 1.00, allowed is less than 0.8"),
    "vast": ("task.py", "bytes=8 *", "bytes=1_000_000_000 *", "small card : 9x5: beyond 4 GiB, too large for 24 GB"),
    "false_seed": ("seeds/torch_eager.py", "data[0] * data[1]", "data[0]", "output 0 lies in the memory of an input"),
}  # fmt: skip


@pytest.mark.parametrize("flaw", REFUSED)
def test_a_flawed_task_is_refused(flaw: str, own_tasks: Path) -> None:
    file, old, new, message = REFUSED[flaw]
    tiny.make(f"tiny_{flaw}", own_tasks, file, old, new)
    report = verify(f"tiny_{flaw}")
    assert not report.ok
    assert message in messages(report)


def test_a_task_without_wrong_kernels_is_refused(own_tasks: Path) -> None:
    (tiny.make("tiny_no_wrong", own_tasks) / "wrong.py").unlink()
    assert "no wrong.py; it has to give 3 wrong kernels" in messages(verify("tiny_no_wrong"))


def test_a_run_survives_what_hangs_crashes_and_does_not_load(tmp_path: Path) -> None:
    tiny.make("tiny_good", tmp_path)
    bad = tiny.make("tiny_bad", tmp_path, "seeds/torch_eager.py", "return", "import time; time.sleep(600)\n    return")
    (bad / "seeds" / "torch_second.py").write_text("import os\n\ndef custom_kernel(data):\n    os.abort()\n")
    (tiny.make("tiny_unloadable", tmp_path) / "task.py").write_text("raise RuntimeError('no such luck')\n")
    names = ["tiny_good", "tiny_bad", "tiny_unloadable"]
    done = run(tmp_path, "-m", "tasks.verify", *names, "--jobs", "2", "--step-limit", "8", "--out", "out.json")
    assert done.returncode == 1, done.stderr
    result = json.loads((tmp_path / "out.json").read_text())
    rows = {row["task"]: row for row in result["rows"]}
    assert {name: row["ok"] for name, row in rows.items()} == {name: name == "tiny_good" for name in names}
    hang, death = rows["tiny_bad"]["failures"]
    assert (hang["kind"], hang["subject"], hang["detail"]) == ("error", "seed torch_eager", "no answer within 8 s")
    assert death["subject"] == "seed torch_second"
    assert death["detail"].startswith("the process ended with signal SIGABRT")
    # Everything but the two steps was still proved.
    assert rows["tiny_bad"]["proofs"]["seed"] == {"held": 15, "total": 15}
    assert rows["tiny_bad"]["proofs"]["wrong"] == {"held": 4, "total": 4}
    assert rows["tiny_unloadable"]["failures"][0]["detail"] == "RuntimeError: no such luck"
    assert result["totals"]["tasks"] == 3 and result["totals"]["tasks_ok"] == 1
    assert {"gpu", "torch", "triton", "date", "command", "device"} <= set(result["environment"])
    assert result["environment"]["command"].startswith("python3 -m tasks.verify tiny_good tiny_bad")
    assert "3/3 tasks" in done.stderr and "steps/s" in done.stderr
    assert done.stdout.splitlines()[-1] == "1 of 3 tasks verified; failed: tiny_bad, tiny_unloadable"


def test_a_run_ends_at_its_time_limit(tmp_path: Path) -> None:
    tiny.make("tiny_slow", tmp_path, "reference.py", "return x * w", "import time; time.sleep(600)")
    started = time.monotonic()
    done = run(tmp_path, "-m", "tasks.verify", "tiny_slow", "--time-limit", "4", "--out", "out.json")
    assert done.returncode == 1 and time.monotonic() - started < 30
    failures = json.loads((tmp_path / "out.json").read_text())["rows"][0]["failures"]
    assert failures[0]["detail"] == "no answer within the task's time limit"


def test_the_run_refuses_a_device_that_is_not_there(own_tasks: Path) -> None:
    torch = pytest.importorskip("torch")
    if torch.cuda.is_available():
        pytest.skip("there is a CUDA device")
    with pytest.raises(ValueError, match="torch finds no CUDA device"):
        Run(["rms_norm", "softmax"], "cuda", jobs=1).verify()
    with pytest.raises(ValueError, match="jobs is -1"):
        Run(["rms_norm"], "cpu", jobs=-1)
    assert Run(["rms_norm"], "cpu", limits=Limits(total_s=0.0)).verify()[0].failures[0].kind == "error"


def test_rough_speedups_need_every_timing_case() -> None:
    times = {"a": {"reference": 8.0, "x": 2.0, "y": 4.0}, "b": {"reference": 9.0, "x": 9.0}}
    report = Report("t", "cuda", (Proof("seed", "x", True),), (), 1.0, times)
    assert report.rough_speedup == pytest.approx({"x": 2.0})
    assert document([report], {"gpu": "g"})["totals"]["seeds_timed"] == 1
    assert Report("t", "cuda", (), (), 0.0).rough_speedup == {}
    assert not Report("t", "cuda", (), (), 0.0).ok


def test_a_timing_case_that_shows_the_launch_alone_is_reported(capsys: pytest.CaptureFixture[str]) -> None:
    times = {
        "4x4": {"reference": 8.0, "x": 5.0, "y": 99.0, "empty_kernel": 4.0},
        "large": {"reference": 80.0, "x": 40.0, "y": 20.0, "empty_kernel": 4.0},
        "fused": {"reference": 80.0, "x": 5.0, "y": 20.0, "empty_kernel": 4.0},
    }
    report = Report("t", "cuda", (Proof("seed", "x", True),), (), 1.0, times)
    assert report.launch_bound == ("4x4",)
    assert report.rough_speedup == pytest.approx({"x": (2 * 16) ** 0.5, "y": 4.0})
    assert finish(document([report], {"gpu": "g"})) == 0
    assert "t: here the times of 4x4 are those of a launch; a timing case has to be larger" in capsys.readouterr().out
    small = Report("t", "cuda", (Proof("seed", "x", True),), (), 1.0, {"4x4": times["4x4"]})
    assert small.launch_bound == ("4x4",) and small.rough_speedup == {}


def test_only_seeds_that_pass_are_timed(monkeypatch: pytest.MonkeyPatch) -> None:
    asked: list[list[str]] = []

    def follow(self, work, names, found, end, count=True):
        asked.append([work, *names])
        found.rough.append({"task": "softmax", "case_id": "c", "us": {"reference": 6.0, "triton_row": 2.0}})

    monkeypatch.setattr(Run, "_follow", follow)
    failed = [Proof("seed", "torch_eager: 33x257", False), Proof("error", "capture cuda_block_row", False)]
    reports = [
        Report("rms_norm", "cuda", (), (), 1.0),
        Report("softmax", "cuda", (Proof("seed", "triton_row: 33x257", True), *failed), (), 1.0),
    ]
    first, second = Run(["rms_norm", "softmax"], "cuda", jobs=1)._time(reports)
    work, names = asked[0]
    task, _, seeds = names.partition("=")
    assert (work, task, len(asked)) == ("times", "softmax", 1)
    assert set(seeds.split(",")) == set(tasks.seed_names("softmax")) - {"torch_eager", "cuda_block_row"}
    assert first.rough_speedup == {} and second.rough_speedup == {"triton_row": pytest.approx(3.0)}
    assert second.proofs == reports[1].proofs


@pytest.mark.gpu
def test_seeds_are_timed_on_a_gpu(tmp_path: Path) -> None:
    done = run(tmp_path, "-m", "tasks.verify", "rms_norm", "--device", "cuda", "--out", "out.json")
    assert done.returncode == 0, done.stdout + done.stderr
    result = json.loads((tmp_path / "out.json").read_text())
    (row,) = result["rows"]
    assert set(row["rough_speedup"]) == set(tasks.seed_names("rms_norm"))
    assert all(0.01 < speedup < 100 for speedup in row["rough_speedup"].values())
    assert row["launch_bound"] == [] and all(times["empty_kernel"] > 0 for times in row["rough_us"].values())
    assert {p["total"] for kind, p in row["proofs"].items() if kind == "capture"} == {len(row["rough_speedup"])}
    assert result["environment"]["gpu"] != "none (Triton interpreter)"


def test_own_tasks_are_found_by_the_environment(tmp_path: Path) -> None:
    tiny.make("tiny_mine", tmp_path)
    code = "import tasks; print({'tiny_mine', 'rms_norm'} <= set(tasks.names()), tasks.get('tiny_mine').statement)"
    assert run(tmp_path, "-c", code).stdout == "True out = x * w.\n"
    (tmp_path / "rms_norm").mkdir()
    (tmp_path / "rms_norm" / "task.py").write_text("")
    assert "two tasks are named 'rms_norm'" in run(tmp_path, "-c", "import tasks; tasks.names()").stderr
    assert (
        "not a folder"
        in run(tmp_path / "rms_norm", "-c", "import os, tasks; tasks.__path__.append('x'); tasks.names()").stderr
    )


@pytest.mark.parametrize("name", ["Rms", "2d", "", "a-b", "class", "rms_norm", "spec", "verify"])
def test_a_task_needs_a_name_of_its_own(name: str, own_tasks: Path) -> None:
    with pytest.raises(ValueError, match=r"cannot name a task|is taken"):
        create(name, own_tasks)
    assert list(own_tasks.iterdir()) == []
