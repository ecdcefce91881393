"""Power by programs of the lab, run until they end or their deadline, with their output kept."""

from __future__ import annotations

import shutil
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

from harness.config.unit import CommandPower
from harness.errors import InfrastructureError, PowerError
from harness.target.process_group import run_program, with_death_signal


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


_LAST_LINES: Final = 6


@dataclass(frozen=True, slots=True)
class PowerCommandEnd:
    """How a program ended.

    Attributes:
        code: Its exit status.
        output: What it wrote, errors last.
    """

    code: int
    output: str

    @property
    def last_lines(self) -> str:
        """The end of what it wrote, in one line, for a message."""
        lines = [line.strip() for line in self.output.splitlines() if line.strip()]
        return " | ".join(lines[-_LAST_LINES:]) or "nothing"


def run(command: Sequence[str], timeout_s: float) -> PowerCommandEnd:
    """Run a program to its end.

    Raises:
        InfrastructureError: It cannot be started.
        PowerError: It was ended after ``timeout_s`` seconds.
    """
    name = f"`{' '.join(command)}`"
    if shutil.which(command[0]) is None:
        raise InfrastructureError(f"cannot start {name}: {command[0]} is not a program")
    try:
        done = run_program(with_death_signal(command), timeout_s)
    except OSError as error:
        raise InfrastructureError(f"cannot start {name}: {error}") from error
    if done.code is None:
        raise PowerError(
            f"{name} had not ended after {timeout_s:g} s; it said: "
            f"{PowerCommandEnd(0, done.output).last_lines}{done.remains}",
            hint="whether it has switched is not known; run it by hand",
        )
    return PowerCommandEnd(done.code, done.output)
