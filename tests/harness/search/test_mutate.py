"""The source mutator: every edit fires, children parse and differ, and safe edits keep results right."""

from __future__ import annotations

import ast
import os
import random
import subprocess
import sys
from collections import Counter
from functools import cache
from pathlib import Path

import pytest

import tasks
from benchmark.code_view import language_of
from benchmark.records import OPERATOR_CLASSES
from harness.search.config import SearchConfig
from harness.search.mutate import EDITS, SourceMutator
from harness.search.mutate.constants import declared_constant
from harness.search.mutate.registry import text_edit
from harness.search.mutate.source import unparse
from harness.search.run import run_search
from harness.search.setting import live_setting
from tasks.declared import top_constants
from tasks.spec import EVERY_SEED
from tests.harness.search.table_backend import TableBackend

SEEDS = [(task, seed) for task in tasks.names() for seed in tasks.seed_names(task)]
SAMPLE = random.Random(0).sample(SEEDS, min(9, len(SEEDS)))
ENOUGH = 2
# What an edit needs that no seed has: an earlier edit's result, or a matrix product.
EXAMPLES = {
    "share_load": """
import triton
import triton.language as tl
@triton.jit
def f(x_ptr, o_ptr, B: tl.constexpr):
    i = tl.arange(0, B)
    x = tl.load(x_ptr + i)
    y = tl.load(x_ptr + i, eviction_policy='evict_first')
    tl.store(o_ptr + i, x + y)
""",
    "hoist": """
import triton
import triton.language as tl
@triton.jit
def f(x_ptr, w_ptr, o_ptr, n, B: tl.constexpr):
    for row in range(0, n):
        i = tl.arange(0, B)
        w = tl.load(w_ptr + i)
        tl.store(o_ptr + row * B + i, w * tl.load(x_ptr + row * B + i))
""",
    "dot_precision": """
import triton
import triton.language as tl
@triton.jit
def f(a_ptr, b_ptr, o_ptr, B: tl.constexpr):
    i = tl.arange(0, B)
    at = i[:, None] * B + i[None, :]
    tl.store(o_ptr + at, tl.dot(tl.load(a_ptr + at), tl.load(b_ptr + at)))
""",
    "narrow_product": """
import torch
def custom_kernel(data):
    a, b = data
    return a @ b
""",
}


@cache
def code_of(task: str, seed: str) -> str:
    return tasks.seed_code(task, seed)


def children_of(name: str) -> list[tuple[str, str]]:
    """Return (parent, child) for the first seeds that an edit can change."""
    found = []
    for task, seed in SEEDS:
        parent = code_of(task, seed)
        for partner in [s for t, s in SEEDS if t == task and s != seed][:6]:
            proposal = EDITS[name].propose(parent, language_of(parent), random.Random(seed), code_of(task, partner))
            if proposal is not None:
                assert proposal.operator == name
                assert proposal.operator_class in OPERATOR_CLASSES
                found.append((parent, proposal.code))
            if not EDITS[name].partner or len(found) >= ENOUGH:
                break
        if len(found) >= ENOUGH:
            break
    return found


@pytest.mark.parametrize("name", sorted(EDITS))
def test_every_edit_fires_and_its_children_compile(name: str) -> None:
    found = children_of(name)
    if name in EXAMPLES:
        parent = EXAMPLES[name]
        child = EDITS[name].propose(parent, language_of(parent), random.Random(0))
        assert child is not None
        found.append((parent, child.code))
    assert found
    for parent, child in found:
        compile(child, name, "exec")
        assert ast.dump(ast.parse(parent)) != ast.dump(ast.parse(child))
        if name not in EXAMPLES:
            assert "custom_kernel" in child


def test_edits_are_enough_and_documented() -> None:
    assert sum("triton" in e.languages for e in EDITS.values()) >= 15
    assert sum("cuda" in e.languages for e in EDITS.values()) >= 10
    assert sum("torch" in e.languages for e in EDITS.values()) >= 10
    with pytest.raises(ValueError, match="edit 'tile_size' is registered twice"):
        text_edit("tile_size", "constants")(lambda text, rng: None)


def test_an_edit_of_another_language_does_nothing() -> None:
    assert EDITS["num_warps"].propose(EXAMPLES["narrow_product"], "torch", random.Random(0)) is None
    assert EDITS["dispatch"].propose(EXAMPLES["narrow_product"], "torch", random.Random(0)) is None


