"""A run directory whose result is true at every moment: unfinished, failed, or complete."""

from __future__ import annotations

import logging
import os
import time
import uuid
from collections.abc import Callable, Iterator
from contextlib import contextmanager

from msgspec.structs import replace

from harness import __version__
from harness.capped import CappedBuffer
from harness.config.board import Board
from harness.errors import HarnessError, HostError, InfrastructureError, Owner
from harness.files import display_path
from harness.interrupts import exit_code_of, interrupt_text
from harness.records.result import UNFINISHED, Failure, Result, now_utc
from harness.runs.directory import CONSOLE, RunDirectory
from harness.runs.request import SESSION_VARIABLE, RunRequest, current_commit

_log = logging.getLogger(__name__)


def unfinished_result(request: RunRequest, board: Board, time_scales: dict[str, str]) -> Result:
    """Return the result of a run that begins now, as it stays if the process is killed."""
    own_id = uuid.uuid4().hex
    return Result(
        id=own_id,
        tool_version=__version__,
        started_utc=now_utc("milliseconds"),
        duration_s=0.0,
        board=board.name,
        port=request.port_name,
        unit=request.unit_name or board.name,
        commit=current_commit(request.model) if request.commit is None else request.commit,
        session=request.session or os.environ.get(SESSION_VARIABLE, "") or own_id,
        runs_requested=request.runs,
        runs_completed=0,
        seed=request.seed,
        emulated_time=board.emulated_time,
        core=board.core and board.core.record(),
        time_scales=time_scales,
        metadata=dict(board.metadata),
        exit_code=InfrastructureError.exit_code,
        failure=Failure(UNFINISHED, "the run was cut off", "run it again", Owner.HOST),
    )


class RunRecorder:
    """Keeps the result of a run in its directory.

    Attributes:
        directory: The run directory.
        result: The result so far.
        console: The board's console output so far.
    """

    def __init__(self, directory: RunDirectory, result: Result) -> None:
        """Write the result, which describes the run if the process is killed before its end."""
        self.directory, self.result = directory, result
        self.console = CappedBuffer()
        self._began = time.monotonic()
        directory.write_result(result)

    @contextmanager
    def recorded(self) -> Iterator[None]:
        """Record how the run ends, and complete its directory in any case.

        Raises:
            HostError: The directory could not be written.
        """
        try:
            with self._as_host_error("was cut short"):
                yield
        except HarnessError as error:
            failure = Failure(type(error).__name__, error.message, error.hint, error.owner)
            self.update(failure=failure, exit_code=error.exit_code)
            raise
        except KeyboardInterrupt as interrupt:
            message = interrupt_text(interrupt)
            failure = Failure(type(interrupt).__name__, message, "", Owner.HOST)
            self.update(failure=failure, exit_code=exit_code_of(interrupt))
            raise
        finally:
            write_error = self._finish()
        if write_error is not None:
            raise write_error

    def update(self, **facts: object) -> None:
        """Replace fields of the result."""
        self.result = replace(self.result, **facts)

    def _finish(self) -> HostError | None:
        """Write the console and the result; log and return an error, None if both are written."""
        self.update(
            duration_s=round(time.monotonic() - self._began, 3),
            console_left_out=self.console.left_out,
        )
        # The result comes last, because it records the other files. An error of the result wins.
        console = self._write("console", lambda: self.directory.write(CONSOLE, bytes(self.console)))
        result = self._write("result", self._finish_directory)
        return result or console

    def _finish_directory(self) -> None:
        self.result = self.directory.finish(self.result)

    def _write(self, name: str, write: Callable[[], None]) -> HostError | None:
        try:
            with self._as_host_error("was not saved", f"the {name} of "):
                write()
        except HostError as error:
            _log.error("%s", error.message)
            return error
        return None

    @contextmanager
    def _as_host_error(self, consequence: str, part: str = "") -> Iterator[None]:
        """Turn errors of the operating system into HostError, with their consequence."""
        try:
            yield
        except (OSError, MemoryError) as error:
            place = display_path(self.directory.path)
            raise HostError.of(error, f"{part}the run in {place} {consequence}") from error
