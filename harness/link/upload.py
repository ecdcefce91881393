"""Writes a region of the device: several WRITEs under way, and only what is lost sent again."""

from __future__ import annotations

import hashlib
import itertools
from collections import deque
from collections.abc import Callable, Sequence
from typing import Final, TypeVar

from harness.errors import DeviceRefusedError, LinkError
from harness.link.exchange import Exchange, Progress
from harness.link.frames import OVERHEAD, CorruptReason, Frame
from harness.link.messages import (
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
"""Most WRITEs under way."""

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
    """Write ``data`` into a region and commit it; ``parse`` reads the answer to COMMIT.

    ``method`` is the one to load of a model, ``sizes`` those of an input of dynamic shape.

    Raises:
        DeviceRefusedError: The device does not want it.
        LinkError: It could not be brought over.
        TargetError: The target died meanwhile.
    """
    digest = hashlib.sha256(data).digest()
    for _ in range(exchange.retries + 1):
        exchange.request(Op.OPEN, open_request(region, index, len(data), sizes), parse_empty)
        try:
            _RegionWriter(exchange, region, index, data, progress).run()
            commit = commit_request(region, index, digest, method)
            return exchange.request(Op.COMMIT, commit, parse, patient=True)
        except DeviceRefusedError as error:
            if error.status not in _WORTH_REPEATING:
                raise
            exchange.statistics.digest_mismatches += 1
    raise exchange.failure(
        f"{region.name} {index} arrived damaged each of {exchange.retries + 1} times it was sent"
    )


class _RegionWriter:
    """Sends pieces in order and hears of them in order.

    Neither the line nor the device changes the order of frames. So when the answer to a later
    WRITE comes, an earlier one without answer is lost, or its answer is; which of the two, the
    answer's ``next`` may tell. Only what may be lost is sent again.
    """

    def __init__(
        self,
        exchange: Exchange,
        region: Region,
        index: int,
        data: bytes,
        progress: Progress | None,
    ) -> None:
        self._exchange = exchange
        self._region, self._index, self._data = region, index, data
        self._progress = progress
        self._chunk = exchange.mtu - OVERHEAD - WRITE_OVERHEAD
        self._window = _Window()
        self._missing = MissingRanges(len(data))
        """What the device is not known to have."""
        self._sent = 0
        """Up to here everything has been sent once."""
        self._lost: deque[tuple[int, int]] = deque()
        self._pending: dict[int, tuple[int, int]] = {}
        """WRITEs under way by sequence number, in the order they were sent."""
        self._known: dict[int, tuple[int, int]] = {}
        """All WRITEs: an answer may come late."""
        self._patience = Timeouts(exchange, self._failure)

    def run(self) -> None:
        while self._missing:
            self._fill_window()
            heard = self._exchange.listen(self._patience.until())
            if isinstance(heard, Frame):
                self._read(heard)
            elif heard is None:
                self._silence()
            elif self._pending:
                # The oldest: whatever came of those before it has been heard.
                self._lose([next(iter(self._pending))])

    def _fill_window(self) -> None:
        while len(self._pending) < self._window.size:
            if self._lost:
                start, end = self._lost.popleft()
                pieces = self._missing.within(start, end)
                self._exchange.statistics.resent += len(pieces)
            elif self._sent < len(self._data):
                pieces = [(self._sent, min(len(self._data), self._sent + self._chunk))]
                self._sent = pieces[0][1]
            else:
                return
            for piece in pieces:
                self._send(*piece)

    def _send(self, start: int, end: int) -> None:
        sequence = self._exchange.next_sequence()
        body = write_request(self._region, self._index, start, self._data[start:end])
        self._exchange.send(Op.WRITE, sequence, body)
        self._pending[sequence] = self._known[sequence] = (start, end)

    def _read(self, frame: Frame) -> None:
        exchange = self._exchange
        if frame.type != Op.WRITE | RESPONSE or frame.sequence not in self._known:
            exchange.statistics.stale_answers += 1
            return
        try:
            arrived = exchange.read_answer(Op.WRITE, frame, parse_write)
        except MalformedBodyError:
            return
        except DeviceRefusedError as error:
            if error.status != Status.GAP:
                raise
            self._overtake(frame.sequence)
            self._lose([frame.sequence] if frame.sequence in self._pending else [])
            return
        if arrived > self._sent:
            exchange.statistics.corrupt[CorruptReason.BODY] += 1
            return
        gained = self._missing.remove(0, arrived)
        gained += self._missing.remove(*self._known[frame.sequence])
        self._overtake(frame.sequence)
        self._pending.pop(frame.sequence, None)
        if gained:
            self._advance()

    def _overtake(self, sequence: int) -> None:
        """What was sent before ``sequence`` and has not been answered will not be."""
        if sequence in self._pending:
            self._lose(list(itertools.takewhile(lambda s: s != sequence, self._pending)))

    def _lose(self, sequences: list[int]) -> None:
        pieces = [self._pending.pop(sequence) for sequence in sequences]
        for piece in pieces:
            if missing := self._missing.within(*piece):
                self._lost.extend(missing)
                self._window.shrink()
                self._patience.fruitless(WINDOW_FRAMES)

    def _advance(self) -> None:
        self._window.grow()
        self._patience.moved()
        if self._progress is not None:
            self._progress(len(self._data) - self._missing.count, len(self._data))

    def _silence(self) -> None:
        """Send the oldest piece again: its answer tells what became of all others."""
        if self._patience.silent():
            self._window.shrink()
        if self._pending:
            piece = self._pending.pop(next(iter(self._pending)))
            self._exchange.statistics.resent += 1
            self._send(*piece)

    def _failure(self, times: int) -> LinkError:
        start, _ = self._missing.first()
        return self._exchange.failure(
            f"{self._region.name} {self._index} got no further than byte {start} of "
            f"{len(self._data)}, sent {times} times"
        )


class _Window:
    """How many WRITEs may be under way: as many as the board can take.

    A lost frame now and then is the line's noise. When another is lost soon after, the board's
    receiver is overrun, and half as many are sent at once.
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
