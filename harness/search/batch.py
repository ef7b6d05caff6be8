"""Prompts for a language model as a file in the OpenAI batch format, and the children in a file of its answers.

A batch is a folder: `prompts.jsonl` (one request a line), `parents.jsonl` (what each `custom_id` asks about, with the
way from its seed), after the answers came `answers.jsonl`, and the logs of the searches that measured the children.
"""

from __future__ import annotations

import hashlib
import json
import random
import shutil
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

import tasks
from benchmark.code_view import language_of
from benchmark.identity import kernel_id
from harness.search.config import describe_task
from harness.search.mutate.llm import LlmOptions
from harness.search.mutate.prompt import child_of, messages
from harness.search.mutate.proposal import Feedback, Proposal, Rejected
from harness.search.node import Node
from harness.search.state import SearchState

PROMPTS, PARENTS, ANSWERS = "prompts.jsonl", "parents.jsonl", "answers.jsonl"
COMPLETIONS_URL = "/v1/chat/completions"


class BatchError(ValueError):
    """A batch's file breaks its format; the message names the file and the line."""


@dataclass(frozen=True)
class Ancestor:
    """One kernel on the way from a seed to a parent; the seed has no operator."""

    code: str
    language: str
    operator: str | None = None
    operator_class: str | None = None
    origin: str = "seed"


@dataclass(frozen=True)
class BatchParent:
    """A kernel that a model is asked to rewrite: `path` leads from its seed to itself."""

    task: Mapping[str, Any]
    split: str
    seed_id: str
    path: tuple[Ancestor, ...]
    feedback: Feedback = field(default_factory=Feedback)

    @property
    def code(self) -> str:
        """The parent's source."""
        return self.path[-1].code

    @property
    def kernel_id(self) -> str:
        """The parent's id."""
        return kernel_id(self.task["name"], self.code)


def seed_parents(task: str, split: str) -> list[BatchParent]:
    """Return the seeds of a split as parents, with nothing measured. Raises KeyError for an unknown task."""
    description = describe_task(tasks.get(task))
    codes = {name: tasks.seed_code(task, name) for name in tasks.seed_names(task, split)}
    return [BatchParent(description, split, name, (Ancestor(code, language_of(code)),)) for name, code in codes.items()]


def searched_parents(state: SearchState, count: int, seed: int, fastest: bool) -> list[BatchParent]:
    """Return correct kernels of a search as parents: its fastest ones, or some drawn with no regard to their speed."""
    ok = [node for node in state.nodes.values() if node.reported is not None]
    if fastest:
        chosen = sorted(ok, key=lambda node: -(node.reported or 0.0))[:count]
    else:
        chosen = random.Random(f"{seed}/{state.search_id}").sample(ok, min(count, len(ok)))
    return [_parent(state, node) for node in chosen]


def _parent(state: SearchState, node: Node) -> BatchParent:
    failed = [n for n in state.nodes.values() if n.parent_node_id == node.node_id and n.status not in (None, "ok")]
    feedback = Feedback(node.cases, tuple((str(n.status), n.error) for n in failed[-4:]))
    path: list[Ancestor] = []
    here: Node | None = node
    while here is not None:
        path.append(Ancestor(here.code, here.language, here.operator, here.operator_class, here.origin))
        here = state.nodes.get(here.parent_node_id or "")
    return BatchParent(state.task, str(state.config["split"]), node.seed_id, tuple(reversed(path)), feedback)


