"""Resolves the units of a nightly run: units of the lab, and simulated units."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from harness.config.board import Board, SerialTarget, load_board
from harness.config.toml_file import Document
from harness.config.unit import Unit, load_units
from harness.errors import UsageError
from harness.nightly.plan import NightlyPlan, PlannedBoards, Variant, path_of


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
    def has_power(self) -> bool:
        """Whether its power can be switched."""
        return self.unit is not None and self.unit.power is not None


def units_of(plan: NightlyPlan, document: Document, units_file: Path | None) -> list[NightUnit]:
    """Return all units of a plan, in its order.

    Raises:
        UsageError: There is no such board or unit, or a unit appears twice.
    """
    found: list[NightUnit] = []
    lab: tuple[Unit, ...] | None = None
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
            lab = load_units(units_file) if lab is None else lab
            chosen = _chosen(planned, board, lab, where)
            found += [NightUnit(unit.id, board, file, unit, images) for unit in chosen]
        else:
            names = [f"{board.name}-{number + 1}" for number in range(planned.count or 1)]
            found += [NightUnit(name, board, file, None, images) for name in names]
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
    of_type = [
        unit
        for unit in (map(by_id.__getitem__, planned.units) if planned.units else lab)
        if load_board(unit.board)[0].name == board.name
    ]
    if others := sorted(set(planned.units) - {unit.id for unit in of_type}):
        raise UsageError(f"{where}: {', '.join(others)} is not a {board.name}")
    chosen = [unit for unit in of_type if set(planned.fixtures) <= set(unit.fixtures)]
    if not chosen:
        kind = (
            f"{board.name} with {', '.join(planned.fixtures)}" if planned.fixtures else board.name
        )
        raise UsageError(
            f"{where}: the lab has no unit of type {kind}",
            hint="`etharness lab units` lists the units; docs/lab.md shows how to add one",
        )
    return chosen


def _image(
    planned: PlannedBoards, variant: Variant, board: Board, document: Document, where: str
) -> Path | None:
    named = variant.images.get(board.name, planned.image)
    if named is None:
        return None
    image = path_of(document, named)
    if not isinstance(board.target, SerialTarget) or board.flash is None:
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
