"""Cases: each test with each of its boards and models."""

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
from harness.files import packaged_models
from harness.pytest_plugin.options import Settings, settings_of
from harness.records.run_settings import SETTINGS, SettingPlace, settings_in
from harness.target.doctor import missing_tools
from harness.target.ports import port_text

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
            resolved[name] = find_file(value, node)
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
