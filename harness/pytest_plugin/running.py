"""Runs of a session, each executed once, no matter how many tests and workers request it."""

from __future__ import annotations

import hashlib
import logging
import os
import uuid
from collections.abc import Callable, Iterator, Mapping
from contextlib import ExitStack, contextmanager
from dataclasses import replace
from functools import cache
from pathlib import Path
from typing import Any

import pytest
from filelock import FileLock, Timeout

from harness.api import Run, RunContext
from harness.config.board import SerialTarget
from harness.errors import ChecksFailedError, HarnessError, InfrastructureError, UsageError
from harness.files import read_model
from harness.link.session import Session
from harness.pytest_plugin.cases import Case, CaseUnit, budget_of, find_file, with_files
from harness.pytest_plugin.run_directories import fail, use
from harness.records.run_settings import SettingPlace
from harness.runs.directory import RunDirectory
from harness.runs.evaluation import evaluate_path
from harness.runs.history import HistoryRef, add_reported
from harness.runs.request import SESSION_VARIABLE, given_settings, request_on
from harness.runs.run import run_model
from harness.runs.source import EvaluatedRun
from harness.target.build import build_firmware
from harness.target.ports import device_of
from harness.target.selection import Chosen, check_identity, hold_if, hold_keys, port_key
from harness.target.start import start_target

_log = logging.getLogger(__name__)


class Runs:
    """Runs by unit, model and options.

    Workers of pytest-xdist share them: the first that requests a run executes it, the others wait.

    Attributes:
        directory: Folder of the run directories.
        against: History that they are compared with and added to; None for no history.
    """

    def __init__(self, directory: Path, wait_s: float, against: HistoryRef | None = None) -> None:
        """Store runs in ``directory``; wait at most ``wait_s`` seconds for another worker's run."""
        self.directory = directory
        self.against = against
        self._wait_s = wait_s
        self._read: dict[Path, EvaluatedRun] = {}

    def directory_of(self, unit: CaseUnit, model: Path, options: Mapping[str, Any]) -> Path:
        """Return the run directory of a model on a unit; it may not exist yet.

        Raises:
            UsageError: The model cannot be read.
        """
        digest = hashlib.sha256(read_model(model)).hexdigest()
        given = sorted((name, repr(value)) for name, value in options.items())
        key = repr((str(unit.file), unit.name, unit.port, str(model), digest, given))
        name = f"{unit.board.name}-{model.stem}-{hashlib.sha256(key.encode()).hexdigest()[:8]}"
        return self.directory / name

    def get(self, unit: CaseUnit, model: Path, options: Mapping[str, Any]) -> EvaluatedRun:
        """Return the run of a model on a unit, evaluated with the board file's budget.

        Raises:
            UsageError: The request is invalid.
            TargetError: The target misbehaved, now or when the run was executed.
            InfrastructureError: The link, the port or the host failed, likewise; or the wait for
                another process timed out.
        """
        path = self.directory_of(unit, model, options)
        if path not in self._read:
            self.directory.mkdir(parents=True, exist_ok=True)
            with _alone(path, self._wait_s):
                known = _finished(path)
                if not known:
                    self._execute(unit, model, options, path)
                self._read[path] = evaluate_path(path)
                if not known and self.against is not None:
                    add_reported(self.against.url, self._read[path])
        run = self._read[path]
        if (error := run.error) is not None:
            raise error
        return run

    def _execute(self, unit: CaseUnit, model: Path, options: Mapping[str, Any], path: Path) -> None:
        given = given_settings({"session": _session(), **options}, SettingPlace.MARKER)
        chosen = Chosen(str(unit.file), unit.port, unit.name, unit.leased)
        request = request_on(chosen, model, replace(given, output=path))
        # A session's budget and history are not those of the project.
        request = replace(request, budget=given.budget, against=self.against)
        try:
            with holding(unit, self._wait_s) as held:
                here = replace(request, chosen=Chosen(str(held.file), held.port, held.name))
                run_model(here)
        except HarnessError as error:
            if not RunDirectory(path).is_one:
                raise
            _log.info("run of %s on %s failed: %s", model, unit.name, error.message)


