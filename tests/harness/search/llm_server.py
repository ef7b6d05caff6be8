"""A server on the loopback interface that speaks the chat protocol: each request gets the next of the given answers."""

from __future__ import annotations

import json
import threading
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any


@dataclass(frozen=True)
class Answer:
    """What to say: a completion's text, or a raw body, a status, a wait before it."""

    text: str | None = ""
    finish: str = "stop"
    raw: bytes | None = None
    status: int = 200
    wait_s: float = 0.0


@dataclass
class Served:
    """Where the server is and what it was asked."""

    url: str = ""
    requests: list[dict[str, Any]] = field(default_factory=list)


def completion(answer: Answer, model: str = "m") -> dict[str, Any]:
    """Return a chat completion as an endpoint words it."""
    return {
        "id": "chatcmpl-1", "object": "chat.completion", "created": 0, "model": model,
        "choices": [
            {"index": 0, "finish_reason": answer.finish, "message": {"role": "assistant", "content": answer.text}}
        ],
        "usage": {"prompt_tokens": 100, "completion_tokens": 20, "total_tokens": 120},
    }  # fmt: skip


@contextmanager
def serve(answers: Sequence[Answer]) -> Iterator[Served]:
    """Answer requests in turn; the last answer repeats."""
    served, lock = Served(), threading.Lock()

    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def do_POST(self) -> None:
            body = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
            with lock:
                number = len(served.requests)
                served.requests.append({"path": self.path, **body})
            answer = answers[min(number, len(answers) - 1)]
            time.sleep(answer.wait_s)
            text = answer.raw if answer.raw is not None else json.dumps(completion(answer, body["model"])).encode()
            try:
                self.send_response(answer.status)
                self.send_header("Content-Type", "application/json")
                self.send_header("Content-Length", str(len(text)))
                self.send_header("Retry-After", "0")
                self.end_headers()
                self.wfile.write(text)
            except BrokenPipeError:
                pass  # the client did not wait

        def log_message(self, format: str, *arguments: Any) -> None:
            pass

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    served.url = f"http://127.0.0.1:{server.server_address[1]}/v1"
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01}, daemon=True)
    thread.start()
    try:
        yield served
    finally:
        server.shutdown()
        server.server_close()
        thread.join()
