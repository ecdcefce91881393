"""What one unit does in a night: healed, benched, tried again, by whose the failures are."""

from __future__ import annotations

import errno
import threading
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest

from harness import Failure, NightDocument, NightlyStep, Owner, StepOutcome, UnitOutcome
from harness.extensions.lab.nightly.journal import Account, JournalError
from harness.extensions.lab.nightly.night import Night, Prepared, open_night, prepare
from harness.extensions.lab.nightly.verdict import counts_of, night_verdict
from harness.extensions.lab.nightly.worker import Cause, Ending
from tests.support.night_world import Killed, World
from tests.support.nights import written_plan

BOARD = """
schema = 1
name = "desk"
description = "a board on a serial port"
cpu = "cortex-m4"
timer = { source = "dwt", bits = 32, hz = 64_000_000 }
target = { kind = "serial" }
[flash]
order = ["gdb"]
"""
UNITS = """
schema = 1
[[unit]]
id = "a"
board = "desk.toml"
port = "/dev/null"
power = { kind = "command", on = ["true"], off = ["true"] }
"""
PLAN = """
schema = 1
output = "out"
[[board]]
board = "desk.toml"
[[model]]
file = "small_int8.pte"
[[model]]
file = "functions.pte"
"""


def document_of(night: Night, *, not_run_fails: bool = True) -> NightDocument:
    """Return what is said of a night when it is over."""
    prepared = night.prepared
    return night_verdict(
        *(prepared.units, prepared.all_steps, Account(night.journal.records)),
        name="n",
        night="n-1",
        directory="n-1",
        times=("2026-11-22T00:00:00+00:00", "2026-11-22T01:00:00+00:00"),
        not_run_fails=not_run_fails,
    )


def noted(done: Done) -> NightDocument:
    """Return the night as far as it is, with runs that were not made as a note."""
    return document_of(done.night, not_run_fails=False)


class Done:
    """A night that one unit has worked through."""

    def __init__(
        self, home: Path, world: World, more: str = "", plan: str = PLAN, *, kill_at: int = 0
    ) -> None:
        home.mkdir(parents=True, exist_ok=True)
        (home / "desk.toml").write_text(BOARD)
        (home / "units.toml").write_text(UNITS)
        (home / "fw.elf").write_bytes(b"firmware")
        text = more.partition("[board]")[2]
        plan = plan.replace('board = "desk.toml"', f'board = "desk.toml"\n{text}')
        file = written_plan(home, plan + more.partition("[board]")[0], ("small_int8", "functions"))
        self.prepared: Prepared = prepare(file, home / "units.toml")
        self.night: Night = open_night(self.prepared)
        self.world = world
        self.unit = self.prepared.units[0]
        world.kill_at = {kill_at}
        with suppress(Killed):
            self.go_on()
        if world.points == kill_at:
            world.kill_at = set()
            self.go_on()

    def go_on(self) -> None:
        ends_at = self.world.clock + 10_000
        self.night.worker(self.unit, self.world, ends_at).work(self.prepared.steps["a"])

    @property
    def account(self) -> Account:
        return Account(self.night.journal.records)

    @property
    def outcomes(self) -> tuple[StepOutcome, ...]:
        return document_of(self.night).outcomes

    @property
    def row(self) -> UnitOutcome:
        return document_of(self.night).units[0]

    @property
    def exit_code(self) -> int:
        return document_of(self.night).exit_code

    def did(self, what: str) -> int:
        return sum(did.startswith(what) for _, did in self.world.did)


def world(*endings: str) -> World:
    """A world whose first model on the unit ends like this."""
    return World(dict.fromkeys(first_steps(), endings))


def first_steps() -> list[NightlyStep]:
    return [NightlyStep("a", "desk", "small_int8", "only", 1)]


def first(done: Done) -> StepOutcome:
    [found] = [o for o in done.outcomes if o.step.model == "small_int8"]
    return found


def test_all_is_well(tmp_path: Path) -> None:
    done = Done(tmp_path, world("pass"))
    assert done.exit_code == 0
    assert done.row.state == "well"
    assert (done.row.passed, done.row.flaky, done.row.not_run) == (2, 0, 0)
    assert [event.what for event in done.row.events] == ["leased", "well"]
    assert done.did("examine") == 1
    assert not done.world.leases


