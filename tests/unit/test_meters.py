"""Meters: what they are told, how their samples are read, and what they say when they fail."""

from __future__ import annotations

import os
import sys
import threading
from collections.abc import Callable, Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

from harness import FormatError, HarnessError, MeterError, MeterRequest, UsageError
from harness.extensions.energy.meters import open_meter
from harness.extensions.energy.recording import (
    Recording,
    RecordingHeader,
    SampleBlock,
    read_recording,
)
from harness.extensions.energy.run import MeterRecorder
from tests.support.currents import METADATA, VOLTS, decoded
from tests.support.fake_ppk2 import FakePpk2

STEPS = 3_000
SAMPLES = np.arange(STEPS)


@pytest.fixture
def ppk2() -> Iterator[Callable[..., FakePpk2]]:
    made: list[FakePpk2] = []

    def make(words: np.ndarray, metadata: str = METADATA) -> FakePpk2:
        made.append(FakePpk2(lambda: [words.astype("<u4").tobytes()], metadata))
        return made[-1]

    yield make
    for each in made:
        each.close()


def words(adc: np.ndarray = SAMPLES, bits: np.ndarray | int = 0) -> np.ndarray:
    """Samples of one range, numbered from 0."""
    return (adc | 2 << 14 | (SAMPLES % 64) << 18 | np.asarray(bits) << 24).astype(np.uint32)


def record(request: MeterRequest, path: Path) -> Recording:
    meter = open_meter(request)
    try:
        with MeterRecorder(meter, path) as recorder:
            count = recorder.finish()
    finally:
        meter.close()
    recording = read_recording(path)
    assert len(recording) == count
    return recording


@pytest.mark.parametrize(
    ("address", "volts", "pin", "supply", "said"),
    [
        ("ppk", 3.3, 0, False, "invalid meter 'ppk'"),
        ("csv:", 3.3, 0, False, "invalid meter 'csv:'"),
        ("ppk2:/dev/x", None, 0, False, "does not measure the voltage"),
        ("joulescope", 3.3, 0, True, "only a PPK2 supplies a board"),
        ("ppk2", 9.0, 0, True, "only a PPK2 supplies a board"),
        ("ppk2", 3.3, 8, False, "invalid marker pin 8"),
    ],
)
def test_an_invalid_request_is_refused(
    address: str, volts: float | None, pin: int, supply: bool, said: str
) -> None:
    with pytest.raises(UsageError, match=said):
        MeterRequest.parse(address, volts, pin, supply=supply)


