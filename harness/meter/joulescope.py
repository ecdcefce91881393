"""Joulescope JS220 and JS110 through their driver (``pyjoulescope_driver``).

The driver calls back with blocks of one signal each: current, voltage, and the digital input that
is wired to the marker pin, as bits. Each block says the number of its first sample, so that losses
are exact. Samples that all three signals have are passed on.

Untried on hardware: tests use a stand-in for the driver.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, suppress
from typing import Any, Final, Protocol

import numpy as np
import numpy.typing as npt

from harness.config.meter import JOULESCOPE_DRIVER
from harness.errors import MeterError
from harness.extras import require
from harness.meter.recording import RecordingHeader, SampleBlock

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
                f"the Joulescope lost {missing} samples at once",
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
