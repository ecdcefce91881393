"""Measure time and size of HTML reports and the time of evaluation; update docs/reports.md.

    python -m benchmarks.html_report    # under a minute

Both times are seconds of one core in this process, for the same runs. The report reuses values that
the evaluation computed, such as operators, as in `etharness report`.
"""

from __future__ import annotations

import re
import time
from fractions import Fraction
from pathlib import Path

import numpy as np
from msgspec.structs import replace

from harness import Block, ClockDomain, EvaluatedRun, Subject, Trace, Verdict, evaluate
from harness.extensions.web.html import html_report
from tests.support.reported import FINISHED

PAGE = Path(__file__).resolve().parent.parent / "docs/reports.md"
SHAPES = ((1, 100), (1, 100_000), (100, 100), (1_000, 100))
"""Runs, and operators of each."""
EXECUTIONS = 3
TABLE = re.compile(r"(?<=<!-- benchmarks.html_report -->\n).*?(?=<!-- end -->)", re.DOTALL)


def network(operators: int, seed: int) -> Trace:
    """Executions of a network whose operators take between 1 and 100 us."""
    random = np.random.default_rng(seed)
    events = operators + 1
    trace = Trace.unset(
        events * EXECUTIONS,
        names=[*(f"native_call_op{n}.out" for n in range(operators)), "Method::execute"],
        blocks=[Block("Execute", n * events, events) for n in range(EXECUTIONS)],
        clocks=[ClockDomain("cpu", Fraction(10**9))],
    )
    lengths = random.integers(1_000, 100_000, (EXECUTIONS, operators))
    ends = np.cumsum(lengths, axis=1) + np.arange(EXECUTIONS)[:, None] * 10**11
    starts = ends - lengths
    trace.clock[:], trace.chain[:] = 0, 0
    trace.name[:] = trace.instruction[:] = np.tile(np.arange(events), EXECUTIONS)
    trace.start[:] = np.hstack([starts, starts[:, :1]]).ravel()
    trace.end[:] = np.hstack([ends, ends[:, -1:]]).ravel()
    return trace.sealed()


def measure(runs: int, operators: int) -> tuple[float, float, int]:
    """Seconds to judge, seconds to write, and bytes."""
    traces = [network(operators, seed) for seed in range(runs)]
    results = [replace(FINISHED, id=str(n), board=f"board-{n % 20}") for n in range(runs)]
    began = time.process_time()
    subjects = [Subject(trace, model=f"net-{n // 20}.pte") for n, trace in enumerate(traces)]
    verdicts: list[Verdict] = [evaluate(subject) for subject in subjects]
    judged = time.process_time()
    page = html_report(
        [
            EvaluatedRun(f"out/{n}", *parts)
            for n, parts in enumerate(zip(subjects, verdicts, results, strict=True))
        ]
    )
    return judged - began, time.process_time() - judged, len(page)


def main() -> None:
    measure(1, 100)  # what is imported and compiled once
    rows = []
    for runs, operators in SHAPES:
        judging, writing, size = measure(runs, operators)
        rows.append(
            f"| {runs:,} | {operators:,} | {size / 1e6:.1f} MB | {writing:.2f} s | "
            f"{writing / judging:.1f} |\n"
        )
        print(rows[-1], end="", flush=True)
    head = "| runs | operators per run | page size | writing time | relative to evaluation |\n"
    head += "|--:|--:|--:|--:|--:|\n"
    text, found = TABLE.subn(lambda _: f"\n{head}{''.join(rows)}\n", PAGE.read_text())
    assert found == 1, f"{PAGE} has no place for the table"
    PAGE.write_text(text)


if __name__ == "__main__":
    main()
