"""Whose a failure is: what the result says, how the process ended, and what the board answers then.

A crash of the product and a dead board look the same in a run: nothing answers. What tells them
apart is the board itself, asked afterwards, after a power cycle where that is possible: if it
answers, the product or the line was at fault, else the board is.
"""

from __future__ import annotations

import re
import signal
from dataclasses import dataclass, replace
from typing import Final

from harness.errors import Owner
from harness.nightly.child import Ending
from harness.records.result import UNFINISHED, Failure, Result

_OF_CODES: Final = {
    2: Owner.TEST,
    3: Owner.TEST,
    4: Owner.PRODUCT,
    74: Owner.FLASH,
    76: Owner.LINK,
}
"""Whose the failure of a command without a result is, by its exit code; else the host's."""

_NO_ROOM: Final = re.compile(
    r"No space left on device|Disk quota exceeded|MemoryError|Cannot alloc"
)


@dataclass(frozen=True, slots=True)
class Examined:
    """What a unit answered when it was asked how it is.

    Attributes:
        well: It is.
        owner: Who has to look at it; None if nobody has to.
        message: What it said, or what was wrong.
    """

    well: bool
    owner: Owner | None = None
    message: str = ""


@dataclass(frozen=True, slots=True)
class Cause:
    """Why an attempt ended as it did.

    Attributes:
        passed: It did.
        stopped: It was ended with the night.
        owner: Who has to look at it.
        kind: Class of the failure, or codes of checks.
        message: What happened.
        hint: What to try.
        asks: What the board says could make it another owner's.
        evidence: What was found out besides, in order.
    """

    passed: bool = False
    stopped: bool = False
    owner: Owner | None = None
    kind: str = ""
    message: str = ""
    hint: str = ""
    asks: bool = False
    evidence: tuple[str, ...] = ()


def cause_of(ending: Ending | None, result: Result | None, deadline_s: float) -> Cause:
    """Say why a run ended as it did, as far as that can be told without asking its board.

    Args:
        ending: How its process ended; None if nobody saw that.
        result: What its directory says.
        deadline_s: The deadline that it had, seconds.
    """
    if result is not None and not result.unfinished:
        return _by_result(ending, result)
    if ending is None or ending.stopped:
        return Cause(stopped=True, message="ended with the night")
    if ending.expired:
        # Without a result nothing had been started: it is this host that was busy or stuck.
        owner = Owner.HOST if result is None else Owner.PRODUCT
        message = f"did not end within {deadline_s:g} s"
        hint = "give it longer with deadlines.attempt_s, or fewer runs"
        return Cause(
            owner=owner, kind="Deadline", message=message, hint=hint, asks=result is not None
        )
    return _by_process(ending)


def command_failed(
    ending: Ending, default: Owner, what: str, deadline_s: float, failure: Failure | None = None
) -> Cause | None:
    """Say why another command than a run failed; None if it did not.

    Args:
        ending: How it ended.
        default: Whose it is unless its exit code says more.
        what: What it was to do, for people.
        deadline_s: The deadline that it had, seconds.
        failure: What it has written down of that, if it does such a thing.
    """
    if ending.code == 0 and not ending.expired:
        return None
    if ending.stopped:
        return Cause(stopped=True, message="ended with the night")
    if ending.expired:
        message = f"{what} did not end within {deadline_s:g} s"
        return Cause(owner=default, kind="Deadline", message=message)
    if failure is not None and failure.owner is not None and failure.kind != UNFINISHED:
        # A board whose port is gone cannot be flashed, which is no fault of the flashing.
        texts = (failure.kind, f"{what}: {failure.message}", failure.hint)
        return Cause(False, False, failure.owner, *texts, asks=failure.owner is Owner.LINK)
    cause = _by_process(ending)
    infrastructure = ending.code == 75 and not _NO_ROOM.search(ending.said)
    owner = default if infrastructure or ending.code == 4 else cause.owner
    return replace(cause, owner=owner, message=f"{what}: {cause.message}", asks=False)


