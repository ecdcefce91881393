"""Journal: a log of a nightly run, one record per line, and the only source of its state.

Each line is a JSON object, ``{"crc":"89abcdef","record":{...}}``; the checksum is CRC-32 over the
bytes of the record as written. A line is synced to disk before any action that relies on it. A torn
last line, left by a power failure, is dropped and reported; any other damage is an error.
"""

from __future__ import annotations

import errno
import os
import threading
import zlib
from collections import defaultdict
from collections.abc import Iterable, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Final, NamedTuple, Self

import msgspec
from filelock import FileLock, Timeout

from harness.errors import BusyError, FormatError, InfrastructureError, Owner
from harness.files import check_size, read_regular
from harness.nightly.plan import Retry
from harness.records.decode_json import decode_json
from harness.records.nightly import Attempt, NightlyStep, UnitEvent

JOURNAL: Final = "journal.jsonl"
"""File name of the journal in the folder of a nightly run."""

MOST_JOURNAL: Final = 256 << 20
"""Largest journal, bytes; a night of 64 units writes some megabytes."""

_APPEND: Final = os.O_WRONLY | os.O_APPEND | os.O_CREAT | getattr(os, "O_BINARY", 0)
_HEAD: Final = b'{"crc":"%08x","record":'
_HEAD_LENGTH: Final = len(_HEAD % 0)


class _JournalRecord(msgspec.Struct, frozen=True, tag_field="what"):
    """A line."""


class Began(_JournalRecord, frozen=True, tag="began"):
    """The nightly run began. ``plan`` holds its inputs, compared when it is resumed."""

    night: str
    utc: str
    tool_version: str
    plan: dict[str, str]


class Resumed(_JournalRecord, frozen=True, tag="resumed"):
    """Another process resumed it. ``dropped`` is the size of a dropped torn line, bytes."""

    utc: str
    dropped: int


class Started(_JournalRecord, frozen=True, tag="started"):
    """An attempt is about to begin; ``directory`` is relative to the folder of the nightly run."""

    step: NightlyStep
    number: int
    directory: str
    utc: str


class Ended(_JournalRecord, frozen=True, tag="ended"):
    """An attempt ended."""

    step: NightlyStep
    attempt: Attempt


class OfUnit(_JournalRecord, frozen=True, tag="unit"):
    """An event of a unit."""

    event: UnitEvent


class Interrupted(_JournalRecord, frozen=True, tag="interrupted"):
    """The nightly run was interrupted by an exception, named by ``why``."""

    utc: str
    why: str


class Stored(_JournalRecord, frozen=True, tag="stored"):
    """All results are in the history."""

    utc: str


class Finished(_JournalRecord, frozen=True, tag="finished"):
    """The nightly run finished with this exit code."""

    utc: str
    exit_code: int


Record = Began | Resumed | Started | Ended | OfUnit | Interrupted | Stored | Finished


class JournalError(InfrastructureError):
    """The journal cannot be written, so the nightly run has to stop."""


class Journal:
    """A journal open for appending; a lock excludes other processes.

    A night writes megabytes, so none of it stays in memory.

    Attributes:
        dropped: Size of a torn last line that was dropped when it was opened, bytes.
    """

    def __init__(self, file: Path, dropped: int, lock: FileLock) -> None:
        self.dropped = dropped
        self._file, self._lock = file, lock
        self._writing = threading.Lock()
        self._failed = ""
        self._descriptor = os.open(file, _APPEND, 0o644)

    @classmethod
    def open(cls, directory: Path) -> Self:
        """Open the journal in a folder; create it if it does not exist.

        Raises:
            BusyError: Another process has it open.
            FormatError: It is damaged before its last line.
            JournalError: It cannot be read or written.
        """
        file = directory / JOURNAL
        try:
            directory.mkdir(parents=True, exist_ok=True)
            lock = FileLock(file.with_suffix(".lock"))
            lock.acquire(timeout=0)
        except Timeout:
            raise BusyError(
                f"the nightly run in {directory} is already in use by another process",
                hint="wait for that process to end, or end it; the lock ends with the process",
            ) from None
        except OSError as error:
            raise _unwritable(file, error) from error
        try:
            _, sound = read_journal(file)
            size = file.stat().st_size if file.exists() else 0
            if size > sound:
                os.truncate(file, sound)
            journal = cls(file, size - sound, lock)
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
        """The folder of the nightly run."""
        return self._file.parent

    @property
    def records(self) -> list[Record]:
        """All its records, read from the file.

        Raises:
            FormatError: Something else has damaged the file.
        """
        return read_journal(self._file)[0]

    def add(self, record: Record) -> None:
        """Append a record, and return once it is on the disk.

        Raises:
            JournalError: Writing failed. The partial line is removed, and every later call fails.
        """
        line = encoded(record)
        with self._writing:
            if self._failed:
                raise JournalError(self._failed)
            before = os.fstat(self._descriptor).st_size
            try:
                if before + len(line) > MOST_JOURNAL:
                    raise OSError(errno.EFBIG, f"the journal has reached {MOST_JOURNAL:,} bytes")
                self._write(line)
            except OSError as error:
                failure = _unwritable(self._file, error)
                self._failed = failure.message
                # If this fails, the line is dropped as torn at the next opening.
                with suppress(OSError):
                    os.ftruncate(self._descriptor, before)
                raise failure from error

    def close(self) -> None:
        """Close the journal and release its lock; further calls do nothing."""
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


