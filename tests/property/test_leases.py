"""Many who would hold one board: at most one does, whatever dies, jumps or is scribbled over."""

from __future__ import annotations

import tempfile
from dataclasses import dataclass, field
from pathlib import Path

import hypothesis.strategies as st
from hypothesis import settings
from hypothesis.stateful import (
    Bundle,
    RuleBasedStateMachine,
    consumes,
    initialize,
    invariant,
    multiple,
    rule,
)

from harness import BusyError, LockKey
from harness.extensions.lab.leases import HeldLease, Holder, Instant, LeaseRecord, LeaseRegistry
from tests.support.examples import examples

HEARTBEAT_S = 5.0
STALE_S = 30.0

BOARD = LockKey("board", "the board")
HOSTS = ("here", "there")
DAY_S = 86_400.0


@dataclass
class Host:
    """A computer: its clocks, and the locks that its kernel has."""

    name: str
    locks: Path
    boots: int = 0
    since_boot_s: float = 1000.0
    day_s: float = 1.7e9

    def now(self) -> Instant:
        return Instant(f"{self.name}-{self.boots}", self.since_boot_s, self.day_s)


class RegistryOfHost(LeaseRegistry):
    """Leases whose notes all hosts share, but locks only the processes of one."""

    def _lock_file(self, key: LockKey, level: int) -> Path:
        assert isinstance(self.clock, Host)
        return self.clock.locks / f"{key.stem}.{level}.lock"

    def _levels(self, key: LockKey) -> list[int]:
        locks = self.directory.glob(f"{key.stem}.*.json")
        levels = {name.split(".")[1] for name in (file.name for file in locks)}
        assert isinstance(self.clock, Host)
        levels |= {file.name.split(".")[1] for file in self.clock.locks.glob("*.lock")}
        return sorted(int(level) for level in levels if level.isdigit())


@dataclass(eq=False)
class Process:
    """One of many, with the tokens that whoever started it had then."""

    registry: RegistryOfHost
    host: Host
    inherited: frozenset[str]
    leases: list[HeldLease] = field(default_factory=list)
    alive: bool = True

    @property
    def tokens(self) -> frozenset[str]:
        return self.inherited | {lease.record.token for lease in self.leases}

    @property
    def acts_for(self) -> tuple[str, str]:
        return self.registry.holder.owner, self.registry.holder.host

    def die(self) -> None:
        """As SIGKILL does it: the kernel lets its locks go, and nobody tidies up."""
        self.alive = False
        for lease in self.leases:
            lease.lock.release()
        self.leases.clear()


@dataclass
class PersonsLease:
    """What is known of it without reading any file."""

    record: LeaseRecord
    host: Host
    boots: int
    ends_s: float
    made_by: tuple[str, str]


