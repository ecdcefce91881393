"""Operators of a run in groups, with the lines of their code, and as many of them as asked for."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

from harness import EtrecordNode, EvaluatedRun, EventSymbols, Module, render_report, write_ed00
from tests.conftest import CommandResult
from tests.support.compared import with_history
from tests.support.pages import Page
from tests.support.reported import reported
from tests.support.traces import EventSpec, RunSpec, trace_of

TIMES = {"conv2d": (300, 200), "relu": (50, 30, 20), "softmax": (10,)}


def network() -> EvaluatedRun:
    """A run of six operators of three kinds, and 10 ns of the runtime between each two."""
    events, now = [], 0
    for kind, times in TIMES.items():
        for time in times:
            name, number = f"native_call_{kind}.out", len(events)
            events.append(EventSpec(name, now, now + time, instruction=number))
            now += time + 10
    whole = EventSpec("Method::execute", 0, 1000, chain=-1, instruction=-1)
    return reported(trace=trace_of(RunSpec([*events, whole])))


def with_symbols(run: EvaluatedRun) -> EvaluatedRun:
    """The same run with an ETRecord: each conv2d is in a module of its own, others in the model."""
    model = Module("L__self__", "", "Net")
    found: list[EventSymbols | None] = []
    for number in range(6):
        inner = Module(f"L__self__conv{number}", f"conv{number}", "Conv2d")
        stack = (
            f'  File "/home/me/net.py", line {10 + number}, in forward\n    x = self.layer(x)\n'
            '  File "/usr/lib/site-packages/torch/nn/conv.py", line 5, in forward\n    return F()\n'
        )
        modules = (model, inner) if number < 2 else (model,)
        found.append(EventSymbols(number, (EtrecordNode("n", "aten.op", number, stack, modules),)))
    assert run.subject is not None
    return replace(run, subject=replace(run.subject, symbols=(*found, None)))


def page_of(run: EvaluatedRun, top: int = 0) -> Page:
    page = Page(render_report("report.html", [run], top=top))
    page.assert_sound()
    return page


def groups(page: Page) -> dict[str, list[list[str]]]:
    """Cells of each group, by what they are grouped by."""
    return {
        item.get("data-by"): [
            [" ".join(page.text(cell).split()) for cell in row]
            for row in item.iter()
            if row.tag.endswith("tr")
        ][1:]
        for item in page.all("details")
        if item.get("data-by")
    }


def test_operators_are_grouped_by_kind() -> None:
    assert groups(page_of(network())) == {
        "kind": [
            ["conv2dconv2d #0 30.0 %conv2d #1 20.0 %", "2", "500 ns", "50.0"],
            ["relurelu #2 5.0 %relu #3 3.0 %relu #4 2.0 %", "3", "100 ns", "10.0"],
            ["softmaxsoftmax #5 1.0 %", "1", "10.0 ns", "1.0"],
        ]
    }


def test_operators_of_different_kinds_are_not_grouped() -> None:
    events = [EventSpec(f"native_call_op{n}.out", n, n + 1, instruction=n) for n in range(3)]
    assert groups(page_of(reported(trace=trace_of(RunSpec(events))))) == {}


def test_operators_are_grouped_by_module_and_lead_to_their_lines() -> None:
    page = page_of(with_symbols(network()))
    found = groups(page)["module"]
    assert [row[0].partition("conv2d")[0] for row in found[:2]] == ["conv0", "conv1"]
    assert found[2][0].startswith("(model)relu #2")
    assert [row[1:] for row in found][2] == ["4", "110 ns", "11.0"]
    lines = [e for e in page.all("span") if e.get("class") == "source"]
    assert [page.text(line) for line in lines] == [f"net.py:{n}" for n in range(10, 16)]
    assert lines[0].get("title") == "/home/me/net.py:10 in forward: x = self.layer(x)"


def test_the_change_of_a_group_is_that_of_its_sum() -> None:
    run = network()
    assert run.subject is not None
    page = page_of(with_history(run.subject.trace, shift=0.5))
    assert [row[-1] for row in groups(page)["kind"]] == ["-50.0 %"] * 3


def test_as_many_operators_as_asked_for_are_shown_at_first(
    etharness: Callable[..., CommandResult], tmp_path: Path
) -> None:
    run = network()
    assert run.subject is not None
    file = tmp_path / "run.etdp"
    file.write_bytes(write_ed00(run.subject.trace))
    page = tmp_path / "page.html"
    assert etharness("report", file, "-o", page, "--top", "2").code == 0
    found = Page(page.read_bytes())
    [rows] = [e for e in found.all("div") if e.get("data-top")]
    assert rows.get("data-top") == "2"
    assert len([e for e in rows.iter() if e.tag.endswith("tr")]) == 7, "all without a script"
    [folded] = [e for e in found.all("p") if e.get("class") == "more folded"]
    assert found.text(folded) == "4 more operators: 110 ns, 11.0 % of the execution"
    wrong = etharness("report", file, "-o", page, "--top", "0")
    assert (wrong.code, "--top" in wrong.err) == (2, True)
    assert json.loads(etharness("report", file, "--json", "--top", "2").out)["runs"]
