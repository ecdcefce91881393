"""Translates database errors into errors of this package, and tells which are worth a retry."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final

from sqlalchemy.exc import DBAPIError, InterfaceError, OperationalError, SQLAlchemyError

from harness.errors import (
    FormatError,
    HarnessError,
    InfrastructureError,
    NotWritableError,
    UsageError,
)

_RETRY_SQLITE: Final = ("SQLITE_BUSY", "SQLITE_LOCKED")
_RETRY_POSTGRESQL: Final = ("40001", "40P01")  # serialization failure; deadlock

_SHUTTING_DOWN: Final = ("57P01", "57P02", "57P03")  # stopped by its admin, crashed, starting up

_Translation = tuple[Callable[..., HarnessError], str, str]
"""Class of the error, its message with the location as a field, and its hint."""

_DAMAGED: Final[_Translation] = (
    FormatError,
    "{location} is damaged or not a history",
    "move it aside, and add the run directories again: `etharness history add DIRECTORY`",
)
_FULL: Final[_Translation] = (
    InfrastructureError,
    "no space left for {location}",
    "free some space, or run `etharness history prune`; results added before are intact",
)
_FORBIDDEN: Final[_Translation] = (
    NotWritableError,
    "{location} is not writable",
    "ask its owner for write permission, or name another history with --history",
)
_LOCKED: Final[_Translation] = (
    InfrastructureError,
    "{location} stayed locked for {deadline:g} s",
    "try again; if it stays locked, look for the process that has it open",
)
_SQLITE: Final[dict[str, _Translation]] = {
    "SQLITE_BUSY": _LOCKED,
    "SQLITE_LOCKED": _LOCKED,
    "SQLITE_READONLY": _FORBIDDEN,
    "SQLITE_PERM": _FORBIDDEN,
    "SQLITE_FULL": _FULL,
    "SQLITE_CORRUPT": _DAMAGED,
    "SQLITE_NOTADB": _DAMAGED,
    "SQLITE_CANTOPEN": (
        UsageError,
        "cannot open {location}",
        "check the permissions of the file and its folder",
    ),
    "SQLITE_IOERR": (
        InfrastructureError,
        "cannot read or write {location}",
        "check the disk",
    ),
}
"""By the first two words of SQLite's error name."""

_UNREACHABLE: Final[_Translation] = (
    InfrastructureError,
    "{location} does not answer",
    "check that the server runs and that its address is right",
)
_REFUSED: Final[_Translation] = (
    UsageError,
    "{location}: authentication failed or no such database",
    "check the user, the password and the database name in the URL",
)
_POSTGRESQL: Final[dict[str, _Translation]] = {
    "28": _REFUSED,
    "3D000": _REFUSED,
    "42501": _FORBIDDEN,
    "25006": _FORBIDDEN,
    "53100": _FULL,
    "55P03": _LOCKED,
    "40": _LOCKED,
    "53": (InfrastructureError, "{location} is out of resources", "try again later"),
    "57": _UNREACHABLE,
    "08": _UNREACHABLE,
}
"""By SQLSTATE; by its class of two characters where the full code is not listed."""

_UNKNOWN: Final[_Translation] = (
    InfrastructureError,
    "{location} failed",
    "try again; if it fails again, report it",
)

_REFUSALS: Final = ("authentication failed", "does not exist", "no password supplied", "pg_hba")
"""Texts of PostgreSQL's errors when it refuses a connection: the driver gives no SQLSTATE then."""


def is_conflict(error: DBAPIError) -> bool:
    """Whether the same transaction may succeed when it is begun again at once."""
    if (name := _sqlite_name(error)) is not None:
        return name in _RETRY_SQLITE
    return getattr(error.orig, "sqlstate", None) in _RETRY_POSTGRESQL


def is_disconnect(error: DBAPIError) -> bool:
    """Whether the connection to a server was lost that may come back: a restart, or the network."""
    if _sqlite_name(error) is not None or not isinstance(error, OperationalError | InterfaceError):
        return False
    state = getattr(error.orig, "sqlstate", None)
    if state is None:
        return not any(text in str(error.orig) for text in _REFUSALS)
    return state in _SHUTTING_DOWN or state.startswith("08")


def is_permission_error(error: DBAPIError) -> bool:
    """Whether the database refused a write for lack of permission."""
    return _translation(error) is _FORBIDDEN


def translate(error: SQLAlchemyError, location: str, deadline_s: float) -> HarnessError:
    """Return the error of this package for an error of the database."""
    kind, text, hint = _translation(error)
    cause: Any = getattr(error, "orig", None) or error
    lines = str(cause).strip().splitlines()
    reason = lines[0] if lines else type(cause).__name__
    return kind(f"{text.format(location=location, deadline=deadline_s)}: {reason}", hint=hint)


def _translation(error: SQLAlchemyError) -> _Translation:
    if not isinstance(error, DBAPIError):
        return _UNKNOWN
    if (name := _sqlite_name(error)) is not None:
        return _SQLITE.get(name, _UNKNOWN)
    state = getattr(error.orig, "sqlstate", None)
    if state is None:
        message = str(error.orig)
        return _REFUSED if any(text in message for text in _REFUSALS) else _UNREACHABLE
    return _POSTGRESQL.get(state) or _POSTGRESQL.get(state[:2]) or _UNKNOWN


def _sqlite_name(error: DBAPIError) -> str | None:
    """Return SQLite's name of the error; None for an error of another database."""
    name: str | None = getattr(error.orig, "sqlite_errorname", None)
    if name is None:
        is_sqlite = type(error.orig).__module__ == "sqlite3"
        return "SQLITE_ERROR" if is_sqlite else None
    return "_".join(name.split("_")[:2])
