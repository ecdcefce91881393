"""Worker: runs all steps of one unit, and attributes each failed attempt to an owner.

The owner follows from the result, the process, and then the board. In a run, a crash of the product
and a dead board look the same: nothing answers. So the board is probed afterwards, after a power
cycle if possible: if it answers, the product or the line failed; otherwise the board did.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager, ExitStack
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Final, Literal, Protocol

from harness.errors import HarnessError, Owner
from harness.extensions.lab.nightly.journal import Ended, OfUnit, Progress, Record, Started
from harness.extensions.lab.nightly.plan import NightlyPlan, NightUnit
from harness.interrupts import signal_name
from harness.records.nightly import Attempt, NightlyStep, UnitEvent
from harness.records.result import UNFINISHED, Failure, Result
from harness.report.words import counted


@dataclass(frozen=True, slots=True)
class Ending:
    """The end of a child process.

    Attributes:
        code: Exit status, negative for the signal that killed it; None if it could not be started
            or killed.
        expired: Whether it was ended at its deadline.
        stopped: Whether it was ended because the nightly run stopped.
        seconds: How long it ran.
        output: The last part of its output.
    """

    code: int | None
    expired: bool
    stopped: bool
    seconds: float
    output: str

    @property
    def text(self) -> str:
        """A short description, such as ``exit 2``."""
        if self.stopped:
            return "stopped"
        if self.expired:
            return "deadline"
        if self.code is None:
            return "not started"
        return f"exit {self.code}" if self.code >= 0 else f"signal {-self.code}"


_OF_CODES: Final = {
    2: Owner.TEST,
    3: Owner.TEST,
    4: Owner.PRODUCT,
    74: Owner.FLASH,
    76: Owner.LINK,
}
"""Owner of a failed command without a result, by exit code; the host for other codes."""

_OF_HISTORY: Final = "H"
"""First letter of checks against history: a run that measures again has them, and the night judges
them of all its runs together."""

_INTERRUPTS: Final = ("KeyboardInterrupt", "Terminated")
"""Kinds of failures of runs that Ctrl-C or SIGTERM ended."""

_NO_ROOM: Final = re.compile(
    r"No space left on device|Disk quota exceeded|MemoryError|Cannot alloc"
)


@dataclass(frozen=True, slots=True)
class Cause:
    """Why an attempt ended, or an examination of a board, or a power cycle.

    Attributes:
        passed: Whether it passed.
        stopped: Whether it was ended because the nightly run stopped.
        owner: Owner of the failure.
        kind: Class of the failure, or codes of the failed checks.
        message: What failed; of a healthy board its warnings.
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


def refine(cause: Cause, examined: Cause, cycles: int) -> Cause:
    """Return the cause with what the board's health adds, after ``cycles`` power cycles.

    An unhealthy board passes its owner on to the failure: the board's if it is silent, the line's
    if only noise arrives or the server of the port is gone.
    """
    if examined.passed:
        return replace(cause, evidence=(*cause.evidence, f"the board answers{_after(cycles)}"))
    finding = f"the board is not healthy{_after(cycles)}: {examined.message}"
    owner = examined.owner or Owner.BOARD
    if cause.owner is Owner.PRODUCT and owner is Owner.LINK:
        owner = Owner.PRODUCT  # a line that fails now does not explain an earlier crash
    return replace(cause, owner=owner, evidence=(*cause.evidence, finding))


def _after(cycles: int) -> str:
    return f" after {counted(cycles, 'power cycle')}" if cycles else ""


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
    if failed and all(check.code.startswith(_OF_HISTORY) for check in failed):
        return Cause(passed=True, evidence=evidence)
    kinds = ", ".join(dict.fromkeys(check.code for check in failed))
    first = failed[0] if failed else None
    message = f"{first.code} {first.subject}: {first.reason}" if first else "the verdict is FAIL"
    if len(failed) > 1:
        message += f"; and {counted(len(failed) - 1, 'more check')}"
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