def test_cuda_text_keeps_its_lines() -> None:
    parent = code_of("rms_norm", "cuda_block_row")
    child = EDITS["restrict"].propose(parent, "cuda", random.Random(0))
    assert child is not None
    before, after = parent.splitlines(), child.code.splitlines()
    changed = [line for line in after if "__restrict__" in line]
    assert len(changed) == 1
    assert {"  float total = 0.0f;", "#if ELEMENT == 0"} <= set(before) & set(after)


@pytest.mark.parametrize("text", ['a\n"""b', "a\n'''b\"\"\"", "tail\\\n\\", 'quote\n"', "plain\ntext"])
def test_strings_survive_being_written_back(text: str) -> None:
    module = ast.parse(f"X = {text!r}\nY = f'{{X}}\\n'\n")
    again = ast.parse(unparse(module))
    assert ast.dump(again) == ast.dump(module)


@pytest.mark.parametrize(("task", "seed"), SAMPLE)
def test_proposals_are_distinct_and_repeatable(task: str, seed: str) -> None:
    parent = code_of(task, seed)
    partners = [code_of(t, s) for t, s in SEEDS if t == task and s != seed]
    first = SourceMutator().propose(parent, random.Random(5), 8, partners)
    assert first == SourceMutator().propose(parent, random.Random(5), 8, partners)
    assert len({p.code for p in first} | {parent}) == 9
    without = SourceMutator().propose(parent, random.Random(5), 8, partners, known=lambda code: code == first[0].code)
    assert first[0].code not in {p.code for p in without}


def test_operators_and_classes_are_spread() -> None:
    classes: Counter[str] = Counter()
    operators: Counter[str] = Counter()
    for task, seed in SAMPLE:
        partners = [code_of(t, s) for t, s in SEEDS if t == task and s != seed]
        for proposal in SourceMutator().propose(code_of(task, seed), random.Random(0), 8, partners):
            classes[proposal.operator_class] += 1
            operators[proposal.operator] += 1
    assert set(classes) == set(OPERATOR_CLASSES)
    assert max(classes.values()) < 0.4 * sum(classes.values())
    assert max(operators.values()) < 0.2 * sum(operators.values())
    assert any("+" in name for name in operators)


CONSTANTS = {EVERY_SEED: {"NUM_WARPS": (2, 4)}, "a": {"BLOCK": (256, 512, 1024)}}


def test_a_declared_constant_gets_another_value_of_its_range() -> None:
    parent = code_of("softmax", "triton_online")
    values = set()
    for seed in range(40):
        child = declared_constant({"BLOCK": (512, 1024, 2048), "ABSENT": (1, 2)}).propose(
            parent, "triton", random.Random(seed)
        )
        assert child is not None and (child.operator, child.operator_class) == ("declared_constant", "constants")
        changed = {k: v.value for k, v in top_constants(ast.parse(child.code)).items() if k != "NUM_WARPS"}
        values.add(changed["BLOCK"])
        assert "NUM_WARPS = 8" in child.code
    assert values == {512, 1024}  # the parent's is no change
    for ranges in ({"ABSENT": (1, 2)}, {"BLOCK": (2048,)}, {"n": (1, 2)}):
        assert declared_constant(ranges).propose(parent, "triton", random.Random(0)) is None


def test_a_constant_of_cuda_and_torch_kernels_can_be_declared() -> None:
    for task, seed, name in (("softmax", "cuda_block_row", "THREADS"), ("cumsum", "torch_blocked", "BLOCK")):
        parent = code_of(task, seed)
        child = declared_constant({name: (64, 256)}).propose(parent, language_of(parent), random.Random(0))
        assert child is not None and f"{name} = 64" in child.code


def test_the_mutator_sets_what_the_seed_of_the_parent_declares() -> None:
    parent, mutator = code_of("softmax", "triton_online"), SourceMutator([], CONSTANTS)
    found = {seed: mutator.propose(parent, random.Random(0), 9, seed_id=seed) for seed in ("a", "b")}
    assert {p.operator for kids in found.values() for p in kids} == {"declared_constant"}
    # Of seed a three sizes and two numbers of warps, one changed at a time; of another seed the warps alone.
    values = {
        seed: {tuple(top_constants(ast.parse(p.code))[n].value for n in ("BLOCK", "NUM_WARPS")) for p in kids}
        for seed, kids in found.items()
    }
    assert values == {"a": {(256, 8), (512, 8), (1024, 8), (2048, 2), (2048, 4)}, "b": {(2048, 2), (2048, 4)}}
    grandchild = mutator.propose(found["a"][0].code, random.Random(0), 9, seed_id="a")
    assert len(grandchild) >= 4  # the declaration holds for what descends from the seed


