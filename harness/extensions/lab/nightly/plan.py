"""The plan of nightly runs, a TOML file."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Final, Literal

import msgspec

from harness.check.history.samples import parse_baseline
from harness.check.subject import model_name
from harness.config.board import Board, Positive, Seconds, SerialTarget, Strict, load_board
from harness.config.toml_file import Document, read_document
from harness.config.unit import Name, Unit, load_units
from harness.config.unit import units_file as default_units_file
from harness.errors import Owner, UsageError
from harness.files import absolute
from harness.records.run_settings import SETTINGS, RunSetting, SettingPlace, settings_in
from harness.records.store_address import StoreAddress
from harness.runs.request import given_settings

MOST_UNITS: Final = 256
"""Most units of a night; each has a thread, and a process with its pipes."""

MOST_STEPS: Final = 100_000
"""Most steps of a night, of all units together."""

MOST_RETRIES: Final = 100
"""Most retries of a step after failures of one owner."""

_Retries = Annotated[int, msgspec.Meta(ge=0, le=MOST_RETRIES)]
_NotNegative = Annotated[float, msgspec.Meta(ge=0)]

_History = Annotated[StoreAddress, msgspec.Meta(extra_json_schema={"type": "string"})]

_IN_PLANS: Final = settings_in(SettingPlace.PLAN)

_CSV: Final = "csv:"
"""Address of a meter whose samples another program writes to a file."""

ONLY: Final = "only"
"""Label of the only variant of a plan without ``[[variant]]``."""


class _PlannedOptions(Strict, frozen=True, kw_only=True, omit_defaults=True):
    """Settings of a run, by their names in ``run_settings``; those that are not set are absent.

    Files are relative to the plan.
    """

    def given(self) -> dict[str, Any]:
        """Return the settings that are set, by name."""
        values = {setting.name: getattr(self, setting.name) for setting in _IN_PLANS}
        return {name: value for name, value in values.items() if value not in (None, (), {})}

    def within(self, folder: Path) -> dict[str, Any]:
        """Return the settings that are set, with files relative to ``folder``."""
        values = self.given()
        for name, value in values.items():
            if SETTINGS[name].is_file:
                values[name] = folder / value
            elif SETTINGS[name].is_files:
                values[name] = tuple(folder / file for file in value)
            elif name == "energy" and value.startswith(_CSV):
                values[name] = f"{_CSV}{folder / value.removeprefix(_CSV)}"
        return values

    def files(self) -> Iterator[str]:
        """Yield the names of all files that must exist."""
        for name, value in self.given().items():
            if SETTINGS[name].is_file:
                yield value
            elif SETTINGS[name].is_files:
                yield from value

    def arguments(self, folder: Path) -> Iterator[str]:
        """Yield the settings as arguments of ``etharness run``, with files within ``folder``."""
        for name, value in self.within(folder).items():
            yield from SETTINGS[name].words(value)


def _planned_field(setting: RunSetting) -> tuple[str, Any, Any]:
    """Return name, type and default of a setting's key in a plan."""
    bounds: dict[str, Any] = {"ge": setting.least, "le": setting.most, "gt": setting.above}
    kind = setting.kind
    if setting.is_file or kind is Any:
        kind = bool if setting.default is False else str
    elif kind in (int, float):
        kind = Annotated[kind, msgspec.Meta(**bounds)]
    elif isinstance(setting.default, tuple):
        kind = tuple[str, ...]
    elif isinstance(setting.default, Mapping):
        kind = dict[str, str]
    told = msgspec.Meta(description=setting.documentation)
    if isinstance(setting.default, tuple | Mapping):
        empty: Any = msgspec.field(default_factory=dict) if kind == dict[str, str] else ()
        return setting.name, Annotated[kind, told], empty
    return setting.name, Annotated[kind | None, told], None


if TYPE_CHECKING:
    PlannedRun = _PlannedOptions
else:
    PlannedRun = msgspec.defstruct(
        "PlannedRun",
        [_planned_field(setting) for setting in _IN_PLANS],
        bases=(_PlannedOptions,),
        module=__name__,
        namespace={"__doc__": "Options of ``etharness run``. Files are relative to the plan."},
        frozen=True,
        kw_only=True,
        omit_defaults=True,
    )


class PlannedModel(PlannedRun, frozen=True, kw_only=True):
    """A model with options of its own. ``boards`` are the board types it runs on; () for all."""

    file: str
    boards: tuple[str, ...] = ()

    @property
    def label(self) -> str:
        """Its name, else that of its file without the suffix."""
        return self.given().get("name") or Path(model_name(self.file)).stem


