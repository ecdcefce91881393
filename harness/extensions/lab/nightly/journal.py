"""The folder of a nightly run, and its journal: the only source of its state.

The journal has one record per line, a JSON object ``{"crc":"89abcdef","record":{...}}``; the
checksum is CRC-32 over the bytes of the record as written. A line is synced to disk before any
action that relies on it. A torn last line, left by a power failure, is dropped and reported; any
other damage is an error.
"""

from __future__ import annotations

import errno
import hashlib
import os
import re
import threading
import zlib
from ast import literal_eval
from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager, suppress
from datetime import datetime
from pathlib import Path
from typing import Any, Final, NamedTuple, Self

import msgspec
from filelock import FileLock, Timeout
from msgspec.structs import replace

from harness.config.toml_file import Document
from harness.errors import (
    BusyError,
    FormatError,
    HarnessError,
    InfrastructureError,
    Owner,
    UsageError,
)
from harness.extensions.lab.nightly.plan import (
    NightlyPlan,
    NightUnit,
    Retry,
    model_file,
    options_of,
    path_of,
)
from harness.files import (
    MOST_DOCUMENT,
    MOST_MODEL,
    check_size,
    decode_json,
    read_limited,
    read_regular,
)
from harness.history import open_store
from harness.records.nightly import Attempt, NightDocument, NightlyStep, Trouble, UnitEvent
from harness.records.store_address import StoreAddress
from harness.runs.history import HISTORY_OPEN_S, add_results

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
        self._wrong: set[NightlyStep] = set()
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
                if attempt.owner is Owner.TEST:
                    self._wrong.add(replace(step, repeat=0))
            case _:
                pass

    def is_wrong(self, step: NightlyStep) -> bool:
        """Whether a repeat of a step was asked for in a way that cannot work: so are the others."""
        return replace(step, repeat=0) in self._wrong

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
        wrong: The attempt that failed because of the request, for all repeats of a step, of which
            ``repeat`` is 0.
    """

    def __init__(self, records: Iterable[Record] = ()) -> None:
        self.attempts: dict[NightlyStep, list[Attempt]] = defaultdict(list)
        self.under_way: dict[NightlyStep, Started] = {}
        self.events: dict[str, list[UnitEvent]] = defaultdict(list)
        self.wrong: dict[NightlyStep, Attempt] = {}
        for record in records:
            match record:
                case Started(step=step):
                    self.under_way[step] = record
                case Ended(step=step, attempt=attempt):
                    self.under_way.pop(step, None)
                    self.attempts[step].append(attempt)
                    if attempt.owner is Owner.TEST:
                        self.wrong.setdefault(replace(step, repeat=0), attempt)
                case OfUnit(event=event):
                    self.events[event.unit].append(event)
                case _:
                    pass


def ended_of(attempts: Sequence[Attempt]) -> list[Attempt]:
    """Return the attempts that were not interrupted."""
    return [attempt for attempt in attempts if attempt.outcome != "interrupted"]


_CHOOSE_S: Final = 10.0
"""Longest wait for another process that chooses a folder."""

_CHANGEABLE: Final = ("jobs", "reports", "quarantine")
"""Keys of a plan that may change before a nightly run is resumed."""

_GONE: Final = ("deadlines.people_s",)
"""Keys of plans of earlier versions."""


DOCUMENT: Final = "night.json"
"""File with the summary of a nightly run, in its folder."""


_MOST_NIGHTS: Final = 60
"""Number of earlier nightly runs to read, the newest."""


_TRIES: Final = 3


_WAIT_S: Final = 5.0
"""Pause after the first failed attempt to open the history; longer after the next."""


def nights(output: Path, name: str = "") -> list[Path]:
    """Return the folders of all nightly runs in ``output``, or those of one name, oldest first."""
    found = sorted(file.parent for file in output.glob(f"*/{JOURNAL}") if file.is_file())
    of_it = re.compile(rf"{re.escape(name)}-\d{{8}}T\d{{6}}(-\d{{4}})?")
    return [folder for folder in found if not name or of_it.fullmatch(folder.name)]


def open_folder(output: Path, name: str, now: datetime, *, fresh: bool) -> Journal:
    """Open the journal of the unfinished nightly run, or of a new one.

    Args:
        output: The folder that contains the folders of nightly runs.
        name: ``name`` of the plan.
        now: The current time, UTC.
        fresh: Begin a new one in any case.

    Raises:
        BusyError: Another process runs it.
        FormatError: The journal is damaged.
        InfrastructureError: The journal cannot be read or written.
    """
    with _locked(output):
        if not fresh and (last := unfinished_night(output, name)) is not None:
            return Journal.open(last)
        return Journal.open(output / _next_name(output, name, now))


def unfinished_night(output: Path, name: str) -> Path | None:
    """Return the folder of the newest nightly run of this name if it is unfinished, else None."""
    found = nights(output, name)
    if not found:
        return None
    records, _ = read_journal(found[-1] / JOURNAL)
    over = any(isinstance(record, Finished) for record in records)
    return None if over else found[-1]


def _next_name(output: Path, name: str, now: datetime) -> str:
    """Return a folder name that sorts after all others, also if the clock was set back."""
    stamp = f"{now:%Y%m%dT%H%M%S}"
    newest = max((folder.name for folder in nights(output, name)), default="")
    base = max(f"{name}-{stamp}", newest[: len(name) + 1 + len(stamp)])
    names = (base, *(f"{base}-{number:04}" for number in range(2, 10_000)))
    return next(n for n in names if n > newest and not (output / n).exists())


def fingerprint(
    plan: NightlyPlan, document: Document, units: Sequence[NightUnit]
) -> dict[str, str]:
    """Return all inputs of a nightly run by name: options, units, digests of files."""
    options = msgspec.to_builtins(plan, enc_hook=str)  # an address without its secrets
    for key in _CHANGEABLE:
        del options[key]
    found = dict(_flat("", options))
    for unit in units:
        found[f"unit {unit.id}"] = unit.board.name
    for file in sorted(set(_files(plan, document, units))):
        # Relative to the plan, wherever the nightly run is started from.
        name = os.path.relpath(file, document.path.parent)
        found[f"file {name}"] = hashlib.sha256(read_limited(file, MOST_MODEL)).hexdigest()
    return found


def check_same(began: Began, now: dict[str, str], directory: Path) -> None:
    """Refuse to resume a nightly run when its inputs have changed.

    Raises:
        UsageError: An input has changed; the message lists the changes.
    """
    changes = [
        f"{key}: {_brief(began.plan.get(key))} before, {_brief(now.get(key))} now"
        for key in dict.fromkeys([*began.plan, *now])
        if key not in _GONE and _value(began.plan.get(key)) != _value(now.get(key))
    ]
    if changes:
        more = f"; and {len(changes) - 5} more" if len(changes) > 5 else ""
        raise UsageError(
            f"cannot resume the nightly run in {directory}, its plan has changed: "
            f"{'; '.join(changes[:5])}{more}",
            hint="undo the changes to resume it, or begin a new one with --fresh",
        )


def _files(plan: NightlyPlan, document: Document, units: Sequence[NightUnit]) -> Iterator[Path]:
    for model in plan.model:
        for variant in plan.variants:
            yield model_file(document, model, variant)
        for file in options_of(plan, model).files():
            path = path_of(document, file)
            folder = path.rglob("*") if path.is_dir() else [path]  # the steps of a sequence
            yield from (each for each in folder if not each.is_dir())
    for unit in units:
        yield from (image for image in unit.images.values() if image is not None)


def _flat(prefix: str, value: Any) -> Iterator[tuple[str, str]]:
    """Yield the keys and values of nested tables."""
    if isinstance(value, dict):
        for key, inner in value.items():
            yield from _flat(f"{prefix}.{key}" if prefix else key, inner)
    elif isinstance(value, list) and any(isinstance(item, dict) for item in value):
        for index, inner in enumerate(value):
            yield from _flat(f"{prefix}[{index + 1}]", inner)
    else:
        yield prefix, repr(value)


def _value(text: str | None) -> Any:
    """Return a recorded value without the keys that are not set: versions know different keys."""
    try:
        return _set_only(literal_eval(text)) if text and text[0] in "([{NF" else text
    except (ValueError, SyntaxError):
        return text


def _set_only(value: Any) -> Any:
    """Return a value without keys that are not set; None if nothing is."""
    if isinstance(value, dict):
        inner = {key: _set_only(item) for key, item in value.items()}
        value = {key: item for key, item in inner.items() if item is not None}
    elif isinstance(value, tuple | list):
        value = [_set_only(item) for item in value]
    return None if value is False or value in (None, [], {}) else value


def _brief(value: str | None) -> str:
    if value is None:
        return "nothing"
    return value if len(value) <= 40 else f"{value[:12]}..."


@contextmanager
def _locked(output: Path) -> Iterator[None]:
    """Exclude other processes that choose a folder."""
    try:
        output.mkdir(parents=True, exist_ok=True)
        lock = FileLock(output / ".nights.lock")
        lock.acquire(timeout=_CHOOSE_S)
    except Timeout:
        raise BusyError(
            f"{output} stayed locked for {_CHOOSE_S:g} s by another nightly run"
        ) from None
    except OSError as error:
        raise UsageError(f"cannot use {output} for nightly runs: {error.strerror}") from error
    with lock:
        lock.release()
        yield


def earlier_nights(directory: Path, name: str) -> Iterator[NightDocument]:
    """Yield the readable summaries of the nightly runs before the one in ``directory``."""
    yield from documents(_before(directory, name))


def documents(folders: Iterable[Path]) -> Iterator[NightDocument]:
    """Yield the readable summaries of nightly runs."""
    for folder in folders:
        try:
            data = read_regular(folder / DOCUMENT, MOST_DOCUMENT + 1)
            check_size(folder / DOCUMENT, len(data), MOST_DOCUMENT)
            yield decode_json(data, type_=NightDocument)
        except (OSError, HarnessError, msgspec.DecodeError):
            continue


def unstored_nights(directory: Path, name: str) -> Iterator[Path]:
    """Yield earlier finished nightly runs whose results are not in the history."""
    for folder in _before(directory, name):
        try:
            records, _ = read_journal(folder / JOURNAL)
        except (OSError, HarnessError):
            continue
        over = any(isinstance(record, Finished) for record in records)
        if over and not any(isinstance(record, Stored) for record in records):
            yield folder


def store_late(
    folder: Path, url: StoreAddress, utc: Callable[[], str], sleep: Callable[[float], None]
) -> tuple[list[str], Trouble | None]:
    """Add the results of an earlier nightly run to the history.

    Returns:
        Notes, and the trouble with the history, as for ``store_results``.
    """
    with Journal.open(folder) as journal:
        ended = [record for record in journal.records if isinstance(record, Ended)]
        directories = [folder / item.attempt.directory for item in ended if item.attempt.result]
        notes, trouble = store_results(url, directories, sleep)
        if trouble is None:
            for document in documents([folder]):
                store_verdict(url, document)
            journal.add(Stored(utc()))
            notes = [f"added the results of {folder.name} to the history", *notes]
    return notes, trouble


def store_results(
    url: StoreAddress, directories: Sequence[Path], sleep: Callable[[float], None]
) -> tuple[list[str], Trouble | None]:
    """Add run directories to the history; skip results that it has already.

    Args:
        url: URL or path of the history.
        directories: Run directories with a result.
        sleep: Waits for a number of seconds.

    Returns:
        A note for each result that cannot be added, and the trouble with the history itself; None
        if all other results were added.
    """
    for turn in range(_TRIES):
        try:
            return add_results(url, directories), None
        except InfrastructureError as error:
            failure: HarnessError = error
        except HarnessError as error:
            failure = error
            break
        if turn + 1 < _TRIES:
            sleep(_WAIT_S * (turn + 1))
    message = f"{len(directories)} results were not all added to the history: {failure.message}"
    hint = f"{failure.hint}; " if failure.hint else ""
    later = "the next `etharness nightly` with this plan adds them, or `etharness history add` now"
    owner = Owner.TEST if failure.owner is Owner.TEST else Owner.HOST
    return [], Trouble(owner=owner, message=message, hint=f"{hint}{later}")


def store_verdict(url: StoreAddress, document: NightDocument) -> None:
    """Record the verdict of a nightly run in the history, which sites are made of.

    Raises:
        HarnessError: The history cannot be opened or written.
    """
    with open_store(url, deadline_s=HISTORY_OPEN_S) as store:
        store.record_night(document.verdict)


def _before(directory: Path, name: str) -> list[Path]:
    of_it = nights(directory.parent, name)
    return [folder for folder in of_it if folder.name < directory.name][-_MOST_NIGHTS:]
