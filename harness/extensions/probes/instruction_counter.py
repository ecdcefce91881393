"""Counts instructions of an emulated machine at chosen code addresses, without stopping it.

QEMU's translator loads `instruction_counter.c`, which the host's compiler builds when it is first
used. Its records tell when control comes into a function and goes out of it.
"""

from __future__ import annotations

import hashlib
import os
import shutil
import subprocess
import tempfile
from collections.abc import Collection, Sequence
from dataclasses import dataclass
from enum import IntEnum
from pathlib import Path
from typing import Final

import numpy as np
import numpy.typing as npt

from harness.errors import FormatError, InfrastructureError, UsageError
from harness.files import user_cache, write_atomic

_SOURCE: Final = Path(__file__).with_name("instruction_counter.c")
_FLAGS: Final = ("-std=c11", "-O2", "-shared", "-fPIC")
_COMPILERS: Final = ("cc", "gcc", "clang")
_RECORD: Final = np.dtype([("count", "<u8"), ("address", "<u4"), ("kind_and_set", "<u4")])
_MOST_RECORDS: Final = 50_000_000


class Passage(IntEnum):
    """What a record tells; numbers as in ``instruction_counter.c``."""

    ENTER = 1
    LEAVE = 2
    RETURN = 3
    POINT = 4


@dataclass(frozen=True, slots=True)
class Passages:
    """What the counter recorded, in the order of time.

    Attributes:
        counts: Instructions executed before; after the one of ``addresses`` where control left.
        addresses: Address of the instruction.
        kinds: Numbers of `Passage`.
        sets: Number of the set; 0 for a point.
    """

    counts: npt.NDArray[np.int64]
    addresses: npt.NDArray[np.int64]
    kinds: npt.NDArray[np.int64]
    sets: npt.NDArray[np.int64]

    def __len__(self) -> int:
        return len(self.counts)


def build_counter(cache: Path | None = None) -> Path:
    """Return the plugin, which is built if it is not in the cache.

    Args:
        cache: Directory of the cache; None for the user's.

    Raises:
        UsageError: The host has no C compiler.
        InfrastructureError: The compiler failed.
    """
    source = _SOURCE.read_bytes()
    named = os.environ.get("CC")
    found = (shutil.which(name) for name in ((named,) if named else _COMPILERS))
    program = next(filter(None, found), None)
    if program is None:
        raise UsageError(
            "counting instructions under QEMU needs a C compiler of this host: "
            f"{named or ', '.join(_COMPILERS)} not found",
            hint="on Debian or Ubuntu: apt-get install gcc",
        )
    key = hashlib.sha256(source + " ".join((program, *_FLAGS)).encode()).hexdigest()[:16]
    plugin = (cache or user_cache("plugins")) / f"instruction_counter-{key}.so"
    if plugin.is_file():
        return plugin
    with tempfile.TemporaryDirectory() as directory:
        built = Path(directory) / "counter.so"
        done = subprocess.run(
            [program, *_FLAGS, "-o", str(built), str(_SOURCE)],
            capture_output=True,
            text=True,
            check=False,
        )
        if done.returncode != 0:
            raise InfrastructureError(
                f"{program} cannot build the instruction counter for QEMU: "
                f"{done.stderr.strip()[-500:]}"
            )
        plugin.parent.mkdir(parents=True, exist_ok=True)
        write_atomic(plugin, built.read_bytes())
    return plugin


@dataclass(frozen=True, slots=True)
class InstructionCounter:
    """A counter for one start of QEMU.

    Attributes:
        plugin: The plugin.
        specification: What it watches.
        output: Its records.
    """

    plugin: Path
    specification: Path
    output: Path

    @classmethod
    def of(
        cls,
        sets: Sequence[Collection[tuple[int, int]]],
        points: Collection[int],
        directory: Path,
    ) -> InstructionCounter:
        """Prepare a counter for code addresses.

        Args:
            sets: Functions, by number: begin and end of each piece.
            points: Addresses of instructions.
            directory: Where to put its files, for the time of the run.

        Raises:
            UsageError: The host has no C compiler, or QEMU cannot be told of the directory.
            InfrastructureError: The compiler failed.
        """
        if "," in str(directory) or "=" in str(directory):
            raise UsageError(f"QEMU cannot be told of files in {directory}: its name has , or =")
        lines = [
            f"range {number} {begin:x} {end:x}"
            for number, ranges in enumerate(sets)
            for begin, end in ranges
        ]
        lines += [f"point {address:x}" for address in sorted(points)]
        specification = directory / "watched.txt"
        specification.write_text("".join(f"{line}\n" for line in lines))
        return cls(build_counter(), specification, directory / "passages.bin")

    @property
    def arguments(self) -> tuple[str, ...]:
        """Arguments for QEMU."""
        return ("-plugin", f"{self.plugin},spec={self.specification},out={self.output}")

    def read(self) -> Passages:
        """Return what was recorded until now; complete once QEMU has ended.

        Raises:
            FormatError: There are too many records.
        """
        try:
            size = self.output.stat().st_size // _RECORD.itemsize
        except FileNotFoundError:
            size = 0
        if size > _MOST_RECORDS:
            raise FormatError(
                f"the instruction counter recorded {size:,} passages, more than {_MOST_RECORDS:,}",
                hint="trace fewer executions with --runs",
            )
        data = np.fromfile(self.output, _RECORD, count=size) if size else np.empty(0, _RECORD)
        kinds = (data["kind_and_set"] & 0xFF).astype(np.int64)
        # Where control left is written when it comes back. What left goes before what came in.
        inward = (kinds == Passage.ENTER) | (kinds == Passage.POINT)
        order = np.lexsort((inward, data["count"]))
        return Passages(
            data["count"][order].astype(np.int64),
            data["address"][order].astype(np.int64),
            kinds[order],
            (data["kind_and_set"][order] >> 8).astype(np.int64),
        )
