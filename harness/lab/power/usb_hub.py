"""Power by a USB hub that can switch its ports, through ``uhubctl``."""

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
    """Switches a port of a hub, and reads what the hub says of it then."""

    def __init__(self, power: UsbHubPower) -> None:
        self._power = power

    def set(self, on: bool) -> str:
        """Switch; return the command.

        Raises:
            UsageError: uhubctl is not installed.
            PowerError: The hub is not there, cannot switch, or says that it has not.
        """
        action = "on" if on else "off"
        hub, port = self._power.hub, self._power.port
        # In Debian it is beside the programs of administrators.
        program = shutil.which(PROGRAM) or shutil.which(PROGRAM, path="/usr/sbin:/sbin")
        if program is None:
            raise UsageError(
                f"port {port} of the USB hub {hub} is switched by {PROGRAM}, which is not "
                "installed",
                hint=f"on Debian or Ubuntu: apt-get install {PROGRAM}",
            )
        command = [PROGRAM, "-l", hub, "-p", str(port), "-a", action]
        ended = run([program, *command[1:]], _TIMEOUT_S)
        if ended.code:
            raise self._failure(ended)
        states = states_of_port(ended.output, port)
        if not states:
            raise PowerError(
                f"{PROGRAM} says nothing of port {port} of the USB hub {hub}: {ended.last_lines}",
                hint=f"has the hub that port? `{PROGRAM} -l {hub}` lists them",
            )
        # A hub that is USB 2 and USB 3 is two hubs, which both have the port: power of either is
        # power, and to be off both must be.
        if any(states.values()) != on:
            raise PowerError(
                f"the USB hub {hub} was told to switch port {port} {action}, and says that it is "
                f"{'off' if on else 'on'}: {ended.last_lines}",
                hint="not every hub that says it can switch does; docs/lab.md says which do",
            )
        return " ".join(command)

    def _failure(self, ended: PowerCommandEnd) -> PowerError:
        hub = self._power.hub
        if "permission" in ended.output.lower():
            return PowerError(
                f"{PROGRAM} may not use the USB hub {hub}: {ended.last_lines}",
                hint="give your user the right by a udev rule, which uhubctl's manual has",
            )
        if "No compatible devices" in ended.output:
            return PowerError(
                f"there is no USB hub at {hub} that can switch its ports",
                hint=f"`{PROGRAM}` lists those there are; a hub that was plugged in elsewhere has "
                "another place",
            )
        return PowerError(f"{PROGRAM} ended with {ended.code}; it said: {ended.last_lines}")


def states_of_port(output: str, port: int) -> dict[str, bool]:
    """Whether a port has power, by hub, as uhubctl said of it last."""
    states: dict[str, bool] = {}
    hub = ""
    for line in output.splitlines():
        if found := _HUB.match(line):
            hub = found[2]
        elif hub and (found := _PORT.match(line)) and int(found[1]) == port:
            states[hub] = "power" in found[2].split()
    return states
