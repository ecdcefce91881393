"""Cases, each test with each of its boards and models, and their runs.

Each run is executed once, no matter how many tests and workers request it.
"""

from __future__ import annotations

import hashlib
import logging
import os
import uuid
from collections.abc import Callable, Iterator, Mapping, Sequence, Set
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field, replace
from fnmatch import fnmatchcase
from functools import cache
from pathlib import Path
from typing import Any, Final

import pytest
from filelock import FileLock, Timeout

from harness.api import Run, RunContext
from harness.config.board import Board, SerialTarget, load_board
from harness.config.project import Project, find_project
from harness.config.unit import Unit as LabUnit
from harness.config.unit import UsbPort, load_units, units_file
from harness.errors import ChecksFailedError, HarnessError, InfrastructureError, UsageError
from harness.files import packaged_models, read_model
from harness.link.session import Session
from harness.printing import counted
from harness.pytest_plugin.options import Settings, settings_of
from harness.pytest_plugin.run_directories import fail, use
from harness.records.run_settings import SETTINGS, SettingPlace, settings_in
from harness.runs.directory import RunDirectory
from harness.runs.evaluation import evaluate_path
from harness.runs.history import HistoryRef, add_reported
from harness.runs.request import SESSION_VARIABLE, given_settings, request_on
from harness.runs.run import run_model
from harness.runs.source import EvaluatedRun
from harness.target.build import build_firmware
from harness.target.doctor import missing_tools
from harness.target.ports import device_of, port_text
from harness.target.selection import Chosen, check_identity, hold_if, hold_keys, port_key
from harness.target.start import greet, started

CASE: Final = "_etharness_case"
"""The fixture whose parameter is a case; all other fixtures request it."""

_MARKED: Final = ("exclude", *(setting.name for setting in settings_in(SettingPlace.MARKER)))
_NO_OPTIONS: Final = frozenset(("exclude", "board", "model", "budget"))
"""Arguments of a marker that select cases, or hold for the test and not for its run."""


@dataclass(frozen=True)
class CaseUnit:
    """A board to run on.

    Attributes:
        board: Board type.
        file: Board file.
        name: Name of this board; the board type's name for a simulated one.
        port: Serial port, or the USB device to find it by; None for a target started here.
        leased: Unit of the lab; None if the lab has no such unit.
    """

    board: Board
    file: Path
    name: str
    port: UsbPort | str | None = None
    leased: LabUnit | None = None


@dataclass(frozen=True)
class Case:
    """A test on one unit with one model.

    Attributes:
        unit: The unit.
        model: The model; None if the test names none.
        options: Options of its run.
        budget: Budget of its runs; None for the one that the board file names.
        unable: Why it cannot run here; "" if it can.
        left_out: The command line names other boards.
    """

    unit: CaseUnit
    model: Path | None
    options: Mapping[str, Any] = field(default_factory=dict)
    budget: Path | None = None
    unable: str = ""
    left_out: bool = False


def parametrize(metafunc: pytest.Metafunc) -> None:
    """Create a test for each case.

    Raises:
        CollectError: A marker or a board file is invalid.
    """
    try:
        marked = marks_of(metafunc.definition)
        cases = [*_cases(metafunc, marked)]
    except HarnessError as error:
        hint = f"\n  try: {error.hint}" if error.hint else ""
        where = metafunc.definition.nodeid
        raise pytest.Collector.CollectError(f"{where}: {error.message}{hint}") from error
    units = {(case.unit.board.name, case.unit.name) for case in cases}
    parameters = [
        pytest.param(case, id=_id(case, units), marks=_marks(case, metafunc.config))
        for case in cases
    ]
    metafunc.parametrize(CASE, parameters, indirect=True)


def marks_of(node: pytest.Item | pytest.Function | Any) -> dict[str, Any]:
    """Return the arguments of a test's markers; the nearest marker with an argument wins.

    Raises:
        CollectError: A marker has an unknown or a positional argument.
    """
    marks: dict[str, Any] = {}
    for marker in node.iter_markers("etharness"):
        unknown = [name for name in marker.kwargs if name not in _MARKED]
        if marker.args or unknown:
            wrong = f"unknown: {', '.join(unknown)}" if unknown else "give its arguments by name"
            raise pytest.Collector.CollectError(
                f"{node.nodeid}: wrong arguments of the marker etharness: {wrong}\n"
                f"  try: {', '.join(_MARKED)}"
            )
        marks = {**marker.kwargs, **marks}
    return marks


def find_file(name: str | os.PathLike[str], node: pytest.Item | Any) -> Path:
    """Return the path of a file that a test names: beside the test, else in the project's root."""
    beside = node.path.parent / name
    from_root = node.config.rootpath / name
    return from_root if not beside.exists() and from_root.exists() else beside


def _find_model(name: str, node: pytest.Item | Any) -> Path:
    """Return the model that a test names: a file, or a model of the project or this package."""
    file = find_file(name, node)
    if file.exists():
        return file
    models = project_of(settings_of(node.config)).models
    beside = [models / name, models / f"{name}.pte"] if models is not None else []
    beside_test = next((path for path in beside if path.is_file()), None)
    return beside_test or packaged_models().get(name) or file


def budget_of(named: str | os.PathLike[str] | None, node: pytest.Item | Any) -> Path | None:
    """Return the budget file that a test names, else the session's or the project's."""
    if named is not None:
        return find_file(named, node)
    settings = settings_of(node.config)
    return settings.budget or project_of(settings).budget


def project_of(settings: Settings) -> Project:
    """Return the defaults of the project that the tests belong to.

    Raises:
        UsageError: Its pyproject.toml is invalid.
    """
    return _project(settings.root)


