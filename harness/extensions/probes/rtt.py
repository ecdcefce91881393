"""The link through SEGGER's RTT: a debug probe moves bytes between rings in memory and the host.

    rtt+gdb://host:port?address=0x20000000              control block at this address
    rtt+gdb://host:port?address=0x20000000&size=65536   search this memory for it

Firmware may have several control blocks, and memory may hold the remains of one. A search takes the
first whose channel has the link's name, else the first with two rings.

For gdbservers, which halt the board for each access. J-Link, OpenOCD and pyOCD serve RTT as a TCP
port while the board runs; use ``socket://`` for these.
"""

from __future__ import annotations

import logging
import struct
import time
from dataclasses import dataclass
from typing import Final

from harness.errors import LinkError, PortError, ProbeError, TransportClosedError
from harness.extensions.probes.debug_probe import DebugProbe, GdbRemote, halted
from harness.link.transports import split_rtt

_log = logging.getLogger(__name__)

_ID: Final = b"SEGGER RTT\0\0\0\0\0\0"
_NAME: Final = b"etdump\0"
"""Name of the link's channels (``ports/rtt/etd_rtt.c``)."""
_COUNTS: Final = struct.Struct("<16sii")
_RING: Final = struct.Struct("<IIIIII")
_PUT, _TAKEN = 12, 16
"""Offsets of the two offsets in a ring's descriptor."""
_POLL_S: Final = 0.001
_START_S: Final = 2.0
"""Longest time until firmware has written its control block."""
_MOST_CHANNELS: Final = 64
_MOST_TAKEN: Final = 1 << 16
"""Most bytes of one read, so that its caller looks at its deadlines."""
MOST_RING: Final = 1 << 24
"""Largest ring, bytes: more than any microcontroller has for one."""


@dataclass(frozen=True, slots=True)
class RttRing:
    """A ring of the control block: where its descriptor, its name and its bytes are."""

    descriptor: int
    name_at: int
    bytes_at: int
    size: int


