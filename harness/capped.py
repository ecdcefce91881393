"""Output of others that may have no end: its head and its tail are kept, the rest is counted.

What a board or a program prints is worth having, but nothing bounds it: a port can carry text for
as long as somebody listens. The head says how it began, the tail what came last.
"""

from __future__ import annotations

import os
import threading
from pathlib import Path
from typing import Final

HEAD_BYTES: Final = 256 << 10
"""Bytes kept of the beginning, unless said otherwise."""

TAIL_BYTES: Final = 1 << 20
"""Bytes kept of the end, unless said otherwise."""

_LINE_BYTES: Final = 96
"""Length of the line in a file that stands for what was left out: fixed, as its number changes."""


class CappedBuffer:
    """Bytes of which the first and the last are kept, in memory.

    Attributes:
        size: Bytes that there have been.
    """

    def __init__(self, head: int = HEAD_BYTES, tail: int = TAIL_BYTES) -> None:
        self.size = 0
        self._most = head
        self._keep = tail
        self._head = bytearray()
        self._tail = bytearray()

    def extend(self, data: bytes) -> None:
        """Take more."""
        self.size += len(data)
        room = self._most - len(self._head)
        if room > 0:
            self._head += data[:room]
            data = data[room:]
        if len(data) >= self._keep:
            self._tail[:] = data[len(data) - self._keep :]
            return
        self._tail += data
        if len(self._tail) > 2 * self._keep:  # seldom, so that each byte is moved once at most
            del self._tail[: len(self._tail) - self._keep]

    @property
    def left_out(self) -> int:
        """Bytes that are not kept."""
        return self.size - len(self._head) - min(len(self._tail), self._keep)

    @property
    def kept(self) -> bytes:
        """Head and tail, with nothing between them."""
        return bytes(self._head) + self._last_of_tail()

    def last(self, count: int) -> bytes:
        """The last bytes, at most ``count`` and at most those of the tail if some were left out."""
        tail = self._last_of_tail()
        whole = tail if self.left_out else bytes(self._head) + tail
        return whole[max(0, len(whole) - count) :]

    def __bytes__(self) -> bytes:
        """Head and tail, and a line between them that says how many bytes were left out."""
        if not self.left_out:
            return self.kept
        line = f"\n[{self.left_out} bytes left out]\n".encode()
        return bytes(self._head) + line + self._last_of_tail()

    def _last_of_tail(self) -> bytes:
        return bytes(self._tail[max(0, len(self._tail) - self._keep) :])


class CappedFile:
    """A file of which the first and the last bytes are kept while it is written; of no more size.

    Everything is in the file at once, so that it is there, too, when this process is killed. Behind
    the head the file is a ring then; closing it puts that in order.

    Attributes:
        path: The file.
        size: Bytes that were written.
        error: Why something could not be written; what comes after that is dropped, as whoever
            writes must not wait. None while there is no such thing.
    """

    def __init__(self, path: Path, head: int = HEAD_BYTES, tail: int = TAIL_BYTES) -> None:
        """Begin it anew.

        Raises:
            OSError: It cannot be made.
        """
        self.path = path
        self.size = 0
        self.error: OSError | None = None
        self._head = head
        self._end = head + tail
        self._first = head + _LINE_BYTES
        """Where the ring begins: behind the line that says what is left out."""
        self._ring = self._end - self._first
        self._lock = threading.Lock()
        self._file = os.open(path, os.O_RDWR | os.O_CREAT | os.O_TRUNC | os.O_CLOEXEC, 0o666)

    def write(self, data: bytes) -> None:
        """Add to it; an error is kept in ``error``."""
        with self._lock:
            if self.error is not None or self._file < 0:
                return
            try:
                self._write(data)
            except OSError as error:
                error.filename = error.filename or os.fspath(self.path)
                self.error = error

    @property
    def left_out(self) -> int:
        """Bytes that are not kept."""
        return 0 if self.size <= self._end else self.size - self._head - self._ring

    def close(self) -> None:
        """Put it in order; further calls do nothing."""
        with self._lock:
            if self._file < 0:
                return
            try:
                if self.left_out:
                    self._put_in_order()
            except OSError as error:
                self.error = self.error or error
            finally:
                os.close(self._file)
                self._file = -1

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
            count = os.pwrite(self._file, rest[: self._end - offset], offset)
            self.size += count
            rest = rest[count:]

    def _offset(self, number: int) -> int:
        """Where in the file the byte of that number stands."""
        if number < self._end:
            return number
        return self._first + (number - self._first) % self._ring

    def _say(self, text: str) -> None:
        line = f"\n{text}".ljust(_LINE_BYTES - 1) + "\n"
        os.pwrite(self._file, line.encode(), self._head)

    def _put_in_order(self) -> None:
        ring = os.pread(self._file, self._ring, self._first)
        oldest = self._offset(self.size) - self._first
        os.pwrite(self._file, ring[oldest:] + ring[:oldest], self._first)
        self._say(f"[{self.left_out} bytes left out]")
