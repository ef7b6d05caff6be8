"""Answers that survive an interruption: an append-only JSONL file, one line for each query that was answered.

A line is `{"key", "query_id", "repeat", "forecast", "raw"?}`. The key is a hash of the surrogate's configuration and of
everything in the query, so that a log may hold the answers of several configurations, tracks and datasets, and a
changed prompt, option or kernel is a miss and never a stale answer. What is kept is what the surrogate said: `ok`,
`unparsed` and `refused`. The status `error` (it raised, hung, or could not be reached) is never kept, so the next run
asks again. A line is flushed to disk before its answer counts; a last line that was cut is dropped and asked again.

A surrogate that wants its raw output kept returns `Told` in place of `Forecast`; one that cannot go on at all (endpoint
down, key refused) raises `harness.surrogates.foreign.Unavailable`, which ends the run and keeps what there is.
"""

from __future__ import annotations

import fcntl
import hashlib
import json
import os
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import asdict, dataclass, fields
from pathlib import Path
from threading import Lock
from types import TracebackType
from typing import Any

from benchmark.query import Forecast, Query
from harness.surrogates.foreign import SurrogateError

KEPT = ("ok", "unparsed", "refused")
SUFFIX = ".answers.jsonl"


@dataclass(frozen=True)
class Told(Forecast):
    """A forecast with the raw output that it was read from, as JSON values: text, tool call, logits, finish reason."""

    raw: Any = None


class AnswerLog:
    """The answers of one surrogate configuration in a log file, which is created by the first answer.

    Use it as a context manager, or call `close`. Safe to use from several threads, and by several runs that share it.
    """

    def __init__(self, path: Path, configuration: Mapping[str, Any]) -> None:
        """Open the log at `path` for a configuration (JSON values). Raises SurrogateError for a broken line."""
        self.path = path
        self._configuration = json.dumps(configuration, sort_keys=True, allow_nan=False)
        self._lock = Lock()
        self._file: Any = None
        self._answers = _read(path)

    def key(self, query: Query, repeat: int = 0) -> str:
        """Return the hash that stands for this configuration, query and repeat."""
        content = json.dumps(asdict(query), sort_keys=True)
        return hashlib.sha256(f"{self._configuration}\0{repeat}\0{content}".encode()).hexdigest()[:32]

    def get(self, query: Query, repeat: int = 0) -> Forecast | None:
        """Return the answer that is kept for a query, or None."""
        return self._answers.get(self.key(query, repeat))

    def put(self, query: Query, forecast: Forecast, repeat: int = 0) -> None:
        """Keep an answer, on disk when this returns; one with the status `error` is left out."""
        self.put_all([(query, forecast)], repeat)

    def put_all(self, answered: Iterable[tuple[Query, Forecast]], repeat: int = 0) -> None:
        """Keep several answers, as `put` does, in one write."""
        lines = []
        for query, forecast in answered:
            if forecast.status not in KEPT:
                continue
            key = self.key(query, repeat)
            line = {"key": key, "query_id": query.query_id, "repeat": repeat, "forecast": _to_json(forecast)}
            if isinstance(forecast, Told) and forecast.raw is not None:
                line["raw"] = forecast.raw
            lines.append(json.dumps(line, allow_nan=False, ensure_ascii=False) + "\n")
            self._answers[key] = forecast
        if not lines:
            return
        with self._lock:
            if self._file is None:
                self._file = self._open()
            with _alone(self._file):
                self._file.write("".join(lines).encode())
                self._file.flush()
                os.fsync(self._file.fileno())

    @property
    def holds_raw(self) -> bool:
        """Whether any answer came with raw output: then the log is a record, and worth keeping after the run."""
        return any(isinstance(answer, Told) and answer.raw is not None for answer in self._answers.values())

    def __len__(self) -> int:
        return len(self._answers)

    def close(self) -> None:
        """Close the file; a log without an answer leaves none behind."""
        if self._file is not None:
            self._file.close()
            self._file = None

    def __enter__(self) -> AnswerLog:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        self.close()

    def _open(self) -> Any:
        self.path.parent.mkdir(parents=True, exist_ok=True)
        file = self.path.open("ab")
        with _alone(file):
            # Another run may have added answers since this one read the log: only a line that was cut goes.
            file.truncate(_sound_bytes(self.path.read_bytes()))
        return file


@contextmanager
def _alone(file: Any) -> Iterator[None]:
    """Keep the other runs that share a log from writing to it until the block ends."""
    fcntl.flock(file, fcntl.LOCK_EX)
    try:
        yield
    finally:
        fcntl.flock(file, fcntl.LOCK_UN)


def beside(out: Path) -> Path:
    """Return where the log of an output file or folder lies: next to it, under its name."""
    return out.with_name(out.name + SUFFIX)


def _to_json(forecast: Forecast) -> dict[str, Any]:
    """Return the fields that are given; numbers of numpy become those of JSON."""
    values = {f.name: getattr(forecast, f.name) for f in fields(Forecast)}
    given = {name: value for name, value in values.items() if value is not None}
    if forecast.probabilities is not None:
        given["probabilities"] = [float(p) for p in forecast.probabilities]
    for name in ("log2_speedup", "rank_score", "p_fail", "seconds"):
        if name in given:
            given[name] = float(given[name])
    for name in ("input_tokens", "output_tokens"):
        if name in given:
            given[name] = int(given[name])
    return given


def _sound_bytes(data: bytes) -> int:
    """Return the length of the whole lines."""
    return data.rfind(b"\n") + 1


def _read(path: Path) -> dict[str, Forecast]:
    """Return the answers of a log by key, the latest of each."""
    if not path.is_file():
        return {}
    data = path.read_bytes()
    answers = {}
    for number, line in enumerate(data[: _sound_bytes(data)].splitlines(), start=1):
        try:
            row = json.loads(line)
            values = {"probabilities": None, **row["forecast"]}
            if values["probabilities"] is not None:
                values["probabilities"] = tuple(values["probabilities"])
            answers[row["key"]] = Told(raw=row["raw"], **values) if "raw" in row else Forecast(**values)
        except (ValueError, KeyError, TypeError) as error:
            problem = f"{path}, line {number}: not an answer ({type(error).__name__}: {error})"
            raise SurrogateError(f"{problem}; remove the file to ask again") from None
    return answers