@contextmanager
def holding(unit: CaseUnit, wait_s: float) -> Iterator[CaseUnit]:
    """Hold the lease of a unit; yield the unit with its current port.

    Raises:
        InfrastructureError: The wait for the lease timed out.
    """
    with ExitStack() as stack:
        if unit.leased is not None:
            held = stack.enter_context(hold_if(unit.leased, reason="tests", timeout_s=wait_s))
            if held is not None and held.lease != "local":
                unit = replace(unit, port=held.port, name=held.id)
        elif unit.port is not None:
            stack.enter_context(hold_keys([port_key(device_of(unit.port))], wait_s))
        yield unit


@contextmanager
def open_session(unit: CaseUnit, wait_s: float, console: bytearray) -> Iterator[Session]:
    """Start a unit, wait for its HELLO and reset its state.

    Args:
        unit: The unit.
        wait_s: Timeout for a unit that another process holds, seconds.
        console: Receives the text that the board prints.

    Raises:
        UsageError: The firmware cannot be built here.
        TargetError: It is another target, or died.
        InfrastructureError: It cannot be reached.
    """
    board = unit.board
    firmware = None if isinstance(board.target, SerialTarget) else build_firmware(board)
    with (
        holding(unit, wait_s) as held,
        start_target(board, firmware, port=held.port) as target,
    ):
        session = Session(
            target.transport,
            deadline_s=board.deadlines.request_s,
            console=console.extend,
            check_alive=target.check_alive,
            board=board.name,
        )
        info = session.hello(board.deadlines.boot_s)
        check_identity(info, board, firmware.build_id if firmware else None)
        session.reset()
        yield session


@contextmanager
def _alone(path: Path, wait_s: float) -> Iterator[None]:
    lock = FileLock(path.with_name(f"{path.name}.lock"))
    try:
        lock.acquire(timeout=wait_s)
    except Timeout as error:
        raise InfrastructureError(
            f"run {path.name}: another worker did not finish it within {wait_s:g} s",
            hint="increase --etharness-wait",
        ) from error
    try:
        yield
    finally:
        lock.release()


@cache
def _session() -> str | None:
    """Return the session id of these results; None if the environment sets it."""
    if os.environ.get(SESSION_VARIABLE):
        return None
    return os.environ.get("PYTEST_XDIST_TESTRUNUID") or uuid.uuid4().hex


def _finished(path: Path) -> bool:
    run = RunDirectory(path)
    if not run.is_one:
        return False
    return not run.read_result().unfinished


class _TestContext(RunContext):
    """A test: files are found beside it, and failed verdicts are shown when it fails."""

    def __init__(self, node: pytest.Item) -> None:
        self._node = node

    def find_file(self, path: str | os.PathLike[str]) -> Path:
        return find_file(path, self._node)

    def verdict_failed(self, error: Callable[[], ChecksFailedError], *, checked: bool) -> None:
        __tracebackhide__ = True
        failure = error()
        fail(self._node, failure.message)
        if checked:
            raise failure


def profile(
    node: pytest.Item,
    runs: Runs,
    case: Case,
    model: str | os.PathLike[str] | None,
    options: Mapping[str, Any],
) -> Run:
    """Return the run of a model on the unit of a case; run it if that has not been done.

    Args:
        node: The test.
        runs: The runs of the session.
        case: Unit, model and options of the test.
        model: The model; None for that of the case.
        options: Options of the run; they override those of the case.

    Raises:
        HarnessError: There is no model, or the run failed.
    """
    file = case.model if model is None else find_file(model, node)
    if file is None:
        raise UsageError(
            "the test names no model", hint='mark it: @pytest.mark.etharness(model="model.pte")'
        )
    options = {**case.options, **with_files(options, node)}
    directory = runs.directory_of(case.unit, file, options)
    use(node, directory)
    found = runs.get(case.unit, file, options)
    result = found.result
    if result is None or not found.traced or found.directory is None:
        raise UsageError(f"{found.title} holds no finished run")
    budget = budget_of(case.budget, node)
    run = Run(found, budget=budget, against=runs.against, context=_TestContext(node))
    model_, target = result.model, result.target
    node.user_properties += [
        ("etharness_version", result.tool_version),
        ("etharness_model", file.name),
        ("etharness_model_sha256", model_.sha256 if model_ else ""),
        ("etharness_build_id", target.build_id if target else ""),
    ]
    return run
