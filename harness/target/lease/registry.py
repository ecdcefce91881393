"""The book of leases: a directory of locks and notes that all who share boards go by.

Of each place there is a row of levels, numbered from 0, each with a lock of the kernel. A stranger
takes level 0. Whoever holds a level lends the place to what it starts, by the token of its lease:
that takes the level above, and so on. A place is free for a stranger when no level is locked: a
process that outlives the one it was lent by keeps it until it ends, too.

Nothing is decided by a note where the kernel's lock can say it. Notes say what it cannot: who a
holder is, whose token lets through, that a person holds a board without any process, and, where a
directory is shared with a host that the kernel's locks do not reach, that a process there lives.

Two may try at once. Each first takes its lock, then writes its note, and then looks at what the
other would have changed; so at least one of them sees the other, and gives way.
"""

from __future__ import annotations

import contextlib
import logging
import re
from collections.abc import Collection, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final, Literal, NamedTuple, Protocol

from msgspec.structs import replace

from harness.errors import BusyError
from harness.target.lease.clock import Instant, LeaseHolder
from harness.target.lease.flock import Flock, make_directory
from harness.target.lease.lock_keys import LockKey
from harness.target.lease.records import (
    Damaged,
    LeaseRecord,
    TakenLease,
    new_note,
    read_note,
    write_note,
)

_log = logging.getLogger(__name__)

BEAT_S: Final = 5.0
"""How often a process writes down that it lives."""

STALE_S: Final = 30.0
"""For how long another host's note must not change before its process counts as gone."""


class Ticking(Protocol):
    """A clock for leases."""

    def now(self) -> Instant:
        """What time it is."""
        ...


@dataclass(frozen=True, slots=True)
class Busy:
    """Why a place cannot be had now.

    Attributes:
        note: Who holds it; None if that cannot be told.
        said: The same in words.
    """

    note: LeaseRecord | None
    said: str


class Holder(NamedTuple):
    """Who holds a place: of what kind, on which level, and what its note says, if it does."""

    kind: Literal["process", "person"]
    level: int
    note: LeaseRecord | None


@dataclass(slots=True)
class HeldLease:
    """A place that is held: its lock, and the note beside it."""

    book: LeaseRegistry
    place: LockKey
    level: int
    lock: Flock
    note: LeaseRecord
    _over: bool = False

    def beat(self) -> None:
        """Write down that its process lives.

        Raises:
            InfrastructureError: That cannot be written.
        """
        if self._over or self.lost():
            return
        self.note = replace(self.note, beats=self.note.beats + 1, beat=self.book.clock.now())
        write_note(self.book.note_file(self.place, self.level), self.note)

    def lost(self) -> str:
        """Say how it was lost; "" while it is held."""
        if self._over:
            return "it has ended"
        taken = read_note(self.book.taken_file(self.place), TakenLease)
        if isinstance(taken, TakenLease) and self.note.token in taken.tokens:
            return f"it was taken by {taken.by} on {taken.host}"
        other = read_note(self.book.note_file(self.place, self.level), LeaseRecord)
        if isinstance(other, LeaseRecord) and other.token != self.note.token:
            return f"it went to {other}, as this process had been silent"
        now = self.book.clock.now()
        if self.note.is_over(now):
            return f"it has expired {-now.seconds_until(self.note.until or now):.0f} s ago"
        return "" if self.lock.is_ours else f"somebody has removed {self.lock.path}"

    def release(self) -> None:
        """Let it go; further calls do nothing."""
        if self._over:
            return
        self._over = True
        file = self.book.note_file(self.place, self.level)
        there = read_note(file, LeaseRecord)
        others = isinstance(there, LeaseRecord) and there.token != self.note.token
        if self.lock.is_ours and not others:
            with contextlib.suppress(
                OSError
            ):  # a note without a lock says of nobody that he is there
                file.unlink(missing_ok=True)
        self.lock.release()

    def abandon(self) -> None:
        """Forget it as a fork does that has inherited it: it is its parent's."""
        self._over = True
        self.lock.release()


