"""Queries, and a loopback server that speaks the chat-completion protocol, streamed and whole."""

from __future__ import annotations

import json
import threading
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

import pytest

from benchmark.query import Query
from harness.surrogates.lm.tool import FIELDS, TOOL_NAME

FACTS = {
    "cases": [
        {"case_id": "4x4", "bytes": 64, "flops": 16, "timing": False, "params": {"shape": [4, 4], "dtype": "float32"}},
        {"case_id": "8x9", "bytes": 288, "flops": 72, "timing": True, "params": {"shape": [8, 9], "dtype": "bfloat16"}},
    ]
}
P = (0.05, 0.05, 0.1, 0.3, 0.3, 0.1, 0.05, 0.05)


def make_query(n: int = 0, **changes: Any) -> Query:
    values: dict[str, Any] = {
        "query_id": f"p-{n:016x}",
        "track": "pairs",
        "task": "scale",
        "statement": "Double a matrix.",
        "anchor_kind": "parent",
        "anchor_code": "def custom_kernel(data):\n    return data * 2\n",
        "candidate_code": f"def custom_kernel(data):\n    return data + data  # {n}\n",
        "anchor_time_us": 12.5,
        "hardware": "NVIDIA H200",
        "facts": FACTS,
    }
    return Query(**{**values, **changes})


def arguments(p: Sequence[Any] = P) -> str:
    return json.dumps(dict(zip(FIELDS, p, strict=True)))


def completion(
    text: str | None = None, calls: Sequence[tuple[str, str]] = (), finish: str = "stop", usage: bool = True
) -> dict[str, Any]:
    """Return the body of a chat completion."""
    message: dict[str, Any] = {"role": "assistant", "content": text}
    if calls:
        message["tool_calls"] = [
            {"id": f"call-{i}", "type": "function", "function": {"name": name, "arguments": args}}
            for i, (name, args) in enumerate(calls)
        ]
    body: dict[str, Any] = {
        "id": "c-1", "object": "chat.completion", "created": 1, "model": "m",
        "choices": [{"index": 0, "message": message, "finish_reason": finish}],
    }  # fmt: skip
    if usage:
        body["usage"] = {"prompt_tokens": 100, "completion_tokens": 20, "total_tokens": 120}
    return body


def good() -> dict[str, Any]:
    return completion(calls=[(TOOL_NAME, arguments())], finish="tool_calls")


@dataclass
class Answer:
    """What the server does with one request: a status, headers and a body, or else the lines of a stream."""

    body: Any = None
    status: int = 200
    headers: Mapping[str, str] = field(default_factory=dict)
    delay_s: float = 0.0
    stream: Sequence[str] | None = None


Script = Callable[[int, dict[str, Any]], Answer]


class Server(ThreadingHTTPServer):
    """Answers request n, counted from 0, as its script says; keeps what it was asked."""

    daemon_threads = True

    def __init__(self, script: Script) -> None:
        super().__init__(("127.0.0.1", 0), Handler)
        self.script = script
        self.requests: list[dict[str, Any]] = []
        self.keys: list[str] = []
        self.lock = threading.Lock()

    @property
    def base_url(self) -> str:
        return f"http://127.0.0.1:{self.server_address[1]}/v1"

    def handle_error(self, request: Any, client_address: Any) -> None:
        """A client that went away is part of the tests."""


class Handler(BaseHTTPRequestHandler):
    server: Server

    def do_POST(self) -> None:
        request = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
        with self.server.lock:
            number = len(self.server.requests)
            self.server.requests.append(request)
            self.server.keys.append(self.headers.get("Authorization", ""))
        answer = self.server.script(number, request) if self.path == "/v1/chat/completions" else Answer({}, 404)
        threading.Event().wait(answer.delay_s)
        if answer.stream is not None:
            payload, kind = "".join(f"data: {line}\n\n" for line in answer.stream).encode(), "text/event-stream"
        elif isinstance(answer.body, str):
            payload, kind = answer.body.encode(), "text/html"
        else:
            payload, kind = json.dumps(answer.body).encode(), "application/json"
        self.send_response(answer.status)
        self.send_header("Content-Type", kind)
        self.send_header("Content-Length", str(len(payload)))
        for name, value in answer.headers.items():
            self.send_header(name, value)
        self.end_headers()
        self.wfile.write(payload)

    def log_message(self, format: str, *args: Any) -> None:
        """Say nothing."""


@pytest.fixture
def serve(monkeypatch: pytest.MonkeyPatch) -> Iterator[Callable[[Script], Server]]:
    """Give a function that starts a server for a script."""
    monkeypatch.setenv("KERNELCAST_API_KEY", "sk-secret-for-tests")
    monkeypatch.delenv("OPENAI_BASE_URL", raising=False)
    servers: list[Server] = []

    def start(script: Script) -> Server:
        server = Server(script)
        servers.append(server)
        threading.Thread(target=server.serve_forever, args=(0.02,), daemon=True).start()
        return server

    yield start
    for server in servers:
        server.shutdown()
        server.server_close()
