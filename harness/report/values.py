"""The values of two runs compared, on the terminal and as JSON."""

from __future__ import annotations

from dataclasses import asdict
from typing import TYPE_CHECKING, Final

import msgspec

from harness.analyze.values import ValueComparison, ValueGap
from harness.formatting import printable
from harness.records.result import encode
from harness.report.terminal import show_line, show_table
from harness.report.text import counted

if TYPE_CHECKING:
    from rich.console import Console


class GapDocument(msgspec.Struct, frozen=True):
    """One compared tensor (``ValueGap``). Numbers that are infinite or NaN are null."""

    chain: int
    instruction: int
    position: int
    operator: str
    handles: tuple[int, ...]
    types: tuple[str, str]
    sizes: tuple[int, ...]
    executions: int
    max_abs: float | None
    mean_abs: float | None
    cosine: float | None
    snr_db: float | None
    tolerance: float
    diverges: bool


class ValuesDocument(msgspec.Struct, frozen=True):
    """What ``etharness compare --values --json`` prints.

    ``first_diverging`` is an index of ``gaps``; null if all are within their tolerance.
    """

    gaps: list[GapDocument]
    first_diverging: int | None
    unmatched: int
    lost: int


def values_document(found: ValueComparison) -> bytes:
    """Return the comparison as JSON."""
    gaps = [
        GapDocument(**asdict(gap) | {"operator": printable(gap.operator)}, diverges=gap.diverges)
        for gap in found.gaps
    ]
    first = next((index for index, gap in enumerate(gaps) if gap.diverges), None)
    return encode(ValuesDocument(gaps, first, found.unmatched, found.lost))


HEADERS: Final = (
    *("operator", "instruction", "type", "sizes"),
    *("max abs", "mean abs", "cosine", "SNR [dB]", "tolerance"),
)
NUMBERS: Final = range(4, 9)
"""Headers of the cells of a tensor, and which of them are numbers."""


def gap_cells(gap: ValueGap) -> tuple[str, ...]:
    """Return the cells of a tensor."""
    return (
        _operator(gap),
        _place(gap),
        gap.types[0] if len({*gap.types}) == 1 else " / ".join(gap.types),
        str([*gap.sizes]),
        f"{gap.max_abs:.3g}",
        f"{gap.mean_abs:.3g}",
        f"{gap.cosine:.6f}",
        f"{gap.snr_db:.1f}",
        f"{gap.tolerance:.3g}",
    )


def verdict_lines(found: ValueComparison) -> list[str]:
    """Return what was compared in counts, and the first difference last."""
    within = len(found.gaps) - sum(gap.diverges for gap in found.gaps)
    lines = [f"{within} of {counted(len(found.gaps), 'tensor')} within their tolerance"]
    if found.unmatched:
        lines.append(f"{counted(found.unmatched, 'tensor')} without a counterpart")
    if found.lost:
        lines.append(f"LOSSES: the bytes of {counted(found.lost, 'tensor')} were lost")
    first = found.first_diverging
    if first is None:
        lines.append("no difference beyond the tolerances")
    else:
        lines.append(
            f"first difference: {_operator(first)}, {_place(first)}: largest difference "
            f"{first.max_abs:.3g}, tolerance {first.tolerance:.3g}"
        )
    return lines


def print_values(console: Console, found: ValueComparison, *, detailed: bool = False) -> None:
    """Print the tensors beyond their tolerance, in the order of execution, and the first of them.

    Args:
        console: Where to.
        found: The comparison.
        detailed: Also list tensors within their tolerance.
    """
    rows = [gap_cells(gap) for gap in found.gaps if detailed or gap.diverges]
    if rows:
        show_table(console, HEADERS, rows, numbers=NUMBERS)
    *counts, first = verdict_lines(found)
    for line in counts:
        show_line(console, line, style="bold red" if line.startswith("LOSSES") else None)
    if found.first_diverging is not None:
        show_line(console, first, style="bold")


def _operator(gap: ValueGap) -> str:
    name = printable(gap.operator) or ("output" if gap.chain < 0 else "instruction")
    return f"{name} [{gap.position}]" if gap.position else name


def _place(gap: ValueGap) -> str:
    if gap.chain < 0:
        return "output"
    place = f"{gap.chain}.{gap.instruction}"
    return f"{place} (handles {', '.join(map(str, gap.handles))})" if gap.handles else place
