"""LogChunks: the host's end of a streamed log. It requests lost parts and acknowledges chunks."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from harness.errors import TargetError
from harness.link.transfer import MissingRanges
from harness.link.values import LogAck, LogPart, LogWait

MOST_LOG: Final = 1 << 30
"""Largest streamed log, bytes; the chunks of a log are in memory until the end of the run."""


class LogTooLongError(TargetError):
    """A streamed log has reached the limit: the run makes more events than can be kept."""


@dataclass(slots=True)
class _Chunk:
    """A chunk that is being received.

    Attributes:
        image: Its bytes.
        missing: Those that have not arrived yet.
        awaited: End of the bytes that the device sends at the moment; when they are over, the
            device learns what is missing.
        told: The device has been told since the last part arrived.
    """

    image: bytearray
    missing: MissingRanges
    awaited: int
    told: bool = False


class LogChunks:
    """Assembles chunks of a log from parts, and says what to answer to the device.

    The device keeps a chunk until it is acknowledged, and sends no other one before.
    """

    def __init__(self) -> None:
        self._chunks: dict[int, _Chunk] = {}
        self._newest = -1
        self._size = 0

    def add(self, part: LogPart) -> LogAck | None:
        """Add a part; return the answer if it is the last one that the device sends for now."""
        chunk = self._open(part.chunk, part.size)
        end = part.offset + len(part.data)
        if part.size != len(chunk.image):
            return None
        chunk.image[part.offset : end] = part.data
        chunk.missing.remove(part.offset, end)
        chunk.told = False
        return self._answer(part.chunk) if end == chunk.awaited else None

    def wanted(self, note: LogWait) -> LogAck:
        """Return the answer to a device that waits."""
        self._open(note.chunk, note.size)
        return self._answer(note.chunk)

    def unfinished(self) -> LogAck | None:
        """Return the request for what is missing of the newest chunk; None without any.

        Call it when something else than a part arrives, as the device then sends no part. None,
        too, if the device was told: it may be executing, and asks when it needs the answer.
        """
        chunk = self._chunks.get(self._newest)
        if chunk is None or chunk.told or not chunk.missing:
            return None
        return self._answer(self._newest)

    def whole(self) -> tuple[bytes, ...]:
        """Return the complete chunks in order."""
        chunks = [chunk for _, chunk in sorted(self._chunks.items())]
        return tuple(bytes(chunk.image) for chunk in chunks if not chunk.missing)

    def _open(self, number: int, size: int) -> _Chunk:
        if number not in self._chunks:
            if self._size + size > MOST_LOG:
                raise LogTooLongError(
                    f"the streamed log exceeds {MOST_LOG:,} bytes in chunk {number + 1}",
                    hint="run the model less often, or log less: --profile method",
                )
            self._size += size
            self._newest = max(self._newest, number)
            self._chunks[number] = _Chunk(bytearray(size), MissingRanges(size), awaited=size)
        return self._chunks[number]

    def _answer(self, number: int) -> LogAck:
        chunk = self._chunks[number]
        chunk.told = True
        if not chunk.missing:
            return LogAck(number, len(chunk.image), 0)
        start, chunk.awaited = chunk.missing.first()
        return LogAck(number, start, chunk.awaited - start)
