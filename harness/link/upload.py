"""Writes a region of the device: pipelined WRITEs, of which only lost pieces are sent again."""

from __future__ import annotations

import hashlib
import itertools
from collections import deque
from collections.abc import Callable, Sequence
from typing import Final, TypeVar, cast

from harness.errors import DeviceRefusedError, LinkError
from harness.link.exchange import Exchange, Progress
from harness.link.frames import OVERHEAD, CorruptReason, Frame
from harness.link.messages import (
    BATCH_OVERHEAD,
    WRITE_OVERHEAD,
    MalformedBodyError,
    commit_request,
    open_request,
    parse_empty,
    parse_write,
    write_request,
)
from harness.link.transfer import MissingRanges, Timeouts
from harness.link.wire import RESPONSE, Op, Region, Status

_T = TypeVar("_T")

WINDOW_FRAMES: Final = 32
"""Most WRITEs in flight."""

_WORTH_REPEATING: Final = (Status.GAP, Status.DIGEST_MISMATCH)


def upload(
    exchange: Exchange,
    region: Region,
    index: int,
    data: bytes,
    parse: Callable[[bytes], _T],
    progress: Progress | None = None,
    method: str = "",
    sizes: Sequence[int] = (),
) -> _T:
    """Write ``data`` into a region and commit it.

    Args:
        exchange: The link.
        region: The region to write.
        index: Number of the input.
        data: The contents of the region.
        parse: Parses the response to COMMIT.
        progress: Called with (bytes arrived, total bytes).
        method: Method of a model to load.
        sizes: Shape of a dynamic input.

    Raises:
        DeviceRefusedError: The device refused the data.
        LinkError: The transfer failed.
        TargetError: The target died meanwhile.
    """
    opening = Op.OPEN, open_request(region, index, len(data), sizes), parse_empty
    digest = hashlib.sha256(data).digest()
    commit = Op.COMMIT, commit_request(region, index, digest, method), parse

    def write(start: int, end: int) -> tuple[Op, bytes, Callable[[bytes], int]]:
        return Op.WRITE, write_request(region, index, start, data[start:end]), parse_write

    # The first piece goes with OPEN and the last one with COMMIT, or all of it in one frame.
    room = exchange.mtu - OVERHEAD - WRITE_OVERHEAD - 2 * BATCH_OVERHEAD
    begin = min(len(data), room - len(opening[1]))
    end = max(begin, len(data) - (room - len(commit[1])))
    whole = [opening, write(0, len(data)), commit]
    size = OVERHEAD + sum(BATCH_OVERHEAD + len(body) for _, body, _ in whole)
    in_one_frame = region == Region.INPUT and size <= exchange.mtu
    for _ in range(exchange.retries + 1):
        try:
            if in_one_frame:
                return cast("_T", exchange.request_batch(whole)[-1])
            began = exchange.now()
            exchange.request_batch([opening, write(0, begin)])
            frame_s = exchange.now() - began
            _RegionWriter(exchange, region, index, data, progress, begin, end, frame_s).run()
            return _finish(exchange, write(end, len(data)), commit)
        except DeviceRefusedError as error:
            if error.status not in _WORTH_REPEATING:
                raise
            exchange.statistics.digest_mismatches += 1
    raise exchange.failure(
        f"upload of {region.name} {index} arrived damaged in all {exchange.retries + 1} attempts"
    )


def _finish(
    exchange: Exchange,
    last: tuple[Op, bytes, Callable[[bytes], int]],
    commit: tuple[Op, bytes, Callable[[bytes], _T]],
) -> _T:
    """Send the last piece and COMMIT, and return the response to COMMIT."""
    try:
        return cast("_T", exchange.request_batch([last, commit])[-1])
    except DeviceRefusedError as error:
        # A repeated WRITE comes too late if the response to the first was lost. The description of
        # a model with many tensors may only fit a frame of its own.
        if error.status not in (Status.WRONG_STATE, Status.UNSUPPORTED_FEATURE):
            raise
        return exchange.request(*commit, backoff=True)


