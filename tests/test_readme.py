"""What the documents tell a reader to type works."""

from __future__ import annotations

import json
import os
import re
import shlex
import subprocess
import sys
from pathlib import Path

import pytest

DOCUMENTS = ("README.md", "CONTRIBUTING.md", "DATASET_CARD.md")
BLOCK = re.compile(r"^```(\w*)\n(.*?)^```$", re.MULTILINE | re.DOTALL)
INLINE = re.compile(r"`(kernelcast [^`]+)`")


def _python(arguments: list[str], root: Path, folder: Path) -> str:
    environment = {**os.environ, "PYTHONPATH": str(root)}
    done = subprocess.run(
        [sys.executable, *arguments], cwd=folder, env=environment, capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr
    return done.stdout


def blocks_in(text: str, language: str = "") -> list[str]:
    """Return the fenced blocks of a document that carry this language, or none."""
    return [body for name, body in BLOCK.findall(text) if name == language]


@pytest.fixture(scope="module")
def examples(root: Path) -> list[str]:
    return blocks_in((root / "README.md").read_text(encoding="utf-8"), "python")


def test_the_surrogate_of_the_readme_can_be_evaluated(examples: list[str], root: Path, tmp_path: Path) -> None:
    (source,) = [block for block in examples if "class " in block]
    assert len(source.splitlines()) <= 20
    (tmp_path / "mine.py").write_text(source)
    (name,) = re.findall(r"^class (\w+)", source, re.MULTILINE)
    result = json.loads(_python(["-m", "harness.cli", "evaluate", f"mine:{name}", "--json"], root, tmp_path))
    assert {row["track"] for row in result["rows"]} >= {"pairs", "pool"}
    mine = [row for row in result["rows"] if name in row["name"]]
    assert mine and all(row["coverage"] == 1 for row in mine)


def test_the_other_examples_of_the_readme_run(examples: list[str], root: Path, tmp_path: Path) -> None:
    others = [block for block in examples if "class " not in block]
    assert others
    for number, block in enumerate(others):
        (tmp_path / f"example_{number}.py").write_text(block)
        _python([f"example_{number}.py"], root, tmp_path)


def test_the_table_of_the_readme_is_what_the_command_prints(root: Path) -> None:
    text = (root / "README.md").read_text(encoding="utf-8")
    shown = text.split("<!-- table:begin -->")[1].split("<!-- table:end -->")[0]
    printed = _python(["-m", "harness.cli", "leaderboard"], root, root)
    assert shown.strip().removeprefix("```text").removesuffix("```").strip() == printed.strip()


def typed_in(text: str) -> list[str]:
    """Return the `kernelcast ...` lines of a document's blocks, without their comments."""
    lines = [re.sub(r"\s+#.*", "", line).strip() for block in blocks_in(text) for line in block.splitlines()]
    return [line for line in lines if line.startswith("kernelcast ")]


def mentioned_in(text: str) -> list[str]:
    """Return the `kernelcast ...` commands in running text, which may leave out arguments."""
    return [" ".join(inline.split()) for inline in INLINE.findall(text)]


def test_commands_are_found_in_blocks_and_in_lines() -> None:
    text = "Use `kernelcast score`.\n```python\nx = 1\n```\nno\n```\nkernelcast data  # shows it\nls\n```\n"
    assert (typed_in(text), mentioned_in(text)) == (["kernelcast data"], ["kernelcast score"])


@pytest.mark.parametrize("document", DOCUMENTS)
def test_every_command_in_the_documents_can_be_given(document: str, root: Path) -> None:
    from typer.main import get_command

    from harness.cli import app

    text = (root / document).read_text(encoding="utf-8")
    typed = [(command, True) for command in typed_in(text)]
    mentioned = [(command, False) for command in mentioned_in(text)]
    assert typed + mentioned
    for line, complete in typed + mentioned:
        command, words = get_command(app), shlex.split(line)[1:]
        while hasattr(command, "commands") and words and not words[0].startswith("-"):
            name = words.pop(0)
            command = command.get_command(None, name)
            assert command is not None, line
        options = {option for parameter in command.params for option in (*parameter.opts, *parameter.secondary_opts)}
        unknown = [word for word in words if word.startswith("--") and word not in options | {"--help"}]
        assert not unknown, line
        if complete:
            # Parses the arguments as a run would, and stops there: a wrong or missing one raises.
            command.make_context(line, list(words))
