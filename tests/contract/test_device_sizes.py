"""Sizes that a device claims are compared with the program, and cost the host no memory."""

from __future__ import annotations

import struct
import tracemalloc
from collections.abc import Callable, Sequence
from pathlib import Path

import pytest

from tests.contract.native_device import BOARD, Frame, Line, changed, native_device, number

pytestmark = pytest.mark.sim

Etharness = Callable[..., tuple[int, str, str]]
Change = Callable[[bytes], bytes]

GIB = 1 << 30
MEMORY = 150 << 20
"""Most bytes that such a run takes in Python; the sizes claimed take at least 1 GiB."""

PLANNED, METHOD, INPUT = 4, 8, 12
"""Where a response to COMMIT has its planned bytes, its method bytes, and its first input."""
NBYTES, SIZES = 4, 8
"""Where the description of a tensor has its bytes and its sizes."""


class Claim(Line):
    """A device that claims other sizes in the responses to a request."""

    def __init__(self, op: str, change: Change) -> None:
        self._op, self._change = op, change

    def from_device(self, frame: Frame) -> Sequence[Frame]:
        return (changed(frame, self._op, self._change),)


def put(offset: int, value: int) -> Change:
    """Put a number into a response to COMMIT of a model; other responses are shorter."""

    def change(body: bytes) -> bytes:
        if len(body) <= INPUT:
            return body
        return body[:offset] + struct.pack("<I", value) + body[offset + 4 :]

    return change


def claim_region(answer: int) -> Change:
    """Claim 1 GiB in responses to STAT of this length."""

    def change(body: bytes) -> bytes:
        return body[:4] + struct.pack("<I", GIB) + body[8:] if len(body) == answer else body

    return change


@pytest.fixture
def run(native_image: Path, tmp_path: Path, etharness: Etharness) -> Callable[..., tuple[int, str]]:
    """Run a model on a device behind a line; exit code and error, within bounded memory."""
    (tmp_path / "native.toml").write_text(BOARD)

    def run(line: Line, *options: str) -> tuple[int, str]:
        with native_device(native_image, line) as port:
            tracemalloc.start()
            try:
                code, _, err = etharness(
                    *("run", "--board", tmp_path / "native.toml", "--port", port),
                    *("--model", "kws_int8", "-o", tmp_path / "out", *options),
                )
                _, peak = tracemalloc.get_traced_memory()
            finally:
                tracemalloc.stop()
        assert peak < MEMORY, f"{peak:,} bytes"
        return code, err

    return run


@pytest.mark.parametrize(
    ("offset", "value", "said"),
    [
        (PLANNED, 2**32 - 1, "4,294,967,295 planned and"),
        (PLANNED, 200_000, "200,000 planned bytes, but the program needs 16,000 bytes"),
        (PLANNED, 100, "100 planned bytes, but the program plans 16,000 bytes"),
        (METHOD, 2**32 - 1, "planned and 4,294,967,295 method bytes"),
        (
            INPUT + NBYTES,
            2**31,
            "input 0 as float32[1, 1, 49, 10] in the order 0, 2, 1, 3 of 2,147",
        ),
        (INPUT + SIZES, 2**31 - 1, "input 0 as float32[2147483647, 1, 49, 10]"),
        (INPUT, 0x0401, "input 0 as int8[1, 1, 49, 10]"),
    ],
)
def test_a_model_is_as_the_program_says(
    offset: int, value: int, said: str, run: Callable[..., tuple[int, str]]
) -> None:
    code, err = run(Claim("COMMIT", put(offset, value)))
    assert code == 4, err
    assert "native: the device reports" in err
    assert said in err


@pytest.mark.parametrize(
    ("answer", "said"),
    [
        (48, "the device says that OUTPUT 0 has 1,073,741,824 bytes; the limit is 48"),
        (40, "the device says that TRACE 0 has 1,073,741,824 bytes; the limit is 4,198,400"),
    ],
    ids=["output", "trace"],
)
def test_a_region_is_not_larger_than_its_tensor_or_buffer(
    answer: int, said: str, run: Callable[..., tuple[int, str]]
) -> None:
    code, err = run(Claim("STAT", claim_region(answer)))
    assert (code, said in err) == (4, True), err


class LargeLog(Line):
    """A device that sends the last byte of a chunk of 1 GiB of its log after each execution."""

    def from_device(self, frame: Frame) -> Sequence[Frame]:
        if frame.type != number("op.NOTE_PROGRESS"):
            return (frame,)
        body = frame.body[:4] + struct.pack("<3I", 9, GIB, GIB - 1) + b"x"
        return (Frame(number("op.NOTE_LOG"), 0, body), frame)


def test_a_large_chunk_of_a_log_takes_memory_only_as_it_arrives(
    run: Callable[..., tuple[int, str]],
) -> None:
    code, err = run(LargeLog(), "--stream")
    assert code in (0, 4, 75), err


def test_the_sizes_of_the_firmware_itself_pass(run: Callable[..., tuple[int, str]]) -> None:
    code, err = run(Line())
    assert code == 0, err