@dataclass(slots=True)
class LeaseRegistry:
    """Leases of a directory, as one process goes by them.

    Attributes:
        directory: Where they are; made if need be.
        party: Who this process is.
        clock: What it goes by.
    """

    directory: Path
    party: LeaseHolder
    clock: Ticking
    _watched: dict[tuple[str, int], tuple[Instant, object]] = field(default_factory=dict)
    """Since when a note of another host has not changed, and what it said."""

    def take(
        self,
        place: LockKey,
        tokens: Collection[str] = (),
        *,
        reason: str = "",
        expires_s: float | None = None,
        token: str = "",
    ) -> HeldLease | Busy:
        """Take a place, if it is free or lent to us; without waiting.

        Args:
            place: What to take.
            tokens: Those of leases that we or whoever started us hold.
            reason: What for.
            expires_s: After how many seconds it ends even if we live; None for not at all.
            token: That of a lease of several places; "" for one of its own.

        Raises:
            InfrastructureError: The directory cannot be used.
        """
        make_directory(self.directory)
        lender = self._lender(place, tokens)
        level = 0 if lender is None else lender + 1
        if level == 0 and (held := self._held_by_person(place, tokens)):
            return held  # already before the lock, so that who waits for it is in nobody's way
        lock = Flock(self._lock_file(place, level))
        if not lock.take():
            return self._busy(place, level)
        note = new_note(
            self.party,
            place.name,
            self.clock.now(),
            reason=reason,
            expires_s=expires_s,
            token=token,
        )
        grip = HeldLease(self, place, level, lock, note)
        with contextlib.ExitStack() as undo:
            undo.callback(lock.release)
            if level == 0 and (held := self._held_without_lock(place, tokens)):
                return held
            undo.callback(grip.release)
            write_note(self.note_file(place, level), note)
            # Now that ours can be seen, is there anybody whom we have not seen?
            if lender is not None and self._lender(place, tokens, below=level) is None:
                return Busy(None, "whoever takes over from a holder that has just ended")
            above = [each for each in self._levels(place) if each > level]
            for each in above:
                if Flock(self._lock_file(place, each)).is_taken():
                    return self._busy(place, each)
            undo.pop_all()
        return grip

    def lend(
        self,
        place: LockKey,
        seconds: float,
        tokens: Collection[str] = (),
        *,
        reason: str = "",
        token: str = "",
    ) -> LeaseRecord | Busy:
        """Lease a place to this person, without any process, for so many seconds.

        A lease of theirs that is there already is replaced. ``token`` as for `take`.

        Raises:
            InfrastructureError: The directory cannot be used.
        """
        grip = self.take(place, tokens)
        if isinstance(grip, Busy):
            return grip
        try:
            note = new_note(
                *(self.party, place.name, self.clock.now()),
                kind="person",
                reason=reason,
                expires_s=seconds,
                token=token,
            )
            with self._changing(place):
                write_note(self._person_file(place), note)
            return note
        finally:
            grip.release()

    def release(
        self, place: LockKey, tokens: Collection[str] = (), *, force: bool = False
    ) -> list[str]:
        """End the lease of a place.

        A person's ends at once. A process's is its own to end: with ``force`` it is told that it
        has lost it, and holds the place until it has noticed.

        Returns:
            Who was made to give up what, in words; none if nobody held it.

        Raises:
            BusyError: It is another's, and ``force`` is not given.
            InfrastructureError: The directory cannot be used.
        """
        ended = []
        with self._changing(place):
            person = self.person(place)
            if person is not None:
                if (
                    isinstance(person, LeaseRecord)
                    and not force
                    and not self._lets_through(person, tokens)
                ):
                    raise self._anothers(place, str(person))
                if person == "damaged" and not force:
                    raise self._anothers(place, self._unreadable(place))
                self._person_file(place).unlink(missing_ok=True)
                ended.append(self._unreadable(place) if person == "damaged" else str(person))
        holders = self.processes(place)
        if force and holders:
            tokens_there = tuple(note.token for note in holders if note is not None)
            taken = TakenLease(self.party.owner, self.party.host, self.clock.now(), tokens_there)
            write_note(self.taken_file(place), taken)
            ended += [_named(note) for note in holders]
        elif holders and not ended:
            raise self._anothers(
                place, _named(holders[0]), hint="it ends with its process, or --force"
            )
        return ended

    def person(self, place: LockKey) -> LeaseRecord | Damaged | None:
        """The person's lease that is in force; "damaged" if it cannot be told whose it is."""
        note = read_note(self._person_file(place), LeaseRecord)
        if isinstance(note, LeaseRecord) and note.is_over(self.clock.now()):
            return None
        return note

    def holders(self, place: LockKey) -> list[Holder]:
        """All who hold a place: a person first, then processes, lenders before who they lent it to.

        Among them those of other hosts whose notes say that they live, whatever locks there are.
        """
        held = []
        if person := self.person(place):
            held.append(Holder("person", 0, None if person == "damaged" else person))
        now = self.clock.now()
        for level in self._levels(place):
            read = read_note(self.note_file(place, level), LeaseRecord)
            note = read if isinstance(read, LeaseRecord) else None
            elsewhere = note is not None and note.host != self.party.host
            beats = note is not None and note.beat.seconds_until(now) < STALE_S
            if (elsewhere and beats) or Flock(self._lock_file(place, level)).is_taken():
                held.append(Holder("process", level, note))
        return held

    def processes(self, place: LockKey) -> list[LeaseRecord | None]:
        """The notes of processes that hold a place; None of one that has left none."""
        return [holder.note for holder in self.holders(place) if holder.kind == "process"]

    def places(self) -> list[LockKey]:
        """Every place that anybody has ever held, with the name that is known for it now."""
        found = {}
        for file in sorted(self.directory.glob("*")):
            if named := re.fullmatch(r"([^.].*)\.(?:(\d+)\.lock|person\.json)", file.name):
                stem = named[1]
                note = read_note(file.with_suffix(".json"), LeaseRecord)
                if isinstance(note, LeaseRecord) or stem not in found:
                    found[stem] = note.what if isinstance(note, LeaseRecord) else stem
        return [LockKey(stem, name) for stem, name in found.items()]

    def note_file(self, place: LockKey, level: int) -> Path:
        """Where it says who holds a level."""
        return self.directory / f"{place.stem}.{level}.json"

    def taken_file(self, place: LockKey) -> Path:
        """Where it says whose lease was taken away."""
        return self.directory / f"{place.stem}.taken.json"

    def _person_file(self, place: LockKey) -> Path:
        return self.directory / f"{place.stem}.person.json"

    def _lock_file(self, place: LockKey, level: int) -> Path:
        return self.directory / f"{place.stem}.{level}.lock"

    def _levels(self, place: LockKey) -> list[int]:
        """Levels that there have ever been of a place."""
        pattern = re.compile(re.escape(place.stem) + r"\.(\d+)\.lock")
        names = (pattern.fullmatch(file.name) for file in self.directory.glob("*.lock"))
        return sorted(int(name[1]) for name in names if name)

    def _lender(
        self, place: LockKey, tokens: Collection[str], below: int | None = None
    ) -> int | None:
        """The highest level that is held by one of ``tokens``; None if none is."""
        if not tokens:
            return None
        taken = read_note(self.taken_file(place), TakenLease)
        lost = taken.tokens if isinstance(taken, TakenLease) else ()
        for level in reversed(self._levels(place)):
            if below is not None and level >= below:
                continue
            note = read_note(self.note_file(place, level), LeaseRecord)
            if (
                isinstance(note, LeaseRecord)
                and note.token in tokens
                and note.token not in lost
                and Flock(self._lock_file(place, level)).is_taken()
            ):
                return level
        return None

    def _held_by_person(self, place: LockKey, tokens: Collection[str]) -> Busy | None:
        person = self.person(place)
        if person == "damaged":
            return Busy(None, self._unreadable(place))
        if person is not None and not self._lets_through(person, tokens):
            return Busy(person, str(person))
        return None

    def _held_without_lock(self, place: LockKey, tokens: Collection[str]) -> Busy | None:
        """Who holds a place although its lock is ours: a person, or a host that has other locks."""
        if held := self._held_by_person(place, tokens):
            return held
        silent: Busy | None = None
        for level in self._levels(place):
            file = self.note_file(place, level)
            note = read_note(file, LeaseRecord)
            if note is None or (isinstance(note, LeaseRecord) and note.host == self.party.host):
                self._watched.pop((place.stem, level), None)
                continue
            seen = (note.token, note.beats) if isinstance(note, LeaseRecord) else _stamp(file)
            now = self.clock.now()
            since, known = self._watched.setdefault((place.stem, level), (now, seen))
            if known != seen:
                since, _ = self._watched[place.stem, level] = (now, seen)
            if since.seconds_until(now) < STALE_S:
                whose = note if isinstance(note, LeaseRecord) else None
                said = f"{_named(whose)}, unless it has been silent for {STALE_S:g} s"
                silent = silent or Busy(whose, said)  # further ones are watched at the same time
        return silent

    def _lets_through(self, note: LeaseRecord, tokens: Collection[str]) -> bool:
        """Whether a person's lease is ours: we know its token, or are the same user here."""
        ours = (note.owner, note.host) == (self.party.owner, self.party.host)
        return ours or note.token in tokens

    def _busy(self, place: LockKey, level: int) -> Busy:
        note = read_note(self.note_file(place, level), LeaseRecord)
        known = note if isinstance(note, LeaseRecord) else None
        return Busy(known, _named(known))

    def _anothers(
        self, place: LockKey, whose: str, hint: str = "ask them, or --force"
    ) -> BusyError:
        return BusyError(f"{place.name} cannot be released: it is held by {whose}", hint=hint)

    def _unreadable(self, place: LockKey) -> str:
        return f"somebody whose lease cannot be read: {self._person_file(place)}"

    @contextlib.contextmanager
    def _changing(self, place: LockKey) -> Iterator[None]:
        """Change a person's lease, one at a time."""
        make_directory(self.directory)
        lock = Flock(self.directory / f"{place.stem}.person.change")
        if not lock.take():
            raise BusyError(f"another process is changing the lease of {place.name}: try again")
        try:
            yield
        finally:
            lock.release()


def _named(note: LeaseRecord | None) -> str:
    return "a process that has left no note" if note is None else str(note)


def _stamp(file: Path) -> object:
    """What changes when a file does."""
    with contextlib.suppress(OSError):
        status = file.stat()
        return status.st_ino, status.st_mtime_ns
    return None
