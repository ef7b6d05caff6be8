"""Framed JSON messages over a socket: a length, then text. Nothing is ever unpickled, and a size limit holds."""

from __future__ import annotations

import json
import socket
import struct
import time
from typing import Any

MAX_MESSAGE_BYTES = 4 << 20
_HEADER = struct.Struct("!I")


class PeerGone(ConnectionError):
    """The other side closed its end, or died."""


class DeadlinePassed(TimeoutError):
    """No complete message arrived before the deadline."""


class ProtocolError(ValueError):
    """The other side sent what is not a message."""


class Channel:
    """One end of a stream socket that carries messages in both directions."""

    def __init__(self, sock: socket.socket) -> None:
        self.sock = sock

    def send(self, message: dict[str, Any], deadline: float | None = None) -> None:
        """Send one message; `deadline` is a time.monotonic() value. Raises PeerGone or DeadlinePassed."""
        body = json.dumps(message, allow_nan=False).encode()
        if len(body) > MAX_MESSAGE_BYTES:
            raise ProtocolError(f"a message of {len(body)} bytes is over the limit of {MAX_MESSAGE_BYTES}")
        self._arm(deadline)
        try:
            self.sock.sendall(_HEADER.pack(len(body)) + body)
        except TimeoutError:
            raise DeadlinePassed from None
        except OSError as error:
            raise PeerGone(str(error)) from None

    def receive(self, deadline: float | None = None) -> dict[str, Any]:
        """Return the next message. Raises PeerGone, DeadlinePassed or ProtocolError."""
        (size,) = _HEADER.unpack(self._exactly(_HEADER.size, deadline))
        if size > MAX_MESSAGE_BYTES:
            raise ProtocolError(f"a message of {size} bytes is over the limit of {MAX_MESSAGE_BYTES}")
        try:
            message = json.loads(self._exactly(size, deadline))
        except ValueError as error:
            raise ProtocolError(f"not JSON: {error}") from None
        if not isinstance(message, dict):
            raise ProtocolError("a message must be a JSON object")
        return message

    def _arm(self, deadline: float | None) -> None:
        if deadline is None:
            self.sock.settimeout(None)
            return
        left = deadline - time.monotonic()
        if left <= 0:
            raise DeadlinePassed
        self.sock.settimeout(left)

    def _exactly(self, size: int, deadline: float | None) -> bytes:
        parts: list[bytes] = []
        while size:
            self._arm(deadline)
            try:
                part = self.sock.recv(min(size, 1 << 16))
            except TimeoutError:
                raise DeadlinePassed from None
            except OSError as error:
                raise PeerGone(str(error)) from None
            if not part:
                raise PeerGone("end of stream")
            parts.append(part)
            size -= len(part)
        return b"".join(parts)

    def close(self) -> None:
        self.sock.close()
