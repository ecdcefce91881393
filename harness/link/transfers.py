"""Transfers of regions: uploads in a window of WRITEs; downloads of regions and streamed logs."""

from __future__ import annotations

import hashlib
import itertools
from collections import deque
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Final, TypeVar, cast

from harness.errors import (
    DeviceRefusedError,
    HarnessError,
    LinkError,
    PartialReadError,
    TargetError,
)
from harness.link import messages, wire
from harness.link.exchange import Exchange, FrameDamage, Progress
from harness.link.frames import OVERHEAD, CorruptReason, Frame
from harness.printing import counted

_QUIET_SHARE: Final = 1 / 8
"""A silent transfer probes the line after this share of the timeout."""

_QUIET_GAPS: Final = 3
"""But not before this many times the longest gap seen: frames take long on a slow line."""


class MissingRanges:
    """The missing bytes of a region: disjoint half-open ranges in ascending order.

    Attributes:
        count: Number of missing bytes.
    """

    def __init__(self, size: int) -> None:
        self._ranges = [(0, size)] if size else []
        self.count = size

    def first(self) -> tuple[int, int]:
        """Return the first range as (start, end)."""
        return self._ranges[0]

    def within(self, start: int, end: int) -> list[tuple[int, int]]:
        """Return the missing ranges between ``start`` and ``end``, in ascending order."""
        return [
            (max(low, start), min(high, end))
            for low, high in self._ranges
            if low < end and start < high
        ]

    def remove(self, start: int, end: int) -> int:
        """Remove ``start`` to ``end``; return how many of these bytes were missing."""
        left = []
        for low, high in self._ranges:
            if high <= start or end <= low:
                left.append((low, high))
                continue
            if low < start:
                left.append((low, start))
            if end < high:
                left.append((end, high))
        before, self.count = self.count, sum(high - low for low, high in left)
        self._ranges = left
        return before - self.count


class Timeouts:
    """The timeouts of one transfer. The first timeout sends a probe, the second is a stall.

    New bytes restart the timeout, but not beyond the longest time of the whole transfer.
    """

    def __init__(
        self,
        exchange: Exchange,
        size: int,
        give_up: Callable[[str], HarnessError],
        gap_s: float = 0.0,
    ) -> None:
        """Start the first timeout.

        Args:
            exchange: The link.
            size: Bytes to transfer.
            give_up: Returns the error to raise, given the end of its message.
            gap_s: How long a frame took before, seconds; 0 if that is not known.
        """
        self._exchange = exchange
        self._give_up = give_up
        self._began = self._progressed_at = exchange.now()
        self._ends_at = self._began + exchange.longest_s(size)
        self._longest_gap = gap_s
        self._probed = False
        self._stalls = 0
        self._losses = 0

    def next_at(self) -> float:
        """Return the time of the next timeout."""
        deadline = self._exchange.deadline_s
        quiet = max(deadline * _QUIET_SHARE, self._longest_gap * _QUIET_GAPS)
        wait = deadline if self._probed else min(deadline, quiet)
        return min(self._progressed_at + wait, self._ends_at)

    def progressed(self) -> None:
        """Restart the timeout after new bytes arrived."""
        now = self._exchange.now()
        self._longest_gap = max(self._longest_gap, now - self._progressed_at)
        self._progressed_at = now
        self._stalls = self._losses = 0
        self._probed = False

    def timed_out(self) -> bool:
        """Handle a timeout at `next_at`: first a probe is due, after that it is a stall.

        Returns:
            Whether it is a stall.

        Raises:
            LinkError: Too many stalls, or the transfer takes too long.
            TargetError: The target is dead.
        """
        now = self._exchange.now()
        if now >= self._ends_at:
            raise self._give_up(f"given up after {now - self._began:.3g} s")
        stalled = self._probed
        self._probed = not stalled
        if stalled:
            self._progressed_at = now
            self._stalls += 1
            if self._stalls > self._exchange.retries:
                raise self._give_up(f"tried {counted(self._stalls, 'time')}")
            self._exchange.check_alive()
            self._exchange.fall_back()
        return stalled

    def count_loss(self, limit: int) -> None:
        """Count a loss; the limit is ``limit`` per allowed retry without new bytes.

        Raises:
            LinkError: Too many losses.
        """
        self._losses += 1
        if self._losses > limit * (self._exchange.retries + 1):
            raise self._give_up(f"tried {counted(self._losses, 'time')}")


