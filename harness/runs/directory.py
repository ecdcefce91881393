"""Run directory: everything needed to look at a run again, without the board.

result.json      what ran, what was measured, how it ended (schema/result.schema.json)
trace.etlog      the device's own log, lossless; absent when ExecuTorch itself traced
trace.partial    the beginning of the log, when the link broke while it was read
trace.etdp       the same as ED00, size-prefixed, as ExecuTorch writes it, or as it wrote it
debug_buffer.bin bytes of logged tensors, which trace.etlog and trace.etdp refer to
inputs/N.npy     what was fed
outputs/N.npy    what came out of the last execution
reference/N.npy  what should have, if somebody said so
console.log      text the board printed, of much text the head and the tail
history.json     earlier results that the run was judged by, if it was
flash.json       how the firmware was brought onto the board, if the run did that
                 (schema/flash.schema.json); flash.log is what the tool printed, head and tail
postmortem.json  when the board crashed in the run: what it was doing; postmortem.bin as it sent it,
                 and trace.etlog is the log up to the crash
earlier_*        the same of a crash before the run, which the run has made the board forget

``result.json`` is written last and records length and SHA-256 of every other file but ``flash.*``,
on which no verdict rests, and of itself. Whoever loads a run directory has them verified first.
"""

from __future__ import annotations

import hashlib
import logging
from collections.abc import Collection, Iterator, Mapping
from fractions import Fraction
from pathlib import Path, PurePosixPath
from typing import TYPE_CHECKING, Final

import msgspec
from msgspec.structs import replace

from harness.errors import DamagedError, UsageError
from harness.records.clock_domain import ClockDomain
from harness.records.flash_record import FLASH, FLASH_LOG
from harness.records.result import (
    RESTORE,
    ClockRecord,
    FileRecord,
    Result,
    decode,
    digest_of,
    encode,
)

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
POSTMORTEM = "postmortem.json"
POSTMORTEM_IMAGE = "postmortem.bin"
EARLIER_POSTMORTEM = "earlier_postmortem.json"
EARLIER_POSTMORTEM_IMAGE = "earlier_postmortem.bin"
_FILES = (
    *(RESULT, LOG, PARTIAL, ETDUMP, DEBUG_BUFFER, CONSOLE, HISTORY, POSTMORTEM),
    *(POSTMORTEM_IMAGE, EARLIER_POSTMORTEM, EARLIER_POSTMORTEM_IMAGE, FLASH, FLASH_LOG),
)

_TENSORS = ("inputs", "outputs", "reference")
"""Folders of tensors; the last one is there only when there are references."""

_UNRECORDED: Final = (RESULT, FLASH, FLASH_LOG)
"""Files that a result does not record: itself, and what another flashing may replace."""

_LOADED: Final = (LOG, ETDUMP, DEBUG_BUFFER, HISTORY, POSTMORTEM, POSTMORTEM_IMAGE)
"""Files that are read wherever they are, so one that the result does not record is an error."""


