"""Two traces compared by what hardware counters counted in them."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from harness import Change, compare, read_log
from harness.strategies import DeviceLog
from tests.conftest import CommandResult
from tests.support.documents import document


def counted(*counts: int, names: tuple[str, ...] = ("cycles", "instret")) -> bytes:
    """A log of an operator that always takes as long, and one with these counts."""
    log = DeviceLog()
    for name in names:
        log.counter(name, 32)
    log.block("Execute")
    log.profile("relu", 0, 10, instruction=0, counts=(30, 20)[: len(names)])
    log.profile("conv", 10, 20, instruction=1, counts=counts)
    return log.image()


@pytest.fixture
def compared(etharness: Callable[..., CommandResult], tmp_path: Path) -> Callable[..., str]:
    """What the command prints about two logs."""

    def print_comparison(before: bytes, after: bytes, *options: str) -> str:
        files = tmp_path / "before.etlog", tmp_path / "after.etlog"
        for file, log in zip(files, (before, after), strict=True):
            file.write_bytes(log)
        result = etharness("compare", *files, *options)
        assert result.code == 0, result.err
        return result.out

    return print_comparison


def lines_of(text: str) -> list[str]:
    return [" ".join(line.split()) for line in text.splitlines()]


def test_a_change_of_a_counter_shows_where_the_time_is_the_same(
    compared: Callable[..., str],
) -> None:
    lines = lines_of(compared(counted(400, 200), counted(400, 201)))
    assert "conv 1 instret 200 201 +1 1.005" in lines
    assert "the same: 3 of 4 counts" in lines
    assert not [line for line in lines if line.startswith("conv 1 cycles")]


def test_only_counters_of_both_traces_are_compared(compared: Callable[..., str]) -> None:
    lines = lines_of(compared(counted(400, names=("cycles",)), counted(400, 200)))
    assert "counted in one of the traces, so not compared: instret" in lines
    assert not [line for line in lines if line.startswith("conv 1 instret")]


def test_json_has_the_change_of_each_counter(compared: Callable[..., str]) -> None:
    before, after = counted(400, 200), counted(300, 200)

    def conv(later: bytes) -> dict[str, Change]:
        found = compare(read_log(before), read_log(later))
        [change] = [change for change in found.operators if change.name == "conv"]
        return dict(change.counters)

    assert conv(after)["cycles"] == Change(400, 300, -100, 0.75)
    assert conv(counted())["instret"] == Change(200, None, None, None)
    found = document("compare", compared(before, after, "--json"))
    changes = {item["name"]: item for item in found["comparison"]["operators"]}
    assert changes["conv"]["counters"]["cycles"]["difference"] == -100


def test_without_counters_nothing_is_said_of_them(compared: Callable[..., str]) -> None:
    plain, slower = (
        DeviceLog().block("Execute").profile("conv", 0, end).image() for end in (10, 20)
    )
    assert not [line for line in lines_of(compared(plain, slower)) if "count" in line]
    assert '"counters"' not in compared(plain, slower, "--json")
