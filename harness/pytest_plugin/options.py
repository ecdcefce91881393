"""Options of the pytest command line and of the ini file."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import pytest

if TYPE_CHECKING:
    from harness.config.unit import MeterRequest
    from harness.records.store_address import StoreAddress

MARKER: Final = (
    "etharness(board=None, model=None, exclude=(), budget=None, **options): the boards and models "
    "that the test runs on; options are those of `etharness run`, such as runs=5"
)


@dataclass(frozen=True)
class Settings:
    """Options that hold for all tests of a session.

    Attributes:
        boards: Boards by name or file; empty: those that tests name.
        named_on_command_line: The command line names the boards; tests of others are deselected.
        ports: (board, port) each; board "" matches any board.
        units: (board, unit) likewise: a unit of the lab, or a name for the board on the port with
            the same index.
        lab: Unit file of the lab; None for the default.
        budget: Budget file for tests that name none.
        history: History that runs are compared with and added to; None for no history.
        baseline: Baseline in the history; None for the last results.
        artifacts: Folder for copies of the run directories of failed tests.
        keep: Keep run directories of passed tests too.
        strict: Fail, instead of skip, if a board cannot run here.
        energy: Meter that records the current beside every run; None for none.
        root: Folder where the search for the project's pyproject.toml begins.
        wait_s: Timeout for a unit or a run that another process uses, seconds.
    """

    boards: tuple[str, ...]
    named_on_command_line: bool
    ports: tuple[tuple[str, str], ...]
    units: tuple[tuple[str, str], ...]
    lab: Path | None
    budget: Path | None
    history: StoreAddress | None
    baseline: str | None
    artifacts: Path | None
    keep: bool
    strict: bool
    wait_s: float
    root: Path
    energy: MeterRequest | None = None


_SETTINGS = pytest.StashKey[Settings]()


def add_options(parser: pytest.Parser) -> None:
    """Declare the options and the ini values."""
    group = parser.getgroup("etharness", "models on boards (etdump-harness)")
    add = group.addoption
    add(
        "--etharness-board",
        action="append",
        metavar="BOARD",
        help="Run tests on this board: a name (`etharness boards`) or a board file. Repeatable. "
        "Tests that name boards run only on those of them that are given here.",
    )
    add(
        "--etharness-port",
        action="append",
        metavar="[BOARD=]PORT",
        help="Serial port of a board. Repeatable, also for several units of one board.",
    )
    add(
        "--etharness-unit",
        action="append",
        metavar="[BOARD=]NAME",
        help="Lab unit; sets board and port. Otherwise a name for the board on the port with the "
        "same index. Repeatable.",
    )
    add("--etharness-units", metavar="FILE", help="Unit file of the lab.  [default: as for `run`]")
    add("--etharness-budget", metavar="FILE", help="Budget for tests that name none.")
    add(
        "--etharness-history",
        metavar="URL",
        help="Compare runs with this history and add them: SQLite file or postgresql:// URL.",
    )
    add(
        "--etharness-baseline",
        metavar="WHICH",
        help="Baseline: last:20, name:NAME or commit:PREFIX.  [default: last:20]",
    )
    add("--etharness-keep", action="store_true", help="Keep run directories of passed tests too.")
    add(
        "--etharness-artifacts",
        metavar="DIR",
        help="Copy the run directories of failed tests here, one folder per test.",
    )
    add(
        "--etharness-strict",
        action="store_true",
        help="Fail, instead of skip, if a board cannot run here.",
    )
    add(
        "--etharness-wait",
        type=float,
        metavar="SECONDS",
        default=600.0,
        help="Timeout for a unit that another process holds.  [default: 600]",
    )
    add(
        "--etharness-energy",
        metavar="METER",
        help="Measure the energy of every run with a meter, as `etharness run --energy` does.",
    )
    add(
        "--etharness-volts",
        type=float,
        metavar="V",
        help="Voltage of the supply, for a meter that does not measure it.",
    )
    add(
        "--etharness-marker-pin",
        type=int,
        metavar="N",
        help="Digital input of the meter that is wired to the board's marker pin.  [default: 0]",
    )
    parser.addini("etharness_energy", "meter that measures the energy of every run")
    parser.addini("etharness_volts", "voltage of the supply, for a meter that does not measure it")
    parser.addini("etharness_marker_pin", "digital input of the meter wired to the marker pin")
    parser.addini("etharness_boards", "boards for tests that name none", "args")
    parser.addini("etharness_budget", "budget for tests that name none")
    parser.addini("etharness_history", "history that runs are compared with and added to")
    parser.addini("etharness_baseline", "baseline in the history")
    parser.addini(
        "etharness_strict", "fail, instead of skip, if a board cannot run here", "bool", False
    )


def settings_of(config: pytest.Config) -> Settings:
    """Return the options of this session."""
    known = config.stash.get(_SETTINGS, None)
    if known is None:
        known = config.stash[_SETTINGS] = _read(config)
    return known


def _read(config: pytest.Config) -> Settings:
    option = config.getoption
    boards = [_board_file(config, name) for name in option("--etharness-board") or ()]
    here, artifacts = config.invocation_params.dir, option("--etharness-artifacts")
    lab = option("--etharness-units")
    return Settings(
        boards=tuple(boards or _listed_boards(config)),
        named_on_command_line=bool(boards),
        ports=_pairs(option("--etharness-port")),
        units=_pairs(option("--etharness-unit")),
        lab=here / lab if lab else None,
        budget=_budget(config),
        history=_history(config),
        baseline=option("--etharness-baseline") or config.getini("etharness_baseline") or None,
        artifacts=here / artifacts if artifacts else None,
        keep=option("--etharness-keep"),
        strict=option("--etharness-strict") or config.getini("etharness_strict"),
        wait_s=option("--etharness-wait"),
        root=config.rootpath,
        energy=_meter(config),
    )


def _board_file(config: pytest.Config, name: str) -> str:
    """Resolve a board file relative to the folder where pytest was started."""
    return str(config.invocation_params.dir / name) if name.endswith(".toml") else name


def _listed_boards(config: pytest.Config) -> list[str]:
    """Return the boards of the ini file; board files are relative to the project's root."""
    names = config.getini("etharness_boards")
    return [str(config.rootpath / name) if name.endswith(".toml") else name for name in names]


