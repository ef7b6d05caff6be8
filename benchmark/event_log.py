"""Read the event logs of searches: one JSON object a line, checked and folded into nodes and measurements."""

from __future__ import annotations

import gzip
import json
import lzma
import zlib
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from benchmark.identity import kernel_id, normalise_newlines

SCHEMA = 1
LOG_NAMES = ("events.jsonl", "events.jsonl.gz", "events.jsonl.xz")  # xz takes two thirds of the space of gz


_DECOMPRESS = {".gz": gzip.decompress, ".xz": lzma.decompress}


class LogError(ValueError):
    """An event log is broken; the message names the file, the line and the field."""


@dataclass(frozen=True)
class Node:
    """One place in a search tree; `parent` is None for a seed."""

    node_id: str
    kernel_id: str
    parent: str | None
    seed_id: str
    step: int
    origin: str
    operator: str | None
    operator_class: str | None
    language: str
    code: str


@dataclass(frozen=True)
class Measured:
    """One measurement event: `step` is the step of the search in which it was made, `index` its place in the log."""

    node_id: str
    kernel_id: str
    role: str  # candidate | anchor | confirmation (a fast kernel of a search in `shared`, at its end again in `strict`)
    step: int
    index: int
    record: Mapping[str, Any]

    @property
    def process(self) -> tuple[str, int]:
        """Return what tells two processes apart: session and process number."""
        return self.record["session_id"], self.record["process"]


@dataclass
class SearchLog:
    """One search, folded from its log; `events` are the raw objects in order, `torn` whether the last line was cut."""

    path: Path
    search_id: str
    split: str
    seeds: list[str]
    task: Mapping[str, Any]
    sessions: dict[str, Mapping[str, Any]] = field(default_factory=dict)
    nodes: dict[str, Node] = field(default_factory=dict)
    measured: list[Measured] = field(default_factory=list)
    events: list[Mapping[str, Any]] = field(default_factory=list)
    torn: bool = False


def find_logs(raw_dir: Path) -> list[Path]:
    """Return the log of every folder of `raw_dir`, in order of name.

    Raises LogError if there is none, or if a folder holds two.
    """
    paths: list[Path] = []
    for folder in sorted(p for p in raw_dir.iterdir() if p.is_dir()) if raw_dir.is_dir() else []:
        found = [folder / name for name in LOG_NAMES if (folder / name).is_file()]
        if len(found) > 1:
            raise LogError(f"{folder}: holds both {found[0].name} and {found[1].name}; keep one")
        paths += found
    if not paths:
        raise LogError(f"{raw_dir}: no event log; expected SEARCH_ID/{LOG_NAMES[1]} or SEARCH_ID/{LOG_NAMES[0]}")
    return paths


def read_events(path: Path) -> tuple[list[dict[str, Any]], bool]:
    """Return the events of a log and whether its last line was torn (a write cut short; that line is left out).

    Raises LogError for any other line that is not the next event.
    """
    try:
        data = _DECOMPRESS.get(path.suffix, bytes)(path.read_bytes())
    except (EOFError, OSError, zlib.error, lzma.LZMAError) as error:
        raise LogError(f"{path}: cannot be read whole ({error}); restore the file") from None
    lines = data.split(b"\n")
    events: list[dict[str, Any]] = []
    for number, line in enumerate(lines, start=1):
        last = number == len(lines)
        if last and not line:
            break
        try:
            event = json.loads(line)
        except ValueError:
            if last:
                return events, True
            expected = "a JSON object; only the last line of a log may be cut"
            raise LogError(f"{path}, line {number}: expected {expected}") from None
        if not isinstance(event, dict) or event.get("index") != len(events) or not isinstance(event.get("kind"), str):
            found = event.get("index") if isinstance(event, dict) else event
            raise LogError(f"{path}, line {number}: index is {found!r}, expected {len(events)} and a 'kind'")
        events.append(event)
    return events, False


