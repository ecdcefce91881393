"""Nordic's Power Profiler Kit II: 100,000 samples a second over a USB serial port.

Commands are single bytes with arguments. The device answers only to METADATA, with its calibration
as text, and sends samples between START and STOP. A sample is a little-endian u32: bits 0 to 13 the
ADC's value, 14 to 16 the range, 18 to 23 a counter, 24 to 31 the digital inputs. The counter shows
lost samples, modulo 64.
"""

from __future__ import annotations

import time
from collections.abc import Mapping
from typing import TYPE_CHECKING, Final

import numpy as np
import numpy.typing as npt

from harness.errors import MeterError
from harness.meter.recording import RecordingHeader, SampleBlock

if TYPE_CHECKING:
    import serial

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
        found = []
        for number in range(RANGES):
            currents = self.amperes(adc, np.full(len(adc), number, np.uint8))
            found.append(float(np.abs(np.diff(currents))[[0, 2]].max()))
        return tuple(found)


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

    found = sorted(str(port.device) for port in comports() if port.product == _PRODUCT)
    if len(found) != 1:
        names = f"{len(found)} are: {', '.join(found)}" if found else "none is"
        raise MeterError(
            f"one PPK2 must be plugged in, but {names}", hint="name its port: --energy ppk2:PORT"
        )
    return str(found[0])
