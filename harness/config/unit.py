"""Unit: one physical board of a lab, described in the lab's ``units.toml``, and its meter.

Board types are shared and reviewed (``harness/config/board.py``). Which board is connected to which
port is specific to one lab, so the units have a separate file that stays there.
"""

from __future__ import annotations

import os
import re
from collections.abc import Collection, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Final, Literal

import msgspec

from harness.config.board import Positive, Seconds, Strict
from harness.config.toml_file import read_document
from harness.errors import UsageError, did_you_mean
from harness.files import absolute, resolve_word
from harness.plugins import require

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


VARIABLE: Final = "ETHARNESS_UNITS"
"""Environment variable: path of the units file."""

_FILE: Final = "units.toml"

_CSV: Final = "csv:"
"""Begins the address of a meter that is a file."""

Name = Annotated[str, msgspec.Meta(pattern=r"^[A-Za-z0-9][A-Za-z0-9._-]{0,63}$")]
HexBytes = Annotated[str, msgspec.Meta(pattern=r"^([0-9A-Fa-f]{2} ?)+$")]
UsbId = Annotated[int, msgspec.Meta(ge=0, le=0xFFFF)]


class UsbPort(Strict, frozen=True, order=True):
    """A USB device, or a serial port of it, on any USB socket; product names do not matter.

    ``interface`` distinguishes the ports of one device, ``location`` (such as 1-4.3, hub by hub)
    devices with the same serial number or without one. ``serial`` is "" if it has none.
    """

    vid: UsbId
    pid: UsbId
    serial: str = ""
    interface: Annotated[int, msgspec.Meta(ge=0)] | None = None
    location: str = ""

    @property
    def ids(self) -> str:
        """VID:PID, hexadecimal."""
        return f"{self.vid:04x}:{self.pid:04x}"

    @property
    def selector(self) -> str:
        """VID:PID:Serial, or VID:PID without a serial number."""
        return f"{self.ids}:{self.serial}" if self.serial else self.ids

    def is_of(self, kinds: Collection[str]) -> bool:
        """Whether it has one of these USB ids, VID:PID or VID."""
        return self.ids in kinds or f"{self.vid:04x}" in kinds


class UsbHubPower(Strict, frozen=True, tag="usb-hub", tag_field="kind"):
    """A switchable port of a USB hub; ``hub`` is its location in the notation of ``uhubctl``."""

    hub: Annotated[str, msgspec.Meta(pattern=r"^[0-9]+(-[0-9]+(\.[0-9]+)*)?$")]
    port: Positive


class CommandPower(Strict, frozen=True, tag="command", tag_field="kind"):
    """Commands (program and arguments, no shell) that switch a smart socket or another supply.

    Each must end within ``timeout_s`` seconds.
    """

    on: Annotated[tuple[str, ...], msgspec.Meta(min_length=1)]
    off: Annotated[tuple[str, ...], msgspec.Meta(min_length=1)]
    timeout_s: Seconds = 30.0


class RelayPower(Strict, frozen=True, tag="relay", tag_field="kind"):
    """A relay board on a serial port; ``on`` and ``off`` are the bytes to send, in hexadecimal."""

    port: UsbPort | str
    on: HexBytes
    off: HexBytes
    baud: Positive = 9600


Power = UsbHubPower | CommandPower | RelayPower


class UnitMeter(Strict, frozen=True):
    """The current meter in a unit's supply: the values of ``etharness run --energy``.

    Attributes:
        meter: Its address, such as ``ppk2`` or ``ppk2:/dev/serial/by-id/...``.
        volts: Voltage of the supply, for a meter that does not measure it.
        marker_pin: Digital input of the meter that is wired to the board's marker pin.
        supply: Let a PPK2 supply the board with ``volts``.
    """

    meter: str
    volts: Annotated[float, msgspec.Meta(gt=0)] | None = None
    marker_pin: Annotated[int, msgspec.Meta(ge=0, lt=PINS)] = 0
    supply: bool = False


class Unit(Strict, frozen=True):
    """One physical board, or a simulated one.

    Attributes:
        id: Name of the unit; results are stored under it.
        board: Board type: the name of a board, or the path of a board file relative to this file.
        probe: Debug probe as VID:PID:Serial, hexadecimal; "" if it has none.
        port: Serial port: a USB device, a device name, or an address on another host
            (``socket://host:port``, ``rfc2217://host:port``); None for a simulated board.
        baud: Best baud rate of its line, as measured by `etharness lab health --rates`; None for
            the best in its board file.
        power: How to switch its power; None if it can only be switched by hand.
        energy: The meter that records every run on it; None for none.
        fixtures: Names of attached equipment; plans select units by them.
        health: Check before a run: ``hello`` requires an answer, ``none`` skips the check.
        off_s: Time without power in a power cycle, seconds.
        settle_s: Time that the board needs to start after power returned, seconds.
        lease: Manager of its leases: this host, or a labgrid coordinator.
        place: Name of its labgrid place; "" for the unit's id.
        match: Tags that select any matching labgrid place, instead of ``place``.
        coordinator: Address of the coordinator, HOST:PORT; "" for labgrid's default.
        note: Free text.
    """

    id: Name
    board: str
    probe: str = ""
    port: UsbPort | str | None = None
    baud: Positive | None = None
    power: Power | None = None
    energy: UnitMeter | None = None
    fixtures: tuple[Name, ...] = ()
    health: Literal["hello", "none"] = "hello"
    off_s: Annotated[float, msgspec.Meta(ge=0)] = 2.0
    settle_s: Annotated[float, msgspec.Meta(ge=0)] = 2.0
    lease: Literal["local", "labgrid"] = "local"
    place: str = ""
    match: dict[str, str] = msgspec.field(default_factory=dict)
    coordinator: str = ""
    note: str = ""

    @property
    def meter(self) -> MeterRequest | None:
        """The request for its meter; None without one.

        Raises:
            UsageError: The address or a value is invalid, or a driver is not installed.
        """
        if (given := self.energy) is None:
            return None
        try:
            return MeterRequest.parse(
                given.meter, given.volts, given.marker_pin, supply=given.supply
            )
        except UsageError as error:
            raise UsageError(
                f"unit {self.id!r}: {error.message}",
                hint=f"{error.hint}; `etharness explain lab` describes `energy` of a unit",
            ) from None

    def rates(self, listed: Sequence[int]) -> tuple[int, ...]:
        """Return the baud rates to try, best first: ``baud``, then slower ones of ``listed``."""
        if self.baud is None:
            return tuple(listed)
        return (self.baud, *(baud for baud in listed if baud < self.baud))


