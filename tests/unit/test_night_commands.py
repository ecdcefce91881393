"""What a night has its children do, and what it makes of their answers."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from contextlib import nullcontext
from pathlib import Path

import msgspec
import pytest

from harness import NightlyStep, Owner
from harness.extensions.lab.health import Health, HealthFinding
from harness.extensions.lab.nightly import commands
from harness.extensions.lab.nightly.commands import Commands
from harness.extensions.lab.nightly.night import Prepared, prepare
from harness.extensions.lab.nightly.worker import Ending
from tests.support.nights import written_plan
from tests.unit.test_night_worker import BOARD, PLAN, UNITS


class FakeChildren:
    """Notes commands, and answers each as it is told to."""

    code: int = 0
    answer: bytes = b""
    error: OSError | None = None

    def __init__(self) -> None:
        self.calls: list[list[str]] = []
        self.environment: Mapping[str, str] | None = None
        self.stopped = False

    def run(
        self,
        command: Sequence[str],
        deadline_s: float,
        *,
        log: Path,
        output: Path | None = None,
        environment: Mapping[str, str] | None = None,
    ) -> Ending:
        if self.error is not None:
            raise self.error
        self.calls.append([*command[3:]])
        self.environment = environment
        if output is not None:
            output.parent.mkdir(parents=True, exist_ok=True)
            output.write_bytes(self.answer)
        return Ending(self.code, False, False, 1.0, "error: it is broken")

    def stop(self) -> None:
        self.stopped = True

    def sleep(self, seconds: float) -> None:
        del seconds


@pytest.fixture
def prepared(tmp_path: Path) -> Prepared:
    (tmp_path / "desk.toml").write_text(BOARD)
    (tmp_path / "units.toml").write_text(UNITS)
    text = PLAN + '\n[[variant]]\nlabel = "new"\ncommit = "c0ffee"\n[run]\nruns = 3\n'
    return prepare(
        written_plan(tmp_path, text, ("small_int8", "functions")), tmp_path / "units.toml"
    )


@pytest.fixture
def effects(
    prepared: Prepared, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> tuple[Commands, FakeChildren]:
    fake = FakeChildren()
    monkeypatch.setattr(commands, "Children", lambda: fake)
    units = tmp_path / "units.toml"
    made = Commands(prepared.plan, prepared.document, units, tmp_path / "night", "night-1")
    return made, fake


Both = tuple[Commands, FakeChildren]


def test_a_run_is_told_all_that_the_plan_says(
    effects: Both, prepared: Prepared, tmp_path: Path
) -> None:
    night, fake = effects
    step = NightlyStep("a", "desk", "small_int8", "new", 2)
    night.run(prepared.units[0], step, tmp_path / "out", 60.0)
    [command] = fake.calls
    assert command[0] == "run"
    for part in ("--unit=a", f"--units={tmp_path / 'units.toml'}", "--runs=3", "--commit=c0ffee"):
        assert part in command
    assert fake.environment is not None
    assert fake.environment["ETHARNESS_SESSION"] == "night-1/2"


def test_firmware_is_flashed_if_needed_or_again(
    effects: Both, prepared: Prepared, tmp_path: Path
) -> None:
    night, fake = effects
    for again in (False, True):
        night.flash(prepared.units[0], tmp_path / "fw.elf", again=again)
    needed, always = fake.calls
    assert needed[0] == always[0] == "flash"
    assert f"--image={tmp_path / 'fw.elf'}" in needed
    assert "--if-needed" in needed
    assert "--if-needed" not in always


def test_what_a_flashing_wrote_down_is_of_this_time(
    effects: Both, prepared: Prepared, tmp_path: Path
) -> None:
    night, _ = effects
    told = tmp_path / "night" / "units" / "a" / "flash" / "flash.json"
    told.parent.mkdir(parents=True)
    told.write_bytes(b"of the time before")
    _, failure = night.flash(prepared.units[0], tmp_path / "fw.elf", again=False)
    assert failure is None
    assert not told.exists()


def health(*findings: HealthFinding, owner: Owner | None = None) -> bytes:
    healthy = owner is None
    found = Health("a", "desk", "/dev/null", healthy, 0 if healthy else 75, owner, findings)
    return msgspec.json.encode([found])


def test_a_unit_that_is_well_may_have_something_to_say(effects: Both, prepared: Prepared) -> None:
    night, fake = effects
    fake.answer = health(
        HealthFinding("crash", "warn", "the board has the postmortem of a crash", 0.1)
    )
    examined = night.examine(prepared.units[0])
    assert examined.passed
    assert examined.message == "the board has the postmortem of a crash"
    assert fake.calls[0][:2] == ["lab", "health"]
    assert "a" in fake.calls[0]


def test_a_unit_that_is_not_well_says_whose_that_is(effects: Both, prepared: Prepared) -> None:
    night, fake = effects
    fake.code = 75
    fake.answer = health(
        HealthFinding("answer", "fail", "only noise comes", 3.0, Owner.LINK), owner=Owner.LINK
    )
    examined = night.examine(prepared.units[0])
    assert (examined.passed, examined.owner) == (False, Owner.LINK)
    assert examined.message == "only noise comes"


def test_one_whose_answer_cannot_be_read_is_judged_by_its_exit_code(
    effects: Both, prepared: Prepared
) -> None:
    night, fake = effects
    fake.code, fake.answer = 75, b"Traceback"
    examined = night.examine(prepared.units[0])
    assert (examined.passed, examined.owner) == (False, Owner.BOARD)
    assert "it is broken" in examined.message


def test_power_that_cannot_be_switched_is_the_hosts(effects: Both, prepared: Prepared) -> None:
    night, fake = effects
    assert night.power_cycle(prepared.units[0]).passed
    assert fake.calls[0][:2] == ["lab", "power"]
    assert fake.calls[0][-2:] == ["a", "cycle"] or "cycle" in fake.calls[0]
    fake.code = 75
    assert night.power_cycle(prepared.units[0]).owner is Owner.HOST
    fake.error = OSError(28, "No space left on device")
    said = night.power_cycle(prepared.units[0])
    assert (said.passed, said.owner) == (False, Owner.HOST)
    assert "No space left" in said.message


def test_what_is_no_run_directory_says_nothing(effects: Both, tmp_path: Path) -> None:
    assert effects[0].result(tmp_path / "none") is None


def test_a_night_that_is_stopped_waits_for_no_processor(tmp_path: Path) -> None:
    plan = written_plan(
        tmp_path,
        'schema = 1\njobs = 1\n[[board]]\nboard = "native"\ncount = 2\n'
        '[[model]]\nfile = "small_int8.pte"\n',
    )
    prepared = prepare(plan, None)
    night = Commands(prepared.plan, prepared.document, None, tmp_path, "night-1")
    first, second = prepared.units
    assert isinstance(night.lease(first, 1.0), nullcontext)
    with night.slot(first):
        night.stop()
        with night.slot(second):
            assert night.stopped
