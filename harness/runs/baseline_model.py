"""The baseline's model: kept by its digest when it runs, and found when a change is suspect.

A history has the digests of models, and not their files. So each run with a history keeps its model
in the user's cache, from where a later run takes it to measure a change in pairs.
"""

from __future__ import annotations

import hashlib
import logging
import os
from contextlib import suppress
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Final

from harness.check.history.samples import History, Provenance
from harness.config.board import Board, SerialTarget
from harness.decode.pte import ModelFile, program_bytes
from harness.files import absolute, display_path, read_model, user_cache, write_atomic
from harness.records.result import Result
from harness.runs.request import RunRequest

_log = logging.getLogger(__name__)

MOST_KEPT: Final = 1 << 30
"""Size of all models in the cache above which the longest unused are removed, bytes."""

_MOST_OF_ONE: Final = MOST_KEPT // 4
"""Size of a model above which it is not kept, bytes."""

_SUFFIX: Final = ".pte"


def models_root() -> Path:
    """Return the folder of kept models: ``$ETHARNESS_MODEL_DIR``, or in the user's cache."""
    if configured := os.environ.get("ETHARNESS_MODEL_DIR"):
        return absolute(configured)
    return user_cache("models")


def keep_model(model: ModelFile) -> None:
    """Keep a program by its digest; one that cannot be kept only costs later runs their pairs."""
    if len(model.data) > _MOST_OF_ONE:
        return
    folder = models_root()
    file = folder / f"{model.digest.hex()}{_SUFFIX}"
    try:
        if file.is_file() and file.stat().st_size == len(model.data):
            os.utime(file)  # by which `_trim` knows when it was last used
            return
        folder.mkdir(parents=True, exist_ok=True)
        write_atomic(file, model.data)
        _trim(folder)
    except OSError as error:
        _log.info("the model was not kept in %s: %s", folder, error.strerror or error)


def kept_model(sha256: str) -> ModelFile | None:
    """Return the kept program of a digest; None without one, or if it is damaged."""
    file = models_root() / f"{sha256}{_SUFFIX}"
    try:
        data = file.read_bytes()
    except OSError:
        return None
    if hashlib.sha256(data).hexdigest() != sha256:
        _log.warning("%s was damaged, and is removed", display_path(file))
        with suppress(OSError):
            file.unlink()
        return None
    with suppress(OSError):
        os.utime(file)
    return ModelFile(file, data)


def read_program_file(path: Path) -> ModelFile:
    """Read the program of a model's file, of which there may be test sets, too.

    Raises:
        UsageError: The file cannot be read.
        FormatError: It is a damaged bundled program, or no program.
    """
    model = ModelFile(path, program_bytes(read_model(path)))
    _ = model.program  # read here, so that a damaged file is an error before the run
    return model


def _trim(folder: Path) -> None:
    """Remove the longest unused models while all of them take too much space."""
    known = []
    for file in folder.glob(f"*{_SUFFIX}"):
        with suppress(OSError):  # removed by another process
            status = file.stat()
            known.append((status.st_mtime, status.st_size, file))
    size = sum(one[1] for one in known)
    for _, nbytes, file in sorted(known):
        if size <= MOST_KEPT:
            return
        with suppress(OSError):
            file.unlink()
        size -= nbytes


def is_kept(tested_sha256: str, history: History, unit: str) -> bool:
    """Return whether the baseline has another model than the tested one, and it is kept here."""
    newest = history.newest_of_baseline(unit)
    if newest is None or newest.model_sha256 in ("", tested_sha256):
        return False
    return kept_model(newest.model_sha256) is not None


@dataclass(frozen=True, slots=True)
class BaselineModel:
    """The model that a suspect change is measured against.

    Attributes:
        model: The model; None if no pairs can be made.
        of: The baseline result whose model it is; None without any.
        note: Why there are no pairs.
    """

    model: ModelFile | None = None
    of: Provenance | None = None
    note: str = ""

    @property
    def commit(self) -> str:
        """The commit of this result; empty if unknown."""
        return self.of.commit if self.of is not None else ""


def find_baseline_model(
    request: RunRequest,
    board: Board,
    model: ModelFile,
    given: ModelFile | None,
    result: Result,
    history: History,
) -> BaselineModel:
    """Return the model of the newest baseline result, preferably of the same unit.

    Args:
        request: The request of the tested run.
        board: Its board.
        model: The tested model.
        given: The model that the request names for this; None for none.
        result: The result of the tested run.
        history: What it was compared with.
    """
    newest = history.newest_of_baseline(result.unit)
    if newest is None:
        return BaselineModel()
    if (obstacle := _obstacle(request, board, result)) is not None:
        return BaselineModel(None, newest, f"not measured in pairs: {obstacle}")
    own = model.digest.hex()
    found = given
    if found is not None:
        sha256 = found.digest.hex()
        known = (history.results[place] for place in reversed(history.baseline))
        newest = next((one for one in known if one.model_sha256 == sha256), newest)
    elif newest.model_sha256 not in ("", own):
        found = kept_model(newest.model_sha256)
    if found is None or found.digest == model.digest:
        return BaselineModel(None, newest, _without_pairs(found, newest, own, result))
    return BaselineModel(replace(found, test_sets=model.test_sets), newest)


def _obstacle(request: RunRequest, board: Board, result: Result) -> str | None:
    """Return why a run cannot load another model; None if it can."""
    if request.through is not None:
        return "the firmware has the model, and a debug probe loads no other one"
    placed = result.settings is not None and result.settings.placed
    if (placed or request.placed) and isinstance(board.target, SerialTarget):
        return "the firmware on the board has the model in flash"
    return None


def _without_pairs(found: ModelFile | None, newest: Provenance, own: str, result: Result) -> str:
    """Say why there are no pairs with the model of a result."""
    if found is not None or newest.model_sha256 == own:
        build = result.target.build_id if result.target is not None else ""
        if newest.build_id == build:
            return ""
        return (
            "not measured in pairs: the baseline has the same model, and only its firmware is "
            "another one"
        )
    commit = f" of commit {newest.commit[:12]}" if newest.commit else ""
    return (
        f"not measured in pairs: the baseline's model{commit} (SHA-256 "
        f"{newest.model_sha256[:12] or 'unknown'}) is not in {display_path(models_root())}; give "
        "it with --baseline-model FILE"
    )
