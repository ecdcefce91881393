"""Buffers and files with a size limit: they keep head and tail of a stream, and count the rest.

The output of boards and programs is unbounded: a port can send text for as long as it is open. The
head shows how the output began, the tail what came last.
"""

from __future__ import annotations

import os
import threading
from pathlib import Path
from typing import Final

HEAD_BYTES: Final = 256 << 10
"""Default size of the head, bytes."""

TAIL_BYTES: Final = 1 << 20
"""Default size of the tail, bytes."""

_LINE_BYTES: Final = 96
"""Length of the line that reports omitted bytes: fixed, because it is rewritten in place."""


class CappedBuffer:
    """Head and tail of a byte stream, in memory.

    Attributes:
        size: Length of the stream so far, bytes.
    """

    def __init__(self, head: int = HEAD_BYTES, tail: int = TAIL_BYTES) -> None:
        self.size = 0
        self._most = head
        self._keep = tail
        self._head = bytearray()
        self._tail = bytearray()

    def extend(self, data: bytes) -> None:
        """Append to the stream."""
        self.size += len(data)
        room = self._most - len(self._head)
        if room > 0:
            self._head += data[:room]
            data = data[room:]
        if len(data) >= self._keep:
            self._tail[:] = data[len(data) - self._keep :]
            return
        self._tail += data
        if len(self._tail) > 2 * self._keep:  # rarely, so that each byte is moved at most once
            del self._tail[: len(self._tail) - self._keep]

    @property
    def left_out(self) -> int:
        """Number of bytes omitted."""
        return self.size - len(self._head) - min(len(self._tail), self._keep)

    @property
    def kept(self) -> bytes:
        """Head and tail, concatenated."""
        return bytes(self._head) + self._last_of_tail()

    def __bytes__(self) -> bytes:
        """Head and tail, with a line between them that reports the number of omitted bytes."""
        if not self.left_out:
            return self.kept
        line = f"\n[{self.left_out} bytes left out]\n".encode()
        return bytes(self._head) + line + self._last_of_tail()

    def _last_of_tail(self) -> bytes:
        return bytes(self._tail[max(0, len(self._tail) - self._keep) :])


class CappedFile:
    """A file with head and tail of a stream, limited in size at all times.

    Bytes are written at once, so they survive if this process is killed. After the head the file is
    a ring; closing it puts the ring in order.

    Attributes:
        path: The file.
        size: Length of the stream so far, bytes.
        error: The first write error, or None; all later bytes are dropped, because writers must
            not block.
    """

    def __init__(self, path: Path, head: int = HEAD_BYTES, tail: int = TAIL_BYTES) -> None:
        """Create or truncate the file.

        Raises:
            OSError: The file cannot be created.
        """
        self.path = path
        self.size = 0
        self.error: OSError | None = None
        self._head = head
        self._end = head + tail
        self._first = head + _LINE_BYTES
        """Start of the ring, after the line that reports omitted bytes."""
        self._ring = self._end - self._first
        self._lock = threading.Lock()
        if path.is_symlink():  # the file that it leads to is not of this log
            path.unlink()
        self._file = path.open("w+b", buffering=0)

    def write(self, data: bytes) -> None:
        """Append to the stream; an error is stored in ``error``."""
        with self._lock:
            if self.error is not None or self._file.closed:
                return
            try:
                self._write(data)
            except OSError as error:
                error.filename = error.filename or os.fspath(self.path)
                self.error = error

    @property
    def left_out(self) -> int:
        """Number of bytes omitted."""
        return 0 if self.size <= self._end else self.size - self._head - self._ring

    def close(self) -> None:
        """Put the ring in order and close the file; further calls do nothing."""
        with self._lock:
            if self._file.closed:
                return
            try:
                if self.left_out:
                    self._put_in_order()
            except OSError as error:
                self.error = self.error or error
            finally:
                self._file.close()

    def __enter__(self) -> CappedFile:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def _write(self, data: bytes) -> None:
        rest = memoryview(data)
        while rest:
            offset = self._offset(self.size)
            if offset == self._first and self.size >= self._end:
                self._say(f"[bytes left out: {self.left_out}, at least; from here on a ring]")
            count = self._write_at(offset, rest[: self._end - offset])
            self.size += count
            rest = rest[count:]

    def _offset(self, number: int) -> int:
        """Return the offset in the file of byte ``number`` of the stream."""
        if number < self._end:
            return number
        return self._first + (number - self._first) % self._ring

    def _say(self, text: str) -> None:
        line = f"\n{text}".ljust(_LINE_BYTES - 1) + "\n"
        self._write_at(self._head, line.encode())

    def _put_in_order(self) -> None:
        self._file.seek(self._first)
        ring = self._file.read(self._ring)
        oldest = self._offset(self.size) - self._first
        self._write_at(self._first, ring[oldest:] + ring[:oldest])
        self._say(f"[{self.left_out} bytes left out]")

    def _write_at(self, offset: int, data: bytes | memoryview) -> int:
        """Write at an offset; return the number of bytes written, as ``pwrite`` on Unix does."""
        self._file.seek(offset)
        return self._file.write(data)
