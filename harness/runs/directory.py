"""Run directory: all files of a run, enough to examine it without the board.

result.json      model, measurements, outcome (schema/result.schema.json)
trace.etlog      the device's own log, lossless; absent when ExecuTorch itself traced
trace.partial    the beginning of the log, if the link failed during its transfer
trace.etdp       the log as ED00, size-prefixed, as ExecuTorch writes it; or ExecuTorch's own file
debug_buffer.bin bytes of logged tensors, which trace.etlog and trace.etdp refer to
test_sets/*      run directories of the test sets of a bundled program; the directory around them
                 then has the verdict of all, but neither trace nor tensors
repeats/*        run directories of further runs of the session that were asked for (--repeat)
again/*          run directories of runs that looked again at a suspect change, with its model or
                 the baseline's (``role`` of their results): no results of a history
inputs/N.npy     inputs of the model
outputs/N.npy    outputs of the last execution
reference/N.npy  expected outputs, if given
steps/STEP/*     inputs, outputs and reference of each step, if the run was of a sequence
used_budget/*    the budget file that judged the run, and those that it extends
power.samples    samples of the current and of the marker pin, if a meter recorded them
console.log      the board's console output; head and tail if it is long
history.json     the history that the run was compared with, if any
check.json       the verdict of the latest check against a history after the run, if any
flash.json       record of flashing, if the run flashed the board (schema/flash.schema.json);
                 flash.log is the output of the tool, head and tail
postmortem.json  postmortem of a crash during the run; postmortem.bin is its raw form, and
                 trace.etlog the log up to the crash
earlier_*        postmortem of a crash before the run, which the run removed from the board

``result.json`` is written last. It records length and SHA-256 of every other file and a digest of
itself, except for ``flash.*``, on which no verdict depends. Loading a run directory verifies them.
"""

from __future__ import annotations

import hashlib
import io
import logging
from collections.abc import Collection, Iterator, Mapping
from contextlib import suppress
from fractions import Fraction
from pathlib import Path, PurePosixPath
from typing import TYPE_CHECKING, Final

import msgspec
from msgspec.structs import replace

from harness.analyze.memory import AllocatorTotals
from harness.check.history.samples import History, decode_history, encode_history
from harness.errors import DamagedError, FormatError, UsageError, write_error
from harness.files import MOST_DOCUMENT, decode_json, read_limited, write_atomic
from harness.records.flashing import FLASH, FLASH_LOG
from harness.records.result import (
    RESTORE,
    ClockRecord,
    FileRecord,
    Result,
    VerdictRecord,
    contradiction,
    decode,
    digest_of,
    encode,
)
from harness.records.trace import ClockDomain, Losses

if TYPE_CHECKING:
    import numpy as np

_log = logging.getLogger(__name__)

RESULT = "result.json"
LOG = "trace.etlog"
PARTIAL = "trace.partial"
ETDUMP = "trace.etdp"
DEBUG_BUFFER = "debug_buffer.bin"
CONSOLE = "console.log"
HISTORY = "history.json"
CHECK = "check.json"
POSTMORTEM = "postmortem.json"
POSTMORTEM_IMAGE = "postmortem.bin"
EARLIER_POSTMORTEM = "earlier_postmortem.json"
EARLIER_POSTMORTEM_IMAGE = "earlier_postmortem.bin"
POWER = "power.samples"
TEST_SETS: Final = "test_sets"
REPEATS: Final = "repeats"
AGAIN: Final = "again"
USED_BUDGET: Final = "used_budget"
STEPS: Final = "steps"
SAMPLES: Final = "samples.npz"
_FILES = (
    *(RESULT, LOG, PARTIAL, ETDUMP, DEBUG_BUFFER, CONSOLE, HISTORY, CHECK, POSTMORTEM),
    *(
        POWER,
        SAMPLES,
        POSTMORTEM_IMAGE,
        EARLIER_POSTMORTEM,
        EARLIER_POSTMORTEM_IMAGE,
        FLASH,
        FLASH_LOG,
    ),
)

_TENSORS = ("inputs", "outputs", "reference")
"""Folders of tensors; the last one exists only with references."""

_TREES: Final = (USED_BUDGET, STEPS)
"""Folders with folders."""

_UNRECORDED: Final = (RESULT, FLASH, FLASH_LOG)
"""Files that a result does not record: itself, and files that a later flash replaces."""

_LOADED: Final = (LOG, ETDUMP, DEBUG_BUFFER, HISTORY, CHECK, POSTMORTEM, POSTMORTEM_IMAGE)
"""Files that are read if they exist, so one that the result does not record is an error."""


