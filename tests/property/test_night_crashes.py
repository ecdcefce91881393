"""A night that is killed anywhere goes on: nothing that was finished is lost or repeated."""

from __future__ import annotations

import os
import shutil
from collections.abc import Iterator
from pathlib import Path
from tempfile import TemporaryDirectory

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from harness import NightlyStep
from harness.extensions.lab.nightly import journal as nightly_journal
from harness.extensions.lab.nightly.journal import Account, Ended, Journal, ended_of
from harness.extensions.lab.nightly.night import Night, Prepared, open_night, prepare
from tests.support.examples import examples
from tests.support.night_world import HOW, Killed, World
from tests.support.nights import written_plan

PLAN = """
schema = 1
output = "out"
[[board]]
board = "native"
units = ["a", "b"]
[[model]]
file = "small_int8.pte"
[[variant]]
label = "old"
commit = "c1"
[[variant]]
label = "new"
commit = "c2"
[retry]
link = 1
host = 1
[heal]
bench_after = 100
"""
UNITS = """
schema = 1
[[unit]]
id = "a"
board = "native"
[[unit]]
id = "b"
board = "native"
"""


class FragileJournal(Journal):
    """A journal whose process may die before, within and after the writing of a line."""

    world: World

    def _write(self, line: bytes) -> None:
        self.world.point()
        half = len(line) // 2
        os.write(self._descriptor, line[:half])
        self.world.point()
        os.write(self._descriptor, line[half:])
        self.world.point()


@pytest.fixture(scope="module")
def prepared(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Prepared]:
    home = tmp_path_factory.mktemp("nights")
    (home / "units.toml").write_text(UNITS)
    plan = written_plan(home, PLAN)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(nightly_journal, "Journal", FragileJournal)
        yield prepare(plan, home / "units.toml")


def go_on(prepared: Prepared, world: World) -> bool:
    """Work until the process dies or the night is over; whether it is."""
    FragileJournal.world = world
    night: Night | None = None
    try:
        night = open_night(prepared)
        for unit in prepared.units:
            night.worker(unit, world).work(prepared.steps[unit.id])
        night.finish(0)
    except Killed:
        return False
    finally:
        if night is not None:
            night.journal.close()
    return True


def whole(prepared: Prepared, world: World) -> Night:
    """Begin again until the night is over, and open it to look at it."""
    shutil.rmtree(prepared.output, ignore_errors=True)
    while not go_on(prepared, world):
        assert not world.leases
        world.kill_at = {at for at in world.kill_at if at > world.points}
        if nightly_journal.nights(prepared.output) and not nightly_journal.unfinished_night(
            prepared.output, "night"
        ):
            break  # it was killed when all was done: the next would be another night
    world.kill_at = set()
    [place] = nightly_journal.nights(prepared.output)
    journal = FragileJournal.open(place)
    try:
        return Night(prepared, place, journal)
    finally:
        journal.close()


def assert_complete(prepared: Prepared, world: World, night: Night) -> None:
    ended = [record for record in night.journal.records if isinstance(record, Ended)]
    kept = [item.attempt.result for item in ended if item.attempt.result]
    finished = [result.id for result in world.results.values() if not result.unfinished]
    assert sorted(kept) == sorted(set(kept)), "a result counts once"
    assert set(finished) <= set(kept), "no finished result is lost"
    directories = [item.attempt.directory for item in ended]
    assert len(directories) == len(set(directories))
    calm = reference(prepared, world)
    account = Account(night.journal.records)
    for step in prepared.all_steps:
        assert night.progress.is_done(step, prepared.plan.retry)
        owners = [attempt.owner for attempt in ended_of(account.attempts[step])]
        assert owners == calm[step], "it came out as without any crash"
    assert not night.progress.under_way
    assert not account.under_way
    assert not world.leases


def reference(prepared: Prepared, world: World) -> dict[NightlyStep, list[object]]:
    """What a night without crashes makes of the same script."""
    from tests.support.night_world import OWNERS

    retries = {"link": 1, "host": 1, "killed": 1, "wrong firmware": 1}
    found: dict[NightlyStep, list[object]] = {}
    for step in prepared.all_steps:
        script = world.script.get(step, ("pass",))
        owners: list[object] = []
        for turn in range(10):
            how = script[min(turn, len(script) - 1)]
            owners.append(OWNERS.get(how))
            if how not in retries or owners.count(OWNERS[how]) > retries[how]:
                break
        found[step] = owners
    return found


# A run that is killed or hangs leaves nothing by which a night knows later that it had been made.
REMEMBERED = [how for how in HOW if how not in ("killed", "hang")]


@st.composite
def scripts(draw: st.DrawFn) -> list[list[str]]:
    ends = st.lists(st.sampled_from(REMEMBERED), min_size=1, max_size=3)
    return draw(st.lists(ends, min_size=4, max_size=4))


def world_of(prepared: Prepared, endings: list[list[str]]) -> World:
    return World(dict(zip(prepared.all_steps, endings, strict=True)))


ENDINGS = [["pass"], ["link", "pass"], ["product"], ["host", "host"]]


@pytest.mark.attack(
    "Nights and history", "kill -9 of a nightly run at every point", "nothing is lost or done twice"
)
@pytest.mark.slow
def test_killed_once_at_every_point(prepared: Prepared) -> None:
    calm = world_of(prepared, ENDINGS)
    assert_complete(prepared, calm, whole(prepared, calm))
    assert calm.points > 70
    for at in range(1, calm.points - 5):  # the last are of looking at it
        world = world_of(prepared, ENDINGS)
        world.kill_at = {at}
        assert_complete(prepared, world, whole(prepared, world))


@pytest.mark.attack(
    "Nights and history", "repeated kill -9 of a nightly run", "nothing is lost or done twice"
)
@settings(max_examples=examples(25))
@given(scripts(), st.sets(st.integers(1, 150), max_size=10))
def test_killed_again_and_again(
    prepared: Prepared, endings: list[list[str]], kills: set[int]
) -> None:
    world = world_of(prepared, endings)
    world.kill_at = kills
    assert_complete(prepared, world, whole(prepared, world))


@settings(max_examples=15)
@given(st.lists(st.lists(st.sampled_from(HOW), min_size=1, max_size=3), min_size=4, max_size=4))
def test_without_crashes_every_ending_is_told_and_tried_again_by_its_owner(
    prepared: Prepared, endings: list[list[str]]
) -> None:
    world = world_of(prepared, endings)
    assert_complete(prepared, world, whole(prepared, world))


def test_a_torn_line_is_dropped_and_said(prepared: Prepared) -> None:
    with TemporaryDirectory() as name:
        place = Path(name) / "night"
        world = World()
        FragileJournal.world = world
        with FragileJournal.open(place) as journal:
            Night(prepared, place, journal)
        (place / "journal.jsonl").open("ab").write(b'{"crc":"0000')
        with FragileJournal.open(place) as journal:
            assert journal.dropped == 12
            again = Night(prepared, place, journal)
            assert again.resumed
