"""Two traces compared by what hardware counters counted in them."""

from __future__ import annotations

import io

from rich.console import Console

from harness import NO_COUNT, Change, HardwareCounter, Trace, compare
from harness.report.compare import comparison_document, print_comparison, side
from tests.support.documents import document
from tests.support.traces import EventSpec, RunSpec, trace_of


def counted(*counts: int, names: tuple[str, ...] = ("cycles", "instret")) -> Trace:
    """An operator that always takes as long, and one with these counts."""
    events = [
        EventSpec("relu", 0, 10, instruction=0, counts=(30, 20)[: len(names)]),
        EventSpec("conv", 10, 20, instruction=1, counts=counts),
    ]
    return trace_of(RunSpec(events), counters=[HardwareCounter(name) for name in names])


def printed(before: Trace, after: Trace) -> list[str]:
    out = io.StringIO()
    print_comparison(Console(file=out, width=200), (before, after), compare(before, after))
    return [" ".join(line.split()) for line in out.getvalue().splitlines()]


def test_a_change_of_a_counter_shows_where_the_time_is_the_same() -> None:
    lines = printed(counted(400, 200), counted(400, 201))
    assert "conv 1 instret 200 201 +1 1.005" in lines
    assert "the same: 3 of 4 counts" in lines
    assert not [line for line in lines if line.startswith("conv 1 cycles")]


def test_only_counters_of_both_traces_are_compared() -> None:
    lines = printed(counted(400, names=("cycles",)), counted(400, NO_COUNT))
    assert "counted in one of the traces, so not compared: instret" in lines
    assert not [line for line in lines if line.startswith("conv 1 instret")]


def test_json_has_the_change_of_each_counter() -> None:
    before, after = counted(400, 200), counted(300, NO_COUNT)
    found = compare(before, after)
    (conv,) = (change for change in found.operators if change.name == "conv")
    assert conv.counters["cycles"] == Change(400, 300, -100, 0.75)
    assert conv.counters["instret"] == Change(200, None, None, None)
    data = comparison_document(side("a", before), side("b", after), found)
    compared = document("compare", data.decode())
    changes = {item["name"]: item for item in compared["comparison"]["operators"]}
    assert changes["conv"]["counters"]["cycles"]["difference"] == -100


def test_without_counters_nothing_is_said_of_them() -> None:
    plain = trace_of(RunSpec([EventSpec("conv", 0, 10)]))
    slower = trace_of(RunSpec([EventSpec("conv", 0, 20)]))
    assert not [line for line in printed(plain, slower) if "count" in line]
    document = comparison_document(side("a", plain), side("b", slower), compare(plain, slower))
    assert b"counters" not in document
