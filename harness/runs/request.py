"""The request for a run: settings given by name, what they stand for, and the commit under test."""

from __future__ import annotations

import numbers
import os
import re
import subprocess
import uuid
from collections.abc import Mapping
from dataclasses import KW_ONLY, dataclass, fields, replace
from pathlib import Path
from typing import Any, Final

from harness import __version__
from harness.config.board import Board, SerialTarget
from harness.config.project import configured_history, find_project
from harness.config.unit import MeterRequest
from harness.errors import InfrastructureError, Owner, UsageError, did_you_mean
from harness.files import absolute
from harness.flash.plan import HowToFlash
from harness.link.transports import is_probe
from harness.records import run_settings
from harness.records.measurement import MeasurementSettings
from harness.records.result import UNFINISHED, Failure, Result, now_utc
from harness.records.store_address import StoreAddress, address_of
from harness.runs.history import HistoryRef, history_of
from harness.runs.run_keywords import LoadKeywords, PathLike, RunKeywords
from harness.runs.source import ReadOptions
from harness.target.selection import Chosen, choose

SESSION_VARIABLE: Final = "ETHARNESS_SESSION"
"""Environment variable: the default for ``RunRequest.session``."""

_COMMIT_VARIABLES: Final = ("ETHARNESS_COMMIT", "GITHUB_SHA", "CI_COMMIT_SHA", "GIT_COMMIT")
"""Our variable, and those of GitHub Actions, GitLab and Jenkins."""

_GIT_TIMEOUT_S: Final = 10.0


@dataclass(frozen=True, slots=True)
class RunRequest(run_settings.RunSettings):
    """The request for a run: its settings, and what their values stand for.

    Attributes:
        board: Board name or board file.
        model: The ``.pte`` file, or a bundled program (``.bpte``), whose test sets run one by one.
        runs: Number of executions, of every test set.
        output: The run directory to create.
        chosen: Its port and its unit; None for a board of which only the type is known.
        flash: How to flash the board first; None to keep its firmware.
        energy: The meter that records the current beside the run; None for none.
        against: The baseline to compare the run with; None for none.
        history: The history to add the result to; None for none.
        through: What a debug probe reads; None for a board with a link.
    """

    board: str
    model: Path
    runs: int
    output: Path
    _: KW_ONLY
    chosen: Chosen | None = None
    flash: HowToFlash | None = None
    energy: MeterRequest | None = None
    against: HistoryRef | None = None
    history: StoreAddress | None = None
    through: ProbeRequest | None = None

    @property
    def place(self) -> Chosen:
        """The board with its port and its unit."""
        return self.chosen or Chosen(self.board)

    def builds_firmware(self, board: Board) -> bool:
        """Return whether the run builds the firmware of its board: to flash it, or to start it."""
        if self.flash is not None:
            return self.flash.image is None
        return not (isinstance(board.target, SerialTarget) or board.runner)

    @property
    def method_name(self) -> str:
        """The method to run where only one runs."""
        return self.method or "forward"

    @property
    def settings(self) -> MeasurementSettings:
        """The options that change what is measured; the firmware's are not known here."""
        compared = [setting.name for setting in run_settings.SETTINGS.values() if setting.compared]
        values: dict[str, Any] = {name: getattr(self, name) for name in compared}
        return MeasurementSettings(**{**values, "counters": ",".join(self.counters)})


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
        done = subprocess.run(
            ["git", "-C", str(folder), *arguments],
            stdin=subprocess.DEVNULL,
            capture_output=True,
            timeout=_GIT_TIMEOUT_S,
            check=False,
        )
    except (OSError, subprocess.TimeoutExpired):
        return ""
    return done.stdout.decode(errors="replace").strip() if done.returncode == 0 else ""


def check_comparison(request: RunRequest) -> None:
    """Check the settings of the comparison with a baseline.

    Raises:
        UsageError: One of them needs a comparison, and none was asked for; or the history cannot be
            opened.
        InfrastructureError: The history does not answer.
    """
    if request.against is not None:
        request.against.check()
        return
    for name in ("detect", "baseline_model"):
        if getattr(request, name) is not None:
            flag = run_settings.SETTINGS[name].flag
            raise UsageError(f"{flag} needs a comparison", hint="add --baseline last:20")