MOST_LOG: Final = 1 << 30
"""Largest streamed log, bytes; the chunks of a log are in memory until the end of the run."""


class LogTooLongError(TargetError):
    """A streamed log has reached the limit: the run makes more events than can be kept."""


@dataclass(slots=True)
class _Chunk:
    """A chunk that is being received.

    Attributes:
        run_id: Number of the run.
        size: Number of its bytes.
        parts: Those that have arrived, by offset: a device that claims a large chunk takes no
            memory by that.
        missing: Those that have not arrived yet.
        awaited: End of the bytes that the device sends at the moment; when they are over, the
            device learns what is missing.
        told: The device has been told since the last part arrived.
    """

    run_id: int
    size: int
    parts: dict[int, bytes]
    missing: MissingRanges
    awaited: int
    told: bool = False


class LogChunks:
    """Assembles chunks of a log from parts, and says what to answer to the device.

    The device keeps a chunk until it is acknowledged, and sends no other one before.

    Attributes:
        received: Number of bytes that have arrived, each counted once.
    """

    def __init__(self) -> None:
        self._chunks: dict[int, _Chunk] = {}
        self._newest = -1
        self._size = 0
        self.received = 0

    def add(self, part: messages.LogPart) -> messages.LogAck | None:
        """Add a part; return the answer if it is the last one that the device sends for now."""
        chunk = self._open(part)
        end = part.offset + len(part.data)
        if part.size != chunk.size:
            return None
        gained = chunk.missing.remove(part.offset, end)
        if gained:
            chunk.parts[part.offset] = max(chunk.parts.get(part.offset, b""), part.data, key=len)
        self.received += gained
        chunk.told = False
        return self._answer(part.chunk) if end == chunk.awaited else None

    def wanted(self, note: messages.LogWait) -> messages.LogAck:
        """Return the answer to a device that waits."""
        self._open(note)
        return self._answer(note.chunk)

    def unfinished(self) -> messages.LogAck | None:
        """Return the request for what is missing of the newest chunk; None without any.

        Call it when something else than a part arrives, as the device then sends no part. None,
        too, if the device was told: it may be executing, and asks when it needs the answer.
        """
        chunk = self._chunks.get(self._newest)
        if chunk is None or chunk.told or not chunk.missing.count:
            return None
        return self._answer(self._newest)

    def whole(self) -> tuple[bytes, ...]:
        """Return the complete chunks in order."""
        chunks = [chunk for _, chunk in sorted(self._chunks.items())]
        return tuple(_image(chunk) for chunk in chunks if not chunk.missing.count)

    def whole_chunk(self, number: int) -> bytes:
        """Return a complete chunk."""
        return _image(self._chunks[number])

    def _open(self, note: messages.LogWait) -> _Chunk:
        number, size = note.chunk, note.size
        if number not in self._chunks:
            if self._size + size > MOST_LOG:
                raise LogTooLongError(
                    f"the streamed log exceeds {MOST_LOG:,} bytes in chunk {number + 1}",
                    hint="run the model less often, or log less: --profile method",
                )
            self._size += size
            self._newest = max(self._newest, number)
            self._chunks[number] = _Chunk(note.run_id, size, {}, MissingRanges(size), awaited=size)
        return self._chunks[number]

    def _answer(self, number: int) -> messages.LogAck:
        chunk = self._chunks[number]
        chunk.told = True
        if not chunk.missing.count:
            return messages.LogAck(chunk.run_id, number, chunk.size, 0)
        start, chunk.awaited = chunk.missing.first()
        return messages.LogAck(chunk.run_id, number, start, chunk.awaited - start)


