"""A Perfetto trace that grows while a run streams its log.

Each chunk of the log is decoded by itself when it is complete, and its events are appended, so the
file is a valid trace at any time, also if the run is killed. It has the scopes of the tracers on
their own clock; clocks of delegates, allocations and counters are in the export of the whole run.

A scope is logged when it ends. Scopes around instructions may be many chunks longer than those in
them, so they have a track of their own; slices that begin at the same instant are then of one chunk
and are written outermost first.
"""

from __future__ import annotations

import logging
from fractions import Fraction
from pathlib import Path
from typing import Any, Final

import numpy as np

from harness.decode.device_log import read_log
from harness.decode.device_log_chunks import split_chunk
from harness.errors import HarnessError, write_error
from harness.extensions.exports.perfetto import BEGIN, END, PROCESS, PacketWriter
from harness.files import display_path
from harness.formatting import operator_kind, operator_title
from harness.link.messages import LogAck, LogPart
from harness.link.transfers import LogChunks
from harness.records.result import Result, RunIdentity
from harness.records.trace import NO_NAME, STREAMING, ClockDomain, Damage, Kind, Trace
from harness.runs.directory import recorded_clocks

_log = logging.getLogger(__name__)

_TICKS: Final = ClockDomain("ticks", None, 32)
_LOG_BITS: Final = 32
_AROUND, _WITHIN, _LINK = "executions", "operators", "link"
_LINES: Final = (_AROUND, _WITHIN, _LINK)


class LiveTrace(LogChunks):
    """Collects the chunks of a log, and appends each to a file as soon as it is complete."""

    def __init__(self, path: Path, result: Result) -> None:
        """Begin the file; a file of this name is replaced.

        Raises:
            UsageError: The file cannot be written, or protobuf is not installed.
        """
        super().__init__()
        self._path = path
        self._clocks = recorded_clocks(result) or [_TICKS]
        self._packets = PacketWriter()
        self._packets.process(RunIdentity.of(result))
        self._written: set[int] = set()
        self._tracers: dict[int, _Tracer] = {}
        self._failed = False
        try:
            self._file = path.open("wb", buffering=0)
        except OSError as error:
            raise write_error(error, display_path(path)) from error
        self._flush()

    def add(self, part: LogPart) -> LogAck | None:
        """Add a part; append its chunk to the file if that is complete."""
        answer = super().add(part)
        chunk = self._chunks[part.chunk]
        if not chunk.missing.count and part.chunk not in self._written and not self._failed:
            self._written.add(part.chunk)
            try:
                self._append(self.whole_chunk(part.chunk))
            except (HarnessError, OSError) as error:  # the run is worth more than its view
                self._failed = True
                _log.warning("%s ends here: %s", display_path(self._path), error)
        return answer

    def _append(self, chunk: bytes) -> None:
        damage: list[Damage] = []  # a later chunk misses the records before it
        trace = read_log(split_chunk(chunk)[0], self._clocks, damage)
        rows = np.flatnonzero((trace.kind == Kind.PROFILE) & (trace.clock == 0))
        for number in np.unique(trace.tracer[rows]).tolist():
            tracer = self._tracers.get(number)
            if tracer is None:
                tracer = self._tracers[number] = _Tracer(self._clocks[0], number)
                for line, uuid in tracer.tracks.items():
                    name = f"{line} {number}" if number else line
                    self._packets.child(uuid, name=name)
            self._draw(trace, rows[trace.tracer[rows] == number].tolist(), tracer)
        self._flush()

    def _draw(self, trace: Trace, rows: list[int], tracer: _Tracer) -> None:
        """Write the slices of a tracer, track by track, outermost first."""
        placed = [(tracer.place(trace, row), row) for row in rows]
        for line, uuid in tracer.tracks.items():
            slices = [(times, row) for times, row in placed if _line(trace, row) == line]
            slices.sort(key=lambda each: (each[0][0], -each[0][1], -each[1]))
            open_: list[int] = []
            for (start, end), row in slices:
                while open_ and open_[-1] <= start:
                    self._end(uuid, open_.pop())
                self._begin(uuid, trace, row, start)
                open_.append(end)
            while open_:
                self._end(uuid, open_.pop())

    def _begin(self, uuid: int, trace: Trace, row: int, time: int) -> None:
        name = trace.text(int(trace.name[row])) or ""
        instruction = int(trace.instruction[row]) if trace.chain[row] >= 0 else None
        delegated = int(trace.delegate_str[row]) != NO_NAME or not name
        title = operator_title(name or f"delegate {trace.delegate_int[row]}", instruction)
        event: Any = self._packets.named(BEGIN, uuid, title, operator_kind(name, delegated))
        self._packets.packet(time, track_event=event)

    def _end(self, uuid: int, time: int) -> None:
        self._packets.packet(time, track_event=self._packets.event(END, uuid))

    def _flush(self) -> None:
        """Write what is collected, in one call, so that a file that is read has whole packets."""
        new = b"".join(self._packets.chunks)
        self._packets.chunks = [b""]  # not empty: the sequence has begun
        view = memoryview(new)
        while len(view):
            view = view[self._file.write(view) :]


class _Tracer:
    """Where the events of a tracer are: in ticks since the run began, over any number of wraps."""

    def __init__(self, clock: ClockDomain, number: int) -> None:
        self._wrap = 1 << min(clock.bits, _LOG_BITS)
        self._down = clock.down
        self._scale = Fraction(10**9) / (clock.hz or 10**9)
        self._tick: int | None = None
        self._now = 0  # ticks at the end of the last event
        first = PROCESS + 1 + len(_LINES) * number
        self.tracks = {line: first + offset for offset, line in enumerate(_LINES)}

    def place(self, trace: Trace, row: int) -> tuple[int, int]:
        """Return start and end of an event, in nanoseconds; call it in the order of the log."""
        start, end = (self._up(int(x[row])) for x in (trace.start, trace.end))
        length = (end - start) % self._wrap
        if self._tick is None:
            self._tick, self._now = end, end  # a run begins near zero
        moved = (end - self._tick) % self._wrap
        afterwards = int(trace.delegate_int[row]) != -1 or int(trace.delegate_str[row]) != NO_NAME
        if afterwards and moved > self._wrap // 2:  # a delegate may log what ended before
            ended = self._now + moved - self._wrap
        else:
            ended = self._now = self._now + moved
            self._tick = end
        nanoseconds = (max(ended - length, 0) * self._scale, max(ended, 0) * self._scale)
        return int(nanoseconds[0]), int(nanoseconds[1])

    def _up(self, tick: int) -> int:
        return -tick % self._wrap if self._down else tick


def _line(trace: Trace, row: int) -> str:
    if trace.text(int(trace.name[row])) in STREAMING:
        return _LINK
    return _WITHIN if trace.chain[row] >= 0 else _AROUND
