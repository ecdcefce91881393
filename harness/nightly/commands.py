"""The effects of a real nightly run: every action on a board is a child process."""

from __future__ import annotations

import os
import sys
import threading
import time
from collections.abc import Iterator, Mapping
from contextlib import AbstractContextManager, contextmanager, nullcontext
from dataclasses import replace
from pathlib import Path
from typing import Final

import msgspec

from harness.config.toml_file import Document
from harness.config.unit import Unit
from harness.errors import HarnessError, Owner
from harness.files import read_regular
from harness.lab.labgrid.place import HeldPlace
from harness.lab.units import hold
from harness.nightly.child import Children, Ending
from harness.nightly.classify import Examined, command_failed
from harness.nightly.plan import NightlyPlan, NightUnit, model_file, options_of
from harness.records.lab import FLASH, FlashRecord, Health
from harness.records.nightly import NightlyStep
from harness.records.result import Failure, Result, now_utc
from harness.runs.directory import RunDirectory
from harness.runs.request import SESSION_VARIABLE
from harness.target.lease.holding import Lease

_POLL_S: Final = 0.5

# Made at import, not by the threads of units: see `harness/records/result.py`.
_HEALTH: Final = msgspec.json.Decoder(list[Health])
_FLASH: Final = msgspec.json.Decoder(FlashRecord)


