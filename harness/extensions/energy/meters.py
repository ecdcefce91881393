"""The meters of ``harness.config.unit``: sources of samples of current.

CSV: a file that another program wrote, such as a power profiler's export. The first line names the
columns, with units in parentheses: a time, a current, optionally a voltage, and the digital inputs
as columns ``D0`` to ``D7`` or as one column ``D0-D7`` of digits, D0 first. The file is read when
the run has ended; it must be newer than the start of the run, because the samples of an earlier run
would match, too. Its samples must be evenly spaced; missing lines are gaps.

Joulescope JS220 and JS110 through their driver (``pyjoulescope_driver``), which calls back with
blocks of one signal each: current, voltage, and the digital input that is wired to the marker pin,
as bits. Each block says the number of its first sample, so that losses are exact. Samples that all
three signals have are passed on. Untried on hardware: tests use a stand-in for the driver.

Nordic's Power Profiler Kit II: 100,000 samples a second over a USB serial port. Commands are single
bytes with arguments. The device answers only to METADATA, with its calibration as text, and sends
samples between START and STOP. A sample is a little-endian u32: bits 0 to 13 the ADC's value, 14 to
16 the range, 18 to 23 a counter, 24 to 31 the digital inputs. The counter shows lost samples,
modulo 64.
"""

from __future__ import annotations

import csv
import os
import re
import threading
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from fractions import Fraction
from itertools import islice
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, Protocol, TextIO

import numpy as np
import numpy.typing as npt

from harness.config.unit import JOULESCOPE_DRIVER, MeterRequest
from harness.errors import MeterError, UsageError
from harness.extensions.energy.recording import RecordingHeader, SampleBlock
from harness.plugins import require
from harness.printing import counted

if TYPE_CHECKING:
    import serial

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
            status = self._path.stat()
        except OSError:
            return False
        grown, self._size = status.st_size != self._size, status.st_size
        return self._is_new(status) and not grown

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
        columns: dict[str, tuple[int, float]] = {}
        for number, name in enumerate(names):
            if match := _COLUMN.match(name):
                scale = _UNITS[(match[2] or "").lower()]
                columns.setdefault(match[1].lower(), (number, scale))
        plain = [name.strip().upper() for name in names]
        self._time = self._of(columns, _TIMES, "time")
        self._current = self._of(columns, _CURRENTS, "current")
        self._voltage = None if declared else self._of(columns, _VOLTAGES, "voltage")
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
            if not np.isfinite([times, amperes, supply]).all():
                raise ValueError("not a number, or infinite")
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


_INPUTS: Final = 4
_MOST_WAITING: Final = 1 << 22
"""Most samples of a signal that wait for the others: some seconds."""


class JoulescopeDriver(Protocol):
    """The functions of ``pyjoulescope_driver.Driver`` that are used."""

    def device_paths(self) -> list[str]:
        """Return the topic prefixes of all devices, such as ``u/js220/000415``."""
        ...

    def open(self, device: str, mode: str = ..., timeout: float = ...) -> int:
        """Open a device."""
        ...

    def close(self, device: str) -> int:
        """Close a device."""
        ...

    def publish(self, topic: str, value: object, timeout: float = ...) -> None:
        """Set a parameter."""
        ...

    def subscribe(self, topic: str, flags: object, fn: Callable[[str, Any], None]) -> None:
        """Call a function with each block of a signal."""
        ...

    def unsubscribe(self, topic: str, fn: Callable[[str, Any], None]) -> None:
        """Undo ``subscribe``."""
        ...

    def finalize(self) -> None:
        """End the driver."""
        ...


