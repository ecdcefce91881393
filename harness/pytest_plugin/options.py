"""What the command line and the ini file say."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

import pytest

MARKER: Final = (
    "etharness(board=None, model=None, exclude=(), budget=None, **options): the boards and models "
    "that the etharness_* fixtures are for; options are those of `etharness run`, such as runs=5"
)


@dataclass(frozen=True)
class Settings:
    """What holds for all tests.

    Attributes:
        boards: Boards that were named, by name or file; none for those that tests name.
        named_on_command_line: They come from there, and leave out all others.
        ports: (board, port) each; the board is "" where any is meant.
        units: (board, name of the unit) likewise; a unit of the lab, or the name of the board on
            the port at the same place.
        lab: The file of the lab's units; None for the one there is by default.
        budget: Budget file of tests that name none.
        history: The history that runs are held against and added to; None for none.
        baseline: Which of its results; None for the last ones.
        artifacts: Where the run directories of failed tests are copied.
        keep: Keep those of passed tests, too.
        strict: A board that cannot run here is an error.
        root: Folder from which the project's pyproject.toml is looked for.
        wait_s: Longest wait for a unit or a run that another process has, seconds.
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
        help="A board to run on, by name (`etharness boards`) or file; may be repeated. Tests that "
        "name boards of their own run on those of them that are given here.",
    )
    add(
        "--etharness-port",
        action="append",
        metavar="[BOARD=]PORT",
        help="Serial port of a board; may be repeated, also for several units of one board.",
    )
    add(
        "--etharness-unit",
        action="append",
        metavar="[BOARD=]NAME",
        help="A unit of the lab, which says board and port; or the name of the board on the "
        "port at the same place. May be repeated.",
    )
    add("--etharness-units", metavar="FILE", help="The lab's units.  [default: as for `run`]")
    add("--etharness-budget", metavar="FILE", help="Budget of tests that name none.")
    add(
        "--etharness-history",
        metavar="URL",
        help="Hold runs against a history, and add them: SQLite file or postgresql:// URL.",
    )
    add(
        "--etharness-baseline",
        metavar="WHICH",
        help="What of it: last:20, name:NAME or commit:PREFIX.  [default: last:20]",
    )
    add("--etharness-keep", action="store_true", help="Keep what runs of passed tests left, too.")
    add(
        "--etharness-artifacts",
        metavar="DIR",
        help="Copy what the runs of failed tests left there, by test.",
    )
    add(
        "--etharness-strict",
        action="store_true",
        help="A board that cannot run here is an error, and not skipped.",
    )
    add(
        "--etharness-wait",
        type=float,
        metavar="SECONDS",
        default=600.0,
        help="Longest wait for a unit that another process holds.  [default: 600]",
    )
    parser.addini("etharness_boards", "boards that tests run on which name none", "args")
    parser.addini("etharness_budget", "budget of tests that name none")
    parser.addini("etharness_history", "history that runs are held against and added to")
    parser.addini("etharness_baseline", "which results of the history they are held against")
    parser.addini("etharness_strict", "a board that cannot run here is an error", "bool", False)


def settings_of(config: pytest.Config) -> Settings:
    """Return what holds for the tests of this session."""
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
    """A board that is named by its file is so from where pytest was called."""
    return str(config.invocation_params.dir / name) if name.endswith(".toml") else name


def _listed_boards(config: pytest.Config) -> list[str]:
    """Boards of the ini file; one that is named by its file is so from the root of the project."""
    names = config.getini("etharness_boards")
    return [str(config.rootpath / name) if name.endswith(".toml") else name for name in names]


def _budget(config: pytest.Config) -> Path | None:
    if given := config.getoption("--etharness-budget"):
        return config.invocation_params.dir / str(given)
    configured = config.getini("etharness_budget")
    return config.rootpath / configured if configured else None


def _history(config: pytest.Config) -> str | None:
    """A file that the ini file names is so from the root of the project, others from here."""
    for said, place in (
        (config.getoption("--etharness-history"), config.invocation_params.dir),
        (config.getini("etharness_history"), config.rootpath),
    ):
        if said:
            return str(said) if "://" in said else str(place / said)
    return None


def _pairs(values: Any) -> tuple[tuple[str, str], ...]:
    """Split ``BOARD=X`` at its sign; what has a slash before it has none."""
    pairs = []
    for value in values or ():
        board, sign, rest = value.partition("=")
        pairs.append((board, rest) if sign and "/" not in board else ("", value))
    return tuple(pairs)
