"""Runs a program that switches power: to its end or a deadline, and what it said is kept."""

from __future__ import annotations

import shutil
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

from harness.errors import InfrastructureError, PowerError
from harness.target.process_group import bound_to_us, run_program

_LAST_LINES: Final = 6


@dataclass(frozen=True, slots=True)
class Ended:
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


def run(command: Sequence[str], timeout_s: float) -> Ended:
    """Run a program to its end.

    Raises:
        InfrastructureError: It cannot be started.
        PowerError: It was ended after ``timeout_s`` seconds.
    """
    name = f"`{' '.join(command)}`"
    if shutil.which(command[0]) is None:
        raise InfrastructureError(f"cannot start {name}: {command[0]} is not a program")
    try:
        done = run_program(bound_to_us(command), timeout_s)
    except OSError as error:
        raise InfrastructureError(f"cannot start {name}: {error}") from error
    if done.code is None:
        raise PowerError(
            f"{name} had not ended after {timeout_s:g} s; it said: "
            f"{Ended(0, done.output).last_lines}{done.remains}",
            hint="whether it has switched is not known; run it by hand",
        )
    return Ended(done.code, done.output)
