"""Exceptions of this package, with their exit codes and owners.

The class decides the exit code of the command line: 2 usage or configuration, 3 not comparable,
4 the target misbehaved, 75 infrastructure that may be retried, 1 a failed check when the Python
API raises one. No exception here stands for 0, a pass, for 70, any other exception, for 130, an
interrupt, and for 143, SIGTERM. A command whose output nobody reads ends by SIGPIPE. The class also
names the owner of the failure. A nightly run probes the board afterwards and may attribute the
failure to another owner.
"""

from __future__ import annotations

import errno
import os
from collections.abc import Collection
from enum import StrEnum
from typing import TYPE_CHECKING, ClassVar, Final

from harness.printing import message_lines, without_commands

if TYPE_CHECKING:
    from harness.records.verdict import Verdict

EXIT_CODES: Final = (
    "Exit codes: 0 pass; 1 a check failed; 2 usage or configuration; 3 results not comparable; "
    "4 the target misbehaved; 70 a defect of etharness; 75 infrastructure, safe to retry; "
    "130 interrupted; 143 terminated."
)
"""Exit codes of the command line in a sentence."""


EXHAUSTED: Final = (
    *(errno.ENOSPC, errno.EDQUOT, errno.EFBIG, errno.EIO, errno.EROFS),
    *(errno.ENOMEM, errno.EMFILE, errno.ENFILE),
)
"""System errors about missing resources of the host. The caller is to blame for any other one."""


class Owner(StrEnum):
    """The area in which a failure has to be fixed.

    Attributes:
        PRODUCT: Model and firmware: a check failed, or the firmware crashed.
        TEST: Test inputs: command line, configuration files, budgets, plans.
        LINK: The line to the board: cable, adapter, port, noise.
        FLASH: Flashing tools, and the firmware that they should have written.
        BOARD: The physical board or its power supply.
        HOST: The computer it is connected to: disk, programs, other processes.
    """

    PRODUCT = "product"
    TEST = "test"
    LINK = "link"
    FLASH = "flash"
    BOARD = "board"
    HOST = "host"


