"""The board under qualification: how stages reach it, and how long they may take."""

from __future__ import annotations

import re
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Final

import numpy as np

from harness.check.fit import check_loaded, core_exports
from harness.config.board import Board, SerialTarget
from harness.decode.device_log import is_device_log
from harness.decode.pte import ModelFile, read_program
from harness.errors import HarnessError, TargetError
from harness.extensions.qualify.record import StageFigure, StageRecord, StageState
from harness.files import CappedBuffer, data_directory, packaged_models
from harness.flash.plan import HowToFlash, Stages
from harness.formatting import printable
from harness.link.messages import DEFAULT_OPTIONS, ModelInfo, RunOptions, TargetInfo
from harness.link.session import Session
from harness.link.wire import Region, Reset
from harness.records.result import TargetRecord
from harness.records.trace import Trace
from harness.runs.device import CANCEL_S, tensor_to_bytes
from harness.runs.loading import place_model
from harness.runs.source import read_trace
from harness.target.build import Firmware, build_firmware
from harness.target.selection import Chosen, check_identity
from harness.target.start import Target, greet, start_session, start_target

SMALL: Final = "small_int8"
"""The network of stages that need any: it fits every board."""


class StageTimeoutError(TargetError):
    """A stage has not ended in its time."""


class UnsoundLogError(TargetError):
    """The board's runtime keeps a log that a stage cannot use."""


@dataclass(frozen=True, slots=True)
class LoggedRun:
    """A run, and its log.

    Attributes:
        trace: The decoded log.
        log_bytes: Its size.
        chunks: Number of chunks that were streamed during the run.
    """

    trace: Trace
    log_bytes: int
    chunks: int


class Bench:
    """What all stages work with; one stage at a time.

    Attributes:
        board: The board type.
        chosen: The board, as a run takes it.
        output: The directory of the qualification.
        how: How to flash it.
        build_id: The build that it must run; None for any.
        quick: Whether less is to be proven, in less time.
        firmware: The firmware of a simulated board; None for a real one.
        info: The board's latest answer to HELLO; None before.
        described: What a run recorded of a board without a link; None before.
        up_bytes_s: Bytes per second of an upload, as the stage ``link`` measured; None before.
        tick_s: Host seconds per tick while the board executes; None until measured. A simulator
            may take thousands of them for one.
    """

    def __init__(
        self,
        board: Board,
        chosen: Chosen,
        output: Path,
        *,
        how: HowToFlash | None = None,
        stages: Stages = lambda *_: None,
        open_target: Callable[..., Target] = start_target,
    ) -> None:
        self.board, self.chosen, self.output = board, chosen, output
        self.how = how or HowToFlash()
        self.build_id: str | None = None
        self.quick = False
        self.firmware: Firmware | None = None
        self.info: TargetInfo | None = None
        self.described: TargetRecord | None = None
        self.up_bytes_s: float | None = None
        self.tick_s: float | None = None
        self.console = CappedBuffer()
        self._stages, self._open_target = stages, open_target
        self._title, self._until, self._limit_s = "", float("inf"), 0.0

    @property
    def is_real(self) -> bool:
        """Whether the board is reached by a port, not started on this host."""
        return isinstance(self.board.target, SerialTarget)

    @property
    def answer(self) -> TargetInfo:
        """The latest answer to HELLO of a board that has answered."""
        assert self.info is not None
        return self.info

    def begin(self, title: str, limit_s: float) -> None:
        """Begin a stage, which must end within ``limit_s`` seconds."""
        self._title, self._limit_s = title, limit_s
        self._until = time.monotonic() + limit_s

    @property
    def left_s(self) -> float:
        """Seconds left for the stage."""
        return self._until - time.monotonic()

    def progress(self, done: int, total: int) -> None:
        """Report progress.

        Raises:
            StageTimeoutError: The time of the stage is over.
        """
        if self.left_s < 0:
            raise StageTimeoutError(
                f"not finished within {self._limit_s:.0f} s", hint="raise --limit, and --resume"
            )
        self._stages(self._title, done, total)

    def load(self, session: Session, model: bytes, progress: bool = True) -> ModelInfo:
        """Have the board load a model."""
        loaded = session.load_model(model, progress=self.progress if progress else None)
        check_loaded(self.answer, read_program(model).method("forward"), loaded)
        return loaded

    @property
    def placed_only(self) -> bool:
        """Whether the board takes no uploads: a model is placed in its image."""
        return self.board.capacity is not None and self.board.capacity.model == 0

    def build(self, network: str = SMALL, stages: Stages = lambda *_: None) -> Firmware:
        """Build the board's firmware; that of a board without uploads holds a network."""
        if not self.placed_only:
            return build_firmware(self.board, stages=stages)
        path = packaged_models()[export_for(self.board, network)]
        model = place_model(ModelFile(path, path.read_bytes()), self.board)
        return build_firmware(self.board, model, stages)

    @contextmanager
    def opened(self, *, fast: bool = True, network: str = SMALL) -> Iterator[Session]:
        """Open the board, check that it is the expected one, and leave it idle at its first rate.

        Args:
            fast: Use the best rate of the unit or board file.
            network: The network in the image of a simulated board without uploads.
        """
        self.progress(0, 0)
        firmware = self.firmware
        if firmware is not None and self.placed_only:
            firmware = self.build(network)
            self.build_id = firmware.build_id
        with self._open_target(self.board, firmware, port=self.chosen.port) as target:
            session = start_session(target, self.board, self.console.extend)
            # The run of a qualification that was killed would have nothing else to wait for.
            info = greet(session, self.board, cancel=True)
            check_identity(info, self.board, self.build_id)
            self.info, self.build_id = info, info.build_id
            if fast and isinstance(self.board.target, SerialTarget):
                listed, unit = self.board.target.bauds, self.chosen.leased
                session.raise_baud(unit.rates(listed) if unit else listed)
            try:
                yield session
            except KeyboardInterrupt:
                # Without this the board would execute on, and refuse the session of --resume.
                if session.is_running:
                    session.cancel(CANCEL_S)
                raise
            finally:
                self._leave(session)

    def _leave(self, session: Session) -> None:
        try:
            if session.target is not None:
                session.restore_baud()
        except HarnessError:
            pass  # the stage has its own outcome, and the board falls back by itself

    def run(self, session: Session, count: int, options: RunOptions = DEFAULT_OPTIONS) -> LoggedRun:
        """Run the loaded model, and read its log.

        Raises:
            UnsoundLogError: The board's runtime writes no log of ours.
            TargetError: The board crashed, hangs or refused.
            LinkError: The log could not be read.
        """
        outcome = session.run(count, options, timeout_s=self.execute_s, progress=self.progress)
        last = session.read(Region.TRACE, progress=self.progress)
        if not is_device_log(last):
            raise UnsoundLogError(f"the runtime of {self.answer.board} writes a log of its own")
        from harness.decode.device_log import split_chunk, without_repeated

        chunks = without_repeated(outcome.chunks, last) if outcome.chunks else ()
        image = b"".join(split_chunk(chunk)[0] for chunk in chunks) + last
        return LoggedRun(read_trace(image, self.answer.clocks), len(image), len(chunks))

    @property
    def execute_s(self) -> float:
        """Longest wait for an execution within this stage, seconds."""
        return max(1.0, min(self.board.deadlines.execute_s, self.left_s))

    def small_model(self, session: Session) -> ModelInfo:
        """Load the small network with its reference input."""
        small = export_for(self.board, SMALL)
        info = self.load(session, model_bytes(small))
        inputs, _, _ = reference_of(small)
        for index, array in enumerate(inputs):
            session.set_input(index, tensor_to_bytes(array, info.inputs[index]))
        return info

    def clear_postmortem(self, session: Session) -> None:
        """Remove the record of an earlier crash from the board."""
        if self.answer.postmortem:
            session.reset(Reset.POSTMORTEM)