INFRASTRUCTURE = (Owner.LINK, Owner.FLASH, Owner.BOARD, Owner.HOST)
"""Owners of failures that do not concern the tested product."""


class Effects(Protocol):
    """Actions of a nightly run. A fault of a board is a return value, not an exception.

    Workers use only this protocol, so that tests can replace it by a simulation with crashes at any
    point.
    """

    @property
    def stopped(self) -> bool:
        """Whether the nightly run is to stop."""
        ...

    def monotonic(self) -> float:
        """Seconds on a monotonic clock."""
        ...

    def utc(self) -> str:
        """The current time, ISO 8601."""
        ...

    def sleep(self, seconds: float) -> None:
        """Wait; return early when the nightly run stops."""
        ...

    def lease(self, unit: NightUnit, timeout_s: float) -> AbstractContextManager[object]:
        """Hold the lease of a unit.

        Raises:
            BusyError: The unit is in use by somebody else.
            HarnessError: The lease failed.
        """
        ...

    def expect(self, unit: NightUnit, seconds: float) -> None:
        """Tell those who wait for a unit that its lease probably ends in ``seconds``."""
        ...

    def slot(self, unit: NightUnit) -> AbstractContextManager[object]:
        """Wait for a free processor if the unit is simulated on this host."""
        ...

    def examine(self, unit: NightUnit) -> Cause:
        """Examine the health of a unit."""
        ...

    def power_cycle(self, unit: NightUnit) -> Cause:
        """Power-cycle a unit; passed if that succeeded."""
        ...

    def flash(self, unit: NightUnit, image: Path, *, again: bool) -> tuple[Ending, Failure | None]:
        """Flash a unit unless it runs the image; ``again`` flashes in any case.

        Returns:
            The end of the process, and the failure that it recorded.
        """
        ...

    def run(self, unit: NightUnit, step: NightlyStep, directory: Path, deadline_s: float) -> Ending:
        """Run a step."""
        ...

    def result(self, directory: Path) -> Result | None:
        """Read the result of a run directory; None if there is no readable result."""
        ...


