"""Options that say which history a run is held against."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any, TypeVar

import click

from harness.check.history.baseline import DEFAULT_BASELINE, BaselineRef, parse_baseline

if TYPE_CHECKING:
    from harness.runs.baseline import HistoryRef

_F = TypeVar("_F", bound=Callable[..., Any])


def baseline_option(function: _F) -> _F:
    """Add ``--baseline``, passed as a ``BaselineRef``, or None when it is not given."""
    return click.option(
        "--baseline",
        metavar="WHICH",
        callback=lambda _context, _option, text: None if text is None else parse_baseline(text),
        help="Hold the run against these results of the history: last:20, name:NAME or "
        "commit:PREFIX (docs/verdicts.md).",
    )(function)


def history_ref(url: str | None, baseline: BaselineRef | None) -> HistoryRef | None:
    """Where the history is; None when neither is given, the default place when only one is."""
    if url is None and baseline is None:
        return None
    from harness.history import default_history
    from harness.runs.baseline import HistoryRef

    return HistoryRef(url or default_history(), baseline or DEFAULT_BASELINE)