class _RegionWriter:
    """Sends pieces in order and processes the responses.

    Neither the line nor the device reorders frames. So when the response to a later WRITE comes,
    an earlier WRITE without a response was lost, or its response was. The response's ``next`` may
    tell which. Only pieces that may be lost are sent again.
    """

    def __init__(
        self,
        exchange: Exchange,
        region: Region,
        index: int,
        data: bytes,
        progress: Progress | None,
        begin: int,
        end: int,
        frame_s: float,
    ) -> None:
        self._exchange = exchange
        self._region, self._index, self._data = region, index, data
        self._progress = progress
        self._chunk = exchange.mtu - OVERHEAD - WRITE_OVERHEAD
        self._window = _Window()
        self._missing = MissingRanges(end)
        """Bytes that the device has not confirmed."""
        self._missing.remove(0, begin)
        self._end = end
        self._sent = begin
        """Everything before this offset has been sent at least once."""
        self._lost: deque[tuple[int, int]] = deque()
        self._pending: dict[int, tuple[int, int]] = {}
        """WRITEs in flight by sequence number, in the order they were sent."""
        self._writes: dict[int, tuple[int, int]] = {}
        """All WRITEs by sequence number: a response may come late."""
        self._timeouts = Timeouts(exchange, self._failure, frame_s)

    def run(self) -> None:
        while self._missing:
            self._fill_window()
            heard = self._exchange.listen(self._timeouts.next_at())
            if isinstance(heard, Frame):
                self._read(heard)
            elif heard is None:
                self._on_timeout()
            elif self._pending:
                # A frame was damaged. Responses to all earlier WRITEs have been processed, so it
                # was the oldest pending WRITE or its response.
                self._mark_lost([next(iter(self._pending))])

    def _fill_window(self) -> None:
        while len(self._pending) < self._window.size:
            if self._lost:
                start, end = self._lost.popleft()
                pieces = self._missing.within(start, end)
                self._exchange.statistics.resent += len(pieces)
            elif self._sent < self._end:
                pieces = [(self._sent, min(self._end, self._sent + self._chunk))]
                self._sent = pieces[0][1]
            else:
                return
            for piece in pieces:
                self._send(*piece)

    def _send(self, start: int, end: int) -> None:
        sequence = self._exchange.next_sequence()
        body = write_request(self._region, self._index, start, self._data[start:end])
        self._exchange.send(Op.WRITE, sequence, body)
        self._pending[sequence] = self._writes[sequence] = (start, end)

    def _read(self, frame: Frame) -> None:
        exchange = self._exchange
        if frame.type != Op.WRITE | RESPONSE or frame.sequence not in self._writes:
            exchange.statistics.stale_answers += 1
            return
        try:
            arrived = exchange.read_answer(Op.WRITE, frame.body, parse_write)
        except MalformedBodyError:
            return
        except DeviceRefusedError as error:
            if error.status != Status.GAP:
                raise
            self._mark_earlier_lost(frame.sequence)
            self._mark_lost([frame.sequence] if frame.sequence in self._pending else [])
            return
        if arrived > self._sent:
            exchange.statistics.corrupt[CorruptReason.BODY] += 1
            return
        gained = self._missing.remove(0, arrived)
        gained += self._missing.remove(*self._writes[frame.sequence])
        self._mark_earlier_lost(frame.sequence)
        self._pending.pop(frame.sequence, None)
        if gained:
            self._advance()

    def _mark_earlier_lost(self, sequence: int) -> None:
        """Mark pending WRITEs before ``sequence`` as lost: their responses cannot come any more."""
        if sequence in self._pending:
            self._mark_lost(list(itertools.takewhile(lambda s: s != sequence, self._pending)))

    def _mark_lost(self, sequences: list[int]) -> None:
        pieces = [self._pending.pop(sequence) for sequence in sequences]
        for piece in pieces:
            if missing := self._missing.within(*piece):
                self._lost.extend(missing)
                self._window.shrink()
                self._timeouts.count_loss(WINDOW_FRAMES)

    def _advance(self) -> None:
        self._window.grow()
        self._timeouts.progressed()
        if self._progress is not None:
            self._progress(len(self._data) - self._missing.count, len(self._data))

    def _on_timeout(self) -> None:
        """Send the oldest piece again: the response shows which of the others arrived."""
        if self._timeouts.timed_out():
            self._window.shrink()
        if self._pending:
            piece = self._pending.pop(next(iter(self._pending)))
            self._exchange.statistics.resent += 1
            self._send(*piece)

    def _failure(self, times: int) -> LinkError:
        start, _ = self._missing.first()
        return self._exchange.failure(
            f"upload of {self._region.name} {self._index} stopped at byte {start} of "
            f"{len(self._data)}, sent {times} times"
        )


class _Window:
    """Limit of WRITEs in flight, adapted to the board's receive buffer.

    A single lost frame is line noise. A second loss soon after means that the board's receiver is
    overrun, and halves the limit.
    """

    def __init__(self) -> None:
        self._size = 8.0
        self._probing = True
        self._since_loss = WINDOW_FRAMES

    @property
    def size(self) -> int:
        return int(self._size)

    def grow(self) -> None:
        step = 1.0 if self._probing else 1 / self._size
        self._size = min(WINDOW_FRAMES, self._size + step)
        self._since_loss += 1

    def shrink(self) -> None:
        if self._since_loss < self._size:
            self._size = max(1.0, self._size / 2)
            self._probing = False
        self._since_loss = 0
