"""A whole night over a rack: with faults of units and of the host, killed and gone on with."""

from __future__ import annotations

import subprocess
import sys
import threading
import time
from collections import Counter
from collections.abc import Callable, Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from enum import StrEnum
from pathlib import Path

from tests.support.rack.account import Account, Books, Row
from tests.support.rack.faults import Fault, Kind
from tests.support.rack.leases import leases_left, taken
from tests.support.rack.night import MODELS_RUN, RackNight, Sample
from tests.support.rack.rack import rack
from tests.support.rack.serve import names

ABOUT_FIRMWARE = (Kind.OLD_FIRMWARE, Kind.UNFLASHABLE)
BUSY_S = 3.0
KILLED = -9


class Disturbance(StrEnum):
    """What is done to a night as a whole."""

    CLOCK_FORWARD = "clock two hours forward"
    CLOCK_BACK = "clock a day back"
    KILLED = "the night killed"
    STORE_BUSY = "history busy"
    STORE_DOWN = "history down"
    TAKEN_FOR_LONG = "unit taken all night"
    TAKEN_FOR_SHORT = "unit taken at first"


@dataclass(frozen=True, slots=True)
class Setting:
    """A night to be.

    Attributes:
        seed: Of everything that is drawn.
        units: How many.
        repeats: How often each runs each model.
        faults: Of units.
        disturbances: Of the night, each when so large a share of the steps has been tried.
        models: Names of the models.
        patience: By how much deadlines are longer than a quiet machine needs.
        short, long: How many units others take, for a moment and all night.
        retries: How often failures of links and of flashing are tried again.
        timeout_s: Longest time for the whole.
    """

    seed: int
    units: int
    repeats: int
    faults: Sequence[Fault]
    disturbances: Sequence[tuple[float, Disturbance]]
    models: Sequence[str] = MODELS_RUN
    patience: float = 1.0
    short: int = 0
    long: int = 0
    retries: int = 2
    timeout_s: float = 600.0

    @property
    def steps(self) -> int:
        return self.units * self.repeats * len(self.models)


@dataclass(frozen=True, slots=True)
class Told:
    """What came of it.

    Attributes:
        setting: What it was.
        rows: What became of the faults, kind by kind.
        books: What is lost, there twice, or not explained.
        disturbed: How often the night as a whole was disturbed, by kind.
        counts: Steps by what came of them.
        attempts: How many came to an end.
        interrupted: How many did not, because the night was killed.
        codes: How its processes ended.
        samples: What its processes took, attempt by attempt.
        leases_left: Leases that are held although nobody is there.
        intruders: Connections to units that others were connected to.
        not_leased: Units that somebody else had.
        seconds: How long it took, by the monotonic clock.
        said: What its processes wrote.
    """

    setting: Setting
    rows: list[Row]
    books: Books
    disturbed: Counter[Disturbance]
    counts: dict[str, int]
    attempts: int
    interrupted: int
    codes: list[int]
    samples: list[Sample]
    leases_left: list[str]
    intruders: int
    not_leased: list[str]
    seconds: float
    said: list[str]

    @property
    def wrong(self) -> list[str]:
        """What should not be, and is."""
        strangers = [f"{self.intruders} intruders"] if self.intruders else []
        return [
            *self.books.lost,
            *self.books.duplicated,
            *self.books.unexplained,
            *(f"lease left: {unit}" for unit in self.leases_left),
            *strangers,
        ]


def whole_night(place: Path, setting: Setting) -> Told:
    """Have a night on a rack in ``place``, and say what came of it."""
    with ExitStack() as stack:
        running = stack.enter_context(
            rack(
                place,
                units=setting.units,
                seed=setting.seed,
                faults=setting.faults,
                patience=setting.patience,
            )
        )
        night = RackNight(
            *(running, setting.repeats, setting.models),
            seed=setting.seed,
            attempt_s=60 * setting.patience,
            lease_s=5 * setting.patience,
            retries=setting.retries,
            flashed=[f.unit for f in setting.faults if f.kind in ABOUT_FIRMWARE],
        )
        disturbed = _plan(night, setting)
        ids = names(setting.units)
        held = ids[: setting.long]
        stack.enter_context(taken(night, held))
        short = stack.enter_context(ExitStack())
        short.enter_context(taken(night, ids[setting.long : setting.long + setting.short]))
        threading.Timer(BUSY_S, short.close).start()
        disturbed[Disturbance.TAKEN_FOR_LONG] += setting.long
        disturbed[Disturbance.TAKEN_FOR_SHORT] += setting.short
        began = time.monotonic()
        while night.run(setting.timeout_s) == KILLED:
            pass
        seconds = time.monotonic() - began
        assert (night.folder / "night.json").exists(), night.said[-1]
        if disturbed[Disturbance.STORE_DOWN]:
            _add_later(night)
        account = Account(
            *(night.folder, night.store, setting.steps),
            *(running.injected(), running.sessions(), held),
        )
        document = account.document
        return Told(
            setting=setting,
            rows=account.rows(),
            books=account.books(),
            disturbed=disturbed,
            counts=document.counts,
            attempts=document.attempts,
            interrupted=document.interrupted,
            codes=night.codes,
            samples=night.samples,
            leases_left=leases_left(night, [unit for unit in ids if unit not in held]),
            intruders=sum(unit["intruders"] for unit in running.status().values()),
            not_leased=[unit.unit for unit in document.units if unit.state == "not leased"],
            seconds=seconds,
            said=night.said,
        )


def _plan(night: RackNight, setting: Setting) -> Counter[Disturbance]:
    """Have the night disturbed on its way; what has been done is counted."""
    done: Counter[Disturbance] = Counter()
    actions: dict[Disturbance, Callable[[], None]] = {
        Disturbance.CLOCK_FORWARD: lambda: night.jump(2 * 3600.0),
        Disturbance.CLOCK_BACK: lambda: night.jump(-24 * 3600.0),
        Disturbance.KILLED: night.kill,
        Disturbance.STORE_BUSY: lambda: _keep_busy(night),
        Disturbance.STORE_DOWN: night.lock_store,
    }

    def act(kind: Disturbance) -> None:
        done[kind] += 1
        actions[kind]()

    for share, kind in sorted(setting.disturbances):
        night.disturbances.append(
            (int(share * setting.steps), lambda _, kind=kind: act(kind))  # type: ignore[misc]
        )
    return done


def _keep_busy(night: RackNight) -> None:
    night.lock_store()
    threading.Timer(BUSY_S, night.release_store).start()


def _add_later(night: RackNight) -> None:
    """Do what the night said is to be done when the history is there again."""
    night.release_store()
    words = ("history", "add", str(night.folder), "--history", str(night.store))
    subprocess.run(
        [sys.executable, "-m", "harness", *words],
        env=night.environment,
        check=True,
        stdout=subprocess.DEVNULL,
    )
