"""Switches the power of a unit, and waits until the board is back.

Power is switched by a program of the lab, a relay board on a serial port, or a port of a USB hub.
"""

from __future__ import annotations

import re
import shutil
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Final, Literal, Protocol

import msgspec

from harness.config.board import load_board
from harness.config.unit import CommandPower, RelayPower, Unit, UsbHubPower, UsbPort
from harness.errors import InfrastructureError, NotBackError, PowerError, UsageError
from harness.lab.units import hold_if
from harness.link.ports import open_port, parse_address, plugin_scheme
from harness.target.lease.holding import hold_keys
from harness.target.lease.records import port_key
from harness.target.ports import describe, device_of
from harness.target.process_group import ProgramEnd, run_program, with_death_signal

_POLL_S: Final = 0.1
_ANY_BAUD: Final = 9600
"""The port is only opened to see whether it exists."""

UHUBCTL: Final = "uhubctl"
_UHUBCTL_S: Final = 30.0
_PORT: Final = re.compile(r"^ +Port (\d+): [0-9a-f]{4}\b(.*)$")
_HUB: Final = re.compile(r"^(Current|New) status for hub (\S+) ")

_RELAY_WAIT_S: Final = 30.0
"""Longest wait for another process that switches another relay of the board."""
_WRITE_S: Final = 5.0

_LAST_LINES: Final = 6
"""Lines of a program's output that messages quote."""

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
        "(`etharness explain lab`)",
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


class CommandSwitch:
    """Runs the commands of the unit's file."""

    def __init__(self, power: CommandPower) -> None:
        self._power = power

    def set(self, on: bool) -> str:
        """Switch; return the command.

        Raises:
            PowerError: The command failed or timed out.
            InfrastructureError: The command cannot be started.
        """
        command = self._power.on if on else self._power.off
        ended = run(command, self._power.timeout_s)
        if ended.code:
            raise PowerError(
                f"`{' '.join(command)}` failed with exit code {ended.code}; the power may not be "
                f"{'on' if on else 'off'}: {_last_lines(ended.output)}",
                hint="run the command by hand; it is `power` of this unit in units.toml",
            )
        return " ".join(command)


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
        with hold_keys([port_key(device)], _RELAY_WAIT_S, reason="power"):
            port = open_port(device, self._power.baud)
            try:
                port.write(data, _WRITE_S)
            finally:
                port.close()
        return f"{data.hex(' ')} to the relay on {describe(self._power.port)}"


class UsbHubSwitch:
    """Switches a port of a hub, and verifies the state that the hub reports."""

    def __init__(self, power: UsbHubPower) -> None:
        self._power = power

    def set(self, on: bool) -> str:
        """Switch; return the command.

        Raises:
            UsageError: uhubctl is not installed.
            PowerError: The hub is missing, cannot switch its ports, or reports the wrong state.
        """
        action = "on" if on else "off"
        hub, port = self._power.hub, self._power.port
        # Debian installs it where PATH of a user does not look.
        program = shutil.which(UHUBCTL) or shutil.which(UHUBCTL, path="/usr/sbin:/sbin")
        if program is None:
            raise UsageError(
                f"{UHUBCTL} is not installed; it switches port {port} of the USB hub {hub}",
                hint=f"on Debian or Ubuntu: apt-get install {UHUBCTL}",
            )
        command = [UHUBCTL, "-l", hub, "-p", str(port), "-a", action]
        ended = run([program, *command[1:]], _UHUBCTL_S)
        if ended.code:
            raise self._failure(ended)
        states = states_of_port(ended.output, port)
        if not states:
            raise PowerError(
                f"{UHUBCTL} reports no state of port {port} of the USB hub {hub}: "
                f"{_last_lines(ended.output)}",
                hint=f"check the port number: `{UHUBCTL} -l {hub}` lists the ports of the hub",
            )
        # A USB 3 hub appears as two hubs with the same port: the port has power if either one
        # powers it, and is off only if both are off.
        if any(states.values()) != on:
            raise PowerError(
                f"port {port} of the USB hub {hub} is still {'off' if on else 'on'} after "
                f"switching it {action}: {_last_lines(ended.output)}",
                hint="some hubs claim to switch their ports but do not; "
                "`etharness explain lab` lists hubs "
                "that do",
            )
        return " ".join(command)

    def _failure(self, ended: ProgramEnd) -> PowerError:
        hub = self._power.hub
        if "permission" in ended.output.lower():
            return PowerError(
                f"{UHUBCTL}: permission denied for the USB hub {hub}: {_last_lines(ended.output)}",
                hint="add the udev rule of uhubctl's manual for your user",
            )
        if "No compatible devices" in ended.output:
            return PowerError(
                f"no USB hub that can switch its ports at {hub}",
                hint=f"`{UHUBCTL}` lists the switchable hubs; a hub changes its location when it "
                "is plugged in elsewhere",
            )
        return PowerError(
            f"{UHUBCTL} failed with exit code {ended.code}: {_last_lines(ended.output)}"
        )


def states_of_port(output: str, port: int) -> dict[str, bool]:
    """Return whether a port has power, by hub, from the last state in uhubctl's output."""
    states: dict[str, bool] = {}
    hub = ""
    for line in output.splitlines():
        if found := _HUB.match(line):
            hub = found[2]
        elif hub and (found := _PORT.match(line)) and int(found[1]) == port:
            states[hub] = "power" in found[2].split()
    return states


def run(command: Sequence[str], timeout_s: float) -> ProgramEnd:
    """Run a program until it ends; kill it after ``timeout_s`` seconds.

    Raises:
        UsageError: There is no such program.
        InfrastructureError: It cannot be started.
        PowerError: It timed out.
    """
    name = f"`{' '.join(command)}`"
    if shutil.which(command[0]) is None:
        raise UsageError(
            f"cannot start {name}: {command[0]} not found",
            hint="install it, or correct `power` in units.toml",
        )
    try:
        done = run_program(with_death_signal(command), timeout_s)
    except OSError as error:
        raise InfrastructureError(f"cannot start {name}: {error}") from error
    if done.code is None:
        raise PowerError(
            f"{name} timed out after {timeout_s:g} s: {_last_lines(done.output)}{done.remains}",
            hint="the power may be on or off; run the command by hand",
        )
    return done


def _last_lines(output: str) -> str:
    """Return the last lines of a program's output, joined for a message."""
    lines = [line.strip() for line in output.splitlines() if line.strip()]
    return " | ".join(lines[-_LAST_LINES:]) or "no output"
