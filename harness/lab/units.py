"""Units of the lab: selects the one a command is for, checks that it answers, and leases it."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, replace
from datetime import datetime
from functools import partial
from pathlib import Path

from harness.config.board import Board, load_board
from harness.config.project import find_project
from harness.config.unit import Unit, UsbPort, find_unit, load_units, units_file
from harness.errors import BusyError, PortError, UsageError, WrongBoardError, WrongFirmwareError
from harness.lab.labgrid.place import HeldPlace, hold_place
from harness.link.values import TargetInfo
from harness.records.lab import LeasedDocument, ReleasedDocument
from harness.target.lease.holding import Lease, hold_keys, known_tokens, open_registry
from harness.target.lease.records import LockKey, new_token, port_key, unit_key, utc_text
from harness.target.lease.registry import Busy
from harness.target.ports import describe, device_of

WAIT_S = 60.0
"""Default for the longest wait for a unit that is held, seconds."""


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
        own = "no port" if found.port is None else describe(found.port)
        raise UsageError(
            f"unit {found.id!r} is on {own}, but --port is {port}",
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
    key = port_key(port)
    return next((unit for unit in lab if key in lock_keys_of(unit)), None)


def _check_board_type(unit: Unit, board: str) -> None:
    found, wanted = load_board(unit.board)[0], load_board(board)[0]
    if found != wanted:
        raise UsageError(
            f"unit {unit.id!r} is a {found.name}, but --board is {wanted.name}"
            if found.name != wanted.name
            else f"unit {unit.id!r} has another board file than {board}: {unit.board}",
            hint="remove --board: the unit defines it",
        )


def lock_keys_of(unit: Unit) -> list[LockKey]:
    """Return the keys that a lease of a unit locks: its name and its current port.

    The port excludes commands that name the device; the name stays the same when the board is
    plugged in elsewhere.
    """
    keys = [unit_key(unit.id)]
    if unit.port is not None:
        with suppress(PortError):  # not connected: whoever opens the port later locks it
            keys.append(port_key(device_of(unit.port)))
    return keys


@contextmanager
def hold(
    unit: Unit,
    *,
    owner: str | None = None,
    reason: str = "",
    timeout_s: float = WAIT_S,
    expires_s: float | None = None,
    nightly: bool = False,
    cancelled: Callable[[], bool] = lambda: False,
) -> Iterator[Lease | HeldPlace]:
    """Hold a unit inside a ``with`` block; processes started in the block act under the lease.

    ``unit.lease`` selects who manages the lease: this host, or a labgrid coordinator.

    Args:
        unit: The unit.
        owner: Name of the lease holder; None for ``$ETHARNESS_OWNER`` or this user.
        reason: Why the unit is held; shown to others who wait for it.
        timeout_s: Longest wait for the current lease holder, seconds.
        expires_s: Time after which ``check`` of the lease fails, seconds; None for never.
        nightly: Whether it is a nightly run, before which people go in their working hours.
        cancelled: Whether to stop waiting.

    Raises:
        BusyError: The unit was not free in time; the message names the lease holder.
        InfrastructureError: The lease directory cannot be used, or the coordinator does not answer.
    """
    if unit.lease == "labgrid":
        with hold_place(unit, timeout_s) as place:
            yield place
        return
    with hold_keys(
        lock_keys_of(unit),
        timeout_s,
        owner=owner,
        reason=reason,
        expires_s=expires_s,
        goes_first=(lambda: False) if nightly else partial(_goes_first, [unit]),
        cancelled=cancelled,
    ) as lease:
        yield lease


def _goes_first(units: Sequence[Unit]) -> bool:
    """Whether it is a time at which people go before nightly runs on all of these units."""
    now = datetime.now()  # local time, as people write it
    return all(unit.working_hours.include(now) for unit in units)


@contextmanager
def hold_if(unit: Unit | None, *, reason: str, timeout_s: float) -> Iterator[Unit | None]:
    """Hold a unit unless it is None: a board that is not a unit of the lab is locked by its port.

    Yields:
        The unit with its current port and, if labgrid chose it among several places, the name of
        that place; None for None.
    """
    if unit is None:
        yield None
        return
    with hold(unit, reason=reason, timeout_s=timeout_s) as held:
        yield held.unit if isinstance(held, HeldPlace) else unit


def lease(
    units: Sequence[Unit], seconds: float, *, reason: str = "", wait_s: float = 0.0
) -> list[LeasedDocument]:
    """Lease units to this user without a process that holds them; all of them or none.

    Args:
        units: The units.
        seconds: Duration of the lease.
        reason: Purpose, for messages.
        wait_s: Longest wait for the current lease holders, seconds.

    Returns:
        The leases; the token of each lets other processes act under it.

    Raises:
        BusyError: A unit is already in use.
        UsageError: The leases of a unit are not managed by this host.
    """
    names = [
        LockKey(key.stem, f"unit {unit.id!r}")
        for unit in _managed_here(units)
        for key in lock_keys_of(unit)
    ]
    goes_first = partial(_goes_first, units)
    with hold_keys(names, wait_s, reason=reason or "lease", goes_first=goes_first):
        return [_reserve(unit, seconds, reason) for unit in units]


def _reserve(unit: Unit, seconds: float, reason: str) -> LeasedDocument:
    """Lease a unit that this process holds."""
    registry = open_registry()
    token = new_token()
    until = ""
    for key in lock_keys_of(unit):
        got = registry.reserve(key, seconds, known_tokens(), reason=reason, token=token)
        if isinstance(got, Busy):  # its holder has just lost it
            raise BusyError(
                f"unit {unit.id!r} is already in use by {got.description}", hint="try again"
            )
        until = utc_text(got.until or got.since)
    return LeasedDocument(unit.id, token, until, reason)


def release(units: Sequence[Unit], *, force: bool = False) -> list[ReleasedDocument]:
    """End the leases of units: a person's at once, a process's at its next ``check``.

    Args:
        units: The units.
        force: Also end the leases of other users and of processes.

    Returns:
        The former lease holders of each unit.

    Raises:
        BusyError: Another user holds a unit, and ``force`` is not set.
        UsageError: The leases of a unit are not managed by this host.
    """
    registry = open_registry()
    released = []
    for unit in _managed_here(units):
        holders: dict[str, None] = {}
        for key in lock_keys_of(unit):
            holders |= dict.fromkeys(registry.release(key, known_tokens(), force=force))
        released.append(ReleasedDocument(unit.id, list(holders)))
    return released


def _managed_here(units: Sequence[Unit]) -> Sequence[Unit]:
    for unit in units:
        if unit.lease != "local":
            raise UsageError(
                f"unit {unit.id!r} is leased through {unit.lease}, not by this host",
                hint=f"a run waits for it by itself; people reserve it with {unit.lease}",
            )
    return units
