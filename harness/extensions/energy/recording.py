"""Recording: samples of current, voltage and the marker pin at a steady rate, as a file.

``power.samples`` of a run directory is a line of JSON (``RecordingHeader``) and then records of 9
bytes, little-endian: current in amperes (f32), voltage in volts (f32), and a byte with the level of
the marker pin in bit 0 and the measurement range in bits 1 to 3. A record whose byte is 255
says that samples are missing here; instead of a current it has their number (u32).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction
from pathlib import Path
from typing import Final

import msgspec
import numpy as np
import numpy.typing as npt

from harness.errors import FormatError
from harness.files import decode_json, read_limited

MOST_RECORDING: Final = 1 << 30
"""Largest recording, bytes: 20 minutes of a PPK2, one minute of a Joulescope."""

_GAP: Final = 0xFF
_RECORD: Final = np.dtype([("amperes", "<f4"), ("volts", "<f4"), ("flags", "u1")])

Ints = npt.NDArray[np.int64]
Floats = npt.NDArray[np.float64]


class RecordingHeader(msgspec.Struct, frozen=True):
    """What is the same for all samples of a recording.

    Attributes:
        meter: Name of the meter, as in reports.
        hz_numerator: Samples per second on the meter's clock.
        hz_denominator: Divisor of it.
        lost_modulus: The number of samples lost in a gap is known modulo this; 0 if it is exact.
        steps: Resolution of each measurement range, amperes; () if unknown.
        not_included: Errors of the meter itself, which the bounds do not include.
        schema: Version of the file.
    """

    meter: str
    hz_numerator: int
    hz_denominator: int = 1
    lost_modulus: int = 0
    steps: tuple[float, ...] = ()
    not_included: str = ""
    schema: int = 1

    @property
    def hz(self) -> Fraction:
        """Samples per second."""
        return Fraction(self.hz_numerator, self.hz_denominator)


@dataclass(frozen=True, slots=True, eq=False)
class Samples:
    """Samples of a meter, shape (n,) each.

    Attributes:
        amperes: Mean current of each sample period.
        volts: Voltage.
        marker: Level of the marker pin.
    """

    amperes: Floats
    volts: Floats
    marker: npt.NDArray[np.bool_]

    def __len__(self) -> int:
        """Number of samples."""
        return len(self.amperes)


@dataclass(frozen=True, slots=True, eq=False)
class SampleBlock(Samples):
    """Consecutive samples as a meter delivers them, shape (n,) each.

    Attributes:
        ranges: Index into ``RecordingHeader.steps``.
        gaps: Samples missing before a sample of this block: its index, and their number.
    """

    ranges: npt.NDArray[np.uint8]
    gaps: Sequence[tuple[int, int]] = ()


@dataclass(frozen=True, slots=True, eq=False)
class Recording(Samples):
    """All samples of a recording, shape (n,) each.

    Attributes:
        header: What is the same for all samples.
        error: Quantization error of each current, amperes: half a step of its range, and the
            rounding of the file.
        gap_at: Indices of the samples before which samples are missing, ascending.
        gap_size: Number of samples missing there, modulo ``lost_modulus``.
    """

    header: RecordingHeader
    error: Floats
    gap_at: Ints
    gap_size: Ints

    @classmethod
    def of(cls, header: RecordingHeader, blocks: Sequence[SampleBlock]) -> Recording:
        """Join blocks of samples."""
        data = b"".join(encode_block(block) for block in blocks)
        return _decode(header, np.frombuffer(data, _RECORD))

    def positions(self, index: Ints) -> Ints:
        """Return the numbers of samples by their indices, counting those that are missing."""
        missing = np.concatenate([np.zeros(1, np.int64), np.cumsum(self.gap_size)])
        found: Ints = index + missing[np.searchsorted(self.gap_at, index, side="right")]
        return found


class RecordingWriter:
    """Writes a recording to a file, block by block.

    Attributes:
        size: Length of the file so far, bytes.
    """

    def __init__(self, path: Path, header: RecordingHeader) -> None:
        self._file = path.open("wb")
        self.size = self._file.write(msgspec.json.encode(header) + b"\n")

    def write(self, block: SampleBlock) -> None:
        """Append samples."""
        self.size += self._file.write(encode_block(block))

    def close(self) -> None:
        """Close the file."""
        self._file.close()


def encode_block(block: SampleBlock) -> bytes:
    """Return the records of some samples."""
    records = np.zeros(len(block), _RECORD)
    records["amperes"], records["volts"] = block.amperes, block.volts
    records["flags"] = block.marker.astype(np.uint8) | (block.ranges << 1)
    if not block.gaps:
        return records.tobytes()
    at = [index for index, _ in block.gaps]
    gaps = np.zeros(len(at), _RECORD)
    gaps["amperes"] = np.array([count for _, count in block.gaps], "<u4").view("<f4")
    gaps["flags"] = _GAP
    return np.insert(records, at, gaps).tobytes()


def read_recording(path: Path) -> Recording:
    """Read a recording; an incomplete record at its end is ignored.

    Raises:
        FormatError: The file is not a recording.
    """
    data = read_limited(path, MOST_RECORDING)
    begin = data.find(b"\n", 0, 65536) + 1
    try:
        header = decode_json(data[:begin], type_=RecordingHeader)
    except msgspec.DecodeError as error:
        raise FormatError(f"{path}: not a recording of current samples: {error}") from error
    records = np.frombuffer(data, _RECORD, (len(data) - begin) // _RECORD.itemsize, begin)
    return _decode(header, records)


def _decode(header: RecordingHeader, records: npt.NDArray[np.void]) -> Recording:
    is_gap = records["flags"] == _GAP
    at = np.flatnonzero(is_gap)
    samples = records[~is_gap]
    steps = np.zeros(8)
    steps[: len(header.steps)] = header.steps
    amperes = samples["amperes"].astype(np.float64)
    return Recording(
        amperes,
        samples["volts"].astype(np.float64),
        (samples["flags"] & 1).astype(np.bool_),
        header,
        steps[(samples["flags"] >> 1) & 7] / 2 + np.abs(amperes) * 2.0**-24,
        at - np.arange(len(at)),
        records["amperes"][at].copy().view("<u4").astype(np.int64),
    )
