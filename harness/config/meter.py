"""Meters by their address: ``ppk2:PORT``, ``joulescope:SERIAL`` or ``csv:FILE``."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Final

from harness.errors import UsageError, did_you_mean
from harness.extras import require

PINS: Final = 8
"""Digital inputs of a PPK2, the most of any meter."""

JOULESCOPE_DRIVER: Final = "pyjoulescope_driver"

_KINDS: Final = ("ppk2", "joulescope", "csv")


@dataclass(frozen=True, slots=True)
class MeterRequest:
    """Which meter to record with, and how.

    Attributes:
        kind: ``ppk2``, ``joulescope`` or ``csv``.
        place: Its port, serial number or file; "" to find it.
        volts: Voltage of the supply; None if the meter measures it.
        pin: Digital input of the meter that is wired to the board's marker pin.
        supply: Let the meter supply the board with ``volts``.
    """

    kind: str
    place: str
    volts: float | None = None
    pin: int = 0
    supply: bool = False

    @classmethod
    def parse(
        cls, address: str, volts: float | None = None, pin: int = 0, *, supply: bool = False
    ) -> MeterRequest:
        """Parse the address of a meter, and check all that can be checked before the run.

        Raises:
            UsageError: The address or a value is invalid, or a driver is not installed.
        """
        kind, _, place = address.partition(":")
        if kind not in _KINDS or (kind == "csv" and not place):
            raise UsageError(
                f"invalid meter {address!r}",
                hint=f"{did_you_mean(kind, _KINDS)}use ppk2:PORT, joulescope:SERIAL or csv:FILE",
            )
        if kind == "ppk2" and volts is None:
            raise UsageError(
                "a PPK2 does not measure the voltage", hint="give the supply's, as in --volts 3.3"
            )
        if supply and (kind != "ppk2" or volts is None or not 0.8 <= volts <= 5.0):
            raise UsageError(
                "only a PPK2 supplies a board, with 0.8 to 5 V",
                hint="omit --supply, or use --energy ppk2:PORT --volts V",
            )
        if not 0 <= pin < PINS:
            raise UsageError(f"invalid marker pin {pin}", hint=f"use 0 to {PINS - 1}")
        if kind == "csv":
            _check_file(Path(place))
        if kind == "joulescope":
            require("energy", "--energy joulescope", JOULESCOPE_DRIVER)
        return cls(kind, place, volts, pin, supply)

    @property
    def address(self) -> str:
        """The meter as ``parse`` reads it."""
        return f"{self.kind}:{self.place}" if self.place else self.kind


def _check_file(path: Path) -> None:
    """Check that a file can be expected at a path; it need not exist before the run ends."""
    if path.is_dir():
        raise UsageError(f"{path}: a folder, not a CSV file", hint="use --energy csv:FILE")
    if not path.absolute().parent.is_dir():
        raise UsageError(
            f"{path}: its folder does not exist",
            hint="make the folder, and export the samples to this file after the run",
        )