def _image(chunk: _Chunk) -> bytes:
    image = bytearray(chunk.size)
    for offset, data in chunk.parts.items():
        image[offset : offset + len(data)] = data
    return bytes(image)


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
    region: wire.Region,
    index: int,
    progress: Progress | None = None,
    window: int | None = None,
    check: Callable[[messages.DeviceStatus], None] = lambda _: None,
    most: int = MOST_REGION,
) -> bytes:
    """Read a whole region and verify its digest.

    Args:
        exchange: The link.
        region: The region to read.
        index: Number of the tensor, for outputs.
        progress: Called with (bytes received, total bytes).
        window: Bytes in flight; None for a multiple of the MTU.
        check: Called with the state of the device; may raise.
        most: Most bytes that the region can have.

    Raises:
        DeviceRefusedError: The region is empty or missing.
        LinkError: The digest was wrong each time.
        PartialReadError: The transfer stopped; the error has the bytes before the first gap.
        TargetError: The target died meanwhile, or claims a larger region.
    """
    for _ in range(_WHOLE_ATTEMPTS):
        step = max(2, window or WINDOW_FRAMES * exchange.mtu) // 2
        sequence = exchange.next_sequence()
        status, info, _ = exchange.request_batch(
            [
                (wire.Op.STATUS, b"", messages.DeviceStatus.parse),
                (
                    wire.Op.STAT,
                    messages.StatBody(region, index).encode(),
                    messages.RegionInfo.parse,
                ),
                # The device cuts it to the size, which the host does not know yet.
                (wire.Op.READ, messages.ReadBody(region, index, 0, step).encode(), None),
            ],
            sequence,
        )
        check(status)
        if info.size > min(most, MOST_REGION):
            raise TargetError(
                f"{exchange.board}: the device says that {region.name} {index} has {info.size:,} "
                f"bytes; the limit is {min(most, MOST_REGION):,}",
                hint="its memory may be overwritten: reset the board, and run again",
            )
        reader = _RegionReader(exchange, region, index, info.size, progress, step, sequence)
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


class _RegionReader:
    """Requests parts in order and receives them in order.

    So when a later part comes before an earlier one, the earlier one was lost. It is requested
    again, after the parts already requested.
    """

    def __init__(
        self,
        exchange: Exchange,
        region: wire.Region,
        index: int,
        size: int,
        progress: Progress | None,
        step: int,
        sequence: int,
    ) -> None:
        """Expect the answer to a READ of the first ``step`` bytes, sent with other requests.

        Args:
            exchange: The link.
            region: The region to read.
            index: Number of the tensor, for outputs.
            size: Bytes of the region.
            progress: Called with (bytes received, total bytes).
            step: Bytes of a READ.
            sequence: Sequence number of the READ that was sent.
        """
        self._exchange = exchange
        self._region, self._index = region, index
        self._progress = progress
        self._step = step
        self._receives_while_sending = True
        self._size = size
        self._data = bytearray()
        """Grows with what arrives: a device that claims a large region takes no memory by that."""
        end = self._requested_to = min(step, size)
        self._missing = MissingRanges(size)
        self._reads = {sequence}
        """Sequence numbers of all READs: late parts of abandoned ones still carry good bytes."""
        self._current_reads = {sequence}
        """Sequence numbers of READs in flight, which are answered in order."""
        self._read_ahead: set[int] = set()
        """Sequence numbers of READs sent while earlier parts were still to come."""
        self._to_request: deque[tuple[int, int]] = deque([(end, size)] if end < size else [])
        """Ranges to request next."""
        self._requested: deque[list[int]] = deque([[0, end]] if end else [])
        """Ranges requested and not received: [start, end], in the order of the device's queue."""
        self._last_read = (0, end)
        self._damage_reported = False
        """The last event was the device's report of a damaged frame."""
        self._damaged = 0
        self._missed_reads = 0
        self._timeouts = Timeouts(exchange, size, self._failure)

    def run(self) -> bytes:
        while self._missing.count:
            # Keep at least half a window requested, so that the device always has bytes to send.
            ahead = self._step if self._receives_while_sending else 0
            while self._to_request and len(self._requested) < wire.READ_QUEUE:
                if self._outstanding() > ahead:
                    break
                start, end = self._to_request.popleft()
                if end - start > self._step:
                    self._to_request.appendleft((start + self._step, end))
                    end = start + self._step
                self._request(start, end)
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
        return bytes(self._data[: self._missing.first()[0] if self._missing.count else None])

    def _outstanding(self) -> int:
        return sum(end - start for start, end in self._requested)

    def _request(self, start: int, end: int) -> None:
        sequence = self._exchange.next_sequence()
        body = messages.ReadBody(self._region, self._index, start, end - start).encode()
        self._exchange.send(wire.Op.READ, sequence, body)
        self._reads.add(sequence)
        self._current_reads.add(sequence)
        if self._requested:
            self._read_ahead.add(sequence)
        self._last_read = (start, end)
        self._requested_to = max(self._requested_to, end)
        if self._requested and self._requested[-1][1] == start:
            self._requested[-1][1] = end
        else:
            self._requested.append([start, end])

    def _parse(self, frame: Frame) -> messages.RegionPart | None:
        exchange = self._exchange
        if frame.type != wire.Op.READ | wire.RESPONSE or frame.sequence not in self._reads:
            exchange.statistics.stale_answers += 1
            return None
        try:
            part = exchange.read_answer(wire.Op.READ, frame.body, messages.RegionPart.parse)
        except messages.MalformedBodyError:
            return None
        end = part.offset + len(part.data)
        if (part.region, part.index) != (self._region, self._index) or end > self._requested_to:
            exchange.statistics.corrupt[CorruptReason.BODY] += 1
            return None
        return part

    def _place(self, part: messages.RegionPart, sequence: int) -> None:
        """Store a part; parts that should have come before it are lost."""
        end = part.offset + len(part.data)
        self._data.extend(bytes(max(0, end - len(self._data))))
        self._data[part.offset : end] = part.data
        gained = self._missing.remove(part.offset, end)
        if sequence in self._read_ahead:
            self._missed_reads = 0
        if sequence in self._current_reads:
            self._follow(part.offset, end)
        if gained:
            self._timeouts.progressed()
            if self._progress is not None:
                self._progress(self._size - self._missing.count, self._size)

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
            self._timeouts.count_loss(wire.READ_QUEUE * WINDOW_FRAMES)

    def _check_tail(self) -> None:
        """Request the rest again at once if damaged frames account for all outstanding bytes."""
        frame = self._exchange.mtu - OVERHEAD - messages.READ_OVERHEAD
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
            self._exchange.send(
                wire.Op.READ, stop, messages.ReadBody(self._region, self._index, 0, 0).encode()
            )
        self._current_reads.clear()
        while self._requested:
            self._request_again(*self._requested.pop())

    def _failure(self, how: str) -> HarnessError:
        return self._exchange.failure(
            f"download of {self._region.name} {self._index} stopped with {self._missing.count} of "
            f"{self._size} bytes missing, {how}"
        )


