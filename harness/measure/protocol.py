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
        self._held = bytearray()  # of a message that is not complete yet

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
        """Return the next message. Raises PeerGone, DeadlinePassed or ProtocolError.

        After DeadlinePassed it may be called again: what has arrived is kept.
        """
        self._hold(_HEADER.size, deadline)
        (size,) = _HEADER.unpack_from(self._held)
        if size > MAX_MESSAGE_BYTES:
            raise ProtocolError(f"a message of {size} bytes is over the limit of {MAX_MESSAGE_BYTES}")
        self._hold(_HEADER.size + size, deadline)
        body = bytes(self._held[_HEADER.size :])
        self._held.clear()
        try:
            message = json.loads(body)
        except (ValueError, RecursionError) as error:
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

    def _hold(self, size: int, deadline: float | None) -> None:
        """Receive until so many bytes are held, and none beyond: what follows may belong to somebody else."""
        while len(self._held) < size:
            self._arm(deadline)
            try:
                part = self.sock.recv(min(size - len(self._held), 1 << 16))
            except TimeoutError:
                raise DeadlinePassed from None
            except OSError as error:
                raise PeerGone(str(error)) from None
            if not part:
                raise PeerGone("end of stream")
            self._held += part

    def close(self) -> None:
        self.sock.close()
