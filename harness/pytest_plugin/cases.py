"""Cases: each test, on each board that it is for, with each of its models."""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping, Sequence, Set
from dataclasses import dataclass, field
from fnmatch import fnmatchcase
from functools import cache
from pathlib import Path
from typing import Any, Final

import pytest

from harness.config.board import Board, SerialTarget, load_board
from harness.config.project import Project, find_project
from harness.config.unit import Unit as LabUnit
from harness.config.unit import UsbPort, load_units, units_file
from harness.errors import HarnessError, UsageError
from harness.pytest_plugin.options import Settings, settings_of
from harness.resources import packaged_model
from harness.target.doctor import missing_tools
from harness.target.ports import describe

CASE: Final = "_etharness_case"
"""The fixture that a case is the parameter of; all others ask for it."""

OPTIONS: Final = (
    *("runs", "inputs", "seed", "references", "rtol", "atol", "trace_limit", "method"),
    *("stream", "baud", "values", "profile", "when_full", "time_scales"),
)
"""What a marker may say of a run, as ``harness.runs.request.RunRequest`` has it."""

_FILES: Final = ("inputs", "references")
_MARKED: Final = ("board", "model", "exclude", "budget", *OPTIONS)


@dataclass(frozen=True)
class CaseUnit:
    """A board to run on.

    Attributes:
        board: Its type.
        file: The file that describes it.
        name: Which board of its type it is; the type's name for one that is simulated.
        port: Its serial port, or what to find it by; None for what is started here.
        leased: The unit of the lab that it is; None if the lab describes none.
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
        model: The model; None when the test names none.
        options: Of its run.
        budget: What its runs are held against; None for what the board file says.
        unable: Why it cannot run here; empty when it can.
        left_out: The command line names other boards.
    """

    unit: CaseUnit
    model: Path | None
    options: Mapping[str, Any] = field(default_factory=dict)
    budget: Path | None = None
    unable: str = ""
    left_out: bool = False


def parametrize(metafunc: pytest.Metafunc) -> None:
    """Make a test of each case.

    Raises:
        CollectError: A marker or a board file is wrong.
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
    """What the markers of a test say; for each argument the nearest that has it.

    Raises:
        CollectError: They say what none can.
    """
    said: dict[str, Any] = {}
    for marker in node.iter_markers("etharness"):
        unknown = [name for name in marker.kwargs if name not in _MARKED]
        if marker.args or unknown:
            wrong = f"unknown: {', '.join(unknown)}" if unknown else "give its arguments by name"
            raise pytest.Collector.CollectError(
                f"{node.nodeid}: wrong arguments of the marker etharness: {wrong}\n"
                f"  try: {', '.join(_MARKED)}"
            )
        said = {**marker.kwargs, **said}
    return said


def find_file(name: str | os.PathLike[str], node: pytest.Item | Any) -> Path:
    """A file that a test names: beside its own file, or from the root of the project."""
    beside = node.path.parent / name
    from_root = node.config.rootpath / name
    return from_root if not beside.exists() and from_root.exists() else beside


def _find_model(name: str, node: pytest.Item | Any) -> Path:
    """The model that a test names: a file, or the name of one that comes with the package."""
    file = find_file(name, node)
    if file.exists():
        return file
    models = project_of(settings_of(node.config)).models
    beside = [models / name, models / f"{name}.pte"] if models is not None else []
    found = next((path for path in beside if path.is_file()), None)
    return found or packaged_model(name) or file


def budget_of(said: str | os.PathLike[str] | None, node: pytest.Item | Any) -> Path | None:
    """The budget file that a test names, or else the session's."""
    if said is not None:
        return find_file(said, node)
    settings = settings_of(node.config)
    return settings.budget or project_of(settings).budget


def project_of(settings: Settings) -> Project:
    """Defaults of the project that the tests belong to.

    Raises:
        UsageError: Its pyproject.toml is wrong.
    """
    return _project(settings.root)


@cache
def _project(root: Path) -> Project:
    return find_project(root)


def with_files(options: Mapping[str, Any], node: pytest.Item | Any) -> dict[str, Any]:
    """Options of a run with the files that they name, as ``find_file`` finds them."""
    return {
        name: tuple(find_file(file, node) for file in value) if name in _FILES else value
        for name, value in options.items()
    }


def _cases(metafunc: pytest.Metafunc, marked: Mapping[str, Any]) -> Iterator[Case]:
    node, settings = metafunc.definition, settings_of(metafunc.config)
    own = [
        str(find_file(name, node)) if name.endswith(".toml") else name
        for name in _listed(marked.get("board"))
    ]
    chosen = {_load(name)[0].name for name in settings.boards}
    models = [_find_model(name, node) for name in _listed(marked.get("model"))]
    options = with_files({name: marked[name] for name in OPTIONS if name in marked}, node)
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
    """The units of the lab that the command line names.

    Raises:
        UsageError: The lab's file is wrong.
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
            f"--etharness-unit names {len(names)} units of {board.name}, but --etharness-port "
            f"{len(ports)} ports"
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
    return f"{name} cannot run here, it lacks {', '.join(missing)}" if missing else ""


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
    """Skip what cannot run, and keep the tests of a real unit in one worker where that is asked."""
    marks = []
    if case.unable and not settings_of(config).strict:
        marks.append(pytest.mark.skip(reason=case.unable))
    if case.unit.port is not None and hasattr(config.option, "dist"):  # pytest-xdist is there
        place = Path(describe(case.unit.port)).name
        marks.append(pytest.mark.xdist_group(f"{case.unit.board.name}.{place}"))
    return marks
