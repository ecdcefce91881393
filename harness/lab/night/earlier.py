"""Earlier nights: what came of them, and whose results are not in the history yet."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from typing import Final

import msgspec

from harness.errors import HarnessError
from harness.files import read_regular
from harness.lab.night.folder import nights
from harness.lab.night.journal import JOURNAL, Ended, Finished, Journal, Stored, read_journal
from harness.lab.night.keeping import keep_results
from harness.report.night import NightDocument, Trouble

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
