"""A loopback server that speaks the Hub's endpoints, as far as pushing and downloading a dataset needs them."""

from __future__ import annotations

import base64
import hashlib
import json
import re
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any
from urllib.parse import unquote, urlsplit


@dataclass
class HubServer:
    """Repositories by name, each with its files.

    `cut` gives how many bytes of a path are sent before hanging up; `cuts` how often that happens, for good if absent.
    """

    url: str = ""
    repositories: dict[str, dict[str, bytes]] = field(default_factory=dict)
    blobs: dict[str, bytes] = field(default_factory=dict)
    cut: dict[str, int] = field(default_factory=dict)
    cuts: dict[str, int] = field(default_factory=dict)
    swapped: dict[str, bytes] = field(default_factory=dict)  # sent instead of the content that was announced
    sent: list[tuple[str, int]] = field(default_factory=list)  # path, first byte
    commits: list[str] = field(default_factory=list)

    def revision(self, name: str) -> str:
        """Return the commit of a repository: a hash of its files."""
        text = repr(sorted((path, hashlib.sha256(data).hexdigest()) for path, data in self.repositories[name].items()))
        return hashlib.sha1(text.encode()).hexdigest()


def _etag(data: bytes) -> str:
    return hashlib.sha256(data).hexdigest()


class _Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    hub: HubServer

    def log_message(self, format: str, *args: Any) -> None:
        pass

    def _reply(self, status: int, body: Any = None, headers: dict[str, str] | None = None) -> None:
        data = b"" if body is None else json.dumps(body).encode()
        self.send_response(status)
        for name, value in {
            "Content-Type": "application/json",
            "Content-Length": str(len(data)),
            **(headers or {}),
        }.items():
            self.send_header(name, value)
        self.end_headers()
        self.wfile.write(data)

    def _missing(self, code: str) -> None:
        self._reply(404, {"error": code}, {"X-Error-Code": code, "X-Error-Message": code})

    def do_HEAD(self) -> None:
        self._resolve(head=True)

    def do_GET(self) -> None:
        path = unquote(urlsplit(self.path).path)
        if found := re.fullmatch(r"/api/datasets/([^/]+/[^/]+)/(revision|tree)/([^/]+)/?", path):
            name, kind, revision = found.groups()
            files = self.hub.repositories.get(name)
            if files is None:
                return self._missing("RepoNotFound")
            commit = self.hub.revision(name)
            if revision not in ("main", commit):
                return self._missing("RevisionNotFound")
            if kind == "tree":
                entries = [
                    {"type": "file", "path": p, "size": len(d), "oid": hashlib.sha1(d).hexdigest(),
                     "lfs": {"oid": _etag(d), "size": len(d), "pointerSize": 130}}
                    for p, d in sorted(files.items())
                ]  # fmt: skip
                return self._reply(200, entries)
            siblings = [{"rfilename": p} for p in sorted(files)]
            return self._reply(200, {"id": name, "sha": commit, "private": False, "gated": False, "disabled": False,
                                     "tags": [], "downloads": 0, "likes": 0, "siblings": siblings})  # fmt: skip
        return self._resolve(head=False)

    def _resolve(self, head: bool) -> None:
        found = re.fullmatch(r"/datasets/([^/]+/[^/]+)/resolve/([^/]+)/(.+)", unquote(urlsplit(self.path).path))
        files = self.hub.repositories.get(found[1]) if found else None
        if found is None or files is None:
            return self._missing("RepoNotFound")
        path = found[3]
        if path not in files:
            return self._missing("EntryNotFound")
        announced, data = files[path], self.hub.swapped.get(path, files[path])
        start = int(match[1]) if (match := re.fullmatch(r"bytes=(\d+)-.*", self.headers.get("Range", ""))) else 0
        body = data[start:]
        self.send_response(206 if start else 200)
        self.send_header("X-Repo-Commit", self.hub.revision(found[1]))
        self.send_header("ETag", f'"{_etag(announced)}"')
        self.send_header("X-Linked-Etag", f'"{_etag(announced)}"')
        self.send_header("X-Linked-Size", str(len(announced)))
        self.send_header("Content-Length", str(len(body)))
        if start:
            self.send_header("Content-Range", f"bytes {start}-{len(data) - 1}/{len(data)}")
        self.end_headers()
        if head:
            return None
        self.hub.sent.append((path, start))
        limit = self.hub.cut.get(path)
        left = self.hub.cuts.get(path, 1)
        if path in self.hub.cuts:
            self.hub.cuts[path] = left - 1
        if limit is not None and left > 0:
            self.wfile.write(body[:limit])
            self.wfile.flush()
            self.close_connection = True
            self.connection.shutdown(2)
            return None
        self.wfile.write(body)
        return None

    def _body(self) -> bytes:
        if self.headers.get("Transfer-Encoding") == "chunked":
            chunks = []
            while size := int(self.rfile.readline(), 16):
                chunks.append(self.rfile.read(size))
                self.rfile.readline()
            self.rfile.readline()
            return b"".join(chunks)
        return self.rfile.read(int(self.headers.get("Content-Length", 0)))

    def do_PUT(self) -> None:
        self.hub.blobs[self.path.rpartition("/")[2]] = self._body()
        self._reply(200, {})

    def do_POST(self) -> None:
        path, body = unquote(urlsplit(self.path).path), self._body()
        if path == "/api/repos/create":
            asked = json.loads(body)
            name = f"{asked.get('organization')}/{asked['name']}" if asked.get("organization") else asked["name"]
            self.hub.repositories.setdefault(name, {})
            return self._reply(200, {"url": f"{self.hub.url}/datasets/{name}", "name": name, "id": "1"})
        if path == "/api/validate-yaml":
            return self._reply(200, {"errors": [], "warnings": []})
        if found := re.fullmatch(r"/api/datasets/([^/]+/[^/]+)/preupload/[^/]+", path):
            files = [
                {"path": f["path"], "uploadMode": "lfs" if f["path"].endswith(".parquet") else "regular",
                 "shouldIgnore": False, "oid": None}
                for f in json.loads(body)["files"]
            ]  # fmt: skip
            return self._reply(200, {"files": files})
        if path.endswith(".git/info/lfs/objects/batch"):
            objects = [
                {"oid": o["oid"], "size": o["size"],
                 "actions": {"upload": {"href": f"{self.hub.url}/upload/{o['oid']}", "header": {}}}}
                for o in json.loads(body)["objects"]
            ]  # fmt: skip
            return self._reply(200, {"transfer": "basic", "objects": objects})
        if found := re.fullmatch(r"/api/datasets/([^/]+/[^/]+)/commit/[^/]+", path):
            files = self.hub.repositories[found[1]]
            for line in filter(None, body.split(b"\n")):
                entry = json.loads(line)
                value = entry["value"]
                if entry["key"] == "header":
                    self.hub.commits.append(value["summary"])
                elif entry["key"] == "file":
                    files[value["path"]] = base64.b64decode(value["content"])
                elif entry["key"] == "lfsFile":
                    files[value["path"]] = self.hub.blobs[value["oid"]]
            commit = self.hub.revision(found[1])
            address = f"{self.hub.url}/datasets/{found[1]}/commit/{commit}"
            return self._reply(200, {"success": True, "commitUrl": address, "commitOid": commit})
        return self._missing("RepoNotFound")


@contextmanager
def hub_server() -> Iterator[HubServer]:
    """Serve an empty hub on a free port of this machine until the block ends."""
    hub = HubServer()
    handler = type("Handler", (_Handler,), {"hub": hub})
    server = ThreadingHTTPServer(("127.0.0.1", 0), handler)
    server.daemon_threads = True
    hub.url = f"http://127.0.0.1:{server.server_address[1]}"
    thread = threading.Thread(target=server.serve_forever, daemon=True)
    thread.start()
    try:
        yield hub
    finally:
        server.shutdown()
        server.server_close()