class PlannedBoards(Strict, frozen=True, kw_only=True):
    """Units of one type of board.

    Attributes:
        board: Board type: a name, or a board file relative to the plan.
        units: Ids of units of the lab; empty for every unit of this type.
        fixtures: Only units with all of these fixtures.
        count: Number of simulated units, for boards without hardware when no units are selected;
            None for the lab's units of this type, and one if it has none.
        image: Firmware to flash, relative to the plan; None to leave the firmware on the board.
    """

    board: str
    units: tuple[Name, ...] = ()
    fixtures: tuple[Name, ...] = ()
    count: Annotated[int, msgspec.Meta(gt=0, le=MOST_UNITS)] | None = None
    image: str | None = None


class Variant(Strict, frozen=True, kw_only=True):
    """One arm of a comparison.

    Attributes:
        label: Its name.
        commit: Commit recorded with its results.
        models: Folder with its models, relative to the plan; None for the models of the plan.
        images: Its firmware by board type, relative to the plan.
    """

    label: Name
    commit: str = ""
    models: str | None = None
    images: dict[str, str] = msgspec.field(default_factory=dict)


class PlanDeadlines(Strict, frozen=True, kw_only=True):
    """Timeouts in seconds.

    Attributes:
        attempt_s: One run of a model.
        flash_s: Flashing a board.
        health_s: Examining a board.
        power_s: A power cycle.
        lease_s: Waiting for a unit that is in use.
        unit_s: All steps of one unit; None for no limit.
        night_s: The whole nightly run; None for no limit.
    """

    attempt_s: Seconds = 600.0
    flash_s: Seconds = 300.0
    health_s: Seconds = 60.0
    power_s: Seconds = 60.0
    lease_s: _NotNegative = 300.0
    unit_s: Seconds | None = None
    night_s: Seconds | None = None


class Retry(Strict, frozen=True, kw_only=True):
    """Number of retries by owner of the failure; product and test failures are not retried.

    ``backoff_s`` is the pause before the first retry, which doubles each time.
    """

    link: _Retries = 2
    flash: _Retries = 1
    board: _Retries = 1
    host: _Retries = 2
    backoff_s: _NotNegative = 2.0

    def times(self, owner: Owner) -> int:
        """Return the number of retries for a failure of this owner."""
        known = {Owner.LINK: self.link, Owner.FLASH: self.flash}
        known |= {Owner.BOARD: self.board, Owner.HOST: self.host}
        return known.get(owner, 0)


class Heal(Strict, frozen=True, kw_only=True):
    """Treatment of unhealthy units.

    Attributes:
        first: Examine every unit before its first step.
        power_cycle: Power-cycle unhealthy units if their power can be switched.
        bench_after: Number of infrastructure failures in a row after which a unit is benched.
    """

    first: bool = True
    power_cycle: bool = True
    bench_after: Positive = 3


class NightlyPlan(Strict, frozen=True, kw_only=True):
    """A plan.

    Attributes:
        schema: Version of this file format, 1.
        name: Prefix of the folder names of its nightly runs.
        output: Folder for the folders of nightly runs, relative to the plan.
        repeats: Number of runs of each variant of each model on each unit.
        seed: Seed of the order.
        board: The units.
        model: The models.
        run: Options of all runs.
        variant: Arms of a comparison; the others are compared with the first.
        jobs: Number of simulated units that run in parallel; None for one per processor.
        deadlines: Timeouts.
        retry: Retry limits.
        heal: Treatment of unhealthy units.
        not_run: How steps that could not run count: as a failure of their owner, or as a note.
        history: The history: an SQLite file relative to the plan, or a URL.
        baseline: Baseline to compare the results with, such as ``last:20``.
        reports: Reports to write, relative to the folder of the nightly run.
        quarantine: Quarantine file, relative to the plan.
    """

    schema: Annotated[int, msgspec.Meta(ge=1, le=1)]
    board: Annotated[tuple[PlannedBoards, ...], msgspec.Meta(min_length=1)]
    model: Annotated[tuple[PlannedModel, ...], msgspec.Meta(min_length=1)]
    name: Name = "night"
    output: str = "out/nightly"
    repeats: Positive = 1
    seed: int = 0
    run: PlannedRun = PlannedRun()
    variant: tuple[Variant, ...] = ()
    jobs: Positive | None = None
    deadlines: PlanDeadlines = PlanDeadlines()
    retry: Retry = Retry()
    heal: Heal = Heal()
    not_run: Literal["fail", "note"] = "fail"
    history: _History | None = None
    baseline: str | None = None
    reports: tuple[str, ...] = ()
    quarantine: str | None = None

    @property
    def variants(self) -> tuple[Variant, ...]:
        """The variants, at least one."""
        return self.variant or (Variant(label=ONLY),)


