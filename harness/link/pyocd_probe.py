"""A debug probe on this host, through pyOCD as a library."""

from __future__ import annotations

import logging
import time
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any, Final, Self
from urllib.parse import parse_qsl, urlsplit

from harness.errors import ProbeError, TargetError
from harness.extras import require
from harness.link.ports import parse_timeout
from harness.link.probe import ProbeStatistics, record_halt

_log = logging.getLogger(__name__)

_POLL_S: Final = 0.005


class PyocdProbe:
    """A board behind a debug probe of this host. It runs after `close`.

    Attributes:
        statistics: What was done to the board.
    """

    def __init__(self, address: str) -> None:
        """Connect without a reset; the board runs on.

        Raises:
            UsageError: The address is invalid, or pyOCD is not installed.
            ProbeError: There is no such probe, or it finds no board.
        """
        self.statistics = ProbeStatistics()
        self._address = address
        url = urlsplit(address)
        options = dict(parse_qsl(url.query))
        chip = options.pop("target", "")
        self._timeout_s = parse_timeout(address, options)
        helpers, sessions, exceptions, targets = require(
            *("flash", "pyocd://"),
            *("pyocd.core.helpers", "pyocd.core.session", "pyocd.core.exceptions"),
            "pyocd.core.target",
        )
        self._error: type[Exception] = exceptions.Error
        self._kinds = targets.Target
        self._halted_at: float | None = None
        self._breakpoint: int | None = None
        with self._errors("connect"):
            found = helpers.ConnectHelper.get_all_connected_probes(
                blocking=False, unique_id=url.netloc or None, print_wait_message=False
            )
            probe = self._only(found)
            self._session = sessions.Session(
                probe,
                connect_mode="attach",  # a reset would clear the trace
                resume_on_disconnect=True,
                auto_unlock=False,  # unlocking a chip erases it
                **({"target_override": chip} if chip else {}),
            )
            self._session.open()
        self._target = self._session.target

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def halt(self) -> None:
        """Halt the board; nothing happens if it is halted.

        Raises:
            ProbeError: It did not halt in time.
        """
        if self._halted_at is not None:
            return
        with self._errors("halt the board"):
            self._target.halt()
            if not self._stopped_within(self._timeout_s):
                raise ProbeError(
                    f"the board behind {self._address} did not halt within {self._timeout_s:g} s",
                    hint="check its power and wiring",
                )

    def resume(self) -> None:
        """Let the board run; nothing happens if it runs.

        Raises:
            ProbeError: The probe failed.
        """
        if self._halted_at is not None:
            with self._errors("let the board run"):
                self._target.resume()
            record_halt(self.statistics, self._halted_at)
            self._halted_at = None

    def read(self, address: int, size: int) -> bytes:
        """Return memory of the board.

        Raises:
            ProbeError: The memory cannot be read.
        """
        with self._errors(f"read {size} bytes of memory at {address:#x}"):
            data = bytes(self._target.read_memory_block8(address, size))
        self.statistics.requests += 1
        self.statistics.bytes_read += len(data)
        return data

    def write(self, address: int, data: bytes) -> None:
        """Write memory of the board.

        Raises:
            ProbeError: The memory cannot be written.
        """
        self.statistics.requests += 1
        with self._errors(f"write {len(data)} bytes of memory at {address:#x}"):
            self._target.write_memory_block8(address, list(data))

    def run_to(self, address: int, timeout_s: float) -> None:
        """Let the board run until it is about to execute ``address``; it is halted then.

        Raises:
            TargetError: It stopped elsewhere, or did not get there in time.
            ProbeError: The probe failed, or has no free breakpoint.
        """
        self.halt()
        with self._errors(f"run to {address:#x}"):
            if self._target.read_core_register("pc") == address:
                self._target.step()  # a breakpoint here would stop it at once
            if not self._target.set_breakpoint(address, self._kinds.BreakpointType.HW):
                raise ProbeError(f"{self._address} has no free breakpoint for {address:#x}")
            self._breakpoint = address
            self.resume()
            reached = self._stopped_within(timeout_s)
            self.halt()
            self._clear_breakpoint()
            place = self._target.read_core_register("pc")
        if not reached or place != address:
            raise TargetError(
                f"the board behind {self._address} did not reach {address:#x} within "
                f"{timeout_s:g} s; it is at {place:#x}"
            )

    def reset(self, command: str) -> None:
        """Reset the board and halt it; ``command`` is for gdbservers and ignored here.

        Raises:
            ProbeError: The board did not halt.
        """
        _log.debug("reset by pyOCD instead of the command %r", command)
        with self._errors("reset the board"):
            self._target.reset_and_halt()
            self._halted_at = time.monotonic()

    def close(self) -> None:
        """Remove the breakpoint, let the board run, and disconnect; never raises."""
        try:
            with self._errors("disconnect"):
                self._clear_breakpoint()
                self.resume()
                self._session.close()
        except ProbeError as error:
            _log.warning("the board behind %s may be left halted: %s", self._address, error.message)

    def _only(self, found: list[Any]) -> Any:
        if len(found) == 1:
            return found[0]
        names = ", ".join(f"{probe.unique_id} ({probe.description})" for probe in found)
        raise ProbeError(
            f"{self._address}: {len(found)} debug probes found" + (f": {names}" if names else ""),
            hint="name one as pyocd://UNIQUE-ID; `pyocd list` lists them",
        )

    def _stopped_within(self, timeout_s: float) -> bool:
        deadline = time.monotonic() + timeout_s
        while not self._target.is_halted():
            if time.monotonic() > deadline:
                return False
            time.sleep(_POLL_S)
        self._halted_at = time.monotonic()
        return True

    def _clear_breakpoint(self) -> None:
        if self._breakpoint is not None:
            self._target.remove_breakpoint(self._breakpoint)
            self._breakpoint = None

    @contextmanager
    def _errors(self, action: str) -> Iterator[None]:
        """Turn errors of pyOCD into ProbeError."""
        try:
            yield
        except self._error as error:
            raise ProbeError(
                f"{self._address} cannot {action}: {error}",
                hint="check power, wiring and permissions of the probe; name the chip with "
                "?target=NAME (`pyocd list --targets`)",
            ) from error