class Commands:
    """Implements ``Effects`` with ``etharness`` commands as child processes."""

    def __init__(
        self,
        plan: NightlyPlan,
        document: Document,
        units_file: Path | None,
        directory: Path,
        night: str,
    ) -> None:
        self._plan, self._document, self._units_file = plan, document, units_file
        self._directory, self._night = directory, night
        self._children = Children()
        self._leases: dict[str, Lease | HeldPlace] = {}
        self._slots = threading.Semaphore(plan.jobs or os.cpu_count() or 1)
        self._models = {model.name: model for model in plan.model}
        self._variants = {variant.label: variant for variant in plan.variants}

    @property
    def stopped(self) -> bool:
        """Whether the nightly run is to stop."""
        return self._children.stopped

    def stop(self) -> None:
        """Stop the nightly run."""
        self._children.stop()

    def monotonic(self) -> float:
        """Seconds on a monotonic clock."""
        return time.monotonic()

    def utc(self) -> str:
        """The current time, ISO 8601."""
        return now_utc()

    def sleep(self, seconds: float) -> None:
        """Wait; return early when the nightly run stops."""
        self._children.sleep(seconds)

    def lease(self, unit: NightUnit, timeout_s: float) -> AbstractContextManager[object]:
        """Hold the lease of a unit."""
        if unit.unit is None:
            return nullcontext()
        return self._hold(unit.id, unit.unit, timeout_s)

    @contextmanager
    def _hold(self, name: str, unit: Unit, timeout_s: float) -> Iterator[None]:
        with hold(
            unit,
            reason=f"nightly {self._night}",
            timeout_s=timeout_s,
            nightly=True,
            cancelled=lambda: self.stopped,
        ) as lease:
            self._leases[name] = lease
            try:
                yield
            finally:
                del self._leases[name]

    def expect(self, unit: NightUnit, seconds: float) -> None:
        """Tell those who wait for a unit that its lease probably ends in ``seconds``."""
        if isinstance(lease := self._leases.get(unit.id), Lease):
            lease.expect(seconds)

    def wanted_by(self, unit: NightUnit) -> str:
        """Return who waits for a leased unit and goes before nightly runs; "" for nobody."""
        lease = self._leases.get(unit.id)
        return lease.wanted_by() if isinstance(lease, Lease) else ""

    @contextmanager
    def slot(self, unit: NightUnit) -> Iterator[None]:
        """Wait for a free processor if the unit is simulated on this host."""
        if not unit.started_here:
            yield
            return
        while not self._slots.acquire(timeout=_POLL_S):
            if self.stopped:
                yield  # a child started now ends at once
                return
        try:
            yield
        finally:
            self._slots.release()

    def examine(self, unit: NightUnit) -> Examined:
        """Run ``etharness lab health`` on a unit."""
        deadline = self._plan.deadlines.health_s
        answer = self._log(unit, "health").with_suffix(".json")
        arguments = [unit.id, "--json"]
        found = self._probe(unit, "health", arguments, deadline, Owner.BOARD, answer)
        try:
            [health] = _HEALTH.decode(read_regular(answer))
        except (OSError, ValueError):
            return found  # the command failed before it printed its document
        failed = [each for each in health.findings if each.state == "fail"]
        warnings = [each.message for each in health.findings if each.state == "warn"]
        if failed:
            why = "; ".join(f"{each.part}: {each.message}" for each in failed)
            return Examined(False, health.owner, why)
        return replace(found, message="; ".join(warnings)) if found.well else found

    def power_cycle(self, unit: NightUnit) -> Examined:
        """Power-cycle a unit; the result is well if that succeeded."""
        deadline = self._plan.deadlines.power_s
        return self._probe(unit, "power", [unit.id, "cycle"], deadline, Owner.HOST)

    def flash(self, unit: NightUnit, image: Path, *, again: bool) -> tuple[Ending, Failure | None]:
        """Flash a unit unless it runs the image; ``again`` flashes in any case.

        Returns:
            The end of the process, and the failure that it recorded.
        """
        log = self._log(unit, "flash")
        output = log.with_suffix("")
        record = output / FLASH
        record.unlink(missing_ok=True)  # from an earlier attempt
        command = ["flash", *self._unit(unit), f"--image={image}", f"--output={output}"]
        needed = [] if again else ["--if-needed"]
        ending = self._call([*command, *needed], self._plan.deadlines.flash_s, log)
        try:
            return ending, _FLASH.decode(read_regular(record)).failure
        except (OSError, ValueError):
            return ending, None  # the command failed before it wrote a record

    def run(self, unit: NightUnit, step: NightlyStep, directory: Path, deadline_s: float) -> Ending:
        """Run a step."""
        model, variant = self._models[step.model], self._variants[step.variant]
        file = model_file(self._document, model, variant)
        command = ["run", *self._unit(unit), f"--model={file}", f"--output={directory}", "--json"]
        command += options_of(self._plan, model).arguments(self._document.path.parent)
        image = unit.images.get(step.variant)
        if image is not None and not unit.flashed_apart:
            command += ["--flash", f"--image={image}"]
        if variant.commit:
            command.append(f"--commit={variant.commit}")
        # A session holds each variant once, so that differences between sessions affect all alike.
        session = {SESSION_VARIABLE: f"{self._night}/{step.repeat}", "ETHARNESS_HISTORY": ""}
        return self._call(command, deadline_s, directory / "attempt.log", session)

    def result(self, directory: Path) -> Result | None:
        """Read the result of a run directory; None if there is no readable result."""
        try:
            return RunDirectory(directory).read_result()
        except (HarnessError, OSError):
            return None

    def _unit(self, unit: NightUnit) -> list[str]:
        board = [f"--board={unit.board_file}", f"--unit={unit.id}"]
        if unit.unit is None:
            return board
        return [*board, *self._units]

    @property
    def _units(self) -> list[str]:
        return [f"--units={self._units_file}"] if self._units_file is not None else []

    def _probe(
        self,
        unit: NightUnit,
        what: str,
        arguments: list[str],
        deadline_s: float,
        owner: Owner,
        output: Path | None = None,
    ) -> Examined:
        command = ["lab", what, *self._units, *arguments]
        try:
            ending = self._call(command, deadline_s, self._log(unit, what), output=output)
        except OSError as error:
            return Examined(False, Owner.HOST, f"{what}: {error.strerror or error}")
        cause = command_failed(ending, owner, what, deadline_s)
        if cause is None:
            return Examined(True, None, "")
        return Examined(False, cause.owner or owner, cause.message)

    def _log(self, unit: NightUnit, what: str) -> Path:
        return self._directory / "units" / unit.id / f"{what}.log"

    def _call(
        self,
        arguments: list[str],
        deadline_s: float,
        log: Path,
        environment: Mapping[str, str] | None = None,
        output: Path | None = None,
    ) -> Ending:
        command = [sys.executable, "-m", "harness", *arguments]
        return self._children.run(
            command, deadline_s, log=log, output=output, environment=environment
        )
