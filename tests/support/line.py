"""A serial line in virtual time between a host's session and the device's own server.

The device is the C server, whose port takes as long to send as a polled UART would. Between its
UART and the host stands a USB adapter, which hands over what it receives in packets.
"""

from __future__ import annotations

import ctypes as ct
import random
from collections import deque
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from harness import TransportClosedError
from harness.testing.simulated_board import VirtualClock
from tests.support.c_server import BAUDS, CServer

BITS_PER_BYTE = 10
CLOCK_HZ = 1000
"""What the C server is told of its clock."""
_PACKET = 62
"""Bytes that an adapter's USB packet carries."""
_LOOK = 8
"""The device looks at its UART when so many bytes have come, or no more do."""


@dataclass(frozen=True)
class Wire:
    """What a line is like.

    Attributes:
        baud: Bits per second, ten to a byte.
        latency_s: The adapter holds back an incomplete packet for so long.
        usb_s: Time between two looks of the host at the adapter, and of the adapter at the host.
        ring: Bytes the device keeps between two looks at its UART; what comes on top is lost.
        damaged: Share of the frames of either direction of which a bit is inverted.
        seed: Of what is damaged.
    """

    baud: int = 921_600
    latency_s: float = 0.001
    usb_s: float = 0.000_125
    ring: int = 256
    damaged: float = 0.0
    seed: int = 0

    @property
    def byte_s(self) -> float:
        """How long a byte takes."""
        return BITS_PER_BYTE / self.baud


class WiredServer(CServer):
    """The device's end of a line: its time is ``now``.

    Attributes:
        now: Seconds.
        overrun: Bytes that came while its ring was full.
        damaged: Frames damaged in both directions.
        sent: Bytes it has sent.
    """

    def __init__(self, library: ct.CDLL, wire: Wire, **memory: int) -> None:
        self.wire = wire
        self.now = self._zero = 0.0
        self.overrun = self.damaged = self.sent = 0
        self.host_baud = BAUDS[0]
        """The rate of the other end; what comes at another rate than one's own is noise."""
        self.losing_to: Iterator[bool] = iter(())
        self.losing_from: Iterator[bool] = iter(())
        """Which of the next frames in that direction are lost."""
        self.arriving: deque[tuple[float, bytes, int]] = deque()
        """Looks at the UART to come: when, at what, and at which rate."""
        self.leaving: deque[tuple[float, bytes]] = deque()
        """Packets for the host: when they are with it, and what they hold."""
        self._line_free = 0.0
        self._random = random.Random(wire.seed)
        self._held, self._held_since = b"", 0.0
        super().__init__(library, **memory)

    def _damage(self, data: bytes) -> bytes:
        if self._random.random() >= self.wire.damaged:
            return data
        self.damaged += 1
        changed = bytearray(data)
        changed[self._random.randrange(len(data))] ^= 1 << self._random.randrange(8)
        return bytes(changed)

    def _noise(self, data: bytes) -> bytes:
        return self._random.randbytes(len(data))

    def _ticks(self, _context: int | None) -> int:
        return int((self.now - self._zero) * CLOCK_HZ) & 0xFFFFFFFF

    def _restart(self, _context: int | None) -> None:
        super()._restart(_context)
        self._zero = self.now

    def poll(self) -> bool:
        """One step. One that only waits for time to pass takes a millisecond."""
        before = (len(self.arriving), len(self._received), self.sent)
        busy = super().poll()
        if busy and before == (len(self.arriving), len(self._received), self.sent):
            self.now += 1e-3
        return busy

    def hear(self, at: float, data: bytes) -> float:
        """Put what the host sends at a time on the line; return when the last byte is over."""
        wire = self.wire
        data = b"" if next(self.losing_to, False) else self._damage(data)
        start = max(self._line_free, at + wire.usb_s)
        for place in range(0, len(data), _LOOK):
            piece = data[place : place + _LOOK]
            at = start + (place + len(piece)) * wire.byte_s
            self.arriving.append((at, piece, self.host_baud))
        self._line_free = start + len(data) * wire.byte_s
        return self._line_free

    def arrive(self) -> None:
        """Take into the ring what has come by now."""
        while self.arriving and self.arriving[0][0] <= self.now:
            _, piece, baud = self.arriving.popleft()
            if baud != self.baud:
                piece = self._noise(piece)
            room = self.wire.ring - len(self._received)
            self._received += piece[:room]
            self.overrun += max(0, len(piece) - room)

    def _read(self, _context: int | None, out: Any, size: int) -> int:
        self.arrive()
        return super()._read(_context, out, size)

    def _write(self, _context: int | None, data: Any, size: int) -> None:
        self.put(ct.string_at(data, size))

    def put(self, sent: bytes) -> None:
        """Send, and wait until the last byte is out."""
        wire, size = self.wire, len(sent)
        self.sent += size
        lost = next(self.losing_from, False)
        damaged = b"" if lost else self._damage(sent)
        if self.baud != self.host_baud:
            damaged = self._noise(damaged)
        for place in range(0, len(damaged), _PACKET):
            piece = damaged[place : place + _PACKET]
            self._leave(self.now + (place + len(piece)) * wire.byte_s, piece)
        self.now += size * wire.byte_s

    def _leave(self, at: float, piece: bytes) -> None:
        """Bytes reach the adapter, which holds them until its packet is full or time is over."""
        self._hand_over(at)
        self._held_since = self._held_since if self._held else at
        self._held += piece
        if len(self._held) >= _PACKET:
            self.leaving.append((at + self.wire.usb_s, self._held[:_PACKET]))
            self._held, self._held_since = self._held[_PACKET:], at

    def _hand_over(self, now: float) -> None:
        due = self._held_since + self.wire.latency_s
        if self._held and due <= now:
            self.leaving.append((due + self.wire.usb_s, self._held))
            self._held = b""

    def _ready(self) -> float:
        """When the host will have something to read, should nothing else be sent."""
        if self.leaving:
            return self.leaving[0][0]
        return self._held_since + self.wire.latency_s if self._held else float("inf")

    def work_until(self, limit: float) -> None:
        """Let it work until then, or until the host has something to read."""
        while self.now < min(limit, self._ready()):
            if not self.poll():
                upcoming = self.arriving[0][0] if self.arriving else limit
                self.now = max(self.now, min(upcoming, limit, self._ready()))
        self._hand_over(min(self.now, limit))


class Line:
    """The host's end: a transport in virtual time.

    Attributes:
        clock: The host's.
        device: The other end.
        sent: Bytes the host has sent.
    """

    def __init__(self, device: WiredServer) -> None:
        self.clock = VirtualClock()
        self.device = device
        self.sent = 0
        self._closed = False

    def read(self, timeout: float) -> bytes:
        if self._closed:
            raise TransportClosedError("the line was closed")
        limit = self.clock.after(timeout)
        device = self.device
        device.work_until(limit)
        if not device.leaving or device.leaving[0][0] > limit:
            self.clock.wait_until(limit)
            return b""
        self.clock.wait_until(device.leaving[0][0])
        arrived = []
        while device.leaving and device.leaving[0][0] <= self.clock.now:
            arrived.append(device.leaving.popleft()[1])
        return b"".join(arrived)

    def write(self, data: bytes, timeout: float) -> None:
        if self._closed:
            raise TransportClosedError("the line was closed")
        self.sent += len(data)
        self.device.hear(self.clock.now, data)

    @property
    def baud(self) -> int:
        return self.device.host_baud

    def set_baud(self, baud: int) -> None:
        self.device.host_baud = baud

    def close(self) -> None:
        self._closed = True
