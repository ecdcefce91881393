"""BaselineRef: which earlier results a new one is held against, as people write it."""

from __future__ import annotations

from typing import Final, Literal

import msgspec

from harness.errors import UsageError

How = Literal["name", "commit", "last"]


class BaselineRef(msgspec.Struct, frozen=True):
    """A choice of earlier results.

    Attributes:
        how: ``name``: those that were given a name; ``commit``: those of a commit; ``last``: the
            newest ones.
        what: The name, the beginning of the commit, or how many.
    """

    how: How
    what: str

    def __str__(self) -> str:
        return f"{self.how}:{self.what}"

    @property
    def description(self) -> str:
        """It in words."""
        return f"the last {self.what}" if self.how == "last" else f"{self.how} {self.what}"


DEFAULT_BASELINE: Final = BaselineRef("last", "20")
"""The newest twenty results."""

_HINT: Final = "write name:v1.2, commit:abc123 or last:20"
_LEAST_OF_COMMIT: Final = 4
"""Digits of a commit below which it would match by chance."""


def parse_baseline(text: str) -> BaselineRef:
    """Read ``name:NAME``, ``commit:PREFIX`` or ``last:COUNT``.

    Raises:
        UsageError: It is none of these.
    """
    how, colon, what = text.strip().partition(":")
    what = what.strip()
    if not colon or how not in ("name", "commit", "last") or not what:
        raise UsageError(f"{text!r} says no baseline", hint=_HINT)
    if how == "last" and not (what.isascii() and what.isdigit() and int(what)):
        raise UsageError(f"{text!r} says no baseline: {what!r} is no count", hint=_HINT)
    if how == "commit" and len(what) < _LEAST_OF_COMMIT:
        raise UsageError(
            f"{text!r} says too little of a commit", hint=f"give {_LEAST_OF_COMMIT} digits or more"
        )
    return BaselineRef(how, str(int(what)) if how == "last" else what)  # type: ignore[arg-type]