class _Signal:
    """Samples of one signal that wait for those of the others."""

    def __init__(self, *, bits: bool) -> None:
        self.first: int | None = None
        self.values: npt.NDArray[np.float64] = np.zeros(0)
        self._bits = bits

    def add(self, block: Mapping[str, Any]) -> None:
        data = np.asarray(block["data"])
        if self._bits:
            data = np.unpackbits(data.view(np.uint8), bitorder="little")
        number = int(block["sample_id"]) // int(block["decimate_factor"])
        if self.first is None:
            self.first = number
        missing = number - self.first - len(self.values)
        if missing < 0:
            raise MeterError("the Joulescope numbers its samples backward", hint="try again")
        if missing > _MOST_WAITING:
            raise MeterError(
                f"the Joulescope lost {counted(missing, 'sample')} at once",
                hint="connect it directly, without a hub",
            )
        gap = np.full(missing, np.nan)
        self.values = np.concatenate([self.values, gap, data.astype(np.float64)])

    @property
    def behind(self) -> int:
        """Number of the sample after the last one."""
        return (self.first or 0) + len(self.values)

    def take(self, first: int, behind: int) -> npt.NDArray[np.float64]:
        assert self.first is not None
        values = self.values[first - self.first : behind - self.first]
        self.values, self.first = self.values[behind - self.first :], behind
        return values


class Joulescope:
    """An open Joulescope."""

    live = True

    def __init__(self, driver: JoulescopeDriver, device: str, pin: int) -> None:
        self._driver, self._device = driver, device
        self._pin = pin
        self._topics: dict[str, _Signal] = {}
        self._arrived = threading.Condition()
        self._error: MeterError | None = None
        self._hz = 0
        self._next: int | None = None

    @classmethod
    def open(cls, serial: str, pin: int) -> Joulescope:
        """Open the Joulescope with a serial number, or the only one that is plugged in.

        Raises:
            MeterError: It was not found, or is in use.
            UsageError: The driver is not installed, or the pin does not exist.
        """
        if pin >= _INPUTS:
            raise MeterError(
                f"a Joulescope has no input {pin}", hint=f"use --marker-pin 0 to {_INPUTS - 1}"
            )
        (module,) = require("energy", "--energy joulescope", JOULESCOPE_DRIVER)
        driver = module.Driver()
        try:
            paths = [path for path in driver.device_paths() if not serial or path.endswith(serial)]
            if len(paths) != 1:
                raise MeterError(
                    f"{len(paths)} Joulescopes found"
                    + (f" with serial {serial}" if serial else ""),
                    hint="check its USB cable, or name one: --energy joulescope:SERIAL",
                )
            try:
                driver.open(paths[0], mode="restore")
            except RuntimeError as error:
                raise MeterError(
                    f"{paths[0]}: {error}", hint="end the program that uses the Joulescope"
                ) from error
        except BaseException:
            driver.finalize()
            raise
        return cls(driver, paths[0], pin)

    @property
    def header(self) -> RecordingHeader:
        """What is the same for all samples; known once there is a sample."""
        model = self._device.split("/")[1].upper()
        return RecordingHeader(
            meter=f"Joulescope {model}",
            hz_numerator=self._hz,
            not_included=f"the {model}'s gain, offset and resolution",
        )

    def start(self) -> None:
        """Begin to measure, for each test set of a program anew."""
        self._topics = {
            f"{self._device}/s/i": _Signal(bits=False),
            f"{self._device}/s/v": _Signal(bits=False),
            f"{self._device}/s/gpi/{self._pin}": _Signal(bits=True),
        }
        self._next = None
        with self._present():
            for topic in self._topics:
                self._driver.subscribe(f"{topic}/!data", ["pub"], self._on_data)
            for topic in self._topics:
                self._driver.publish(f"{topic}/ctrl", 1)

    def read(self, timeout_s: float, /) -> SampleBlock | None:
        """Return the samples that all signals have; None if there are none within ``timeout_s``."""
        deadline = time.monotonic() + timeout_s
        with self._arrived:
            while True:
                if self._error is not None:
                    raise self._error
                if block := self._take():
                    return block
                rest = deadline - time.monotonic()
                if rest <= 0:
                    return None
                self._arrived.wait(rest)

    def stop(self) -> None:
        """End the measurement."""
        with self._present():
            for topic in self._topics:
                self._driver.publish(f"{topic}/ctrl", 0)
                self._driver.unsubscribe(f"{topic}/!data", self._on_data)

    def close(self) -> None:
        """Release the device. The board stays powered through it."""
        with suppress(RuntimeError):  # it was unplugged
            self._driver.close(self._device)
        self._driver.finalize()

    @contextmanager
    def _present(self) -> Iterator[None]:
        """Turn the driver's error after the device was unplugged into one of the meter."""
        try:
            yield
        except RuntimeError as error:
            raise MeterError(
                f"the Joulescope is gone: {error}", hint="check its USB cable"
            ) from error

    def _on_data(self, topic: str, value: Mapping[str, Any]) -> None:
        with self._arrived:
            try:
                signal = self._topics[topic.removesuffix("/!data")]
                signal.add(value)
                self._hz = int(value["sample_rate"]) // int(value["decimate_factor"])
                if len(signal.values) > _MOST_WAITING:
                    raise MeterError(
                        f"only {topic} of the Joulescope sends samples", hint="update its firmware"
                    )
            except MeterError as error:  # raised by ``read``, as this is the driver's thread
                self._error = error
            self._arrived.notify()

    def _take(self) -> SampleBlock | None:
        """Return the samples that all signals have."""
        signals = list(self._topics.values())
        firsts = [signal.first for signal in signals if signal.first is not None]
        if len(firsts) < len(signals):
            return None
        first, behind = max(firsts), min(signal.behind for signal in signals)
        if behind <= first:
            return None
        amperes, volts, levels = (signal.take(first, behind) for signal in signals)
        here = ~(np.isnan(amperes) | np.isnan(volts) | np.isnan(levels))
        numbers = first + np.flatnonzero(here)
        if not len(numbers):
            return None
        before = numbers[0] - 1 if self._next is None else self._next - 1
        missing = np.diff(numbers, prepend=before) - 1
        self._next = int(numbers[-1]) + 1
        at = np.flatnonzero(missing)
        return SampleBlock(
            amperes[here],
            volts[here],
            levels[here] > 0,
            np.zeros(len(numbers), np.uint8),
            tuple(zip(at.tolist(), missing[at].tolist(), strict=True)),
        )