_T = TypeVar("_T")

MOST_WRITES: Final = 32
"""Most WRITEs in flight."""

_WORTH_REPEATING: Final = (wire.Status.GAP, wire.Status.DIGEST_MISMATCH)


def upload(
    exchange: Exchange,
    asked: messages.CommitBody,
    data: bytes,
    parse: Callable[[bytes], _T],
    progress: Progress | None = None,
    sizes: Sequence[int] = (),
) -> _T:
    """Write ``data`` into a region and commit it.

    Args:
        exchange: The link.
        asked: The region, and the SHA-256 of its contents.
        data: The contents of the region.
        parse: Parses the response to COMMIT.
        progress: Called with (bytes arrived, total bytes).
        sizes: Shape of a dynamic input.

    Raises:
        DeviceRefusedError: The device refused the data.
        LinkError: The transfer failed.
        TargetError: The target died meanwhile.
    """
    region, index = wire.Region(asked.region), asked.index
    opening = (
        wire.Op.OPEN,
        messages.OpenBody(region, index, len(data), tuple(sizes)).encode(),
        messages.Answer.parse,
    )
    commit = wire.Op.COMMIT, asked.encode(), parse
    # The first piece goes with OPEN and the last one with COMMIT, or all of it in one frame.
    room = exchange.mtu - OVERHEAD - messages.WRITE_OVERHEAD - 2 * messages.BATCH_OVERHEAD
    begin = min(len(data), room - len(opening[1]))
    end = max(begin, len(data) - (room - len(commit[1])))
    first, last, everything = (
        (
            wire.Op.WRITE,
            messages.WriteBody(region, index, start, data[start:behind]).encode(),
            messages.WriteAnswer.parse,
        )
        for start, behind in ((0, begin), (end, len(data)), (0, len(data)))
    )
    whole = [opening, everything, commit]
    size = OVERHEAD + sum(messages.BATCH_OVERHEAD + len(body) for _, body, _ in whole)
    in_one_frame = region == wire.Region.INPUT and size <= exchange.mtu
    for _ in range(exchange.retries + 1):
        try:
            if in_one_frame:
                return cast("_T", exchange.request_batch(whole)[-1])
            began = exchange.now()
            exchange.request_batch([opening, first])
            frame_s = exchange.now() - began
            _RegionWriter(exchange, region, index, data, progress, begin, end, frame_s).run()
            return _finish(exchange, last, commit)
        except DeviceRefusedError as error:
            if error.status not in _WORTH_REPEATING:
                raise
            exchange.statistics.digest_mismatches += 1
    raise exchange.failure(
        f"upload of {region.name} {index} arrived damaged in all {exchange.retries + 1} attempts"
    )


