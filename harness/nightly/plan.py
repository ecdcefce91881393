"""Plan: what a night is to do, as people write it in a TOML file."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Annotated, Any, Final, Literal

import msgspec

from harness.check.subject import model_name
from harness.config.board import Positive, Seconds, Strict
from harness.config.toml_file import Document, read_document
from harness.config.unit import Name
from harness.errors import Owner, UsageError
from harness.files import absolute

Count = Annotated[int, msgspec.Meta(ge=0)]
_NotNegative = Annotated[float, msgspec.Meta(ge=0)]

ONLY: Final = "only"
"""The label of the one variant of a plan that names none."""


class PlannedRun(Strict, frozen=True, kw_only=True):
    """Options of ``etharness run``; what is None is left to that command.

    Files are relative to the plan.
    """

    runs: Positive | None = None
    method: str | None = None
    inputs: tuple[str, ...] = ()
    references: tuple[str, ...] = ()
    rtol: _NotNegative | None = None
    atol: _NotNegative | None = None
    seed: int | None = None
    budget: str | None = None
    trace_limit: Count | None = None
    baud: Positive | None = None
    stream: bool = False
    values: Literal["none", "outputs", "intermediate"] | None = None
    profile: Literal["all", "method"] | None = None
    when_full: Literal["stop", "drop-oldest"] | None = None
    time_scales: dict[str, str] = msgspec.field(default_factory=dict)

    def files(self) -> Iterator[str]:
        """Names of the files it needs."""
        yield from (*self.inputs, *self.references)
        if self.budget is not None:
            yield self.budget

    def arguments(self, place: Path) -> Iterator[str]:
        """It as arguments of the command, with files relative to ``place``."""
        single = ("runs", "method", "rtol", "atol", "seed", "trace_limit", "baud", "values")
        for name in (*single, "profile", "when_full"):
            if (value := getattr(self, name)) is not None:
                yield f"--{name.replace('_', '-')}={value}"
        if self.budget is not None:
            yield f"--budget={place / self.budget}"
        if self.stream:
            yield "--stream"
        for option, files in (("input", self.inputs), ("reference", self.references)):
            for file in files:
                yield f"--{option}={place / file}"
        for pattern, rate in self.time_scales.items():
            yield f"--time-scale={pattern}={rate}"


class PlannedModel(PlannedRun, frozen=True, kw_only=True):
    """A model, and what is different about its runs. ``boards`` it runs on; empty for all."""

    file: str
    boards: tuple[str, ...] = ()

    @property
    def name(self) -> str:
        """Its name without the suffix."""
        return Path(model_name(self.file)).stem


class PlannedBoards(Strict, frozen=True, kw_only=True):
    """Units of one type of board.

    Attributes:
        board: The type: a board's name, or its file relative to the plan.
        units: Ids from the lab's units; empty for every unit of this type.
        fixtures: Only units that have all of these.
        count: Simulated units to make, for boards that need no hardware, when no units are chosen.
        image: Firmware to flash, relative to the plan; None for what is on the board.
    """

    board: str
    units: tuple[Name, ...] = ()
    fixtures: tuple[Name, ...] = ()
    count: Positive | None = None
    image: str | None = None


class Variant(Strict, frozen=True, kw_only=True):
    """One side of a comparison.

    Attributes:
        label: What it is called.
        commit: What its results are kept under.
        models: Folder with its models, relative to the plan; None for where the models are.
        images: Its firmware by board type, relative to the plan.
    """

    label: Name
    commit: str = ""
    models: str | None = None
    images: dict[str, str] = msgspec.field(default_factory=dict)


class PlanDeadlines(Strict, frozen=True, kw_only=True):
    """Longest times in seconds.

    Attributes:
        attempt_s: Of one run of a model.
        flash_s: Of bringing firmware onto a board.
        health_s: Of asking a board how it is.
        power_s: Of a power cycle.
        lease_s: To wait for a unit that somebody else holds.
        unit_s: Of all that one unit does tonight; None for no such limit.
        night_s: Of the night; None for no such limit.
    """

    attempt_s: Seconds = 600.0
    flash_s: Seconds = 300.0
    health_s: Seconds = 60.0
    power_s: Seconds = 60.0
    lease_s: _NotNegative = 300.0
    unit_s: Seconds | None = None
    night_s: Seconds | None = None


class Retry(Strict, frozen=True, kw_only=True):
    """How often an attempt is made again, by whose the failure is; never for product and test.

    ``backoff_s`` is the wait before the first of these, which doubles each time.
    """

    link: Count = 2
    flash: Count = 1
    board: Count = 1
    host: Count = 2
    backoff_s: _NotNegative = 2.0

    def times(self, owner: Owner) -> int:
        """How often a failure of this owner is tried again."""
        known = {Owner.LINK: self.link, Owner.FLASH: self.flash}
        known |= {Owner.BOARD: self.board, Owner.HOST: self.host}
        return known.get(owner, 0)


class Heal(Strict, frozen=True, kw_only=True):
    """What is done about units that are not well.

    Attributes:
        first: Ask every unit how it is before anything runs on it.
        power_cycle: Take the power away and give it back, where that is possible.
        bench_after: A unit that has failed so often in a row, for others' reasons than the product
            or the test, does nothing more tonight.
    """

    first: bool = True
    power_cycle: bool = True
    bench_after: Positive = 3


class NightlyPlan(Strict, frozen=True, kw_only=True):
    """A night.

    Attributes:
        schema: Version of this file format, 1.
        name: What nights by this plan are called.
        output: Folder in which every night has one of its own, relative to the plan.
        repeats: How often each unit runs each variant of each model.
        seed: Of the order.
        board: Which units.
        model: Which models.
        run: Options of all runs.
        variant: Sides of a comparison; the first is what others are held against.
        jobs: Simulated units that work at once; None for as many as there are processors.
        deadlines: Longest times.
        retry: What is tried again.
        heal: What is done about units that are not well.
        not_run: What becomes of a night in which something could not be run: a failure of the
            host's, or a note.
        history: Where results are kept: an SQLite file relative to the plan, or a URL.
        baseline: What results are held against at the end, such as ``last:20``.
        reports: Reports to write, relative to the folder of the night.
        quarantine: File of known failures, relative to the plan.
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
    history: str | None = None
    baseline: str | None = None
    reports: tuple[str, ...] = ()
    quarantine: str | None = None

    @property
    def variants(self) -> tuple[Variant, ...]:
        """All variants, one at least."""
        return self.variant or (Variant(label=ONLY),)


