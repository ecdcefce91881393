"""What the host reads in an ED00 file that a device wrote is what it reads in the log."""

from __future__ import annotations

import ctypes as ct
import os
import subprocess
from pathlib import Path

import pytest
from filelock import FileLock

from harness import ClockDomain, FormatError, Trace, read_ed00, read_log, write_ed00
from tests.support.fuzzing import SOURCE, fuzz_traces, saved_traces

pytestmark = [pytest.mark.sim, pytest.mark.uncounted]
CLOCKS = [ClockDomain(f"clock {number}", None, 32) for number in range(256)]


@pytest.fixture(scope="module")
def traces(shared: Path, tmp_path_factory: pytest.TempPathFactory) -> list[tuple[bytes, bytes]]:
    """What the fuzzer found, once for all workers."""
    folder = shared / "fuzzed_traces"
    with FileLock(folder.with_suffix(".lock")):
        if not folder.exists():
            unfinished = tmp_path_factory.mktemp("fuzzed")
            fuzz_traces(unfinished)
            unfinished.rename(folder)
        return saved_traces(folder)


@pytest.fixture(scope="module")
def verifier(tmp_path_factory: pytest.TempPathFactory) -> ct.CDLL:
    """What the fuzzer holds each file against."""
    path = tmp_path_factory.mktemp("verifier") / "libverifier.so"
    source = SOURCE / "fuzz" / "support" / "ed00_verifier.c"
    compiler = os.environ.get("CC", "cc")
    subprocess.run([compiler, "-std=c11", "-shared", "-fPIC", "-o", path, source], check=True)
    library = ct.CDLL(str(path))
    library.ed00_is_sound.restype = ct.c_bool
    return library


def as_ed00(log: Trace, *, allocations: bool) -> Trace:
    return read_ed00(write_ed00(log, allocation_events=allocations))


@pytest.mark.long
def test_file_and_log_say_the_same(traces: list[tuple[bytes, bytes]]) -> None:
    compared = events = 0
    for image, data in traces:
        file = read_ed00(data)
        try:
            log = read_log(image, CLOCKS)
        except FormatError:  # a later chunk, or an allocator that was never declared
            continue
        assert file in (as_ed00(log, allocations=True), as_ed00(log, allocations=False))
        compared += 1
        events += len(file)
    assert compared > 100
    assert events > 500


def test_the_verifier_sees_what_is_missing(
    traces: list[tuple[bytes, bytes]], verifier: ct.CDLL
) -> None:
    padding = 3  # behind the last string

    def is_sound(data: bytes, size: int) -> bool:
        cut = (max(size, 4) - 4).to_bytes(4, "little") + data[4:size]
        sound: bool = verifier.ed00_is_sound(cut, size)
        return sound

    # A file also holds the names that only values left out of it use: the end may be such a name.
    uses_its_end = [data for _, data in traces if not is_sound(data, len(data) - padding - 1)]
    data = max(uses_its_end, key=len)
    assert len(data) > 2_000
    assert is_sound(data, len(data))
    for size in range(len(data) - padding):
        assert not is_sound(data, size), f"cut to {size} of {len(data)} bytes"


def complaint(data: bytes) -> str:
    """Why the host does not read a file; empty when it does."""
    try:
        read_ed00(data)
    except FormatError as error:
        return error.message
    return ""


def test_the_verifier_sees_references_to_nowhere(
    traces: list[tuple[bytes, bytes]], verifier: ct.CDLL
) -> None:
    """In damaged files that pass, the host finds none either."""
    _, data = max(traces, key=lambda pair: len(pair[1]))
    passed = []
    for at in range(4, len(data), 4):
        damaged = data[:at] + b"\xfd\xff\xff\x7f" + data[at + 4 :]
        if verifier.ed00_is_sound(damaged, len(damaged)):
            passed.append(complaint(damaged))
    assert 10 < len(passed) < len(data) // 4 * 9 // 10
    assert not [message for message in passed if "outside" in message]
