"""Unit: one physical board of a lab, as its ``units.toml`` describes it.

The type of a board is shared and reviewed (``harness/config/board.py``); which boards are connected
to which port is true in one lab only, so it has a file of its own that stays there.
"""

from __future__ import annotations

import os
from collections.abc import Sequence
from pathlib import Path
from typing import Annotated, Final, Literal

import msgspec

from harness.config.board import Positive, Seconds, Strict
from harness.config.toml_file import read_toml
from harness.errors import UsageError, did_you_mean
from harness.files import absolute, placed_word

VARIABLE: Final = "ETHARNESS_UNITS"
"""Environment variable that names the file."""

_FILE: Final = "units.toml"

Name = Annotated[str, msgspec.Meta(pattern=r"^[A-Za-z0-9][A-Za-z0-9._-]{0,63}$")]
HexBytes = Annotated[str, msgspec.Meta(pattern=r"^([0-9A-Fa-f]{2} ?)+$")]
UsbId = Annotated[int, msgspec.Meta(ge=0, le=0xFFFF)]


class UsbPort(Strict, frozen=True):
    """A serial port by what is plugged in, wherever: never by a product's name.

    ``interface`` tells the ports of one device apart, ``location`` (as 1-4.3, hub by hub) devices
    that all have the same serial number or none.
    """

    vid: UsbId
    pid: UsbId
    serial: str = ""
    interface: Annotated[int, msgspec.Meta(ge=0)] | None = None
    location: str = ""


class UsbHubPower(Strict, frozen=True, tag="usb-hub", tag_field="kind"):
    """A port of a USB hub that can switch its ports, by ``uhubctl``; ``hub`` as that names it."""

    hub: Annotated[str, msgspec.Meta(pattern=r"^[0-9]+(-[0-9]+(\.[0-9]+)*)?$")]
    port: Positive


class CommandPower(Strict, frozen=True, tag="command", tag_field="kind"):
    """Programs with their arguments, which a smart socket or another supply comes with.

    No shell reads them. Each must have ended after ``timeout_s`` seconds.
    """

    on: Annotated[tuple[str, ...], msgspec.Meta(min_length=1)]
    off: Annotated[tuple[str, ...], msgspec.Meta(min_length=1)]
    timeout_s: Seconds = 30.0


class RelayPower(Strict, frozen=True, tag="relay", tag_field="kind"):
    """A relay board on a serial port; ``on`` and ``off`` are the bytes it takes, in hexadecimal."""

    port: UsbPort | str
    on: HexBytes
    off: HexBytes
    baud: Positive = 9600


Power = UsbHubPower | CommandPower | RelayPower


class Unit(Strict, frozen=True):
    """One physical board, or a simulated one that stands for it.

    Attributes:
        id: What people call it; results are kept under this name.
        board: Its type: the name of a board or a board file, relative to this one.
        probe: Its debug probe as VID:PID:Serial, hexadecimal; "" if it has none.
        port: Its serial port: what to find it by, a device name, or the address of one on another
            host (``socket://host:port``, ``rfc2217://host:port``); None for a simulated board.
        baud: The best rate of its line, bits per second, as `etharness lab health --rates` measured
            it; None for the best that its board's file lists.
        power: How to take its power away and give it back; None if that needs a hand.
        fixtures: What is connected to it, for plans to choose by.
        health: What it is asked before it is trusted: whether it answers, or nothing.
        off_s: How long its power stays away in a power cycle, seconds.
        settle_s: How long it takes to be there again after its power came back, seconds.
        lease: Who says whose it is: this host, or a labgrid coordinator.
        place: Its place, by the name the coordinator has for it; "" for its id.
        match: Instead of a place, tags: any place that has all of them will do.
        coordinator: The coordinator's address, HOST:PORT; "" for what labgrid itself goes by.
        note: Anything else, for people.
    """

    id: Name
    board: str
    probe: str = ""
    port: UsbPort | str | None = None
    baud: Positive | None = None
    power: Power | None = None
    fixtures: tuple[Name, ...] = ()
    health: Literal["hello", "none"] = "hello"
    off_s: Annotated[float, msgspec.Meta(ge=0)] = 2.0
    settle_s: Annotated[float, msgspec.Meta(ge=0)] = 2.0
    lease: Literal["local", "labgrid"] = "local"
    place: str = ""
    match: dict[str, str] = msgspec.field(default_factory=dict)
    coordinator: str = ""
    note: str = ""

    def rates(self, listed: Sequence[int]) -> tuple[int, ...]:
        """Rates to move its line to, best first, of those that its board's file lists."""
        if self.baud is None:
            return tuple(listed)
        return (self.baud, *(baud for baud in listed if baud < self.baud))


class _File(Strict, frozen=True):
    schema: Annotated[int, msgspec.Meta(ge=1, le=1)]
    unit: tuple[Unit, ...] = ()


def units_file() -> Path | None:
    """The lab's file: what ``$ETHARNESS_UNITS`` says, else ``units.toml`` here or in the user's
    configuration directory; None if there is none.
    """
    if configured := os.environ.get(VARIABLE, "").strip():
        return absolute(configured)
    home = Path(os.environ.get("XDG_CONFIG_HOME") or "~/.config").expanduser()
    found = (absolute(path / _FILE) for path in (Path(), home / "etdump-harness"))
    return next((path for path in found if path.is_file()), None)


def load_units(path: Path | None = None) -> tuple[Unit, ...]:
    """Read a lab's units.

    Args:
        path: Their file; None for the lab's own.

    Raises:
        UsageError: There is no such file, something in it is wrong, or two units share an id.
    """
    file = absolute(path) if path else units_file()
    if file is None:
        raise UsageError(
            "no units are described on this host",
            hint=f"write {_FILE} (docs/lab.md), or name one with --units or ${VARIABLE}",
        )
    units = read_toml(file, _File).unit
    ids: set[str] = set()
    for unit in units:
        if unit.id in ids:
            raise UsageError(f"{file}: two units are called {unit.id!r}")
        ids.add(unit.id)
        if wrong := _misplaced(unit):
            raise UsageError(f"{file}: unit {unit.id!r}: {wrong}")
    return tuple(_placed(unit, file) for unit in units)


def find_unit(name: str, path: Path | None = None) -> Unit:
    """The unit of this name.

    ``labgrid:BOARD`` is any place of a labgrid coordinator that has the tag ``board=BOARD``; no
    file needs to describe it.

    Raises:
        UsageError: There is none; the hint lists what there is.
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


def _misplaced(unit: Unit) -> str:
    """What is wrong with where labgrid is to look for it, "" if nothing is."""
    given = [name for name in ("place", "match", "coordinator") if getattr(unit, name)]
    if given and unit.lease != "labgrid":
        return f'{given[0]} is of use only with lease = "labgrid"'
    if unit.place and unit.match:
        return "a place and what to match are two ways to say which; leave one out"
    return ""


def _placed(unit: Unit, file: Path) -> Unit:
    """The unit with the paths of its board file, and of programs that are beside its own file."""
    if unit.board.endswith(".toml"):
        unit = msgspec.structs.replace(unit, board=str(absolute(file.parent / unit.board)))
    if isinstance(unit.power, CommandPower):
        on, off = (
            tuple(placed_word(word, file.parent) for word in argv)
            for argv in (unit.power.on, unit.power.off)
        )
        power = msgspec.structs.replace(unit.power, on=on, off=off)
        unit = msgspec.structs.replace(unit, power=power)
    return unit
