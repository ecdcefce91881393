"""Which board a command is for: a unit of the lab, or a type of board and a port."""

from __future__ import annotations

from dataclasses import dataclass, replace
from pathlib import Path

from harness.config.board import load_board
from harness.config.project import find_project
from harness.config.unit import Unit, UsbPort, find_unit, load_units, units_file
from harness.errors import UsageError
from harness.lab.leases import places_of
from harness.target.lease.lock_keys import place_of_port
from harness.target.ports import describe


@dataclass(frozen=True, slots=True)
class Chosen:
    """A board to talk to.

    Attributes:
        board: Its type: the name of a board or a board file.
        port: What to find its serial port by; None for a board that is started here.
        unit: What it is called; None for its port.
        leased: The unit of the lab whose lease it needs, also when only its port was named; None if
            the lab describes none there.
    """

    board: str
    port: UsbPort | str | None = None
    unit: str | None = None
    leased: Unit | None = None

    def at(self, held: Unit | None) -> Chosen:
        """The same where it was found: ``held`` is what ``hold_if`` yields."""
        if held is None or held.lease == "local":
            return self
        return replace(self, port=held.port, unit=held.id)

    @property
    def is_on_port(self) -> bool:
        """Whether it runs by itself, on a port that is known or that a coordinator knows."""
        return self.port is not None or bool(self.leased and self.leased.lease != "local")

    @property
    def probe(self) -> str:
        """Its debug probe, VID:PID:Serial; "" if that is not said."""
        return self.leased.probe if self.leased else ""


def choose(
    board: str | None, unit: str | None, port: str | None, units: Path | None = None
) -> Chosen:
    """Put together what a command was told of the board it is for.

    Args:
        board: A type of board; None for the project's default, if no unit is named.
        unit: A unit of the lab; with ``board`` also any name for it, when the lab has none of it.
        port: A serial port.
        units: The lab's file; None for the one that ``units_file`` finds.

    Raises:
        UsageError: There is no such unit or board, it contradicts itself, or says too little.
    """
    found = _unit(board, unit, units)
    if found is None:
        board = board or find_project().board
        if board is None:
            raise UsageError(
                "it is not said which board this is for",
                hint="give --unit (see `etharness units`), or --board (see `etharness boards`); "
                "or set board in [tool.etharness] of pyproject.toml",
            )
        return Chosen(board, port, unit, _on_port(port, units))
    if board is not None:
        _refuse_other_board(found, board)
    if port is not None and port != found.port:
        raise UsageError(
            f"unit {found.id!r} is on {_where(found)}, but --port says {port}",
            hint="leave out --port, or --unit",
        )
    return Chosen(found.board, found.port, found.id, found)


def lab_units(file: Path | None = None) -> tuple[Unit, ...]:
    """The lab's units; none where no file describes any and none is named."""
    found = file or units_file()
    return load_units(found) if found else ()


def _unit(board: str | None, name: str | None, units: Path | None) -> Unit | None:
    """The unit of this name; None if it is only a label for a board that is named, too."""
    if name is None:
        return None
    if units is None and board is not None:
        return next((unit for unit in lab_units() if unit.id == name), None)
    return find_unit(name, units)


def _on_port(port: str | None, units: Path | None) -> Unit | None:
    """The unit of the lab that is on a port; None if there is no lab, or none is."""
    lab = lab_units(units) if port is not None else ()
    if port is None or not lab:
        return None
    place = place_of_port(port)
    return next((unit for unit in lab if place in places_of(unit)), None)


def _refuse_other_board(unit: Unit, board: str) -> None:
    ours, theirs = load_board(unit.board)[0], load_board(board)[0]
    if ours != theirs:
        raise UsageError(
            f"unit {unit.id!r} is a {ours.name}, but --board says {theirs.name}"
            if ours.name != theirs.name
            else f"unit {unit.id!r} is described by another file than {board}: {unit.board}",
            hint="leave out --board: the unit has its own",
        )


def _where(unit: Unit) -> str:
    return "no port" if unit.port is None else describe(unit.port)