class RttTransport:
    """A byte stream over the first channel in each direction.

    Attributes:
        ended: True once the probe is known to be gone.
        statistics: What the probe has done to the board.
    """

    def __init__(self, probe: DebugProbe, address: int, size: int = 0) -> None:
        """Find the control block, which firmware that has just started may still have to write.

        Args:
            probe: The debug probe; closed with the transport.
            address: Address of the block, or of the memory to search.
            size: Bytes of memory to search; 0 if ``address`` is exact.

        Raises:
            PortError: There is no control block.
        """
        self.ended = False
        self._probe, self.statistics = probe, probe.statistics
        self._up, self._down = self._wait_for_rings(address, size)

    def _wait_for_rings(self, address: int, size: int) -> tuple[RttRing, RttRing]:
        deadline = time.monotonic() + _START_S
        while True:
            try:
                with halted(self._probe):
                    return self._search(address, size)
            except PortError:
                if time.monotonic() >= deadline:
                    raise
            time.sleep(_POLL_S)

    def _search(self, address: int, size: int) -> tuple[RttRing, RttRing]:
        """Return the rings of the best control block; the board is halted.

        Raises:
            PortError: There is none, or none has two rings.
        """
        memory = self._probe.read(address, max(size, _COUNTS.size))
        places = _places(memory) if size else [0] * memory.startswith(_ID)
        usable: dict[int, tuple[RttRing, RttRing]] = {}
        unusable: dict[int, PortError] = {}
        for block in (address + place for place in places):
            try:
                usable[block] = self._rings(block)
            except (PortError, ProbeError) as error:
                unusable[block] = error if isinstance(error, PortError) else PortError(str(error))
        if not usable and unusable:
            raise next(iter(unusable.values()))
        if not usable:
            raise PortError(
                f"no RTT control block at {address:#x}"
                + (f" to {address + size:#x}" if size else ""),
                hint="give the address of its symbol (_SEGGER_RTT) after the firmware has started",
            )
        ours = [block for block, rings in usable.items() if self._is_ours(rings)]
        chosen = [*ours, *usable][0]
        for block, why in unusable.items():
            _log.warning("passed over the RTT control block at %#x: %s", block, why.message)
        for block in usable.keys() - {chosen}:
            _log.warning("passed over the RTT control block at %#x, took %#x", block, chosen)
        return usable[chosen]

    def _is_ours(self, rings: tuple[RttRing, RttRing]) -> bool:
        """Return whether the channel to the host has the link's name."""
        try:
            return self._probe.read(rings[0].name_at, len(_NAME)) == _NAME
        except ProbeError:
            return False

    def _rings(self, block: int) -> tuple[RttRing, RttRing]:
        _, ups, downs = _COUNTS.unpack(self._probe.read(block, _COUNTS.size))
        if not (0 < ups <= _MOST_CHANNELS and 0 < downs <= _MOST_CHANNELS):
            raise PortError(f"the RTT control block at {block:#x} has no channel for the link")
        first = block + _COUNTS.size
        return self._ring(first), self._ring(first + ups * _RING.size)

    def read(self, timeout: float) -> bytes:
        """Return the bytes that have arrived, or ``b""`` after ``timeout`` seconds.

        Raises:
            TransportClosedError: The probe is gone.
        """
        deadline = time.monotonic() + timeout
        while True:
            try:
                with halted(self._probe):
                    data = self._take()
            except ProbeError as error:
                raise self._closed(error) from error
            if data or time.monotonic() >= deadline:
                return data
            time.sleep(_POLL_S)

    def write(self, data: bytes, timeout: float) -> None:
        """Send all of ``data`` within ``timeout`` seconds.

        Raises:
            TransportClosedError: The probe is gone.
            LinkError: The board made no room in time.
        """
        deadline = time.monotonic() + timeout
        rest = data
        while rest:
            try:
                with halted(self._probe):
                    rest = rest[self._put(rest) :]
            except ProbeError as error:
                raise self._closed(error) from error
            if rest and time.monotonic() >= deadline:
                raise LinkError(f"sending {len(data)} bytes to the target timed out: ring full")
            if rest:
                time.sleep(_POLL_S)

    def close(self) -> None:
        """Let the board run, and disconnect."""
        self._probe.close()

    def _ring(self, descriptor: int) -> RttRing:
        fields = _RING.unpack(self._probe.read(descriptor, _RING.size))
        name_at, bytes_at, size, put, taken, _ = fields
        if not bytes_at or not 2 <= size <= MOST_RING or put >= size or taken >= size:
            raise PortError(f"the RTT ring at {descriptor:#x} is damaged, or not initialized yet")
        return RttRing(descriptor, name_at, bytes_at, size)

    def _offsets(self, ring: RttRing) -> tuple[int, int]:
        """Return where the next byte is put, and where the next one is taken."""
        put, taken = struct.unpack("<II", self._probe.read(ring.descriptor + _PUT, 8))
        if put >= ring.size or taken >= ring.size:
            raise TransportClosedError(
                f"the RTT ring at {ring.descriptor:#x} was overwritten: offsets {put} and {taken} "
                f"of {ring.size} bytes",
                hint="the firmware may have restarted, or writes beyond a variable",
            )
        return put, taken

    def _take(self) -> bytes:
        ring = self._up
        put, taken = self._offsets(ring)
        count = min((put - taken) % ring.size, _MOST_TAKEN)
        first = min(count, ring.size - taken)
        data = self._probe.read(ring.bytes_at + taken, first) if first else b""
        if count > first:
            data += self._probe.read(ring.bytes_at, count - first)
        if data:
            end = (taken + count) % ring.size
            self._probe.write(ring.descriptor + _TAKEN, end.to_bytes(4, "little"))
        return data

    def _put(self, data: bytes) -> int:
        """Copy as many bytes to the board as fit; return their number."""
        ring = self._down
        put, taken = self._offsets(ring)
        count = min(len(data), (taken - put - 1) % ring.size)
        first = data[: min(count, ring.size - put)]
        if first:
            self._probe.write(ring.bytes_at + put, first)
        if count > len(first):
            self._probe.write(ring.bytes_at, data[len(first) : count])
        if count:
            # Last, so that the board never takes bytes that are not there yet.
            end = (put + count) % ring.size
            self._probe.write(ring.descriptor + _PUT, end.to_bytes(4, "little"))
        return count

    def _closed(self, error: ProbeError) -> TransportClosedError:
        self.ended = True
        return TransportClosedError(error.message, hint=error.hint)


def _places(memory: bytes) -> list[int]:
    """Return where control blocks may begin: words with their mark."""
    places, at = [], memory.find(_ID)
    while at >= 0:
        places += [at] * (at % 4 == 0)
        at = memory.find(_ID, at + 1)
    return places


def open_rtt(address: str, _baud: int = 0) -> RttTransport:
    """Open the link through RTT by its address (see above).

    Raises:
        UsageError: The address is invalid.
        PortError: There is no control block.
        ProbeError: The probe cannot be reached, or does not answer.
    """
    network, control_block, size = split_rtt(address)
    probe = GdbRemote(address, network)
    try:
        return RttTransport(probe, control_block, size)
    except BaseException:
        probe.close()
        raise
