"""Journal: everything that happened in a night, line by line, and the only truth of where it is.

Each line is one JSON object, ``{"crc":"89abcdef","record":{...}}``, whose checksum is CRC-32 over
the bytes of the record as they stand. A line is on the disk before anything is done that relies on
it. A last line that is torn, as a power failure leaves it, is dropped, and that is said; anything
else that is wrong with a journal is an error.
"""

from __future__ import annotations

import os
import threading
import zlib
from pathlib import Path
from typing import Final, Self

import msgspec
from filelock import FileLock, Timeout

from harness.errors import BusyError, FormatError, InfrastructureError
from harness.files import read_regular
from harness.records.nightly import Attempt, NightlyStep, UnitEvent

JOURNAL: Final = "journal.jsonl"
"""Its name in the folder of a night."""

_HEAD: Final = b'{"crc":"%08x","record":'
_HEAD_LENGTH: Final = len(_HEAD % 0)


class _JournalRecord(msgspec.Struct, frozen=True, tag_field="what"):
    """A line."""


class Began(_JournalRecord, frozen=True, tag="began"):
    """The night began. ``plan`` is all that it depends on, for the next one to compare with."""

    night: str
    utc: str
    tool_version: str
    plan: dict[str, str]


class Resumed(_JournalRecord, frozen=True, tag="resumed"):
    """It went on in another process. ``dropped`` are bytes of a torn line."""

    utc: str
    dropped: int


class Started(_JournalRecord, frozen=True, tag="started"):
    """An attempt is about to begin, in a run directory of its own, relative to the night's."""

    step: NightlyStep
    number: int
    directory: str
    utc: str


class Ended(_JournalRecord, frozen=True, tag="ended"):
    """It has ended."""

    step: NightlyStep
    attempt: Attempt


class OfUnit(_JournalRecord, frozen=True, tag="unit"):
    """Something happened to a unit."""

    event: UnitEvent


class Interrupted(_JournalRecord, frozen=True, tag="interrupted"):
    """Somebody ended the night before it was over."""

    utc: str
    why: str


class Stored(_JournalRecord, frozen=True, tag="stored"):
    """Every result is in the history."""

    utc: str


class Finished(_JournalRecord, frozen=True, tag="finished"):
    """The night is over, with this exit code."""

    utc: str
    exit_code: int


Record = Began | Resumed | Started | Ended | OfUnit | Interrupted | Stored | Finished


class JournalError(InfrastructureError):
    """The journal cannot be written: nothing more may be done."""


class Journal:
    """A journal that is open for more.

    Attributes:
        records: All that it holds.
        dropped: Bytes of a torn last line that were removed when it was opened.
    """

    def __init__(self, file: Path, records: list[Record], dropped: int, lock: FileLock) -> None:
        self.records, self.dropped = records, dropped
        self._file, self._lock = file, lock
        self._writing = threading.Lock()
        self._failed = ""
        self._descriptor = os.open(file, os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o644)

    @classmethod
    def open(cls, directory: Path) -> Self:
        """Open the journal of a night, and begin one if there is none.

        Raises:
            BusyError: Another process is at this night.
            FormatError: Something else than a torn last line is wrong with it.
            JournalError: It cannot be read or written.
        """
        file = directory / JOURNAL
        try:
            directory.mkdir(parents=True, exist_ok=True)
            lock = FileLock(file.with_suffix(".lock"))
            lock.acquire(timeout=0)
        except Timeout:
            raise BusyError(
                f"another process is at the night in {directory}",
                hint="wait for it to end, or end it; the lock goes with the process",
            ) from None
        except OSError as error:
            raise _unwritable(file, error) from error
        try:
            records, sound = read_journal(file)
            size = file.stat().st_size if file.exists() else 0
            if size > sound:
                os.truncate(file, sound)
            journal = cls(file, records, size - sound, lock)
            _sync_directory(directory)
        except OSError as error:
            lock.release()
            raise _unwritable(file, error) from error
        except BaseException:
            lock.release()
            raise
        return journal

    @property
    def directory(self) -> Path:
        """The folder of its night."""
        return self._file.parent

    def add(self, record: Record) -> None:
        """Write a record, and return when it is on the disk.

        Raises:
            JournalError: It cannot be; nothing of it is left, and the journal takes nothing more.
        """
        line = encoded(record)
        with self._writing:
            if self._failed:
                raise JournalError(self._failed)
            before = os.fstat(self._descriptor).st_size
            try:
                self._write(line)
            except OSError as error:
                failure = _unwritable(self._file, error)
                self._failed = failure.message
                self._take_back(before)
                raise failure from error
            self.records.append(record)

    def close(self) -> None:
        """Let go of it; further calls do nothing."""
        if self._descriptor >= 0:
            os.close(self._descriptor)
            self._descriptor = -1
            self._lock.release()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def _write(self, line: bytes) -> None:
        left = memoryview(line)
        while left:
            left = left[os.write(self._descriptor, left) :]
        os.fsync(self._descriptor)

    def _take_back(self, size: int) -> None:
        """Remove the part of a line that was written; if not, it counts as torn."""
        try:
            os.ftruncate(self._descriptor, size)
        except OSError:
            return


def encoded(record: Record) -> bytes:
    """A record as a line."""
    payload = msgspec.json.encode(record)
    return _HEAD % zlib.crc32(payload) + payload + b"}\n"


def read_journal(file: Path) -> tuple[list[Record], int]:
    """Read a journal.

    Returns:
        Its records, and how many of its bytes these are; what follows is a torn line.

    Raises:
        FormatError: A line before the last is damaged, or is of another version.
    """
    data = read_regular(file) if file.exists() else b""
    records: list[Record] = []
    at = 0
    for number, text in enumerate(data.split(b"\n"), start=1):
        line = data[at : at + len(text) + 1]
        if not line:
            break
        payload = line[_HEAD_LENGTH:-2]
        if line != _HEAD % zlib.crc32(payload) + payload + b"}\n":
            if at + len(line) == len(data):
                break
            raise FormatError(
                f"{file}: line {number} is damaged",
                offset=at,
                hint="begin a new night with --fresh; the results of this one are in its folder",
            )
        try:
            records.append(msgspec.json.decode(payload, type=Record))
        except msgspec.DecodeError as error:
            raise FormatError(
                f"{file}: line {number} is not of this version: {error}",
                offset=at,
                hint="begin a new night with --fresh",
            ) from error
        at += len(line)
    return records, at


def _unwritable(file: Path, error: OSError) -> JournalError:
    return JournalError(
        f"the journal {file} cannot be kept: {error.strerror}",
        hint="make room, then run the same command: it goes on where it was",
    )


def _sync_directory(directory: Path) -> None:
    """Have the file's name on the disk, too."""
    descriptor = os.open(directory, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
