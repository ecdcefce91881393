"""What a run is asked for."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, fields
from pathlib import Path
from typing import Any, Final

from harness.config.unit import Unit, UsbPort
from harness.errors import UsageError, did_you_mean
from harness.lab.flash_plan import HowToFlash
from harness.link.options import PROFILES, VALUES, WHEN_FULL, RunOptions
from harness.link.wire import DebugLevel, ProfilingLevel, WhenFull
from harness.runs.baseline import HistoryRef
from harness.target.ports import describe

_WORDS: Final[dict[str, Mapping[str, object]]] = {
    "values": VALUES,
    "profile": PROFILES,
    "when_full": WHEN_FULL,
}
"""Options with named choices."""


@dataclass(frozen=True, slots=True)
class RunRequest:
    """What to run.

    Attributes:
        board: Board name or board file.
        model: The ``.pte`` file.
        runs: Number of executions.
        output: The run directory to make.
        inputs: One ``.npy`` file per input; none for random inputs.
        seed: Seed of random inputs.
        references: One ``.npy`` file per output with what it should be; none to not compare.
        rtol: How far off an element of an output may be, as a share of its reference; None for
            what its type allows.
        atol: Plus this much; likewise.
        port: Serial port, or what to find it by, for boards that need one.
        budget: Budget file; None for the board's own.
        trace_limit: Bytes of log the device may use; 0 for all it has.
        baud: Rate to move the line to; None for what its unit's or board's file says.
        stream: Have it send the log while it runs, so that it may be longer than that.
        method: The method to run.
        values: Which values are logged.
        profile: Which events are logged.
        when_full: What the device does when its log is full.
        time_scales: What the ticks of delegates' events mean, before what the board file says.
        unit: Which board of its type it is; None for its port, or for the board if there is none.
        commit: The commit that is tested; None for what ``current_commit`` says of the model.
        session: What results have in common that are made together; None for what the environment
            says in ``ETHARNESS_SESSION``, or else for this run alone.
        against: The history that the run is held against; None for none.
        flash: How to bring firmware onto the board first; None to leave on it what is there.
        leased: The unit of the lab that it is, which is held while it runs; None for none.
    """

    board: str
    model: Path
    runs: int
    output: Path
    inputs: tuple[Path, ...] = ()
    seed: int = 0
    references: tuple[Path, ...] = ()
    rtol: float | None = None
    atol: float | None = None
    port: UsbPort | str | None = None
    budget: Path | None = None
    trace_limit: int = 0
    method: str = "forward"
    stream: bool = False
    baud: int | None = None
    values: DebugLevel = DebugLevel.NO_LOGGING
    profile: ProfilingLevel = ProfilingLevel.ALL_EVENTS
    when_full: WhenFull = WhenFull.STOP
    time_scales: Mapping[str, str] = field(default_factory=dict)
    unit: str | None = None
    commit: str | None = None
    session: str | None = None
    against: HistoryRef | None = None
    flash: HowToFlash | None = None
    leased: Unit | None = None

    @property
    def unit_name(self) -> str | None:
        """What its unit is called; None for the board, where nothing else is said."""
        return self.unit or self.port_name

    @property
    def port_name(self) -> str | None:
        """Its port in one line, which stays the same when the device gets another name."""
        return None if self.port is None else describe(self.port)

    @property
    def options(self) -> RunOptions:
        """What the device is told of it."""
        return RunOptions(
            self.trace_limit, self.values, self.profile, self.when_full, stream=self.stream
        )


def request_fields(options: Mapping[str, Any]) -> dict[str, Any]:
    """Return options as fields of ``RunRequest``; names of choices become the choices.

    Raises:
        UsageError: There is no such option or choice.
    """
    known = {item.name for item in fields(RunRequest)}
    values = {}
    for name, value in options.items():
        words = _WORDS.get(name, {})
        if name not in known:
            hint = f"{did_you_mean(name, known)}options: {', '.join(sorted(known))}"
            raise UsageError(f"a run has no option {name}", hint=hint)
        if isinstance(value, str) and words and value not in words:
            hint = f"{did_you_mean(value, words)}choices: {', '.join(words)}"
            raise UsageError(f"{value!r} is no choice for {name}", hint=hint)
        values[name] = words.get(value, value) if isinstance(value, str) else value
    return values