class RunDirectory:
    """A run directory, for writing a new one or reading one back."""

    def __init__(self, path: Path) -> None:
        self.path = path

    @classmethod
    def create(cls, path: Path) -> RunDirectory:
        """Make ``path`` an empty run directory.

        Files of an earlier run in it are removed; everything else in it is left alone.

        Raises:
            UsageError: ``path`` is a file, or holds files by the names of a run's that no run made.
        """
        if path.exists() and not path.is_dir():
            raise UsageError(f"{path} is a file, not a directory")
        earlier = [path / name for name in cls(path).files()]
        if earlier and not (path / RESULT).is_file():
            names = ", ".join(str(file.relative_to(path)) for file in earlier)
            raise UsageError(
                f"{path} holds {names}, which a run would replace, but it is no run directory",
                hint="name another directory with -o",
            )
        for file in earlier:
            file.unlink()
        for sub in _TENSORS[:2]:
            (path / sub).mkdir(parents=True, exist_ok=True)
        return cls(path)

    def write(self, name: str, data: bytes) -> None:
        """Write a file so that it is there whole or not at all."""
        partial = self.path / f".{name}.partial"
        try:
            partial.write_bytes(data)
        except OSError:
            # Half a file is of no use, and takes room from those that are.
            partial.unlink(missing_ok=True)
            raise
        partial.rename(self.path / name)

    def write_tensor(self, name: str, array: np.ndarray) -> str:
        """Write an array and return its name relative to the directory."""
        import numpy as np

        (self.path / name).parent.mkdir(exist_ok=True)
        np.save(self.path / name, array)
        return name

    def write_result(self, result: Result) -> Result:
        """Write ``result.json``, and return it with its digest if it records files."""
        if result.files is not None:
            result = replace(result, digest=digest_of(encode(result)))
        self.write(RESULT, encode(result))
        return result

    def finish(self, result: Result) -> Result:
        """Write ``result.json``, the last file of a run, and return it as written.

        It records all other files, as they are now.
        """
        names = (name for name in self.files() if name not in _UNRECORDED)
        return self.write_result(
            replace(result, files={name: self._record(name) for name in names})
        )

    def write_late(self, name: str, data: bytes) -> None:
        """Write a file into a run directory that may be finished, and have its result record it."""
        result = self.read_result() if self.is_one else None
        if result is None or result.files is None:
            self.write(name, data)
            return
        others = {other: record for other, record in result.files.items() if other != name}
        # Cut off on the way, this leaves a file that is not recorded, which can be removed; not one
        # recorded with the digest of another.
        self._write_files(others)
        self.write(name, data)
        self._write_files({**others, name: self._record(name)})

    def _write_files(self, files: Mapping[str, FileRecord]) -> None:
        """Replace the records of files in ``result.json``; fields of later versions stay."""
        document = msgspec.json.decode((self.path / RESULT).read_bytes())
        document["files"] = dict(files)
        self.write(RESULT, encode({**document, "digest": digest_of(encode(document))}))

    def files(self) -> list[str]:
        """Names of all that a run wrote into it, and of nothing else that is there."""
        names = [name for name in _FILES if (self.path / name).is_file()]
        for folder in _TENSORS:
            found = sorted((self.path / folder).glob("*.npy"))
            names += [f"{folder}/{file.name}" for file in found if file.is_file()]
        return names

    @property
    def is_one(self) -> bool:
        """Whether a run made it."""
        return (self.path / RESULT).is_file()

    @property
    def trace_file(self) -> Path | None:
        """The file that says most of the trace; None when the run did not get that far."""
        files = (self.path / name for name in (LOG, ETDUMP))
        return next((file for file in files if file.is_file()), None)

    def read_result(self) -> Result:
        """Read ``result.json`` alone. What other files say counts only after ``load_result``.

        Raises:
            UsageError: It is missing or not a result of this version.
            DamagedError: It is not as it was written.
        """
        return _sound(self.examine(()))

    def load_result(self) -> Result:
        """Read ``result.json``, and verify every file that it records.

        Raises:
            UsageError: It is missing or not a result of this version.
            DamagedError: A file is not as the run left it.
        """
        return _sound(self.examine())

    def examine(self, names: Collection[str] | None = None) -> tuple[Result, DamagedError | None]:
        """Read ``result.json``, and compare files with what it records: their length and SHA-256.

        Args:
            names: Files to compare, besides ``result.json``; None for all.

        Returns:
            The result, and what is wrong with these files, None if nothing is.

        Raises:
            UsageError: ``result.json`` is missing or not a result of this version.
        """
        path = self.path / RESULT
        if not self.is_one:
            raise UsageError(
                f"{self.path} is no run directory: it has no {RESULT}",
                hint="`etharness run -o DIRECTORY` makes one",
            )
        data = path.read_bytes()
        result = decode(data, str(path))
        found = [*_defects_of_result(result, data), *self._defects(result, names)]
        if not found:
            return result, None
        (name, what, hint), *more = found
        also = f"; damaged, too: {', '.join(other for other, _, _ in more)}" if more else ""
        return result, DamagedError(f"{self.path / name}: damaged: {what}{also}", hint=hint)

    def _defects(
        self, result: Result, names: Collection[str] | None
    ) -> Iterator[tuple[str, str, str]]:
        """Yield name, defect and remedy of every file that is not as it is recorded."""
        recorded = self._recorded(result)
        for name, record in recorded:
            if names is not None and name not in names:
                continue
            if not _is_of_a_run(name):
                yield RESULT, f"it records {name!r}, which is not a file of a run", RESTORE
            elif not (self.path / name).is_file():
                yield name, f"the file is missing, {RESULT} records it", RESTORE
            elif what := _difference(self._record(name), record):
                yield name, what, RESTORE
        if result.files is None:
            if names != () and not result.unfinished:
                what = f"only {recorded[0][0]} is verified" if recorded else "none is verified"
                _log.warning("%s records no digests of its files: %s", self.path / RESULT, what)
            return
        for name in _LOADED if names is None else names:
            if name in _LOADED and name not in result.files and (self.path / name).is_file():
                yield name, f"{RESULT} does not record this file", "remove it, or run again"

    def _recorded(self, result: Result) -> list[tuple[str, FileRecord]]:
        """What a result records of files; of the log it has always been recorded."""
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
    """How a file differs from what is recorded of it, or ""."""
    if found.nbytes != recorded.nbytes:
        return f"it has {found.nbytes:,} bytes, {RESULT} records {recorded.nbytes:,}"
    if found.sha256 != recorded.sha256:
        return f"sha256 is {found.sha256}, {RESULT} records {recorded.sha256}"
    return ""


def _is_of_a_run(name: str) -> bool:
    """Whether a run writes files by that name, so that no other file is read because of it."""
    folder, *rest = PurePosixPath(name).parts or ("",)
    return name in _FILES or (folder in _TENSORS and len(rest) == 1 and rest[0] != "..")


def to_clock_domain(clock: ClockRecord) -> ClockDomain:
    """Return the clock domain that a result recorded."""
    hz = Fraction(clock.hz_numerator, clock.hz_denominator) if clock.hz_numerator else None
    return ClockDomain(clock.name, hz, clock.bits, clock.down)


def from_clock_domain(domain: ClockDomain) -> ClockRecord:
    """Return what a result records of a clock domain."""
    hz = domain.hz or Fraction(0)
    return ClockRecord(domain.name, domain.bits, domain.down, hz.numerator, hz.denominator)
