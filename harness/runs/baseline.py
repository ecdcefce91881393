"""The baseline's model and firmware: kept by digest when they run, found when a change is suspect.

A history has digests of models and build ids of firmware, and not their files. So each run with a
history keeps both in the user's cache, from where a later run takes them to measure in pairs.
"""

from __future__ import annotations

import hashlib
import logging
import os
import re
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Final

from harness.check.history.samples import History, Provenance
from harness.config.board import Board, SerialTarget
from harness.decode.pte import ModelFile, program_bytes
from harness.errors import HarnessError, UsageError
from harness.files import absolute, display_path, read_limited, read_model, user_cache, write_atomic
from harness.flash.flashing import flash_board
from harness.flash.plan import HowToFlash, Stages
from harness.records.result import Result
from harness.runs.request import RunRequest
from harness.target.selection import Chosen

_log = logging.getLogger(__name__)

MOST_KEPT: Final = 1 << 30
"""Size of all files in the cache above which the longest unused are removed, bytes."""

_MOST_OF_ONE: Final = MOST_KEPT // 4
"""Size of a file above which it is not kept, bytes."""

_KEPT: Final = re.compile(r"(?:[0-9a-f]{16}-)?([0-9a-f]{64})(?:\.[^.]*)?")
"""Name of a kept file: of an image its `_image_key`, then the SHA-256 of the contents."""


def kept_root() -> Path:
    """Return the folder of kept files: ``$ETHARNESS_BASELINE_DIR``, or in the user's cache."""
    if configured := os.environ.get("ETHARNESS_BASELINE_DIR"):
        return absolute(configured)
    return user_cache("baselines")


def keep_model(model: ModelFile) -> None:
    """Keep a program by its digest; one that cannot be kept only costs later runs their pairs."""
    _keep(f"{model.digest.hex()}.pte", model.data)


def keep_image(image: Path, board: str, build_id: str) -> Path | None:
    """Keep the firmware of a board that reports this build id.

    Returns:
        The kept file; None if it cannot be kept.
    """
    try:
        data = read_limited(image, _MOST_OF_ONE)
    except (OSError, UsageError) as error:
        _log.info("%s was not kept: %s", image, error)
        return None
    sha256 = hashlib.sha256(data).hexdigest()
    return _keep(f"{_image_key(board, build_id)}-{sha256}{image.suffix}", data)


def _image_key(board: str, build_id: str) -> str:
    """Return what finds the firmware of a result; boards of one source have one build id."""
    return hashlib.sha256(f"{board} {build_id}".encode()).hexdigest()[:16]


def _keep(name: str, data: bytes) -> Path | None:
    """Keep a file under a name that contains its digest; return it, or None if that failed."""
    if len(data) > _MOST_OF_ONE:
        return None
    folder = kept_root()
    file = folder / name
    try:
        if file.is_file() and file.stat().st_size == len(data):
            os.utime(file)  # by which `_trim` knows when it was last used
            return file
        folder.mkdir(parents=True, exist_ok=True)
        write_atomic(file, data)
        file.chmod(0o755)  # an image of a board that is started here is a program
        _trim(folder)
    except OSError as error:
        _log.info("%s was not kept: %s", file, error.strerror or error)
        return None
    return file


def _find(pattern: str) -> tuple[Path, bytes] | None:
    """Return the newest kept file of a name with its contents, without a damaged one."""
    used = []
    for file in kept_root().glob(pattern):
        with suppress(OSError):  # removed by another process
            used.append((file.stat().st_mtime, file))
    for _, file in sorted(used, reverse=True):
        named = _KEPT.fullmatch(file.name)
        try:
            data = file.read_bytes()
        except OSError:
            continue
        if named is not None and named[1] == hashlib.sha256(data).hexdigest():
            with suppress(OSError):
                os.utime(file)
            return file, data
        _log.warning("%s was damaged, and is removed", display_path(file))
        with suppress(OSError):
            file.unlink()
    return None


def kept_model(sha256: str) -> ModelFile | None:
    """Return the kept program of a digest; None without one, or if it is damaged."""
    found = _find(f"{sha256}.pte")
    return ModelFile(*found) if found is not None else None


def kept_image(board: str, build_id: str) -> Path | None:
    """Return the kept firmware of a board with this build id; None without one."""
    found = _find(f"{_image_key(board, build_id)}-*")
    return found[0] if found is not None else None


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
    """Remove the longest unused files while all of them take too much space."""
    known = []
    for file in folder.iterdir():
        if _KEPT.fullmatch(file.name):
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


