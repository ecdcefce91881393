"""Energy in the history: compared beyond the noise of its sessions."""

from __future__ import annotations

from pathlib import Path

import msgspec
import pytest

from harness import EnergyRecord, Metric, OperatorEnergy, Subject, compare_with_history, open_store
from tests.support.histories import HistoryBuilder, history_checks
from tests.support.results import made
from tests.support.stores import make_older
from tests.support.traces import EventSpec, RunSpec, trace_of

METRIC = Metric("energy", "conv", "energy", "nJ", "Execute", 0, 0, clock="cpu")
NOISY = [20_000.0 + 100 * (place % 3) for place in range(12)]


@pytest.mark.parametrize(
    ("now", "judgement", "passed"),
    [(20_150.0, "same", True), (14_000.0, "improvement", True)],
)
def test_a_change_counts_beyond_the_noise(now: float, judgement: str, passed: bool) -> None:
    builder = HistoryBuilder()
    for place, value in enumerate(NOISY):
        builder.earlier(f"s{place}", "a", {METRIC: value})
    builder.now("now", "b", {METRIC: now})
    comparison = compare_with_history(builder.history(), builder.judged)
    (number,) = comparison.numbers
    assert number.judgement == judgement
    found = [check for check in history_checks(comparison) if check.code == "H11"]
    assert [check.passed for check in found] == [passed]


def test_what_has_grown_is_suspect_until_it_is_measured_again() -> None:
    def judged(*values: float, night: str = "now/") -> tuple[str, list[str]]:
        builder = HistoryBuilder()
        for place, value in enumerate(NOISY):
            builder.earlier(f"s{place}", "a", {METRIC: value})
        for place, value in enumerate(values):
            builder.now(f"{night}{place}", "b", {METRIC: value})
        comparison = compare_with_history(builder.history(), builder.judged)
        failed = [check.code for check in history_checks(comparison) if not check.passed]
        return comparison.numbers[0].judgement, failed

    assert judged(26_000.0) == ("suspect", ["H12"])
    assert judged(26_000.0, 26_100.0) == ("suspect", ["H12"])
    assert judged(26_000.0, 26_100.0, night="night ") == ("regression", ["H11"])
    assert judged(26_000.0, 20_050.0) == ("same", [])


def measured(joules: float | None) -> Subject:
    operator = OperatorEnergy("Execute", "conv", 0, 0, -1, None, 2, 2, joules, 1e-6)
    record = EnergyRecord("PPK2", 1e5, 1000, 0, 0, 0, operators=(operator,))
    return Subject(trace_of(RunSpec([EventSpec("conv", 0, 10, instruction=0)])), energy=record)


def test_a_store_of_the_version_before_is_migrated_and_keeps_energies(tmp_path: Path) -> None:
    url = str(tmp_path / "history.sqlite")

    def run(name: str, joules: float | None, day: int) -> None:
        about = measured(joules)
        run = made(name, about.trace, started_utc=f"2026-11-{day}T00:00:00+00:00")
        result = msgspec.structs.replace(run.result, energy=about.energy)
        with open_store(url) as store:
            assert store.add(result, about)

    run("old", 20e-6, 20)
    newest = make_older(url, "v0003")
    run("new", 21e-6, 21)
    run("unknown", None, 22)
    with open_store(url) as store:
        assert store.info().version == newest
        history = store.history("native", "kws.pte", "forward")
    (series,) = [item for item in history.series if item.metric.kind == "energy"]
    assert [sample.value for sample in series.samples] == [pytest.approx(20_000), 21_000]
