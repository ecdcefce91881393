"""Both directions of a serial line as a chip's UART sees them, with a FIFO each."""

from __future__ import annotations

from collections import deque


class Line:
    """Bytes between the host and a UART.

    Bytes for the device wait here until its FIFO has room, so that none is ever lost; what it sends
    leaves its FIFO when :meth:`carry` is called.

    Attributes:
        incoming: What the UART has received and nobody read.
        outgoing: What the UART was given to send.
        sent: What has reached the host.
    """

    def __init__(self, depth: int) -> None:
        self.depth = depth
        self.incoming: deque[int] = deque()
        self.outgoing: deque[int] = deque()
        self.sent = bytearray()
        self._waiting: deque[int] = deque()

    def feed(self, data: bytes) -> None:
        self._waiting.extend(data)

    def arrive(self) -> bool:
        """Fill the FIFO with what waits; True if a byte came."""
        came = bool(self._waiting) and len(self.incoming) < self.depth
        while self._waiting and len(self.incoming) < self.depth:
            self.incoming.append(self._waiting.popleft())
        return came

    def lose(self) -> bool:
        """Lose the byte on its way to the device, if it is the last; False if it is not."""
        if len(self._waiting) != 1:
            return False
        self._waiting.clear()
        return True

    def carry(self) -> int:
        """Put on the line what the UART holds; returns how many bytes."""
        count = len(self.outgoing)
        self.sent += bytes(self.outgoing)
        self.outgoing.clear()
        return count

    def send(self, byte: int) -> None:
        assert len(self.outgoing) < self.depth, "writes to a UART whose buffer is full"
        self.outgoing.append(byte & 0xFF)

    def receive(self) -> int:
        assert self.incoming, "reads from a UART that has received nothing"
        return self.incoming.popleft()

    @property
    def idle(self) -> bool:
        """Nothing is on its way in either direction."""
        return not (self._waiting or self.incoming or self.outgoing)
