"""Commands: the effects of a real night. Whatever touches a board is a child process."""

from __future__ import annotations

import os
import sys
import threading
import time
from collections.abc import Iterator, Mapping
from contextlib import AbstractContextManager, contextmanager, nullcontext
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Final

import msgspec

from harness.config.toml_file import Document
from harness.errors import HarnessError, Owner
from harness.files import read_regular
from harness.lab.leases import hold
from harness.nightly.child import Children, Ending
from harness.nightly.classify import Examined, command_failed
from harness.nightly.plan import NightlyPlan, model_file, options_of
from harness.nightly.units import NightUnit
from harness.records.flash_record import FLASH, FlashRecord
from harness.records.health import Health
from harness.records.nightly import NightlyStep
from harness.records.result import Failure, Result
from harness.runs.directory import RunDirectory
from harness.runs.provenance import SESSION_VARIABLE

_POLL_S: Final = 0.5


class Commands:
    """What a night can do on this host."""

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
        self._slots = threading.Semaphore(plan.jobs or os.cpu_count() or 1)
        self._models = {model.name: model for model in plan.model}
        self._variants = {variant.label: variant for variant in plan.variants}

    @property
    def stopped(self) -> bool:
        """Whether the night is to end now."""
        return self._children.stopped

    def stop(self) -> None:
        """End the night."""
        self._children.stop()

    def monotonic(self) -> float:
        """Seconds since some moment, which never jump."""
        return time.monotonic()

    def utc(self) -> str:
        """The time for people, ISO 8601."""
        return datetime.now(UTC).isoformat(timespec="seconds")

    def sleep(self, seconds: float) -> None:
        """Wait, unless the night is to end."""
        self._children.sleep(seconds)

    def lease(self, unit: NightUnit, timeout_s: float) -> AbstractContextManager[object]:
        """Hold a unit alone."""
        if unit.unit is None:
            return nullcontext()
        return hold(unit.unit, reason="night", timeout_s=timeout_s)

    @contextmanager
    def slot(self, unit: NightUnit) -> Iterator[None]:
        """Wait until this host has a processor for a unit whose firmware runs on it."""
        if not unit.started_here:
            yield
            return
        while not self._slots.acquire(timeout=_POLL_S):
            if self.stopped:
                yield  # whatever is begun now ends at once
                return
        try:
            yield
        finally:
            self._slots.release()

    def examine(self, unit: NightUnit) -> Examined:
        """Ask a unit how it is."""
        deadline = self._plan.deadlines.health_s
        answer = self._log(unit, "health").with_suffix(".json")
        arguments = [unit.id, "--json"]
        found = self._asked(unit, "health", arguments, deadline, Owner.BOARD, answer)
        try:
            [health] = msgspec.json.decode(read_regular(answer), type=list[Health])
        except (OSError, ValueError):
            return found  # it did not get as far as to say more
        failed = [each for each in health.findings if each.state == "fail"]
        said = [each.said for each in health.findings if each.state == "warn"]
        if failed:
            why = "; ".join(f"{each.part}: {each.said}" for each in failed)
            return Examined(False, health.owner, why)
        return replace(found, message="; ".join(said)) if found.well else found

    def power_cycle(self, unit: NightUnit) -> Examined:
        """Take its power away and give it back; whether that could be done."""
        deadline = self._plan.deadlines.power_s
        return self._asked(unit, "power", [unit.id, "cycle"], deadline, Owner.HOST)

    def flash(self, unit: NightUnit, image: Path, *, again: bool) -> tuple[Ending, Failure | None]:
        """Bring an image onto it, unless it is there; ``again`` whatever is there.

        Returns:
            How its process ended, and what it has written down of why it failed.
        """
        log = self._log(unit, "flash")
        output = log.with_suffix("")
        record = output / FLASH
        record.unlink(missing_ok=True)  # of the time before
        command = ["flash", *self._unit(unit), f"--image={image}", f"--output={output}"]
        needed = [] if again else ["--if-needed"]
        ending = self._call([*command, *needed], self._plan.deadlines.flash_s, log)
        try:
            return ending, msgspec.json.decode(read_regular(record), type=FlashRecord).failure
        except (OSError, ValueError):
            return ending, None  # it did not get as far as to say more

    def run(self, unit: NightUnit, step: NightlyStep, directory: Path, deadline_s: float) -> Ending:
        """Run a model."""
        model, variant = self._models[step.model], self._variants[step.variant]
        file = model_file(self._document, model, variant)
        command = ["run", *self._unit(unit), f"--model={file}", f"--output={directory}", "--json"]
        command += options_of(self._plan, model).arguments(self._document.path.parent)
        if variant.commit:
            command.append(f"--commit={variant.commit}")
        # One session holds each variant once, so that sessions differ and variants do not.
        session = {SESSION_VARIABLE: f"{self._night}/{step.repeat}", "ETHARNESS_HISTORY": ""}
        return self._call(command, deadline_s, directory / "attempt.log", session)

    def result(self, directory: Path) -> Result | None:
        """What a run directory says; None if it says nothing."""
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

    def _asked(
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
