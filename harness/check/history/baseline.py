"""BaselineRef: which earlier results to compare a new one with, and its text form."""

from __future__ import annotations

from typing import Final, Literal

import msgspec

from harness.errors import UsageError

How = Literal["name", "commit", "last"]


class BaselineRef(msgspec.Struct, frozen=True):
    """A selection of earlier results.

    Attributes:
        how: ``name``: results stored under a name; ``commit``: results of a commit; ``last``: the
            newest results.
        what: The name, a prefix of the commit, or the number of results.
    """

    how: How
    what: str

    def __str__(self) -> str:
        return f"{self.how}:{self.what}"

    @property
    def description(self) -> str:
        """Text for reports, such as ``the last 20`` or ``name v1.2``."""
        return f"the last {self.what}" if self.how == "last" else f"{self.how} {self.what}"


DEFAULT_BASELINE: Final = BaselineRef("last", "20")
"""The newest twenty results."""

_HINT: Final = "write name:v1.2, commit:abc123 or last:20"
_MIN_COMMIT_DIGITS: Final = 4
"""A shorter prefix of a commit would match by chance."""


def parse_baseline(text: str) -> BaselineRef:
    """Read ``name:NAME``, ``commit:PREFIX`` or ``last:COUNT``.

    Raises:
        UsageError: The text has another form.
    """
    how, colon, what = text.strip().partition(":")
    what = what.strip()
    if not colon or how not in ("name", "commit", "last") or not what:
        raise UsageError(f"invalid baseline {text!r}", hint=_HINT)
    if how == "last" and not (what.isascii() and what.isdigit() and int(what)):
        raise UsageError(f"invalid baseline {text!r}: invalid count {what!r}", hint=_HINT)
    if how == "commit" and len(what) < _MIN_COMMIT_DIGITS:
        raise UsageError(
            f"invalid baseline {text!r}: commit prefix too short",
            hint=f"give {_MIN_COMMIT_DIGITS} digits or more",
        )
    return BaselineRef(how, str(int(what)) if how == "last" else what)  # type: ignore[arg-type]
