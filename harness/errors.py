"""Every failure this package raises on purpose, and who owns it.

The class decides the exit code of the command line: 2 usage or configuration, 3 not comparable,
4 the target misbehaved, 75 infrastructure that may be retried. (0 is a pass, 1 a failed check,
130 an interrupt; none of these is an exception here.)
"""

from __future__ import annotations

from collections.abc import Collection
from typing import ClassVar


class HarnessError(Exception):
    """A failure with an owner.

    Attributes:
        message: What happened, to which board, file or place.
        hint: What to try next, or an empty string.
        exit_code: What the command line returns.
    """

    exit_code: ClassVar[int] = 70

    def __init__(self, message: str, *, hint: str = "") -> None:
        super().__init__(message)
        self.message = message
        self.hint = hint


class UsageError(HarnessError):
    """The request or a configuration file is wrong; the same command will fail again."""

    exit_code = 2


class FormatError(UsageError):
    """A file is not what it should be.

    Attributes:
        offset: Byte offset in the file where the defect was found, or None.
        field: Name of the field that is wrong, or an empty string.
    """

    def __init__(
        self, message: str, *, offset: int | None = None, field: str = "", hint: str = ""
    ) -> None:
        place = "" if offset is None else f" at byte {offset}"
        super().__init__(f"{message}{f' in {field}' if field else ''}{place}", hint=hint)
        self.offset = offset
        self.field = field


class NotComparableError(HarnessError):
    """Two results cannot be held against each other."""

    exit_code = 3


class TargetError(HarnessError):
    """The board or its firmware misbehaved: crash, hang, refusal, unsupported model."""

    exit_code = 4


class DeviceRefusedError(TargetError):
    """The device answered a request with an error.

    Attributes:
        status: The link status it gave (see ``harness.link.wire.Status``).
        detail: The number that came with it; its meaning depends on the status.
    """

    def __init__(self, message: str, *, status: int, detail: int, hint: str = "") -> None:
        super().__init__(message, hint=hint)
        self.status = status
        self.detail = detail


class RestartedError(TargetError):
    """The board started again by itself: a fault, a watchdog, its supply."""


class InfrastructureError(HarnessError):
    """Something between us and the target failed; a retry is safe."""

    exit_code = 75


class LinkError(InfrastructureError):
    """The link gave no usable answer in time, or contradicted itself."""


class PartialReadError(LinkError):
    """A region could not be read whole.

    Attributes:
        data: Its bytes up to the first that is missing.
    """

    def __init__(self, message: str, *, data: bytes, hint: str = "") -> None:
        super().__init__(message, hint=hint)
        self.data = data


class TransportClosedError(LinkError):
    """The byte stream to the target ended."""


def did_you_mean(wrong: str, known: Collection[str]) -> str:
    """The beginning of a hint: which of the known names was probably meant; "" if none is close."""
    import difflib  # takes a while, and is needed only when something is wrong

    close = difflib.get_close_matches(wrong, known, n=1)
    return f"did you mean {close[0]!r}? " if close else ""
