"""Bundles: archives of evaluated runs with all inputs of their verdicts; packed and replayed.

README.txt       how to replay it
manifest.json    list of files with digests, and the options of the evaluation
                 (schema/bundle.schema.json)
verdict.json     the verdict (schema/replay.schema.json)
run/             the run directory; or trace/, a trace without one
budget/          the budget file and those that it extends
model/, etrecord/, debug/, history/, board/, firmware/  further files, where available

The archive is a reproducible zip file. Its comment is the SHA-256 of all bytes before it, so that
any change is detected. Size limits are checked before anything is unpacked.
"""

from __future__ import annotations

import contextlib
import difflib
import hashlib
import io
import logging
import platform
import re
import zipfile
import zlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import date
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path, PurePosixPath
from typing import Annotated, Any, Final, Literal

import msgspec

from harness import __version__
from harness.check.budget import read_files
from harness.check.evaluate import DEFAULT_BUDGET
from harness.check.history.samples import decode_history, encode_history
from harness.config.board import Board, load_board
from harness.decode.pte import program_that_ran
from harness.errors import FormatError, UsageError
from harness.files import MOST_DOCUMENT, decode_json, read_limited
from harness.plugins import POSTMORTEMS, load_extension
from harness.records.nightly import NightDocument
from harness.records.result import ClockRecord, VerdictRecord, encode
from harness.runs.directory import (
    POSTMORTEM_IMAGE,
    USED_BUDGET,
    PostmortemDocument,
    RunDirectory,
    from_clock_domain,
    recorded_clocks,
    to_clock_domain,
)
from harness.runs.evaluation import budget_file, evaluate_path, pack_budget
from harness.runs.source import EvaluatedRun, ReadOptions, verdict_record
from harness.target.build import built_image
from harness.target.doctor import find_programs

_log = logging.getLogger(__name__)

_MOST_MANIFEST: Final = 16 << 20
"""Largest size of a manifest, bytes; one of 10,000 files has 2 MB."""

MANIFEST: Final = "manifest.json"

VERDICT_FILE: Final = "verdict.json"

README: Final = "README.txt"

RUN: Final = "run"

MOST_BYTES: Final = 1 << 30
"""Largest total size of the files of an archive, bytes."""

MOST_FILES: Final = 10_000

_BEGINNING: Final = (1980, 1, 1, 0, 0, 0)
"""Timestamp of all files, the earliest of the format: archives of equal files are equal."""

_COMMENT: Final = re.compile(rb"sha256:([0-9a-f]{64})")
_COMMENT_SIZE: Final = 71
_LENGTH_SIZE: Final = 2
"""Size of the comment's length field, which precedes it."""

_AGAIN: Final = "copy it again from its origin"

_BROKEN: Final = (
    *(zipfile.BadZipFile, zipfile.LargeZipFile, zlib.error, NotImplementedError, RuntimeError),
    *(EOFError, OSError, ValueError, OverflowError),
)
"""Exceptions of ``zipfile`` for invalid files."""


_README_TEXT: Final = """A run of etdump-harness with all inputs of its verdict.

    pip install etdump-harness=={version}
    etharness replay {this}

verifies every digest, decodes the trace, evaluates it again and compares the verdict with the
recorded one, byte for byte. `etharness replay {this} --out DIRECTORY` also unpacks it; then
`etharness decode DIRECTORY/{evaluated}` shows the trace.

{contents}{missing}"""


def pack(files: Mapping[str, bytes]) -> bytes:
    """Return an archive of files, sorted by name.

    Raises:
        UsageError: There are too many files, they are too large, or a name is not portable.
    """
    total = sum(map(len, files.values()))
    if total > MOST_BYTES or len(files) > MOST_FILES:
        raise UsageError(f"{len(files)} files of {total:,} bytes exceed the limits of an archive")
    packed = io.BytesIO()
    with zipfile.ZipFile(packed, "w", zipfile.ZIP_DEFLATED, compresslevel=6) as archive:
        for name in sorted(files):
            if problem := _problem(name):
                raise UsageError(f"cannot archive {name!r}: the name {problem}")
            info = zipfile.ZipInfo(name, _BEGINNING)
            info.compress_type = zipfile.ZIP_DEFLATED
            info.create_system = 3  # Unix, whatever the host
            info.external_attr = 0o100644 << 16
            archive.writestr(info, files[name])
    body = packed.getvalue()
    comment = b"sha256:" + hashlib.sha256(body).hexdigest().encode()
    return body[:-_LENGTH_SIZE] + len(comment).to_bytes(_LENGTH_SIZE, "little") + comment


