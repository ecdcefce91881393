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
"""What came of a night, in its folder."""

_KNOWN: Final = 60
"""Nights that are looked at, the newest."""


def earlier_nights(directory: Path, name: str) -> Iterator[NightDocument]:
    """What came of the nights before that in ``directory``, as far as it can be read."""
    yield from documents(_before(directory, name))


def documents(folders: Iterable[Path]) -> Iterator[NightDocument]:
    """What came of nights, as far as it can be read."""
    for folder in folders:
        try:
            yield msgspec.json.decode(read_regular(folder / DOCUMENT), type=NightDocument)
        except (OSError, msgspec.DecodeError):
            continue


def unstored_nights(directory: Path, name: str) -> Iterator[Path]:
    """Nights that were over before the one in ``directory``, and are not in the history."""
    for folder in _before(directory, name):
        try:
            records, _ = read_journal(folder / JOURNAL)
        except (OSError, HarnessError):
            continue
        over = any(isinstance(record, Finished) for record in records)
        if over and not any(isinstance(record, Stored) for record in records):
            yield folder


def keep_late(
    folder: Path, url: str, utc: Callable[[], str], sleep: Callable[[float], None]
) -> tuple[list[str], Trouble | None]:
    """Add the results of an earlier night to the history.

    Returns:
        What is to be said, and what is wrong with the history, as ``keep_results``.
    """
    with Journal.open(folder) as journal:
        ended = [record for record in journal.records if isinstance(record, Ended)]
        directories = [folder / item.attempt.directory for item in ended if item.attempt.result]
        notes, trouble = keep_results(url, directories, sleep)
        if trouble is None:
            journal.add(Stored(utc()))
            notes = [f"the results of {folder.name} are in the history now", *notes]
    return notes, trouble


def _before(directory: Path, name: str) -> list[Path]:
    of_it = nights(directory.parent, name)
    return [folder for folder in of_it if folder.name < directory.name][-_KNOWN:]


_TRIES: Final = 3


_WAIT_S: Final = 5.0


_OPEN_S: Final = 30.0


def history_url(document: Document, history: str) -> str:
    """Where the history is that a plan names."""
    return history if "://" in history else str(document.path.parent / history)


def keep_results(
    url: str, directories: Sequence[Path], sleep: Callable[[float], None]
) -> tuple[list[str], Trouble | None]:
    """Add run directories to the history; those that are there already are left as they are.

    Args:
        url: The history.
        directories: Run directories with a result.
        sleep: Waits so many seconds.

    Returns:
        What is to be said of results that cannot be kept, and what is wrong with the history; None
        if all that can be is in it.
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
    message = f"{len(directories)} results are not all in the history: {failure.message}"
    hint = f"{failure.hint}; " if failure.hint else ""
    later = "the next `etharness nightly` by this plan adds them, or `etharness history add` now"
    owner = Owner.TEST if failure.owner is Owner.TEST else Owner.HOST
    return [], Trouble(owner=owner, message=message, hint=f"{hint}{later}")


def _add_all(url: str, directories: Sequence[Path]) -> list[str]:
    refused = []
    with open_store(url, deadline_s=_OPEN_S) as store:
        for directory in directories:
            added = add_directory(store, directory)
            if added.state == "refused":
                refused.append(f"{directory} is not in the history: {added.reason}")
    return refused
