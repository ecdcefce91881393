"""Replay: evaluates the run of a bundle again, and compares the verdict with the recorded one."""

from __future__ import annotations

import difflib
import hashlib
from dataclasses import dataclass
from datetime import date
from pathlib import Path
from typing import Final

import msgspec

from harness.check.budget import read_files
from harness.check.evaluate import DEFAULT_BUDGET
from harness.errors import FormatError, UsageError
from harness.files import MOST_DOCUMENT, read_limited
from harness.history.history_json import decode_history
from harness.records.decode_json import decode_json
from harness.records.result import encode
from harness.runs.bundle import (
    MANIFEST,
    MOST_BYTES,
    RUN,
    VERDICT_FILE,
    Archive,
    Manifest,
    bundle_verdict,
)
from harness.runs.directory import to_clock_domain
from harness.runs.evaluation import BundleVerdict, EvaluatedRun, evaluate_path
from harness.runs.source import ReadOptions

_MOST_MANIFEST: Final = 16 << 20
"""Largest size of a manifest, bytes; one of 10,000 files has 2 MB."""


@dataclass(frozen=True, slots=True)
class Bundle:
    """A bundle with verified digests.

    Attributes:
        manifest: Its manifest.
        files: Its files by name.
    """

    manifest: Manifest
    files: dict[str, bytes]


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


def open_bundle(file: Path) -> Bundle:
    """Read a bundle and verify every digest.

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
            raise FormatError(f"{file}: {name} is missing, but its manifest lists it")
        if entry.nbytes != archive.sizes[name]:
            raise FormatError(
                f"{file}: {name} has {archive.sizes[name]:,} bytes, but its manifest says "
                f"{entry.nbytes:,}: nothing was unpacked"
            )
    files = {MANIFEST: archive.read(MANIFEST)}
    for name, entry in listed.items():
        files[name] = archive.read(name)
        found = hashlib.sha256(files[name]).hexdigest()
        if found != entry.sha256:
            raise FormatError(
                f"{file}: {name} is damaged: its digest is {found}, expected {entry.sha256}"
            )
    # A manifest must not name files outside the bundle.
    known = {*files, RUN} if f"{RUN}/result.json" in files else set(files)
    named = (manifest.budget, manifest.etrecord, manifest.debug_buffer, manifest.history)
    for name in (VERDICT_FILE, manifest.evaluated, *filter(None, named)):
        if name not in known:
            raise FormatError(f"{file}: {name!r} is missing, but its manifest names it")
    return Bundle(manifest, files)


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


def extract_bundle(bundle: Bundle, directory: Path) -> None:
    """Write all files of a bundle into a new or empty directory.

    Raises:
        UsageError: The directory is not empty or not writable.
    """
    try:
        directory.mkdir(parents=True, exist_ok=True)
        if any(directory.iterdir()):
            raise UsageError(f"{directory} is not empty", hint="name another directory with --out")
        for name, data in bundle.files.items():
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
    bundle = open_bundle(file)
    extract_bundle(bundle, directory)
    return replay(bundle, directory)


def replay(bundle: Bundle, directory: Path) -> Replayed:
    """Evaluate the run of a bundle that has been extracted into ``directory``.

    Raises:
        UsageError: This version cannot read the bundle's files.
    """
    manifest = bundle.manifest

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
        day=date.fromisoformat(manifest.day) if manifest.day else None,
        board=manifest.board,
        model=manifest.of_model,
    )
    budget = path_of(manifest.budget)
    if budget is not None:
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
    return Replayed(manifest, run, replayed, bundle.files[VERDICT_FILE], encode(replayed))


def _check_inside(budget: Path, directory: Path) -> None:
    """Refuse a budget that extends files outside the bundle.

    Raises:
        FormatError: The budget extends such a file.
    """
    for file in read_files(budget):
        if not file.document.path.resolve().is_relative_to(directory.resolve()):
            raise FormatError(f"the budget of the bundle extends {file.name}, which is not in it")