@pytest.mark.parametrize(
    ("how", "owner", "code", "tries"),
    [
        ("product", Owner.PRODUCT, 1, 1),
        ("crash", Owner.PRODUCT, 1, 1),
        ("hang", Owner.PRODUCT, 1, 1),
        ("test", Owner.TEST, 2, 1),
        ("link", Owner.LINK, 76, 2),
        ("host", Owner.HOST, 71, 2),
        ("killed", Owner.HOST, 71, 2),
        ("wrong firmware", Owner.FLASH, 74, 2),
    ],
)
def test_each_owner_has_its_rule_its_code_and_its_column(
    tmp_path: Path, how: str, owner: Owner, code: int, tries: int
) -> None:
    done = Done(tmp_path, world(how), "[retry]\nlink = 1\nflash = 1\nhost = 1\n")
    outcome = first(done)
    assert outcome.outcome == "fail"
    assert outcome.owner is owner
    assert len(outcome.attempts) == tries
    assert done.exit_code == code
    assert done.row.failed == {owner: 1}
    assert counts_of(done.outcomes)[str(owner)] == 1
    assert done.row.passed == 1


def test_a_request_that_cannot_work_is_one_failure_not_one_of_each_repeat(tmp_path: Path) -> None:
    plan = PLAN.replace("schema = 1", "schema = 1\nrepeats = 3")
    wrong = {NightlyStep("a", "desk", "small_int8", "only", n): ("test",) for n in (1, 2, 3)}
    done = Done(tmp_path, World(wrong), plan=plan)
    assert done.did("run test") == 1
    document = document_of(done.night)
    assert (document.counts["test"], document.counts["pass"]) == (3, 3)
    [cause] = document.causes
    assert (cause.state, cause.runs, cause.not_made, cause.attempts) == ("set-up", 3, 2, 1)
    assert (done.row.state, done.row.not_run, done.exit_code) == ("well", 2, 2)
    assert noted(done).counts == document.counts


def test_a_pass_after_a_failure_says_so_and_waits_longer_each_time(tmp_path: Path) -> None:
    done = Done(tmp_path, world("link", "link", "pass"), "[retry]\nlink = 2\nbackoff_s = 3.0\n")
    outcome = first(done)
    assert outcome.flaky
    assert outcome.told == "passed on attempt 3 after link"
    assert done.row.flaky == 1
    assert done.exit_code == 0
    assert [did for _, did in done.world.did if did.startswith("sleep")] == ["sleep 3", "sleep 6"]


def test_a_board_that_answers_after_a_crash_makes_it_the_products(tmp_path: Path) -> None:
    done = Done(tmp_path, world("crash"))
    assert first(done).attempts[0].evidence == ("the board answers",)


class Dying(World):
    """A world in which a run leaves the board dead until its power is switched."""

    def run(self, unit: Any, step: NightlyStep, directory: Path, deadline_s: float):  # type: ignore[no-untyped-def]
        ending = super().run(unit, step, directory, deadline_s)
        if self.completed[step][-1] != "pass":
            self.well[unit.id] = False
        return ending


def dying(*endings: str, cures: bool) -> Dying:
    found = Dying(dict.fromkeys(first_steps(), endings))
    found.cures = cures
    return found


def test_a_board_that_answers_after_a_power_cycle_was_only_hung(tmp_path: Path) -> None:
    done = Done(tmp_path, dying("crash", cures=True))
    outcome = first(done)
    assert outcome.owner is Owner.PRODUCT
    assert outcome.attempts[0].evidence == ("the board answers after 1 power cycle",)
    assert done.row.power_cycles == 1
    assert done.row.passed == 1


@pytest.mark.parametrize("how", ["crash", "link", "hang"])
def test_a_board_that_never_answers_again_is_benched(tmp_path: Path, how: str) -> None:
    done = Done(tmp_path, dying(how, cures=False))
    outcome = first(done)
    assert outcome.owner is Owner.BOARD
    assert "not healthy after 1 power cycle: no answer" in outcome.attempts[0].evidence[-1]
    assert done.row.state == "benched"
    assert done.row.not_run == (1 if done.outcomes[0] == outcome else 0)
    assert done.exit_code == 4


@pytest.mark.parametrize("kill_at", range(1, 14))
def test_a_dead_board_is_dead_wherever_the_night_was_killed(tmp_path: Path, kill_at: int) -> None:
    """Also between the end of the run and the question to the board."""
    done = Done(tmp_path, dying("link", cures=False), kill_at=kill_at)
    outcome = first(done)
    assert outcome.attempts[-1].evidence[-1].startswith("the board is not healthy after 1 power")
    assert outcome.owner is Owner.BOARD
    assert done.row.state == "benched"
    assert not done.night.progress.under_way


