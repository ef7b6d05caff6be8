"""The prompt: versioned template files, filled from a query and from the bins that are really scored."""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

from benchmark.bins import BINS
from benchmark.query import Query
from harness.surrogates.foreign import SurrogateError
from harness.surrogates.lm.tool import TOOL_NAME, bin_ranges

FOLDER = Path(__file__).parent / "prompts"
HARDWARE = FOLDER / "hardware.json"
DEFAULT = "forecast-1"
ANSWERS = ("tool", "label")
_PARTS = ("system", "anchor", "candidate", "answer-tool", "answer-label")


@dataclass(frozen=True)
class PromptText:
    """A filled prompt: the user's message is `shared`, equal for all candidates of one anchor, and then `own`."""

    system: str
    shared: str
    own: str

    def messages(self) -> list[dict[str, str]]:
        """Return the prompt as the messages of a chat."""
        return [{"role": "system", "content": self.system}, {"role": "user", "content": self.shared + self.own}]


@dataclass(frozen=True)
class Prompt:
    """A version of the prompt: one folder of `prompts/`, or any folder that holds the same files."""

    folder: Path

    @property
    def name(self) -> str:
        """The folder's name, which is the version."""
        return self.folder.name

    @cached_property
    def digest(self) -> str:
        """Twelve hex digits of the SHA-256 over the prompt's files and the hardware table."""
        digest = hashlib.sha256()
        for path in (*(self.folder / f"{part}.j2" for part in _PARTS), HARDWARE):
            digest.update(path.name.encode() + b"\0" + path.read_bytes() + b"\0")
        return digest.hexdigest()[:12]

    def fill(self, query: Query, answer: str) -> PromptText:
        """Return the prompt for a query; `answer` says how the model is to reply, by `tool` or by bin `label`."""
        values = _values(query)
        shared = self._render("anchor", values) + "\n\n"
        own = self._render("candidate", values) + "\n\n" + self._render(f"answer-{answer}", values)
        return PromptText(self._render("system", values), shared, own)

    def _render(self, part: str, values: Mapping[str, Any]) -> str:
        text: str = self._environment.get_template(f"{part}.j2").render(values)
        return text.strip()

    @cached_property
    def _environment(self) -> Any:
        from jinja2 import Environment, FileSystemLoader, StrictUndefined

        # Nothing is escaped: the text goes to a model, and kernels are full of < and &.
        loader = FileSystemLoader(self.folder)
        return Environment(loader=loader, undefined=StrictUndefined, trim_blocks=True, lstrip_blocks=True)


def load_prompt(name: str = DEFAULT) -> Prompt:
    """Return a prompt by version or by folder. Raises SurrogateError, naming the versions or the missing file."""
    folder = FOLDER / name if "/" not in name else Path(name)
    if not folder.is_dir():
        known = ", ".join(sorted(p.name for p in FOLDER.iterdir() if p.is_dir()))
        raise SurrogateError(f"there is no prompt '{name}'; expected one of {known}, or a folder with the same files")
    for part in _PARTS:
        if not (folder / f"{part}.j2").is_file():
            raise SurrogateError(f"{folder}: the prompt lacks the file {part}.j2")
    return Prompt(folder)


def _values(query: Query) -> dict[str, Any]:
    return {
        "bins": [{"number": b, "range": text} for b, text in zip(BINS, bin_ranges(), strict=True)],
        "tool": TOOL_NAME,
        "task": query.task,
        "statement": query.statement,
        "cases": [_case(case) for case in query.facts.get("cases", ()) if case.get("timing", True)],
        "hardware": query.hardware,
        "hardware_table": list(_hardware(query).items()),
        "anchor_kind": query.anchor_kind,
        "anchor_time_us": f"{query.anchor_time_us:.4g}" if query.anchor_time_us else None,
        "anchor_code": query.anchor_code.rstrip(),
        "candidate_code": query.candidate_code.rstrip(),
        "anchor_fence": _fence(query.anchor_code),
        "candidate_fence": _fence(query.candidate_code),
    }


def _fence(code: str) -> str:
    """Return a fence of more backticks than any run of them in the code, so that the code cannot close it."""
    return "`" * max(3, 1 + max(map(len, re.findall("`+", code)), default=0))


def _case(case: Mapping[str, Any]) -> dict[str, Any]:
    parameters = ", ".join(f"{name} = {_plain(value)}" for name, value in case.get("params", {}).items())
    return {
        "name": case.get("case_id", "case"),
        "parameters": parameters or "no parameters",
        "bytes": case.get("bytes"),
        "flops": case.get("flops"),
    }


def _plain(value: Any) -> str:
    return value if isinstance(value, str) else json.dumps(value)


def _hardware(query: Query) -> Mapping[str, str]:
    """Return the row's own hardware table if its facts have one, else the public figures for the row's device."""
    own = query.facts.get("hardware")
    if isinstance(own, Mapping):
        return {str(name): _plain(value) for name, value in own.items()}
    table: dict[str, dict[str, str]] = json.loads(HARDWARE.read_text(encoding="utf-8"))
    return table.get(query.hardware, {})