class EventDocument(msgspec.Struct, frozen=True):
    """A profile event in raw ticks.

    Attributes:
        name: Its name; null if it has none, or the name is not in the log.
        delegate: Integer delegate id, -1 for none.
        chain: Chain index, -1 unset.
        instruction: Instruction id.
        start: Tick of clock 0 at its start.
        end: Tick at its end; null for an open event.
    """

    name: str | None
    delegate: int
    chain: int
    instruction: int
    start: int
    end: int | None


class PostmortemDocument(msgspec.Struct, frozen=True):
    """Output of ``etharness postmortem --json``, and ``postmortem.json`` in a run directory.

    ``stack_used`` and ``stack_size`` are bytes, 0 if unknown. ``registers`` are core registers by
    name; ``places`` has the function and line of some. ``losses`` is null if the log is unreadable;
    ``damage`` lists invalid data.
    """

    message: str
    cause: str
    running: bool
    run_id: int
    execution: int
    executions: int
    build_id: str
    registers: dict[str, int]
    places: dict[str, str]
    open: tuple[EventDocument, ...]
    last_events: tuple[EventDocument, ...]
    allocators: list[AllocatorTotals]
    losses: Losses | None
    stack_used: int
    stack_size: int
    reset_reasons: tuple[str, ...]
    resets: int
    later_faults: int
    damage: tuple[str, ...]