class Archive:
    """The files of an archive whose digest is right.

    Nothing is unpacked before it is asked for, so that a reader can look at the manifest first.
    """

    def __init__(self, data: bytes, where: str) -> None:
        """Look at the names and sizes of the files.

        Args:
            data: The archive.
            where: Its name, for messages.

        Raises:
            FormatError: The data is not an archive of this package, is damaged, or too large.
        """
        self._where = where
        unsound = _unsound(data)
        try:
            self._zip = zipfile.ZipFile(io.BytesIO(data))
        except _BROKEN as error:
            raise FormatError(
                f"{where} is not a bundle, or its end is damaged: {error}", hint=_AGAIN
            ) from error
        if unsound:
            raise FormatError(f"{where} {unsound}", hint=_AGAIN)
        members = self._zip.infolist()
        total = sum(member.file_size for member in members)
        if total > MOST_BYTES or len(members) > MOST_FILES:
            raise FormatError(
                f"{where} would unpack to {len(members):,} files of {total:,} bytes: "
                f"the limits are {MOST_FILES:,} files and {MOST_BYTES:,} bytes"
            )
        self.sizes: dict[str, int] = {}
        """Size of each file, bytes."""
        for member in members:
            name = member.filename
            problem = "is duplicated" if name in self.sizes else _problem(name)
            if problem:
                raise FormatError(
                    f"{where} contains {name!r}, which {problem}: nothing was unpacked"
                )
            self.sizes[name] = member.file_size

    def read(self, name: str) -> bytes:
        """Unpack one of the files; its size is as announced.

        Raises:
            FormatError: It is damaged.
        """
        try:
            return self._zip.read(name)
        except _BROKEN as error:
            raise FormatError(f"{self._where}: {name} is damaged: {error}", hint=_AGAIN) from error


def _unsound(data: bytes) -> str:
    """Return the problem with the digest of an archive; "" if it is correct."""
    comment = _COMMENT.fullmatch(data[-_COMMENT_SIZE:])
    length = data[-_COMMENT_SIZE - _LENGTH_SIZE : -_COMMENT_SIZE]
    # The digest covers a length field of zero, so the actual length is checked separately.
    if comment is None or int.from_bytes(length, "little") != _COMMENT_SIZE:
        return "does not end with its digest: it was not made by etharness, or is damaged"
    body = data[: -_COMMENT_SIZE - _LENGTH_SIZE] + bytes(_LENGTH_SIZE)
    if hashlib.sha256(body).hexdigest().encode() != comment[1]:
        return "is damaged: its SHA-256 does not match the digest at its end"
    return ""


def _problem(name: str) -> str:
    """Return the problem with a name; "" if it is portable."""
    if not name or not name.isprintable() or "\\" in name or ":" in name:
        return "has characters that are not portable"
    path = PurePosixPath(name)
    if path.is_absolute() or ".." in path.parts or str(path) != name:
        return "points outside the archive or is not normalized"
    return ""


