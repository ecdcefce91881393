"""Switches the power of a unit, and waits until the board is back.

Power is switched by a program of the lab, a relay board on a serial port, or a port of a USB hub.
"""

from __future__ import annotations

import re
import shutil
import time
from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Final, Literal

import msgspec

from harness.config.board import load_board
from harness.config.unit import CommandPower, RelayPower, Unit, UsbHubPower, UsbPort
from harness.errors import InfrastructureError, NotBackError, PowerError, UsageError
from harness.link.transports import open_port, parse_address, plugin_scheme
from harness.report.terminal import show_line
from harness.target.ports import device_of, port_text
from harness.target.process_group import ProgramEnd, run_program, with_death_signal
from harness.target.selection import hold_if, hold_keys, port_key

if TYPE_CHECKING:
    from rich.console import Console

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
    set_power = switch_of(unit)
    deadlines = load_board(unit.board)[0].deadlines
    steps: list[str] = []
    went: bool | None = None
    back_s: float | None = None
    with hold_if(unit, reason="power", timeout_s=deadlines.unit_s) as found:
        unit = found or unit
        if action != "on":
            steps.append(set_power(False))
            time.sleep(unit.off_s)
            went = _port_disappeared(unit.port)
        if action != "off":
            steps.append(set_power(True))
            back_s = _await_port(unit, deadlines.reopen_s)
    duration_s = round(time.monotonic() - began, 3)
    return Switched(unit.id, action, tuple(steps), went, back_s, duration_s)


def switch_of(unit: Unit) -> Callable[[bool], str]:
    """Return a function that switches the power of a unit on or off and says what it did.

    It raises UsageError if a program that it needs is not installed, and InfrastructureError if
    switching failed.

    Raises:
        UsageError: The unit has no power control.
    """
    match unit.power:
        case UsbHubPower() as hub:
            return partial(_switch_hub, hub)
        case CommandPower() as commands:
            return partial(_run_command, commands)
        case RelayPower() as relay:
            return partial(_switch_relay, relay)
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
                    f"unit {unit.id!r}: port {port_text(unit.port)} did not come back within "
                    f"{unit.settle_s + reopen_s:g} s of power-on: {error.message}",
                    hint="check the board, its cable and its supply, or wait longer: settle_s in "
                    "units.toml is the time to boot, reopen_s in the board file the time after it",
                ) from error
            time.sleep(_POLL_S)
            continue
        return round(time.monotonic() - began, 3)


def _run_command(power: CommandPower, on: bool) -> str:
    """Run a command of the unit's file; return it."""
    command = power.on if on else power.off
    ended = run(command, power.timeout_s)
    if ended.code:
        raise PowerError(
            f"`{' '.join(command)}` failed with exit code {ended.code}; the power may not be "
            f"{'on' if on else 'off'}: {_last_lines(ended.output)}",
            hint="run the command by hand; it is `power` of this unit in units.toml",
        )
    return " ".join(command)


def _switch_relay(power: RelayPower, on: bool) -> str:
    """Send the bytes of the unit's file to a relay board, which sends no answer."""
    data = bytes.fromhex(power.on if on else power.off)
    device = device_of(power.port)
    with hold_keys([port_key(device)], _RELAY_WAIT_S, reason="power"):
        port = open_port(device, power.baud)
        try:
            port.write(data, _WRITE_S)
        finally:
            port.close()
    return f"{data.hex(' ')} to the relay on {port_text(power.port)}"


def _switch_hub(power: UsbHubPower, on: bool) -> str:
    """Switch a port of a hub, and verify the state that the hub reports; return the command."""
    action = "on" if on else "off"
    hub, port = power.hub, power.port
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
        raise _hub_failure(hub, ended)
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


def _hub_failure(hub: str, ended: ProgramEnd) -> PowerError:
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
    return PowerError(f"{UHUBCTL} failed with exit code {ended.code}: {_last_lines(ended.output)}")


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


def show_switched(console: Console, switched: Switched, *, verbosity: int = 0) -> None:
    """Print what was done, unless ``verbosity`` is negative, and how it is now."""
    if verbosity >= 0:
        for step in switched.steps:
            show_line(console, step)
        if switched.went is False:
            show_line(console, "its port did not go away: it may have power from elsewhere")
    state = "off" if switched.action == "off" else "on"
    back = "" if switched.back_s is None else f"; its port was back after {switched.back_s:.1f} s"
    show_line(console, f"the power of {switched.unit} is {state}{back}")
