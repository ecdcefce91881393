"""Address of a history: the path of an SQLite file, or the URL of a server with its secrets."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Final
from urllib.parse import parse_qsl, unquote, unquote_plus

from harness.files import absolute

HIDDEN: Final = "***"

_URL: Final = re.compile(
    r"(?P<scheme>[\w+.-]+)://"
    r"(?:(?P<user>[^:/]*)(?::(?P<password>[^@]*))?@)?"
    r"(?P<host>\[[^/?]+\]|[^/:?]*)(?::(?P<port>\d*))?"
    r"(?:/(?P<database>[^?]*))?"
    r"(?:\?(?P<query>.*))?",
    re.DOTALL,
)
"""The parts as SQLAlchemy reads them, which connects with them."""

_HARMLESS: Final = frozenset(
    (
        *("application_name", "channel_binding", "client_encoding", "connect_timeout", "dbname"),
        *("gssencmode", "host", "hostaddr", "keepalives", "keepalives_count", "keepalives_idle"),
        *("keepalives_interval", "load_balance_hosts", "port", "sslcert", "sslcertmode", "sslmode"),
        *("sslrootcert", "target_session_attrs", "tcp_user_timeout", "user"),
        *("cache", "immutable", "mode", "uri"),  # SQLite's
    )
)
"""Keys of a query whose values are shown; a key that a later libpq adds may be a secret."""

_SETTING: Final = re.compile(r"(?:^|\s)(?:host|hostaddr|dbname|user|password|port)\s*=")
_LIKE_URL: Final = re.compile(r"(?:postgres\w*(?:\+\w+)?|jdbc):", re.IGNORECASE)


class StoreAddress:
    """The path or URL of a history. Its text, ``str`` and ``repr``, hides passwords.

    Only the code that connects asks for ``with_secrets``. Two addresses are equal if their secrets
    are equal, too.
    """

    __slots__ = ("_text",)

    def __init__(self, text: str) -> None:
        """Take the path or URL as a person wrote it."""
        self._text = text

    @property
    def is_url(self) -> bool:
        """Whether it is a URL, and not a path."""
        return "://" in self._text

    @property
    def is_path(self) -> bool:
        """Whether it can be a path: it is no URL, and no connection string of another kind."""
        return not (self.is_url or _LIKE_URL.match(self._text) or _SETTING.search(self._text))

    @property
    def is_ambiguous(self) -> bool:
        """Whether an @ that is not encoded leaves open where the password ends."""
        parts = _URL.fullmatch(self._text)
        if parts is None or parts["scheme"].startswith("sqlite"):
            return False
        return any("@" in (parts[name] or "") for name in ("user", "host", "database", "query"))

    def within(self, folder: Path) -> StoreAddress:
        """Return the address with a relative path made relative to ``folder``; a URL as it is."""
        if not self.is_path or not self._text.strip():
            return self
        return StoreAddress(str(absolute(folder / Path(self._text).expanduser())))

    def with_secrets(self) -> str:
        """Return the address with its secrets, to connect with it or to hand it to a process."""
        return self._text

    def without_secrets(self, text: str) -> str:
        """Return a text, such as an error of a driver, in which no secret of it is readable."""
        for secret in sorted(self._secrets(), key=len, reverse=True):
            text = text.replace(secret, HIDDEN)
        return text

    def _secrets(self) -> set[str]:
        """Return the secrets as they are written, and decoded."""
        parts = _URL.fullmatch(self._text)
        if parts is None:
            return set() if self.is_path else {self._text}
        written = {parts["password"] or ""}
        written |= {
            pair.partition("=")[2]
            for pair in (parts["query"] or "").split("&")
            if is_secret(unquote_plus(pair.partition("=")[0]))
        }
        return {form for text in written for form in (text, unquote(text), unquote_plus(text))} - {
            ""
        }

    def __str__(self) -> str:
        if self.is_path:
            return self._text
        parts = _URL.fullmatch(self._text)
        if parts is None:
            scheme, sign, _ = self._text.partition("://")
            return f"{scheme}://{HIDDEN}" if sign and scheme.isalnum() else HIDDEN
        scheme = parts["scheme"]
        if self.is_ambiguous:
            return f"{scheme}://{HIDDEN}"
        user = parts["user"] or ""
        user += f":{HIDDEN}" if parts["password"] else ""
        text = f"{scheme}://{user}{'@' if user else ''}{parts['host']}"
        text += f":{parts['port']}" if parts["port"] else ""
        text += f"/{parts['database']}" if parts["database"] is not None else ""
        shown = [
            f"{key}={HIDDEN if is_secret(key) else value}"
            for key, value in parse_qsl(parts["query"] or "", keep_blank_values=True)
        ]
        return f"{text}?{'&'.join(shown)}" if shown else text

    def __repr__(self) -> str:
        return f"{type(self).__name__}({str(self)!r})"

    def __eq__(self, other: object) -> bool:
        return isinstance(other, StoreAddress) and self._text == other._text

    def __hash__(self) -> int:
        return hash(self._text)


def is_secret(key: str) -> bool:
    """Whether the value of a key of a URL's query may be a secret."""
    return key not in _HARMLESS


def address_of(url: str | StoreAddress) -> StoreAddress:
    """Return the address that a path or URL is."""
    return url if isinstance(url, StoreAddress) else StoreAddress(url)
