"""Firmware onto a board, and proof that it runs there: tool, reset, HELLO, build id.

The tool says that it has written and compared. Whether the board runs it, only the board can say:
its build id must be the image's. So neither a half-written image nor another board can pass.
"""

from __future__ import annotations

import dataclasses
import logging
import tempfile
import time
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, Final

from msgspec.structs import replace

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
from harness.flash.execute import Log, run_steps, version_of
from harness.flash.tool import FlashStep, Job
from harness.lab.flash_plan import FlashRequest, FlashSteps, Stages, plan
from harness.lab.leases import hold_if
from harness.lab.target_identity import refuse_other_target
from harness.link.answers import TargetInfo
from harness.link.session import Session
from harness.records.flash_record import FLASH, FLASH_LOG, FlashAttempt, FlashRecord
from harness.records.result import UNFINISHED, Failure, encode
from harness.target import Target, start_target
from harness.target.lease.holding import hold
from harness.target.lease.lock_keys import LockKey, port_key, probe_key
from harness.target.ports import describe
from harness.target.qemu import start_empty

_log = logging.getLogger(__name__)

_TRY_PORT_S: Final = 0.2
_PAUSE_S: Final = 0.5
"""Pause before another attempt: some probes need a moment after a failure."""


def flash_board(request: FlashRequest, stages: Stages = lambda *_: None) -> FlashRecord:
    """Flash a board, and keep the log and ``flash.json``, whatever happens.

    Raises:
        UsageError: The request, the board file or the image is wrong; nothing was done.
        FlashError: The tool failed.
        WrongFirmwareError: The board runs another build afterwards.
        InfrastructureError: Something else between us and it failed.
    """
    flashing = Flashing(request, plan(request, stages=stages), stages)
    with ExitStack() as stack:
        flashing.bring_up(stack)
    return flashing.record


def flashed(
    stack: ExitStack, request: FlashRequest, stages: Stages = lambda *_: None
) -> tuple[Target, str | None]:
    """Flash a board and go on with it.

    Returns:
        The running board, which ends with ``stack``, and its build id.

    Raises:
        HarnessError: As of `flash_board`.
    """
    flashing = Flashing(request, plan(request, stages=stages), stages)
    target = flashing.bring_up(stack)
    if target is None:
        raise UsageError("a board that is not asked what it runs cannot be gone on with")
    return target, flashing.plan.build_id