def test_without_a_declaration_the_mutator_proposes_what_it_did() -> None:
    parent = code_of("softmax", "triton_online")
    plain = SourceMutator().propose(parent, random.Random(3), 8)
    assert plain == SourceMutator(constants={"a": {"BLOCK": (1, 2)}}).propose(parent, random.Random(3), 8, seed_id="b")
    assert SourceMutator(constants={}).name == SourceMutator().name == "source@3"
    names = {SourceMutator(constants=c).name for c in (CONSTANTS, {"a": {"BLOCK": (1, 2)}}, {"b": {"BLOCK": (1, 2)}})}
    assert len(names) == 3 and all(name.startswith("source@3+") for name in names)


def test_a_search_uses_and_logs_what_its_task_declares(tmp_path: Path, no_fsync: None) -> None:
    config = SearchConfig("softmax-test-0", "softmax", "test", ("triton_online", "triton_split"), 120)
    backend = TableBackend(wait_s=0.0)
    setting = live_setting(config, backend)
    state = run_search(config, backend, tmp_path, mutator=setting.mutator)
    names = {name for node in state.nodes.values() for name in (node.operator or "").split("+")}
    assert "declared_constant" in names
    assert state.config["mutator"] == SourceMutator(constants=tasks.get("softmax").constants).name != "source@3"


def test_nothing_to_change_gives_nothing() -> None:
    assert SourceMutator().propose("x = 1\n", random.Random(0), 4) == []


# Edits that keep the result up to rounding on every input that the parent takes.
SAFE = (
    "tile_rows", "chunk_row", "split_kernel", "persistent", "rows_per_program", "peel_tail", "reverse_loop", "exp2",
    "loop_options", "load_again", "move_load", "permute_lanes", "two_stage_reduction", "defer_reduction",
    "reduce_each_round", "dispatch", "swap_grid", "program_order", "swizzle", "accumulate_wide", "cast_late",
    "pair_iterations", "product_form", "trade_tiles",
    "reciprocal", "division_kind", "where_to_product", "root", "clamp_form", "chunked_rows", "fused_operation",
)  # fmt: skip


@pytest.mark.slow
def test_safe_edits_pass_the_check_in_the_interpreter(tmp_path: Path, root: Path) -> None:
    """Forty proposals of safe edits: all but a few are right on the smallest cases of their task."""
    rng = random.Random(3)
    files = []
    for name in (SAFE * 2)[:40]:
        sites = [(t, s) for t, s in rng.sample(SEEDS, len(SEEDS)) if language_of(code_of(t, s)) != "cuda"]
        for task, seed in sites:
            partner = rng.choice([code_of(t, s) for t, s in sites if t == task and s != seed])
            child = EDITS[name].propose(code_of(task, seed), language_of(code_of(task, seed)), rng, partner)
            if child is not None:
                path = tmp_path / f"{len(files)}-{name}-{task}.py"
                path.write_text(child.code, encoding="utf-8")
                files.append((task, path))
                break
    wrong = [path.name for task, path in files if not passes(task, path, root)]
    assert len(files) >= 38
    assert len(wrong) <= 2, wrong


CHECK = """
import sys, torch, tasks
from tasks.compare import mismatch
torch.set_num_threads(1)
name, path = sys.argv[1:]
task, code = tasks.get(name), tasks.implementation(name)
kernel = tasks.load_kernel(path)
for case in sorted((c for c in task.check_cases if c.cpu), key=lambda c: c.bytes)[:3]:
    data = code.make_inputs(torch.Generator().manual_seed(1), "cpu", **case.params)
    like = code.reference(data)
    wrong = mismatch(
        kernel(tuple(t.clone() for t in data)), code.oracle(data), task.tolerances(case.params),
        (like,) if torch.is_tensor(like) else like,
    )
    if wrong:
        sys.exit(wrong)
"""


def passes(task: str, path: Path, root: Path) -> bool:
    """Check a kernel in a process of its own, because a wrong one may write where it should not."""
    environment = {**os.environ, "TRITON_INTERPRET": "1", "PYTHONPATH": str(root)}
    command = [sys.executable, "-W", "ignore", "-c", CHECK, task, str(path)]
    done = subprocess.run(command, env=environment, capture_output=True, text=True, timeout=120, check=False)
    return done.returncode == 0
