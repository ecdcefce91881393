"""Folders of nights: which one goes on, and whether it is still the same night."""

from __future__ import annotations

import hashlib
import os
import re
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from datetime import datetime
from pathlib import Path
from typing import Any, Final

import msgspec
from filelock import FileLock, Timeout

from harness.config.toml_file import Document
from harness.errors import BusyError, UsageError
from harness.nightly.journal import JOURNAL, Began, Finished, Journal, read_journal
from harness.nightly.plan import NightlyPlan, model_file, options_of, path_of
from harness.nightly.units import NightUnit

_CHOOSE_S: Final = 10.0
"""How long it may take others to choose a folder."""

_FREE: Final = ("jobs", "reports", "quarantine")
"""Keys of a plan that may be changed while a night is not finished."""


def nights(output: Path, name: str = "") -> list[Path]:
    """Folders of all nights in ``output``, or of those of one name; these are oldest first."""
    found = sorted(file.parent for file in output.glob(f"*/{JOURNAL}") if file.is_file())
    of_it = re.compile(rf"{re.escape(name)}-\d{{8}}T\d{{6}}(-\d{{4}})?")
    return [folder for folder in found if not name or of_it.fullmatch(folder.name)]


def open_folder(output: Path, name: str, now: datetime, *, fresh: bool) -> Journal:
    """Open the journal of the night that was not finished, or of a new one.

    Args:
        output: Where nights have their folders.
        name: What nights are called.
        now: When it is, in UTC.
        fresh: Begin a new one in any case.

    Raises:
        BusyError: Another process is at that night.
        FormatError: Its journal is damaged.
        InfrastructureError: It cannot be read or written.
    """
    with _alone(output):
        if not fresh and (last := unfinished_night(output, name)) is not None:
            return Journal.open(last)
        return Journal.open(output / _next_name(output, name, now))


def unfinished_night(output: Path, name: str) -> Path | None:
    """The newest night of this name if it is not over; None else."""
    found = nights(output, name)
    if not found:
        return None
    records, _ = read_journal(found[-1] / JOURNAL)
    over = any(isinstance(record, Finished) for record in records)
    return None if over else found[-1]


def _next_name(output: Path, name: str, now: datetime) -> str:
    """A name for the next folder, behind all there are: also when the clock was set back."""
    stamp = f"{now:%Y%m%dT%H%M%S}"
    newest = max((folder.name for folder in nights(output, name)), default="")
    base = max(f"{name}-{stamp}", newest[: len(name) + 1 + len(stamp)])
    names = (base, *(f"{base}-{number:04}" for number in range(2, 10_000)))
    return next(n for n in names if n > newest and not (output / n).exists())


def fingerprint(
    plan: NightlyPlan, document: Document, units: Sequence[NightUnit]
) -> dict[str, str]:
    """All that a night depends on, by what it is called: options, units, digests of files."""
    options = msgspec.to_builtins(plan)
    for key in _FREE:
        del options[key]
    found = dict(_flat("", options))
    for unit in units:
        found[f"unit {unit.id}"] = unit.board.name
    for file in sorted(set(_files(plan, document, units))):
        # As the plan sees it, wherever the night is started from.
        name = os.path.relpath(file, document.path.parent)
        found[f"file {name}"] = hashlib.sha256(file.read_bytes()).hexdigest()
    return found


def check_same(began: Began, now: dict[str, str], directory: Path) -> None:
    """Refuse to go on with a night when what it depends on has changed.

    Raises:
        UsageError: It has; the message says what.
    """
    changes = [
        f"{key}: {_brief(began.plan.get(key))} before, {_brief(now.get(key))} now"
        for key in dict.fromkeys([*began.plan, *now])
        if began.plan.get(key) != now.get(key)
    ]
    if changes:
        more = f"; and {len(changes) - 5} more" if len(changes) > 5 else ""
        raise UsageError(
            f"the night in {directory} was not finished, and its plan has changed since: "
            f"{'; '.join(changes[:5])}{more}",
            hint="change it back to go on, or begin a new night with --fresh",
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
    """Keys and values of nested tables, one each."""
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
def _alone(output: Path) -> Iterator[None]:
    """Choose a folder while nobody else does."""
    try:
        output.mkdir(parents=True, exist_ok=True)
        lock = FileLock(output / ".nights.lock")
        lock.acquire(timeout=_CHOOSE_S)
    except Timeout:
        raise BusyError(f"another process keeps {output} to itself") from None
    except OSError as error:
        raise UsageError(f"cannot use {output} for nights: {error.strerror}") from error
    with lock:
        lock.release()
        yield