def test_without_a_power_cycle_a_dead_board_is_dead(tmp_path: Path) -> None:
    done = Done(tmp_path, dying("crash", cures=True), "[heal]\npower_cycle = false\n")
    assert first(done).owner is Owner.BOARD
    assert done.row.power_cycles == 0


def test_a_board_that_is_not_well_at_first_runs_nothing(tmp_path: Path) -> None:
    sick = world("pass")
    sick.well["a"], sick.cures = False, False
    done = Done(tmp_path, sick)
    assert done.row.state == "benched"
    assert done.row.not_run == 2
    assert "failed its health check after 1 power cycle: no answer" in done.row.why
    assert done.did("run") == 0
    assert done.exit_code == 4


def test_a_power_cycle_cures_a_board_at_first(tmp_path: Path) -> None:
    sick = world("pass")
    sick.well["a"] = False
    done = Done(tmp_path, sick)
    assert done.exit_code == 0
    assert [event.what for event in done.row.events] == ["leased", "power cycled", "well"]


def test_power_that_cannot_be_switched_cures_nothing(tmp_path: Path) -> None:
    class Stuck(World):
        def power_cycle(self, unit: Any) -> Cause:
            return Cause(owner=Owner.HOST, message="no uhubctl")

    sick = Stuck()
    sick.well["a"] = False
    done = Done(tmp_path, sick)
    assert done.row.state == "benched"
    assert [event.message for event in done.row.events if "not power" in event.what] == [
        "no uhubctl"
    ]


def test_too_many_failures_in_a_row_bench_a_unit(tmp_path: Path) -> None:
    both = {
        NightlyStep("a", "desk", model, "only", 1): ("link",)
        for model in ("small_int8", "functions")
    }
    done = Done(tmp_path, World(both), "[heal]\nbench_after = 2\n")
    assert done.row.state == "benched"
    assert "failed 2 times in a row: " in done.row.why
    assert done.row.not_run == 1
    assert done.exit_code == 76


def test_a_unit_that_somebody_holds_is_not_run_and_says_by_whom(tmp_path: Path) -> None:
    held = world("pass")
    held.busy["a"] = "jane since 22:00"
    done = Done(tmp_path, held)
    assert done.row.state == "not leased"
    assert "jane since 22:00" in done.row.why
    assert {outcome.outcome for outcome in done.outcomes} == {"not run"}
    assert done.exit_code == 71
    # Even where that is but a note: a night in which nothing ran is no success.
    assert noted(done).exit_code == 71
    held.busy.clear()
    done.go_on()
    assert done.row.state == "well"
    assert done.exit_code == 0


def test_runs_that_were_not_made_may_be_a_note(tmp_path: Path) -> None:
    both = {NightlyStep("a", "desk", m, "only", 1): ("pass",) for m in ("small_int8", "functions")}
    done = Done(tmp_path, World(both), "[deadlines]\nunit_s = 11\n")
    assert (done.row.state, done.row.not_run) == ("out of time", 1)
    assert done.exit_code == 71
    assert noted(done).exit_code == 0
    assert (noted(done).counts["not run"], noted(done).counts["pass"]) == (1, 1)


def test_a_unit_ends_with_its_time(tmp_path: Path) -> None:
    done = Done(tmp_path, world("pass"), "[deadlines]\nunit_s = 9.0\n")
    assert done.row.state == "out of time"
    assert done.row.passed == 1
    assert done.exit_code == 71


def test_a_run_that_the_end_of_the_time_cut_off_is_nobodys_failure(tmp_path: Path) -> None:
    done = Done(tmp_path, world("hang"), "[deadlines]\nunit_s = 9.0\nattempt_s = 100.0\n")
    assert "fail" not in {outcome.outcome for outcome in done.outcomes}


def test_firmware_is_flashed_and_again_when_it_was_wrong(tmp_path: Path) -> None:
    more = '[retry]\nflash = 1\n[board]image = "fw.elf"\n'
    done = Done(tmp_path, world("wrong firmware", "pass"), more)
    flashed = [did for _, did in done.world.did if did.startswith("flash")]
    assert sorted(flashed) == ["flash fw.elf", "flash fw.elf", "flash fw.elf again"]
    assert first(done).told == "passed on attempt 2 after flash"


