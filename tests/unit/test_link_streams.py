"""Transports over real sockets and pseudo-terminals."""

from __future__ import annotations

import os
import socket
import time
from collections.abc import Iterator
from contextlib import closing

import pytest
import serial

from harness import InfrastructureError, LinkError, TransportClosedError, open_port
from harness.link.transports import PolledSerialTransport, SocketTransport
from harness.testing import Transport


class Peer:
    """The other end of a transport, by file descriptor."""

    def __init__(self, descriptor: int) -> None:
        self.descriptor = descriptor

    def send(self, data: bytes) -> None:
        assert os.write(self.descriptor, data) == len(data)

    def receive(self, count: int) -> bytes:
        data = b""
        while len(data) < count:
            data += os.read(self.descriptor, count - len(data))
        return data

    def close(self) -> None:
        os.close(self.descriptor)


def socket_pair() -> tuple[SocketTransport, Peer]:
    ours, theirs = socket.socketpair()
    return SocketTransport(ours), Peer(theirs.detach())


def terminal_pair() -> tuple[Transport, Peer]:
    master, slave = os.openpty()
    with closing(Peer(slave)):
        return open_port(os.ttyname(slave), 115_200), Peer(master)


def polled_terminal_pair() -> tuple[Transport, Peer]:
    """What serial ports use on Windows, over pyserial alone."""
    master, slave = os.openpty()
    with closing(Peer(slave)):
        return PolledSerialTransport(serial.Serial(os.ttyname(slave), 115_200)), Peer(master)


@pytest.fixture(params=[socket_pair, terminal_pair, polled_terminal_pair])
def pair(request: pytest.FixtureRequest) -> Iterator[tuple[Transport, Peer]]:
    transport, peer = request.param()
    yield transport, peer
    transport.close()


def test_bytes_pass_unchanged_both_ways(pair: tuple[Transport, Peer]) -> None:
    transport, peer = pair
    everything = bytes(range(256))
    peer.send(everything)
    assert transport.read(1) == everything, "in one go"
    transport.write(everything, 1)
    assert peer.receive(256) == everything


def test_a_read_that_finds_nothing_takes_its_time(
    pair: tuple[Transport, Peer],
) -> None:
    transport, _ = pair
    assert transport.read(0) == b""
    began = time.monotonic()
    assert transport.read(0.1) == b""
    assert time.monotonic() - began > 0.09


def test_a_write_that_nobody_takes_ends_at_its_deadline(pair: tuple[Transport, Peer]) -> None:
    transport, _ = pair
    with pytest.raises(LinkError, match=r"4000000 bytes to the target timed out after 0\.1 s"):
        transport.write(bytes(4_000_000), 0.1)


def test_a_peer_that_leaves(pair: tuple[Transport, Peer]) -> None:
    transport, peer = pair
    peer.send(b"bye")
    assert transport.read(1) == b"bye"
    peer.close()
    with pytest.raises(TransportClosedError):
        transport.read(1)
    assert transport.ended  # type: ignore[attr-defined]


def test_writing_to_a_peer_that_has_left(pair: tuple[Transport, Peer]) -> None:
    transport, peer = pair
    peer.close()
    with pytest.raises(TransportClosedError):
        transport.write(b"x", 1)


def test_closing_twice_does_nothing_and_reading_then_says_so(pair: tuple[Transport, Peer]) -> None:
    transport, _ = pair
    transport.close()
    transport.close()
    with pytest.raises(TransportClosedError):
        transport.read(0.1)
    with pytest.raises(TransportClosedError):
        transport.write(b"x", 0.1)


def test_a_port_that_is_not_there() -> None:
    with pytest.raises(InfrastructureError, match="cannot open the serial port /dev/nowhere") as e:
        open_port("/dev/nowhere", 115_200)
    assert e.value.exit_code == 75
    assert e.value.hint


def test_a_port_that_is_taken() -> None:
    master, slave = os.openpty()
    with closing(Peer(master)), closing(Peer(slave)):
        path = os.ttyname(slave)
        with (
            closing(open_port(path, 115_200)),
            pytest.raises(InfrastructureError, match="cannot open"),
        ):
            open_port(path, 115_200)
