"""Worker: runs all steps of one unit, from its lease to its release."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager, ExitStack
from pathlib import Path
from typing import Literal, Protocol

from harness.errors import HarnessError, Owner
from harness.nightly.child import Ending
from harness.nightly.classify import Cause, Examined, cause_of, command_failed, refine
from harness.nightly.journal import Ended, OfUnit, Progress, Record, Started
from harness.nightly.plan import NightlyPlan, NightUnit
from harness.records.nightly import Attempt, NightlyStep, UnitEvent
from harness.records.result import Failure, Result

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

    def wanted_by(self, unit: NightUnit) -> str:
        """Return who waits for a leased unit and goes before nightly runs; "" for nobody."""
        ...

    def slot(self, unit: NightUnit) -> AbstractContextManager[object]:
        """Wait for a free processor if the unit is simulated on this host."""
        ...

    def examine(self, unit: NightUnit) -> Examined:
        """Examine the health of a unit."""
        ...

    def power_cycle(self, unit: NightUnit) -> Examined:
        """Power-cycle a unit; the result is well if that succeeded."""
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
        pending = [step for step in steps if not self._progress.is_done(step, retry)]
        if not pending or self._effects.stopped:
            return
        own = self._plan.deadlines.unit_s
        if own is not None:
            ends = self._effects.monotonic() + own
            self._ends_at = ends if self._ends_at is None else min(ends, self._ends_at)
        wait_s = self._plan.deadlines.lease_s
        while pending:
            with ExitStack() as held:
                try:
                    held.enter_context(self._lease(wait_s))
                except HarnessError as error:
                    for step in unsettled:
                        self._settle(step, "never")
                    if not self._effects.stopped:
                        self._event("not leased", Owner.HOST, error.message)
                    return
                if self._unit.unit is not None:
                    self._event("leased")
                for step in unsettled:
                    self._settle(step, "now")
                unsettled = []
                if self._plan.heal.first and not self._make_well():
                    return
                pending = self._run_steps(pending)
            wait_s = min(self._plan.deadlines.people_s, max(0.0, self._time_left()))

    def _lease(self, wait_s: float) -> ExitStack:
        stack = ExitStack()
        if self._unit.unit is not None:
            stack.enter_context(self._effects.lease(self._unit, wait_s))
        return stack

    def _run_steps(self, steps: list[NightlyStep]) -> list[NightlyStep]:
        """Run steps under the lease; return those that are left if a person wants the unit."""
        began = self._effects.monotonic()
        for done, step in enumerate(steps):
            if done and self._unit.unit is not None:
                if person := self._effects.wanted_by(self._unit):
                    self._event("given up", None, f"for {person}")
                    return steps[done:]
                mean_s = (self._effects.monotonic() - began) / done
                left_s = min(mean_s * (len(steps) - done), self._time_left())
                self._effects.expect(self._unit, left_s)
            if not self._run_step(step):
                break
        return []

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
        """Attempt a step until it is done; return False if this unit stops working."""
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
                    "the time limit was reached before all steps were done",
                )
                return False
            if attempt.outcome == "interrupted":
                return False
            if attempt.outcome == "pass" or attempt.owner not in INFRASTRUCTURE:
                self._in_a_row = 0
                continue
            self._in_a_row += 1
            if self._in_a_row >= self._plan.heal.bench_after:
                self._bench(attempt.owner, f"{self._in_a_row} failures in a row: {attempt.message}")
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
        if not examined.well:
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
        if examined.well:
            self._event("well", None, examined.message)
            return True
        if examined.owner is Owner.FLASH and self._unit.flashed_apart:
            self._event("not well", Owner.FLASH, f"{examined.message}; the unit will be flashed")
            return True
        after = f" after {cycles} power cycles" if cycles else ""
        self._bench(examined.owner or Owner.BOARD, f"not healthy{after}: {examined.message}")
        return False

    def _healed(self) -> tuple[Examined, int]:
        """Examine the unit, and again after a power cycle if it is not healthy."""
        examined = self._effects.examine(self._unit)
        may = self._plan.heal.power_cycle and self._unit.has_power
        if examined.well or not may or self._effects.stopped:
            return examined, 0
        switched = self._effects.power_cycle(self._unit)
        what = "power cycled" if switched.well else "not power cycled"
        self._event(what, switched.owner, switched.message)
        if not switched.well:
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
