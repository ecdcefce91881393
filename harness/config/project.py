"""Defaults of a project: the table ``[tool.etharness]`` of its ``pyproject.toml``; its history."""

from __future__ import annotations

import os
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

import msgspec

from harness.config.board import Strict
from harness.config.toml_file import Document, read_document
from harness.errors import UsageError
from harness.files import absolute, find_model
from harness.records.run_settings import SettingPlace, settings_in
from harness.records.store_address import StoreAddress

_FILE = "pyproject.toml"
_TABLE = ("tool", "etharness")

HISTORY_VARIABLE: Final = "ETHARNESS_HISTORY"
HISTORY_FOLDER: Final = ".etharness"
_HISTORY_FILE: Final = "history.sqlite"


_Defaults = msgspec.defstruct(
    "_Defaults",
    [
        ("models", str | None, None),
        *(
            (setting.name, (StoreAddress if setting.kind is StoreAddress else str) | None, None)
            for setting in settings_in(SettingPlace.PROJECT)
        ),
    ],
    bases=(Strict,),
    frozen=True,
)
"""The table as it is written: a folder of models, and settings of a run."""


@dataclass(frozen=True, slots=True)
class Project:
    """Defaults of a project. Paths are absolute.

    Attributes:
        file: The file that sets them; None if no file does.
        board: Board name or path of a board file.
        models: Folder of models.
        budget: Budget file.
        history: Path or URL of the history.
    """

    file: Path | None = None
    board: str | None = None
    models: Path | None = None
    budget: Path | None = None
    history: StoreAddress | None = None

    def find_model(self, model: Path) -> Path:
        """Return the file of a model.

        An existing path is returned as it is. A name without a folder is then looked up in the
        project's folder of models, with and without ``.pte``, and among the packaged models.
        """
        if model.exists() or self.models is None or absolute(model).parent != Path.cwd():
            return find_model(model)
        for name in (model.name, f"{model.name}.pte"):
            if (found := self.models / name).is_file():
                return found
        return find_model(model)


def find_project(within: Path | None = None) -> Project:
    """Read the defaults of the project around a folder.

    The nearest ``pyproject.toml`` with a table ``[tool.etharness]`` counts.

    Args:
        within: The folder to start from, going up; None for the current folder.

    Returns:
        The defaults; all are None if no file sets any.

    Raises:
        UsageError: A ``pyproject.toml`` on the way is not valid, or the table has an unknown key;
            the message names file, line and key.
    """
    here = absolute(within or Path.cwd())
    for folder in (here, *here.parents):
        file = folder / _FILE
        if not file.is_file():
            continue
        document = read_document(file)
        tool = document.data.get(_TABLE[0])
        if isinstance(tool, dict) and _TABLE[1] in tool:
            return _project(document, folder)
    return Project()


def _project(document: Document, folder: Path) -> Project:
    if not isinstance(document.data["tool"]["etharness"], dict):
        raise UsageError(f"{document.where(_TABLE)}: `tool.etharness` is not a table")
    table: Any = document.as_(_Defaults, _TABLE)
    for name in table.__struct_fields__:
        if str(getattr(table, name)) == "":
            raise UsageError(f"{document.where((*_TABLE, name))}: `{name}` is empty")
    board, history = table.board, table.history
    if board is not None and (board.endswith(".toml") or "/" in board):
        board = str(absolute(folder / board))
    return Project(
        file=document.path,
        board=board,
        models=absolute(folder / table.models) if table.models else None,
        budget=absolute(folder / table.budget) if table.budget else None,
        history=history.within(absolute(folder)) if history else None,
    )


def configured_history(project: Project) -> StoreAddress | None:
    """Return the history that ``$ETHARNESS_HISTORY`` or the project sets; None if neither does.

    Raises:
        UsageError: The project's table ``[tool.etharness]`` is invalid.
    """
    if url := os.environ.get(HISTORY_VARIABLE, "").strip():
        return StoreAddress(url).within(Path.cwd())
    return project.history


def default_history(within: Path | None = None) -> StoreAddress:
    """Return the URL or path of the history that commands use by default.

    It is ``$ETHARNESS_HISTORY`` if set, else ``history`` of ``[tool.etharness]`` in the project's
    ``pyproject.toml``. Otherwise it is ``.etharness/history.sqlite`` in the nearest folder, from
    ``within`` (default: the current folder) upwards, that has an ``.etharness`` or is a git
    checkout; or in ``within`` itself if there is no such folder.
    """
    if configured := configured_history(find_project(within)):
        return configured
    here = (within or Path.cwd()).absolute()
    for folder in (here, *here.parents):
        if (folder / HISTORY_FOLDER).is_dir() or (folder / ".git").exists():
            return StoreAddress(str(folder / HISTORY_FOLDER / _HISTORY_FILE))
    return StoreAddress(str(here / HISTORY_FOLDER / _HISTORY_FILE))
