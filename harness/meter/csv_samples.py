"""Samples from a CSV file that another program wrote, such as a power profiler's export.

The first line names the columns, with units in parentheses: a time, a current, optionally a
voltage, and the digital inputs as columns ``D0`` to ``D7`` or as one column ``D0-D7`` of digits, D0
first. The file is read when the run has ended; it must be newer than the start of the run, because
the samples of an earlier run would match, too. Its samples must be evenly spaced; missing lines are
gaps.
"""

from __future__ import annotations

import csv
import os
import re
import time
from collections.abc import Iterator, Sequence
from fractions import Fraction
from itertools import islice
from pathlib import Path
from typing import Final, TextIO

import numpy as np

from harness.errors import UsageError
from harness.meter.recording import RecordingHeader, SampleBlock

_ROWS: Final = 65_536
MOST_LINE: Final = 1 << 16
"""Longest line of a file, characters."""
_WAIT_S: Final = 60.0
"""Longest wait for the file after the run: its user has to stop the recording and to export it."""

_POLL_S: Final = 0.2
_CLOCKS_S: Final = 2.0
"""Resolution of the times of files, at worst."""
_UNITS: Final = {"": 1.0, "n": 1e-9, "u": 1e-6, "µ": 1e-6, "m": 1e-3}
_COLUMN: Final = re.compile(r"^\s*([a-z ]+?)\s*(?:[(\[]\s*([nuµm]?)(?:s|a|v)\s*[)\]])?\s*$", re.I)
_TIMES: Final = ("time", "timestamp")
_CURRENTS: Final = ("current", "amperes")
_VOLTAGES: Final = ("voltage", "volts")
_LEVELS: Final = {"1": True, "0": False, "1.0": True, "0.0": False, "true": True, "false": False}


class CsvSamples:
    """A CSV file as a meter."""

    live = False

    def __init__(self, path: Path, volts: float | None, pin: int) -> None:
        self._path, self._volts, self._pin = path, volts, pin
        self._blocks: Iterator[SampleBlock] = iter(())
        self._header: RecordingHeader | None = None
        self._began, self._size = 0.0, -1
        self._used: int | None = None

    @property
    def header(self) -> RecordingHeader:
        """What is the same for all samples; known once a block has been read."""
        assert self._header is not None
        return self._header

    def start(self) -> None:
        """Note when the run began; another program records."""
        self._began = time.time() - _CLOCKS_S

    def read(self, _timeout_s: float) -> SampleBlock | None:
        """Return the next samples of the file, after ``stop``."""
        return next(self._blocks, None)

    def stop(self) -> None:
        """Wait until the file of this run has been written, and open it.

        Raises:
            UsageError: It does not exist, or was written before the run.
        """
        deadline = time.monotonic() + _WAIT_S
        while time.monotonic() < deadline and not self._is_written():
            time.sleep(_POLL_S)
        try:
            written = self._path.stat()
            if not self._is_new(written):
                raise UsageError(
                    f"{self._path} was written before the run",
                    hint="record and export the samples of this run",
                )
            file = self._path.open(newline="", encoding="utf-8-sig")
        except OSError as error:
            raise UsageError(
                f"{self._path}: {error.strerror}",
                hint=f"export the samples within {_WAIT_S:g} s after the run",
            ) from error
        self._used = written.st_mtime_ns
        self._blocks = self._read(file)

    def close(self) -> None:
        """Do nothing: the file is closed at its end."""

    def _is_written(self) -> bool:
        """Return whether the file is of this run, and has not grown since the last look."""
        try:
            found = self._path.stat()
        except OSError:
            return False
        grown, self._size = found.st_size != self._size, found.st_size
        return self._is_new(found) and not grown

    def _is_new(self, found: os.stat_result) -> bool:
        """Return whether the file is of this run, not of the test set before it."""
        return found.st_mtime >= self._began and found.st_mtime_ns != self._used

    def _read(self, file: TextIO) -> Iterator[SampleBlock]:
        with file:
            rows = csv.reader(self._lines(file))
            columns = _Columns(self._path, next(rows, []), self._pin, self._volts is not None)
            last: float | None = None
            period = 0.0
            while chunk := [row for row in islice(rows, _ROWS) if row]:
                times, amperes, volts, marker = columns.parse(chunk, self._volts)
                if self._header is None:
                    period = self._period(times)
                    self._header = self._describe(period, columns.step(chunk))
                steps = np.diff(times, prepend=times[0] - period if last is None else last)
                missing = np.rint(steps / period).astype(np.int64) - 1
                if (missing < 0).any():
                    raise self._error("its times are not evenly spaced")
                last = float(times[-1])
                at = np.flatnonzero(missing)
                gaps = tuple(zip(at.tolist(), missing[at].tolist(), strict=True))
                yield SampleBlock(amperes, volts, marker, np.zeros(len(chunk), np.uint8), gaps)

    def _lines(self, file: TextIO) -> Iterator[str]:
        """Yield the lines of a file; one without an end must not fill the memory.

        Raises:
            UsageError: A line is too long, or not text.
        """
        try:
            while line := file.readline(MOST_LINE + 1):
                if len(line) > MOST_LINE:
                    raise self._error(f"a line has more than {MOST_LINE:,} characters")
                yield line
        except UnicodeDecodeError as error:
            raise self._error(f"it is not text: {error}") from error

    def _period(self, times: np.ndarray) -> float:
        """Return the time between two samples, exact beyond the resolution of a printed time."""
        steps = np.diff(times)
        usual = float(np.median(steps)) if len(steps) else 0.0
        if usual <= 0:
            raise self._error("its times do not increase")
        return float((times[-1] - times[0]) / np.rint(steps / usual).sum())

    def _describe(self, period: float, step: float) -> RecordingHeader:
        hz = Fraction(1 / period).limit_denominator(1000)
        declared = "" if self._volts is None else f"; the supply was declared as {self._volts:g} V"
        return RecordingHeader(
            meter=self._path.name,
            hz_numerator=hz.numerator,
            hz_denominator=hz.denominator,
            steps=(step,),
            not_included=f"the gain and offset of the meter that recorded the file{declared}",
        )

    def _error(self, problem: str) -> UsageError:
        return UsageError(
            f"{self._path}: {problem}", hint="export all samples, at the rate they were taken"
        )


