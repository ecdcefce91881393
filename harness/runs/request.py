"""The request for a run, and the commit that it tests."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, fields
from pathlib import Path
from typing import Any, Final

from harness.analyze.converters import parse_time_scales
from harness.analyze.metadata_counts import check_names, parse_layouts
from harness.config.board import Board
from harness.config.meter import MeterRequest
from harness.config.unit import Unit, UsbPort
from harness.errors import UsageError, did_you_mean
from harness.lab.flash_plan import HowToFlash
from harness.link.values import PROFILES, VALUES, WHEN_FULL, RunOptions
from harness.link.wire import DebugLevel, ProfilingLevel, WhenFull
from harness.records.measurement import MeasurementSettings
from harness.runs.baseline import HistoryRef
from harness.target.ports import describe
from harness.target.process_group import run_program

SESSION_VARIABLE: Final = "ETHARNESS_SESSION"
"""Environment variable: the default for ``RunRequest.session``."""

_COMMIT_VARIABLES: Final = ("ETHARNESS_COMMIT", "GITHUB_SHA", "CI_COMMIT_SHA", "GIT_COMMIT")
"""Our variable, and those of GitHub Actions, GitLab and Jenkins."""

_GIT_TIMEOUT_S: Final = 10.0

_WORDS: Final[dict[str, Mapping[str, object]]] = {
    "values": VALUES,
    "profile": PROFILES,
    "when_full": WHEN_FULL,
}
"""Options with named choices."""


@dataclass(frozen=True, slots=True)
class RunRequest:
    """The request for a run.

    Attributes:
        board: Board name or board file.
        model: The ``.pte`` file, or a bundled program (``.bpte``), whose test sets run one by one.
        runs: Number of executions, of every test set.
        output: The run directory to create.
        inputs: One ``.npy`` file per input; () for random inputs, or those of test sets.
        seed: Seed of random inputs.
        references: One ``.npy`` file per output with the expected values; () to compare nothing.
        rtol: Relative tolerance of outputs; None for the default of their type.
        atol: Absolute tolerance of outputs; None for the default of their type.
        port: Serial port, or how to find it, for boards that need one.
        budget: Budget file; None for the board's own.
        trace_limit: Bytes of log that the device may use; 0 for all of its buffer.
        baud: Rate of the line, bits per second; None for the best rate of its unit or board file.
        stream: Send the log during the run, so that it may be larger than the device's buffer.
        method: The method to run; None for ``forward``, and for every method that has test sets in
            a bundled program.
        values: Which values to log.
        profile: Which events to log.
        when_full: Behavior of the device when its log is full.
        counters: Hardware counters to read at each event; () for none.
        counter_passes: Measure counters that do not count at once in several runs.
        time_scales: Time scales of delegate events; they override those of the board file.
        unit: Name of the unit in results; None for its port, or for the board without a port.
        commit: The commit under test; None for ``current_commit`` of the model.
        session: Label for results recorded together; None for ``$ETHARNESS_SESSION``, or else a
            label of this run alone.
        against: The baseline to compare the run with; None for none.
        flash: How to flash the board first; None to keep its firmware.
        placed: Build the firmware with the model in its image, instead of uploading it.
        energy: The meter that records the current beside the run; None for none.
        leased: The unit of the lab to hold during the run; None for a board outside the lab.
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
    method: str | None = None
    stream: bool = False
    baud: int | None = None
    values: DebugLevel = DebugLevel.NO_LOGGING
    profile: ProfilingLevel = ProfilingLevel.ALL_EVENTS
    when_full: WhenFull = WhenFull.STOP
    counters: tuple[str, ...] = ()
    counter_passes: bool = False
    time_scales: Mapping[str, str] = field(default_factory=dict)
    unit: str | None = None
    commit: str | None = None
    session: str | None = None
    against: HistoryRef | None = None
    flash: HowToFlash | None = None
    leased: Unit | None = None
    placed: bool = False
    energy: MeterRequest | None = None

    @property
    def unit_name(self) -> str | None:
        """The name of the unit; None if only the board is known."""
        return self.unit or self.port_name

    @property
    def port_name(self) -> str | None:
        """The port in one line, independent of the device name; None without a port."""
        return None if self.port is None else describe(self.port)

    @property
    def options(self) -> RunOptions:
        """The options to send to the device."""
        return RunOptions(
            self.trace_limit, self.values, self.profile, self.when_full, stream=self.stream
        )

    @property
    def method_name(self) -> str:
        """The method to run where only one runs."""
        return self.method or "forward"

    @property
    def settings(self) -> MeasurementSettings:
        """The options that change what is measured; the firmware's are not known here."""
        return MeasurementSettings(
            values=_word("values", self.values),
            profile=_word("profile", self.profile),
            when_full=_word("when_full", self.when_full),
            stream=self.stream,
            trace_limit=self.trace_limit,
            counters=",".join(self.counters),
        )


