"""What the errors of databases mean, and who is to do something about them."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final

from sqlalchemy.exc import DBAPIError, InterfaceError, OperationalError, SQLAlchemyError

from harness.errors import FormatError, HarnessError, InfrastructureError, UsageError

_RETRY_SQLITE: Final = ("SQLITE_BUSY", "SQLITE_LOCKED")
_RETRY_POSTGRESQL: Final = ("40001", "40P01")  # not serialisable; deadlock

_GOING: Final = ("57P01", "57P02", "57P03")  # shut down by its administrator, crashed, starting

_Verdict = tuple[Callable[..., HarnessError], str, str]
"""Class of the error; what happened, with the place in it; what to try."""

_DAMAGED: Final[_Verdict] = (
    FormatError,
    "{place} is damaged or no history",
    "move it aside, and add the run directories again: `etharness history add DIRECTORY`",
)
_FULL: Final[_Verdict] = (
    InfrastructureError,
    "no room is left for {place}",
    "free some, or `etharness history prune`; what was there already is whole",
)
_FORBIDDEN: Final[_Verdict] = (
    UsageError,
    "{place} may not be written",
    "ask its owner for the right to write, or name another with --history",
)
_IN_USE: Final[_Verdict] = (
    InfrastructureError,
    "others kept {place} to themselves for {deadline:g} s",
    "try again; if that lasts, see which process has it open",
)
_SQLITE: Final[dict[str, _Verdict]] = {
    "SQLITE_BUSY": _IN_USE,
    "SQLITE_LOCKED": _IN_USE,
    "SQLITE_READONLY": _FORBIDDEN,
    "SQLITE_PERM": _FORBIDDEN,
    "SQLITE_FULL": _FULL,
    "SQLITE_CORRUPT": _DAMAGED,
    "SQLITE_NOTADB": _DAMAGED,
    "SQLITE_CANTOPEN": (UsageError, "{place} cannot be opened", "see whether it may be read"),
    "SQLITE_IOERR": (InfrastructureError, "{place} cannot be read or written", "look at the disk"),
}
"""By the name of SQLite's error without what follows its second word."""

_UNREACHABLE: Final[_Verdict] = (
    InfrastructureError,
    "{place} does not answer",
    "see whether the server runs and its address is right",
)
_REFUSED: Final[_Verdict] = (
    UsageError,
    "{place} lets nobody in by this name",
    "look at the user, the password and the name of the database in the URL",
)
_POSTGRESQL: Final[dict[str, _Verdict]] = {
    "28": _REFUSED,
    "3D000": _REFUSED,
    "42501": _FORBIDDEN,
    "25006": _FORBIDDEN,
    "53100": _FULL,
    "55P03": _IN_USE,
    "40": _IN_USE,
    "53": (InfrastructureError, "{place} has no more to give", "try again later"),
    "57": _UNREACHABLE,
    "08": _UNREACHABLE,
}
"""By SQLSTATE, or its class where the whole is not here."""

_REFUSALS: Final = ("authentication failed", "does not exist", "no password supplied", "pg_hba")
"""In what PostgreSQL says when it refuses a connection, for which the driver gives no SQLSTATE."""


def may_retry(error: DBAPIError) -> bool:
    """Whether the same transaction may succeed when it is begun again at once."""
    if (name := _sqlite_name(error)) is not None:
        return name in _RETRY_SQLITE
    return getattr(error.orig, "sqlstate", None) in _RETRY_POSTGRESQL


def may_return(error: DBAPIError) -> bool:
    """Whether a server went away that may come back: it is started again, or the network was."""
    if _sqlite_name(error) is not None or not isinstance(error, OperationalError | InterfaceError):
        return False
    state = getattr(error.orig, "sqlstate", None)
    if state is None:
        return not any(text in str(error.orig) for text in _REFUSALS)
    return state in _GOING or state.startswith("08")


def is_forbidden(error: DBAPIError) -> bool:
    """Whether it was for want of the right to write."""
    return _verdict(error) is _FORBIDDEN


def owned(error: SQLAlchemyError, place: str, deadline_s: float) -> HarnessError:
    """Return the error of this package that a database's error is."""
    kind, text, hint = _verdict(error)
    cause: Any = getattr(error, "orig", None) or error
    lines = str(cause).strip().splitlines()
    reason = lines[0] if lines else type(cause).__name__
    return kind(f"{text.format(place=place, deadline=deadline_s)}: {reason}", hint=hint)


def _verdict(error: SQLAlchemyError) -> _Verdict:
    unknown: _Verdict = (InfrastructureError, "{place} failed", "try again; if it lasts, report it")
    if not isinstance(error, DBAPIError):
        return unknown
    if (name := _sqlite_name(error)) is not None:
        return _SQLITE.get(name, unknown)
    state = getattr(error.orig, "sqlstate", None)
    if state is None:
        said = str(error.orig)
        return _REFUSED if any(text in said for text in _REFUSALS) else _UNREACHABLE
    return _POSTGRESQL.get(state) or _POSTGRESQL.get(state[:2]) or unknown


def _sqlite_name(error: DBAPIError) -> str | None:
    """SQLite's name of the error, None if it is not one of SQLite's."""
    name: str | None = getattr(error.orig, "sqlite_errorname", None)
    if name is None:
        is_sqlite = type(error.orig).__module__ == "sqlite3"
        return "SQLITE_ERROR" if is_sqlite else None
    return "_".join(name.split("_")[:2])