def load_plan(path: Path) -> tuple[NightlyPlan, Document]:
    """Read a plan.

    Raises:
        UsageError: It is missing or invalid; the message names file, line and key.
    """
    document = read_document(absolute(path))
    plan = document.as_(NightlyPlan)
    _check_models(plan, document)
    _check_variants(plan, document)
    if plan.baseline is not None and plan.history is None:
        raise UsageError(
            f"{document.where(('baseline',))}: a baseline needs a history",
            hint='add one, such as history = "runs.sqlite"',
        )
    if plan.baseline is None:
        for index, model in enumerate(plan.model):
            options = options_of(plan, model).given()
            if needing := [name for name in ("baseline_model", "detect") if name in options]:
                raise UsageError(
                    f"{document.where(('model', index))}: {needing[0]} needs a baseline",
                    hint='add one, such as baseline = "last:20"',
                )
    else:
        try:
            parse_baseline(plan.baseline)
        except UsageError as error:
            where = document.where(("baseline",))
            raise UsageError(f"{where}: {error.message}", hint=error.hint) from error
    return plan, document


def _check_models(plan: NightlyPlan, document: Document) -> None:
    if "name" in plan.run.given() and len(plan.model) > 1:
        raise UsageError(
            f"{document.where(('run', 'name'))}: [run] cannot name several models",
            hint="give each [[model]] a name of its own",
        )
    known: set[str] = set()
    for index, model in enumerate(plan.model):
        where = document.where(("model", index))
        if model.label in known:
            raise UsageError(f"{where}: duplicate model {model.label!r}")
        known.add(model.label)
        options = options_of(plan, model)
        missing = [file for file in options.files() if not path_of(document, file).exists()]
        for variant in plan.variants:
            file = model_file(document, model, variant)
            if not file.is_file():
                missing.append(str(file))
        if missing:
            raise UsageError(
                f"{where}: file not found: {', '.join(missing)}",
                hint=f"files are relative to {document.path.parent.resolve()}",
            )
        try:
            given_settings(options.within(document.path.parent), SettingPlace.PLAN)
        except UsageError as error:
            raise UsageError(f"{where}: {error.message}", hint=error.hint) from error


def _check_variants(plan: NightlyPlan, document: Document) -> None:
    for name in ("label", "commit"):
        seen: set[str] = set()
        for index, variant in enumerate(plan.variant):
            value: str = getattr(variant, name)
            where = document.where(("variant", index))
            if not value and len(plan.variant) > 1:
                raise UsageError(
                    f"{where}: variant {variant.label!r} has no {name}",
                    hint="commits distinguish the results of several variants",
                )
            if value in seen:
                raise UsageError(f"{where}: duplicate {name} {value!r} of a variant")
            seen.add(value)


def path_of(document: Document, file: str) -> Path:
    """Return the path of a file of a plan, relative to the current folder."""
    return document.path.parent / file


def model_file(document: Document, model: PlannedModel, variant: Variant) -> Path:
    """Return the file of a model in a variant."""
    if variant.models is None:
        return path_of(document, model.file)
    return path_of(document, variant.models) / model_name(model.file)


def options_of(plan: NightlyPlan, model: PlannedModel) -> PlannedRun:
    """Return the options of a model: its own, with ``[run]`` of the plan as default."""
    return msgspec.structs.replace(plan.run, **model.given())


@dataclass(frozen=True, slots=True)
class NightUnit:
    """A unit of a nightly run.

    Attributes:
        id: Its id, under which results are recorded.
        board: Board type.
        board_file: The board file.
        unit: The unit of the lab; None for a simulated unit of the plan.
        images: Firmware to flash by variant; None to leave the firmware on the board.
    """

    id: str
    board: Board
    board_file: Path
    unit: Unit | None
    images: dict[str, Path | None]

    @property
    def started_here(self) -> bool:
        """Whether its firmware runs on this host, and so occupies a processor."""
        return not isinstance(self.board.target, SerialTarget)

    @property
    def flashed_apart(self) -> bool:
        """Whether its firmware is written before a run; simulated boards get it with each run."""
        return not self.started_here and any(self.images.values())

    @property
    def has_power(self) -> bool:
        """Whether its power can be switched."""
        return self.unit is not None and self.unit.power is not None


