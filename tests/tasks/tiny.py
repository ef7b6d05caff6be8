"""A small task made from the template, and ways to break it."""

from __future__ import annotations

from pathlib import Path

from tasks.template import create

TASK = {
    "TODO: what the task computes, in one line.": "Columns scaled by a weight.",
    "    # TODO: a few times the rounding error of the output's dtype; the notes say how it was derived.\n": "",
    "rtol=0.0, atol=0.0": "rtol=1e-6, atol=1e-7",
    "    # TODO: parameters that fit make_inputs, bytes, and the operations of the plain algorithm.\n": "",
    "bytes=0": "bytes=8 * rows * columns + 4 * columns",
    "flops=0": "flops=rows * columns",
    "  # TODO: gpu_mode, operator or network": "",
    "  # TODO: norm, matmul, attention, scan, conv, quantise, reduce, block or loss": "",
    "TODO: the mathematics, shapes, dtypes and what is timed: all that a forecaster is told.": "out = x * w.",
    "    # TODO: at least five small ones for the interpreter (cpu=True) with sizes that are no power of two, "
    "size 1 and\n"
    "    # difficult values, and a few medium ones for a GPU alone.\n": "",
    "check_cases=()": "check_cases=tuple(case(rows, 5, True) for rows in (2, 3, 4, 5, 7))",
    "timing_cases=(),  # TODO: two or three, on which the reference takes 50 us to 3 ms": "timing_cases=(case(9, 5),),",
    "TODO: where the tolerances come from.": "One rounding.",
    "  # TODO: where the operation comes from": "",
}
REFERENCE = '''"""Columns scaled by a weight."""

import torch


def make_inputs(generator, device, *, rows, columns):
    at = {"generator": generator, "device": generator.device}
    return torch.randn((rows, columns), **at), torch.rand(columns, **at) + 0.5


def reference(data):
    x, w = data
    return x * w


def oracle(data):
    x, w = data
    return (x.double() * w.double(),)
'''
WRONG = (
    "WRONG = {'add': lambda d: d[0] + d[1], 'bare': lambda d: d[0].clone(), 'halved': lambda d: d[0] * d[1] * 0.5}\n"
)
SEED = "def custom_kernel(data):\n    return data[0] * data[1]\n"
TRITON = """import torch
import triton
import triton.language as tl

BLOCK = {block}


@triton.jit
def scale(x, w, out, columns, total, BLOCK: tl.constexpr):
    index = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    inside = index < total
    value = tl.load(x + index, inside) * tl.load(w + index % columns, inside)
    tl.store(out + index, value, inside)


def custom_kernel(data):
    x, w = data
    out = torch.empty_like(x)
    scale[(triton.cdiv(x.numel(), BLOCK),)](x, w, out, x.shape[1], x.numel(), BLOCK=BLOCK)
    return out
"""
ROWS = """import torch
import triton
import triton.language as tl

BLOCK = {block}


@triton.jit
def scale_row(x, w, out, columns, BLOCK: tl.constexpr):
    row = tl.program_id(0)
    for start in range(0, columns, BLOCK):
        column = start + tl.arange(0, BLOCK)
        factor = tl.load(w + column, column < columns)
        tl.store(out + row * columns + column, tl.load(x + row * columns + column, column < columns) * factor,
                 column < columns)


def custom_kernel(data):
    x, w = data
    out = torch.empty_like(x)
    scale_row[(x.shape[0],)](x, w, out, x.shape[1], BLOCK=BLOCK)
    return out
"""
SEEDS = {
    "torch_eager": SEED,
    "torch_second": "import torch\n\n\ndef custom_kernel(data):\n    return torch.einsum('rc,c->rc', *data)\n",
    "triton_first": TRITON.format(block=16),
    "triton_second": ROWS.format(block=4),
    "triton_third": ROWS.format(block=8),
}


def fill_in(folder: Path) -> None:
    """Fill in every open place of a template."""
    text = (folder / "task.py").read_text()
    for old, new in TASK.items():
        assert text.count(old) == 1, old
        text = text.replace(old, new)
    (folder / "task.py").write_text(text)
    (folder / "reference.py").write_text(REFERENCE)
    (folder / "wrong.py").write_text(WRONG)
    for name, code in SEEDS.items():
        (folder / "seeds" / f"{name}.py").write_text(code)


def make(name: str, into: Path, file: str = "task.py", old: str = "", new: str = "") -> Path:
    """Make a small task that verifies, with one piece of one file replaced."""
    create(name, into)
    fill_in(into / name)
    text = (into / name / file).read_text()
    assert old in text
    (into / name / file).write_text(text.replace(old, new) if old else text)
    return into / name
