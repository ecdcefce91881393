"""Reads a region of the device: pipelined READs, gaps requested again, a digest at the end."""

from __future__ import annotations

import hashlib
from collections import deque
from collections.abc import Callable
from typing import Final

from harness.errors import LinkError, PartialReadError, TargetError
from harness.link.exchange import Exchange, FrameDamage, Progress
from harness.link.frames import OVERHEAD, CorruptReason, Frame
from harness.link.messages import (
    READ_OVERHEAD,
    MalformedBodyError,
    parse_read,
    parse_stat,
    parse_status,
    read_request,
    stat_request,
)
from harness.link.transfer import MissingRanges, Timeouts
from harness.link.values import DeviceStatus, RegionPart
from harness.link.wire import READ_QUEUE, RESPONSE, Op, Region

WINDOW_FRAMES: Final = 32
"""Default window, in MTUs."""

MOST_REGION: Final = 1 << 30
"""Largest region that is read, bytes: a device that claims more is damaged."""

_MISSED_READS: Final = 2
"""READs in a row that noise may explain; after more, the device cannot receive while it sends."""

_WHOLE_ATTEMPTS: Final = 3
"""Attempts for a right digest. It is wrong only if a CRC missed damage, never twice by chance."""


def download(
    exchange: Exchange,
    region: Region,
    index: int,
    progress: Progress | None = None,
    window: int | None = None,
    check: Callable[[DeviceStatus], None] = lambda _: None,
) -> bytes:
    """Read a whole region and verify its digest.

    Args:
        exchange: The link.
        region: The region to read.
        index: Number of the tensor, for outputs.
        progress: Called with (bytes received, total bytes).
        window: Bytes in flight; None for a multiple of the MTU.
        check: Called with the state of the device; may raise.

    Raises:
        DeviceRefusedError: The region is empty or missing.
        LinkError: The digest was wrong each time.
        PartialReadError: The transfer stopped; the error has the bytes before the first gap.
        TargetError: The target died meanwhile.
    """
    for _ in range(_WHOLE_ATTEMPTS):
        # The device cuts a READ from the start to the size, which the host does not know yet.
        first = _step_of(exchange, window)
        sequence = exchange.next_sequence()
        status, info, _ = exchange.request_batch(
            [
                (Op.STATUS, b"", parse_status),
                (Op.STAT, stat_request(region, index), parse_stat),
                (Op.READ, read_request(region, index, 0, first), None),
            ],
            sequence,
        )
        check(status)
        if info.size > MOST_REGION:
            raise TargetError(
                f"{exchange.board}: the device says that {region.name} {index} has {info.size:,} "
                f"bytes; the limit is {MOST_REGION:,}",
                hint="its memory may be overwritten: reset the board, and run again",
            )
        reader = _RegionReader(exchange, region, index, info.size, progress, window)
        reader.expect_first(sequence, first)
        try:
            data = reader.run()
        except LinkError as error:
            kept = reader.prefix()
            raise PartialReadError(
                f"{error.message}; the first {len(kept)} of {info.size} bytes are complete",
                data=kept,
                hint=error.hint,
            ) from error
        if hashlib.sha256(data).digest() == info.digest:
            return data
        exchange.statistics.digest_mismatches += 1
    raise exchange.failure(
        f"download of {region.name} {index} had a wrong digest in all {_WHOLE_ATTEMPTS} attempts"
    )


def _step_of(exchange: Exchange, window: int | None) -> int:
    """Return the bytes of a READ: half a window."""
    return max(2, window or WINDOW_FRAMES * exchange.mtu) // 2


