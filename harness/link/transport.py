"""What the link needs of a byte stream, and nothing else."""

from __future__ import annotations

from typing import Protocol, runtime_checkable


class Transport(Protocol):
    """A byte stream to a target. Times are seconds."""

    def read(self, timeout: float) -> bytes:
        """Return the bytes that have arrived, at least one, or ``b""`` after ``timeout`` seconds.

        Raises:
            TransportClosedError: The stream has ended.
        """
        ...

    def write(self, data: bytes, timeout: float) -> None:
        """Send all of ``data``.

        Raises:
            TransportClosedError: The stream has ended.
            LinkError: Not everything could be sent within ``timeout`` seconds.
        """
        ...

    def close(self) -> None:
        """Release the stream; further calls do nothing."""
        ...


@runtime_checkable
class RatedTransport(Transport, Protocol):
    """A byte stream whose rate can be changed."""

    @property
    def baud(self) -> int:
        """Bits per second."""
        ...

    def set_baud(self, baud: int) -> None:
        """Change the rate; what has been written is out already.

        Raises:
            InfrastructureError: The port does not take it.
        """
        ...
