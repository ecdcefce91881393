"""A night over a rack: its plan, its process, what is done to it on the way, and what it takes."""

from __future__ import annotations

import os
import signal
import sqlite3
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

from harness import load_units
from harness.extensions.lab.nightly.journal import JOURNAL
from tests.conftest import ROOT
from tests.support.rack.firmware import Image, images_in
from tests.support.rack.rack import Rack

MODELS = ROOT / "firmware_stub/models"
MODELS_RUN = ("small_int8", "kws_int8")
PLAN = """\
schema = 1
name = "rack"
output = "nights"
repeats = {repeats}
seed = {seed}
history = "results.sqlite"
reports = ["report.html", "report.xml"]
run = {{ runs = 5 }}
retry = {{ link = {retries}, flash = {retries}, board = 1, host = 2, backoff_s = 0.2 }}
deadlines = {{ attempt_s = {attempt_s}, lease_s = {lease_s} }}
"""
BOARD = """
[[board]]
board = "native.toml"
units = {units}
{image}
"""
MODEL = """
[[model]]
file = "{file}"
"""
_LOOK_S: Final = 0.05
_ENDED: Final = b'"what":"ended"'
_PAGE: Final = os.sysconf("SC_PAGE_SIZE")


@dataclass(frozen=True, slots=True)
class Sample:
    """What the night's own process takes at a moment.

    Attributes:
        process: The how many-th process of this night it is.
        ended: Attempts that have ended.
        resident: Bytes of memory.
        files: Open file descriptors.
        threads: Threads.
    """

    process: int
    ended: int
    resident: int
    files: int
    threads: int


@dataclass
class RackNight:
    """A night over a rack.

    Attributes:
        rack: Over which.
        repeats: How often each unit runs each model.
        models: Names of the models.
        seed: Of the order.
        retries: How often failures of links and of flashing are tried again.
        flashed: Units whose firmware the plan names, so that they are flashed if need be.
        disturbances: What is done, once so many attempts have ended.
        samples: What was measured on the way, one whenever an attempt has ended.
        codes: How its processes ended.
        said: What they wrote.
    """

    rack: Rack
    repeats: int
    models: Sequence[str] = MODELS_RUN
    seed: int = 0
    attempt_s: float = 60.0
    lease_s: float = 5.0
    retries: int = 2
    flashed: Sequence[str] = ()
    disturbances: list[tuple[int, Callable[[RackNight], None]]] = field(default_factory=list)
    samples: list[Sample] = field(default_factory=list)
    codes: list[int] = field(default_factory=list)
    said: list[str] = field(default_factory=list)

    def __post_init__(self) -> None:
        self._process: subprocess.Popen[bytes] | None = None
        text = PLAN.format(
            repeats=self.repeats,
            seed=self.seed,
            retries=self.retries,
            attempt_s=self.attempt_s,
            lease_s=self.lease_s,
        )
        units = [unit.id for unit in load_units(self.rack.units_file)]
        for image in ("", f'image = "{images_in(self.place)[Image.RIGHT]}"'):
            chosen = [unit for unit in units if (unit in self.flashed) is bool(image)]
            if chosen:
                text += BOARD.format(units=chosen, image=image)
        text += "".join(MODEL.format(file=MODELS / f"{name}.pte") for name in self.models)
        self.plan.write_text(text)

    @property
    def place(self) -> Path:
        return self.rack.directory

    @property
    def plan(self) -> Path:
        return self.place / "plan.toml"

    @property
    def store(self) -> Path:
        return self.place / "results.sqlite"

    @property
    def locks(self) -> Path:
        return self.place / "locks"

    @property
    def environment(self) -> dict[str, str]:
        """That of the night and of whoever competes with it."""
        clock = Path(__file__).parent / "clock"
        return {
            **os.environ,
            "ETHARNESS_LOCK_DIR": str(self.locks),
            "JUMPED_CLOCK": str(self.place / "jumped"),
            "PYTHONPATH": os.pathsep.join([str(clock), os.environ.get("PYTHONPATH", "")]),
        }

    @property
    def folder(self) -> Path:
        """The folder of the one night that there is."""
        (only,) = {file.parent for file in (self.place / "nights").glob(f"*/{JOURNAL}")}
        return only

    def ended(self) -> int:
        """Attempts that have ended so far."""
        with suppress(ValueError, OSError):
            return (self.folder / JOURNAL).read_bytes().count(_ENDED)
        return 0

    def run(self, timeout_s: float) -> int:
        """Begin the night, or go on with it, until its process ends; return the exit code."""
        command = [sys.executable, "-m", "harness", "nightly", str(self.plan)]
        command += ["--units", str(self.rack.units_file), "--no-progress"]
        log = self.place / f"night-{len(self.codes) + 1}.log"
        with log.open("wb") as output:
            self._process = subprocess.Popen(
                command, stdout=output, stderr=subprocess.STDOUT, env=self.environment
            )
            watching = threading.Thread(target=self._watch, args=(self._process,))
            watching.start()
            try:
                code = self._process.wait(timeout_s)
            finally:
                self._process.kill()
                self._process.wait()
                watching.join()
        self.codes.append(code)
        self.said.append(log.read_text())
        return code

    def kill(self) -> None:
        """End its process as the kernel does when memory runs out."""
        assert self._process is not None
        self._process.send_signal(signal.SIGKILL)

    def jump(self, seconds: float) -> None:
        """Set the wall clock so far from the right time."""
        file = self.place / "jumped"
        partial = file.with_suffix(".partial")
        partial.write_text(str(seconds))
        partial.rename(file)

    def lock_store(self) -> None:
        """Write into the store and do not finish, until ``release_store``."""
        self._holding = sqlite3.connect(self.store, isolation_level=None, check_same_thread=False)
        self._holding.execute("BEGIN EXCLUSIVE")

    def release_store(self) -> None:
        self._holding.execute("ROLLBACK")
        self._holding.close()

    def _watch(self, process: subprocess.Popen[bytes]) -> None:
        number, last = len(self.codes) + 1, -1
        while process.poll() is None:
            ended = self.ended()
            if ended != last:
                last = ended
                with suppress(OSError, ValueError, IndexError):
                    self.samples.append(_measure(process.pid, number, ended))
            while self.disturbances and self.disturbances[0][0] <= ended:
                self.disturbances.pop(0)[1](self)
            time.sleep(_LOOK_S)


def _measure(pid: int, process: int, ended: int) -> Sample:
    place = Path(f"/proc/{pid}")
    resident = int((place / "statm").read_text().split()[1]) * _PAGE
    threads = len(list((place / "task").iterdir()))
    return Sample(process, ended, resident, len(list((place / "fd").iterdir())), threads)
