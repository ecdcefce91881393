"""Counts what comparisons with history report, and writes the counts into docs/verdicts.md.

Both measurements of verdicts count the same things: of generated nights (``verdict_stated.py``) and
of sessions that were run on a real machine (``verdicts.py``).
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from harness import OPERATOR_CALL, HistoryComparison, Metric, Provenance

PAGE: Final = Path(__file__).resolve().parent.parent / "docs/verdicts.md"

BEGAN_UTC: Final = "2026-01-01T00:00:00+00:00"
"""Start of results whose order in time does not matter."""


def provenance(session: str, commit: str, started_utc: str = BEGAN_UTC) -> Provenance:
    """Return the provenance of a result of the one unit that is measured."""
    return Provenance(
        id=f"{session} {commit}",
        started_utc=started_utc,
        board="board",
        unit="unit",
        model="net.pte",
        model_sha256="",
        method="forward",
        build_id="",
        tool_version="",
        commit=commit,
        session=session,
    )


def is_operator(metric: Metric) -> bool:
    """Return whether it is a time of one of the network's operators, not of a scope around them."""
    inside = metric.kind == "operator" and metric.block == "Execute"
    return inside and metric.name not in ("Method::execute", OPERATOR_CALL)


def alarms(comparison: HistoryComparison, but: int | None = None) -> Iterator[str]:
    """Yield every reported change and step, except those of the operator ``but``, as text."""
    for number in comparison.numbers:
        metric = number.metric
        if but is not None and is_operator(metric) and metric.instruction == but:
            continue
        if number.judgement in ("regression", "improvement"):
            size = "" if number.relative is None else f" {number.relative:+.1%}"
            how = f"{number.method}, adjusted p-value {number.q or 0.0:.2g}"
            yield f"{metric.name} {metric.statistic}: {number.judgement}{size} ({how})"
        for step in number.steps:
            size = f"{step.size.value / step.before:+.1%}" if step.before else ""
            yield f"{metric.name} {metric.statistic}: step {size} (p-value {step.p:.2g})"
    for common in comparison.common:
        if common.judgement not in ("same", "suspect", "too little"):
            yield f"all operators {common.statistic}: {common.judgement}"


def found(comparison: HistoryComparison, operator: int) -> bool:
    """Return whether an operator is reported as slower, or is to be measured again."""
    return any(
        is_operator(number.metric)
        and number.metric.instruction == operator
        and number.judgement in ("regression", "suspect")
        for number in comparison.numbers
    )


@dataclass(slots=True)
class Share:
    """How often something happened."""

    count: int = 0
    of: int = 0

    def add(self, happened: bool) -> None:
        """Count one more case."""
        self.count += happened
        self.of += 1

    def add_all(self, other: Share) -> None:
        """Count the cases of another share, too."""
        self.count += other.count
        self.of += other.of

    def __str__(self) -> str:
        return f"{self.count} of {self.of} ({self.count / self.of:.1%})" if self.of else "none"


def write_section(script: str, lines: Iterable[str], page: Path = PAGE) -> None:
    """Replace what a script measured earlier in a page, by default docs/verdicts.md."""
    begin, end = f"<!-- measured: {script} -->", f"<!-- end of what {script} measured -->"
    before, found_begin, rest = page.read_text(encoding="utf-8").partition(begin)
    _, found_end, after = rest.partition(end)
    for mark, place in ((begin, found_begin), (end, found_end)):
        assert place, f"{page} has no line {mark}"
    page.write_text("\n".join([before + begin, "", *lines, "", end + after]), encoding="utf-8")