def _word(option: str, choice: object) -> str:
    return next(word for word, known in _WORDS[option].items() if known == choice)


def current_commit(path: Path) -> str:
    """Return the commit under test: of the environment, or of the checkout that contains ``path``.

    The environment variables are ``ETHARNESS_COMMIT`` and those of CI systems. A commit of a
    checkout with changed files ends with ``-dirty``. Without either, the commit is "".
    """
    for name in _COMMIT_VARIABLES:
        if commit := os.environ.get(name, "").strip():
            return commit
    folder = path if path.is_dir() else path.parent
    commit = _git(folder, "rev-parse", "HEAD")
    changed = commit and _git(folder, "status", "--porcelain", "--untracked-files=no")
    return f"{commit}-dirty" if changed else commit


def _git(folder: Path, *arguments: str) -> str:
    try:
        done = run_program(["git", "-C", str(folder), *arguments], _GIT_TIMEOUT_S)
    except OSError:
        return ""
    return done.stdout.decode(errors="replace").strip() if done.code == 0 else ""


def meter_of(unit: Unit | None, *, through_probe: bool) -> MeterRequest | None:
    """Return the meter that records a run on a unit without being asked for; None for none.

    Runs through a debug probe are not recorded: nothing says when they execute the model.

    Raises:
        UsageError: The unit's meter is described wrongly, or its driver is not installed.
    """
    return None if unit is None or through_probe else unit.meter


def request_fields(options: Mapping[str, Any]) -> dict[str, Any]:
    """Return options as fields of ``RunRequest``; names of choices become the choices.

    Raises:
        UsageError: There is no such option or choice.
    """
    known = {item.name for item in fields(RunRequest)}
    values: dict[str, Any] = {}
    for name, value in options.items():
        words = _WORDS.get(name, {})
        if name not in known:
            hint = f"{did_you_mean(name, known)}options: {', '.join(sorted(known))}"
            raise UsageError(f"a run has no option {name}", hint=hint)
        if isinstance(value, str) and words and value not in words:
            hint = f"{did_you_mean(value, words)}choices: {', '.join(words)}"
            raise UsageError(f"{value!r} is no choice for {name}", hint=hint)
        values[name] = words.get(value, value) if isinstance(value, str) else value
    if "counters" in values:
        values["counters"] = _names(values["counters"])
    return values


def _names(value: str | Sequence[str]) -> tuple[str, ...]:
    """Return names that may be separated by commas."""
    listed = value.split(",") if isinstance(value, str) else value
    return tuple(name.strip() for name in listed if name.strip())


def find_time_scales(request: RunRequest, board: Board) -> dict[str, str]:
    """Return the time scales of the request and the board.

    Raises:
        UsageError: A time scale is invalid, or the board's layout of delegates' metadata.
    """
    # The first matching pattern applies, so those of the request come first.
    scales = {**request.time_scales, **board.time_scales, **request.time_scales}
    parse_time_scales(scales)
    check_names(parse_layouts(board.metadata), request.counters)
    return scales
