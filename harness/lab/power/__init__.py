"""The power of a unit: taken away, given back, and whether the board came back with it."""

from __future__ import annotations

import time
from pathlib import Path
from typing import Literal, Protocol

import msgspec

from harness.config.board import load_board
from harness.config.unit import CommandPower, RelayPower, Unit, UsbHubPower, UsbPort
from harness.errors import InfrastructureError, NotBackError, UsageError
from harness.lab.leases import hold_if
from harness.lab.power.command import CommandSwitch
from harness.lab.power.relay import RelaySwitch
from harness.lab.power.usb_hub import UsbHubSwitch
from harness.link.ports import open_port, parse_address, plugin_scheme
from harness.target.ports import describe, device_of

_LOOK_EVERY_S = 0.1
_ANY_BAUD = 9600
"""A port is opened only to see that it can be."""


class Switch(Protocol):
    """Something that takes away power and gives it back."""

    def set(self, on: bool) -> str:
        """Switch; return what was done, for people.

        Raises:
            UsageError: What it needs is not installed.
            InfrastructureError: It could not be done.
        """
        ...


def switch(unit: Unit, action: Action) -> Switched:
    """Switch the power of a unit, and hold it meanwhile; ``cycle`` is off, a wait and on.

    After ``on`` and ``cycle`` its port must be there again, within the time that its board's file
    allows for that.

    Raises:
        UsageError: The unit has no power control, or what that needs is not installed.
        BusyError: Somebody else holds the unit.
        PowerError: It could not be switched.
        NotBackError: The port did not come back.
        InfrastructureError: The port of a relay cannot be used.
    """
    began = time.monotonic()
    switch_ = switch_of(unit)
    deadlines = load_board(unit.board)[0].deadlines
    steps: list[str] = []
    went: bool | None = None
    back_s: float | None = None
    with hold_if(unit, reason="power", timeout_s=deadlines.unit_s) as found:
        unit = found or unit
        if action != "on":
            steps.append(switch_.set(False))
            time.sleep(unit.off_s)
            went = _went(unit.port)
        if action != "off":
            steps.append(switch_.set(True))
            back_s = _await_port(unit, deadlines.reopen_s)
    duration_s = round(time.monotonic() - began, 3)
    return Switched(unit.id, action, tuple(steps), went, back_s, duration_s)


def switch_of(unit: Unit) -> Switch:
    """What switches the power of a unit.

    Raises:
        UsageError: Nothing does.
    """
    match unit.power:
        case UsbHubPower() as hub:
            return UsbHubSwitch(hub)
        case CommandPower() as commands:
            return CommandSwitch(commands)
        case RelayPower() as relay:
            return RelaySwitch(relay)
    raise UsageError(
        f"nothing can switch the power of unit {unit.id!r}",
        hint='say what does in its units.toml, such as power = { kind = "usb-hub", hub = "1-4", '
        "port = 3 } (docs/lab.md)",
    )


def _went(port: UsbPort | str | None) -> bool | None:
    """Whether a port has gone; None where that says nothing."""
    if port is None:
        return None
    if isinstance(port, str) and (plugin_scheme(port) or parse_address(port) is not None):
        return None
    try:
        return not Path(device_of(port)).exists()
    except InfrastructureError:
        return True


def _await_port(unit: Unit, reopen_s: float) -> float | None:
    """Wait until the board has settled, and its port can be opened; None if it has no port."""
    began = time.monotonic()
    time.sleep(unit.settle_s)
    if unit.port is None:
        return None
    give_up_at = time.monotonic() + reopen_s
    while True:
        try:
            open_port(device_of(unit.port), _ANY_BAUD).close()
        except InfrastructureError as error:
            if time.monotonic() >= give_up_at:
                raise NotBackError(
                    f"unit {unit.id!r} has its power back, but after {unit.settle_s:g} s and "
                    f"{reopen_s:g} s more its port {describe(unit.port)} is not: {error.message}",
                    hint="look at the board, its cable and its supply; settle_s in units.toml is "
                    "how long it takes to be there, reopen_s in its board file how long to wait",
                ) from error
            time.sleep(_LOOK_EVERY_S)
            continue
        return round(time.monotonic() - began, 3)


Action = Literal["on", "off", "cycle"]


class Switched(msgspec.Struct, frozen=True):
    """What ``etharness power --json`` prints.

    ``steps`` are what was done, in order. ``went`` says whether the port went away with the power:
    a board that takes it from another line goes on; null where that cannot be told, or power was
    not taken. ``back_s`` is how long after its power the port was back, seconds; null if nobody
    waited. ``duration_s`` is how long all of it took, seconds.
    """

    unit: str
    action: Action
    steps: tuple[str, ...]
    went: bool | None
    back_s: float | None
    duration_s: float
