"""Who waits for boards: first come, first served, whatever dies, stops, or comes in between."""

from __future__ import annotations

import os
import random
import tempfile
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path

import hypothesis.strategies as st
from hypothesis import given, settings

from harness import LockKey
from harness.extensions.lab.holding import Waiter
from harness.extensions.lab.leases import HeldLease, Instant, LeaseRecord, LeaseRegistry

RENEW_S = 2.0
TURN_S = 10.0

EXAMPLES = int(os.environ.get("ETHARNESS_QUEUE_EXAMPLES", "30"))
STEPS_OF_A_SCHEDULE = 60
MOST = 6
"""Of those who wait at once."""
BOARDS = tuple(LockKey(name, name) for name in ("unit", "port", "other"))
WANTED = ((0, 1), (1,), (1, 0), (2,), (0, 1, 2))
"""Which boards are wanted together; in both orders."""


@dataclass
class Watch:
    """The clock of the host."""

    seconds: float = 1000.0

    def now(self) -> Instant:
        return Instant("boot", self.seconds, self.seconds)


@dataclass(eq=False)
class Contender:
    """A process that waits for boards, then has them; ``awake`` while it is not stopped."""

    name: str
    wants: frozenset[str]
    waiter: Waiter
    registry: LeaseRegistry
    held: list[HeldLease] = field(default_factory=list)
    renewed: float | None = None
    awake: bool = True


class Queue:
    """The model is a list in order of arrival; those who lose their place go to its end."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.watch = Watch()
        self.line: list[Contender] = []
        self.lost: list[Contender] = []
        """Those who were passed over, and have not noticed it yet."""
        self.holding: list[Contender] = []
        self.count = 0

    def _contender(self, wants: tuple[int, ...]) -> Contender:
        self.count += 1
        name = f"p{self.count}"
        holder = LeaseRecord(
            owner=name, host="here", pid=self.count, started=self.count, command="test"
        )
        registry = LeaseRegistry(self.folder, holder, self.watch)
        keys = [BOARDS[at] for at in wants]
        stems = frozenset(key.stem for key in keys)
        return Contender(name, stems, Waiter(registry, keys), registry)

    def _age(self, contender: Contender) -> float:
        return self.watch.seconds - (contender.renewed or -TURN_S)

    def _look(self, contender: Contender) -> None:
        """Have it look once, and hold what it gets against the model."""
        before = self.line[: self.line.index(contender)] if contender in self.line else self.line
        rivals = [each for each in before if not each.wants.isdisjoint(contender.wants)]
        silent = [each for each in rivals if self._age(each) >= TURN_S]
        ahead = [each for each in rivals if each not in silent]
        free = all(holder.wants.isdisjoint(contender.wants) for holder in self.holding)
        got = contender.waiter.attempt()
        if self._age(contender) >= RENEW_S:
            contender.renewed = self.watch.seconds
        if isinstance(got, list):
            assert free, "two holders"
            assert not ahead, f"{contender.name} overtook {[each.name for each in ahead]}"
            contender.held = got
            self.holding.append(contender)
            for place in (self.line, self.lost):
                if contender in place:
                    place.remove(contender)
            for each in silent:  # they were passed over, and come last when they look again
                self.line.remove(each)
                self.lost.append(each)
                each.renewed = None
            return
        assert not free or ahead, "it was its turn, and the board was free"
        assert got.number == 1 + len(ahead), "its place is not as it is said"
        if contender not in self.line:
            self.line.append(contender)
            self.lost = [each for each in self.lost if each is not contender]

    def _end(self, holder: Contender) -> None:
        for lease in holder.held:
            lease.release()
        self.holding.remove(holder)

    def arrive(self, which: int) -> None:
        if len(self.line) < MOST:
            self._look(self._contender(WANTED[which % len(WANTED)]))

    def look(self, which: int) -> None:
        """One looks, perhaps after it was stopped for long."""
        if all_ := [*self.line, *self.lost]:
            contender = all_[which % len(all_)]
            contender.awake = True
            self._look(contender)

    def release(self, which: int) -> None:
        if self.holding:
            self._end(self.holding[which % len(self.holding)])

    def crash_holding(self, which: int) -> None:
        if self.holding:
            victim = self.holding.pop(which % len(self.holding))
            for lease in victim.held:
                lease.lock.release()

    def crash_waiting(self, which: int) -> None:
        if self.line:
            self.line.pop(which % len(self.line)).waiter.abandon()

    def give_up(self, which: int) -> None:
        if self.line:
            self.line.pop(which % len(self.line)).waiter.leave()

    def stop(self, which: int) -> None:
        if self.line:
            self.line[which % len(self.line)].awake = False

    def pass_time(self, which: int) -> None:
        """Those who are not stopped look again within the time that they have."""
        for _ in range(2):
            self.watch.seconds += (1.0, 3.0, TURN_S)[which % 3] / 2
            for each in [each for each in self.line if each.awake]:
                if each in self.line:
                    self._look(each)

    def serve_all(self) -> None:
        """Holders end and sleepers wake: nobody who waits starves."""
        for _ in range(2 * self.count + 2):
            for holder in list(self.holding):
                self._end(holder)
            for contender in [*self.line, *self.lost]:
                self._look(contender)
        assert not self.line + self.lost, "somebody who waits is never served"
        for holder in list(self.holding):
            self._end(holder)
        late = self._contender((0, 1, 2))
        got = late.waiter.attempt(join=False)
        assert isinstance(got, list), "kept for nobody"
        for lease in got:
            lease.release()


STEPS: tuple[Callable[[Queue, int], None], ...] = (
    *(Queue.arrive, Queue.arrive, Queue.arrive, Queue.look, Queue.look),
    *(Queue.release, Queue.release, Queue.pass_time, Queue.pass_time, Queue.stop),
    *(Queue.crash_holding, Queue.crash_waiting, Queue.give_up),
)


@settings(max_examples=EXAMPLES)
@given(st.integers(0, 1 << 32))
def test_first_come_first_served(seed: int) -> None:
    dice = random.Random(seed)
    with tempfile.TemporaryDirectory() as folder:
        queue = Queue(Path(folder))
        for _ in range(STEPS_OF_A_SCHEDULE):
            dice.choice(STEPS)(queue, dice.randrange(60))
        queue.serve_all()
