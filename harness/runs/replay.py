"""Replay: what a bundle holds judged again, and held against what was said then."""

from __future__ import annotations

import difflib
import hashlib
from dataclasses import dataclass
from datetime import date
from pathlib import Path

import msgspec

from harness.check.budget import read_files
from harness.check.evaluate import DEFAULT_BUDGET
from harness.errors import FormatError, UsageError
from harness.history.history_json import read_copy
from harness.records.result import encode
from harness.runs.archive import unpack
from harness.runs.bundle import JUDGEMENT, MANIFEST, RUN, Manifest, judgement
from harness.runs.directory import to_clock_domain
from harness.runs.evaluation import judged_path
from harness.runs.judged_run import JudgedRun, ReadOptions, RunJudgement
from harness.runs.source import load_given


@dataclass(frozen=True, slots=True)
class Bundle:
    """A bundle that is sound.

    Attributes:
        manifest: What it says of itself.
        files: All its files by name.
    """

    manifest: Manifest
    files: dict[str, bytes]


@dataclass(frozen=True, slots=True)
class Replayed:
    """A verdict that was made again.

    Attributes:
        manifest: Of its bundle.
        run: What was judged.
        said: What is said now.
        then: What was said then, as JSON.
        now: What is said now, as JSON.
    """

    manifest: Manifest
    run: JudgedRun
    said: RunJudgement
    then: bytes
    now: bytes

    @property
    def same(self) -> bool:
        """Whether both are the same, byte for byte."""
        return self.then == self.now

    def difference(self) -> str:
        """What differs, line by line."""
        then, now = (data.decode(errors="replace").splitlines() for data in (self.then, self.now))
        names = f"verdict.json of {self.manifest.tool_version}", "now"
        return "\n".join(difflib.unified_diff(then, now, *names, lineterm="", n=2))


def open_bundle(file: Path) -> Bundle:
    """Read a bundle and check every digest.

    Raises:
        UsageError: It cannot be read.
        FormatError: It is no bundle, is damaged, or is of another version; the message names the
            file in it that is wrong.
    """
    try:
        data = file.read_bytes()
    except OSError as error:
        raise UsageError(f"cannot read the bundle {file}: {error.strerror}") from error
    files = unpack(data, str(file))
    try:
        manifest = msgspec.json.decode(files.get(MANIFEST, b""), type=Manifest)
    except msgspec.DecodeError as error:
        raise FormatError(
            f"{file}: {MANIFEST} is not that of a bundle of this version: {error}"
        ) from error
    listed = {entry.name: entry for entry in manifest.files}
    for name in sorted({*files, *listed} - {MANIFEST}):
        entry = listed.get(name)
        if entry is None:
            raise FormatError(f"{file} holds {name}, which its manifest does not list")
        if name not in files:
            raise FormatError(f"{file} lacks {name}, which its manifest lists")
        found = hashlib.sha256(files[name]).hexdigest()
        if found != entry.sha256:
            raise FormatError(
                f"{file}: {name} has the digest {found}, not {entry.sha256}: it is damaged"
            )
    # What is read must be what came in the bundle, whoever made it.
    known = {*files, RUN} if f"{RUN}/result.json" in files else set(files)
    named = (manifest.budget, manifest.etrecord, manifest.debug_buffer, manifest.history)
    for name in (JUDGEMENT, manifest.judged, *filter(None, named)):
        if name not in known:
            raise FormatError(f"{file} lacks {name!r}, which its manifest names")
    return Bundle(manifest, files)


def unpack_into(bundle: Bundle, directory: Path) -> None:
    """Write all files of a bundle below a directory that is empty or not there yet.

    Raises:
        UsageError: It is not empty, or cannot be written to.
    """
    try:
        directory.mkdir(parents=True, exist_ok=True)
        if any(directory.iterdir()):
            raise UsageError(f"{directory} is not empty", hint="name another directory with --out")
        for name, data in bundle.files.items():
            place = directory / name
            place.parent.mkdir(parents=True, exist_ok=True)
            place.write_bytes(data)
    except OSError as error:
        raise UsageError(f"cannot unpack into {directory}: {error.strerror}") from error


def replay(bundle: Bundle, directory: Path) -> Replayed:
    """Judge again what has been unpacked into a directory.

    Raises:
        UsageError: This version cannot read what is in it.
    """
    manifest = bundle.manifest

    def place(name: str) -> Path | None:
        return directory / name if name else None

    given = ReadOptions(
        clock=to_clock_domain(manifest.clock) if manifest.clock is not None else None,
        clock_bits=manifest.clock_bits,
        salvage=manifest.salvage,
        debug_buffer=place(manifest.debug_buffer),
        time_scales=manifest.time_scales,
        etrecord=place(manifest.etrecord),
        day=date.fromisoformat(manifest.day) if manifest.day else None,
        board=manifest.board,
        model=manifest.of_model,
    )
    budget = place(manifest.budget)
    if budget is not None:
        _check_inside(budget, directory)
    history = None
    if (kept := place(manifest.history)) is not None:
        history = read_copy(kept.read_bytes(), manifest.history)
    run = judged_path(
        directory / manifest.judged,
        lambda path: load_given(path, given),
        budget or DEFAULT_BUDGET,
        given,
        history,
    )
    said = judgement(run, manifest.budget)
    return Replayed(manifest, run, said, bundle.files[JUDGEMENT], encode(said))


def _check_inside(budget: Path, directory: Path) -> None:
    """Refuse a budget that extends files which did not come in the bundle.

    Raises:
        FormatError: It does.
    """
    for file in read_files(budget):
        if not file.document.path.resolve().is_relative_to(directory.resolve()):
            raise FormatError(f"the budget of the bundle extends {file.name}, which is not in it")
