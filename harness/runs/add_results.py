"""Adds run directories to a store: those found below a path, or that of a run that just ended."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING

from harness.check.history.stored import Added
from harness.check.subject import Subject
from harness.errors import FormatError, HarnessError, InfrastructureError, UsageError
from harness.files import display_path
from harness.history import open_store
from harness.records.result import Result, microseconds
from harness.runs.directory import RESULT, TEST_SETS, RunDirectory, later_verdict
from harness.runs.evaluation import EvaluatedRun, subject_of
from harness.runs.source import load_source, on_scales

if TYPE_CHECKING:
    from harness.history.store import Store


def run_directories(paths: Iterable[Path]) -> Iterator[Path]:
    """Yield every run directory at or below ``paths`` once, sorted by name.

    A path without run directories is yielded itself, so that adding it reports an error.
    """
    seen: set[Path] = set()
    for path in paths:
        found = sorted(file.parent for file in path.rglob(RESULT)) if path.is_dir() else []
        # Of a bundled program the test sets are added, each with its own trace.
        found = [place for place in found if not any((place / TEST_SETS).glob(f"*/{RESULT}"))]
        for directory in found or [path]:
            if (resolved := directory.resolve()) not in seen:
                seen.add(resolved)
                yield directory


def add_directory(store: Store, path: Path) -> Added:
    """Add the result of a run directory, with its trace if it has one and its latest verdict.

    Of a result that the store has already, a verdict that was given later is recorded.

    Raises:
        UsageError: The store is not writable.
        InfrastructureError: The store failed.
    """
    run = RunDirectory(path)
    try:
        result = run.read_result()
        microseconds(result.started_utc)  # raises if the time is invalid
    except (UsageError, OSError) as error:
        return Added(display_path(path), "refused", "", str(error))
    try:
        verdict = later_verdict(run)
    except (UsageError, OSError) as error:
        return Added(display_path(path), "refused", result.id, str(error))
    if store.has(result.id, finished=not result.unfinished):  # without reading the trace again
        changed = verdict is not None and store.record_verdict(result.id, verdict)
        return Added(display_path(path), "updated" if changed else "there", result.id)
    try:
        subject, note = read_subject(run, result)
    except (UsageError, OSError) as error:
        return Added(display_path(path), "refused", result.id, str(error))
    try:
        added = store.add(result, subject, verdict)
    except FormatError as error:
        return Added(display_path(path), "refused", result.id, error.message)
    return Added(
        display_path(path), "added" if added else "there", result.id, note if added else ""
    )


def add_reported(url: str | None, run: EvaluatedRun) -> None:
    """Add a run that has just ended to the store at ``url``; None for no store.

    Raises:
        HarnessError: Adding failed; the hint says how to add it later.
    """
    if url is None or run.result is None:
        return
    try:
        with open_store(url) as store:
            for each in run.parts:
                if each.result is not None:
                    store.add(each.result, each.subject)
    except HarnessError as error:
        kept = f"; the run is saved in {run.directory}" if run.directory else ""
        later = f"; then `etharness history add {run.directory}`" if run.directory else ""
        kind = InfrastructureError if isinstance(error, InfrastructureError) else UsageError
        raise kind(
            f"cannot add the result to the history: {error.message}{kept}",
            hint=f"{error.hint}{later}",
        ) from error


def read_subject(run: RunDirectory, result: Result) -> tuple[Subject | None, str]:
    """Return the subject of a run, None without a readable trace, and a note about its trace.

    Raises:
        DamagedError: A file is damaged.
        FormatError: The trace cannot be read, although the run did not fail.
    """
    if run.trace_file is None:
        run.load_result()
        return None, "the run has no trace"
    try:
        source = load_source(run.path, salvage=True).require_sound()
    except FormatError as error:
        if result.failure is None:
            raise
        return None, f"cannot read its trace: {error.message}"
    source = on_scales(source, {})
    damage = f"its trace is damaged in {len(source.damage)} places" if source.damage else ""
    return subject_of(source.trace, result), damage
