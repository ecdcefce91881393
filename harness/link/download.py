"""Reads a region of the device: a window of bytes under way, holes asked for again, a digest."""

from __future__ import annotations

import hashlib
from typing import Final

from harness.link.answers import RegionPart
from harness.link.exchange import Exchange, Progress
from harness.link.frames import CorruptReason
from harness.link.messages import (
    MalformedBodyError,
    parse_read,
    parse_stat,
    read_request,
    stat_request,
)
from harness.link.ranges import MissingRanges
from harness.link.wire import RESPONSE, Op, Region

WINDOW_FRAMES: Final = 32
"""The window is so many times the MTU unless the caller says otherwise."""

_WHOLE_ATTEMPTS: Final = 3
"""A digest is wrong only when the CRC let damage pass; twice in a row is not chance."""


def download(
    exchange: Exchange,
    region: Region,
    index: int,
    progress: Progress | None = None,
    window: int | None = None,
) -> bytes:
    """Read a whole region, compared with its digest.

    Args:
        exchange: The link.
        region: What to read.
        index: Number of the tensor, for outputs.
        progress: Called with (bytes received, bytes in all).
        window: Bytes under way; None chooses by the MTU.

    Raises:
        DeviceRefusedError: There is nothing to read.
        LinkError: It could not be brought over whole.
        TargetError: The target died meanwhile.
    """
    for _ in range(_WHOLE_ATTEMPTS):
        info = exchange.request(Op.STAT, stat_request(region, index), parse_stat, patient=True)
        data = _Reader(exchange, region, index, info.size, progress, window).run()
        if hashlib.sha256(data).digest() == info.digest:
            return data
        exchange.statistics.digest_mismatches += 1
    raise exchange.failure(
        f"{region.name} {index} had the wrong digest each of {_WHOLE_ATTEMPTS} times"
    )


class _Reader:
    def __init__(
        self,
        exchange: Exchange,
        region: Region,
        index: int,
        size: int,
        progress: Progress | None,
        window: int | None,
    ) -> None:
        self._exchange = exchange
        self._region, self._index = region, index
        self._progress = progress
        self._window = max(2, window or WINDOW_FRAMES * exchange.mtu)
        self._ahead = self._window // 2
        """With so many bytes of what is asked for outstanding, more is asked for."""
        self._data = bytearray(size)
        self._missing = MissingRanges(size)
        self._known: set[int] = set()
        """Sequence numbers of all READs: late parts of an earlier stream are good bytes."""
        self._streaming: set[int] = set()
        """Those of the present stream, whose parts come in ascending order."""
        self._asked = 0
        self._last_offset = 0
        self._position = 0
        self._stalls = 0

    def run(self) -> bytes:
        first = True
        while self._missing:
            if not first:
                self._exchange.statistics.holes += 1
            first = False
            self._stream(*self._missing.first())
        return bytes(self._data)

    def _stream(self, start: int, end: int) -> None:
        """Ask for ``start`` to ``end`` and take what comes; what is lost stays missing."""
        exchange = self._exchange
        self._streaming.clear()
        self._position = start
        self._ask(start, min(end, start + self._window))
        until = exchange.now() + exchange.deadline_s
        while self._position < end:
            if self._asked < end and self._asked - self._position <= self._ahead:
                step = self._ahead or self._window
                self._ask(self._asked, min(end, self._asked + step))
            part = self._receive(until)
            if part is None:
                self._stall()
                return
            if self._place(part):
                until = exchange.now() + exchange.deadline_s

    def _ask(self, start: int, end: int) -> None:
        sequence = self._exchange.next_sequence()
        body = read_request(self._region, self._index, start, end - start)
        self._exchange.send(Op.READ, sequence, body)
        self._known.add(sequence)
        self._streaming.add(sequence)
        self._last_offset, self._asked = start, end

    def _receive(self, until: float) -> RegionPart | None:
        exchange = self._exchange
        while (frame := exchange.receive(until)) is not None:
            if frame.type != Op.READ | RESPONSE or frame.sequence not in self._known:
                exchange.statistics.stale_answers += 1
                continue
            try:
                part = exchange.read_answer(Op.READ, frame, parse_read)
            except MalformedBodyError:
                continue
            end = part.offset + len(part.data)
            if (part.region, part.index) != (self._region, self._index) or end > len(self._data):
                exchange.statistics.corrupt[CorruptReason.BODY] += 1
                continue
            if frame.sequence in self._streaming:
                self._position = max(self._position, end)
            return part
        return None

    def _place(self, part: RegionPart) -> bool:
        """Put the bytes where they belong; False when all had been there already."""
        end = part.offset + len(part.data)
        if not self._missing.remove(part.offset, end):
            return False
        self._data[part.offset : end] = part.data
        self._stalls = 0
        if self._progress is not None:
            self._progress(len(self._data) - self._missing.count, len(self._data))
        return True

    def _stall(self) -> None:
        self._stalls += 1
        if self._stalls > self._exchange.retries:
            raise self._exchange.failure(
                f"{self._region.name} {self._index} stopped with {self._missing.count} of "
                f"{len(self._data)} bytes missing, asked for {self._stalls} times"
            )
        self._exchange.check_alive()
        if self._position == self._last_offset:
            # Everything before the last READ came, nothing of it: a device that cannot hear
            # while it sends. From now on it is asked when it is silent.
            self._ahead = 0
