"""Declared constants: what a declaration has to hold, and that seeds are right at every value of their ranges."""

from __future__ import annotations

import ast
from dataclasses import replace
from pathlib import Path

import pytest

import tasks
from tasks.declared import ranges_of, top_constants, wrong_constants
from tasks.spec import EVERY_SEED
from tasks.steps import case_list

VALUES = [
    (task, seed, name, value)
    for task in tasks.names()
    for seed in tasks.seed_names(task)
    for name, values in ranges_of(tasks.get(task).constants, seed).items()
    for value in values
    if name in top_constants(ast.parse(tasks.seed_code(task, seed)))
]


def test_several_tasks_declare_constants() -> None:
    assert len({task for task, *_ in VALUES}) >= 5
    assert len({(task, seed) for task, seed, *_ in VALUES}) >= 10


@pytest.mark.parametrize(("task", "seed", "name", "value"), VALUES)
def test_a_seed_is_right_at_every_value_of_its_ranges(
    tmp_path: Path, task: str, seed: str, name: str, value: int
) -> None:
    pytest.importorskip("torch")
    pytest.importorskip("triton")
    from tasks.proofs import Bench

    if seed in tasks.get(task).cpu_skip:
        pytest.skip(tasks.get(task).cpu_skip[seed])
    module = ast.parse(tasks.seed_code(task, seed))
    top_constants(module)[name].value = value
    path = tmp_path / "kernel.py"
    path.write_text(ast.unparse(module), encoding="utf-8")
    bench = Bench(tasks.get(task), "cpu")
    case = min((c for c in tasks.get(task).check_cases if c.cpu), key=lambda c: c.bytes)
    assert bench.attempt(tasks.load_kernel(path), case) is None


def test_a_seed_s_own_range_goes_before_that_of_every_seed() -> None:
    constants = {EVERY_SEED: {"A": (1, 2), "B": (3, 4)}, "one": {"B": (5, 6)}}
    assert ranges_of(constants, "one") == {"A": (1, 2), "B": (5, 6)}
    assert ranges_of(constants, "two") == {"A": (1, 2), "B": (3, 4)}
    assert ranges_of({}, "one") == {}


def test_integers_at_the_top_are_constants() -> None:
    code = "A = 1\nB = 2.0\nC = True\nD: int = 4\nE = F = 5\n\ndef f():\n    G = 6\n"
    assert {name: node.value for name, node in top_constants(ast.parse(code)).items()} == {"A": 1, "E": 5}


@pytest.mark.parametrize(
    ("constants", "message"),
    [
        ({"triton_rov": {"BLOCK": (1, 2)}}, "no seed: 'triton_rov'"),
        ({"triton_online": {"BLOCKS": (1024, 2048)}}, "triton_online: no integer BLOCKS at the top of the file"),
        ({"triton_online": {"BLOCK": (1024, 4096)}}, "triton_online: BLOCK is 2048, which is not in (1024, 4096)"),
        ({"triton_online": {"BLOCK": (2048, 2048)}}, "BLOCK has (2048, 2048), expected a tuple of at least two"),
        ({"triton_online": {"BLOCK": 2048}}, "BLOCK has 2048, expected a tuple of at least two integers"),
        ({"triton_online": {"BLOCK": (2048, 1e3)}}, "BLOCK has (2048, 1000.0), expected a tuple of at least two"),
        ({EVERY_SEED: {"NUM_WARPS": (8, 16)}}, "triton_three_pass: NUM_WARPS is 4, which is not in (8, 16)"),
        ({EVERY_SEED: {"LANES": (8, 16)}}, "*: no integer LANES at the top of the file"),
        (7, "7, expected the names of constants with their ranges, by seed"),
        ({"triton_online": 5}, "expected the names of constants with their ranges, by seed"),
    ],
)
def test_a_wrong_declaration_fails_its_proof(constants: dict, message: str) -> None:
    task = replace(tasks.get("softmax"), constants=constants)
    (found,) = wrong_constants(task)
    assert message in found
    assert [(proof.subject, proof.detail) for proof in case_list(task) if not proof.passed] == [("constants", found)]


def test_a_seed_that_declares_its_own_range_is_not_held_to_the_general_one() -> None:
    constants = {EVERY_SEED: {"NUM_WARPS": (8, 16)}, "triton_three_pass": {"NUM_WARPS": (4, 8)}}
    task = replace(tasks.get("softmax"), constants=constants)
    assert wrong_constants(task) == []