def load_plan(path: Path) -> tuple[NightlyPlan, Document]:
    """Read a plan.

    Raises:
        UsageError: It is missing or wrong; the message names file, line and key.
    """
    document = read_document(absolute(path))
    plan = document.as_(NightlyPlan)
    _check_models(plan, document)
    _check_variants(plan, document)
    if plan.baseline is not None and plan.history is None:
        raise UsageError(
            f"{document.where(('baseline',))}: there is no history to hold results against",
            hint='say where it is with history = "runs.sqlite"',
        )
    return plan, document


def _check_models(plan: NightlyPlan, document: Document) -> None:
    known: set[str] = set()
    for index, model in enumerate(plan.model):
        where = document.where(("model", index))
        if model.name in known:
            raise UsageError(f"{where}: two models are called {model.name!r}")
        known.add(model.name)
        own = (options_of(plan, model), model.file)
        missing = [file for file in own[0].files() if not (path_of(document, file)).is_file()]
        for variant in plan.variants:
            file = model_file(document, model, variant)
            if not file.is_file():
                missing.append(str(file))
        if missing:
            raise UsageError(
                f"{where}: no such file: {', '.join(missing)}",
                hint=f"files are relative to {document.path.parent.resolve()}",
            )


def _check_variants(plan: NightlyPlan, document: Document) -> None:
    for name in ("label", "commit"):
        seen: set[str] = set()
        for index, variant in enumerate(plan.variant):
            value: str = getattr(variant, name)
            where = document.where(("variant", index))
            if not value and len(plan.variant) > 1:
                raise UsageError(
                    f"{where}: variant {variant.label!r} has no {name}",
                    hint="results of several variants are told apart by their commits",
                )
            if value in seen:
                raise UsageError(f"{where}: two variants have the {name} {value!r}")
            seen.add(value)


def path_of(document: Document, file: str) -> Path:
    """A file that a plan names, as seen from here."""
    return document.path.parent / file


def model_file(document: Document, model: PlannedModel, variant: Variant) -> Path:
    """The file of a model in a variant."""
    if variant.models is None:
        return path_of(document, model.file)
    return path_of(document, variant.models) / model_name(model.file)


def options_of(plan: NightlyPlan, model: PlannedModel) -> PlannedRun:
    """Options of a model's runs: its own, and those of all where it has none."""
    found: dict[str, Any] = {}
    for field in msgspec.structs.fields(PlannedRun):
        own = getattr(model, field.name)
        is_own = own != ({} if field.default is msgspec.NODEFAULT else field.default)
        found[field.name] = own if is_own else getattr(plan.run, field.name)
    return PlannedRun(**found)
