"""A process that proves or times tasks step by step and reports each step; whoever started it survives its death.

Started as `python -m tasks.worker FD WORK DEVICE FIRST NAME...`, where WORK is proofs or times and NAME, for times, is
`task=seed,seed`. Messages are lines of JSON on the file descriptor FD.
"""

from __future__ import annotations

import gc
import json
import os
import sys
import time
from collections.abc import Callable, Sequence
from dataclasses import asdict
from functools import cache, partial
from typing import Any

import torch

import tasks
from tasks.proofs import Bench, Kernel, one_line, seed_path, short_of_memory
from tasks.report import Proof
from tasks.rough_time import rough_times
from tasks.spec import Case
from tasks.steps import Step, environment, make_bench, perform, prepare, proof_steps

OUT_OF_MEMORY_PAUSES_S = (3.0, 10.0, 20.0)
Say = Callable[[dict[str, Any]], None]
Work = Callable[[], dict[str, Any]]


def main(arguments: Sequence[str]) -> None:
    """Do the steps from number FIRST on."""
    descriptor, work, device, first, *names = arguments
    channel = os.fdopen(int(descriptor), "w", encoding="utf-8")

    def say(message: dict[str, Any]) -> None:
        channel.write(json.dumps(message) + "\n")
        channel.flush()

    try:
        prepare(device)
    except ValueError as error:
        say({"refused": str(error)})
        return
    say({"environment": environment(device)})
    try:
        steps = _proofs(names, device) if work == "proofs" else _times(names)
    except Exception as error:
        say({"begins": 0, "label": "task"})
        say({"ends": 0, "proofs": [asdict(Proof("error", "task", False, one_line(error)))]})
        return say({"done": True})
    for number, (label, step) in enumerate(steps):
        if number < int(first):
            continue
        say({"begins": number, "label": label})
        say({"ends": number, **_patiently(label, step)})
        if device == "cuda" and not _usable():
            # An error that a kernel left behind fails every later call, so the rest needs a new process.
            os._exit(0)
    say({"done": True})


def _proofs(names: Sequence[str], device: str) -> list[tuple[str, Work]]:
    (name,) = names
    task = tasks.get(name)
    bench = cache(lambda: make_bench(task, device))

    def work(step: Step) -> dict[str, Any]:
        try:
            return {"proofs": [asdict(proof) for proof in perform(step, task, device, bench)]}
        except Exception as error:
            if short_of_memory(error) and device == "cuda":
                bench().forget()
            raise

    return [(step.label, partial(work, step)) for step in proof_steps(task, device)]


def _times(names: Sequence[str]) -> list[tuple[str, Work]]:
    kernels = cache(_kernels)
    return [
        (f"time {name}: {case.case_id}", partial(_time, name, case, seeds, kernels))
        for name, _, seeds in (text.partition("=") for text in names)
        for case in tasks.get(name).timing_cases
    ]


def _kernels(name: str, seeds: str) -> dict[str, Kernel]:
    found: dict[str, Kernel] = {"reference": tasks.implementation(name).reference}
    return found | {seed: tasks.load_kernel(seed_path(name, seed)) for seed in seeds.split(",")}


def _time(name: str, case: Case, seeds: str, kernels: Callable[[str, str], dict[str, Kernel]]) -> dict[str, Any]:
    data = Bench(tasks.get(name), "cuda").inputs(case)
    return {"task": name, "case_id": case.case_id, "us": rough_times(kernels(name, seeds), data)}


def _patiently(label: str, step: Work) -> dict[str, Any]:
    """Do a step; if memory is short, wait for the other processes of the run to free some, and try again."""
    for pause in (*OUT_OF_MEMORY_PAUSES_S, None):
        try:
            return step()
        except Exception as error:
            said, retry = one_line(error), short_of_memory(error)
        finally:
            _free()
        if not retry or pause is None:
            break
        time.sleep(pause)
    return {"proofs": [asdict(Proof("error", label, False, said))]}


def _free() -> None:
    gc.collect()
    if torch.cuda.is_initialized() and _usable():
        torch.cuda.empty_cache()


def _usable() -> bool:
    try:
        torch.cuda.synchronize()
    except RuntimeError:
        return False
    return True


if __name__ == "__main__":
    main(sys.argv[1:])
