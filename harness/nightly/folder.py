"""Folders of nightly runs: chooses the one to resume, and checks that its plan is unchanged."""

from __future__ import annotations

import hashlib
import os
import re
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from datetime import datetime
from pathlib import Path
from typing import Any, Final

import msgspec
from filelock import FileLock, Timeout

from harness.config.toml_file import Document
from harness.errors import BusyError, HarnessError, InfrastructureError, Owner, UsageError
from harness.files import MOST_DOCUMENT, MOST_MODEL, check_size, read_limited, read_regular
from harness.history import open_store
from harness.nightly.journal import JOURNAL, Began, Ended, Finished, Journal, Stored, read_journal
from harness.nightly.plan import NightlyPlan, NightUnit, model_file, options_of, path_of
from harness.records.decode_json import decode_json
from harness.records.nightly import NightDocument, Trouble
from harness.runs.add_results import add_directory, run_directories

_CHOOSE_S: Final = 10.0
"""Longest wait for another process that chooses a folder."""

_CHANGEABLE: Final = ("jobs", "reports", "quarantine")
"""Keys of a plan that may change before a nightly run is resumed."""


DOCUMENT: Final = "night.json"
"""File with the summary of a nightly run, in its folder."""


_MOST_NIGHTS: Final = 60
"""Number of earlier nightly runs to read, the newest."""


_TRIES: Final = 3


_WAIT_S: Final = 5.0
"""Pause after the first failed attempt to open the history; longer after the next."""


_OPEN_S: Final = 30.0
"""Longest wait for a locked history."""


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
    options = msgspec.to_builtins(plan)
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
        if began.plan.get(key) != now.get(key)
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
            yield path_of(document, file)
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


def add_results(url: str, directories: Sequence[Path]) -> list[str]:
    """Add run directories to the history; return a note for each that it refuses.

    Raises:
        HarnessError: The history cannot be opened or written.
    """
    refused = []
    with open_store(url, deadline_s=_OPEN_S) as store:
        for directory in run_directories(directories):
            added = add_directory(store, directory)
            if added.state == "refused":
                refused.append(f"{directory} was not added to the history: {added.reason}")
    return refused


def _before(directory: Path, name: str) -> list[Path]:
    of_it = nights(directory.parent, name)
    return [folder for folder in of_it if folder.name < directory.name][-_MOST_NIGHTS:]