def encoded(record: Record) -> bytes:
    """Encode a record as a line."""
    payload = msgspec.json.encode(record)
    return _HEAD % zlib.crc32(payload) + payload + b"}\n"


def read_journal(file: Path) -> tuple[list[Record], int]:
    """Read a journal.

    Returns:
        The records, and the number of bytes they occupy; a torn line may follow.

    Raises:
        FormatError: A line before the last is damaged, or is of another version.
    """
    data = read_regular(file, MOST_JOURNAL + 1) if file.exists() else b""
    check_size(file, len(data), MOST_JOURNAL)
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
                hint="begin a new nightly run with --fresh; the results of this one stay in its "
                "folder",
            )
        try:
            records.append(decode_json(payload, type_=Record))
        except msgspec.DecodeError as error:
            raise FormatError(
                f"{file}: unsupported record in line {number}: {error}",
                offset=at,
                hint="begin a new nightly run with --fresh",
            ) from error
        at += len(line)
    return records, at


def _unwritable(file: Path, error: OSError) -> JournalError:
    full = error.errno == errno.EFBIG
    return JournalError(
        f"cannot write the journal {file}: {error.strerror}",
        hint="begin a new nightly run with --fresh, of fewer steps"
        if full
        else "free some disk space, then run the same command to resume",
    )


def _sync_directory(directory: Path) -> None:
    """Sync the directory entry of the file; Windows cannot, and keeps entries without it."""
    if os.name == "nt":
        return
    descriptor = os.open(directory, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


class _Tally(NamedTuple):
    """What counts of the attempts at a step that have ended.

    Attributes:
        attempts: Their number, with those that were interrupted.
        passed: Whether the last one passed.
        failures: Owners of the failures, oldest first.
    """

    attempts: int = 0
    passed: bool = False
    failures: tuple[Owner, ...] = ()

    def with_(self, attempt: Attempt) -> _Tally:
        """Return the tally with one more attempt."""
        attempts = self.attempts + 1
        if attempt.outcome == "interrupted":
            return self._replace(attempts=attempts)
        if attempt.outcome == "pass":
            return _Tally(attempts, True, self.failures)
        return _Tally(attempts, False, (*self.failures, attempt.owner or Owner.HOST))


class Progress:
    """How far a nightly run is: a few numbers for each step that was attempted.

    Attributes:
        under_way: Attempts with a recorded start but no recorded end, by step.
    """

    def __init__(self, records: Iterable[Record] = ()) -> None:
        self.under_way: dict[NightlyStep, Started] = {}
        self._tallies: dict[NightlyStep, _Tally] = {}
        self._known: dict[_Tally, _Tally] = {}
        for record in records:
            self.learn(record)

    def learn(self, record: Record) -> None:
        """Update the state by a record."""
        match record:
            case Started(step=step):
                self.under_way[step] = record
            case Ended(step=step, attempt=attempt):
                self.under_way.pop(step, None)
                tally = self._of(step).with_(attempt)
                # Most steps pass at once, so most share one tally.
                self._tallies[step] = self._known.setdefault(tally, tally)
            case _:
                pass

    def next_number(self, step: NightlyStep) -> int:
        """Return the number of the next attempt at a step."""
        return self._of(step).attempts + (step in self.under_way) + 1

    def is_done(self, step: NightlyStep, retry: Retry) -> bool:
        """Whether a step needs no further attempt."""
        tally = self._of(step)
        return tally.passed or (bool(tally.failures) and not self.may_retry(step, retry))

    def may_retry(self, step: NightlyStep, retry: Retry) -> bool:
        """Whether the last failure of a step may be retried, given all failures of its owner."""
        failures = self._of(step).failures
        return bool(failures) and failures.count(failures[-1]) <= retry.times(failures[-1])

    def failures(self, step: NightlyStep) -> int:
        """Return the number of failed attempts at a step."""
        return len(self._of(step).failures)

    def _of(self, step: NightlyStep) -> _Tally:
        return self._tallies.get(step, _Tally())


class Account:
    """What happened in a nightly run, attempt by attempt. It is as large as the journal.

    Attributes:
        attempts: Attempts that ended, by step, oldest first.
        under_way: Attempts with a recorded start but no recorded end, by step.
        events: Events by unit.
    """

    def __init__(self, records: Iterable[Record] = ()) -> None:
        self.attempts: dict[NightlyStep, list[Attempt]] = defaultdict(list)
        self.under_way: dict[NightlyStep, Started] = {}
        self.events: dict[str, list[UnitEvent]] = defaultdict(list)
        for record in records:
            match record:
                case Started(step=step):
                    self.under_way[step] = record
                case Ended(step=step, attempt=attempt):
                    self.under_way.pop(step, None)
                    self.attempts[step].append(attempt)
                case OfUnit(event=event):
                    self.events[event.unit].append(event)
                case _:
                    pass


def ended_of(attempts: Sequence[Attempt]) -> list[Attempt]:
    """Return the attempts that were not interrupted."""
    return [attempt for attempt in attempts if attempt.outcome != "interrupted"]