class _RegionReader:
    """Requests parts in order and receives them in order.

    So when a later part comes before an earlier one, the earlier one was lost. It is requested
    again, after the parts already requested.
    """

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
        self._step = _step_of(exchange, window)
        self._receives_while_sending = True
        self._data = bytearray(size)
        self._missing = MissingRanges(size)
        self._reads: set[int] = set()
        """Sequence numbers of all READs: late parts of abandoned ones still carry good bytes."""
        self._current_reads: set[int] = set()
        """Sequence numbers of READs in flight, which are answered in order."""
        self._read_ahead: set[int] = set()
        """Sequence numbers of READs sent while earlier parts were still to come."""
        self._to_request: deque[tuple[int, int]] = deque([(0, size)])
        """Ranges to request next."""
        self._requested: deque[list[int]] = deque()
        """Ranges requested and not received: [start, end], in the order of the device's queue."""
        self._last_read = (0, 0)
        self._damage_reported = False
        """The last event was the device's report of a damaged frame."""
        self._damaged = 0
        self._missed_reads = 0
        self._timeouts = Timeouts(exchange, self._failure)

    def expect_first(self, sequence: int, length: int) -> None:
        """Note that the beginning has been requested, in a frame with other requests."""
        size = len(self._data)
        end = min(length, size)
        self._reads.add(sequence)
        self._current_reads.add(sequence)
        self._last_read = (0, end)
        self._to_request = deque([(end, size)] if end < size else [])
        self._requested = deque([[0, end]] if end else [])

    def run(self) -> bytes:
        while self._missing:
            self._fill_queue()
            heard = self._exchange.listen(self._timeouts.next_at())
            if heard is None:
                self._on_timeout()
            elif heard is FrameDamage.OUTGOING:
                # One damaged frame can look like two, which the device reports one after the other.
                if not self._damage_reported:
                    self._repeat_last_read()
            elif heard is FrameDamage.INCOMING:
                self._damaged += 1
                self._check_tail()
            elif isinstance(heard, Frame) and (part := self._parse(heard)) is not None:
                self._place(part, heard.sequence)
            self._damage_reported = heard is FrameDamage.OUTGOING
        return bytes(self._data)

    def prefix(self) -> bytes:
        """Return the bytes before the first gap."""
        return bytes(self._data[: self._missing.first()[0] if self._missing else None])

    def _outstanding(self) -> int:
        return sum(end - start for start, end in self._requested)

    def _fill_queue(self) -> None:
        """Keep at least half a window requested, so that the device always has bytes to send."""
        ahead = self._step if self._receives_while_sending else 0
        while (
            self._to_request and len(self._requested) < READ_QUEUE and self._outstanding() <= ahead
        ):
            start, end = self._to_request.popleft()
            if end - start > self._step:
                self._to_request.appendleft((start + self._step, end))
                end = start + self._step
            self._request(start, end)
            if not ahead:
                break

    def _request(self, start: int, end: int) -> None:
        sequence = self._exchange.next_sequence()
        body = read_request(self._region, self._index, start, end - start)
        self._exchange.send(Op.READ, sequence, body)
        self._reads.add(sequence)
        self._current_reads.add(sequence)
        if self._requested:
            self._read_ahead.add(sequence)
        self._last_read = (start, end)
        if self._requested and self._requested[-1][1] == start:
            self._requested[-1][1] = end
        else:
            self._requested.append([start, end])

    def _parse(self, frame: Frame) -> RegionPart | None:
        exchange = self._exchange
        if frame.type != Op.READ | RESPONSE or frame.sequence not in self._reads:
            exchange.statistics.stale_answers += 1
            return None
        try:
            part = exchange.read_answer(Op.READ, frame.body, parse_read)
        except MalformedBodyError:
            return None
        end = part.offset + len(part.data)
        if (part.region, part.index) != (self._region, self._index) or end > len(self._data):
            exchange.statistics.corrupt[CorruptReason.BODY] += 1
            return None
        return part

    def _place(self, part: RegionPart, sequence: int) -> None:
        """Store a part; parts that should have come before it are lost."""
        end = part.offset + len(part.data)
        self._data[part.offset : end] = part.data
        gained = self._missing.remove(part.offset, end)
        if sequence in self._read_ahead:
            self._missed_reads = 0
        if sequence in self._current_reads:
            self._follow(part.offset, end)
        if gained:
            self._timeouts.progressed()
            if self._progress is not None:
                self._progress(len(self._data) - self._missing.count, len(self._data))

    def _follow(self, start: int, end: int) -> None:
        if not any(first <= start < last for first, last in self._requested):
            return
        self._damaged = 0
        while not self._requested[0][0] <= start < self._requested[0][1]:
            self._request_again(*self._requested.popleft())
        self._request_again(self._requested[0][0], start)
        self._requested[0][0] = end
        if self._requested[0][0] >= self._requested[0][1]:
            self._requested.popleft()

    def _request_again(self, start: int, end: int) -> None:
        for piece in self._missing.within(start, end):
            self._exchange.statistics.holes += 1
            self._to_request.appendleft(piece)
            self._timeouts.count_loss(READ_QUEUE * WINDOW_FRAMES)

    def _check_tail(self) -> None:
        """Request the rest again at once if damaged frames account for all outstanding bytes."""
        frame = self._exchange.mtu - OVERHEAD - READ_OVERHEAD
        if self._outstanding() <= self._damaged * frame:
            while self._requested:
                self._request_again(*self._requested.pop())
            self._damaged = 0

    def _repeat_last_read(self) -> None:
        """Repeat the last READ after a report of damage, unless parts of it have come."""
        if not self._receives_while_sending:
            # The report is more likely about the rest of an earlier READ; the device sends now.
            return
        start, end = self._last_read
        if self._requested and self._requested[-1][0] <= start < end == self._requested[-1][1]:
            self._count_missed_read()
            self._requested[-1][1] = start
            if self._requested[-1][0] == start:
                self._requested.pop()
            self._request_again(start, end)

    def _count_missed_read(self) -> None:
        """After too many lost READs, send READs only while the device is not sending."""
        self._missed_reads += 1
        if self._missed_reads > _MISSED_READS:
            self._receives_while_sending = False

    def _on_timeout(self) -> None:
        """Request all outstanding ranges again."""
        stalled = self._timeouts.timed_out()
        if self._requested and self._requested[0][0] == self._last_read[0]:
            # All parts before the last READ came, and none of the last READ itself.
            self._count_missed_read()
        if stalled:
            # An empty READ clears the device's queue: if it is only slow, it must not send
            # everything twice.
            stop = self._exchange.next_sequence()
            self._reads.add(stop)
            self._exchange.send(Op.READ, stop, read_request(self._region, self._index, 0, 0))
        self._current_reads.clear()
        while self._requested:
            self._request_again(*self._requested.pop())

    def _failure(self, times: int) -> LinkError:
        return self._exchange.failure(
            f"download of {self._region.name} {self._index} stopped with {self._missing.count} of "
            f"{len(self._data)} bytes missing, requested {times} times"
        )
