"""Runs a program that switches power: to its end or a deadline, and what it said is kept."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

from harness.errors import PowerError
from harness.target.process import ChildProcess

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
    child = ChildProcess(f"`{' '.join(command)}`", command, alone=True)
    try:
        code = child.finish(timeout_s)
        output = child.output().decode("utf-8", "backslashreplace") + child.tail()
    finally:
        child.close()
    if code is None:
        raise PowerError(
            f"{child.name} had not ended after {timeout_s:g} s; it said: "
            f"{Ended(0, output).last_lines}",
            hint="whether it has switched is not known; run it by hand",
        )
    return Ended(code, output)
