"""Counters of an Ethos-U that ExecuTorch's Arm runner prints become those of delegate calls."""

from __future__ import annotations

import base64
import csv
import json
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import pytest

from harness import write_ed00
from harness.strategies import EventSpec, RunSpec, trace_of

Etharness = Callable[..., Any]

EVENTS = (
    "ETHOSU_PMU_AXI0_RD_DATA_BEAT_RECEIVED",
    "ETHOSU_PMU_AXI1_RD_DATA_BEAT_RECEIVED",
    "ETHOSU_PMU_AXI0_WR_DATA_BEAT_WRITTEN",
    "ETHOSU_PMU_NPU_IDLE",
)


def execution(delegates: int, *, ours: bool = True) -> RunSpec:
    """An execution: a kernel, then delegates with the events that upstream's backend logs."""
    events = [EventSpec("OPERATOR_CALL", 0, 5, chain=0, instruction=0)]
    names = (
        "+EthosUBackend::execute()handles.input.memcpy()",
        "+EthosUBackend::execute()NPU",
        "EthosUBackend::execute()",
    )
    for number in range(1, delegates + 1):
        start = 10 * number
        events += [
            EventSpec(name, start + 1, start + 8, chain=0, instruction=number)
            for name in names[: 3 if ours else 0]
        ]
        events.append(EventSpec("DELEGATE_CALL", start, start + 9, chain=0, instruction=number))
    return RunSpec(events)


def report(executions: int, counts: Sequence[Sequence[int]], *, each: bool = True) -> str:
    """What ``arm_perf_monitor.cpp`` prints of delegates with these counts, the cycles first."""
    totals = [sum(column) for column in zip(*counts, strict=True)]
    calls = executions * len(counts)
    lines = [
        f"NPU Inferences : {executions}",
        f"NPU delegations: {calls} ({calls / executions:.2f} per inference)",
        "ethos-u : cycle_cnt : 0 cycles (0.00 per inference)",
        "Ethos-U PMU report:",
        f"ethosu_pmu_cycle_cntr :  {totals[0]} ({totals[0] / executions:.2f} per inference)",
    ]
    lines += [
        f"ethosu_pmu_cntr{number} : {count} ({count / executions:.2f} per inference)"
        for number, count in enumerate(totals[1:])
    ]
    for number, (cycles, *events) in enumerate(counts if each else ()):
        begin = f"Ethos-U delegate {number}"
        lines.append(f"{begin}: {executions} backend invocations, {executions} NPU invocations")
        lines.append(f"{begin} PMU cycles: {cycles}")
        lines += [f"{begin} PMU counter {place}: {count}" for place, count in enumerate(events)]
    lines.append(f"Ethos-U PMU Events:[{', '.join(EVENTS)}]")
    return "".join(f"I [executorch:arm_perf_monitor.cpp:{n}] {x}\r\n" for n, x in enumerate(lines))


def capture(folder: Path, text: str, executions: Sequence[RunSpec]) -> Path:
    """A console capture with the report and the dump."""
    dump = base64.b64encode(write_ed00(trace_of(*executions))).decode()
    file = folder / "console.log"
    file.write_text(f'{text}#[RUN THIS]\necho "{dump}" | base64 -d >etdump.bin\n#[END]\n')
    return file


def counters(etharness: Etharness, file: Path) -> dict[int, dict[str, float]]:
    """The medians of counters of the calls of delegates, by instruction."""
    code, out, err = etharness("decode", file, "--json")
    assert code == 0, err
    return {
        row["instruction"]: {name: of["p50"] for name, of in (row.get("counters") or {}).items()}
        for row in json.loads(out)["operators"]
        if row["name"] == "DELEGATE_CALL"
    }


def test_each_delegate_has_its_counts(etharness: Etharness, tmp_path: Path) -> None:
    """Two executions: the report has sums, and a call the mean."""
    text = report(2, [(4000, 100, 20, 30, 8), (600, 10, 2, 3, 1)])
    found = counters(etharness, capture(tmp_path, text, [execution(2), execution(2)]))
    assert found[1] == {
        "ethosu_cycles": 2000,
        "ethosu_axi0_rd_data_beat_received": 50,
        "ethosu_axi1_rd_data_beat_received": 10,
        "ethosu_axi0_wr_data_beat_written": 15,
        "ethosu_npu_idle": 4,
    }
    assert (found[2]["ethosu_cycles"], found[2]["ethosu_axi1_rd_data_beat_received"]) == (300, 1)


def test_a_server_reports_each_execution(etharness: Etharness, tmp_path: Path) -> None:
    text = report(1, [(1000, 1, 2, 3, 4)]) + report(1, [(3000, 5, 6, 7, 8)])
    file = capture(tmp_path, text, [execution(1), execution(1)])
    assert counters(etharness, file)[1]["ethosu_cycles"] == 2000
    code, out, _ = etharness("export", file, "-f", "csv", "-o", tmp_path / "events.csv")
    assert code == 0, out
    with (tmp_path / "events.csv").open(newline="") as rows:
        cycles = [row["count_ethosu_cycles"] for row in csv.DictReader(rows)]
    assert [each for each in cycles if each] == ["1000", "3000"]


def test_the_sum_is_that_of_the_only_delegate(etharness: Etharness, tmp_path: Path) -> None:
    """Firmware without lines for each delegate, and older ones without events of the backend."""
    text = report(2, [(4000, 100, 20, 30, 8)], each=False)
    file = capture(tmp_path, text, [execution(1, ours=False)] * 2)
    assert counters(etharness, file)[1]["ethosu_cycles"] == 2000


@pytest.mark.parametrize(
    ("text", "executions", "why"),
    [
        (report(1, [(9, 9, 9, 9, 9)] * 2, each=False), 1, "they are of 0 delegates"),
        (report(1, [(9, 9, 9, 9, 9)] * 3), 1, "they are of 3 delegates, and the trace has 2"),
        (report(1, [(9, 9, 9, 9, 9)] * 2) * 2, 3, "2 reports are of 3 executions"),
    ],
)
def test_counts_of_no_known_call_are_left_out(
    text: str,
    executions: int,
    why: str,
    etharness: Etharness,
    tmp_path: Path,
    caplog: pytest.LogCaptureFixture,
) -> None:
    file = capture(tmp_path, text, [execution(2)] * executions)
    assert counters(etharness, file) == {1: {}, 2: {}}
    assert why in "".join(caplog.messages)


def test_a_capture_without_a_report_stays_as_it_is(etharness: Etharness, tmp_path: Path) -> None:
    plain = capture(tmp_path, "NPU Inferences : 1\n", [execution(1)])
    assert counters(etharness, plain) == {1: {}}
