from __future__ import annotations

import socket
import struct
import threading
import time

import pytest

from harness.measure.protocol import MAX_MESSAGE_BYTES, Channel, DeadlinePassed, PeerGone, ProtocolError


@pytest.fixture
def ends():
    left, right = socket.socketpair()
    yield Channel(left), Channel(right)
    left.close()
    right.close()


def test_a_message_arrives_whole(ends):
    message = {"text": "x" * 300_000, "numbers": [1, 2.5, None]}
    threading.Thread(target=ends[0].send, args=(message,)).start()
    assert ends[1].receive(time.monotonic() + 5) == message


def test_a_silent_peer_passes_the_deadline(ends):
    started = time.monotonic()
    with pytest.raises(DeadlinePassed):
        ends[1].receive(started + 0.1)
    assert time.monotonic() - started < 2


def test_a_peer_that_drips_bytes_cannot_stretch_the_deadline(ends):
    def drip():
        for _ in range(40):
            try:
                ends[0].sock.send(b"\0")
            except OSError:
                return
            time.sleep(0.02)

    threading.Thread(target=drip, daemon=True).start()
    started = time.monotonic()
    with pytest.raises((DeadlinePassed, ProtocolError)):
        while True:
            ends[1].receive(started + 0.3)
    assert time.monotonic() - started < 2


def test_what_arrived_before_a_deadline_is_kept(ends):
    body = b'{"a": 1}'
    for part in (struct.pack("!I", len(body))[:2], struct.pack("!I", len(body))[2:] + body[:3]):
        ends[0].sock.sendall(part)
        with pytest.raises(DeadlinePassed):
            ends[1].receive(time.monotonic() + 0.02)
    ends[0].sock.sendall(body[3:] + b"next")
    assert ends[1].receive(time.monotonic() + 5) == {"a": 1}
    assert ends[1].sock.recv(10) == b"next"


def test_a_closed_peer_is_gone(ends):
    ends[0].close()
    with pytest.raises(PeerGone):
        ends[1].receive()


@pytest.mark.parametrize("body", [b"[1]", b"not json", b"\xff\xfe"])
def test_what_is_not_an_object_is_refused(ends, body):
    ends[0].sock.sendall(struct.pack("!I", len(body)) + body)
    with pytest.raises(ProtocolError):
        ends[1].receive(time.monotonic() + 5)


def test_a_message_over_the_limit_is_refused_unread(ends):
    ends[0].sock.sendall(struct.pack("!I", MAX_MESSAGE_BYTES + 1))
    with pytest.raises(ProtocolError, match="over the limit"):
        ends[1].receive(time.monotonic() + 5)
    with pytest.raises(ProtocolError, match="over the limit"):
        ends[0].send({"text": "x" * MAX_MESSAGE_BYTES})
