"""A transport that reopens its port, for USB adapters that are unplugged and come back."""

from __future__ import annotations

import contextlib
import logging
import time
from collections.abc import Callable
from typing import Final

from harness.errors import InfrastructureError, TransportClosedError
from harness.link.transports import RatedTransport, Transport

_log = logging.getLogger(__name__)

_TRY_EVERY_S: Final = 0.1


class ReopeningTransport:
    """Reopens the stream when it ends.

    Bytes in flight are lost; the link repeats only the requests that they belonged to.

    Attributes:
        reopened: How often the stream was reopened.
    """

    def __init__(
        self,
        open_: Callable[[], Transport],
        deadline_s: float,
        *,
        check: Callable[[], None] = lambda: None,
        now: Callable[[], float] = time.monotonic,
        sleep: Callable[[float], None] = time.sleep,
    ) -> None:
        """Open the stream.

        Args:
            open_: Opens the stream; called again each time it has ended.
            deadline_s: Longest absence of the port, seconds; 0 for no reopening.
            check: Called before every read and write; may raise to abort them.
            now: The monotonic clock, seconds.
            sleep: Sleeps for a number of seconds.

        Raises:
            InfrastructureError: The stream cannot be opened the first time.
        """
        self.reopened = 0
        self._open = open_
        self._deadline_s = deadline_s
        self._now, self._sleep, self._check = now, sleep, check
        self._transport = open_()

    @property
    def ended(self) -> bool:
        """True if the stream has ended and was not reopened."""
        return bool(getattr(self._transport, "ended", False))

    def read(self, timeout: float) -> bytes:
        """Return the bytes that have arrived; ``b""`` after ``timeout`` seconds or a reopening.

        Raises:
            TransportClosedError: The stream ended and could not be reopened.
        """
        self._check()
        try:
            return self._transport.read(timeout)
        except TransportClosedError as error:
            self._reopen(error)
            return b""

    def write(self, data: bytes, timeout: float) -> None:
        """Send all of ``data``; it is lost if the stream ends meanwhile and is reopened.

        Raises:
            TransportClosedError: The stream ended and could not be reopened.
            LinkError: Not everything could be sent in time.
        """
        self._check()
        try:
            self._transport.write(data, timeout)
        except TransportClosedError as error:
            self._reopen(error)

    @property
    def baud(self) -> int:
        """Baud rate; after a reopening the initial one; 0 if the connection has no rate."""
        return self._transport.baud if isinstance(self._transport, RatedTransport) else 0

    def set_baud(self, baud: int) -> None:
        """Change the baud rate; all bytes written before have been sent.

        If the stream ends meanwhile and is reopened, it has its initial rate.

        Raises:
            TransportClosedError: The stream ended and could not be reopened.
            InfrastructureError: The port does not support the rate, or the connection has none.
        """
        if not isinstance(self._transport, RatedTransport):
            raise InfrastructureError("this kind of connection has no baud rate to change")
        try:
            self._transport.set_baud(baud)
        except TransportClosedError as error:
            self._reopen(error)

    def close(self) -> None:
        """Release the stream; further calls do nothing."""
        self._transport.close()

    def _reopen(self, error: TransportClosedError) -> None:
        _log.warning("%s; waiting for it to come back", error.message)
        with contextlib.suppress(InfrastructureError):
            self._transport.close()
        give_up_at = self._now() + self._deadline_s
        while self._now() < give_up_at:
            try:
                self._transport = self._open()
            except InfrastructureError:
                self._sleep(_TRY_EVERY_S)
                continue
            self.reopened += 1
            return
        raise TransportClosedError(
            f"{error.message}, and it did not come back within {self._deadline_s:g} s",
            hint="plug it in again, or check the host that serves it; name a device by its path "
            "in /dev/serial/by-id, which does not change",
        ) from error
