"""Selects the board of a command, and checks that the board that answers is the selected one."""

from __future__ import annotations

from dataclasses import dataclass, replace
from pathlib import Path

from harness.config.board import Board, load_board
from harness.config.project import find_project
from harness.config.unit import Unit, UsbPort, find_unit, load_units, units_file
from harness.errors import UsageError, WrongBoardError, WrongFirmwareError
from harness.lab.leases import places_of
from harness.link.values import TargetInfo
from harness.target.lease.records import port_key
from harness.target.ports import describe


@dataclass(frozen=True, slots=True)
class Chosen:
    """The board that a command is for.

    Attributes:
        board: Board type: its name or a board file.
        port: Serial port, or how to find it; None for a board that this host simulates.
        unit: Name of the unit in results; None for the name of the port.
        leased: The unit of the lab to lease, also when the command named only its port; None if
            the lab has no such unit.
    """

    board: str
    port: UsbPort | str | None = None
    unit: str | None = None
    leased: Unit | None = None

    def at(self, held: Unit | None) -> Chosen:
        """Return it with the port and name of ``held``, the unit that ``hold_if`` yields."""
        if held is None or held.lease == "local":
            return self
        return replace(self, port=held.port, unit=held.id)

    @property
    def is_on_port(self) -> bool:
        """Whether the board is connected to a port, known here or to a coordinator."""
        return self.port is not None or bool(self.leased and self.leased.lease != "local")

    @property
    def probe(self) -> str:
        """Its debug probe, VID:PID:Serial; "" if its unit names none."""
        return self.leased.probe if self.leased else ""


def choose(
    board: str | None, unit: str | None, port: str | None, units: Path | None = None
) -> Chosen:
    """Return the board selected by the options of a command.

    Args:
        board: Board type; None for the project's default if no unit is named.
        unit: Unit of the lab; with ``board`` also a label for a board that is not in the lab.
        port: Serial port.
        units: The lab's ``units.toml``; None for the one that ``units_file`` finds.

    Raises:
        UsageError: The unit or board does not exist, or the options contradict each other or
            select no board.
    """
    found = _unit(board, unit, units)
    if found is None:
        board = board or find_project().board
        if board is None:
            raise UsageError(
                "no board selected",
                hint="give --unit (see `etharness lab units`) or --board (see `etharness boards`), "
                "or set `board` in [tool.etharness] of pyproject.toml",
            )
        return Chosen(board, port, unit, _on_port(port, units))
    if board is not None:
        _check_board_type(found, board)
    if port is not None and port != found.port:
        raise UsageError(
            f"unit {found.id!r} is on {_port_name(found)}, but --port is {port}",
            hint="remove --port or --unit",
        )
    return Chosen(found.board, found.port, found.id, found)


def lab_units(file: Path | None = None) -> tuple[Unit, ...]:
    """Return the units of the lab; () if there is no ``units.toml`` and ``file`` is None."""
    found = file or units_file()
    return load_units(found) if found else ()


def check_identity(info: TargetInfo, board: Board, build_id: str | None) -> None:
    """Check that the target is the selected board, with the expected firmware and clock.

    Args:
        info: The target's answer to HELLO.
        board: The selected board.
        build_id: Build id of the firmware that was built or flashed; None to accept any.

    Raises:
        WrongBoardError: The board or its clock is another one.
        WrongFirmwareError: The firmware is another build.
    """
    if info.board != board.name:
        raise WrongBoardError(f"the target is board {info.board!r}, expected {board.name!r}")
    if build_id is not None and info.build_id != build_id:
        raise WrongFirmwareError(
            f"{info.board} runs firmware {info.build_id!r}, expected {build_id!r}"
        )
    timer, clock = board.timer, info.clocks[0]
    if clock.bits != timer.bits or clock.hz != timer.hz:
        raise WrongBoardError(
            f"{info.board} reports a clock of {clock.hz} Hz and {clock.bits} bits, but its "
            f"board file has {timer.hz} Hz and {timer.bits} bits"
        )


def _unit(board: str | None, name: str | None, units: Path | None) -> Unit | None:
    """Return the unit of this name; None if the name is only a label beside ``board``."""
    if name is None:
        return None
    if units is None and board is not None:
        return next((unit for unit in lab_units() if unit.id == name), None)
    return find_unit(name, units)


def _on_port(port: str | None, units: Path | None) -> Unit | None:
    """Return the unit of the lab that is connected to a port; None without a match."""
    lab = lab_units(units) if port is not None else ()
    if port is None or not lab:
        return None
    place = port_key(port)
    return next((unit for unit in lab if place in places_of(unit)), None)


def _check_board_type(unit: Unit, board: str) -> None:
    found, wanted = load_board(unit.board)[0], load_board(board)[0]
    if found != wanted:
        raise UsageError(
            f"unit {unit.id!r} is a {found.name}, but --board is {wanted.name}"
            if found.name != wanted.name
            else f"unit {unit.id!r} has another board file than {board}: {unit.board}",
            hint="remove --board: the unit defines it",
        )


def _port_name(unit: Unit) -> str:
    return "no port" if unit.port is None else describe(unit.port)