def refined(cause: Cause, examined: Examined, cycles: int) -> Cause:
    """The same in the light of what the board answered, after so many power cycles.

    If it is not well, whose that is the failure is, too: a silent board's, but a line's from which
    only noise comes, or whose server is gone.
    """
    after = f" after {cycles} power cycle{'s' if cycles > 1 else ''}" if cycles else ""
    if examined.well:
        return replace(cause, evidence=(*cause.evidence, f"the board answers{after}"))
    said = f"the board is not well{after}: {examined.message}"
    owner = examined.owner or Owner.BOARD
    if cause.owner is Owner.PRODUCT and owner is Owner.LINK:
        owner = Owner.PRODUCT  # a line that fails now says nothing of a crash before
    return replace(cause, owner=owner, evidence=(*cause.evidence, said))


def _by_result(ending: Ending | None, result: Result) -> Cause:
    evidence: tuple[str, ...] = ()
    if ending is None:
        evidence = ("its result was found when the night went on",)
    elif ending.code != result.exit_code:
        evidence = (f"its result was complete when its process ended with {ending.text}",)
    failure = result.failure
    if failure is not None:
        if failure.kind == "KeyboardInterrupt":
            if ending is None or ending.stopped:
                return Cause(stopped=True, message="ended with the night")
            return Cause(owner=Owner.HOST, kind=failure.kind, message="somebody interrupted it")
        owner = failure.owner or _OF_CODES.get(result.exit_code, Owner.HOST)
        asks = owner is Owner.LINK or (owner is Owner.PRODUCT and result.exit_code == 4)
        texts = (failure.kind, failure.message, failure.hint)
        return Cause(False, False, owner, *texts, asks=asks, evidence=evidence)
    if result.exit_code == 0:
        return Cause(passed=True, evidence=evidence)
    failed = [check for check in (result.verdict.checks if result.verdict else ()) if check.failed]
    kinds = ", ".join(dict.fromkeys(check.code for check in failed))
    first = failed[0] if failed else None
    message = (
        f"{first.code} {first.subject}: {first.reason}" if first else "its verdict is a failure"
    )
    if len(failed) > 1:
        message += f"; and {len(failed) - 1} checks more"
    return Cause(owner=Owner.PRODUCT, kind=kinds, message=message, evidence=evidence)


def _by_process(ending: Ending) -> Cause:
    """What a process that left no result says of it by its end."""
    message, hint = _said(ending)
    if ending.code is not None and ending.code < 0:
        name = _signal_name(-ending.code)
        hint = (
            "look for it in the kernel's log: memory may have run out" if name == "SIGKILL" else ""
        )
        killed = f"its process was killed by {name}"
        return Cause(owner=Owner.HOST, kind=name, message=killed, hint=hint)
    if _NO_ROOM.search(ending.said):
        return Cause(owner=Owner.HOST, kind="NoRoom", message=message, hint=hint)
    code = ending.code
    owner = _OF_CODES.get(code if code is not None else -1, Owner.HOST)
    text = message or "it said nothing"
    return Cause(
        owner=owner,
        kind=f"exit {code}",
        message=text if owner is not Owner.HOST else f"it left no result ({ending.text}): {text}",
        hint=hint,
        asks=owner in (Owner.PRODUCT, Owner.LINK),
    )


def _said(ending: Ending) -> tuple[str, str]:
    """The error and the remedy that a command printed, or else its last line."""
    error = re.findall(r"^error: (.*)$", ending.said, re.MULTILINE | re.IGNORECASE)
    hint = re.findall(r"^  try: (.*)$", ending.said, re.MULTILINE)
    lines = ending.said.splitlines()
    last = lines[-1].strip() if lines else ""
    return (error[-1] if error else last), (hint[-1] if hint else "")


def _signal_name(number: int) -> str:
    try:
        return signal.Signals(number).name
    except ValueError:
        return f"signal {number}"