def test_samples_of_a_ppk2_arrive_as_they_were_sent(
    ppk2: Callable[..., FakePpk2], tmp_path: Path
) -> None:
    device = ppk2(words(bits=(SAMPLES // 100 % 2) << 3))
    found = record(MeterRequest.parse(f"ppk2:{device.port}", VOLTS, 3), tmp_path / "samples")
    assert (found.marker == (SAMPLES // 100 % 2 == 1)).all()
    assert not len(found.gap_at)
    # R2, O2 and the others as in METADATA
    x = (4 * SAMPLES - 64.602) * (1.8 / 163_840) / 10.3027
    amperes = x * (18.0115 * x + 0.9609) + 0.000005281 * 3.3 + 0.000036439
    assert found.amperes == pytest.approx(amperes, rel=1e-6)
    assert (found.volts == np.float32(3.3)).all()


def test_ppk2_api_reads_the_same_from_the_same_device(ppk2: Callable[..., FakePpk2]) -> None:
    api = pytest.importorskip("ppk2_api.ppk2_api")
    sent = words(bits=SAMPLES // 100 % 2)
    theirs = api.PPK2_API(ppk2(sent).port, timeout=1, exclusive=True)
    assert theirs.get_modifiers()
    theirs.use_ampere_meter()
    theirs.set_source_voltage(3300)
    theirs.start_measuring()
    data = theirs.ser.read(4 * STEPS)
    microamperes, bits = theirs.get_samples(data)
    found = decoded(sent)
    assert found.amperes == pytest.approx(np.array(microamperes) / 1e6, rel=1e-6)
    assert found.marker.tolist() == [level & 1 == 1 for level in bits]


@pytest.mark.parametrize(("supply", "mode"), [(False, b"\x11\x01"), (True, b"\x11\x02")])
def test_a_ppk2_is_told_how_to_measure(
    supply: bool, mode: bytes, ppk2: Callable[..., FakePpk2], tmp_path: Path
) -> None:
    device = ppk2(words())
    record(MeterRequest.parse(f"ppk2:{device.port}", 3.3, supply=supply), tmp_path / "samples")
    told = [command for command in device.commands if command not in (b"\x19", b"\x07")]
    assert told == [mode, b"\x0d\x0c\xe4", b"\x0c\x01", b"\x06"]
    assert device.commands[-1] == b"\x07"


def test_lost_samples_are_counted_modulo_64() -> None:
    found = decoded(np.delete(words(), [10, 11, 12, *range(1000, 1070)]))
    assert found.gap_at.tolist() == [10, 997]
    assert found.gap_size.tolist() == [3, 70 % 64]


def test_a_second_recording_of_a_meter_begins_anew(
    ppk2: Callable[..., FakePpk2], tmp_path: Path
) -> None:
    device = ppk2(words())
    meter = open_meter(MeterRequest.parse(f"ppk2:{device.port}", VOLTS))
    for name in ("first", "second"):
        with MeterRecorder(meter, tmp_path / name) as recorder:
            assert recorder.finish() == STEPS
        assert not len(read_recording(tmp_path / name).gap_at)
    meter.close()


def test_samples_out_of_step_are_refused(ppk2: Callable[..., FakePpk2], tmp_path: Path) -> None:
    data = words().astype("<u4").tobytes()[1:]
    device = ppk2(np.frombuffer(data[: len(data) // 4 * 4], "<u4"))
    with pytest.raises(MeterError, match="out of step"):
        record(MeterRequest.parse(f"ppk2:{device.port}", VOLTS), tmp_path / "samples")


@pytest.mark.slow
def test_a_port_without_a_ppk2_says_so(ppk2: Callable[..., FakePpk2]) -> None:
    device = ppk2(words(), "hello\n")
    with pytest.raises(MeterError, match="no PPK2 answers on /dev/pts"):
        open_meter(MeterRequest.parse(f"ppk2:{device.port}", 3.3))
    with pytest.raises(MeterError, match="PPK2 on /dev/no-such-port"):
        open_meter(MeterRequest.parse("ppk2:/dev/no-such-port", 3.3))


def test_a_damaged_calibration_is_refused(ppk2: Callable[..., FakePpk2]) -> None:
    device = ppk2(words(), "R2: ohms\nEND")
    with pytest.raises(MeterError, match="invalid calibration: 'R2: ohms'"):
        open_meter(MeterRequest.parse(f"ppk2:{device.port}", 3.3))


class _Broken:
    """A meter that sends a block and then fails."""

    live = True
    header = RecordingHeader("broken", 1000)

    def __init__(self, error: Exception | None) -> None:
        self.reads, self.error = 0, error

    def start(self) -> None: ...

    def stop(self) -> None: ...

    def close(self) -> None: ...

    def read(self, timeout_s: float, /) -> SampleBlock | None:
        self.reads += 1
        if self.reads == 1 and self.error is not None:
            ones = np.ones(5)
            return SampleBlock(ones, ones, ones > 0, np.zeros(5, np.uint8))
        if self.error is not None:
            raise self.error
        threading.Event().wait(0.001)
        return None


def test_a_meter_that_fails_during_the_run_fails_the_run(tmp_path: Path) -> None:
    meter = _Broken(MeterError("gone"))
    with (
        MeterRecorder(meter, tmp_path / "samples") as recorder,
        pytest.raises(MeterError, match="gone"),
    ):
        recorder.finish()
    assert len(read_recording(tmp_path / "samples")) == 5


def test_a_meter_without_samples_says_so(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("harness.extensions.energy.run._FIRST_S", 0.01)
    with pytest.raises(MeterError, match="the meter sends no samples"):
        MeterRecorder(_Broken(None), tmp_path / "samples")


def test_a_file_that_is_no_recording_is_refused(tmp_path: Path) -> None:
    (tmp_path / "x").write_bytes(b"\x00\x01\n")
    with pytest.raises(FormatError, match="not a recording of current samples"):
        read_recording(tmp_path / "x")


@pytest.fixture
def impatient(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("harness.extensions.energy.meters._WAIT_S", 0.05)
    monkeypatch.setattr("harness.extensions.energy.meters._POLL_S", 0.01)


def csv_file(folder: Path, header: str, rows: list[str]) -> Path:
    path = folder / "power.csv"
    path.write_text("\n".join([header, *rows]) + "\n")
    return path


def test_a_csv_file_in_two_notations_gives_the_same_samples(tmp_path: Path) -> None:
    kept = [n for n in range(200) if not 50 <= n < 57]
    one = csv_file(
        tmp_path,
        "Timestamp(ms),Current(uA),D0-D7",
        [f"{n / 100:.2f},{1000 + n}.000,0{n // 10 % 2}000000" for n in kept],
    )
    first = record(MeterRequest.parse(f"csv:{one}", 3.0, 1), tmp_path / "1")
    other = csv_file(
        tmp_path,
        "time (s),voltage [V],current (mA),D1",
        [f"{n / 1e5:.6f},3.0,{1 + n / 1000:.6f},{n // 10 % 2}" for n in kept],
    )
    second = record(MeterRequest.parse(f"csv:{other}", pin=1), tmp_path / "2")
    for found in (first, second):
        assert found.header.hz == 100_000
        assert found.amperes == pytest.approx([(1000 + n) / 1e6 for n in kept], rel=1e-6)
        assert found.marker.tolist() == [n // 10 % 2 == 1 for n in kept]
        assert (found.gap_at.tolist(), found.gap_size.tolist()) == ([50], [7])
        assert found.volts == pytest.approx(3.0)
        assert found.error == pytest.approx(5e-10, rel=0.2)


@pytest.mark.parametrize(
    ("header", "rows", "said"),
    [
        ("Current(uA),D0", ["1,0"], "no column for the time"),
        ("Time(ms),D0", ["1,0"], "no column for the current"),
        ("Time(ms),Current(uA)", ["1,0"], "no column for the marker pin"),
        ("Time(ms),Current(uA),D0", ["0,1,0", "1,1,x"], "invalid line"),
        ("Time(ms),Current(uA),D0", ["0,1,0", "1,one,0"], "invalid line"),
        ("Time(ms),Current(uA),D0", ["0,1,0", "nan,1,0", "2,1,0"], "invalid line: not a number"),
        ("Time(ms),Current(uA),D0", ["0,1,0", "1,inf,0", "2,1,0"], "invalid line: not a number"),
        ("Time(ms),Current(uA),D0", ["2,1,0", "1,1,0", "0,1,0"], "times do not increase"),
        ("Time(ms),Current(uA),D0", ["0,1,0", "1,1,0", "2,1,0", "2,1,0"], "not evenly spaced"),
    ],
)
def test_a_csv_file_that_cannot_be_used_says_why(
    header: str, rows: list[str], said: str, tmp_path: Path
) -> None:
    path = csv_file(tmp_path, header, rows)
    with pytest.raises(UsageError, match=said):
        record(MeterRequest.parse(f"csv:{path}", 3.3), tmp_path / "samples")


@pytest.mark.usefixtures("impatient")
def test_a_csv_file_of_an_earlier_run_is_refused(tmp_path: Path) -> None:
    path = csv_file(tmp_path, "Time(ms),Current(uA),D0", ["0,1,0", "1,1,1"])
    os.utime(path, (1e9, 1e9))
    with pytest.raises(UsageError, match="was written before the run"):
        record(MeterRequest.parse(f"csv:{path}", 3.3), tmp_path / "samples")


def test_a_run_that_failed_does_not_wait_for_its_csv_file(tmp_path: Path) -> None:
    meter = open_meter(MeterRequest.parse(f"csv:{tmp_path / 'none.csv'}", 3.3))
    with (
        pytest.raises(ValueError, match="the run failed"),
        MeterRecorder(meter, tmp_path / "samples"),
    ):
        raise ValueError("the run failed")
    assert not (tmp_path / "samples").exists()


@pytest.mark.usefixtures("impatient")
def test_a_missing_csv_file_says_what_to_do(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="No such file"):
        record(MeterRequest.parse(f"csv:{tmp_path / 'none.csv'}", 3.3), tmp_path / "samples")


class FakeDriver:
    """What is used of ``pyjoulescope_driver.Driver``; a device that sends a thousand samples."""

    lost: tuple[int, int] = (0, 0)

    def __init__(self) -> None:
        self.calls: list[tuple[Any, ...]] = []
        self._callbacks: dict[str, Callable[[str, Any], None]] = {}

    def device_paths(self) -> list[str]:
        return ["u/js220/000415"]

    def open(self, device: str, mode: str = "", timeout: float = 0) -> int:
        self.calls.append(("open", device))
        return 0

    def close(self, device: str) -> int:
        self.calls.append(("close", device))
        return 0

    def finalize(self) -> None:
        self.calls.append(("finalize",))

    def subscribe(self, topic: str, flags: object, fn: Callable[[str, Any], None]) -> None:
        self._callbacks[topic] = fn

    def unsubscribe(self, topic: str, fn: Callable[[str, Any], None]) -> None:
        del self._callbacks[topic]

    def publish(self, topic: str, value: object, timeout: float = 0) -> None:
        data = topic.replace("/ctrl", "/!data")
        if not value:
            return
        first, behind = 8 * topic.count("/gpi/"), 1000  # one signal starts later
        for start in range(first, behind, 8):
            if not (self.lost[0] <= start < self.lost[1] and "/s/v" in topic):
                self._callbacks[data](data, self._block(topic, start))

    @staticmethod
    def _block(topic: str, start: int) -> dict[str, Any]:
        at = np.arange(start, start + 8)
        values: np.ndarray = np.packbits(at // 50 % 2, bitorder="little")
        if "/gpi/" not in topic:
            values = (at * 1e-5 if topic.endswith("/s/i/ctrl") else at * 0 + 3.0).astype("f4")
        facts = {"sample_id": 2 * start, "sample_rate": 2_000_000, "decimate_factor": 2}
        return {**facts, "data": values}


@pytest.fixture
def joulescope(monkeypatch: pytest.MonkeyPatch) -> type[FakeDriver]:
    module = SimpleNamespace(Driver=FakeDriver)
    monkeypatch.setitem(sys.modules, "pyjoulescope_driver", module)  # type: ignore[arg-type]
    monkeypatch.setattr(FakeDriver, "lost", (0, 0))
    return FakeDriver


def test_samples_of_a_joulescope_that_all_signals_have(
    joulescope: type[FakeDriver], tmp_path: Path
) -> None:
    joulescope.lost = (400, 424)
    found = record(MeterRequest.parse("joulescope:000415", pin=2), tmp_path / "samples")
    kept = [n for n in range(8, 1000) if not 400 <= n < 424]
    assert found.header.hz == 1_000_000
    assert found.header.lost_modulus == 0
    assert found.amperes == pytest.approx([n * 1e-5 for n in kept], rel=1e-6)
    assert found.marker.tolist() == [n // 50 % 2 == 1 for n in kept]
    assert (found.gap_at.tolist(), found.gap_size.tolist()) == ([392], [24])


@pytest.mark.parametrize(("address", "pin"), [("joulescope:9", 0), ("joulescope", 7)])
def test_a_joulescope_that_is_not_there_says_so(
    address: str, pin: int, joulescope: type[FakeDriver]
) -> None:
    with pytest.raises(HarnessError, match=r"0 Joulescopes found|has no input 7"):
        open_meter(MeterRequest.parse(address, pin=pin))


def test_a_missing_driver_names_the_extra(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "pyjoulescope_driver", None)
    with pytest.raises(UsageError) as raised:
        open_meter(MeterRequest.parse("joulescope"))
    assert raised.value.hint == "pip install 'etdump-harness[energy]'"