def units_of(plan: NightlyPlan, document: Document, units_file: Path | None) -> list[NightUnit]:
    """Return all units of a plan, in its order.

    Raises:
        UsageError: There is no such board or unit, or a unit appears twice.
    """
    found: list[NightUnit] = []
    # A plan of simulated boards needs no lab.
    has_lab = units_file is not None or default_units_file() is not None

    @cache
    def lab() -> tuple[Unit, ...]:
        return load_units(units_file)

    for index, planned in enumerate(plan.board):
        where = document.where(("board", index))
        named = planned.board
        board, file = load_board(
            str(path_of(document, named)) if named.endswith(".toml") else named
        )
        images = {v.label: _image(planned, v, board, document, where) for v in plan.variants}
        serial = isinstance(board.target, SerialTarget)
        if serial or planned.units or planned.fixtures:
            if planned.count is not None:
                raise UsageError(
                    f"{where}: count is for simulated units, but this entry selects units of the "
                    "lab",
                    hint="remove count, or remove units and fixtures",
                )
            chosen = _chosen(planned, board, lab(), where)
            _check_ports(chosen, board, where)
            found += [NightUnit(unit.id, board, file, unit, images) for unit in chosen]
        elif planned.count is None and (others := has_lab and _units_of_type(board, lab())):
            _check_ports(others, board, where)
            found += [NightUnit(unit.id, board, file, unit, images) for unit in others]
        else:
            names = [f"{board.name}-{number + 1}" for number in range(planned.count or 1)]
            found += [NightUnit(name, board, file, None, images) for name in names]
    if len(found) > MOST_UNITS:
        raise UsageError(
            f"{document.path}: the plan selects {len(found)} units; the limit is {MOST_UNITS}",
            hint="divide it into several plans",
        )
    _check_names(plan, document, found)
    return found


def _chosen(planned: PlannedBoards, board: Board, lab: tuple[Unit, ...], where: str) -> list[Unit]:
    by_id = {unit.id: unit for unit in lab}
    for name in planned.units:
        if name not in by_id:
            raise UsageError(
                f"{where}: no such unit: {name!r}",
                hint=f"known units: {', '.join(by_id) or 'none'}",
            )
    of_type = _units_of_type(board, map(by_id.__getitem__, planned.units) if planned.units else lab)
    if others := sorted(set(planned.units) - {unit.id for unit in of_type}):
        raise UsageError(f"{where}: {', '.join(others)} is not a {board.name}")
    chosen = [unit for unit in of_type if set(planned.fixtures) <= set(unit.fixtures)]
    for unit in chosen:
        _ = unit.meter  # a wrong one is an error now, not in the night
    if not chosen:
        kind = (
            f"{board.name} with {', '.join(planned.fixtures)}" if planned.fixtures else board.name
        )
        raise UsageError(
            f"{where}: the lab has no unit of type {kind}",
            hint="`etharness lab units` lists the units; `etharness explain lab` shows how to "
            "add one",
        )
    return chosen


def _check_ports(units: Sequence[Unit], board: Board, where: str) -> None:
    """Check that units of a board that runs on this host have no port, with which no run begins."""
    serial = isinstance(board.target, SerialTarget)
    if wrong := [unit.id for unit in units if unit.port is not None and not serial]:
        raise UsageError(
            f"{where}: {board.name} runs on this host, and {', '.join(wrong)} has a port",
            hint="remove port from its entry in units.toml",
        )


def _units_of_type(board: Board, units: Iterable[Unit]) -> list[Unit]:
    return [unit for unit in units if load_board(unit.board)[0].name == board.name]


def _image(
    planned: PlannedBoards, variant: Variant, board: Board, document: Document, where: str
) -> Path | None:
    named = variant.images.get(board.name, planned.image)
    if named is None:
        return None
    image = path_of(document, named)
    if board.flash is None:
        raise UsageError(
            f"{where}: {board.name} cannot be flashed, but an image is set",
            hint="remove the image, or add [flash] to the board file",
        )
    if not image.is_file():
        raise UsageError(f"{where}: image {image} not found")
    return image


def _check_names(plan: NightlyPlan, document: Document, found: list[NightUnit]) -> None:
    ids = [unit.id for unit in found]
    if twice := sorted({name for name in ids if ids.count(name) > 1}):
        raise UsageError(
            f"{document.path}: {', '.join(twice)} selected by several [[board]] entries"
        )
    boards = {unit.board.name for unit in found}
    named = {name for variant in plan.variants for name in variant.images}
    named |= {name for model in plan.model for name in model.boards}
    if unknown := sorted(named - boards):
        raise UsageError(
            f"{document.path}: the plan has no unit of type {', '.join(unknown)}",
            hint=f"boards of this plan: {', '.join(sorted(boards))}",
        )
    for index, model in enumerate(plan.model):
        with_image = [
            unit.board.name
            for unit in found
            if any(unit.images.values()) and unit.board.name in (model.boards or boards)
        ]
        if with_image and options_of(plan, model).given().get("flash"):
            raise UsageError(
                f"{document.where(('model', index))}: flash builds the firmware of "
                f"{with_image[0]}, but an image is set",
                hint="remove flash or the image",
            )