class Worker:
    """Runs the steps of one unit."""

    def __init__(
        self,
        plan: NightlyPlan,
        unit: NightUnit,
        directory: Path,
        progress: Progress,
        effects: Effects,
        record: Callable[[Record], None],
        ends_at: float | None,
    ) -> None:
        """Prepare the work of a unit.

        Args:
            plan: The plan.
            unit: The unit.
            directory: The folder of the nightly run.
            progress: The state so far; only this worker changes it for this unit.
            effects: The actions that the worker can take.
            record: Adds a record to the journal and to ``progress``.
            ends_at: Deadline of the nightly run on the clock of ``effects``; None for none.
        """
        self._plan, self._unit, self._directory = plan, unit, directory
        self._progress, self._effects, self._record = progress, effects, record
        self._ends_at = ends_at
        self._in_a_row = 0
        self._flash_again = False

    def work(self, steps: Sequence[NightlyStep]) -> None:
        """Run the remaining ``steps``, until all are done or the unit cannot go on."""
        retry = self._plan.retry
        unsettled = [step for step in steps if not self._settle(step, "later")]
        pending = [
            step
            for step in steps
            if not self._progress.is_done(step, retry) and not self._progress.is_wrong(step)
        ]
        if not pending or self._effects.stopped:
            return
        own = self._plan.deadlines.unit_s
        if own is not None:
            ends = self._effects.monotonic() + own
            self._ends_at = ends if self._ends_at is None else min(ends, self._ends_at)
        with ExitStack() as held:
            if self._unit.unit is not None:
                try:
                    held.enter_context(
                        self._effects.lease(self._unit, self._plan.deadlines.lease_s)
                    )
                except HarnessError as error:
                    for step in unsettled:
                        self._settle(step, "never")
                    if not self._effects.stopped:
                        self._event("not leased", Owner.HOST, error.message)
                    return
                self._event("leased")
            for step in unsettled:
                self._settle(step, "now")
            if self._plan.heal.first and not self._make_well():
                return
            self._run_steps(pending)

    def _run_steps(self, steps: list[NightlyStep]) -> None:
        """Run steps under the lease."""
        began = self._effects.monotonic()
        for done, step in enumerate(steps):
            if done and self._unit.unit is not None:
                mean_s = (self._effects.monotonic() - began) / done
                left_s = min(mean_s * (len(steps) - done), self._time_left())
                self._effects.expect(self._unit, left_s)
            if not self._run_step(step):
                return

    def _settle(self, step: NightlyStep, ask: Literal["later", "now", "never"]) -> bool:
        """Record the end of an attempt that was in progress when the nightly run was cut off.

        Args:
            step: The step of the attempt.
            ask: Whether the board may be probed: "later" before its lease, "now" under it, "never"
                without a lease.

        Returns:
            False if the board has to be probed later.
        """
        begun = self._progress.under_way.get(step)
        if begun is None:
            return True
        result = self._effects.result(self._directory / begun.directory)
        cause = cause_of(None, result, 0.0)
        if cause.ask_board and self._can_probe and ask != "never":
            if ask == "later":
                return False
            cause = self._probe_board(cause)
        seconds = result.duration_s if result is not None and not cause.stopped else 0.0
        self._record_end(
            begun, cause, seconds, "not seen", "" if cause.stopped else _result_id(result)
        )
        return True

    def _run_step(self, step: NightlyStep) -> bool:
        """Attempt a step until it is done; return False if this unit stops working.

        One repeat of a request that cannot work is enough.
        """
        if self._progress.is_wrong(step):
            return True
        while not self._progress.is_done(step, self._plan.retry):
            if self._effects.stopped:
                return False
            with self._effects.slot(self._unit):
                left = self._time_left()
                attempt = self._attempt(step, left) if left > 0 else None
            if attempt is None:
                self._event(
                    "out of time",
                    Owner.HOST,
                    "the time limit was reached before all of its runs",
                )
                return False
            if attempt.outcome == "interrupted":
                return False
            if attempt.outcome == "pass" or attempt.owner not in INFRASTRUCTURE:
                self._in_a_row = 0
                continue
            self._in_a_row += 1
            if self._in_a_row >= self._plan.heal.bench_after:
                times = f"failed {counted(self._in_a_row, 'time')} in a row"
                self._bench(attempt.owner, f"{times}: {attempt.message}")
                return False
            if attempt.owner is Owner.BOARD and not self._make_well():
                return False
            self._wait_before(step)
        return True

    def _attempt(self, step: NightlyStep, left: float) -> Attempt:
        number = self._progress.next_number(step)
        directory = f"runs/{step}-{number}"
        begun = Started(step, number, directory, self._effects.utc())
        self._record(begun)
        deadline = min(self._plan.deadlines.attempt_s, left)
        result, seconds = None, 0.0
        try:
            cause, ended = self._flash(step)
            if cause is None:
                path = self._directory / directory
                ending = self._effects.run(self._unit, step, path, deadline)
                ended, seconds = ending.text, ending.seconds
                result = self._effects.result(path)
                cause = cause_of(ending, result, deadline)
                if ending.expired and deadline == left and cause.kind == "Deadline":
                    cause = Cause(stopped=True, message="the time limit was reached")
        except OSError as error:
            cause, ended = _host_cause(error), "not started"
        if cause.ask_board and not cause.passed and not self._effects.stopped:
            cause = self._probe_board(cause)
        self._flash_again = cause.owner is Owner.FLASH
        return self._record_end(begun, cause, seconds, ended, _result_id(result))

    def _flash(self, step: NightlyStep) -> tuple[Cause | None, str]:
        image = self._unit.images.get(step.variant)
        if image is None or not self._unit.flashed_apart:
            return None, ""
        ending, failure = self._effects.flash(self._unit, image, again=self._flash_again)
        what, deadline = f"flashing {image.name}", self._plan.deadlines.flash_s
        return command_failed(ending, Owner.FLASH, what, deadline, failure), ending.text

    def _record_end(
        self, begun: Started, cause: Cause, seconds: float, ended: str, result: str
    ) -> Attempt:
        outcome = "pass" if cause.passed else "interrupted" if cause.stopped else "fail"
        attempt = Attempt(
            number=begun.number,
            directory=begun.directory,
            started_utc=begun.utc,
            duration_s=round(seconds, 3),
            outcome=outcome,  # type: ignore[arg-type]
            owner=cause.owner,
            ended=ended,
            kind=cause.kind,
            message=cause.message,
            hint=cause.hint,
            evidence=cause.evidence,
            result="" if cause.stopped else result,
        )
        self._record(Ended(begun.step, attempt))
        return attempt

    def _probe_board(self, cause: Cause) -> Cause:
        """Probe the board, and return the cause with its health taken into account."""
        if not self._can_probe:
            return cause
        examined, cycles = self._healed()
        if not examined.passed:
            self._event("not well", refine(cause, examined, cycles).owner, examined.message)
        return refine(cause, examined, cycles)

    @property
    def _can_probe(self) -> bool:
        unit = self._unit.unit
        return unit is not None and not self._unit.started_here and unit.health != "none"

    def _make_well(self) -> bool:
        """Examine the unit, power-cycle it if necessary; bench it if it stays unhealthy."""
        if not self._can_probe:
            return True
        examined, cycles = self._healed()
        if examined.passed:
            self._event("well", None, examined.message)
            return True
        if examined.owner is Owner.FLASH and self._unit.flashed_apart:
            self._event("not well", Owner.FLASH, f"{examined.message}; the unit will be flashed")
            return True
        why = f"failed its health check{_after(cycles)}: {examined.message}"
        self._bench(examined.owner or Owner.BOARD, why)
        return False

    def _healed(self) -> tuple[Cause, int]:
        """Examine the unit, and again after a power cycle if it is not healthy."""
        examined = self._effects.examine(self._unit)
        may = self._plan.heal.power_cycle and self._unit.has_power
        if examined.passed or not may or self._effects.stopped:
            return examined, 0
        switched = self._effects.power_cycle(self._unit)
        what = "power cycled" if switched.passed else "not power cycled"
        self._event(what, switched.owner, switched.message)
        if not switched.passed:
            return examined, 0
        return self._effects.examine(self._unit), 1

    def _bench(self, owner: Owner | None, why: str) -> None:
        if not self._effects.stopped:
            self._event("benched", owner, why)

    def _wait_before(self, step: NightlyStep) -> None:
        """Wait before a step is retried, longer each time."""
        if self._progress.may_retry(step, self._plan.retry):
            failures = self._progress.failures(step)
            self._effects.sleep(self._plan.retry.backoff_s * 2 ** min(failures - 1, 6))

    def _time_left(self) -> float:
        if self._ends_at is None:
            return float("inf")
        return self._ends_at - self._effects.monotonic()

    def _event(self, what: str, owner: Owner | None = None, message: str = "") -> None:
        utc = self._effects.utc()
        event = UnitEvent(unit=self._unit.id, utc=utc, what=what, owner=owner, message=message)  # type: ignore[arg-type]
        self._record(OfUnit(event))


def _result_id(result: object) -> str:
    own = getattr(result, "id", "")
    return own if isinstance(own, str) else ""


def _host_cause(error: OSError) -> Cause:
    where = f" {error.filename}" if error.filename else ""
    message = f"{error.strerror or error}{where}"
    return Cause(owner=Owner.HOST, kind=type(error).__name__, message=message)
