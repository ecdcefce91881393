"""What can go wrong with a board on the rack, when, and whose failure that is."""

from __future__ import annotations

import random
from collections.abc import Sequence
from dataclasses import dataclass
from enum import Enum, StrEnum, auto

from harness import Owner


class When(Enum):
    """The moment of a session at which a fault begins."""

    BEFORE = auto()
    """When the session before it has ended: this one finds it so."""
    UPLOAD = auto()
    """The model is announced."""
    RUN = auto()
    """It is to be executed."""
    PULL = auto()
    """The log is asked for."""


class Lasts(Enum):
    """What ends a fault."""

    MOMENT = auto()
    """It is over by itself while the session can wait for that."""
    SESSION = auto()
    """The end of the session."""
    POWER = auto()
    """Taking the power away and giving it back."""
    FLASH = auto()
    """Bringing the right firmware onto the board."""
    NIGHT = auto()
    """Nothing."""


@dataclass(frozen=True, slots=True)
class Effect:
    """A kind of fault.

    Attributes:
        when: When it begins.
        lasts: What ends it.
        owner: Whose failure the run that meets it is; None when the run passes all the same.
    """

    when: When
    lasts: Lasts
    owner: Owner | None


class Kind(StrEnum):
    """Kinds of faults, by the names that a rack is given."""

    BLINK = "blink"
    """The port vanishes while the model runs, and is back before anybody gives up."""
    BLINK_PULL = "blink-pull"
    """The same while the log is read."""
    NOISE = "noise"
    """Every few thousand bytes one is changed, lost or doubled."""
    UNPLUGGED = "unplugged"
    """The port vanishes; it is there again when the board was given power anew."""
    GONE = "gone"
    """The port vanishes for good."""
    GARBAGE = "garbage"
    """All that arrives is noise, from then on."""
    HANG = "hang"
    """The firmware hangs in the model, and is well after a reset."""
    DEAD = "dead"
    """The board says nothing more, with or without a reset."""
    CRASH = "crash"
    """The firmware crashes in the model, once."""
    CRASHES = "crashes"
    """The firmware crashes in the model, whenever one is run."""
    OLD_FIRMWARE = "old-firmware"
    """Somebody has put other firmware onto the board; a night that may flash it does."""
    UNFLASHABLE = "unflashable"
    """The same, and the tool says that it has flashed, but has not."""
    OTHER_BOARD = "other-board"
    """Somebody has connected another type of board."""
    FULL_DISK = "full-disk"
    """No space is left for what the run has to write at its end."""

    @property
    def effect(self) -> Effect:
        return _EFFECTS[self]


_EFFECTS = {
    Kind.BLINK: Effect(When.RUN, Lasts.MOMENT, None),
    Kind.BLINK_PULL: Effect(When.PULL, Lasts.MOMENT, None),
    Kind.NOISE: Effect(When.UPLOAD, Lasts.SESSION, None),
    Kind.UNPLUGGED: Effect(When.RUN, Lasts.POWER, Owner.LINK),
    Kind.GONE: Effect(When.RUN, Lasts.NIGHT, Owner.LINK),
    Kind.GARBAGE: Effect(When.UPLOAD, Lasts.NIGHT, Owner.LINK),
    Kind.HANG: Effect(When.RUN, Lasts.POWER, Owner.PRODUCT),
    Kind.DEAD: Effect(When.RUN, Lasts.NIGHT, Owner.BOARD),
    Kind.CRASH: Effect(When.RUN, Lasts.SESSION, Owner.PRODUCT),
    Kind.CRASHES: Effect(When.RUN, Lasts.NIGHT, Owner.PRODUCT),
    Kind.OLD_FIRMWARE: Effect(When.BEFORE, Lasts.FLASH, None),
    Kind.UNFLASHABLE: Effect(When.BEFORE, Lasts.NIGHT, Owner.FLASH),
    Kind.OTHER_BOARD: Effect(When.BEFORE, Lasts.NIGHT, Owner.BOARD),
    Kind.FULL_DISK: Effect(When.UPLOAD, Lasts.SESSION, Owner.HOST),
}


@dataclass(frozen=True, slots=True)
class Fault:
    """A fault to come: in which of a unit's sessions with a model, counted from 1."""

    unit: str
    session: int
    kind: Kind

    def __str__(self) -> str:
        return f"{self.unit}:{self.session}:{self.kind}"

    @classmethod
    def parse(cls, text: str) -> Fault:
        """Read what ``str`` has made."""
        unit, session, label = text.split(":")
        return cls(unit, int(session), Kind(label))


def draw(seed: int, units: Sequence[str], sessions: int) -> list[Fault]:
    """Faults for a night, each kind on as many units as any other, the same for the same seed.

    A unit meets one fault that it gets over by itself, and later one that it does not.

    Args:
        seed: Of the generator.
        units: Names of the units.
        sessions: How many sessions with a model each has at least if nothing goes wrong, 4 or more.
    """
    generator = random.Random(seed)
    shuffled = list(units)
    generator.shuffle(shuffled)
    passing = [kind for kind in Kind if kind.effect.owner is None]
    failing = [kind for kind in Kind if kind.effect.owner is not None]
    faults = []
    for number, unit in enumerate(shuffled):
        faults.append(Fault(unit, 1 + generator.randrange(2), passing[number % len(passing)]))
        later = generator.randrange(4, sessions + 1)
        faults.append(Fault(unit, later, failing[number % len(failing)]))
    return sorted(faults, key=lambda fault: (fault.unit, fault.session))
