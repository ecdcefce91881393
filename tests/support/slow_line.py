"""A transport on which bytes take as long as on a slow serial line, in real time."""

from __future__ import annotations

import time

from harness.link.transports import Transport

_BITS_PER_BYTE = 10
_PIECE = 64
"""Bytes that are handed over at once."""


class SlowLine:
    """Wraps a transport; what is behind it does not notice, as bytes wait on the host's side."""

    def __init__(self, inner: Transport, baud: int) -> None:
        self._inner = inner
        self._byte_s = _BITS_PER_BYTE / baud
        self._held = b""

    def read(self, timeout: float) -> bytes:
        if not self._held:
            self._held = self._inner.read(timeout)
        piece, self._held = self._held[:_PIECE], self._held[_PIECE:]
        time.sleep(len(piece) * self._byte_s)
        return piece

    def write(self, data: bytes, timeout: float) -> None:
        time.sleep(len(data) * self._byte_s)
        self._inner.write(data, timeout)

    def close(self) -> None:
        self._inner.close()