SAMPLE_HZ: Final = 100_000
RANGES: Final = 5
COUNTER: Final = 64

START: Final = b"\x06"
STOP: Final = b"\x07"
POWER_ON: Final = b"\x0c\x01"
REGULATOR: Final = 0x0D
AMPERE_METER: Final = b"\x11\x01"
SOURCE_METER: Final = b"\x11\x02"
METADATA: Final = b"\x19"

_PRODUCT: Final = "PPK2"
_ADC_VOLTS: Final = 1.8 / 163_840
_ADC_SCALE: Final = 4
_ADC_MAX: Final = (1 << 14) - 1
_LEAST_MILLIVOLTS: Final = 800
_REGULATOR_ZERO: Final = 3 * 256 + 32
"""The regulator's value for the least voltage; one more for each millivolt."""

_ANSWER_S: Final = 0.5
_ATTEMPTS: Final = 3
_MOST_BYTES: Final = 1 << 18
"""Most bytes of one read: 0.65 s of samples."""

_DEFAULTS: Final[Mapping[str, tuple[float, ...]]] = {
    "R": (1031.64, 101.65, 10.15, 0.94, 0.043),
    "GS": (1.0,) * RANGES,
    "GI": (1.0,) * RANGES,
    "O": (0.0,) * RANGES,
    "S": (0.0,) * RANGES,
    "I": (0.0,) * RANGES,
    "UG": (1.0,) * RANGES,
}
"""Calibration of a device that reports none, by name and range."""