def export(parents: Sequence[BatchParent], children: int, options: LlmOptions, folder: Path) -> int:
    """Write the prompts and what they ask about; return how many requests there are.

    Equal parents are asked about once. Raises ValueError for nothing to ask, FileExistsError if a batch is there.
    """
    if children < 1 or not parents:
        raise ValueError(f"{len(parents)} parents with {children} children each: nothing to ask")
    if (folder / PROMPTS).exists():
        raise FileExistsError(f"{folder / PROMPTS} exists already; give another --out")
    folder.mkdir(parents=True, exist_ok=True)
    distinct: dict[tuple[str, str, str], BatchParent] = {}
    for parent in parents:
        distinct.setdefault((parent.task["name"], parent.split, parent.kernel_id), parent)
    rows = list(distinct.values())
    with (
        (folder / PROMPTS).open("w", encoding="utf-8") as prompts,
        (folder / PARENTS).open("w", encoding="utf-8") as about,
    ):
        for parent in rows:
            prompt = messages(parent.task, parent.code, parent.feedback, options.hardware)
            ids = [custom_id(parent, options, number) for number in range(children)]
            for name in ids:
                request = {"custom_id": name, "method": "POST", "url": COMPLETIONS_URL, "body": options.body(prompt)}
                prompts.write(json.dumps(request, ensure_ascii=False) + "\n")
            about.write(json.dumps({"custom_ids": ids, **asdict(parent)}, ensure_ascii=False) + "\n")
    return children * len(rows)


def custom_id(parent: BatchParent, options: LlmOptions, number: int) -> str:
    """Return the id that joins a request and its answer; it says nothing of how fast the parent is."""
    key = json.dumps([parent.task["name"], parent.split, parent.kernel_id, options.model, number])
    return "r-" + hashlib.sha256(key.encode()).hexdigest()[:20]


def _lines(path: Path) -> Iterator[tuple[str, Any]]:
    for number, line in enumerate(path.read_text(encoding="utf-8").splitlines(), 1):
        if line.strip():
            try:
                yield f"{path}, line {number}", json.loads(line)
            except ValueError as error:
                raise BatchError(f"{path}, line {number}: not JSON ({error})") from None


def read_parents(folder: Path) -> list[tuple[tuple[str, ...], BatchParent]]:
    """Return the parents of a batch with the ids of their requests. Raises BatchError."""
    found = []
    for where, row in _lines(folder / PARENTS):
        try:
            path = tuple(Ancestor(**step) for step in row["path"])
            parent = BatchParent(row["task"], row["split"], row["seed_id"], path)
            found.append((tuple(row["custom_ids"]), parent))
        except (KeyError, TypeError) as error:
            raise BatchError(f"{where}: not a parent of a batch ({error})") from None
    return found


def read_answers(path: Path, parents: Sequence[tuple[tuple[str, ...], BatchParent]]) -> dict[str, Proposal | Rejected]:
    """Return what each answer holds, by custom_id; answers may come in any order, and some may be missing.

    Raises BatchError for a line that is no answer, or one to a question that the batch did not ask.
    """
    asked = {name: parent for names, parent in parents for name in names}
    found: dict[str, Proposal | Rejected] = {}
    for where, row in _lines(path):
        name = row.get("custom_id") if isinstance(row, dict) else None
        if name not in asked:
            raise BatchError(f"{where}: custom_id {name!r} is not one of this batch")
        if name in found:
            raise BatchError(f"{where}: a second answer to custom_id '{name}'")
        response = row.get("response") or {}
        body = response.get("body")
        if response.get("status_code") != 200 or not isinstance(body, dict):
            found[name] = Rejected(f"no answer: {row.get('error') or response.get('status_code')}")
            continue
        found[name] = child_of(asked[name].code, body, f"llm:{body.get('model', 'unknown')}", None)
    return found


def keep_answers(answers: Path, folder: Path) -> Path:
    """Copy the answers into the batch's folder, once, and return where they are.

    Raises ValueError if other answers are there already: the logs beside them would no longer say what was measured.
    """
    kept = folder / ANSWERS
    if not kept.exists():
        partial = kept.with_suffix(".partial")
        shutil.copyfile(answers, partial)
        partial.replace(kept)
    elif answers.resolve() != kept.resolve() and answers.read_bytes() != kept.read_bytes():
        raise ValueError(f"{kept} holds other answers; import '{answers}' into a copy of the batch's folder")
    return kept