def _finish(
    exchange: Exchange,
    last: tuple[wire.Op, bytes, Callable[[bytes], messages.WriteAnswer]],
    commit: tuple[wire.Op, bytes, Callable[[bytes], _T]],
) -> _T:
    """Send the last piece and COMMIT, and return the response to COMMIT."""
    try:
        return cast("_T", exchange.request_batch([last, commit])[-1])
    except DeviceRefusedError as error:
        # A repeated WRITE comes too late if the response to the first was lost. The description of
        # a model with many tensors may only fit a frame of its own.
        if error.status not in (wire.Status.WRONG_STATE, wire.Status.UNSUPPORTED_FEATURE):
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
        region: wire.Region,
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
        self._chunk = exchange.mtu - OVERHEAD - messages.WRITE_OVERHEAD
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
        self._timeouts = Timeouts(exchange, end, self._failure, frame_s)

    def run(self) -> None:
        while self._missing.count:
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
        while len(self._pending) < int(self._window.size):
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
        body = messages.WriteBody(self._region, self._index, start, self._data[start:end]).encode()
        self._exchange.send(wire.Op.WRITE, sequence, body)
        self._pending[sequence] = self._writes[sequence] = (start, end)

    def _read(self, frame: Frame) -> None:
        exchange = self._exchange
        if frame.type != wire.Op.WRITE | wire.RESPONSE or frame.sequence not in self._writes:
            exchange.statistics.stale_answers += 1
            return
        # The responses to earlier WRITEs cannot come any more.
        is_pending = frame.sequence in self._pending
        before = itertools.takewhile(lambda other: other != frame.sequence, self._pending)
        earlier = list(before) if is_pending else []
        try:
            arrived = exchange.read_answer(
                wire.Op.WRITE, frame.body, messages.WriteAnswer.parse
            ).arrived
        except messages.MalformedBodyError:
            return
        except DeviceRefusedError as error:
            if error.status != wire.Status.GAP:
                raise
            self._mark_lost([*earlier, frame.sequence] if is_pending else [])
            return
        if arrived > self._sent:
            exchange.statistics.corrupt[CorruptReason.BODY] += 1
            return
        gained = self._missing.remove(0, arrived)
        gained += self._missing.remove(*self._writes[frame.sequence])
        self._mark_lost(earlier)
        self._pending.pop(frame.sequence, None)
        if gained:
            self._window.grow()
            self._timeouts.progressed()
            if self._progress is not None:
                self._progress(len(self._data) - self._missing.count, len(self._data))

    def _mark_lost(self, sequences: list[int]) -> None:
        pieces = [self._pending.pop(sequence) for sequence in sequences]
        for piece in pieces:
            if missing := self._missing.within(*piece):
                self._lost.extend(missing)
                self._window.shrink()
                self._timeouts.count_loss(MOST_WRITES)

    def _on_timeout(self) -> None:
        """Send the oldest piece again: the response shows which of the others arrived."""
        if self._timeouts.timed_out():
            self._window.shrink()
        if self._pending:
            piece = self._pending.pop(next(iter(self._pending)))
            self._exchange.statistics.resent += 1
            self._send(*piece)

    def _failure(self, how: str) -> HarnessError:
        start, _ = self._missing.first()
        return self._exchange.failure(
            f"upload of {self._region.name} {self._index} stopped at byte {start} of "
            f"{len(self._data)}, {how}"
        )


class _Window:
    """Limit of WRITEs in flight, adapted to the board's receive buffer.

    A single lost frame is line noise. A second loss soon after means that the board's receiver is
    overrun, and halves the limit.
    """

    def __init__(self) -> None:
        self.size = 8.0
        self._probing = True
        self._since_loss = MOST_WRITES

    def grow(self) -> None:
        step = 1.0 if self._probing else 1 / self.size
        self.size = min(MOST_WRITES, self.size + step)
        self._since_loss += 1

    def shrink(self) -> None:
        if self._since_loss < self.size:
            self.size = max(1.0, self.size / 2)
            self._probing = False
        self._since_loss = 0