class Ppk2Calibration:
    """Converts values of the ADC to amperes.

    With x = (4 * adc - O) * (1.8 / 163,840) / R the current is
    UG * (x * (GS * x + GI) + S * U + I), where U is the supply's voltage and each other name is a
    value of the sample's range.
    """

    def __init__(self, metadata: str, volts: float) -> None:
        values = {name: list(numbers) for name, numbers in _DEFAULTS.items()}
        for line in metadata.splitlines():
            key, _, text = line.partition(":")
            name, digit = key.strip()[:-1], key.strip()[-1:]
            if name not in values or not digit.isdigit() or int(digit) >= RANGES:
                continue
            try:
                number = float(text)
            except ValueError:
                raise MeterError(
                    f"the PPK2 reported an invalid calibration: {line.strip()!r}",
                    hint="unplug it and plug it in again",
                ) from None
            if name != "R" or number:  # some devices report 0 ohms
                values[name][int(digit)] = number
        self._volts = volts
        self._values = {name: np.array(numbers) for name, numbers in values.items()}

    def amperes(
        self, adc: npt.NDArray[np.int64], ranges: npt.NDArray[np.uint8]
    ) -> npt.NDArray[np.float64]:
        """Return the currents of values of the ADC, each with its range."""
        of = {name: numbers[ranges] for name, numbers in self._values.items()}
        x = (adc * _ADC_SCALE - of["O"]) * (_ADC_VOLTS / of["R"])
        current = x * (of["GS"] * x + of["GI"]) + of["S"] * self._volts + of["I"]
        return np.asarray(of["UG"] * current)

    @property
    def steps(self) -> tuple[float, ...]:
        """Largest difference of adjacent values of the ADC in each range, amperes."""
        adc = np.array([0, 1, _ADC_MAX - 1, _ADC_MAX], np.int64)
        resolutions = []
        for number in range(RANGES):
            currents = self.amperes(adc, np.full(len(adc), number, np.uint8))
            resolutions.append(float(np.abs(np.diff(currents))[[0, 2]].max()))
        return tuple(resolutions)


class Ppk2Samples:
    """Decodes a stream of samples."""

    def __init__(self, calibration: Ppk2Calibration, volts: float, pin: int) -> None:
        self._calibration, self._volts, self._pin = calibration, volts, pin
        self._counter: int | None = None

    def restart(self) -> None:
        """Forget the number of the last sample."""
        self._counter = None

    @property
    def header(self) -> RecordingHeader:
        """What is the same for all samples."""
        return RecordingHeader(
            meter="PPK2",
            hz_numerator=SAMPLE_HZ,
            lost_modulus=COUNTER,
            steps=self._calibration.steps,
            not_included="the PPK2's gain and offset; the supply was declared as "
            f"{self._volts:g} V",
        )

    def decode(self, words: npt.NDArray[np.uint32]) -> SampleBlock:
        """Return consecutive samples; gaps are counted from one call to the next.

        Raises:
            MeterError: The words are not samples, as if a part of one was lost.
        """
        counters = ((words >> 18) & (COUNTER - 1)).astype(np.int64)
        before = counters[0] - 1 if self._counter is None else self._counter
        lost = (np.diff(counters, prepend=before) - 1) % COUNTER
        self._counter = int(counters[-1])
        if len(words) >= COUNTER and np.count_nonzero(lost) > len(words) // 2:
            raise MeterError(
                "the samples of the PPK2 are out of step",
                hint="unplug it and plug it in again; connect it without a hub",
            )
        ranges = np.minimum((words >> 14) & 7, RANGES - 1).astype(np.uint8)
        at = np.flatnonzero(lost)
        return SampleBlock(
            amperes=self._calibration.amperes((words & _ADC_MAX).astype(np.int64), ranges),
            volts=np.full(len(words), self._volts),
            marker=((words >> (24 + self._pin)) & 1).astype(np.bool_),
            ranges=ranges,
            gaps=tuple(zip(at.tolist(), lost[at].tolist(), strict=True)),
        )