class _File(Strict, frozen=True):
    schema: Annotated[int, msgspec.Meta(ge=1, le=1)]
    unit: tuple[Unit, ...] = ()


def units_file() -> Path | None:
    """Return the path of the lab's units file, or None if there is no file.

    It is ``$ETHARNESS_UNITS``, or ``units.toml`` in the working directory or in the user's
    configuration directory.
    """
    if configured := os.environ.get(VARIABLE, "").strip():
        return absolute(configured)
    home = Path(os.environ.get("XDG_CONFIG_HOME") or "~/.config").expanduser()
    found = (absolute(path / _FILE) for path in (Path(), home / "etdump-harness"))
    return next((path for path in found if path.is_file()), None)


def load_units(path: Path | None = None) -> tuple[Unit, ...]:
    """Load the units of a lab.

    Args:
        path: The units file; None for the lab's default (`units_file`).

    Returns:
        The units by id, numbers in it by their value.

    Raises:
        UsageError: There is no such file, it is invalid, or two units have the same id.
    """
    file = absolute(path) if path else units_file()
    if file is None:
        raise UsageError(
            f"no {_FILE} found on this host",
            hint=f"write one (`etharness explain lab`), or give its path with --units or "
            f"${VARIABLE}",
        )
    units = read_document(file).as_(_File).unit
    ids: set[str] = set()
    for unit in units:
        if unit.id in ids:
            raise UsageError(f"{file}: duplicate unit id {unit.id!r}", hint="rename one of them")
        ids.add(unit.id)
        if error := _labgrid_error(unit):
            raise UsageError(f"{file}: unit {unit.id!r}: {error}")
    ordered = sorted(units, key=lambda unit: _natural(unit.id))
    return tuple(_with_absolute_paths(unit, file) for unit in ordered)


def _natural(name: str) -> list[str | int]:
    """Return a key that sorts ``board-2`` before ``board-10``."""
    return [int(part) if part.isdigit() else part for part in re.split("([0-9]+)", name)]


def find_unit(name: str, path: Path | None = None) -> Unit:
    """Return the unit with this id.

    ``labgrid:BOARD`` is any place of a labgrid coordinator with the tag ``board=BOARD``; it needs
    no entry in a file.

    Raises:
        UsageError: There is no such unit; the hint lists the known ones.
    """
    kind, _, board = name.partition(":")
    if kind == "labgrid" and board:
        return Unit(id=board, board=board, lease="labgrid", match={"board": board})
    units = {unit.id: unit for unit in load_units(path)}
    if name not in units:
        raise UsageError(
            f"no such unit: {name!r}",
            hint=f"{did_you_mean(name, units)}known units: {', '.join(units) or 'none'}",
        )
    return units[name]


def _labgrid_error(unit: Unit) -> str:
    """Return an error message if the labgrid fields are inconsistent, else ""."""
    given = [name for name in ("place", "match", "coordinator") if getattr(unit, name)]
    if given and unit.lease != "labgrid":
        return f'`{given[0]}` requires lease = "labgrid"'
    if unit.place and unit.match:
        return "`place` and `match` exclude each other"
    return ""


def _with_absolute_paths(unit: Unit, file: Path) -> Unit:
    """Return the unit with absolute paths of its board file, its power commands and its samples."""
    if unit.board.endswith(".toml"):
        unit = msgspec.structs.replace(unit, board=str(absolute(file.parent / unit.board)))
    if unit.energy is not None and unit.energy.meter.startswith(_CSV):
        samples = absolute(file.parent / unit.energy.meter.removeprefix(_CSV))
        energy = msgspec.structs.replace(unit.energy, meter=f"{_CSV}{samples}")
        unit = msgspec.structs.replace(unit, energy=energy)
    if isinstance(unit.power, CommandPower):
        on, off = (
            tuple(resolve_word(word, file.parent) for word in argv)
            for argv in (unit.power.on, unit.power.off)
        )
        power = msgspec.structs.replace(unit.power, on=on, off=off)
        unit = msgspec.structs.replace(unit, power=power)
    return unit