class _Columns:
    """Which column of a file holds what."""

    def __init__(self, path: Path, names: Sequence[str], pin: int, declared: bool) -> None:
        self._path = path
        found: dict[str, tuple[int, float]] = {}
        for number, name in enumerate(names):
            if match := _COLUMN.match(name):
                scale = _UNITS[(match[2] or "").lower()]
                found.setdefault(match[1].lower(), (number, scale))
        plain = [name.strip().upper() for name in names]
        self._time = self._of(found, _TIMES, "time")
        self._current = self._of(found, _CURRENTS, "current")
        self._voltage = None if declared else self._of(found, _VOLTAGES, "voltage")
        self._digit = None
        if f"D{pin}" in plain:
            self._marker = plain.index(f"D{pin}")
        elif "D0-D7" in plain:
            self._marker, self._digit = plain.index("D0-D7"), pin
        else:
            raise UsageError(
                f"{path}: no column for the marker pin, D{pin} or D0-D7",
                hint="export the digital inputs, too; --marker-pin N selects another one",
            )

    def _of(
        self, found: dict[str, tuple[int, float]], names: tuple[str, ...], what: str
    ) -> tuple[int, float]:
        column = next((found[name] for name in names if name in found), None)
        if column is None:
            extra = "; or give --volts" if what == "voltage" else ""
            raise UsageError(
                f"{self._path}: no column for the {what}",
                hint=f"the first line must name the columns, as in {what.capitalize()}(m"
                f"{ {'time': 's', 'current': 'A', 'voltage': 'V'}[what] }){extra}",
            )
        return column

    def parse(
        self, rows: list[list[str]], volts: float | None
    ) -> tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray]:
        """Return times in seconds, amperes, volts, and levels of the marker pin."""
        try:
            times, amperes = self._numbers(rows, self._time), self._numbers(rows, self._current)
            if self._voltage is not None:
                supply = self._numbers(rows, self._voltage)
            else:
                supply = np.full(len(rows), volts)
            levels = [row[self._marker].strip().lower() for row in rows]
            if self._digit is not None:
                levels = [level[self._digit] for level in levels]
            return times, amperes, supply, np.array([_LEVELS[level] for level in levels])
        except (ValueError, IndexError, KeyError) as error:
            raise UsageError(
                f"{self._path}: invalid line: {error}", hint="export the samples again"
            ) from error

    def step(self, rows: list[list[str]]) -> float:
        """Return the resolution of the currents as printed, amperes."""
        column, scale = self._current
        digits = max(len(row[column].strip().partition(".")[2]) for row in rows)
        return float(scale * 10.0**-digits)

    @staticmethod
    def _numbers(rows: list[list[str]], column: tuple[int, float]) -> np.ndarray:
        at, scale = column
        return np.array([float(row[at]) for row in rows]) * scale
