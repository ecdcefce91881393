"""Finds the traces behind a path: a run directory, a device log, ED00 files, a console capture."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from itertools import accumulate
from pathlib import Path

import numpy as np

from harness.errors import UsageError
from harness.etdump.dumps import Dump, is_device_log, read_dumps
from harness.lab.directory import (
    DEBUG_BUFFER,
    ETDUMP,
    LOG,
    RunDirectory,
    to_clock_domain,
)
from harness.result import Result
from harness.timebase import ClockDomain
from harness.trace import Damage, Trace, concatenate

__all__ = ["Source", "is_device_log", "load_source", "read_trace"]


@dataclass(frozen=True)
class Source:
    """What was found.

    Attributes:
        dumps: Traces in the order of the file, each with its debug buffer.
        result: The result of the run when a run directory stands behind it.
        damage: What was left out of them because it is damaged.
    """

    dumps: tuple[Dump, ...]
    result: Result | None = None
    damage: tuple[Damage, ...] = ()

    @cached_property
    def trace(self) -> Trace:
        """All events of all dumps, one dump behind the other."""
        return _joined([dump.trace for dump in self.dumps])

    @property
    def later_dumps(self) -> tuple[int, ...]:
        """Rows of ``trace`` at which all dumps but the first begin."""
        return tuple(accumulate(len(dump.trace) for dump in self.dumps[:-1]))

    @property
    def debug_buffer(self) -> bytes | None:
        """The bytes of logged tensors, or None when they were not found.

        Raises:
            UsageError: There are several, one for each of several dumps.
        """
        buffers = [dump.debug_buffer for dump in self.dumps if dump.debug_buffer is not None]
        if buffers and len(self.dumps) > 1:
            raise UsageError(
                f"there are {len(self.dumps)} dumps, each with a debug buffer of its own",
                hint="take one of them: Source.dumps has the trace and the buffer of each",
            )
        return buffers[0] if buffers else None


def load_source(
    source: Path | bytes,
    clock: ClockDomain | None = None,
    *,
    salvage: bool = False,
    debug_buffer: Path | None = None,
) -> Source:
    """Read all traces in a file, a run directory or some bytes; their content says what they are.

    A run directory is read from its device log, which holds more than its ED00 copy; without a log
    the ED00 file is what the device sent. For a file inside a run directory the clocks come from
    the result beside it. ``clock`` overrides them; an ED00 file says nothing about its clock and
    is taken as nanoseconds, as ExecuTorch does.

    Args:
        source: A run directory, a file, or what a file holds.
        clock: What the ticks count.
        salvage: Read what is intact, and say what is not, instead of failing.
        debug_buffer: A file with the bytes of logged tensors. Without it they come from the run
            directory or the console capture, if that has them.

    Raises:
        UsageError: There is nothing at the path, or a directory that no run made.
        FormatError: The file is not what it should be.
    """
    result: Result | None = None
    beside: Path | None = None
    if isinstance(source, bytes):
        data = source
    else:
        file, result = _file(source)
        data = file.read_bytes()
        if result is not None and file.name in (LOG, ETDUMP):
            beside = file.parent / DEBUG_BUFFER
    found = read_dumps(data, [clock] if clock else _clocks_of(result), salvage=salvage)
    dumps = found.dumps
    if debug_buffer is not None:
        dumps = (_with_buffer(dumps, debug_buffer),)
    elif beside is not None and beside.is_file():
        dumps = tuple(replace(dump, debug_buffer=beside.read_bytes()) for dump in dumps)
    return Source(dumps, result, found.damage)


def read_trace(data: bytes, clocks: Sequence[ClockDomain]) -> Trace:
    """Decode a device log or an ED00 file, whichever it is.

    Raises:
        FormatError: It is neither, or contradicts itself.
    """
    return _joined([dump.trace for dump in read_dumps(data, clocks).dumps])


def _file(path: Path) -> tuple[Path, Result | None]:
    """The file that holds the trace, and the result of its run."""
    if path.is_dir():
        run = RunDirectory(path)
        result = run.read_result()
        if (file := run.trace_file) is not None:
            return file, result
        ended = f": {result.failure.message}" if result.failure else ""
        raise UsageError(f"{path} holds no trace, its run did not get that far{ended}")
    if path.is_file():
        around = RunDirectory(path.parent)
        return path, around.read_result() if around.is_one else None
    raise UsageError(f"{path}: no such file or directory")


def _with_buffer(dumps: Sequence[Dump], path: Path) -> Dump:
    if not path.is_file():
        raise UsageError(f"{path}: no such file", hint="name a file with --debug-buffer")
    if len(dumps) != 1:
        raise UsageError(
            f"{path} cannot be the debug buffer of {len(dumps)} dumps",
            hint="give a file with the one dump that it belongs to",
        )
    return replace(dumps[0], debug_buffer=path.read_bytes())


def _joined(traces: Sequence[Trace]) -> Trace:
    """Put the traces of several dumps one behind the other, their events numbered on."""
    if len(traces) == 1:
        return traces[0]
    ends = np.cumsum([len(trace) for trace in traces]).tolist()
    return concatenate(
        [
            replace(trace, record=trace.record + end - len(trace))
            for trace, end in zip(traces, ends, strict=True)
        ]
    ).sealed()


def _clocks_of(result: Result | None) -> list[ClockDomain]:
    if result is None or result.target is None:
        return []
    return [to_clock_domain(clock) for clock in result.target.clocks]
