"""The roofline: each operator against what the core can do, with the bound named."""

from __future__ import annotations

import io
from dataclasses import replace as with_facts
from pathlib import Path

import pytest
from rich.console import Console

from harness import (
    EXECUTION,
    NO_COUNT,
    Board,
    CoreRecord,
    EvaluatedRun,
    HardwareCounter,
    InstructionRecord,
    Operator,
    Subject,
    UsageError,
    Verdict,
    read_program,
    render_report,
)
from harness.analyze.workload import RooflinePoint, instruction_records, roofline
from harness.report.description import describe
from harness.report.run import print_run
from tests.conftest import MODELS
from tests.support.documents import document
from tests.support.pages import Page
from tests.support.reported import FINISHED
from tests.support.traces import EventSpec, RunSpec, trace_of

CORE = CoreRecord(issue_width=1, macs_per_cycle=0.5, bytes_per_cycle=4)


def kernel(macs: int, read: int, written: int) -> InstructionRecord:
    return InstructionRecord(
        "kernel", "aten::x.out", macs=macs, bytes_read=read, bytes_written=written
    )


CHAINS = (
    (
        kernel(1000, 300, 100),  # needs 2,000 cycles for its MACs, 100 for its bytes
        kernel(0, 4000, 4000),  # 2,000 for its bytes
        kernel(10, 20, 20),
        InstructionRecord("delegate", "Npu"),
        kernel(5, 8, 8),
    ),
)


def subject(*cycles: int, core: CoreRecord | None = CORE) -> Subject:
    """One execution of these instructions."""
    events = [
        EventSpec(f"kernel{place}", 10 * place, 10 * place + 9, instruction=place, counts=(count,))
        for place, count in enumerate(cycles)
    ]
    whole = EventSpec(EXECUTION, 0, 99, chain=-1, counts=(10_000,))
    trace = trace_of(RunSpec([*events, whole]), counters=[HardwareCounter("cycles")])
    return Subject(trace, chains=CHAINS, core=core)


def points(about: Subject) -> list[tuple[Operator, RooflinePoint]]:
    assert about.core is not None
    return roofline(about.operators, CHAINS[0:1], about.core)


@pytest.mark.parametrize(
    ("cycles", "bound", "share"),
    [
        ((2500,), "compute", 0.8),
        ((4000,), "compute", 0.5),
        ((4001,), "overhead", 2000 / 4001),
        ((9, 2000), "memory", 1.0),
        ((9, 9, 300), "overhead", 20 / 300),
    ],
)
def test_the_bound_is_what_explains_half_of_the_cycles(
    cycles: tuple[int, ...], bound: str, share: float
) -> None:
    _, found = points(subject(*cycles))[-1]
    assert (found.bound, found.share) == (bound, pytest.approx(share))


def test_an_operator_without_cycles_or_without_known_work_is_not_placed() -> None:
    found = points(subject(2500, NO_COUNT, 0, 50, 60))
    assert [operator.name for operator, _ in found] == ["kernel0", "kernel4"]


def evaluated(about: Subject) -> EvaluatedRun:
    return EvaluatedRun("out/run", about, Verdict(()), FINISHED)


def test_reports_name_the_bound_of_each_operator() -> None:
    run = evaluated(subject(2500, 2100, 300))
    table = describe(run).roofline
    assert table is not None
    assert table.roof == "the core can do 0.5 MACs and load or store 4 bytes in a cycle"
    cells = {name: rest for name, *rest in table.table.rows}
    assert cells["kernel0"] == ["0", "1,000", "400", "2,500", "0.400", "2.50", "80.0", "compute"]
    assert cells["kernel1"][-2:] == ["95.2", "memory"]
    out = io.StringIO()
    print_run(Console(file=out, width=200), describe(run))
    assert "Roofline: the core can do 0.5 MACs" in out.getvalue()
    assert "| kernel2 | 2 | 10 | 40 | 300 | 0.033 | 0.25 | 6.7 | overhead |" in (
        render_report("report.md", [run]).decode()
    )
    report = document("report", render_report("report.json", [run]).decode())
    operators = {item["name"]: item for item in report["runs"][0]["operators"]}
    assert operators["kernel1"]["roofline"]["bound"] == "memory"
    assert operators["kernel1"]["roofline"]["fewest_cycles"] == 2000


def test_the_page_draws_the_operators_that_multiply_below_the_roof() -> None:
    found = Page(render_report("report.html", [evaluated(subject(2500, 2100, 300))]))
    found.assert_sound()
    section = found.section("-roofline")
    assert "kernel1" in section
    dots = [path for path in found.all("path") if (path.get("class") or "").startswith("dot")]
    assert [path.get("class") for path in dots] == ["dot compute", "dot overhead"]
    (picture,) = (
        svg for svg in found.all("svg") if (svg.get("aria-label") or "").startswith("Roofline")
    )
    assert picture.get("aria-label") == (
        "Roofline: 2 operators below a roof of 0.5 MACs per cycle; bound 1 by compute, 1 by "
        "overhead"
    )


def test_operators_without_macs_have_a_table_and_no_picture() -> None:
    about = with_facts(subject(9, 2100), chains=((InstructionRecord("move"), CHAINS[0][1]),))
    found = Page(render_report("report.html", [evaluated(about)]))
    found.assert_sound()
    assert "memory" in found.section("-roofline")
    assert not [p for p in found.all("path") if (p.get("class") or "").startswith("dot memory")]


@pytest.mark.parametrize("lacking", ["core", "chains", "cycles"])
def test_without_one_of_its_parts_there_is_no_roofline(lacking: str) -> None:
    about = subject(2500)
    if lacking == "cycles":
        other = with_facts(about.trace, counters=(HardwareCounter("instret"),))
        about = with_facts(about, trace=other)
    else:
        about = with_facts(about, **{lacking: None})
    assert describe(evaluated(about)).roofline is None
    assert "roofline" not in render_report("report.html", [evaluated(about)]).decode()


def test_the_work_of_a_program_is_that_of_inspect() -> None:
    method = read_program((MODELS / "small_int8.pte").read_bytes()).method("forward")
    records = instruction_records(method)
    assert records is not None
    kernels = [record for record in records[0] if record.call == "kernel"]
    assert sum(record.macs for record in kernels) > 0
    assert all(record.bytes_read + record.bytes_written > 0 for record in kernels)
    assert instruction_records(None) is None


def test_a_board_file_says_what_its_core_can_do(tmp_path: Path) -> None:
    core = Board.load("rtl-cv32e40p").core
    assert core is not None
    assert core.record() == CoreRecord(1, 0.5, 4)
    assert Board.load("native").core is None
    file = tmp_path / "mine.toml"
    text = (Board.load("native").file).read_text().replace('"native"', '"mine"', 1)
    file.write_text(f"{text}\ncore = {{ issue_width = 1, macs = 2 }}\n")
    with pytest.raises(UsageError, match="macs"):
        Board.load(file)
