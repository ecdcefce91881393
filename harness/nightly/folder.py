"""Folders of nightly runs: chooses the one to resume, and checks that its plan is unchanged."""

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
"""Longest wait for another process that chooses a folder."""

_CHANGEABLE: Final = ("jobs", "reports", "quarantine")
"""Keys of a plan that may change before a nightly run is resumed."""


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
        found[f"file {name}"] = hashlib.sha256(file.read_bytes()).hexdigest()
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
