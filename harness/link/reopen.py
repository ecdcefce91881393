"""A transport that outlives its port: a USB adapter that is unplugged and comes back."""

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
    """Opens the stream again when it has ended.

    What was under way is lost, and the link asks again for that and nothing else.

    Attributes:
        reopened: How often the stream came back.
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
            open_: Opens it; called again each time it has ended.
            deadline_s: How long it may be gone, seconds; 0 for not at all.
            check: Called before every read and write; what it raises ends them.
            now: The monotonic clock, seconds.
            sleep: Waits so many seconds.

        Raises:
            InfrastructureError: It cannot be opened the first time.
        """
        self.reopened = 0
        self._open = open_
        self._deadline_s = deadline_s
        self._now, self._sleep, self._check = now, sleep, check
        self._transport = open_()

    @property
    def ended(self) -> bool:
        """True when it has ended and not come back."""
        return bool(getattr(self._transport, "ended", False))

    def read(self, timeout: float) -> bytes:
        """Return what has arrived; ``b""`` after ``timeout`` seconds, or when it came back.

        Raises:
            TransportClosedError: It ended and did not come back.
        """
        self._check()
        try:
            return self._transport.read(timeout)
        except TransportClosedError as error:
            self._reopen(error)
            return b""

    def write(self, data: bytes, timeout: float) -> None:
        """Send all of ``data``; it is lost when the stream ends meanwhile, and comes back.

        Raises:
            TransportClosedError: It ended and did not come back.
            LinkError: Not everything could be sent in time.
        """
        self._check()
        try:
            self._transport.write(data, timeout)
        except TransportClosedError as error:
            self._reopen(error)

    @property
    def baud(self) -> int:
        """Bits per second: after it came back, those it was opened with; 0 without a rate."""
        return self._transport.baud if isinstance(self._transport, RatedTransport) else 0

    def set_baud(self, baud: int) -> None:
        """Change the rate; what has been written is out already.

        Should the stream end meanwhile and come back, it has the rate it was opened with.

        Raises:
            TransportClosedError: It ended and did not come back.
            InfrastructureError: The port does not take it, or the connection has no rate.
        """
        if not isinstance(self._transport, RatedTransport):
            raise InfrastructureError("this kind of connection has no rate that could be changed")
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
            hint="plug it in again, or see to the host that serves it; name a device by its path "
            "in /dev/serial/by-id, which stays",
        ) from error