class RunDirectory:
    """A run directory, new or existing."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self.tensors: dict[str, np.ndarray] = {}
        """Tensors that were written, by name."""
        self._written: dict[str, FileRecord] = {}
        self._read: tuple[bytes, Result] | None = None

    @classmethod
    def create(cls, path: Path) -> RunDirectory:
        """Make ``path`` an empty run directory.

        Files of an earlier run in it are removed; other files are kept.

        Raises:
            UsageError: ``path`` is a file, cannot be made, or is not a run directory but has files
                with the names of a run's files, or one of its folders is a symbolic link.
        """
        if path.exists() and not path.is_dir():
            raise UsageError(f"{path} is a file, not a directory")
        # What is in a folder of a run is deleted and written, so it must not be somebody's.
        for folder in (path / name for name in (*_TENSORS, TEST_SETS, REPEATS, AGAIN, *_TREES)):
            if folder.is_symlink():
                raise UsageError(
                    f"{folder} is a symbolic link, and a run deletes and writes files in it",
                    hint="remove the link, or name another directory with -o",
                )
        earlier = [path / name for name in _names(path, links=True)]
        if earlier and not (path / RESULT).is_file():
            names = ", ".join(str(file.relative_to(path)) for file in earlier)
            raise UsageError(
                f"{path} is not a run directory, but has files that a run would replace: {names}",
                hint="name another directory with -o",
            )
        for file in earlier:
            file.unlink()
        for name in (TEST_SETS, REPEATS, AGAIN):
            for result in (path / name).glob(f"*/{RESULT}"):
                _remove_run(result.parent)
        try:
            for sub in _TENSORS[:2]:
                (path / sub).mkdir(parents=True, exist_ok=True)
        except OSError as error:
            raise write_error(error, f"cannot make the run directory {path}") from error
        return cls(path)

    def write(self, name: str, data: bytes) -> FileRecord:
        """Write a file atomically, and return its record for the result."""
        write_atomic(self.path / name, data)
        record = FileRecord(len(data), hashlib.sha256(data).hexdigest())
        self._written[name] = record
        self._read = None
        return record

    def write_tensor(self, name: str, array: np.ndarray) -> str:
        """Write an array and return its name relative to the directory."""
        import numpy as np

        (self.path / name).parent.mkdir(exist_ok=True, parents=True)
        with io.BytesIO() as file:
            np.save(file, array)
            self.write(name, file.getvalue())
        self.tensors[name] = array
        return name

    def write_result(self, result: Result) -> Result:
        """Write ``result.json``; return the result, with its digest if it records files."""
        if result.files is not None:
            result = replace(result, digest=digest_of(encode(result)))
        self.write(RESULT, encode(result))
        return result

    def finish(self, result: Result) -> Result:
        """Write ``result.json`` with a record of all other files; return the result as written."""
        names = (name for name in self.files() if name not in _UNRECORDED)
        files = {name: self._written.get(name) or self._record(name) for name in names}
        return self.write_result(replace(result, files=files))

    def write_late(self, name: str, data: bytes) -> None:
        """Write a file into a run directory, and record it in the result if that is finished."""
        result = self.read_result() if self.is_one else None
        if result is None or result.files is None:
            self.write(name, data)
            return
        others = {other: record for other, record in result.files.items() if other != name}
        # If this is interrupted, the file is unrecorded and can be removed; it is never recorded
        # with a wrong digest.
        self._write_files(others)
        self._write_files({**others, name: self.write(name, data)})

    def _write_files(self, files: Mapping[str, FileRecord]) -> None:
        """Replace the records of files in ``result.json``; fields of later versions stay."""
        document = decode_json(_document(self.path / RESULT))
        document["files"] = dict(files)
        self.write(RESULT, encode({**document, "digest": digest_of(encode(document))}))

    def files(self) -> list[str]:
        """Return the names of the files that a run wrote, and of no others."""
        return _names(self.path, links=False)

    @property
    def is_one(self) -> bool:
        """Whether it is a run directory."""
        return (self.path / RESULT).is_file()

    @property
    def trace_file(self) -> Path | None:
        """The most complete file of the trace; None if the run has no trace."""
        files = (self.path / name for name in (LOG, ETDUMP))
        return next((file for file in files if file.is_file()), None)

    def read_result(self) -> Result:
        """Read ``result.json`` alone; ``load_result`` also verifies the other files.

        Raises:
            UsageError: It is missing or not a result of this version.
            DamagedError: It is damaged.
        """
        return _sound(self.examine(()))

    def load_result(self) -> Result:
        """Read ``result.json``, and verify every file that it records.

        Raises:
            UsageError: It is missing or not a result of this version.
            DamagedError: A file is damaged.
        """
        return _sound(self.examine())

    def examine(self, names: Collection[str] | None = None) -> tuple[Result, DamagedError | None]:
        """Read ``result.json`` once, and verify length and SHA-256 of the files that it records.

        Args:
            names: Files to verify, besides ``result.json``; None for all.

        Returns:
            The result, and an error for the damaged files; None if all are intact.

        Raises:
            UsageError: ``result.json`` is missing or not a result of this version.
        """
        path = self.path / RESULT
        if not self.is_one:
            raise UsageError(
                f"{self.path} is not a run directory: it has no {RESULT}",
                hint="create one with `etharness run -o DIRECTORY`",
            )
        if self._read is None:
            data = _document(path)
            self._read = data, decode(data, str(path))
        data, result = self._read
        defects = [*_defects_of_result(result, data), *self._defects(result, names)]
        if not defects and (contrary := contradiction(result)):
            defects = [(RESULT, contrary, RESTORE)]
        if not defects:
            return result, None
        (name, defect, hint), *more = defects
        also = f"; also damaged: {', '.join(other for other, _, _ in more)}" if more else ""
        return result, DamagedError(f"{self.path / name}: damaged: {defect}{also}", hint=hint)

    def _defects(
        self, result: Result, names: Collection[str] | None
    ) -> Iterator[tuple[str, str, str]]:
        """Yield name, defect and hint of every file that differs from its record."""
        recorded = self._recorded(result)
        for name, record in recorded:
            if not is_of_a_run(name):
                yield RESULT, f"it records {name!r}, which is not a file of a run", RESTORE
            elif names is not None and name not in names:
                continue
            elif not (self.path / name).is_file():
                yield name, f"the file is missing, {RESULT} records it", RESTORE
            elif defect := _difference(self._record(name), record):
                yield name, defect, RESTORE
        if result.files is None:
            if names != () and not result.unfinished:
                extent = f"only {recorded[0][0]} is verified" if recorded else "none is verified"
                _log.warning("%s records no digests of its files: %s", self.path / RESULT, extent)
            return
        for name in _LOADED if names is None else names:
            if name in _LOADED and name not in result.files and (self.path / name).is_file():
                yield name, f"{RESULT} does not record this file", "remove it, or run again"

    def _recorded(self, result: Result) -> list[tuple[str, FileRecord]]:
        """Return the recorded files; the log is recorded in every version of results."""
        recorded = list((result.files or {}).items())
        if (trace := result.trace) is not None:
            known = (self.path / LOG).is_file() if result.files is None else LOG in result.files
            log = (LOG if known else ETDUMP, FileRecord(trace.log_bytes, trace.sha256))
            recorded += [] if log in recorded else [log]
        return recorded

    def _record(self, name: str) -> FileRecord:
        with (self.path / name).open("rb") as file:
            digest = hashlib.file_digest(file, "sha256").hexdigest()
            return FileRecord(file.tell(), digest)


def _names(path: Path, *, links: bool) -> list[str]:
    """Return the names of the files that a run wrote.

    With ``links``, also of symbolic links: writing through a dangling one makes a file.
    """
    exists = (lambda file: file.is_file() or file.is_symlink()) if links else Path.is_file
    names = [name for name in _FILES if exists(path / name)]
    for folder in _TENSORS:
        tensors = sorted((path / folder).glob("*.npy"))
        names += [f"{folder}/{file.name}" for file in tensors if exists(file)]
    below = sorted(file for tree in _TREES for file in (path / tree).rglob("*"))
    return names + [file.relative_to(path).as_posix() for file in below if exists(file)]


def _document(path: Path) -> bytes:
    return read_limited(path, MOST_DOCUMENT)


def _remove_run(path: Path) -> None:
    """Remove the files of a run, and its folders if nothing else is in them."""
    for name in _names(path, links=True):
        (path / name).unlink()
    below = sorted((each for tree in _TREES for each in (path / tree).rglob("*")), reverse=True)
    trees = (path / tree for tree in _TREES)
    for folder in (*(path / name for name in _TENSORS), *below, *trees, path):
        with suppress(OSError):  # absent, or not empty
            folder.rmdir()


def _sound(examined: tuple[Result, DamagedError | None]) -> Result:
    result, damaged = examined
    if damaged is not None:
        raise damaged
    return result


def _defects_of_result(result: Result, data: bytes) -> Iterator[tuple[str, str, str]]:
    if result.files is None and not result.digest:
        return
    digest = digest_of(data)
    if digest != result.digest:
        yield RESULT, f"its digest is {digest}, it records {result.digest or 'none'}", RESTORE


def _difference(found: FileRecord, recorded: FileRecord) -> str:
    """Return how a file differs from its record; "" if it does not."""
    if found.nbytes != recorded.nbytes:
        return f"it has {found.nbytes:,} bytes, {RESULT} records {recorded.nbytes:,}"
    if found.sha256 != recorded.sha256:
        return f"sha256 is {found.sha256}, {RESULT} records {recorded.sha256}"
    return ""


def is_of_a_run(name: str) -> bool:
    """Whether a run writes files of that name: a result must not name files elsewhere."""
    folder, *rest = PurePosixPath(name).parts or ("",)
    if folder in _TREES:
        return bool(rest) and ".." not in rest
    return name in _FILES or (folder in _TENSORS and len(rest) == 1 and rest[0] != "..")


def to_clock_domain(clock: ClockRecord) -> ClockDomain:
    """Return the clock domain that a result recorded."""
    hz = Fraction(clock.hz_numerator, clock.hz_denominator) or None
    steadiness = clock.tolerance_ppm, clock.wander_ppm
    return ClockDomain(clock.name, hz, clock.bits, clock.down, clock.monotonic, *steadiness)


def recorded_clocks(result: Result | None) -> list[ClockDomain]:
    """Return the clock domains of the target of a run; empty if they are unknown."""
    target = result.target if result is not None else None
    return [to_clock_domain(clock) for clock in target.clocks] if target is not None else []


def from_clock_domain(domain: ClockDomain) -> ClockRecord:
    """Return the record of a clock domain."""
    return ClockRecord(
        *(domain.name, domain.bits, domain.down, *domain.rate),
        monotonic=domain.monotonic,
        tolerance_ppm=domain.tolerance_ppm,
        wander_ppm=domain.wander_ppm,
    )


def save_history(directory: Path, history: History) -> None:
    """Save the history that a run was compared with, for later evaluations of the same run."""
    RunDirectory(directory).write_late(HISTORY, encode_history(history))


def load_history(directory: Path) -> History | None:
    """Return the history that a run was compared with; None without one.

    Raises:
        FormatError: The file is not a history.
    """
    file = directory / HISTORY
    if not file.is_file():
        return None
    return decode_history(_document(file), str(file))


def save_verdict(directory: Path, verdict: VerdictRecord) -> None:
    """Save a verdict that was given after the run, for the history."""
    RunDirectory(directory).write_late(CHECK, encode(verdict))


def later_verdict(run: RunDirectory) -> VerdictRecord | None:
    """Return the latest verdict that was given after the run; None if there is none.

    Raises:
        DamagedError: The file of the check is damaged.
        FormatError: It is not a verdict.
    """
    file = run.path / CHECK
    if not file.is_file():
        return None
    run.load_result()
    try:
        return decode_json(_document(file), type_=VerdictRecord)
    except msgspec.DecodeError as error:
        raise FormatError(f"{file}: invalid verdict: {error}") from error
