"""Options of the pytest command line and of the ini file."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

import pytest

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
        root: Folder where the search for the project's pyproject.toml begins.
        wait_s: Timeout for a unit or a run that another process uses, seconds.
    """

    boards: tuple[str, ...]
    named_on_command_line: bool
    ports: tuple[tuple[str, str], ...]
    units: tuple[tuple[str, str], ...]
    lab: Path | None
    budget: Path | None
    history: str | None
    baseline: str | None
    artifacts: Path | None
    keep: bool
    strict: bool
    wait_s: float
    root: Path


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


def _history(config: pytest.Config) -> str | None:
    """Return the history; a file of the ini file is relative to the project's root."""
    for history, folder in (
        (config.getoption("--etharness-history"), config.invocation_params.dir),
        (config.getini("etharness_history"), config.rootpath),
    ):
        if history:
            return str(history) if "://" in history else str(folder / history)
    return None


def _pairs(values: Any) -> tuple[tuple[str, str], ...]:
    """Split ``BOARD=X`` into (BOARD, X); a value with a slash before the sign is an X alone."""
    pairs = []
    for value in values or ():
        board, sign, rest = value.partition("=")
        pairs.append((board, rest) if sign and "/" not in board else ("", value))
    return tuple(pairs)
