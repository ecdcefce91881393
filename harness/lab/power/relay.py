"""Power switch: a relay board on a serial port."""

from __future__ import annotations

from typing import Final

from harness.config.unit import RelayPower
from harness.link.ports import open_port
from harness.target.lease.holding import hold
from harness.target.lease.records import port_key
from harness.target.ports import describe, device_of

_WAIT_S: Final = 30.0
"""Longest wait for another process that switches another relay of the board."""
_WRITE_S: Final = 5.0


class RelaySwitch:
    """Sends the bytes of the unit's file to a relay board; the board sends no answer."""

    def __init__(self, power: RelayPower) -> None:
        self._power = power

    def set(self, on: bool) -> str:
        """Switch; return the bytes sent and the port.

        Raises:
            BusyError: Another process holds the relay board.
            LinkError: Its port cannot be found, opened or written to.
        """
        data = bytes.fromhex(self._power.on if on else self._power.off)
        device = device_of(self._power.port)
        with hold([port_key(device)], _WAIT_S, reason="power"):
            port = open_port(device, self._power.baud)
            try:
                port.write(data, _WRITE_S)
            finally:
                port.close()
        return f"{data.hex(' ')} to the relay on {describe(self._power.port)}"