def find_time_scales(request: RunRequest, board: Board) -> dict[str, str]:
    """Return the time scales of the request and the board.

    Raises:
        UsageError: A time scale is invalid, or the board's layout of delegates' metadata.
    """
    # The first matching pattern applies, so those of the request come first.
    scales = {**request.time_scales, **board.time_scales, **request.time_scales}
    if scales or board.metadata:
        from harness.analyze.converters import check_names, parse_layouts, parse_time_scales

        parse_time_scales(scales)
        check_names(parse_layouts(board.metadata), request.counters)
    return scales


NO_METER: Final = "none"
"""Turns off the meter of a unit."""


def request_of(model: PathLike, board: PathLike | Board | None, options: RunKeywords) -> RunRequest:
    """Return the request that options stand for.

    Raises:
        UsageError: An option is unknown or wrong.
    """
    given = given_settings(options)
    named = os.fspath(board.file if isinstance(board, Board) else board) if board else None
    chosen = choose(named, given.unit, given.port, given.units)
    return request_on(chosen, model, given)


def request_on(chosen: Chosen, model: PathLike, given: run_settings.GivenSettings) -> RunRequest:
    """Return the request for a run on a selected board.

    Raises:
        UsageError: The settings contradict each other or do not suit the board, or the meter of the
            unit is described wrongly, or its driver is not installed.
    """
    project = find_project()
    address = given.history or configured_history(project)
    probe = probe_request(
        chosen.port, given.elf, given.symbol, given.until, given.reset, given.baud
    )
    against = history_of(address, given.baseline) if given.baseline is not None else None
    file = absolute(project.find_model(Path(model)))
    settings = {
        field.name: getattr(given, field.name) for field in fields(run_settings.RunSettings)
    }
    settings |= {"board": chosen.board, "model": file, "budget": given.budget or project.budget}
    settings["output"] = given.output or _new_folder(chosen.board, file)
    flash: Any = given.flash
    if flash and not isinstance(flash, HowToFlash):
        image = given.image if flash is True else absolute(flash)
        flash = HowToFlash(image, given.tool, given.probe or chosen.probe)
    meter = given.energy if isinstance(given.energy, MeterRequest) else None
    # Of a run through a debug probe nothing says when it executes the model.
    if given.energy is None and chosen.leased is not None and probe is None:
        meter = chosen.leased.meter
    return RunRequest(
        **settings,
        chosen=chosen,
        flash=flash or None,
        energy=meter,
        against=against,
        history=address,
        through=probe,
    )


def given_settings(
    options: Mapping[str, Any], place: run_settings.SettingPlace = run_settings.SettingPlace.API
) -> run_settings.GivenSettings:
    """Return settings by their names, checked, with absolute paths.

    Raises:
        UsageError: A setting cannot be given in this place, is invalid, or needs another one.
    """
    known = {setting.name: setting for setting in run_settings.settings_in(place)}
    for name in ("model", "board"):  # select what runs, and where
        known.pop(name, None)
    values: dict[str, Any] = {}
    for name, value in options.items():
        if name not in known:
            hint = f"{did_you_mean(name, known)}options: {', '.join(known)}"
            raise UsageError(f"a run has no option {name}", hint=hint)
        values[name] = _checked(known[name], value)
    if "energy" in values:
        values["energy"] = values["energy"] or NO_METER
    given = run_settings.GivenSettings(**values)
    if given.name is not None and not re.fullmatch(r"\w[\w.+-]*", given.name):
        raise UsageError(
            f"invalid name of a model: {given.name!r}",
            hint="use letters, digits and . _ + -, as in kws_v2",
        )
    if given.detect is not None:
        _check_detect(given.detect)
    lacks = "stream" if given.live is not None and not given.stream else ""
    lacks = "flash" if (given.image or given.tool or given.probe) and not given.flash else lacks
    if lacks:
        words = "--live requires" if lacks == "stream" else "--image, --tool and --probe require"
        raise UsageError(f"{words} --{lacks}", hint=f"add --{lacks}")
    beside = given.volts is not None or given.marker_pin is not None or given.supply
    if beside and (not isinstance(given.energy, str) or given.energy == NO_METER):
        raise UsageError(
            "--volts, --marker-pin and --supply require --energy", hint="add --energy METER"
        )
    if isinstance(given.energy, str) and given.energy != NO_METER:
        pin = given.marker_pin or 0
        meter = MeterRequest.parse(given.energy, given.volts, pin, supply=given.supply)
        return replace(given, energy=meter)
    return given


def _check_detect(share: str) -> None:
    try:
        run_settings.parse_share(share)
    except ValueError:
        raise UsageError(
            f"{share!r} is no share of a time", hint="write it as --detect 3%"
        ) from None