def test_a_board_without_a_line_is_not_the_flashings_failure(tmp_path: Path) -> None:
    gone = world("pass")
    gone.flashings = iter([Failure("PortError", "no such port", "plug it in", Owner.LINK)])
    more = '[retry]\nlink = 1\nflash = 0\n[board]image = "fw.elf"\n'
    done = Done(tmp_path, gone, more)
    assert first(done).told == "passed on attempt 2 after link"
    assert first(done).attempts[0].message == "flashing fw.elf: no such port"


def test_nothing_is_begun_once_the_night_is_stopped(tmp_path: Path) -> None:
    stopped = world("pass")
    stopped.stopped = True
    done = Done(tmp_path, stopped)
    assert done.did("run") == 0
    assert done.row.state == "interrupted"


class Broken(World):
    """A world that fails as nobody expects."""

    error: Exception = RuntimeError("a defect")

    def run(self, unit: Any, step: NightlyStep, directory: Path, deadline_s: float) -> Ending:
        raise self.error


def test_a_disk_that_is_full_before_a_run_begins_is_the_hosts(tmp_path: Path) -> None:
    full = Broken()
    full.error = OSError(errno.ENOSPC, "No space left on device", "/tmp/x")
    done = Done(tmp_path, full, "[retry]\nhost = 0\n")
    assert first(done).owner is Owner.HOST
    assert first(done).why == "No space left on device /tmp/x"


TWO = UNITS + '[[unit]]\nid = "b"\nboard = "desk.toml"\nport = "/dev/zero"\n'


def test_a_defect_of_ours_loses_one_unit_and_says_so(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("tests.unit.test_night_worker.UNITS", TWO)
    done = Done(tmp_path, world("pass"))

    class OnlyOne(Broken):
        def run(self, unit: Any, step: NightlyStep, directory: Path, deadline_s: float) -> Ending:
            if unit.id == "a":
                raise self.error
            return World.run(self, unit, step, directory, deadline_s)

    night = open_night(done.prepared, fresh=True)
    night.work(OnlyOne())
    rows = {row.unit: row for row in document_of(night).units}
    assert rows["a"].state == "lost"
    assert "a defect" in rows["a"].why
    assert rows["b"].state == "well"
    assert rows["b"].passed == 2


class OneStuck(World):
    """A world whose unit ``a`` is stuck until its deadline, which comes when ``b`` has done all."""

    def __init__(self) -> None:
        super().__init__()
        self.all_else = threading.Event()

    def run(self, unit: Any, step: NightlyStep, directory: Path, deadline_s: float) -> Ending:
        if unit.id == "a":
            assert self.all_else.wait(600), "the other unit waits for the stuck one"
            return Ending(-9, True, False, deadline_s, "")
        ending = super().run(unit, step, directory, deadline_s)
        if sum(map(len, self.completed.values())) == 2:
            self.all_else.set()
        return ending


def test_a_stuck_unit_delays_no_other(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("tests.unit.test_night_worker.UNITS", TWO)
    done = Done(tmp_path, world("pass"))
    night = open_night(done.prepared, fresh=True)
    night.work(OneStuck())
    outcomes = document_of(night).outcomes
    assert [each.outcome for each in outcomes if each.step.unit == "b"] == ["pass", "pass"]
    stuck = next(each for each in outcomes if each.step.unit == "a")
    assert stuck.outcome == "fail"
    assert "timed out after" in stuck.why


def test_a_journal_that_cannot_be_kept_ends_the_night(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    done = Done(tmp_path, world("pass"))
    night = open_night(done.prepared, fresh=True)

    def full(*_: object) -> None:
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr("harness.extensions.lab.nightly.journal.os.fsync", full)
    other = World()
    with pytest.raises(JournalError, match="No space left"):
        night.work(other)
    assert other.stopped
    assert other.completed == {}


def test_those_who_wait_hear_when_a_unit_is_probably_free(tmp_path: Path) -> None:
    done = Done(tmp_path, world("pass"), plan=f"repeats = 5\n{PLAN}")
    expected = done.world.expected
    assert len(expected) == 9  # before every step but the first
    assert expected == sorted(expected, reverse=True)
    assert 10 <= expected[-1] < 30  # a run takes ten seconds in this world
