"""Batches as files: requests in the OpenAI batch format, and answers from such a file, matched by id."""

from __future__ import annotations

import hashlib
import json
import os
from collections.abc import Mapping, Sequence
from pathlib import Path
from types import SimpleNamespace
from typing import Any

from benchmark.query import Forecast, Query
from harness.surrogates.answer_log import Told
from harness.surrogates.foreign import SurrogateError
from harness.surrogates.lm.endpoint import Misshapen, read_completion
from harness.surrogates.lm.parsing import parse_answer
from harness.surrogates.lm.remote import RemoteModel, told

URL = "/v1/chat/completions"


def custom_id(query: Query, body: Mapping[str, Any]) -> str:
    """Return the id of a request: the query's, and a hash of what is asked, so that another prompt is another id."""
    digest = hashlib.sha256(json.dumps(body, sort_keys=True).encode()).hexdigest()
    return f"{query.query_id}-{digest[:12]}"


def export_batch(model: RemoteModel, queries: Sequence[Query], path: Path, overwrite: bool = False) -> None:
    """Write one request per line for each query; the file appears whole or not at all. Raises FileExistsError."""
    if path.exists() and not overwrite:
        raise FileExistsError(f"'{path}' exists already; give another name, or --overwrite to replace it")
    partial = path.with_name(path.name + ".partial")
    with partial.open("w", encoding="utf-8") as file:
        for query in queries:
            body = model.body(query)
            line = {"custom_id": custom_id(query, body), "method": "POST", "url": URL, "body": body}
            file.write(json.dumps(line, ensure_ascii=False) + "\n")
    os.replace(partial, path)


class ImportedAnswers:
    """A model's answers from a file of the OpenAI batch format, in the place of the model."""

    information = RemoteModel.information
    training_data = RemoteModel.training_data
    batch = 64

    def __init__(self, model: RemoteModel, path: Path) -> None:
        """Read the file. Raises SurrogateError for a line that is no answer, or two that contradict each other."""
        self._model, self._path = model, path
        self.details = model.details
        self._lines = _read(path)
        content = hashlib.sha256(path.read_bytes()).hexdigest()[:16]
        self.fingerprint = f"{model.fingerprint} {content}"

    def require_match(self, queries: Sequence[Query]) -> str:
        """Return one line that says how many queries have an answer. Raises SurrogateError if none has."""
        wanted = {custom_id(query, self._model.body(query)) for query in queries}
        matched = len(wanted & self._lines.keys())
        if not matched:
            raise SurrogateError(
                f"{self._path}: none of its {len(self._lines)} ids belongs to these queries and this prompt, such as "
                f"'{min(wanted, default='')}'; export and import with the same surrogate, options, track and split"
            )
        strange = len(self._lines) - matched
        return f"{self._path}: answers to {matched} of {len(wanted)} queries; {strange} other ids passed over"

    def forecast(self, queries: Sequence[Query]) -> list[Forecast]:
        """Return the forecasts that the file has; a query without an answer there has the status `error`."""
        return [self._forecast(query) for query in queries]

    def _forecast(self, query: Query) -> Forecast:
        line = self._lines.get(custom_id(query, self._model.body(query)))
        if line is None:
            return Told(None, status="error", raw="the file has no answer")
        response = line.get("response")
        if not isinstance(response, Mapping) or response.get("status_code", 200) != 200:
            return Told(None, status="error", raw=f"no answer in the file: {json.dumps(line.get('error'))[:300]}")
        try:
            reply = read_completion(_attributes(response.get("body")))
        except Misshapen as error:
            return Told(None, status="error", raw=f"the file {error}")
        return told([(reply, parse_answer(reply.said))], None)


def _read(path: Path) -> dict[str, dict[str, Any]]:
    lines: dict[str, dict[str, Any]] = {}
    with path.open(encoding="utf-8") as file:
        for number, text in enumerate(file, start=1):
            if not text.strip():
                continue
            try:
                line = json.loads(text)
                key = line["custom_id"]
            except (ValueError, KeyError, TypeError):
                problem = f"{path}, line {number}: no JSON object with a custom_id"
                raise SurrogateError(f"{problem}; expected answers in the OpenAI batch format") from None
            if not isinstance(key, str) or ("response" not in line and "error" not in line):
                problem = f"{path}, line {number}: no answer, 'response' and 'error' are missing"
                raise SurrogateError(f"{problem}; is this the file of requests?")
            if key in lines and lines[key].get("response") != line.get("response"):
                raise SurrogateError(f"{path}, line {number}: another answer to '{key}' came before; keep one of them")
            lines[key] = line
    return lines


def _attributes(value: Any) -> Any:
    """JSON values with attributes in place of keys, as the client's objects have them."""
    if isinstance(value, dict):
        return SimpleNamespace(**{str(key): _attributes(item) for key, item in value.items()})
    return [_attributes(item) for item in value] if isinstance(value, list) else value
