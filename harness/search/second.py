"""Measuring the kernels of finished searches again, at another start of the machine: what the noise ceiling is made of.

The logs of the searches stay as they are. What is measured goes to OUT/SEARCH_ID/second.jsonl, a log of its own that
continues after any interruption; `join` appends its events to those of the search, in sessions of role `second`.
"""

from __future__ import annotations

import gzip
import json
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from benchmark.event_log import SearchLog, find_logs, read_search
from benchmark.event_log import read_events as read_any
from harness.measure import Backend, Measurement
from harness.search.backends import open_live_backend, session_rows
from harness.search.events import EventLog, LogError
from harness.search.launch import Options
from harness.search.measuring import Measuring
from harness.search.node import Node

SECOND_NAME = "second.jsonl"
REPORT_SECONDS = 5.0


@dataclass
class Done:
    """How far a second measurement has come."""

    kernels: int
    measured: int = 0
    stopped: bool = False
    started: float = field(default_factory=time.monotonic)
    here: int = 0

    def line(self) -> str:
        """Return one line: measured and planned, rate, time left."""
        rate = self.here / max(time.monotonic() - self.started, 1e-9)
        left = f"{(self.kernels - self.measured) / rate:.0f} s left" if rate else "? left"
        end = "; the same command continues" if self.stopped else ""
        return f"[{self.measured}/{self.kernels}] measured again, {rate:.1f}/s, {left}{end}"


def remeasure(raw: Path, splits: Sequence[str], options: Options) -> Done:
    """Measure every kernel that worked, of the searches of these splits, once more, in the order of the searches.

    A kernel of several searches is measured in the first. Raises ValueError if no search has one of the splits.
    """
    options.check()
    logs = [log for path in find_logs(raw) if (log := read_search(path)).split in splits]
    if not logs:
        raise ValueError(f"{raw}: no search of split {' or '.join(splits)}")
    planned = plan(logs)
    done = Done(sum(len(nodes) for nodes in planned.values()))
    with open_live_backend(options.backend, options.workers, options.isolation, options.gpus, options.ray) as backend:
        deadline = None if options.time_limit is None else done.started + options.time_limit

        def stop() -> bool:
            return deadline is not None and time.monotonic() >= deadline

        said = Throttle(options.say)
        for log in logs:
            if planned[log.search_id]:
                _again(log, planned[log.search_id], backend, options.out, stop, done, said)
    options.say(done.line())
    return done


class Throttle:
    """Says a line every few seconds."""

    def __init__(self, say: Callable[[str], None]) -> None:
        self._say, self._last = say, time.monotonic()

    def __call__(self, line: str) -> None:
        if time.monotonic() - self._last >= REPORT_SECONDS:
            self._last = time.monotonic()
            self._say(line)


def plan(logs: Sequence[SearchLog]) -> dict[str, list[Node]]:
    """Return the nodes of each search to measure again: those whose kernel worked, each kernel once."""
    seen: set[str] = set()
    planned: dict[str, list[Node]] = {}
    for log in logs:
        worked = {e.node_id for e in log.measured if e.role == "candidate" and e.record["status"] == "ok"}
        nodes = planned[log.search_id] = []
        for node in log.nodes.values():
            if node.node_id in worked and node.kernel_id not in seen:
                seen.add(node.kernel_id)
                nodes.append(Node(node.node_id, node.kernel_id, node.code, node.language, node.step, node.seed_id))
    return planned


def _again(
    log: SearchLog, nodes: Sequence[Node], backend: Backend, out: Path, stop: Callable[[], bool], done: Done,
    said: Callable[[str], None],
) -> None:  # fmt: skip
    with EventLog(out / log.search_id / SECOND_NAME) as second:
        if not second.events:
            second.append("second_started", {"search_id": log.search_id, "split": log.split})
        elif second.events[0].get("search_id") != log.search_id:
            raise LogError(f"{second.path}: not of search '{log.search_id}'; choose another folder")
        ready = {event["node_id"] for event in second.events if event["kind"] == "measured"}
        done.measured += len(ready & {node.node_id for node in nodes})
        open_ = [node for node in nodes if node.node_id not in ready]
        if not open_ or stop():
            done.stopped |= bool(open_)
            return
        for row in session_rows(backend):
            second.append("session_started", {"session": row | {"role": "second"}})

        def emit(node: Node, role: str, measurement: Measurement) -> None:
            keys = {"node_id": node.node_id, "kernel_id": node.kernel_id, "role": role}
            second.append("measured", {**keys, "measurement": measurement.to_json()})
            done.measured += 1
            done.here += 1
            said(done.line())

        complete = Measuring(backend, log.task["name"], stop, emit).run([(node, "candidate") for node in open_])
        done.stopped |= not complete


def join(log: Path, second: Path) -> Iterator[Mapping[str, Any]]:
    """Yield the events of a search followed by those of its second measurement, numbered on.

    Raises LogError if the second log is of another search, or is there already.
    """
    events, _ = read_any(log)
    more, _ = read_any(second)
    if not more or more[0].get("search_id") != events[0]["search_id"]:
        raise LogError(f"{second}: not the second measurement of search '{events[0]['search_id']}'")
    sessions = {e["session"]["session_id"] for e in events if e["kind"] == "session_started"}
    if any(e["kind"] == "session_started" and e["session"]["session_id"] in sessions for e in more):
        raise LogError(f"{log}: holds the events of {second} already")
    yield from events
    kept = [event for event in more if event["kind"] != "second_started"]
    for index, event in enumerate(kept, len(events)):
        yield {**event, "index": index}


def join_folder(raw: Path, second: Path, out: Path) -> int:
    """Write OUT/SEARCH_ID/events.jsonl.gz for every search of RAW, with its second measurement where there is one.

    Returns how many have one. The files are the same bytes every time. Raises FileExistsError if one is there already.
    """
    joined = 0
    for path in find_logs(raw):
        name = path.parent.name
        again = second / name / SECOND_NAME
        events = list(join(path, again)) if again.is_file() else read_any(path)[0]
        joined += again.is_file()
        target = out / name / "events.jsonl.gz"
        if target.exists():
            raise FileExistsError(f"{target} exists already; give another --out")
        target.parent.mkdir(parents=True, exist_ok=True)
        text = "".join(json.dumps(event, ensure_ascii=False, allow_nan=False) + "\n" for event in events)
        target.write_bytes(gzip.compress(text.encode(), mtime=0))
    return joined
