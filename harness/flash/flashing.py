"""Flashes a board, and verifies that it runs the image: tool, reset, HELLO, build id.

The tool reports that it wrote and verified the memory. Only the board can report what it runs: its
build id must be the image's. A half-written image, or the wrong board, cannot pass this check.
"""

from __future__ import annotations

import dataclasses
import logging
import tempfile
import time
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any, Final

from msgspec.structs import asdict, replace

from harness import __version__
from harness.config.board import QemuTarget
from harness.errors import (
    FlashError,
    HarnessError,
    InfrastructureError,
    LinkError,
    Owner,
    PortError,
    TargetError,
    UsageError,
    WrongFirmwareError,
)
from harness.files import write_atomic
from harness.flash.execute import Log, run_steps, timed, version_of
from harness.flash.plan import THE_USUAL_WAY, HowToFlash, Stages, plan
from harness.flash.tool import FlashStep, Job
from harness.interrupts import exit_code_of, interrupt_text
from harness.records.flashing import FLASH, FLASH_LOG, FlashAttempt, FlashRecord
from harness.records.result import UNFINISHED, Failure, encode, now_utc
from harness.target.ports import port_text
from harness.target.selection import Chosen, LockKey, check_identity, hold_keys, port_key, probe_key
from harness.target.start import Target, greet, start_halted, start_session, start_target

_log = logging.getLogger(__name__)

_TRY_PORT_S: Final = 0.2
_PAUSE_S: Final = 0.5
"""Pause before another attempt: some probes need a moment after a failure."""


def flash_board(
    chosen: Chosen,
    output: Path,
    how: HowToFlash = THE_USUAL_WAY,
    stages: Stages = lambda *_: None,
) -> FlashRecord:
    """Flash a board; write the log and ``flash.json`` whether it succeeds or fails.

    Args:
        chosen: The board; its unit is held while it is flashed.
        output: Directory for the log, ``flash.json`` and files generated for the tool.
        how: What to flash, and with which tool.
        stages: Called to report progress.

    Raises:
        UsageError: The request, the board file or the image is invalid; nothing was done.
        FlashError: The tool failed.
        WrongFirmwareError: The board runs another build afterwards.
        InfrastructureError: The probe, the port or the host failed.
    """
    operation = _FlashOperation(chosen, output, how, stages)
    with ExitStack() as stack:
        operation.run(stack)
    return operation.record


def flash_and_open(
    stack: ExitStack, chosen: Chosen, output: Path, how: HowToFlash, stages: Stages
) -> tuple[Target, str | None]:
    """Flash a board and keep it open; arguments as for ``flash_board``.

    Returns:
        The running board, which is closed with ``stack``, and its build id.

    Raises:
        HarnessError: As for ``flash_board``.
    """
    operation = _FlashOperation(chosen, output, how, stages)
    target = operation.run(stack)
    if target is None:
        raise UsageError("cannot run a model on a board that is flashed with identity off")
    return target, operation.plan.build_id


class SilentBoardError(FlashError):
    """The tool reports success, but the board does not answer."""