class Leases(RuleBasedStateMachine):
    processes = Bundle("processes")

    @initialize()
    def begin(self) -> None:
        self.folder = tempfile.TemporaryDirectory()
        root = Path(self.folder.name)
        self.notes = root / "notes"
        self.hosts = {}
        for name in HOSTS:
            (root / name).mkdir()
            self.hosts[name] = Host(name, root / name)
        self.all: list[Process] = []
        self.held: list[tuple[Process, HeldLease, frozenset[str]]] = []
        """Who holds it, first come first, and the tokens that were known to whoever came."""
        self.person: PersonsLease | None = None
        self.scribbled = False

    def teardown(self) -> None:
        if not hasattr(self, "folder"):
            return
        for process in self.all:
            process.die()
        keeper = self._process("eve", "here", frozenset())
        keeper.registry.release(BOARD, force=True)
        got = keeper.registry.acquire(BOARD)
        if isinstance(got, Holder):  # a host whose locks are others died without a word
            self._pass(STALE_S + 1)
            got = keeper.registry.acquire(BOARD)
        assert isinstance(got, HeldLease), "a board stays held although nobody is left"
        got.release()
        self.folder.cleanup()

    def _process(self, owner: str, host: str, inherited: frozenset[str]) -> Process:
        holder = LeaseRecord(
            owner=owner, host=host, pid=1000 + len(self.all), started=len(self.all), command="test"
        )
        registry = RegistryOfHost(self.notes, holder, self.hosts[host])
        process = Process(registry, self.hosts[host], inherited)
        self.all.append(process)
        return process

    @rule(target=processes, owner=st.sampled_from(("ada", "bob")), host=st.sampled_from(HOSTS))
    def start(self, owner: str, host: str) -> Process:
        return self._process(owner, host, frozenset())

    @rule(target=processes, parent=processes)
    def start_child(self, parent: Process) -> object:
        if not parent.leases:
            return multiple()
        child = self._process(parent.registry.holder.owner, parent.host.name, parent.tokens)
        self._take(child)
        return child

    @rule(process=processes)
    def take(self, process: Process) -> None:
        if process.alive:
            self._take(process)

    def _take(self, process: Process) -> None:
        known = process.tokens
        got = process.registry.acquire(BOARD, known)
        if isinstance(got, Holder):
            if not self.held and not self.scribbled and self._may(process):
                # Only what happened elsewhere, or before a restart, can be in doubt.
                assert got.record is not None
                assert got.record.since.boot != process.host.now().boot
            return
        lent = any(lease.record.token in known for _, lease, _ in self.held)
        assert lent or self._may(process), "a person's lease did not keep it"
        process.leases.append(got)
        self.held.append((process, got, known))

    def _may(self, process: Process) -> bool:
        """Whether a person's lease lets it through, as far as one clock can tell for sure."""
        person = self.person
        if person is None or (person.host, person.boots) != (process.host, process.host.boots):
            return True
        over = process.host.since_boot_s >= person.ends_s
        mine = process.acts_for == person.made_by or person.record.token in process.tokens
        return over or mine

    @rule(process=processes)
    def let_go(self, process: Process) -> None:
        if process.leases:
            self._forget(process.leases.pop())

    def _forget(self, lease: HeldLease) -> None:
        lease.release()
        self.held = [each for each in self.held if each[1] is not lease]

    @rule(process=consumes(processes))
    def kill(self, process: Process) -> None:
        process.die()
        self.held = [each for each in self.held if each[0] is not process]

    @rule(process=processes, seconds=st.sampled_from((5.0, 3600.0)))
    def lease(self, process: Process, seconds: float) -> None:
        if not process.alive:
            return
        before = self._may(process)
        lent = any(lease.record.token in process.tokens for _, lease, _ in self.held)
        got = process.registry.reserve(BOARD, seconds, process.tokens)
        if isinstance(got, LeaseRecord):
            assert before or lent
            host = process.host
            ends = host.since_boot_s + seconds
            self.person = PersonsLease(got, host, host.boots, ends, process.acts_for)

    @rule(process=processes, force=st.booleans())
    def release(self, process: Process, force: bool) -> None:
        if not process.alive:
            return
        try:
            process.registry.release(BOARD, process.tokens, force=force)
        except BusyError:
            assert not force
            return
        self.person = None
        for holder, lease, _ in list(self.held):
            if force and holder.host is process.host:
                assert lease.loss() or self.scribbled, "a holder is not told"

    @rule(process=processes)
    def notice(self, process: Process) -> None:
        """A holder checks its leases, and stops where it has lost them."""
        for lease in [lease for lease in process.leases if lease.loss()]:
            process.leases.remove(lease)
            self._forget(lease)

    @rule(seconds=st.sampled_from((0.5, 4.0, 40.0, 4000.0)))
    def wait(self, seconds: float) -> None:
        self._pass(seconds)

    def _pass(self, seconds: float) -> None:
        """Time goes by, in which every process that lives says so."""
        step = HEARTBEAT_S if seconds < 2 * STALE_S else seconds
        while seconds > 0:
            for host in self.hosts.values():
                host.since_boot_s += min(step, seconds)
                host.day_s += min(step, seconds)
            seconds -= step
            for process in self.all:
                for lease in process.leases:
                    lease.heartbeat()

    @rule(host=st.sampled_from(HOSTS), seconds=st.sampled_from((-10 * DAY_S, -60.0, 60.0, DAY_S)))
    def set_the_clock(self, host: str, seconds: float) -> None:
        self.hosts[host].day_s += seconds

    @rule(host=st.sampled_from(HOSTS))
    def restart(self, host: str) -> None:
        ours = self.hosts[host]
        for process in self.all:
            if process.host is ours:
                process.die()
        self.held = [each for each in self.held if each[0].alive]
        ours.boots, ours.since_boot_s = ours.boots + 1, 5.0

    @rule(
        level=st.sampled_from(("0", "1", "person", "taken")),
        garbage=st.binary(max_size=40) | st.just(b'{"token": "'),
    )
    def scribble(self, level: str, garbage: bytes) -> None:
        file = self.notes / f"{BOARD.stem}.{level}.json"
        if file.exists():
            self.scribbled = True
            file.write_bytes(garbage)

    @invariant()
    def at_most_one_holds_it(self) -> None:
        held = getattr(self, "held", [])
        for place, (_, first, _) in enumerate(held):
            for _, _, known in held[place + 1 :]:
                assert first.record.token in known, "two hold it, and neither acts under the other"


TestLeases = Leases.TestCase
TestLeases.settings = settings(
    max_examples=examples(100), stateful_step_count=40, report_multiple_bugs=False
)