class HarnessError(Exception):
    """Base class of all failures that this package raises on purpose.

    Attributes:
        message: What failed, and on which board, file or line.
        hint: What to try next, or an empty string.
        exit_code: Exit code of the command line.
        owner: The area in which it has to be fixed.

    Examples:
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

    def __str__(self) -> str:
        """Return the message, safe to print: a traceback, a log or pytest may show it."""
        return without_commands("\n".join(message_lines(self.message, indent="")))


class UsageError(HarnessError):
    """The request or a configuration file is wrong; the same command will fail again."""

    exit_code = 2
    owner = Owner.TEST


class MissingFileError(UsageError, FileNotFoundError):
    """A file that the user named does not exist."""


class FormatError(UsageError):
    """A file is damaged or has the wrong format.

    Attributes:
        offset: Byte offset of the defect in the file, or None.
        field: Name of the invalid field, or an empty string.
    """

    def __init__(
        self, message: str, *, offset: int | None = None, field: str = "", hint: str = ""
    ) -> None:
        place = "" if offset is None else f" at byte {offset}"
        super().__init__(f"{message}{f' in {field}' if field else ''}{place}", hint=hint)
        self.offset = offset
        self.field = field

    def of_file(self, path: object) -> FormatError:
        """Return this error with the name of the file, if it has one, before its message."""
        named = FormatError(f"{path}: {self.message}" if path else self.message, hint=self.hint)
        named.offset, named.field = self.offset, self.field
        return named


class DamagedError(UsageError):
    """A file of a run differs from the one recorded in its result."""

    owner = Owner.HOST


class NotWritableError(UsageError):
    """A history cannot be written: nobody may, or the user may not."""

    owner = Owner.HOST


class NotComparableError(HarnessError):
    """Two results cannot be compared."""

    exit_code = 3
    owner = Owner.TEST


class ChecksFailedError(HarnessError, AssertionError):
    """Checks of a run failed; ``Run.raise_for_verdict`` raises it, and a failed test shows it.

    Attributes:
        verdict: The verdict, with all checks; None where only the text is known.

    Examples:
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
        status: The link status (see ``harness.link.wire.Status``).
        detail: The detail number; its meaning depends on the status.
        executorch_error: The error code of ExecuTorch's runtime, which `detail` then is; None
            if the failure is not ExecuTorch's.
    """

    def __init__(
        self,
        message: str,
        *,
        status: int,
        detail: int,
        executorch_error: int | None = None,
        hint: str = "",
    ) -> None:
        super().__init__(message, hint=hint)
        self.status = status
        self.detail = detail
        self.executorch_error = executorch_error


class RestartedError(TargetError):
    """The board restarted by itself: a fault, a watchdog reset, a power failure."""


class WrongFirmwareError(TargetError):
    """The board does not run the firmware that was flashed or requested."""

    owner = Owner.FLASH


class WrongBoardError(TargetError):
    """A different board is connected, or the board does not match its board file."""

    owner = Owner.BOARD


class InfrastructureError(HarnessError):
    """The host, the link or a tool failed; a retry is safe."""

    exit_code = 75
    owner = Owner.HOST


class HostError(InfrastructureError):
    """This computer lacks a resource: disk space, memory, write permission."""

    @classmethod
    def of(cls, error: OSError | MemoryError, action: str) -> HostError:
        """Return the HostError for an error of the operating system.

        Args:
            error: The system's error.
            action: Beginning of the message: the action that failed.
        """
        if isinstance(error, MemoryError):
            return cls(f"{action}: out of memory", hint="end other programs, or request less")
        file = f": {os.fsdecode(error.filename)}" if error.filename else ""
        disk_full = error.errno in (errno.ENOSPC, errno.EDQUOT)
        hint = "free space on that disk, and try again" if disk_full else ""
        return cls(f"{action}: {error.strerror or error}{file}", hint=hint)


def write_error(error: OSError, action: str) -> HarnessError:
    """Return the error for a file that the user named and that cannot be written.

    It is the host's if it has no space, and the user's if the file cannot be there.
    """
    if error.errno in EXHAUSTED:
        return HostError.of(error, action)
    return UsageError(f"{action}: {error.strerror or error}")


class BusyError(InfrastructureError):
    """The board is leased to another process or person."""


class RunInProgressError(InfrastructureError):
    """The board executes a run of an earlier session, and serves no other one until its end.

    Attributes:
        run_id: The board's number of that run.
        completed: Executions completed.
        count: Executions requested.
    """

    def __init__(self, message: str, *, run_id: int, completed: int, count: int) -> None:
        super().__init__(
            message,
            hint="`etharness pull --wait` waits for its end and reads its trace; "
            "`etharness pull --cancel` ends it first",
        )
        self.run_id = run_id
        self.completed = completed
        self.count = count


class FlashError(InfrastructureError):
    """A tool failed to write or verify an image on a board.

    Attributes:
        retryable: Whether a second attempt may succeed.
    """

    owner = Owner.FLASH

    def __init__(self, message: str, *, hint: str = "", retryable: bool = True) -> None:
        super().__init__(message, hint=hint)
        self.retryable = retryable


class PowerError(InfrastructureError):
    """The power of a board could not be switched."""


class NotBackError(InfrastructureError):
    """A board's power came back, but its port did not."""

    owner = Owner.BOARD


class MeterError(InfrastructureError):
    """A current meter, such as a PPK2, was not found, did not answer or stopped sending."""


class LinkError(InfrastructureError):
    """The link timed out, or its responses were inconsistent."""

    owner = Owner.LINK


class PortError(LinkError):
    """The port of a board cannot be found, opened or configured."""


class ProbeError(LinkError):
    """A debug probe cannot be reached, does not answer, or cannot do what was asked."""


class PartialReadError(LinkError):
    """A region could be read only in part.

    Attributes:
        data: The bytes before the first gap.
    """

    def __init__(self, message: str, *, data: bytes, hint: str = "") -> None:
        super().__init__(message, hint=hint)
        self.data = data


class TransportClosedError(LinkError):
    """The byte stream to the target ended."""


def did_you_mean(wrong: str, known: Collection[str]) -> str:
    """Return the beginning of a hint that suggests a similar known name; "" without one."""
    import difflib  # slow to import, and needed only for errors

    close = difflib.get_close_matches(wrong, known, n=1)
    return f"did you mean {close[0]!r}? " if close else ""
