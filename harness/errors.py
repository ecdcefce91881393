"""Every failure this package raises on purpose, and who owns it.

The class decides the exit code of the command line: 2 usage or configuration, 3 not comparable,
4 the target misbehaved, 75 infrastructure that may be retried, 1 a failed check when the Python
API raises one. (0 is a pass, 130 an interrupt; neither is an exception here.) It says, too, whose
the failure is, as far as one failure alone can tell: a night asks the board afterwards, and may
find that it was another's.
"""

from __future__ import annotations

import errno
import os
from collections.abc import Collection
from enum import StrEnum
from typing import TYPE_CHECKING, ClassVar

if TYPE_CHECKING:
    from harness.records.verdict import Verdict


class Owner(StrEnum):
    """Who has to look at a failure.

    Attributes:
        PRODUCT: Whoever makes the model and the firmware: a check failed, or it crashed.
        TEST: Whoever wrote what was asked for: files, budgets, plans.
        LINK: The line to the board: cable, adapter, port, what is on it.
        FLASH: What brings firmware onto the board, and whether it got there.
        BOARD: The physical board itself, or what feeds it.
        HOST: The computer it is connected to: disk, programs, other processes.
    """

    PRODUCT = "product"
    TEST = "test"
    LINK = "link"
    FLASH = "flash"
    BOARD = "board"
    HOST = "host"


class HarnessError(Exception):
    """A failure with an owner; every error that this package raises on purpose is one.

    Attributes:
        message: What happened, to which board, file or place.
        hint: What to try next, or an empty string.
        exit_code: What the command line returns.
        owner: Who has to look at it.

    Example:
        >>> import harness
        >>> try:
        ...     harness.load("no/such/run")
        ... except harness.HarnessError as error:
        ...     print(error.exit_code)
        2
    """

    exit_code: ClassVar[int] = 70
    owner: ClassVar[Owner] = Owner.HOST

    def __init__(self, message: str, *, hint: str = "") -> None:
        super().__init__(message)
        self.message = message
        self.hint = hint


class UsageError(HarnessError):
    """The request or a configuration file is wrong; the same command will fail again."""

    exit_code = 2
    owner = Owner.TEST


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


class DamagedError(UsageError):
    """A file of a run is not the one that its result records."""

    owner = Owner.HOST


class NotComparableError(HarnessError):
    """Two results cannot be held against each other."""

    exit_code = 3
    owner = Owner.TEST


class ChecksFailedError(HarnessError, AssertionError):
    """Checks of a run failed; ``Run.raise_for_verdict`` raises it, and a failed test shows it.

    Attributes:
        verdict: The verdict, with all checks; None where only the text is known.

    Example:
        >>> import harness
        >>> run = harness.run("kws_int8", board="native")
        >>> try:
        ...     good = run.raise_for_verdict()
        ... except harness.ChecksFailedError as error:
        ...     print(error.verdict.failures)
    """

    exit_code = 1
    owner = Owner.PRODUCT

    def __init__(self, message: str, *, verdict: Verdict | None = None, hint: str = "") -> None:
        super().__init__(message, hint=hint)
        self.verdict = verdict


class TargetError(HarnessError):
    """The board or its firmware misbehaved: crash, hang, refusal, unsupported model."""

    exit_code = 4
    owner = Owner.PRODUCT


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


class WrongFirmwareError(TargetError):
    """The board runs other firmware than it was given, or than was asked for."""

    owner = Owner.FLASH


class WrongBoardError(TargetError):
    """The board is another than the one asked for, or not what its file says."""

    owner = Owner.BOARD


class InfrastructureError(HarnessError):
    """Something between us and the target failed; a retry is safe."""

    exit_code = 75
    owner = Owner.HOST


class HostError(InfrastructureError):
    """This computer lacks something: room on a disk, memory, the right to write a file."""

    @classmethod
    def of(cls, error: OSError | MemoryError, what: str) -> HostError:
        """The same of what the system has said.

        Args:
            error: What that is.
            what: What could not be done because of it.
        """
        if isinstance(error, MemoryError):
            return cls(f"{what}: memory has run out", hint="end other programs, or ask for less")
        where = f": {os.fsdecode(error.filename)}" if error.filename else ""
        room = error.errno in (errno.ENOSPC, errno.EDQUOT)
        hint = "make room on that disk, and try again" if room else ""
        return cls(f"{what}: {error.strerror or error}{where}", hint=hint)


class BusyError(InfrastructureError):
    """Somebody else holds the board."""


class FlashError(InfrastructureError):
    """A tool could not bring an image onto a board, or not whole.

    Attributes:
        again: Whether the same may succeed when it is tried again.
    """

    owner = Owner.FLASH

    def __init__(self, message: str, *, hint: str = "", again: bool = True) -> None:
        super().__init__(message, hint=hint)
        self.again = again


class PowerError(InfrastructureError):
    """The power of a board could not be switched."""


class NotBackError(InfrastructureError):
    """A board's power came back, but its port did not."""

    owner = Owner.BOARD


class LinkError(InfrastructureError):
    """The link gave no usable answer in time, or contradicted itself."""

    owner = Owner.LINK


class PortError(LinkError):
    """The port that a board is on cannot be found, opened or set up."""


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