def read_search(path: Path) -> SearchLog:
    """Return one search from its log. Raises LogError, which names file, line and field, for what breaks the format."""
    events, torn = read_events(path)
    if not events or events[0]["kind"] != "search_started":
        raise LogError(f"{path}, line 1: the first event must be 'search_started'")
    log: SearchLog | None = None
    step = 0
    for event in events:
        where = f"{path}, line {event['index'] + 1}"
        try:
            if event["kind"] == "search_started":
                if log is not None:
                    raise LogError(f"{where}: a second 'search_started'; a log holds one search")
                if event["schema"] != SCHEMA:
                    raise LogError(f"{where}: schema is {event['schema']!r}, expected {SCHEMA}")
                config = event["config"]
                log = SearchLog(path, event["search_id"], config["split"], list(config["seeds"]), event["task"])
                log.torn = torn
                log.task["name"], log.task["cases"]
                continue
            assert log is not None
            if event["kind"] == "session_started":
                log.sessions[event["session"]["session_id"]] = event["session"]
            elif event["kind"] == "step_started":
                step = event["step"]
            elif event["kind"] in ("seed_added", "proposed"):
                _add_node(log, event, where)
            elif event["kind"] == "measured":
                if event["role"] not in ("candidate", "anchor"):
                    raise LogError(f"{where}: role is {event['role']!r}, expected candidate or anchor")
                _add_measured(log, event, event["role"], step, where)
            elif event["kind"] == "confirmed":
                _add_measured(log, event, "confirmation", step, where)
        except KeyError as error:
            raise LogError(f"{where}: event '{event['kind']}' has no field {error}") from None
        except (TypeError, AttributeError) as error:
            raise LogError(f"{where}: event '{event['kind']}' has a field of a wrong type ({error})") from None
    assert log is not None
    log.events.extend(events)
    return log


def _add_node(log: SearchLog, event: Mapping[str, Any], where: str) -> None:
    seed = event["kind"] == "seed_added"
    parent = None if seed else event["parent_node_id"]
    if event["node_id"] in log.nodes:
        raise LogError(f"{where}: node_id '{event['node_id']}' was used before")
    if parent is not None and parent not in log.nodes:
        raise LogError(f"{where}: parent_node_id '{parent}' is not a node of this search")
    code = normalise_newlines(event["code"])
    expected = kernel_id(log.task["name"], code)
    if event["kernel_id"] != expected:
        raise LogError(f"{where}: kernel_id is '{event['kernel_id']}', but the code has '{expected}'")
    log.nodes[event["node_id"]] = Node(
        node_id=event["node_id"],
        kernel_id=event["kernel_id"],
        parent=parent,
        seed_id=event["seed_id"] if seed else log.nodes[event["parent_node_id"]].seed_id,
        step=event["step"],
        origin="seed" if seed else event["origin"],
        operator=None if seed else event["operator"],
        operator_class=None if seed else event["operator_class"],
        language=event["language"],
        code=code,
    )


def _add_measured(log: SearchLog, event: Mapping[str, Any], role: str, step: int, where: str) -> None:
    record = event["measurement"]
    node = log.nodes.get(event["node_id"])
    if node is None:
        raise LogError(f"{where}: node_id '{event['node_id']}' is not a node of this search")
    if not event["kernel_id"] == record["kernel_id"] == node.kernel_id:
        raise LogError(f"{where}: kernel_id is '{record['kernel_id']}', but the node has '{node.kernel_id}'")
    if record["session_id"] not in log.sessions:
        raise LogError(f"{where}: session_id '{record['session_id']}' was not started in this log")
    if record["status"] != "ok" and record["cases"]:
        raise LogError(f"{where}: status is '{record['status']}', so 'cases' must be empty")
    for case in record["cases"]:
        for side in ("candidate", "reference"):
            times, order = case[f"{side}_ns"], case[f"{side}_order"]
            if not times or len(times) != len(order):
                found = f"{len(times)} {side}_ns and {len(order)} {side}_order"
                raise LogError(f"{where}: case '{case['case_id']}' has {found}, expected as many of both")
            if not all(0 < time < float("inf") for time in times):
                raise LogError(f"{where}: case '{case['case_id']}' has a {side}_ns that is not finite and positive")
    log.measured.append(Measured(event["node_id"], event["kernel_id"], role, step, event["index"], record))
