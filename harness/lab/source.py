"""Finds the trace behind a path: a run directory, a device log or an ED00 file."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from harness.errors import UsageError
from harness.etdump.compact import read_log
from harness.etdump.ed00 import read_ed00
from harness.etdump.log_format import MAGIC
from harness.lab.directory import ETDUMP, LOG, RESULT, RunDirectory, to_clock_domain
from harness.result import Result
from harness.timebase import HOST_NANOSECONDS, ClockDomain
from harness.trace import Trace


@dataclass(frozen=True, slots=True)
class Source:
    """A trace, and the result of its run when a run directory stands behind it."""

    trace: Trace
    result: Result | None


def load_source(path: Path, clock: ClockDomain | None = None) -> Source:
    """Read the trace at ``path``.

    A run directory is read from its device log, which holds more than its ED00 copy; without a log
    the ED00 file is what the device sent. For a file
    inside a run directory the clocks come from the result beside it. ``clock`` overrides them;
    an ED00 file says nothing about its clock and is taken as nanoseconds, as ExecuTorch does.

    Raises:
        UsageError: There is nothing at ``path``, or a directory that no run made.
        FormatError: The file is not what it should be.
    """
    if path.is_dir():
        result: Result | None = RunDirectory(path).read_result()
        file = next((path / name for name in (LOG, ETDUMP) if (path / name).is_file()), path / LOG)
        if not file.is_file():
            ended = f": {result.failure.message}" if result and result.failure else ""
            raise UsageError(f"{path} holds no trace, its run did not get that far{ended}")
    elif path.is_file():
        file = path
        beside = path.parent / RESULT
        result = RunDirectory(path.parent).read_result() if beside.is_file() else None
    else:
        raise UsageError(f"{path}: no such file or directory")
    data = file.read_bytes()
    clocks = [clock] if clock else _clocks_of(result)
    return Source(read_trace(data, clocks), result)


def is_device_log(data: bytes) -> bool:
    """Tell a device log from an ED00 file by its first bytes."""
    return data[:4] == MAGIC.to_bytes(4, "little")


def read_trace(data: bytes, clocks: Sequence[ClockDomain]) -> Trace:
    """Decode a device log or an ED00 file, whichever it is.

    Raises:
        FormatError: It is neither, or contradicts itself.
    """
    if is_device_log(data):
        return read_log(data, clocks)
    return read_ed00(data, clocks[0] if clocks else HOST_NANOSECONDS)


def _clocks_of(result: Result | None) -> list[ClockDomain]:
    if result is None or result.target is None:
        return []
    return [to_clock_domain(clock) for clock in result.target.clocks]