class BundleVerdict(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """The document of ``etharness replay --json``, and ``verdict.json`` of a bundle.

    Attributes:
        exit_code: Exit code of the run, or of its check.
        failure: Class of the run's failure; "" if it completed.
        verdict: The verdict; null for a run without a trace. Its budget is a file of the bundle.
        postmortem: The postmortem of a crash, without source locations, because these depend on
            the installed toolchain.
    """

    exit_code: int
    failure: str
    verdict: VerdictRecord | None
    postmortem: PostmortemDocument | None


class Packed(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """A file of a bundle."""

    name: str
    nbytes: int
    sha256: str


class Manifest(msgspec.Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """The manifest of a bundle: its files and the options of the evaluation.

    Files are named by their path in the bundle; "" stands for no file.

    Attributes:
        tool_version: Version of this package that evaluated the run.
        versions: Versions of other software on the host that wrote the bundle.
        evaluated: The run directory or the trace.
        budget: The budget file.
        etrecord: The ETRecord.
        debug_buffer: Bytes of logged tensors that were given in addition to the trace.
        history: The history, for a trace without a run directory.
        model: The model.
        firmware: The firmware image, if it was built on the host that wrote the bundle.
        clock: Clock of the trace, if it was given.
        clock_bits: Width of the counter, if it was given; null for that of the trace.
        dump: The dump that was chosen, from 1; null for all of the file.
        salvage: Whether damaged parts of the trace were left out.
        time_scales: Time scales of delegate events that were given.
        metadata: Layouts of their metadata that were given.
        day: Date for waivers that expire.
        board: Board for the rules, for a trace without a result.
        of_model: Model for the rules, for a trace without a result.
        missing: Files that could not be included, as messages.
        files: All files except this one, by name.
        schema: Version of this document.
    """

    tool_version: str
    versions: dict[str, str]
    evaluated: str
    budget: str = ""
    etrecord: str = ""
    debug_buffer: str = ""
    history: str = ""
    model: str = ""
    firmware: str = ""
    clock: ClockRecord | None = None
    clock_bits: Annotated[int, msgspec.Meta(ge=8, le=64)] | None = None
    dump: Annotated[int, msgspec.Meta(ge=1)] | None = None
    salvage: bool = False
    time_scales: dict[str, str] = {}
    metadata: dict[str, str] = {}
    day: str = ""
    board: str = ""
    of_model: str = ""
    missing: tuple[str, ...] = ()
    files: tuple[Packed, ...] = ()
    schema: Literal[1] = 1


class _Bundles:
    def __call__(self, runs: Sequence[EvaluatedRun], night: NightDocument | None = None) -> bytes:
        """Return the bundle of a run.

        Raises:
            UsageError: This is a night, there are several runs, or a file of the run is missing.
        """
        if night is not None:
            raise UsageError(
                "a bundle is of one run, not of a night",
                hint="`etharness report RUN_DIRECTORY -o x.zip` makes one of a run",
            )
        if len(runs) != 1:
            raise UsageError(
                f"a bundle contains one run, not {len(runs)}", hint="write a bundle for each run"
            )
        (run,) = runs
        if run.failure is not None and run.subject is None and run.directory is not None:
            # The run has just failed, and its files have not been evaluated.
            run = evaluate_path(run.directory, DEFAULT_BUDGET, run.given)
        contents = _Contents(run)
        contents.collect()
        return contents.packed()

    def load(self, file: Path, directory: Path) -> EvaluatedRun:
        """Unpack a bundle into a directory, and evaluate its run.

        Raises:
            UsageError: The file cannot be read, or ``directory`` is not empty or not writable.
            FormatError: The file is not a bundle, is damaged, or is of another version.
        """
        replayed = replay_bundle(file, directory)
        if not replayed.same:
            _log.warning("%s: this version reaches another verdict than was recorded", file)
        return replayed.run


BUNDLES: Final = _Bundles()
"""The plugin for reports with the suffix ``.zip``."""


def bundle_verdict(run: EvaluatedRun, budget: str) -> BundleVerdict:
    """Return the verdict of a run as a bundle records it.

    Args:
        run: The run.
        budget: Name of its budget file in the bundle.
    """
    verdict = None
    if run.subject is not None:
        verdict = msgspec.structs.replace(verdict_record(run), budget=budget, budget_copy="")
    kind = run.failure.kind if run.failure is not None else ""
    return BundleVerdict(run.exit_code, kind, verdict, _postmortem(run))


def _postmortem(run: EvaluatedRun) -> Any:
    """Return the postmortem decoded from the raw file of the run directory."""
    image = run.directory / POSTMORTEM_IMAGE if run.directory is not None else None
    if image is None or not image.is_file():
        return None
    crashes = load_extension(POSTMORTEMS, "device", "postmortems are", "postmortem")
    return crashes.examine(image.read_bytes(), recorded_clocks(run.result)).document


class _Contents:
    """Collects the files and facts of a bundle."""

    def __init__(self, run: EvaluatedRun) -> None:
        self._run = run
        self._files: dict[str, bytes] = {}
        self._missing: list[str] = []
        self._facts: dict[str, Any] = {}

    def collect(self) -> None:
        """Collect all files."""
        given = self._run.given
        self._facts["evaluated"] = self._evaluated()
        if (budget := budget_file(self._run)) is not None:
            self._facts["budget"] = self._budget(budget)
        if given.etrecord is not None:
            self._facts["etrecord"] = self._take("etrecord", given.etrecord)
        if given.debug_buffer is not None:
            self._facts["debug_buffer"] = self._take("debug", given.debug_buffer)
        history = self._run.history
        if history is not None and self._run.directory is None:  # a run directory has it
            self._facts["history"] = self._add("history", "history.json", encode_history(history))
        if given.clock is not None:
            self._facts["clock"] = from_clock_domain(given.clock)
        subject = self._run.subject
        if subject is not None and subject.day is not None:
            self._facts["day"] = subject.day.isoformat()
        self._facts |= {"clock_bits": given.clock_bits, "salvage": given.salvage}
        self._facts["dump"] = given.dump
        self._facts["time_scales"] = dict(given.time_scales)
        self._facts["metadata"] = dict(given.metadata)
        self._facts |= {"board": given.board, "of_model": given.model}
        self._model()
        self._facts["versions"] = _versions() | self._board()

    def packed(self) -> bytes:
        """Return the bundle."""
        self._files[VERDICT_FILE] = encode(bundle_verdict(self._run, self._facts.get("budget", "")))
        listed = "".join(f"{name}\n" for name in sorted([*self._files, MANIFEST, README]))
        missing = "".join(f"missing: {text}\n" for text in self._missing)
        self._files[README] = _README_TEXT.format(
            this="BUNDLE.zip",
            version=__version__,
            evaluated=self._facts["evaluated"],
            contents=listed,
            missing=missing,
        ).encode()
        entries = (
            Packed(name, len(data), hashlib.sha256(data).hexdigest())
            for name, data in sorted(self._files.items())
        )
        manifest = Manifest(
            tool_version=__version__,
            missing=tuple(self._missing),
            files=tuple(entries),
            **self._facts,
        )
        return pack({**self._files, MANIFEST: encode(manifest)})

    def _evaluated(self) -> str:
        """Add the run directory or the trace; return the name of the evaluated path."""
        path = Path(self._run.title)
        directory = self._run.directory
        if directory is None and self._run.result is not None:
            directory = path.parent  # a file of a run directory was evaluated
        if directory is None:
            return self._take("trace", path)
        for name in RunDirectory(directory).files():
            self._files[f"{RUN}/{name}"] = _read(directory / name)
        return RUN if self._run.directory is not None else f"{RUN}/{path.name}"

    def _budget(self, path: Path) -> str:
        """Add the budget file and those it extends; return its name in the bundle."""
        directory = self._run.directory
        if directory is not None and path.is_relative_to(directory):
            return f"{RUN}/{path.relative_to(directory).as_posix()}"
        name, files = pack_budget(read_files(path), "budget")
        self._files |= files
        return name

    def _model(self) -> None:
        model = self._run.result.model if self._run.result is not None else None
        if model is None:
            return
        path, data = Path(model.file), self._run.program
        if hashlib.sha256(data).hexdigest() != model.sha256:
            data = program_that_ran(model.file, model.data or (), model.sha256) or b""
        if data:
            self._facts["model"] = self._add("model", path.name, data)
        else:
            self._missing.append(f"the model {path.name}: moved or changed since the run")

    def _board(self) -> dict[str, str]:
        """Add the board file and the firmware; return the versions of the build tools."""
        result = self._run.result
        if result is None:
            return {}
        try:
            board, file = load_board(result.board)
        except UsageError:
            self._missing.append(f"the board file of {result.board}: not found by its name")
            return {}
        self._add("board", file.name, _read(file))
        self._firmware(board)
        return {item.tool: item.version for item in find_programs([board]) if item.version}

    def _firmware(self, board: Board) -> None:
        target = self._run.result.target if self._run.result is not None else None
        image = None if target is None else built_image(board, target.build_id)
        if image is not None:
            self._facts["firmware"] = self._add("firmware", image.name, _read(image))
        else:
            self._missing.append("the firmware: not built on this host, or another build")

    def _take(self, folder: str, path: Path) -> str:
        return self._add(folder, path.name, _read(path))

    def _add(self, folder: str, name: str, data: bytes) -> str:
        path = f"{folder}/{name}"
        self._files[path] = data
        return path


def _read(path: Path) -> bytes:
    try:
        return read_limited(path, MOST_BYTES)
    except OSError as error:
        raise UsageError(f"cannot bundle {path}: {error.strerror}") from error


def _versions() -> dict[str, str]:
    versions = {"python": platform.python_version(), "platform": platform.platform()}
    for name in ("msgspec", "numpy", "scipy", "ruptures"):
        with contextlib.suppress(PackageNotFoundError):  # the latter two are an extra
            versions[name] = version(name)
    return versions


_WHOLE: Final = "use the bundle as it was made"


@dataclass(frozen=True, slots=True)
class Replayed:
    """The outcome of a replay.

    Attributes:
        manifest: Manifest of the bundle.
        run: The run as evaluated now.
        verdict: The verdict of the replay.
        then: The recorded verdict, as JSON.
        now: The verdict of the replay, as JSON.
    """

    manifest: Manifest
    run: EvaluatedRun
    verdict: BundleVerdict
    then: bytes
    now: bytes

    @property
    def same(self) -> bool:
        """Whether both verdicts are equal, byte for byte."""
        return self.then == self.now

    def difference(self) -> str:
        """Return a unified diff of the two verdicts."""
        then, now = (data.decode(errors="replace").splitlines() for data in (self.then, self.now))
        names = f"verdict.json of {self.manifest.tool_version}", "now"
        return "\n".join(difflib.unified_diff(then, now, *names, lineterm="", n=2))


def open_bundle(file: Path) -> tuple[Manifest, dict[str, bytes]]:
    """Read a bundle and verify every digest; return its manifest, and its files by name.

    Raises:
        UsageError: The file cannot be read.
        FormatError: The file is not a bundle, is damaged, or is of another version; the message
            names the damaged file in it.
    """
    try:
        data = read_limited(file, MOST_BYTES)
    except OSError as error:
        raise UsageError(f"cannot read the bundle {file}: {error.strerror}") from error
    archive = Archive(data, str(file))
    manifest = _manifest(archive, file)
    listed = {entry.name: entry for entry in manifest.files}
    for name in sorted({*archive.sizes, *listed} - {MANIFEST}):
        entry = listed.get(name)
        if entry is None:
            raise FormatError(f"{file} contains {name}, which its manifest does not list")
        if name not in archive.sizes:
            raise FormatError(
                f"{file}/{name}: damaged: missing, although its manifest lists it", hint=_WHOLE
            )
        if entry.nbytes != archive.sizes[name]:
            raise FormatError(
                f"{file}: {name} has {archive.sizes[name]:,} bytes, but its manifest says "
                f"{entry.nbytes:,}: nothing was unpacked"
            )
    files = {MANIFEST: archive.read(MANIFEST)}
    for name, entry in listed.items():
        files[name] = archive.read(name)
        digest = hashlib.sha256(files[name]).hexdigest()
        if digest != entry.sha256:
            raise FormatError(
                f"{file}: {name} is damaged: its digest is {digest}, expected {entry.sha256}"
            )
    # A manifest must not name files outside the bundle.
    known = {*files, RUN} if f"{RUN}/result.json" in files else set(files)
    named = (manifest.budget, manifest.etrecord, manifest.debug_buffer, manifest.history)
    for name in (VERDICT_FILE, manifest.evaluated, *filter(None, named)):
        if name not in known:
            raise FormatError(
                f"{file}/{name}: damaged: missing, although its manifest names it", hint=_WHOLE
            )
    return manifest, files


def _manifest(archive: Archive, file: Path) -> Manifest:
    size = archive.sizes.get(MANIFEST, 0)
    if size > _MOST_MANIFEST:
        raise FormatError(
            f"{file}: {MANIFEST} has {size:,} bytes, more than the limit of {_MOST_MANIFEST:,}: "
            "nothing was unpacked"
        )
    try:
        return decode_json(archive.read(MANIFEST) if size else b"", type_=Manifest)
    except msgspec.DecodeError as error:
        raise FormatError(
            f"{file}: invalid {MANIFEST}, or one of another version: {error}"
        ) from error


def extract_bundle(files: Mapping[str, bytes], directory: Path) -> None:
    """Write all files of a bundle into a new or empty directory.

    Raises:
        UsageError: The directory is not empty or not writable.
    """
    try:
        directory.mkdir(parents=True, exist_ok=True)
        if any(directory.iterdir()):
            raise UsageError(f"{directory} is not empty", hint="name another directory with --out")
        for name, data in files.items():
            path = directory / name
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_bytes(data)
    except OSError as error:
        raise UsageError(f"cannot unpack into {directory}: {error.strerror}") from error


def replay_bundle(file: Path, directory: Path) -> Replayed:
    """Verify and extract a bundle, and evaluate its run.

    Raises:
        UsageError: The file cannot be read, or ``directory`` is not empty or not writable.
        FormatError: The file is not a bundle, is damaged, or is of another version.
    """
    manifest, files = open_bundle(file)
    extract_bundle(files, directory)
    return replay(manifest, directory)


def replay(manifest: Manifest, directory: Path) -> Replayed:
    """Evaluate the run of a bundle that has been extracted into ``directory``.

    Raises:
        UsageError: This version cannot read the bundle's files.
    """
    try:
        day = date.fromisoformat(manifest.day) if manifest.day else None
    except ValueError as error:
        raise FormatError(f"invalid {MANIFEST}: `day`: {error}") from error

    def path_of(name: str) -> Path | None:
        return directory / name if name else None

    given = ReadOptions(
        clock=to_clock_domain(manifest.clock) if manifest.clock is not None else None,
        clock_bits=manifest.clock_bits,
        dump=manifest.dump,
        salvage=manifest.salvage,
        debug_buffer=path_of(manifest.debug_buffer),
        time_scales=manifest.time_scales,
        metadata=manifest.metadata,
        etrecord=path_of(manifest.etrecord),
        day=day,
        board=manifest.board,
        model=manifest.of_model,
    )
    budget = path_of(manifest.budget)
    if budget is not None:
        _check_budget(RunDirectory(directory / RUN), budget)
        _check_inside(budget, directory)
    history = None
    if (file := path_of(manifest.history)) is not None:
        history = decode_history(read_limited(file, MOST_DOCUMENT), manifest.history)
    run = evaluate_path(
        directory / manifest.evaluated,
        budget or DEFAULT_BUDGET,
        given,
        history,
    )
    replayed = bundle_verdict(run, manifest.budget)
    return Replayed(
        manifest, run, replayed, (directory / VERDICT_FILE).read_bytes(), encode(replayed)
    )


def _check_budget(run: RunDirectory, budget: Path) -> None:
    """Verify the copy of a budget in a run directory before it is read.

    Raises:
        DamagedError: It is damaged.
    """
    if run.is_one and budget.is_relative_to(run.path):
        copies = [name for name in run.files() if name.startswith(f"{USED_BUDGET}/")]
        damaged = run.examine(copies)[1]
        if damaged is not None:
            raise damaged


def _check_inside(budget: Path, directory: Path) -> None:
    """Refuse a budget that extends files outside the bundle.

    Raises:
        FormatError: The budget extends such a file.
    """
    for file in read_files(budget):
        if not file.document.path.resolve().is_relative_to(directory.resolve()):
            raise FormatError(f"the budget of the bundle extends {file.name}, which is not in it")
