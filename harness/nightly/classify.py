"""Attributes a failed attempt to an owner, by its result, its process, and then its board.

In a run, a crash of the product and a dead board look the same: nothing answers. So the board is
probed afterwards, after a power cycle if possible: if it answers, the product or the line failed;
otherwise the board did.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, replace
from typing import Final

from harness.errors import Owner
from harness.nightly.child import Ending
from harness.records.result import UNFINISHED, Failure, Result
from harness.target.process_group import signal_name

_OF_CODES: Final = {
    2: Owner.TEST,
    3: Owner.TEST,
    4: Owner.PRODUCT,
    74: Owner.FLASH,
    76: Owner.LINK,
}
"""Owner of a failed command without a result, by exit code; the host for other codes."""

_INTERRUPTS: Final = ("KeyboardInterrupt", "Terminated")
"""Kinds of failures of runs that Ctrl-C or SIGTERM ended."""

_NO_ROOM: Final = re.compile(
    r"No space left on device|Disk quota exceeded|MemoryError|Cannot alloc"
)


@dataclass(frozen=True, slots=True)
class Examined:
    """The health of a unit.

    Attributes:
        well: Whether it is healthy.
        owner: Owner of the failure; None for a healthy unit.
        message: Warnings, or the failure.
    """

    well: bool
    owner: Owner | None = None
    message: str = ""


@dataclass(frozen=True, slots=True)
class Cause:
    """Why an attempt ended.

    Attributes:
        passed: Whether it passed.
        stopped: Whether it was ended because the nightly run stopped.
        owner: Owner of the failure.
        kind: Class of the failure, or codes of the failed checks.
        message: What failed.
        hint: What to try.
        ask_board: Whether probing the board may attribute it to another owner.
        evidence: Further findings, in order.
    """

    passed: bool = False
    stopped: bool = False
    owner: Owner | None = None
    kind: str = ""
    message: str = ""
    hint: str = ""
    ask_board: bool = False
    evidence: tuple[str, ...] = ()


def cause_of(ending: Ending | None, result: Result | None, deadline_s: float) -> Cause:
    """Return why a run ended, before its board is probed.

    Args:
        ending: The end of its process; None if it ended while no nightly run was active.
        result: The result in its directory; None if there is none.
        deadline_s: Its deadline, seconds.
    """
    if result is not None and not result.unfinished:
        return _by_result(ending, result)
    if ending is None or ending.stopped:
        return Cause(stopped=True, message="stopped with the nightly run")
    if ending.expired:
        # Without a result nothing was started: this host was busy or stuck.
        owner = Owner.HOST if result is None else Owner.PRODUCT
        message = f"timed out after {deadline_s:g} s"
        hint = "raise deadlines.attempt_s, or reduce runs"
        return Cause(
            owner=owner, kind="Deadline", message=message, hint=hint, ask_board=result is not None
        )
    return _by_process(ending)


def command_failed(
    ending: Ending, default: Owner, what: str, deadline_s: float, failure: Failure | None = None
) -> Cause | None:
    """Return why a command other than a run failed; None if it succeeded.

    Args:
        ending: The end of its process.
        default: Owner of the failure unless the exit code tells another.
        what: Name of the action, for messages.
        deadline_s: Its deadline, seconds.
        failure: The failure that it recorded, if any.
    """
    if ending.code == 0 and not ending.expired:
        return None
    if ending.stopped:
        return Cause(stopped=True, message="stopped with the nightly run")
    if ending.expired:
        message = f"{what} timed out after {deadline_s:g} s"
        return Cause(owner=default, kind="Deadline", message=message)
    if failure is not None and failure.owner is not None and failure.kind != UNFINISHED:
        # The record names the owner: a missing port fails a flash, but is not a flash failure.
        texts = (failure.kind, f"{what}: {failure.message}", failure.hint)
        return Cause(False, False, failure.owner, *texts, ask_board=failure.owner is Owner.LINK)
    cause = _by_process(ending)
    infrastructure = ending.code == 75 and not _NO_ROOM.search(ending.output)
    owner = default if infrastructure or ending.code == 4 else cause.owner
    return replace(cause, owner=owner, message=f"{what}: {cause.message}", ask_board=False)


def refine(cause: Cause, examined: Examined, cycles: int) -> Cause:
    """Return the cause with what the board's health adds, after ``cycles`` power cycles.

    An unhealthy board passes its owner on to the failure: the board's if it is silent, the line's
    if only noise arrives or the server of the port is gone.
    """
    after = f" after {cycles} power cycle{'s' if cycles > 1 else ''}" if cycles else ""
    if examined.well:
        return replace(cause, evidence=(*cause.evidence, f"the board answers{after}"))
    finding = f"the board is not healthy{after}: {examined.message}"
    owner = examined.owner or Owner.BOARD
    if cause.owner is Owner.PRODUCT and owner is Owner.LINK:
        owner = Owner.PRODUCT  # a line that fails now does not explain an earlier crash
    return replace(cause, owner=owner, evidence=(*cause.evidence, finding))


def _by_result(ending: Ending | None, result: Result) -> Cause:
    evidence: tuple[str, ...] = ()
    if ending is None:
        evidence = ("the result was found when the nightly run resumed",)
    elif ending.code != result.exit_code:
        evidence = (f"the result was complete before the process ended with {ending.text}",)
    failure = result.failure
    if failure is not None:
        if failure.kind in _INTERRUPTS:
            if ending is None or ending.stopped:
                return Cause(stopped=True, message="stopped with the nightly run")
            return Cause(owner=Owner.HOST, kind=failure.kind, message="interrupted")
        owner = failure.owner or _OF_CODES.get(result.exit_code, Owner.HOST)
        ask_board = owner is Owner.LINK or (owner is Owner.PRODUCT and result.exit_code == 4)
        texts = (failure.kind, failure.message, failure.hint)
        return Cause(False, False, owner, *texts, ask_board=ask_board, evidence=evidence)
    if result.exit_code == 0:
        return Cause(passed=True, evidence=evidence)
    failed = [check for check in (result.verdict.checks if result.verdict else ()) if check.failed]
    kinds = ", ".join(dict.fromkeys(check.code for check in failed))
    first = failed[0] if failed else None
    message = f"{first.code} {first.subject}: {first.reason}" if first else "the verdict is FAIL"
    if len(failed) > 1:
        message += f"; and {len(failed) - 1} more check{'s' if len(failed) > 2 else ''}"
    return Cause(owner=Owner.PRODUCT, kind=kinds, message=message, evidence=evidence)


def _by_process(ending: Ending) -> Cause:
    """Return why a process without a result ended."""
    message, hint = _printed_error(ending)
    if ending.code is not None and ending.code < 0:
        name = signal_name(-ending.code)
        hint = (
            "see the kernel log: the host may have run out of memory" if name == "SIGKILL" else ""
        )
        killed = f"process killed by {name}"
        return Cause(owner=Owner.HOST, kind=name, message=killed, hint=hint)
    if _NO_ROOM.search(ending.output):
        return Cause(owner=Owner.HOST, kind="NoRoom", message=message, hint=hint)
    code = ending.code
    owner = _OF_CODES.get(code if code is not None else -1, Owner.HOST)
    text = message or "no output"
    return Cause(
        owner=owner,
        kind=f"exit {code}",
        message=text if owner is not Owner.HOST else f"no result ({ending.text}): {text}",
        hint=hint,
        ask_board=owner in (Owner.PRODUCT, Owner.LINK),
    )


def _printed_error(ending: Ending) -> tuple[str, str]:
    """Return the error and the hint that a command printed, or else its last line."""
    error = re.findall(r"^error: (.*)$", ending.output, re.MULTILINE | re.IGNORECASE)
    hint = re.findall(r"^  try: (.*)$", ending.output, re.MULTILINE)
    lines = ending.output.splitlines()
    last = lines[-1].strip() if lines else ""
    return (error[-1] if error else last), (hint[-1] if hint else "")
