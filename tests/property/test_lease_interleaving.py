"""Attempts at one board, interleaved between any two of their steps on the disk."""

from __future__ import annotations

import tempfile
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from unittest.mock import patch

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from harness import LockKey
from harness.extensions.lab import leases as leases_module
from harness.extensions.lab.leases import (
    HeldLease,
    LeaseClock,
    LeaseRecord,
    LeaseRegistry,
    read_record,
    write_record,
)
from harness.target.selection import Flock
from tests.support.examples import examples

BOARD = LockKey("board", "the board")
ATTEMPTS = 2
HELD_STEPS = 10
MOST_STEPS = 80
"""Of those among which the order changes; later ones are of whoever has it last."""


class Actor(threading.Thread):
    """Does something, and stops before every step of it until it is told to go on."""

    def __init__(self, name: str, act: Callable[[], None]) -> None:
        super().__init__(name=name, daemon=True)
        self._act = act
        self._go, self._stopped = threading.Semaphore(0), threading.Semaphore(0)
        self.over = False
        self.failure: BaseException | None = None

    def run(self) -> None:
        self.pause()
        try:
            self._act()
        except BaseException as error:
            self.failure = error
        self.over = True
        self._stopped.release()

    def pause(self) -> None:
        self._stopped.release()
        assert self._go.acquire(timeout=600)

    def step(self) -> None:
        """Have it go on to its next step, or its end."""
        self._go.release()
        self.wait()

    def wait(self) -> None:
        assert self._stopped.acquire(timeout=600)


def _pausing(function: Callable[..., object]) -> Callable[..., object]:
    def paused(*arguments: object) -> object:
        actor = threading.current_thread()
        if isinstance(actor, Actor):
            actor.pause()
        return function(*arguments)

    return paused


@contextmanager
def stepwise() -> Iterator[None]:
    """Every look at the disk that decides something is a step."""
    with (
        patch.object(Flock, "acquire", _pausing(Flock.acquire)),
        patch.object(Flock, "is_locked", _pausing(Flock.is_locked)),
        patch.object(Flock, "release", _pausing(Flock.release)),
        patch.object(leases_module, "read_record", _pausing(read_record)),
        patch.object(leases_module, "write_record", _pausing(write_record)),
    ):
        yield


class Contest:
    """A holder that ends, what it has started, and strangers; who has the board at the moment."""

    def __init__(self, directory: Path, strangers: int, *, killed: bool) -> None:
        self.directory = directory
        self.having: list[tuple[str, str, frozenset[str]]] = []
        """Name, token, and the tokens that it was taken with."""
        self.had: list[str] = []
        self._killed = killed
        lease = self.registry("parent").acquire(BOARD)
        assert isinstance(lease, HeldLease)
        self._grip = lease
        self._enter("parent", lease, frozenset())
        token = frozenset({lease.record.token})
        acts = {"parent": self._end}
        acts |= {f"child {n}": self._trying(f"child {n}", token) for n in range(2)}
        acts |= {f"stranger {n}": self._trying(f"stranger {n}") for n in range(strangers)}
        self.actors = [Actor(name, act) for name, act in acts.items()]

    def registry(self, name: str) -> LeaseRegistry:
        holder = LeaseRecord(owner=name, host="here", pid=1, started=1, command=name)
        return LeaseRegistry(self.directory, holder, LeaseClock())

    def _enter(self, name: str, lease: HeldLease, tokens: frozenset[str]) -> None:
        for other, token, _ in self.having:
            assert token in tokens, f"{name} has it beside {other}"
        self.having.append((name, lease.record.token, tokens))
        self.had.append(name)

    def _leave(self, name: str) -> None:
        self.having = [each for each in self.having if each[0] != name]

    def _end(self) -> None:
        self._leave("parent")
        if self._killed:
            self._grip.lock.release()
        else:
            self._grip.release()

    def _trying(self, name: str, tokens: frozenset[str] = frozenset()) -> Callable[[], None]:
        def act() -> None:
            for _ in range(ATTEMPTS):
                lease = self.registry(name).acquire(BOARD, tokens)
                if isinstance(lease, HeldLease):
                    self._enter(name, lease, tokens)
                    actor = threading.current_thread()
                    assert isinstance(actor, Actor)
                    for _ in range(HELD_STEPS):
                        actor.pause()
                    self._leave(name)
                    lease.release()

        return act


@pytest.mark.attack(
    "Leases",
    "two processes that lease the same board, interleaved at every step",
    "never two holders",
)
@settings(max_examples=examples(150))
@given(st.data(), st.integers(1, 2), st.booleans())
def test_no_order_of_steps_makes_two_holders(
    data: st.DataObject, strangers: int, killed: bool
) -> None:
    with tempfile.TemporaryDirectory() as directory, stepwise():
        contest = Contest(Path(directory), strangers, killed=killed)
        going = contest.actors
        # Each goes on as long as it can, but for a few places where it has to wait for all others.
        order = list(data.draw(st.permutations(going)))
        interrupted = data.draw(st.sets(st.integers(1, MOST_STEPS), max_size=4))
        # Only now: an example that is given up while it is drawn leaves no thread behind.
        for actor in going:
            actor.start()
            actor.wait()
        done = 0
        while order := [actor for actor in order if not actor.over]:
            order[0].step()
            done += 1
            if done in interrupted:
                order.append(order.pop(0))
        for actor in contest.actors:
            if actor.failure is not None:
                raise actor.failure
        last = contest.registry("last").acquire(BOARD)
        assert isinstance(last, HeldLease), "it stays held although all have ended"
        last.release()
