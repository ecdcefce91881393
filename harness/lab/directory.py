"""Run directory: everything needed to look at a run again, without the board.

result.json      what ran, what was measured, how it ended (schema/result.schema.json)
trace.etlog      the device's own log, lossless; absent when ExecuTorch itself traced
trace.partial    the beginning of the log, when the link broke while it was read
trace.etdp       the same as ED00, size-prefixed, as ExecuTorch writes it, or as it wrote it
debug_buffer.bin bytes of logged tensors, which trace.etlog and trace.etdp refer to
inputs/N.npy     what was fed
outputs/N.npy    what came out of the last execution
reference/N.npy  what should have, if somebody said so
console.log      text the board printed
history.json     earlier results that the run was judged by, if it was
flash.json       how the firmware was brought onto the board, if the run did that
                 (schema/flash.schema.json); flash.log is what the tool printed
postmortem.json  when the board crashed in the run: what it was doing; postmortem.bin as it sent it,
                 and trace.etlog is the log up to the crash
earlier_*        the same of a crash before the run, which the run has made the board forget
"""

from __future__ import annotations

from fractions import Fraction
from pathlib import Path
from typing import TYPE_CHECKING

from harness.errors import UsageError
from harness.result import Clock, Result, decode, encode
from harness.timebase import ClockDomain

if TYPE_CHECKING:
    import numpy as np

RESULT = "result.json"
LOG = "trace.etlog"
PARTIAL = "trace.partial"
ETDUMP = "trace.etdp"
DEBUG_BUFFER = "debug_buffer.bin"
CONSOLE = "console.log"
HISTORY = "history.json"
FLASH = "flash.json"
FLASH_LOG = "flash.log"
POSTMORTEM = "postmortem.json"
POSTMORTEM_IMAGE = "postmortem.bin"
EARLIER_POSTMORTEM = "earlier_postmortem.json"
EARLIER_POSTMORTEM_IMAGE = "earlier_postmortem.bin"
_FILES = (
    *(RESULT, LOG, PARTIAL, ETDUMP, DEBUG_BUFFER, CONSOLE, HISTORY, POSTMORTEM),
    *(POSTMORTEM_IMAGE, EARLIER_POSTMORTEM, EARLIER_POSTMORTEM_IMAGE, FLASH, FLASH_LOG),
)

_TENSORS = ("inputs", "outputs", "reference")
"""Folders of tensors; the last one is there only when there are references."""


class RunDirectory:
    """A run directory, for writing a new one or reading one back."""

    def __init__(self, path: Path) -> None:
        self.path = path

    @classmethod
    def create(cls, path: Path) -> RunDirectory:
        """Make ``path`` an empty run directory.

        Files of an earlier run in it are removed; everything else in it is left alone.

        Raises:
            UsageError: ``path`` is a file, or holds files by the names of a run's that no run made.
        """
        if path.exists() and not path.is_dir():
            raise UsageError(f"{path} is a file, not a directory")
        earlier = [path / name for name in cls(path).files()]
        if earlier and not (path / RESULT).is_file():
            names = ", ".join(str(file.relative_to(path)) for file in earlier)
            raise UsageError(
                f"{path} holds {names}, which a run would replace, but it is no run directory",
                hint="name another directory with -o",
            )
        for file in earlier:
            file.unlink()
        for sub in _TENSORS[:2]:
            (path / sub).mkdir(parents=True, exist_ok=True)
        return cls(path)

    def write(self, name: str, data: bytes) -> None:
        """Write a file so that it is there whole or not at all."""
        partial = self.path / f".{name}.partial"
        try:
            partial.write_bytes(data)
        except OSError:
            # Half a file is of no use, and takes room from those that are.
            partial.unlink(missing_ok=True)
            raise
        partial.rename(self.path / name)

    def write_tensor(self, name: str, array: np.ndarray) -> str:
        """Write an array and return its name relative to the directory."""
        import numpy as np

        (self.path / name).parent.mkdir(exist_ok=True)
        np.save(self.path / name, array)
        return name

    def write_result(self, result: Result) -> None:
        """Write ``result.json``, the last file of a run."""
        self.write(RESULT, encode(result))

    def files(self) -> list[str]:
        """Names of all that a run wrote into it, and of nothing else that is there."""
        names = [name for name in _FILES if (self.path / name).is_file()]
        for folder in _TENSORS:
            found = sorted((self.path / folder).glob("*.npy"))
            names += [f"{folder}/{file.name}" for file in found if file.is_file()]
        return names

    @property
    def is_one(self) -> bool:
        """Whether a run made it."""
        return (self.path / RESULT).is_file()

    @property
    def trace_file(self) -> Path | None:
        """The file that says most of the trace; None when the run did not get that far."""
        files = (self.path / name for name in (LOG, ETDUMP))
        return next((file for file in files if file.is_file()), None)

    def read_result(self) -> Result:
        """Read ``result.json``.

        Raises:
            UsageError: It is missing or not a result of this version.
        """
        path = self.path / RESULT
        if not self.is_one:
            raise UsageError(
                f"{self.path} is no run directory: it has no {RESULT}",
                hint="`etharness run -o DIRECTORY` makes one",
            )
        return decode(path.read_bytes(), str(path))


def to_clock_domain(clock: Clock) -> ClockDomain:
    """Return the clock domain that a result recorded."""
    hz = Fraction(clock.hz_numerator, clock.hz_denominator) if clock.hz_numerator else None
    return ClockDomain(clock.name, hz, clock.bits, clock.down)


def from_clock_domain(domain: ClockDomain) -> Clock:
    """Return what a result records of a clock domain."""
    hz = domain.hz or Fraction(0)
    return Clock(domain.name, domain.bits, domain.down, hz.numerator, hz.denominator)
