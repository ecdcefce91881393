"""Keeping: the results of a night in the history, each once, however often it is tried."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Final

from harness.errors import HarnessError, InfrastructureError, Owner
from harness.lab.history import open_store
from harness.lab.history.adding import add_directory
from harness.report.night import Trouble
from harness.toml_file import Document

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
