"""Reads a region of the device: a window of bytes under way, holes asked for again, a digest."""

from __future__ import annotations

import hashlib
from collections import deque
from typing import Final

from harness.errors import LinkError, PartialReadError
from harness.link.answers import RegionPart
from harness.link.exchange import Exchange, FrameDamage, Progress
from harness.link.frames import OVERHEAD, CorruptReason, Frame
from harness.link.messages import (
    READ_OVERHEAD,
    MalformedBodyError,
    parse_read,
    parse_stat,
    read_request,
    stat_request,
)
from harness.link.transfer import MissingRanges, Timeouts
from harness.link.wire import READ_QUEUE, RESPONSE, Op, Region

WINDOW_FRAMES: Final = 32
"""The window is so many times the MTU unless the caller says otherwise."""

_DEAF_SIGNS: Final = 2
"""READs in a row that a noisy line may well lose; when more are, the device does not hear them."""

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
        PartialReadError: Not all of it could be brought over.
        TargetError: The target died meanwhile.
    """
    for _ in range(_WHOLE_ATTEMPTS):
        info = exchange.request(Op.STAT, stat_request(region, index), parse_stat, patient=True)
        reader = _RegionReader(exchange, region, index, info.size, progress, window)
        try:
            data = reader.run()
        except LinkError as error:
            kept = reader.prefix()
            raise PartialReadError(
                f"{error.message}; {len(kept)} of {info.size} bytes had come over whole",
                data=kept,
                hint=error.hint,
            ) from error
        if hashlib.sha256(data).digest() == info.digest:
            return data
        exchange.statistics.digest_mismatches += 1
    raise exchange.failure(
        f"{region.name} {index} had the wrong digest each of {_WHOLE_ATTEMPTS} times"
    )


class _RegionReader:
    """Asks for parts in order and gets them in order.

    So when a later part comes, an earlier one that has not is lost, and is asked for again, behind
    what has been asked for meanwhile.
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
        self._step = max(2, window or WINDOW_FRAMES * exchange.mtu) // 2
        self._hears_while_sending = True
        self._data = bytearray(size)
        self._missing = MissingRanges(size)
        self._known: set[int] = set()
        """Sequence numbers of all READs: late parts of what was given up are good bytes."""
        self._current: set[int] = set()
        """Those of what is asked for now, whose parts come in order."""
        self._asked_ahead: set[int] = set()
        """Those of READs that were sent while parts were to come."""
        self._wanted: deque[tuple[int, int]] = deque([(0, size)])
        """What to ask for next."""
        self._asked: deque[list[int]] = deque()
        """What has been asked for and has not come: [start, end], as the device queues it."""
        self._last = (0, 0)
        self._reported = False
        """The last that was heard is that the device got a damaged frame."""
        self._damaged = 0
        self._deaf_signs = 0
        self._patience = Timeouts(exchange, self._failure)

    def run(self) -> bytes:
        while self._missing:
            self._ask_ahead()
            heard = self._exchange.listen(self._patience.until())
            if heard is None:
                self._silence()
            elif heard is FrameDamage.THERE:
                # Damage can divide a frame into two, which the device reports one after the other.
                if not self._reported:
                    self._ask_last_again()
            elif heard is FrameDamage.HERE:
                self._damaged += 1
                self._check_tail()
            elif isinstance(heard, Frame) and (part := self._parse(heard)) is not None:
                self._place(part, heard.sequence)
            self._reported = heard is FrameDamage.THERE
        return bytes(self._data)

    def prefix(self) -> bytes:
        """The bytes before the first that is missing."""
        return bytes(self._data[: self._missing.first()[0] if self._missing else None])

    def _outstanding(self) -> int:
        return sum(end - start for start, end in self._asked)

    def _ask_ahead(self) -> None:
        """Keep the device supplied: half a window or more of what it is to send."""
        ahead = self._step if self._hears_while_sending else 0
        while self._wanted and len(self._asked) < READ_QUEUE and self._outstanding() <= ahead:
            start, end = self._wanted.popleft()
            if end - start > self._step:
                self._wanted.appendleft((start + self._step, end))
                end = start + self._step
            self._ask(start, end)
            if not ahead:
                break

    def _ask(self, start: int, end: int) -> None:
        sequence = self._exchange.next_sequence()
        body = read_request(self._region, self._index, start, end - start)
        self._exchange.send(Op.READ, sequence, body)
        self._known.add(sequence)
        self._current.add(sequence)
        if self._asked:
            self._asked_ahead.add(sequence)
        self._last = (start, end)
        if self._asked and self._asked[-1][1] == start:
            self._asked[-1][1] = end
        else:
            self._asked.append([start, end])

    def _parse(self, frame: Frame) -> RegionPart | None:
        exchange = self._exchange
        if frame.type != Op.READ | RESPONSE or frame.sequence not in self._known:
            exchange.statistics.stale_answers += 1
            return None
        try:
            part = exchange.read_answer(Op.READ, frame, parse_read)
        except MalformedBodyError:
            return None
        end = part.offset + len(part.data)
        if (part.region, part.index) != (self._region, self._index) or end > len(self._data):
            exchange.statistics.corrupt[CorruptReason.BODY] += 1
            return None
        return part

    def _place(self, part: RegionPart, sequence: int) -> None:
        """Put the bytes where they belong; what should have come before them is lost."""
        end = part.offset + len(part.data)
        self._data[part.offset : end] = part.data
        gained = self._missing.remove(part.offset, end)
        if sequence in self._asked_ahead:
            self._deaf_signs = 0
        if sequence in self._current:
            self._follow(part.offset, end)
        if gained:
            self._patience.moved()
            if self._progress is not None:
                self._progress(len(self._data) - self._missing.count, len(self._data))

    def _follow(self, start: int, end: int) -> None:
        if not any(first <= start < last for first, last in self._asked):
            return
        self._damaged = 0
        while not self._asked[0][0] <= start < self._asked[0][1]:
            self._want_again(*self._asked.popleft())
        self._want_again(self._asked[0][0], start)
        self._asked[0][0] = end
        if self._asked[0][0] >= self._asked[0][1]:
            self._asked.popleft()

    def _want_again(self, start: int, end: int) -> None:
        for piece in self._missing.within(start, end):
            self._exchange.statistics.holes += 1
            self._wanted.appendleft(piece)
            self._patience.fruitless(READ_QUEUE * WINDOW_FRAMES)

    def _check_tail(self) -> None:
        """When no more can come than was damaged, there is nothing to wait for."""
        frame = self._exchange.mtu - OVERHEAD - READ_OVERHEAD
        if self._outstanding() <= self._damaged * frame:
            while self._asked:
                self._want_again(*self._asked.pop())
            self._damaged = 0

    def _ask_last_again(self) -> None:
        """The device got a damaged frame: the last READ, if nothing of it has come."""
        if not self._hears_while_sending:
            # More likely the rest of an earlier one, and now it sends.
            return
        start, end = self._last
        if self._asked and self._asked[-1][0] <= start < end == self._asked[-1][1]:
            self._doubt_hearing()
            self._asked[-1][1] = start
            if self._asked[-1][0] == start:
                self._asked.pop()
            self._want_again(start, end)

    def _doubt_hearing(self) -> None:
        """A device may be unable to hear while it sends: then it is asked when it is silent."""
        self._deaf_signs += 1
        if self._deaf_signs > _DEAF_SIGNS:
            self._hears_while_sending = False

    def _silence(self) -> None:
        """Nothing more comes: ask again for all that was asked for."""
        stalled = self._patience.silent()
        if self._asked and self._asked[0][0] == self._last[0]:
            # Everything before the last READ came, nothing of it.
            self._doubt_hearing()
        if stalled:
            # Should the device be only slow, it is not to send everything twice.
            stop = self._exchange.next_sequence()
            self._known.add(stop)
            self._exchange.send(Op.READ, stop, read_request(self._region, self._index, 0, 0))
        self._current.clear()
        while self._asked:
            self._want_again(*self._asked.pop())

    def _failure(self, times: int) -> LinkError:
        return self._exchange.failure(
            f"{self._region.name} {self._index} stopped with {self._missing.count} of "
            f"{len(self._data)} bytes missing, asked for {times} times"
        )
