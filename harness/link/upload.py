"""Writes a region of the device: several WRITEs under way, going back when bytes are missing."""

from __future__ import annotations

import hashlib
from collections.abc import Callable
from typing import Final, TypeVar

from harness.errors import DeviceRefusedError
from harness.link.exchange import Exchange, Progress
from harness.link.frames import OVERHEAD, CorruptReason
from harness.link.messages import (
    WRITE_OVERHEAD,
    MalformedBodyError,
    commit_request,
    open_request,
    parse_empty,
    parse_write,
    write_request,
)
from harness.link.wire import RESPONSE, Op, Region, Status

_T = TypeVar("_T")

WINDOW_FRAMES: Final = 8
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
) -> _T:
    """Write ``data`` into a region and commit it; ``parse`` reads the answer to COMMIT.

    ``method`` is the one to load of a model.

    Raises:
        DeviceRefusedError: The device does not want it.
        LinkError: It could not be brought over.
        TargetError: The target died meanwhile.
    """
    digest = hashlib.sha256(data).digest()
    for _ in range(exchange.retries + 1):
        exchange.request(Op.OPEN, open_request(region, index, len(data)), parse_empty)
        try:
            _Writer(exchange, region, index, data, progress).run()
            commit = commit_request(region, index, digest, method)
            return exchange.request(Op.COMMIT, commit, parse, patient=True)
        except DeviceRefusedError as error:
            if error.status not in _WORTH_REPEATING:
                raise
            exchange.statistics.digest_mismatches += 1
    raise exchange.failure(
        f"{region.name} {index} arrived damaged each of {exchange.retries + 1} times it was sent"
    )


class _Writer:
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
        self._window = float(WINDOW_FRAMES)
        self._arrived = 0
        """Bytes the device has without a hole."""
        self._sent = 0
        self._pending: dict[int, int] = {}
        """Sequence numbers of WRITEs under way, and the offset each ends at."""
        self._rewound_at = -1
        self._stalls = 0

    def run(self) -> None:
        while self._arrived < len(self._data):
            self._fill_window()
            if self._advance():
                if self._progress is not None:
                    self._progress(self._arrived, len(self._data))
            else:
                self._rewind()

    def _fill_window(self) -> None:
        while self._sent < len(self._data) and len(self._pending) < int(self._window):
            part = self._data[self._sent : self._sent + self._chunk]
            sequence = self._exchange.next_sequence()
            body = write_request(self._region, self._index, self._sent, part)
            self._exchange.send(Op.WRITE, sequence, body)
            self._sent += len(part)
            self._pending[sequence] = self._sent

    def _advance(self) -> bool:
        """Wait until the device has more; False when it misses something or stays silent."""
        exchange = self._exchange
        until = exchange.now() + exchange.deadline_s
        while self._pending and (frame := exchange.receive(until)) is not None:
            if frame.type != Op.WRITE | RESPONSE or frame.sequence not in self._pending:
                exchange.statistics.stale_answers += 1
                continue
            try:
                arrived = exchange.read_answer(Op.WRITE, frame, parse_write)
            except MalformedBodyError:
                continue
            except DeviceRefusedError as error:
                if error.status != Status.GAP:
                    raise
                self._arrived = min(error.detail, self._sent)
                return False
            if arrived > self._sent:
                exchange.statistics.corrupt[CorruptReason.BODY] += 1
                continue
            del self._pending[frame.sequence]
            advanced = arrived > self._arrived
            self._arrived = arrived
            self._pending = {s: end for s, end in self._pending.items() if end > arrived}
            if advanced:
                self._window = min(WINDOW_FRAMES, self._window + 1 / self._window)
                return True
        return False

    def _rewind(self) -> None:
        """Send again from where the device is, and less at once: its line may be overrun."""
        exchange = self._exchange
        exchange.statistics.rewinds += 1
        self._stalls = 1 if self._arrived > self._rewound_at else self._stalls + 1
        if self._stalls > exchange.retries:
            raise exchange.failure(
                f"{self._region.name} {self._index} got no further than byte {self._arrived} of "
                f"{len(self._data)}, sent {self._stalls} times"
            )
        exchange.check_alive()
        self._rewound_at = self._arrived
        self._sent = self._arrived
        self._pending.clear()
        self._window = max(1.0, self._window / 2)
