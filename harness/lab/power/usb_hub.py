"""Power switch: a port of a USB hub, through ``uhubctl``."""

from __future__ import annotations

import re
import shutil
from typing import Final

from harness.config.unit import UsbHubPower
from harness.errors import PowerError, UsageError
from harness.lab.power.command import PowerCommandEnd, run

PROGRAM: Final = "uhubctl"
_TIMEOUT_S: Final = 30.0
_PORT: Final = re.compile(r"^ +Port (\d+): [0-9a-f]{4}\b(.*)$")
_HUB: Final = re.compile(r"^(Current|New) status for hub (\S+) ")


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
        program = shutil.which(PROGRAM) or shutil.which(PROGRAM, path="/usr/sbin:/sbin")
        if program is None:
            raise UsageError(
                f"{PROGRAM} is not installed; it switches port {port} of the USB hub {hub}",
                hint=f"on Debian or Ubuntu: apt-get install {PROGRAM}",
            )
        command = [PROGRAM, "-l", hub, "-p", str(port), "-a", action]
        ended = run([program, *command[1:]], _TIMEOUT_S)
        if ended.code:
            raise self._failure(ended)
        states = states_of_port(ended.output, port)
        if not states:
            raise PowerError(
                f"{PROGRAM} reports no state of port {port} of the USB hub {hub}: "
                f"{ended.last_lines}",
                hint=f"check the port number: `{PROGRAM} -l {hub}` lists the ports of the hub",
            )
        # A USB 3 hub appears as two hubs with the same port: the port has power if either one
        # powers it, and is off only if both are off.
        if any(states.values()) != on:
            raise PowerError(
                f"port {port} of the USB hub {hub} is still {'off' if on else 'on'} after "
                f"switching it {action}: {ended.last_lines}",
                hint="some hubs claim to switch their ports but do not; docs/lab.md lists hubs "
                "that do",
            )
        return " ".join(command)

    def _failure(self, ended: PowerCommandEnd) -> PowerError:
        hub = self._power.hub
        if "permission" in ended.output.lower():
            return PowerError(
                f"{PROGRAM}: permission denied for the USB hub {hub}: {ended.last_lines}",
                hint="add the udev rule of uhubctl's manual for your user",
            )
        if "No compatible devices" in ended.output:
            return PowerError(
                f"no USB hub that can switch its ports at {hub}",
                hint=f"`{PROGRAM}` lists the switchable hubs; a hub changes its location when it "
                "is plugged in elsewhere",
            )
        return PowerError(f"{PROGRAM} failed with exit code {ended.code}: {ended.last_lines}")


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