@cache
def _project(root: Path) -> Project:
    return find_project(root)


def with_files(options: Mapping[str, Any], node: pytest.Item | Any) -> dict[str, Any]:
    """Return options of a run with their files resolved by ``find_file``."""
    resolved = dict(options)
    for name, value in options.items():
        setting = SETTINGS.get(name)
        if setting is None or not value:
            continue  # an unknown one is an error of the run
        if setting.is_files:
            resolved[name] = tuple(find_file(file, node) for file in value)
        elif setting.is_file or (name == "flash" and isinstance(value, str | os.PathLike)):
            file = find_file(value, node)
            # A bare name may be of a file of this package.
            bare = file.suffix == "" and Path(value).name == str(value) and not file.exists()
            resolved[name] = Path(value) if name == "dataset" and bare else file
    return resolved


def _cases(metafunc: pytest.Metafunc, marked: Mapping[str, Any]) -> Iterator[Case]:
    node, settings = metafunc.definition, settings_of(metafunc.config)
    own = [
        str(find_file(name, node)) if name.endswith(".toml") else name
        for name in _listed(marked.get("board"))
    ]
    chosen = {_load(name)[0].name for name in settings.boards}
    models = [_find_model(name, node) for name in _listed(marked.get("model"))]
    options = with_files({name: marked[name] for name in marked if name not in _NO_OPTIONS}, node)
    if settings.energy is not None:
        options.setdefault("energy", settings.energy)
    budget = budget_of(marked.get("budget"), node)
    units = [unit.board for unit in lab_units(settings)]
    default = project_of(settings).board or "native"
    for name in own or settings.boards or [*dict.fromkeys(units)] or (default,):
        for unit in _units(name, settings):
            left_out = settings.named_on_command_line and unit.board.name not in chosen
            unable = "" if left_out else _unable(unit)
            for model in models or (None,):
                if not _excluded(unit.board.name, model, marked.get("exclude", ())):
                    yield Case(unit, model, options, budget, unable, left_out)


def _listed(names: Any) -> list[str]:
    if names is None:
        return []
    return [os.fspath(name) for name in ([names] if isinstance(names, str | Path) else names)]


@cache
def _load(name: str) -> tuple[Board, Path]:
    return load_board(name)


def lab_units(settings: Settings) -> list[LabUnit]:
    """Return the lab units that the command line names.

    Raises:
        UsageError: The unit file is invalid.
    """
    if not settings.units or (settings.lab is None and units_file() is None):
        return []
    known = {unit.id: unit for unit in load_units(settings.lab)}
    return [known[name] for _, name in settings.units if name in known]


def _units(name: str, settings: Settings) -> list[CaseUnit]:
    board, file = _load(name)
    ours = [unit for unit in lab_units(settings) if _load(unit.board)[0] == board]
    of_lab = [CaseUnit(board, file, unit.id, unit.port, unit) for unit in ours]
    if not isinstance(board.target, SerialTarget):
        return of_lab or [CaseUnit(board, file, board.name)]
    ports, names = (
        [value for whose, value in pairs if whose in ("", board.name)]
        for pairs in (settings.ports, settings.units)
    )
    names = [name for name in names if name not in {unit.id for unit in lab_units(settings)}]
    if len(names) > len(ports):
        raise UsageError(
            f"--etharness-unit names {counted(len(names), 'unit')} of {board.name}, but "
            f"--etharness-port {counted(len(ports), 'port')}"
        )
    names += ports[len(names) :]
    on_ports = [CaseUnit(board, file, unit, port) for unit, port in zip(names, ports, strict=True)]
    return of_lab + on_ports or [CaseUnit(board, file, board.name)]


def _unable(unit: CaseUnit) -> str:
    name = unit.board.name
    if isinstance(unit.board.target, SerialTarget):
        remedy = f"give --etharness-port {name}=PORT, or --etharness-unit"
        return "" if unit.port else f"{name} has no port here: {remedy}"
    missing = missing_tools(unit.board)
    return f"{name} cannot run here, missing {', '.join(missing)}" if missing else ""


def _excluded(board: str, model: Path | None, exclude: Sequence[Any]) -> bool:
    """Whether a pattern, or a pair of one for boards and one for models, matches both."""
    for item in [exclude] if isinstance(exclude, str) else exclude:
        boards, models = (item, "*") if isinstance(item, str) else item
        of_model = (model.name, model.stem) if model is not None else ("",)
        if fnmatchcase(board, boards) and any(fnmatchcase(name, models) for name in of_model):
            return True
    return False


def _id(case: Case, units: Set[tuple[str, str]]) -> str:
    unit = case.unit
    alone = sum(board == unit.board.name for board, _ in units) == 1
    named = unit.name not in (unit.board.name, unit.port)
    where = unit.board.name
    if named or not alone:
        where += f".{Path(unit.name).name}"
    return where if case.model is None else f"{where}-{case.model.stem}"


def _marks(case: Case, config: pytest.Config) -> list[pytest.MarkDecorator]:
    """Skip a case that cannot run here; group the tests of a real unit for pytest-xdist."""
    marks = []
    if case.unable and not settings_of(config).strict:
        marks.append(pytest.mark.skip(reason=case.unable))
    if case.unit.port is not None and hasattr(config.option, "dist"):  # pytest-xdist is there
        port = Path(port_text(case.unit.port)).name
        marks.append(pytest.mark.xdist_group(f"{case.unit.board.name}.{port}"))
    return marks


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
        started(board, firmware, port=held.port, console=console.extend) as session,
    ):
        check_identity(greet(session, board), board, firmware.build_id if firmware else None)
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