def _budget(config: pytest.Config) -> Path | None:
    if given := config.getoption("--etharness-budget"):
        return config.invocation_params.dir / str(given)
    configured = config.getini("etharness_budget")
    return config.rootpath / configured if configured else None


def _history(config: pytest.Config) -> StoreAddress | None:
    """Return the history; a file of the ini file is relative to the project's root."""
    for history, folder in (
        (config.getoption("--etharness-history"), config.invocation_params.dir),
        (config.getini("etharness_history"), config.rootpath),
    ):
        if history:
            from harness.records.store_address import StoreAddress  # most sessions need none

            return StoreAddress(str(history)).within(folder)
    return None


def _meter(config: pytest.Config) -> MeterRequest | None:
    """Return the meter; the command line overrides each value of the ini file."""
    names = ("energy", "volts", "marker-pin")
    given = [
        config.getoption(f"--etharness-{name}", default=None)
        or config.getini(f"etharness_{name.replace('-', '_')}")
        for name in names
    ]
    address, volts, pin = given
    if not address:
        return None
    from harness.config.unit import MeterRequest
    from harness.errors import HarnessError

    try:
        return MeterRequest.parse(address, float(volts) if volts else None, int(pin or 0))
    except (HarnessError, ValueError) as error:
        raise pytest.UsageError(f"energy: {error}") from None


def _pairs(values: Any) -> tuple[tuple[str, str], ...]:
    """Split ``BOARD=X`` into (BOARD, X); a value with a slash before the sign is an X alone."""
    pairs = []
    for value in values or ():
        board, sign, rest = value.partition("=")
        pairs.append((board, rest) if sign and "/" not in board else ("", value))
    return tuple(pairs)
