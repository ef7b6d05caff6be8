"""The prompt that asks a language model for a faster kernel, and the kernel in what it answers."""

from __future__ import annotations

import ast
import re
from collections.abc import Mapping, Sequence
from typing import Any

from harness.search.mutate.classify import operator_class
from harness.search.mutate.proposal import Feedback, Proposal, Rejected

PROMPT_VERSION = "rewrite@1"
ERROR_CHARACTERS = 1500
ENTRY = "custom_kernel"
_BLOCK = re.compile(r"^```[ \t]*(\w*)[ \t]*\n(.*?)^```", re.MULTILINE | re.DOTALL)

SYSTEM = """You write fast GPU kernels. You get a task, a kernel that solves it, and what was measured of it. You answer
with one complete Python file that solves the same task faster: a function custom_kernel(data), with kernels in Triton,
or in CUDA C++ compiled by torch.cuda._compile_kernel, or PyTorch operations. Give the whole file in a single code block
that begins with ```python. The file may import torch, triton and the standard library; it reads no files, opens no
connections and keeps nothing between calls. Think first about what limits the kernel; then write."""


def messages(
    task: Mapping[str, Any], parent_code: str, feedback: Feedback | None, hardware: str
) -> list[dict[str, str]]:
    """Return the chat messages for one parent.

    `task` is what a log keeps of a task: statement, reference_code and cases.
    """
    shapes = [
        f"- {case['case_id']}: {_parameters(case['params'])}" for case in task["cases"] if case.get("timing", True)
    ]
    parts = [
        f"# Task\n{task['statement']}",
        f"# Reference\n```python\n{task['reference_code'].strip()}\n```",
        "# Timed cases\n" + "\n".join(shapes),
        f"# Hardware\n{hardware}",
        f"# Kernel to improve\n```python\n{parent_code.strip()}\n```",
        f"# Measured\n{_measured(feedback)}",
    ]
    return [{"role": "system", "content": SYSTEM}, {"role": "user", "content": "\n\n".join(parts) + "\n"}]


def _parameters(params: Mapping[str, Any]) -> str:
    return ", ".join(f"{name}={value}" for name, value in params.items())


def _measured(feedback: Feedback | None) -> str:
    if feedback is None or not (feedback.cases or feedback.failures):
        return "Nothing yet."
    lines = [
        f"- {case.case_id}: {case.candidate_us:.2f} us, the reference {case.reference_us:.2f} us"
        for case in sorted(feedback.cases, key=lambda c: c.reference_us / c.candidate_us)
    ]
    for status, error in feedback.failures:
        lines.append(f"- An earlier rewrite failed ({status}): {_shortened(error)}")
    return "\n".join(lines)


def _shortened(text: str) -> str:
    text = text.strip() or "no message"
    if len(text) <= ERROR_CHARACTERS:
        return text
    half = ERROR_CHARACTERS // 2
    return f"{text[:half]} [...] {text[-half:]}"


def code_block(text: str) -> str | None:
    """Return the last code block of an answer that defines the entry function; None if there is none."""
    blocks = [body for language, body in _BLOCK.findall(text) if language.lower() in ("", "python", "py")]
    for body in reversed(blocks):
        if f"def {ENTRY}" in body:
            return str(body).strip("\n") + "\n"
    return None


def child_of(
    parent_code: str, completion: Mapping[str, Any], operator: str, seconds: float | None
) -> Proposal | Rejected:
    """Return the child in a chat completion as the protocol has it, or why it holds none.

    A truncated answer is rejected even if it holds a code block: the block may be one that the model took back.
    """
    usage = completion.get("usage") or {}
    cost: dict[str, Any] = {
        "seconds": seconds,
        "input_tokens": usage.get("prompt_tokens"),
        "output_tokens": usage.get("completion_tokens"),
    }
    choices = completion.get("choices")
    if not isinstance(choices, Sequence) or not choices or not isinstance(choices[0], Mapping):
        return Rejected("malformed answer: no choices", **cost)
    choice = choices[0]
    text = (choice.get("message") or {}).get("content")
    if choice.get("finish_reason") == "length":
        return Rejected("truncated: the answer reached the limit of tokens", **cost)
    if not isinstance(text, str) or not text.strip():
        return Rejected("empty answer", **cost)
    code = code_block(text)
    if code is None:
        return Rejected(f"no code block with a function {ENTRY}", **cost)
    try:
        if ast.dump(ast.parse(code)) == ast.dump(ast.parse(parent_code)):
            return Rejected("the same program as its parent", **cost)
        return Proposal(code, operator, operator_class(parent_code, code), "llm", None, **cost)
    except (SyntaxError, ValueError, RecursionError) as error:
        return Rejected(f"not valid Python: {error}", **cost)
