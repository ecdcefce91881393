"""Limits on energy and current."""

from __future__ import annotations

from pathlib import Path

import pytest

from harness import Budget, Check, EnergyRecord, OperatorEnergy, Subject, UsageError, evaluate
from tests.support.traces import EventSpec, RunSpec, trace_of

CONV = OperatorEnergy("Execute", "conv", 0, 0, -1, None, 5, 4, 20e-6, 1e-6, 0.010, 0.015)
SECOND = OperatorEnergy("Execute", "conv", 0, 1, -1, None, 5, 0)
RELU = OperatorEnergy("Execute", "relu", 0, 2, -1, None, 5, 5, 2e-6, 2e-6, 0.006, 0.007)
RECORD = EnergyRecord("PPK2", 1e5, 1000, 0, 0, 0, operators=(CONV, SECOND, RELU))


def checks(tmp_path: Path, rule: str, energy: EnergyRecord | None = RECORD) -> list[Check]:
    path = tmp_path / "budget.toml"
    path.write_text(f"schema = 1\n[[energy]]\n{rule}\n")
    trace = trace_of(RunSpec([EventSpec("conv", 0, 10, instruction=0)]))
    verdict = evaluate(Subject(trace, energy=energy), Budget.load(path))
    return [check for check in verdict.checks if check.code == "B14"]


@pytest.mark.parametrize(
    ("limit", "unit", "measured"),
    [("limit_uj", "uJ", 21.0), ("limit_average_ma", "mA", 10.0), ("limit_peak_ma", "mA", 15.0)],
)
def test_the_bound_counts_against_the_limit(
    limit: str, unit: str, measured: float, tmp_path: Path
) -> None:
    rule = f"event = 'conv'\ninstruction = 0\n{limit} = "
    (within,) = checks(tmp_path, f"{rule}{measured + 0.1}")
    (beyond,) = checks(tmp_path, f"{rule}{measured - 0.1}")
    assert within.passed
    assert not beyond.passed
    assert (beyond.measured, beyond.unit) == (pytest.approx(measured), unit)


def test_what_was_not_measured_fails(tmp_path: Path) -> None:
    known, unknown = checks(tmp_path, "event = 'conv'\nlimit_uj = 100")
    assert known.passed
    assert "none of its 5 events could be measured" in unknown.reason
    (nothing,) = checks(tmp_path, "event = 'pool'\nlimit_uj = 100")
    assert "no event matches 'pool' in block 'Execute'" in nothing.reason
    record = EnergyRecord("PPK2", 1e5, 1000, 0, 0, 0, unknown="no edge")
    (unaligned,) = checks(tmp_path, "event = 'conv'\nlimit_uj = 100", record)
    assert "the energy is unknown: no edge" in unaligned.reason


def test_a_run_without_a_meter_passes_only_an_optional_limit(tmp_path: Path) -> None:
    (missing,) = checks(tmp_path, "event = 'conv'\nlimit_uj = 100", None)
    assert not missing.passed
    assert not checks(tmp_path, "event = 'conv'\nlimit_uj = 100\noptional = true", None)


@pytest.mark.parametrize(
    ("rule", "said"),
    [("limit_uj = 1", "the key 'event' is missing"), ("event = 'conv'", "limit missing")],
)
def test_an_incomplete_rule_is_refused(rule: str, said: str, tmp_path: Path) -> None:
    with pytest.raises(UsageError, match=said):
        checks(tmp_path, rule)
