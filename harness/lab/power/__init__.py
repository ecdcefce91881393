"""Switches the power of a unit, and waits until the board is back."""

from __future__ import annotations

import time
from pathlib import Path
from typing import Final, Literal, Protocol

import msgspec

from harness.config.board import load_board
from harness.config.unit import CommandPower, RelayPower, Unit, UsbHubPower, UsbPort
from harness.errors import InfrastructureError, NotBackError, UsageError
from harness.lab.power.command import CommandSwitch
from harness.lab.power.relay import RelaySwitch
from harness.lab.power.usb_hub import UsbHubSwitch
from harness.lab.units import hold_if
from harness.link.ports import open_port, parse_address, plugin_scheme
from harness.target.ports import describe, device_of

_POLL_S: Final = 0.1
_ANY_BAUD: Final = 9600
"""The port is only opened to see whether it exists."""

Action = Literal["on", "off", "cycle"]


class Switched(msgspec.Struct, frozen=True):
    """The document of ``etharness lab power --json``.

    ``steps`` are the actions taken, in order. ``went`` is whether the port disappeared with the
    power: a board that is powered from another line keeps running; null if that is unknown, or if
    the power was not switched off. ``back_s`` is the time from power-on until the port was back,
    seconds; null if the board has no port to wait for. ``duration_s`` is the total time, seconds.
    """

    unit: str
    action: Action
    steps: tuple[str, ...]
    went: bool | None
    back_s: float | None
    duration_s: float


class Switch(Protocol):
    """A power switch."""

    def set(self, on: bool) -> str:
        """Switch the power on or off; return a description of the action.

        Raises:
            UsageError: A program that the switch needs is not installed.
            InfrastructureError: Switching failed.
        """
        ...


def switch(unit: Unit, action: Action) -> Switched:
    """Switch the power of a unit while holding its lease; ``cycle`` is off, a pause and on.

    After ``on`` and ``cycle`` the port has to come back within ``reopen_s`` of the board file.

    Raises:
        UsageError: The unit has no power control, or a program for it is not installed.
        BusyError: The unit is in use by somebody else.
        PowerError: The power could not be switched.
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
            went = _port_disappeared(unit.port)
        if action != "off":
            steps.append(switch_.set(True))
            back_s = _await_port(unit, deadlines.reopen_s)
    duration_s = round(time.monotonic() - began, 3)
    return Switched(unit.id, action, tuple(steps), went, back_s, duration_s)


def switch_of(unit: Unit) -> Switch:
    """Return the power switch of a unit.

    Raises:
        UsageError: The unit has no power control.
    """
    match unit.power:
        case UsbHubPower() as hub:
            return UsbHubSwitch(hub)
        case CommandPower() as commands:
            return CommandSwitch(commands)
        case RelayPower() as relay:
            return RelaySwitch(relay)
    raise UsageError(
        f"unit {unit.id!r} has no power control",
        hint='add it to units.toml, such as power = { kind = "usb-hub", hub = "1-4", port = 3 } '
        "(docs/lab.md)",
    )


def _port_disappeared(port: UsbPort | str | None) -> bool | None:
    """Whether a port has disappeared; None without a port, or for an address of another host."""
    if port is None:
        return None
    if isinstance(port, str) and (plugin_scheme(port) or parse_address(port) is not None):
        return None
    try:
        return not Path(device_of(port)).exists()
    except InfrastructureError:
        return True


def _await_port(unit: Unit, reopen_s: float) -> float | None:
    """Wait until the board's port can be opened; return the seconds, None without a port."""
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
                    f"unit {unit.id!r}: port {describe(unit.port)} did not come back within "
                    f"{unit.settle_s + reopen_s:g} s of power-on: {error.message}",
                    hint="check the board, its cable and its supply, or wait longer: settle_s in "
                    "units.toml is the time to boot, reopen_s in the board file the time after it",
                ) from error
            time.sleep(_POLL_S)
            continue
        return round(time.monotonic() - began, 3)
