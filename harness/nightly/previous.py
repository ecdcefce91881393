"""Earlier nightly runs: their outcomes, and adding results that are not in the history yet."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from pathlib import Path
from typing import Final

import msgspec

from harness.config.toml_file import Document
from harness.errors import HarnessError, InfrastructureError, Owner
from harness.files import read_regular
from harness.history import open_store
from harness.nightly.folder import nights
from harness.nightly.journal import JOURNAL, Ended, Finished, Journal, Stored, read_journal
from harness.records.nightly import NightDocument, Trouble
from harness.runs.add_results import add_directory

DOCUMENT: Final = "night.json"
"""File with the summary of a nightly run, in its folder."""

_MOST_NIGHTS: Final = 60
"""Number of earlier nightly runs to read, the newest."""

_TRIES: Final = 3
_WAIT_S: Final = 5.0
"""Pause after the first failed attempt to open the history; longer after the next."""
_OPEN_S: Final = 30.0
"""Longest wait for a locked history."""


def earlier_nights(directory: Path, name: str) -> Iterator[NightDocument]:
    """Yield the readable summaries of the nightly runs before the one in ``directory``."""
    yield from documents(_before(directory, name))


def documents(folders: Iterable[Path]) -> Iterator[NightDocument]:
    """Yield the readable summaries of nightly runs."""
    for folder in folders:
        try:
            yield msgspec.json.decode(read_regular(folder / DOCUMENT), type=NightDocument)
        except (OSError, msgspec.DecodeError):
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
    folder: Path, url: str, utc: Callable[[], str], sleep: Callable[[float], None]
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
            journal.add(Stored(utc()))
            notes = [f"added the results of {folder.name} to the history", *notes]
    return notes, trouble


def history_url(document: Document, history: str) -> str:
    """Return the URL or path of a plan's history; a path is relative to the plan."""
    return history if "://" in history else str(document.path.parent / history)


def store_results(
    url: str, directories: Sequence[Path], sleep: Callable[[float], None]
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
            return _add_all(url, directories), None
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


def _add_all(url: str, directories: Sequence[Path]) -> list[str]:
    refused = []
    with open_store(url, deadline_s=_OPEN_S) as store:
        for directory in directories:
            added = add_directory(store, directory)
            if added.state == "refused":
                refused.append(f"{directory} was not added to the history: {added.reason}")
    return refused


def _before(directory: Path, name: str) -> list[Path]:
    of_it = nights(directory.parent, name)
    return [folder for folder in of_it if folder.name < directory.name][-_MOST_NIGHTS:]