@dataclass(frozen=True, slots=True)
class BaselineArm:
    """What a suspect change is measured against.

    Attributes:
        model: The model of the baseline; None if no pairs can be made.
        image: Its firmware; None to run the model on the firmware of today.
        of: The baseline result that ran them; None without any.
        against: In what they differ from what is tested: "model", "firmware and model".
        note: Why there are no pairs, or why they do not have its firmware.
    """

    model: ModelFile | None = None
    image: Path | None = None
    of: Provenance | None = None
    against: str = ""
    note: str = ""

    @property
    def commit(self) -> str:
        """The commit of this result; empty if unknown."""
        return self.of.commit if self.of is not None else ""

    @property
    def build_id(self) -> str:
        """The build id of its firmware; empty if unknown."""
        return self.of.build_id if self.of is not None else ""


def find_baseline(
    request: RunRequest,
    board: Board,
    model: ModelFile,
    image: Path | None,
    given: ModelFile | None,
    result: Result,
    history: History,
) -> BaselineArm:
    """Return what the newest baseline result ran, preferably of the same unit.

    Args:
        request: The request of the tested run.
        board: Its board.
        model: The tested model.
        image: The tested firmware, to which pairs with other firmware return; None if this run has
            neither built nor flashed it.
        given: The model that the request names for this; None for none.
        result: The result of the tested run.
        history: What it was compared with.
    """
    newest = history.newest_of_baseline(result.unit)
    if newest is None:
        return BaselineArm()
    if request.through is not None:
        return _without_pairs(
            newest, "the firmware has the model, and a debug probe loads no other one"
        )
    found = given
    if found is not None:
        sha256 = found.digest.hex()
        known = (history.results[place] for place in reversed(history.baseline))
        newest = next((one for one in known if one.model_sha256 == sha256), newest)
    elif newest.model_sha256 == model.digest.hex():
        found = model
    elif newest.model_sha256:
        found = kept_model(newest.model_sha256)
    if found is None:
        commit = f" of commit {newest.commit[:12]}" if newest.commit else ""
        return _without_pairs(
            newest,
            f"the baseline's model{commit} (SHA-256 {newest.model_sha256[:12] or 'unknown'}) is "
            f"not in {display_path(kept_root())}; give it with --baseline-model FILE",
        )
    firmware, missing = _find_firmware(board, image, result, newest)
    if found.digest == model.digest and firmware is None:
        if not missing:  # nothing has changed
            return BaselineArm(of=newest)
        what = "the baseline has the same model, and only its firmware is another one"
        return _without_pairs(newest, f"{what}: {missing}")
    placed = result.settings is not None and result.settings.placed
    if (placed or request.placed) and isinstance(board.target, SerialTarget) and firmware is None:
        what = "the firmware on the board has the model in flash"
        return _without_pairs(newest, f"{what}: {missing}" if missing else what)
    parts = ["firmware"] * (firmware is not None) + ["model"] * (found.digest != model.digest)
    found = replace(found, test_sets=model.test_sets)
    return BaselineArm(found, firmware, newest, " and ".join(parts), missing)


def _find_firmware(
    board: Board, tested_image: Path | None, result: Result, newest: Provenance
) -> tuple[Path | None, str]:
    """Return the firmware of a result if it is another one, and why it cannot be used."""
    tested = result.target.build_id if result.target is not None else ""
    if newest.build_id in ("", tested):
        return None, ""
    image = kept_image(board.name, newest.build_id)
    if image is None:
        return None, f"build {newest.build_id} is not in {display_path(kept_root())}"
    if tested_image is None:
        real = isinstance(board.target, SerialTarget)
        why = "this run may not flash it; add --flash" if real else "that of this run is not"
        return None, f"build {newest.build_id} is kept, but {why}"
    return image, ""


def _without_pairs(newest: Provenance, why: str) -> BaselineArm:
    return BaselineArm(of=newest, note=f"not measured in pairs: {why}")


@contextmanager
def flashed_back(
    place: Chosen, how: HowToFlash, output: Path, wait_s: float, stages: Stages
) -> Iterator[None]:
    """Hold a board on which the context flashes other firmware; then flash ``how`` again.

    Args:
        place: The board.
        how: Flashes the tested image, if the board does not run it.
        output: Directory for the log of this flashing.
        wait_s: Longest wait for another process to release the board, seconds.
        stages: Called to report progress.
    """
    with place.held(reason="pairs with other firmware", timeout_s=wait_s) as held:
        try:
            yield
        finally:
            try:
                flash_board(Chosen(held.board, held.port, held.unit), output, how, stages)
            except (HarnessError, KeyboardInterrupt) as error:
                _log.error(
                    "%s may have the baseline's firmware still, not the tested one (%s): flash %s",
                    *(held.name, getattr(error, "message", "interrupted"), how.image),
                )
                if not isinstance(error, HarnessError):
                    raise
