"""Power switch: a program of the lab, with a timeout and its output in error messages."""

from __future__ import annotations

import shutil
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

from harness.config.unit import CommandPower
from harness.errors import InfrastructureError, PowerError
from harness.target.process_group import run_program, with_death_signal

_LAST_LINES: Final = 6


@dataclass(frozen=True, slots=True)
class PowerCommandEnd:
    """The end of a program.

    Attributes:
        code: Exit status.
        output: Its output; standard error comes last.
    """

    code: int
    output: str

    @property
    def last_lines(self) -> str:
        """The last lines of its output, joined for a message."""
        lines = [line.strip() for line in self.output.splitlines() if line.strip()]
        return " | ".join(lines[-_LAST_LINES:]) or "no output"


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
                f"{'on' if on else 'off'}: {ended.last_lines}",
                hint="run the command by hand; it is `power` of this unit in units.toml",
            )
        return " ".join(command)


def run(command: Sequence[str], timeout_s: float) -> PowerCommandEnd:
    """Run a program until it ends; kill it after ``timeout_s`` seconds.

    Raises:
        InfrastructureError: It cannot be started.
        PowerError: It timed out.
    """
    name = f"`{' '.join(command)}`"
    if shutil.which(command[0]) is None:
        raise InfrastructureError(f"cannot start {name}: {command[0]} not found")
    try:
        done = run_program(with_death_signal(command), timeout_s)
    except OSError as error:
        raise InfrastructureError(f"cannot start {name}: {error}") from error
    if done.code is None:
        raise PowerError(
            f"{name} timed out after {timeout_s:g} s: "
            f"{PowerCommandEnd(0, done.output).last_lines}{done.remains}",
            hint="the power may be on or off; run the command by hand",
        )
    return PowerCommandEnd(done.code, done.output)
