"""Runs on a rack of simulated boards: every fault it makes is the failure of whose it is."""

from __future__ import annotations

import itertools
import subprocess
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

import harness
from harness import CommandPower, Owner, Result, find_unit
from tests.conftest import MODELS, CommandResult
from tests.support.rack import Fault, Kind, Rack, draw, rack

pytestmark = pytest.mark.sim

Run = Callable[[str], Result]
NETWORKS = itertools.cycle(["kws_int8", "kws_f32"])


@pytest.fixture(scope="module")
def units(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Rack]:
    with rack(tmp_path_factory.mktemp("rack"), units=3, seed=1) as running:
        yield running


@pytest.fixture
def run(units: Rack, tmp_path: Path, etharness: Callable[..., CommandResult]) -> Run:
    """Run a small model on a unit; what the run left says how that went.

    Another one than the unit holds from the run before: each has to be uploaded.
    """

    def call(unit: str) -> Result:
        model = MODELS / f"{next(NETWORKS)}.pte"
        done = etharness(
            *("run", "--units", units.units_file, "--unit", unit, "--runs", "5"),
            *("--model", model, "-o", tmp_path / unit),
        )
        result = harness.load(tmp_path / unit).result
        assert result.exit_code == done.code, done.err
        return result

    return call


@pytest.mark.parametrize(
    ("kind", "counts"),
    [
        (Kind.BLINK, ("reopened",)),
        (Kind.BLINK_PULL, ("reopened",)),
        (Kind.NOISE, ("resent", "holes", "retries", "damage_notes")),
    ],
)
def test_a_fault_that_passes_is_a_number_of_the_link(
    units: Rack, run: Run, kind: Kind, counts: tuple[str, ...]
) -> None:
    assert not any(run("u01").link[name] for name in ("reopened", "damage_notes"))
    units.fault("u01", kind)
    result = run("u01")
    assert result.failure is None
    assert any(result.link[name] for name in counts)
    assert units.injected()[-1].kind is kind


@pytest.mark.parametrize(
    ("kind", "owner", "code"),
    [
        (Kind.GONE, Owner.LINK, 75),
        (Kind.GARBAGE, Owner.LINK, 75),
        (Kind.HANG, Owner.PRODUCT, 4),
        (Kind.CRASH, Owner.PRODUCT, 4),
        (Kind.OTHER_BOARD, Owner.BOARD, 4),
    ],
)
@pytest.mark.long
def test_a_failure_says_whose_it_is_as_far_as_one_run_can_tell(
    units: Rack, run: Run, kind: Kind, owner: Owner, code: int
) -> None:
    units.fault("u02", kind)
    result = run("u02")
    assert result.failure is not None
    assert (result.failure.owner, result.exit_code) == (owner, code)
    units.ask("cure", "u02")
    assert run("u02").failure is None


@pytest.mark.parametrize("kind", [Kind.UNPLUGGED, Kind.HANG])
@pytest.mark.long
def test_what_power_cures_is_well_after_a_cycle(units: Rack, run: Run, kind: Kind) -> None:
    """By the programs that the units file names, as a night would."""
    units.fault("u03", kind)
    assert run("u03").failure is not None
    power = find_unit("u03", units.units_file).power
    assert isinstance(power, CommandPower)
    for command in (power.off, power.on):
        subprocess.run(command, check=True, stdout=subprocess.DEVNULL)
    assert run("u03").failure is None
    assert units.status()["u03"]["cycles"]


def test_faults_of_a_night_are_drawn_alike_from_a_seed() -> None:
    units = [f"u{number}" for number in range(64)]
    faults = draw(7, units, 8)
    assert faults == draw(7, units, 8) != draw(8, units, 8)
    assert {fault.kind for fault in faults} == set(Kind)
    assert all(Fault.parse(str(fault)) == fault for fault in faults)
    for unit in units:
        first, second = (fault for fault in faults if fault.unit == unit)
        assert first.kind.effect.owner is None
        assert second.session - first.session >= 2


def test_no_two_processes_have_been_at_a_unit(units: Rack, run: Run) -> None:
    """Also after one has ended: connections came one after the other."""
    run("u01")
    assert [unit["intruders"] for unit in units.status().values()] == [0, 0, 0]
