"""Text of a test that fails with an error of this package."""

from __future__ import annotations

from itertools import dropwhile, takewhile
from pathlib import Path

import pytest

# pytest offers no other way to shorten a traceback.
from _pytest._code.code import TerminalRepr, Traceback

import harness
from harness.errors import HarnessError

_OURS = Path(harness.__file__).parent


def readable(item: pytest.Item, excinfo: pytest.ExceptionInfo[BaseException]) -> str | TerminalRepr:
    """Return an error of this package for the test's author: without frames of this package.

    Returns:
        The ``longrepr`` of a test report.
    """
    error = excinfo.value
    assert isinstance(error, HarnessError)
    hint = f"try: {error.hint}" if error.hint else ""
    theirs = [
        *takewhile(
            lambda entry: not _is_ours(entry.path),
            dropwhile(lambda entry: _is_pytests(entry.path), excinfo.traceback),
        )
    ]
    if not theirs:
        return "\n  ".join(filter(None, [f"{type(error).__name__}: {error.message}", hint]))
    if hint and hint not in getattr(error, "__notes__", ()):
        error.add_note(hint)
    excinfo.traceback = Traceback(theirs)
    short = item.config.getoption("tbstyle") in ("short", "line", "native", "no")
    return excinfo.getrepr(style="short" if short else "long", chain=False, tbfilter=False)


def _is_ours(path: Path | str) -> bool:
    return Path(path).is_relative_to(_OURS)


def _is_pytests(path: Path | str) -> bool:
    parts = Path(path).parts
    return "_pytest" in parts or "pluggy" in parts