class Ppk2:
    """A PPK2 on an open serial port."""

    live = True

    def __init__(self, port: serial.Serial, volts: float, pin: int, *, supply: bool) -> None:
        self._port = port
        self._rest = b""
        try:
            calibration = Ppk2Calibration(self._read_metadata(), volts)
            self._samples = Ppk2Samples(calibration, volts, pin)
            value = round(volts * 1000) - _LEAST_MILLIVOLTS + _REGULATOR_ZERO
            port.write(SOURCE_METER if supply else AMPERE_METER)
            port.write(bytes((REGULATOR, *value.to_bytes(2, "big"))))
            port.write(POWER_ON)
        except OSError as error:
            raise self._lost(error) from error

    @classmethod
    def open(cls, place: str, volts: float, pin: int, *, supply: bool) -> Ppk2:
        """Open the PPK2 on a port, or the only one that is plugged in.

        Raises:
            MeterError: The port cannot be opened, or no PPK2 answers on it.
        """
        import serial

        name = place or _find()
        try:
            port = serial.Serial(name, timeout=0.05, write_timeout=1.0, exclusive=True)
        except (serial.SerialException, OSError) as error:
            raise MeterError(
                f"PPK2 on {name}: {error}", hint="check the port, and that nothing else uses it"
            ) from error
        try:
            return cls(port, volts, pin, supply=supply)
        except BaseException:
            port.close()
            raise

    @property
    def header(self) -> RecordingHeader:
        """What is the same for all samples."""
        return self._samples.header

    def start(self) -> None:
        """Begin to measure, for each test set of a program anew."""
        self._rest = b""
        self._samples.restart()
        self._write(START)

    def read(self, timeout_s: float) -> SampleBlock | None:
        """Return the samples that have arrived; None if none did within ``timeout_s``."""
        deadline = time.monotonic() + timeout_s
        while True:
            try:
                waiting = self._port.in_waiting
                data = self._port.read(min(max(waiting, 4), _MOST_BYTES))
            except OSError as error:
                raise self._lost(error) from error
            data = self._rest + data
            whole = len(data) - len(data) % 4
            self._rest = data[whole:]
            if whole:
                return self._samples.decode(np.frombuffer(data[:whole], "<u4"))
            if time.monotonic() > deadline:
                return None

    def stop(self) -> None:
        """End the measurement. The board stays powered."""
        self._write(STOP)

    def close(self) -> None:
        """Close the port."""
        self._port.close()

    def _read_metadata(self) -> str:
        for _ in range(_ATTEMPTS):
            self._write(STOP)  # it may still be sending to a program that was killed
            time.sleep(0.05)
            self._port.reset_input_buffer()
            self._write(METADATA)
            text = bytearray()
            deadline = time.monotonic() + _ANSWER_S
            while time.monotonic() < deadline:
                text.extend(self._port.read(max(self._port.in_waiting, 1)))
                if b"END" in text:
                    return text.decode("ascii", errors="replace")
        raise MeterError(
            f"no PPK2 answers on {self._port.port}",
            hint="check the port: `etharness lab ports` lists them; unplug the PPK2 and plug it in "
            "again",
        )

    def _write(self, command: bytes) -> None:
        try:
            self._port.write(command)
        except OSError as error:
            raise self._lost(error) from error

    def _lost(self, error: OSError) -> MeterError:
        return MeterError(
            f"the PPK2 on {self._port.port} is gone: {error}", hint="check its USB cable"
        )


def _find() -> str:
    from serial.tools.list_ports import comports

    ports = sorted(str(port.device) for port in comports() if port.product == _PRODUCT)
    if len(ports) != 1:
        names = f"{len(ports)} are: {', '.join(ports)}" if ports else "none is"
        raise MeterError(
            f"one PPK2 must be plugged in, but {names}", hint="name its port: --energy ppk2:PORT"
        )
    return str(ports[0])


Meter = CsvSamples | Joulescope | Ppk2
"""A source of samples. ``live`` ones deliver them while they measure, others after ``stop``."""


def open_meter(request: MeterRequest) -> Meter:
    """Open a meter.

    Raises:
        MeterError: It was not found, is in use, or does not answer.
        UsageError: Its driver is not installed.
    """
    if request.kind == "csv":
        return CsvSamples(Path(request.place), request.volts, request.pin)
    if request.kind == "joulescope":
        return Joulescope.open(request.place, request.pin)
    assert request.volts is not None  # checked by ``parse``
    return Ppk2.open(request.place, request.volts, request.pin, supply=request.supply)
