"""The effects of a real nightly run: every action on a board is a child process.

Each child has a process group of its own and a deadline; one that hangs is killed with its group.
When this process is killed, the kernel kills its children (``setpriv --pdeathsig``).
"""

from __future__ import annotations

import ctypes
import os
import signal
import sys
import threading
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, ExitStack, contextmanager, nullcontext, suppress
from dataclasses import replace
from pathlib import Path
from typing import Final

from msgspec.structs import replace as replace_options

from harness.config.toml_file import Document
from harness.config.unit import Unit
from harness.errors import HarnessError, HostError, Owner
from harness.extensions.lab.health import Health
from harness.extensions.lab.holding import Lease, hold
from harness.extensions.lab.labgrid import HeldPlace
from harness.extensions.lab.nightly.plan import (
    NightlyPlan,
    NightUnit,
    PlannedModel,
    model_file,
    options_of,
)
from harness.extensions.lab.nightly.worker import Cause, Ending, command_failed
from harness.files import CappedFile, decode_json, read_regular, read_tail
from harness.printing import counted
from harness.records.flashing import FLASH, FlashRecord
from harness.records.nightly import NightlyStep
from harness.records.result import Failure, Result, now_utc
from harness.runs.directory import RunDirectory
from harness.runs.request import SESSION_VARIABLE
from harness.target.process_group import ProcessGroup, with_death_signal

_ASK_S: Final = 20.0
"""Time between SIGTERM and SIGKILL: a run is ended on its board first, and its trace is read."""
_LOOK_S: Final = 0.5
"""Interval at which a wait checks whether the nightly run is stopped."""
_TAIL_BYTES: Final = 4000
FILES_PER_UNIT: Final = 16
"""Most open files of this process for a unit: pipes and logs of its child, locks of its lease."""
_OTHER_FILES: Final = 64
_M_ARENA_MAX: Final = -8
_M_TRIM_THRESHOLD: Final = -1
_TRIM_BYTES: Final = 1 << 16


def allow_open_files(units: int) -> None:
    """Raise this process's limit of open files, if need be, to what a night of units needs.

    Raises:
        HostError: The host does not allow that many.
    """
    if sys.platform == "win32":  # it has no such limit
        return
    import resource

    wanted = _OTHER_FILES + FILES_PER_UNIT * units
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    if soft == resource.RLIM_INFINITY or soft >= wanted:
        return
    if hard != resource.RLIM_INFINITY and hard < wanted:
        raise HostError(
            f"{counted(units, 'unit', 'needs')} {wanted} open files; this host allows {hard}",
            hint="raise the limit: `ulimit -Hn`, or LimitNOFILE= of systemd",
        )
    resource.setrlimit(resource.RLIMIT_NOFILE, (wanted, hard))


def return_memory() -> None:
    """Have glibc give freed memory to all threads and back to the system; others do as they do.

    By default each thread has an arena of its own, and none reuses what is free in another's: the
    process of a long night grew by megabytes which nothing held.
    """
    with suppress(AttributeError, OSError, TypeError):  # not glibc
        mallopt = ctypes.CDLL(None).mallopt
        mallopt(_M_ARENA_MAX, 1)
        mallopt(_M_TRIM_THRESHOLD, _TRIM_BYTES)


class Children:
    """Starts child processes, and ends all of them on ``stop``."""

    def __init__(self) -> None:
        self._stop = threading.Event()
        self._lock = threading.Lock()
        self._running: set[ProcessGroup] = set()

    @property
    def stopped(self) -> bool:
        """Whether ``stop`` was called."""
        return self._stop.is_set()

    def sleep(self, seconds: float) -> None:
        """Wait; return early when the nightly run is stopped."""
        self._stop.wait(seconds)

    def stop(self) -> None:
        """Send SIGTERM to all children, and start no more."""
        self._stop.set()
        with self._lock:
            for child in self._running:
                child.signal(signal.SIGTERM)

    def run(
        self,
        command: Sequence[str],
        deadline_s: float,
        *,
        log: Path,
        output: Path | None = None,
        environment: Mapping[str, str] | None = None,
    ) -> Ending:
        """Run a program to its end or its deadline.

        Args:
            command: The program and its arguments.
            deadline_s: Timeout, seconds.
            log: File for the head and tail of its output.
            output: File for its standard output; None to write it to ``log``.
            environment: Variables to add to this process's environment.

        Raises:
            OSError: The program cannot be started, or a file cannot be created.
        """
        began = time.monotonic()
        log.parent.mkdir(parents=True, exist_ok=True)
        with ExitStack() as files:
            errors = files.enter_context(CappedFile(log))
            written = errors if output is None else files.enter_context(CappedFile(output))
            with self._lock:
                if self._stop.is_set():
                    return Ending(None, False, True, 0.0, "")
                child = ProcessGroup(
                    with_death_signal(command, "KILL"),
                    stdout=written.write,
                    stderr=None if written is errors else errors.write,
                    env={**os.environ, **(environment or {})},
                )
                self._running.add(child)
            try:
                expired = self._wait(child, deadline_s)
            finally:
                with self._lock:
                    self._running.discard(child)
                child.end()
            if child.leftover:
                errors.write(f"{child.leftover}\n".encode())
        seconds = time.monotonic() - began
        stopped = self._stop.is_set() and child.returncode != 0
        tail = read_tail(log, _TAIL_BYTES).decode(errors="backslashreplace").strip()
        return Ending(child.returncode, expired, stopped, seconds, tail)

    def _wait(self, child: ProcessGroup, deadline_s: float) -> bool:
        """Wait for the end of a child, or send SIGTERM; return whether it timed out."""
        deadline = time.monotonic() + deadline_s
        gone = False
        while not (gone or self._stop.is_set()) and (left := deadline - time.monotonic()) > 0:
            gone = child.wait(min(left, _LOOK_S))
        expired = not (gone or self._stop.is_set())
        if not gone:
            child.signal(signal.SIGTERM)
            child.wait(_ASK_S)
        return expired


