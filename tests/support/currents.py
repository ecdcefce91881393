"""A current that follows a run's log, and how a PPK2 with a clock of its own samples it.

The true energy of each event is known here, to compare with what is measured.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from harness import Kind, Trace
from harness.analyze.ticks import unwrap
from harness.extensions.energy.event_energy import logged_edges
from harness.extensions.energy.meters import SAMPLE_HZ, Ppk2Calibration, Ppk2Samples
from harness.extensions.energy.recording import Recording

VOLTS = 3.3
PERIOD = 1 / SAMPLE_HZ
LEAD_S = 0.004
"""The recording begins so long before the first event, and ends so long after the last."""

METADATA = """Calibrated: 0
R0: 1003.3506
R1: 101.5865
R2: 10.3027
R3: 0.9636
R4: 0.0564
GS0: 0.0000
GS1: 112.7890
GS2: 18.0115
GS3: 2.1987
GS4: 0.0857
GI0: 1.0000
GI1: 0.9695
GI2: 0.9609
GI3: 0.9519
GI4: 0.9582
O0: 112.9420
O1: 75.4627
O2: 64.6020
O3: 50.4983
O4: 88.5199
VDD: 3300
HW: 9173
mode: 1
S0: 0.000000048
S1: 0.000000596
S2: 0.000005281
S3: 0.000062577
S4: 0.002940743
I0: -0.000000104
I1: -0.000001443
I2: 0.000036439
I3: -0.000374119
I4: -0.009388455
UG0: 1.00
UG1: 1.00
UG2: 1.00
UG3: 1.00
UG4: 1.00
IA: 56
END
"""
"""What a PPK2 reports of itself."""


@dataclass(frozen=True, eq=False)
class TrueRun:
    """A run in real time, which is the meter's: when everything was, and what it drew.

    Attributes:
        start: Start of each event, seconds; its clock began at 0.
        end: End of each event.
        knees: Instants at which the current changes, seconds.
        charge: Charge drawn up to each of them, coulombs.
        edges: Instants of the edges of the marker pin.
    """

    start: np.ndarray
    end: np.ndarray
    knees: np.ndarray
    charge: np.ndarray
    edges: np.ndarray

    def drawn(self, instants: np.ndarray) -> np.ndarray:
        """Return the charge drawn up to some instants."""
        return np.interp(instants, self.knees, self.charge)

    def joules(self) -> np.ndarray:
        """Return the energy of each event."""
        return (self.drawn(self.end) - self.drawn(self.start)) * VOLTS


def true_run(trace: Trace, random: np.random.Generator) -> TrueRun:
    """Draw a current for a run, and the rate of the board's clock against the meter's."""
    timeline = unwrap(trace)
    cpu = trace.clocks[0]
    assert cpu.hz is not None
    hz = float(cpu.hz)
    phase = random.random()
    drift, wander = random.uniform(-1e-4, 1e-4), random.uniform(0, 1e-6)

    def real(ticks: np.ndarray) -> np.ndarray:
        seconds = (ticks + phase) / hz
        return LEAD_S + seconds * (1 + drift) + wander / 10 * np.sin(seconds * 10)

    own = trace.clock == 0
    start = np.where(own, real(timeline.start), 0.0)
    end = np.where(own, real(timeline.end), 0.0)
    knees, amperes = [0.0], []
    leaves = own & (trace.chain >= 0) & (trace.kind == Kind.PROFILE)
    calls = [row for row in np.flatnonzero(leaves).tolist() if trace.text(int(trace.name[row]))]
    for row in sorted(calls, key=lambda row: start[row]):
        if start[row] < knees[-1]:  # the kernel's event within the instruction's
            continue
        knees.append(start[row])
        amperes.append(random.uniform(0.004, 0.006))
        level = random.uniform(0.006, 0.012)
        while knees[-1] < end[row]:
            knees.append(min(knees[-1] + random.uniform(5e-6, 200e-6), end[row]))
            amperes.append(level * random.uniform(0.8, 1.2))
    knees.append(float(end.max()) + LEAD_S)
    amperes.append(random.uniform(0.004, 0.006))
    lengths = np.diff(knees)
    charge = np.concatenate([[0.0], np.cumsum(lengths * amperes)])
    edges = [
        random.uniform(*real(np.array([edge.first, edge.last]))) + random.uniform(0, 3e-7)
        for edge in logged_edges(trace)
    ]
    return TrueRun(start, end, np.array(knees), charge, np.array(edges))


def words_of(run: TrueRun, random: np.random.Generator, pin: int = 0) -> np.ndarray:
    """Return a PPK2's samples of a run, uint32, with jitter of each sampling instant."""
    count = int(run.knees[-1] / PERIOD)
    instants = np.arange(count + 1) * PERIOD + random.uniform(-3e-7, 3e-7, count + 1)
    instants = np.clip(instants, 0, run.knees[-1])
    amperes = np.diff(run.drawn(instants)) / PERIOD
    read_at = instants[:-1] + random.random(count) * np.diff(instants)
    level = np.searchsorted(run.edges, read_at) % 2
    calibration = Ppk2Calibration(METADATA, VOLTS)
    codes = np.arange(1 << 14)
    adc, ranges = np.zeros(count, np.int64), np.zeros(count, np.int64)
    todo = np.ones(count, np.bool_)
    for number in range(5):
        table = calibration.amperes(codes, np.full(len(codes), number, np.uint8))
        fits = todo & (amperes < table[-1] * 0.9)
        above = np.clip(np.searchsorted(table, amperes[fits]), 1, len(table) - 1)
        nearer = amperes[fits] - table[above - 1] < table[above] - amperes[fits]
        adc[fits], ranges[fits] = above - nearer, number
        todo &= ~fits
    counter = np.arange(count) % 64
    return (adc | ranges << 14 | counter << 18 | level << (24 + pin)).astype(np.uint32)


def with_losses(words: np.ndarray, random: np.random.Generator, gaps: int) -> np.ndarray:
    """Return the samples without those that were lost on their way."""
    kept = np.ones(len(words), np.bool_)
    for _ in range(gaps):
        first = int(random.integers(len(words)))
        kept[first : first + int(random.integers(1, 200))] = False
    return words[kept]


def decoded(words: np.ndarray) -> Recording:
    """Return samples as the PPK2's driver reads them, without its port."""
    samples = Ppk2Samples(Ppk2Calibration(METADATA, VOLTS), VOLTS, 0)
    return Recording.of(samples.header, [samples.decode(words)])
