"""Power by programs of the lab: one that switches on, one that switches off."""

from __future__ import annotations

from harness.errors import PowerError
from harness.lab.power.program import run
from harness.unit import CommandPower


class CommandSwitch:
    """Runs what the unit names."""

    def __init__(self, power: CommandPower) -> None:
        self._power = power

    def set(self, on: bool) -> str:
        """Switch; return the command.

        Raises:
            PowerError: It failed, or did not end in time.
            InfrastructureError: It cannot be started.
        """
        command = self._power.on if on else self._power.off
        ended = run(command, self._power.timeout_s)
        if ended.code:
            raise PowerError(
                f"`{' '.join(command)}` ended with {ended.code}, so the power is not known to be "
                f"{'on' if on else 'off'}; it said: {ended.last_lines}",
                hint="run it by hand; it is the power of this unit in units.toml",
            )
        return " ".join(command)