class _FlashOperation:
    """One flash operation; ``record`` is valid at every moment."""

    def __init__(self, chosen: Chosen, output: Path, how: HowToFlash, stages: Stages) -> None:
        """Plan it, open the log and write a first record.

        Raises:
            UsageError: The request, the board file or the image is invalid.
            InfrastructureError: The output directory is not writable.
        """
        self.chosen, self.how = chosen, how
        self.plan = steps = plan(chosen, output, how, stages=stages)
        self._stages = stages
        self._began = time.monotonic()
        self._file = output / FLASH
        with _writing(output):
            self._log = Log(output / FLASH_LOG)
        self.record = FlashRecord(
            **asdict(steps.setup),
            tool_version=__version__,
            started_utc=now_utc(),
            duration_s=0.0,
            unit=chosen.unit or steps.job.port or steps.board.name,
            version=version_of(steps.choice.tool, steps.job.program),
            port=port_text(chosen.port) if chosen.port else None,
            image_sha256=steps.image.sha256,
            commands=(),
            log=str(self._log.path),
            exit_code=InfrastructureError.exit_code,
            failure=Failure(UNFINISHED, "flashing was cut off", "run it again", Owner.HOST),
        )
        self._write_record()

    def run(self, stack: ExitStack) -> Target | None:
        """Flash the board.

        Returns:
            The board with the image running on it, which is closed with ``stack``; None if the
            request turns the identity check off.

        Raises:
            FlashError: The tool failed, or the board does not answer afterwards.
            WrongFirmwareError: The board runs another build afterwards.
            InfrastructureError: The probe, the port or the host failed.
        """
        try:
            return self._run(stack)
        except HarnessError as error:
            failure = Failure(type(error).__name__, error.message, error.hint, error.owner)
            self._update(exit_code=error.exit_code, failure=failure)
            raise
        except KeyboardInterrupt as interrupt:
            message = interrupt_text(interrupt)
            failure = Failure(type(interrupt).__name__, message, "", Owner.HOST)
            self._update(exit_code=exit_code_of(interrupt), failure=failure)
            raise
        finally:
            self._log.close()
            self._update(duration_s=round(time.monotonic() - self._began, 3))

    def _run(self, stack: ExitStack) -> Target | None:
        board, job = self.plan.board, self.plan.job
        wait_s = board.deadlines.unit_s
        machine: Target | None = None
        if isinstance(board.target, QemuTarget):
            # Not in the output directory: the path of a socket has at most 107 bytes.
            folder = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="etharness-")))
            machine = stack.enter_context(start_halted(board, board.target, folder / "gdb"))
            job = dataclasses.replace(job, server=str(folder / "gdb"))
        else:
            stack.enter_context(self.chosen.held(reason="flash", timeout_s=wait_s))
            if keys := _lock_keys(job):
                stack.enter_context(hold_keys(keys, wait_s, reason="flash"))
            if self.how.if_needed and self._is_up_to_date():
                self._update(skipped=True, exit_code=0, failure=None)
                return self._verified_board(stack)
        return self._flash_with_retries(stack, job, machine)

    def _flash_with_retries(
        self, stack: ExitStack, job: Job[Any], machine: Target | None
    ) -> Target | None:
        """Write and verify the image, and retry infrastructure failures.

        A board that does not verify gets only one more attempt: more would hide a frequent fault.
        """
        steps = self.plan.choice.tool.commands(job)
        self._update(commands=tuple(step.argv for step in steps))
        unverified = 0
        for left in reversed(range(self.how.attempts)):
            began, took = time.monotonic(), dict[str, float]()
            try:
                self._write(job, steps, took)
                verify = self.how.identity
                target = self._verified_board(stack, machine, took) if verify else None
            except HarnessError as error:
                self._record_attempt(began, took, error)
                unverified += isinstance(error, SilentBoardError | WrongFirmwareError)
                if not _may_retry(error) or left == 0 or unverified > 1:
                    raise
            else:
                self._record_attempt(began, took)
                self._update(verified=job.verify, exit_code=0, failure=None)
                return target
            time.sleep(_PAUSE_S)
        raise AssertionError("the last attempt returns or raises")

    def _write(self, job: Job[Any], steps: Sequence[FlashStep], took: dict[str, float]) -> None:
        tool, timeout_s = self.plan.choice.tool, self.plan.timeout_s
        self._stages(f"flashing with {tool.name}", 0, 0)
        try:
            with _writing(job.work.parent):
                run_steps(tool.name, steps, self._log, timeout_s, job.work.parent, took)
            if tool.settles:
                with timed("settle", took):
                    tool.settle(job, timeout_s)
        finally:
            _log.info("%s took %s", tool.name, took)

    def _is_up_to_date(self) -> bool:
        """Whether the board runs this build already; False if it does not answer."""
        try:
            with self._open() as target:
                info = greet(start_session(target, self.plan.board), self.plan.board)
        except (InfrastructureError, TargetError) as error:
            self._log.note(f"build id before flashing: {error.message}")
            return False
        self._update(build_id_before=info.build_id)
        return info.board == self.plan.board.name and info.build_id == self.plan.build_id

    def _verified_board(
        self, stack: ExitStack, machine: Target | None = None, took: dict[str, float] | None = None
    ) -> Target:
        """Return the board once it reports the image's build id; it is closed with ``stack``."""
        self._stages("verifying the firmware on the board", 0, 0)
        with ExitStack() as opened, timed("identify", {} if took is None else took):
            target = machine or opened.enter_context(self._open())
            try:
                info = greet(start_session(target, self.plan.board), self.plan.board)
            except (LinkError, TargetError) as error:
                raise SilentBoardError(
                    f"{self.plan.choice.tool.name} wrote {self.plan.image.path}, but the board "
                    f"does not answer: {error.message}",
                    hint="check that the image fits this board and that the port belongs to it; "
                    f"the tool's log is {self._log.path}",
                    retryable=isinstance(error, LinkError),
                ) from error
            self._update(build_id_after=info.build_id)
            check_identity(info, self.plan.board, self.plan.build_id)
            stack.push(opened.pop_all())
            return target

    def _open(self) -> Target:
        """Open the board's port, which may come back some time after the board was reset."""
        board = self.plan.board
        deadline = time.monotonic() + board.deadlines.reopen_s
        while True:
            try:
                return start_target(board, None, port=self.chosen.port)
            except PortError:
                if time.monotonic() >= deadline:
                    raise
                time.sleep(_TRY_PORT_S)

    def _record_attempt(
        self, began: float, took: dict[str, float], error: HarnessError | None = None
    ) -> None:
        failure = error.message if error else ""
        if error:
            self._log.note(f"attempt {len(self.record.attempts) + 1} failed: {failure}")
            _log.warning("%s", failure)
        attempt = FlashAttempt(round(time.monotonic() - began, 3), took, failure)
        self._update(attempts=(*self.record.attempts, attempt))

    def _update(self, **facts: object) -> None:
        self.record = replace(self.record, **facts)
        self._write_record()

    def _write_record(self) -> None:
        with _writing(self._file):
            write_atomic(self._file, encode(self.record))


def _may_retry(error: HarnessError) -> bool:
    """Whether another attempt may succeed: flashing failed, and not because of the request."""
    if isinstance(error, FlashError):
        return error.retryable
    return isinstance(error, WrongFirmwareError)


def _lock_keys(job: Job[Any]) -> list[LockKey]:
    """Return the keys of the port and the probe, which are locked while flashing."""
    port = [port_key(job.port)] if job.port else []
    return port + ([probe_key(job.probe.selector)] if job.probe else [])


@contextmanager
def _writing(path: Path) -> Iterator[None]:
    try:
        yield
    except OSError as error:
        raise InfrastructureError(
            f"cannot write to {path}: {error.strerror}", hint="name another directory with -o"
        ) from error