_POLL_S: Final = 0.5

_FOR_REPEATS: Final = 0.75
"""Share of the deadline of a run that its repeats may take."""


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
        self._models = {model.label: model for model in plan.model}
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

    def examine(self, unit: NightUnit) -> Cause:
        """Run ``etharness lab health`` on a unit."""
        deadline = self._plan.deadlines.health_s
        answer = self._log(unit, "health").with_suffix(".json")
        arguments = [unit.id, "--json"]
        found = self._probe(unit, "health", arguments, deadline, Owner.BOARD, answer)
        try:
            [health] = decode_json(read_regular(answer), type_=list[Health])
        except (OSError, ValueError):
            return found  # the command failed before it printed its document
        failed = [each for each in health.findings if each.state == "fail"]
        warnings = [each.message for each in health.findings if each.state == "warn"]
        if failed:
            why = "; ".join(each.message for each in failed)
            return Cause(owner=health.owner, message=why)
        return replace(found, message="; ".join(warnings)) if found.passed else found

    def power_cycle(self, unit: NightUnit) -> Cause:
        """Power-cycle a unit; passed if that succeeded."""
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
            return ending, decode_json(read_regular(record), type_=FlashRecord).failure
        except (OSError, ValueError):
            return ending, None  # the command failed before it wrote a record

    def run(self, unit: NightUnit, step: NightlyStep, directory: Path, deadline_s: float) -> Ending:
        """Run a step."""
        model, variant = self._models[step.model], self._variants[step.variant]
        file = model_file(self._document, model, variant)
        command = ["run", *self._unit(unit), f"--model={file}", f"--output={directory}", "--json"]
        command += self._options(model, step, deadline_s)
        image = unit.images.get(step.variant)
        if image is not None and (not unit.flashed_apart or self._looks_again(step)):
            command += ["--flash", f"--image={image}"]  # and, for pairs, the baseline's
        if variant.commit:
            command.append(f"--commit={variant.commit}")
        # A session holds each variant once, so that differences between sessions affect all alike.
        session = {SESSION_VARIABLE: f"{self._night}/{step.repeat}", "ETHARNESS_HISTORY": ""}
        return self._call(command, deadline_s, directory / "attempt.log", session)

    def _options(self, model: PlannedModel, step: NightlyStep, deadline_s: float) -> list[str]:
        """Return the settings of a step, as arguments.

        The night compares its results itself. A run that measures again also compares itself, and
        runs in turns with the baseline's model and firmware.
        """
        plan, folder = self._plan, self._document.path.parent
        options = options_of(plan, model)
        if plan.history is None or not self._looks_again(step):
            options = replace_options(options, baseline_model=None, detect=None)
            return [*options.arguments(folder)]
        if "repeat_time" not in options.given():
            options = replace_options(options, repeat_time=_FOR_REPEATS * deadline_s)
        # The repeats are those of the plan.
        options = replace_options(options, repeat=None)
        against = [f"--history={plan.history.within(folder)}", f"--baseline={plan.baseline}"]
        return [*options.arguments(folder), *against]

    def _looks_again(self, step: NightlyStep) -> bool:
        """Return whether a step measures again what earlier nights are compared with."""
        return step.repeat > self._plan.repeats and self._plan.baseline is not None

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
    ) -> Cause:
        command = ["lab", what, *self._units, *arguments]
        try:
            ending = self._call(command, deadline_s, self._log(unit, what), output=output)
        except OSError as error:
            return Cause(owner=Owner.HOST, message=f"{what}: {error.strerror or error}")
        cause = command_failed(ending, owner, what, deadline_s)
        return Cause(passed=True) if cause is None else replace(cause, owner=cause.owner or owner)

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