def _checked(setting: run_settings.RunSetting, value: Any) -> Any:
    if setting.choices and value not in setting.choices:
        hint = f"{did_you_mean(str(value), setting.choices)}choices: {', '.join(setting.choices)}"
        raise UsageError(f"{value!r} is no choice for {setting.name}", hint=hint)
    if value is None:
        return setting.default
    if setting.kind in (int, float):
        numeric: Any = numbers.Integral if setting.kind is int else numbers.Real
        if not isinstance(value, numeric) or not setting.allows(value):
            raise UsageError(f"{setting.name} is {value!r}, not {setting.expected}")
    if setting.kind is StoreAddress:
        return address_of(value).within(Path.cwd()) if value else None
    if setting.is_file:
        return absolute(value) if os.fspath(value) else None
    if setting.is_files:
        return tuple(absolute(file) for file in value)
    if setting.kind == tuple[str, ...]:
        listed = value.split(",") if isinstance(value, str) else value
        return tuple(name.strip() for name in listed if name.strip())
    return value


def read_options(options: LoadKeywords) -> ReadOptions:
    """Return how a path is read.

    Raises:
        UsageError: An option is unknown or wrong.
    """
    values: dict[str, Any] = {}
    known = run_settings.READ_SETTINGS
    for name, value in options.items():
        if name not in known:
            hint = f"{did_you_mean(name, known)}options: {', '.join(known)}"
            raise UsageError(f"wrong option: load has no option {name!r}", hint=hint)
        values[name] = _checked(known[name], value)
    return ReadOptions(**values)


def _new_folder(board: str, model: Path) -> Path:
    """Make a run directory whose name is not in use."""
    name, number = f"{model.stem}-{Path(board).stem}", 1
    while True:
        folder = absolute(Path("out", f"{name}-{number}"))
        try:
            folder.mkdir(parents=True)
        except FileExistsError:
            number += 1
        except OSError as error:
            raise UsageError(f"cannot make {folder}: {error.strerror}") from error
        else:
            return folder


@dataclass(frozen=True, slots=True)
class ProbeRequest:
    """What a debug probe reads, and when.

    Attributes:
        elf: The firmware on the board.
        symbol: Variable with the tracer; None to find all tracers.
        until: Function at which to read; None for any moment at which no event is open.
        reset: Command to the gdbserver that resets the board first; None to leave it running.
    """

    elf: Path
    symbol: str | None = None
    until: str | None = None
    reset: str | None = None


def probe_request(
    port: object,
    elf: Path | None,
    symbol: str | None,
    until: str | None = None,
    reset: str | None = None,
    baud: int | None = None,
) -> ProbeRequest | None:
    """Return the request for a debug probe; None if ``port`` is not one.

    Raises:
        UsageError: An option is missing, or given for another kind of port.
    """
    if not is_probe(port):
        if elf or symbol or until or reset:
            raise UsageError(
                "--elf, --symbol, --until and --reset need a debug probe as --port",
                hint="use --port gdb://host:port or pyocd://",
            )
        return None
    if baud is not None:
        raise UsageError(f"{port} is a debug probe, which has no baud rate", hint="omit --baud")
    if elf is None:
        raise UsageError(
            f"{port} is a debug probe, which needs the firmware's symbols",
            hint="give the ELF file of the firmware with --elf",
        )
    return ProbeRequest(elf, symbol, until, reset)


def unfinished_result(
    request: RunRequest,
    board: Board,
    time_scales: dict[str, str],
    settings: MeasurementSettings | None = None,
    test_set: int | None = None,
) -> Result:
    """Return the result of a run that begins now, as it stays if the process is killed."""
    own_id = uuid.uuid4().hex
    return Result(
        id=own_id,
        tool_version=__version__,
        started_utc=now_utc("milliseconds"),
        duration_s=0.0,
        board=board.name,
        port=request.place.port_name,
        unit=request.place.name or board.name,
        commit=current_commit(request.model) if request.commit is None else request.commit,
        session=request.session or os.environ.get(SESSION_VARIABLE, "") or own_id,
        runs_requested=request.runs,
        runs_completed=0,
        seed=request.seed,
        emulated_time=board.emulated_time,
        core=board.core and board.core.record(),
        time_scales=time_scales,
        metadata=dict(board.metadata),
        settings=settings,
        test_set=test_set,
        exit_code=InfrastructureError.exit_code,
        failure=Failure(UNFINISHED, "the run was cut off", "run it again", Owner.HOST),
    )