def model_bytes(name: str) -> bytes:
    """Return a packaged model."""
    return packaged_models()[name].read_bytes()


def network_of(model: str) -> str:
    """Return the network of a packaged model, without the core that it was exported for."""
    return re.sub(r"_m\d+$", "", model)


def export_for(board: Board, network: str) -> str:
    """Return the packaged model of a network to run on a board: the one for its core, if any."""
    exports = [name for name in packaged_models() if network_of(name) == network]
    known = core_exports()
    for name in exports if known is not None and len(exports) > 1 else ():
        made = known.made_for(read_program(model_bytes(name)).methods[0]) if known else None
        if made is not None and board.cpu in made.cores:
            return name
    return min(exports, key=len)


def reference_of(name: str) -> tuple[list[np.ndarray], list[np.ndarray], int]:
    """Return the inputs and the expected outputs of a packaged model, and after how many runs."""
    file = data_directory("firmware_stub") / "models/references.npz"
    with np.load(file) as arrays:
        named: dict[str, list[np.ndarray]] = {}
        for kind in ("input", "output"):
            keys = [key for key in arrays.files if key.startswith(f"{name}.{kind}")]
            named[kind] = [arrays[key] for key in sorted(keys)]
        runs = int(arrays[f"{name}.runs"]) if f"{name}.runs" in arrays.files else 1
    return named["input"], named["output"], runs


def ended(
    state: StageState, message: str, remedy: str = "", figures: Sequence[StageFigure] = ()
) -> StageRecord:
    """Return how a stage ended; the qualification adds its name, its title and its time."""
    return StageRecord("", "", state, printable(message), printable(remedy), 0.0, tuple(figures))


def passed(message: str, *figures: StageFigure) -> StageRecord:
    """Return the outcome of a stage that passed."""
    return ended("passed", message, figures=figures)


def failed(message: str, remedy: str, *figures: StageFigure) -> StageRecord:
    """Return the outcome of a stage that failed; ``remedy`` says what to try."""
    return ended("failed", message, remedy, figures)


def not_offered(message: str, *figures: StageFigure) -> StageRecord:
    """Return the outcome of a stage that this board cannot do."""
    return ended("not offered", message, figures=figures)