class Flashing:
    """One flashing; ``record`` is complete at every moment.

    Attributes:
        record: What is known of it.
        request: What was asked for.
        plan: What is done.
    """

    def __init__(self, request: FlashRequest, plan: FlashSteps, stages: Stages) -> None:
        """Begin its log.

        Raises:
            InfrastructureError: Nothing can be written to the output directory.
        """
        self.request, self.plan = request, plan
        self._stages = stages
        self._began = time.monotonic()
        image, choice = plan.image, plan.choice
        self._file = request.output / FLASH
        with _writing(request.output):
            self._log = Log(request.output / FLASH_LOG)
        self.record = FlashRecord(
            tool_version=__version__,
            started_utc=datetime.now(UTC).isoformat(timespec="seconds"),
            duration_s=0.0,
            board=plan.board.name,
            unit=request.unit or plan.job.port or plan.board.name,
            tool=choice.tool.name,
            version=version_of(choice.tool, plan.job.program),
            why=choice.why,
            others=choice.others,
            probe=choice.probe.selector if choice.probe else "",
            port=describe(request.port) if request.port else None,
            image=str(image.path),
            image_format=str(image.format),
            image_sha256=image.sha256,
            image_bytes=image.nbytes,
            build_id=plan.build_id,
            commands=(),
            log=str(self._log.path),
            exit_code=InfrastructureError.exit_code,
            failure=Failure(UNFINISHED, "the flashing was cut off", "run it again", Owner.HOST),
        )
        self._keep()

    def bring_up(self, stack: ExitStack) -> Target | None:
        """Flash it.

        Returns:
            The board with the image running on it, which ends with ``stack``; None if it was not to
            be asked.

        Raises:
            FlashError: The tool failed, or the board is silent afterwards.
            WrongFirmwareError: The board runs another build afterwards.
            InfrastructureError: Something else between us and it failed.
        """
        try:
            return self._bring_up(stack)
        except HarnessError as error:
            failure = Failure(type(error).__name__, error.message, error.hint, error.owner)
            self._learn(exit_code=error.exit_code, failure=failure)
            raise
        except KeyboardInterrupt:
            failure = Failure("KeyboardInterrupt", "interrupted", "", Owner.HOST)
            self._learn(exit_code=130, failure=failure)
            raise
        finally:
            self._log.close()
            self._learn(duration_s=round(time.monotonic() - self._began, 3))

    def _bring_up(self, stack: ExitStack) -> Target | None:
        board, request, job = self.plan.board, self.request, self.plan.job
        wait_s = board.deadlines.unit_s
        machine: Target | None = None
        if isinstance(board.target, QemuTarget):
            # Not in the output: the path of a socket may have no more than 107 bytes.
            folder = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="etharness-")))
            machine = stack.enter_context(start_empty(board, board.target, folder / "gdb"))
            job = dataclasses.replace(job, server=str(folder / "gdb"))
        else:
            stack.enter_context(hold_if(self.request.leased, reason="flash", timeout_s=wait_s))
            if places := _places(job):
                stack.enter_context(hold(places, wait_s, reason="flash"))
            if request.if_needed and self._has_it():
                self._learn(skipped=True, exit_code=0, failure=None)
                return self._greeted(stack)
        return self._attempts(stack, job, machine)

    def _attempts(self, stack: ExitStack, job: Job[Any], machine: Target | None) -> Target | None:
        """Write and prove, and again where that may help: a board that does not prove to have the
        image gets one more chance, so that nothing that happens often is hidden.
        """
        steps = self.plan.choice.tool.commands(job)
        self._learn(commands=tuple(step.argv for step in steps))
        unproved = 0
        for left in reversed(range(self.request.how.attempts)):
            began, took = time.monotonic(), dict[str, float]()
            try:
                self._write(job, steps, took)
                asked = self.request.identity
                target = self._greeted(stack, machine, took) if asked else None
            except HarnessError as error:
                self._note(began, took, error)
                unproved += isinstance(error, SilentBoardError | WrongFirmwareError)
                again = not isinstance(error, FlashError) or error.retryable
                if not _is_flashing(error) or not again or left == 0 or unproved > 1:
                    raise
            else:
                self._note(began, took)
                self._learn(verified=job.verify, exit_code=0, failure=None)
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
                with _timed("settle", took):
                    tool.settle(job, timeout_s)
        finally:
            _log.info("%s took %s", tool.name, took)

    def _has_it(self) -> bool:
        """Whether the board runs that build already; no if it does not say."""
        try:
            with self._open() as target:
                info = self._hello(target)
        except (InfrastructureError, TargetError) as error:
            self._log.note(f"asked before: {error.message}")
            return False
        self._learn(build_id_before=info.build_id)
        return info.board == self.plan.board.name and info.build_id == self.plan.build_id

    def _greeted(
        self, stack: ExitStack, machine: Target | None = None, took: dict[str, float] | None = None
    ) -> Target:
        """The board, once it has said that it runs the image; it is closed with ``stack``."""
        self._stages("asking the board what it runs", 0, 0)
        with ExitStack() as opened, _timed("identify", {} if took is None else took):
            target = machine or opened.enter_context(self._open())
            try:
                info = self._hello(target)
            except (LinkError, TargetError) as error:
                raise SilentBoardError(
                    f"{self.plan.choice.tool.name} wrote {self.plan.image.path}, but the board "
                    f"does not answer: {error.message}",
                    hint="does the image fit this board, and is the port its own? "
                    f"The tool's log is {self._log.path}",
                    retryable=isinstance(error, LinkError),
                ) from error
            self._learn(build_id_after=info.build_id)
            refuse_other_target(info, self.plan.board, self.plan.build_id)
            stack.push(opened.pop_all())
            return target

    def _hello(self, target: Target) -> TargetInfo:
        deadlines = self.plan.board.deadlines
        session = Session(
            target.transport,
            deadline_s=deadlines.request_s,
            check_alive=target.check_alive,
            console=lambda _: None,
        )
        return session.hello(deadlines.boot_s)

    def _open(self) -> Target:
        """The board's port, which may come back only some time after the board was reset."""
        board = self.plan.board
        deadline = time.monotonic() + board.deadlines.reopen_s
        while True:
            try:
                return start_target(board, None, port=self.request.port)
            except PortError:
                if time.monotonic() >= deadline:
                    raise
                time.sleep(_TRY_PORT_S)

    def _note(
        self, began: float, took: dict[str, float], error: HarnessError | None = None
    ) -> None:
        """Record an attempt."""
        failure = error.message if error else ""
        if error:
            self._log.note(f"attempt {len(self.record.attempts) + 1} failed: {failure}")
            _log.warning("%s", failure)
        attempt = FlashAttempt(round(time.monotonic() - began, 3), took, failure)
        self._learn(attempts=(*self.record.attempts, attempt))

    def _learn(self, **facts: object) -> None:
        self.record = replace(self.record, **facts)
        self._keep()

    def _keep(self) -> None:
        with _writing(self._file):
            partial = self._file.with_suffix(".partial")
            partial.write_bytes(encode(self.record))
            partial.rename(self._file)


def _is_flashing(error: HarnessError) -> bool:
    """Whether flashing failed, and not something that would fail again."""
    return isinstance(error, FlashError | WrongFirmwareError)


class SilentBoardError(FlashError):
    """The tool says that it has written the image, but the board does not answer."""


def _places(job: Job[Any]) -> list[LockKey]:
    """What nobody else may use meanwhile: the port and the probe."""
    port = [port_key(job.port)] if job.port else []
    return port + ([probe_key(job.probe.selector)] if job.probe else [])


@contextmanager
def _writing(where: Path) -> Iterator[None]:
    try:
        yield
    except OSError as error:
        raise InfrastructureError(
            f"cannot write to {where}: {error.strerror}", hint="name another directory with -o"
        ) from error


@contextmanager
def _timed(stage: str, took: dict[str, float]) -> Iterator[None]:
    began = time.monotonic()
    try:
        yield
    finally:
        took[stage] = round(took.get(stage, 0.0) + time.monotonic() - began, 3)
