"""Energy of a run as every report shows it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from harness.formatting import DisplayUnit, printable
from harness.records.energy import EnergyRecord, OperatorEnergy
from harness.report.operators import UNKNOWN, OperatorListing, OperatorRow

_MILLI: Final = 1e-3


@dataclass(frozen=True, slots=True)
class EnergyRow:
    """The energy of one operator or scope.

    Attributes:
        name: Its name and delegate id.
        instruction: Its instruction; empty when unset.
        measured: How many of its events were measured, of how many.
        joules: Mean energy of an event; ``UNKNOWN`` if none was measured.
        bound: Largest error of it.
        percent: The same in percent.
        average: Mean current in milliamperes.
        peak: Largest sample in milliamperes.
    """

    name: str
    instruction: str
    measured: str
    joules: str
    bound: str
    percent: str
    average: str
    peak: str

    @property
    def cells(self) -> list[str]:
        """The row of a table with ``EnergyDescription.headers``."""
        texts = (self.name, self.instruction, self.measured, self.joules, self.bound, self.percent)
        return [*texts, self.average, self.peak]


@dataclass(frozen=True, slots=True)
class EnergyDescription:
    """The energy of a run.

    Attributes:
        rows: Scopes of executions, then operators, those that draw most first.
        unit: Unit of energies.
        lines: What a reader should know of the measurement; why there are no rows, if so.
    """

    rows: tuple[EnergyRow, ...]
    unit: DisplayUnit
    lines: tuple[str, ...]

    @property
    def headers(self) -> list[str]:
        """Headers of a table of the rows; all but the first are of numbers."""
        joules = self.unit.name
        texts = ["operator", "instruction", "measured", f"energy [{joules}]", f"+- [{joules}]"]
        return [*texts, "+- [%]", "average [mA]", "peak [mA]"]


def describe_energy(record: EnergyRecord, table: OperatorListing | None) -> EnergyDescription:
    """Describe the energy of a run, for the operators and scopes of its table."""
    of = {operator.signature: operator for operator in record.operators}
    shown = (*table.scopes, *table.operators) if table is not None else ()
    found = [(row, of[row.operator.signature]) for row in shown if row.operator.signature in of]
    scopes = len(table.scopes) if table is not None else 0
    found[scopes:] = sorted(found[scopes:], key=lambda pair: -(pair[1].joules or 0.0))
    unit = energy_unit([energy.joules for _, energy in found])
    rows = () if record.unknown else tuple(_row(row, energy, unit) for row, energy in found)
    return EnergyDescription(rows, unit, tuple(_lines(record)))


def energy_unit(joules: list[float | None]) -> DisplayUnit:
    """Return the unit for a column of energies, chosen by the largest."""
    largest = max((value for value in joules if value is not None), default=0.0)
    if largest < 1e-5:
        return DisplayUnit("nJ", 1e-9, 1)
    if largest < 1e-2:
        return DisplayUnit("uJ", 1e-6, 3)
    return DisplayUnit("mJ", 1e-3, 3)


def _row(row: OperatorRow, energy: OperatorEnergy, unit: DisplayUnit) -> EnergyRow:
    measured = f"{energy.measured:,} of {energy.events:,}"
    if energy.joules is None or energy.bound is None:
        return EnergyRow(row.name, row.instruction, measured, *[UNKNOWN] * 5)
    average, peak = energy.average_amperes or 0.0, energy.peak_amperes or 0.0
    percent = 100 * energy.bound / energy.joules if energy.joules > 0 else None
    return EnergyRow(
        row.name,
        row.instruction,
        measured,
        unit.text(energy.joules),
        unit.text(energy.bound),
        UNKNOWN if percent is None else f"{percent:.1f}",
        f"{average / _MILLI:.3f}",
        f"{peak / _MILLI:.3f}",
    )


def _lines(record: EnergyRecord) -> list[str]:
    meter = printable(record.meter)
    lost = "no sample lost"
    if record.gaps or record.lost_samples:
        times = "gap" if record.gaps == 1 else "gaps"
        lost = f"{record.lost_samples:,} samples lost in {record.gaps:,} {times}"
    lines = [f"energy: {record.samples:,} samples of {meter} at {record.hz:,.0f} Hz; {lost}"]
    if not record.samples:
        lines = [f"energy: no samples of {meter}"]
    elif record.missing:
        lines.append(f"energy: the recording is incomplete: {printable(record.missing)}")
    if record.unknown:
        return [*lines, f"energy: unknown: {printable(record.unknown)}"]
    width = (
        "" if record.half_width_ns is None else f", within +-{record.half_width_ns / 1e3:.1f} us"
    )
    lines.append(
        f"energy: {record.matched:,} of {record.edges:,} edges of the marker pin matched{width}; "
        f"not included: {printable(record.not_included)}"
    )
    return lines
