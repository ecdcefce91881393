"""Simulated boards for tests: built, started, greeted."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

import harness
from harness import Session, build_firmware, start_target
from harness.decode.pte import ModelFile
from harness.runs.loading import place_model
from harness.target.start import ProcessTarget
from harness.testing import Transport
from tests.conftest import ROOT

INT8_MODELS_THAT_FIT = {
    "qemu-lm3s6965evb": ("small_int8",),
    "qemu-microbit": ("one_m0", "small_int8"),
    "qemu-mps2-an386": ("picture_m4", "small_int8", "kws_int8"),
    "qemu-mps2-an500": ("small_int8", "kws_int8"),
    "qemu-mps2-an505": ("picture_m4", "small_int8", "kws_int8"),
    "qemu-mps3-an547": ("rows_m55", "picture_m55", "small_int8", "kws_int8"),
    "qemu-netduinoplus2": ("small_int8", "kws_int8"),
    "qemu-riscv32-virt": ("small_int8", "kws_int8"),
}
"""What is run on boards beyond native and qemu-mps2-an385, which run everything; largest last."""

KWS = ROOT / "firmware_stub/models/kws_int8.pte"


@dataclass
class Bench:
    """A started board and a session that has said HELLO to it."""

    target: ProcessTarget
    session: Session
    console: bytearray

    def new_session(
        self, transport: Transport | None = None, *, deadline_s: float = 2.0
    ) -> Session:
        """Another session with the board, by another transport if given."""
        return Session(
            transport or self.target.transport,
            deadline_s=deadline_s,
            check_alive=self.target.check_alive,
        )


def native_board(directory: Path, preset: str) -> Path:
    """A file for the native board built by another preset, in ``directory``."""
    path = directory / "native.toml"
    text = (ROOT / "boards/native.toml").read_text()
    text = text.replace('preset = "native"', f'preset = "{preset}"')
    path.write_text(text.replace('budget = "budgets/default.toml"\n', ""))
    return path


@contextmanager
def started(name: str, placed: Path | None = None, **settings: float) -> Iterator[Bench]:
    """Build and start a board, with a model in its image if given; ``settings`` of the session."""
    board = harness.Board.load(name)
    console = bytearray()
    model = placed and place_model(ModelFile(placed, placed.read_bytes()), board)
    with start_target(board, build_firmware(board, model)) as target:
        assert isinstance(target, ProcessTarget)
        arguments = {"deadline_s": board.deadlines.request_s} | settings
        session = Session(
            target.transport,
            console=console.extend,
            check_alive=target.check_alive,
            **arguments,  # type: ignore[arg-type]
        )
        session.hello(board.deadlines.boot_s)
        yield Bench(target, session, console)


def once(action: Callable[[], None], at: int = 1) -> Callable[[int, int], None]:
    """A progress callback that acts one time, when ``at`` has been reached."""
    left = [action]

    def progress(done: int, _total: int) -> None:
        if done >= at and left:
            left.pop()()

    return progress
