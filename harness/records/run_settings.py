"""The settings of a run, and of reading one, each declared once.

From these declarations come the options of ``etharness run``, the keywords of ``harness.run``, the
keys of a plan, the arguments of the pytest marker, the defaults of a project, and the settings that
make results comparable; likewise the options of commands that read traces, and the keywords of
``harness.load``.
"""

from __future__ import annotations

# ruff: noqa: RUF009  (_setting returns a new dataclasses.field each time)
import dataclasses
import re
from collections.abc import Iterator, Mapping
from dataclasses import KW_ONLY, dataclass
from datetime import date
from enum import Flag, auto
from pathlib import Path
from types import MappingProxyType, UnionType
from typing import Any, Final, Literal, Union, get_args, get_origin, get_type_hints

from harness.records.store_address import StoreAddress

LoggedValues = Literal["none", "outputs", "intermediate"]
LoggedEvents = Literal["method", "all"]
FullLogAction = Literal["stop", "drop-oldest"]
StateAction = Literal["auto", "keep", "reset"]


class SettingPlace(Flag):
    """Where a setting can be given."""

    COMMAND = auto()
    """An option of ``etharness run``."""
    API = auto()
    """A keyword of ``harness.run``; ``model`` and ``board`` are its parameters."""
    PLAN = auto()
    """A key of ``[run]`` and ``[[model]]`` of a plan."""
    MARKER = auto()
    """An argument of the pytest marker ``etharness``."""
    PROJECT = auto()
    """A key of ``[tool.etharness]`` in ``pyproject.toml``."""


_CALL: Final = SettingPlace.COMMAND | SettingPlace.API
_TEST: Final = _CALL | SettingPlace.MARKER
_ALL: Final = _TEST | SettingPlace.PLAN


@dataclass(frozen=True, slots=True)
class RunSetting:
    """The declaration of a setting of a run, or of reading one.

    Attributes:
        name: Name in Python and in files.
        type: Type of its value in ``GivenSettings`` or ``ReadSettings``.
        default: Value of a run that does not say it.
        help: Help text of its option.
        where: Where it can be given.
        flags: Names of its option.
        metavar: Placeholder of its value in the help.
        least: Smallest number.
        most: Largest number.
        above: Lower bound that a number must exceed.
        command_default: Default of the option, where it is another one.
        documentation: Text for its keyword, where the help speaks of the command line.
        kind: Its type without None.
        choices: The words that it can be; () for any value.
        is_file: Whether it is a path.
        is_files: Whether it is a sequence of paths.
        annotation: Type of its keyword, where it also takes other objects.
        compared: Whether results are comparable only if it is equal.
    """

    name: str
    type: Any
    default: Any
    help: str
    flags: tuple[str, ...]
    documentation: str
    kind: Any
    choices: tuple[str, ...]
    is_file: bool
    is_files: bool
    where: SettingPlace = _ALL
    metavar: str | None = None
    least: int | None = None
    most: int | None = None
    above: int | None = None
    command_default: object = None
    annotation: str = ""
    compared: bool = False

    @property
    def flag(self) -> str:
        """The long name of its option."""
        return self.flags[-1]

    def allows(self, number: float) -> bool:
        """Whether a number is within its bounds."""
        low = number if self.least is None else self.least
        high = number if self.most is None else self.most
        return low <= number <= high and (self.above is None or number > self.above)

    @property
    def expected(self) -> str:
        """Its numbers in words."""
        noun = "a whole number" if self.kind is int else "a number"
        if self.most is not None:
            return f"{noun} from {self.least} to {self.most}"
        if self.above is not None:
            return f"{noun} above {self.above}"
        return noun if self.least is None else f"{noun} of at least {self.least}"

    def words(self, value: Any) -> Iterator[str]:
        """Yield a value as arguments of ``etharness run``."""
        if isinstance(value, bool):
            yield from [self.flag] if value else []
        elif isinstance(value, Mapping):
            yield from (f"{self.flag}={key}={text}" for key, text in value.items())
        elif self.is_files:
            yield from (f"{self.flag}={file}" for file in value)
        elif not isinstance(value, tuple):
            yield f"{self.flag}={value}"
        elif value:
            yield f"{self.flag}={','.join(value)}"


def _setting(default: Any, help_text: str, *flags: str, **more: Any) -> Any:
    """Declare a setting; ``more`` are other attributes of `RunSetting`."""
    metadata = {"help": help_text, "flags": flags, **more}
    if isinstance(default, dict):
        return dataclasses.field(default_factory=dict, metadata=metadata)
    return dataclasses.field(default=default, metadata=metadata)


_TIME_SCALE_HELP: Final = (
    "Tick rate of delegates' events (`etharness explain clocks`): 'npu*=100 MHz, 24 bits', "
    "'7=3/8' of the log's rate, or '*=@NAME' of an entry point. Repeatable."
)


@dataclass(frozen=True, slots=True)
class RunSettings:
    """Settings that a run takes as they are given; their meaning is in the declarations."""

    board: str | None = _setting(
        None,
        "Board type: a name (see `etharness boards`) or a board file.  [default: the unit's]",
        where=SettingPlace.COMMAND | SettingPlace.MARKER | SettingPlace.PROJECT,
        metavar="BOARD",
    )
    model: Path | None = _setting(
        None,
        "Model file (.pte, or .bpte with test sets), or the name of a model of this package, such "
        "as kws_int8.",
        where=SettingPlace.COMMAND | SettingPlace.MARKER,
        metavar="FILE",
    )
    runs: int = _setting(
        1,
        "Number of executions; of a bundled program, of each test set; with --steps, of the whole "
        "sequence.",
        metavar="N",
        least=1,
        most=1_000_000,
    )
    output: Path | None = _setting(
        None,
        "Run directory to create.",
        "-o",
        "--output",
        where=_CALL,
        metavar="DIR",
        command_default=Path("out/run"),
        documentation="Run directory to create; None for a new folder below ``out/``.",
    )
    _: KW_ONLY
    name: str | None = _setting(
        None,
        "Name of the model in results, budgets and histories, where its file name tells too "
        "little.  [default: its file name]",
        metavar="NAME",
    )
    method: str | None = _setting(
        None,
        "Method of the model to execute.  [default: forward; of a bundled program every method "
        "with test sets]",
        metavar="NAME",
    )
    data: tuple[Path, ...] = _setting(
        (),
        "External data of the model (.ptd), which becomes a part of the program; repeat it for "
        "each file.",
        metavar="FILE",
        documentation="``.ptd`` files with external data of the model.",
    )
    placed: bool = _setting(
        False,
        "Build the firmware with the model in flash instead of uploading it; a board on a port "
        "also needs --flash.",
    )
    inputs: tuple[Path, ...] = _setting(
        (),
        "Input as a .npy file; repeat it for each input, in order.  [default: random values, or "
        "those of the test sets of a .bpte]",
        "--input",
        metavar="FILE",
        documentation="One ``.npy`` file per input; random values by default, or those of the "
        "test sets.",
    )
    steps: Path | None = _setting(
        None,
        "Folder with a folder for each step of a sequence: its inputs/, and reference/ with its "
        "expected outputs. The model keeps its state from step to step.",
        metavar="DIR",
    )
    state: StateAction = _setting(
        "auto",
        "What the model's own buffers contain when an execution begins: keep (what the one before "
        "left), reset (their initial contents), or auto (reset where what is compared with "
        "references is repeated).",
        metavar="ACTION",
        compared=True,
    )
    seed: int = _setting(0, "Seed of the random inputs.", metavar="N")
    dataset: Path | None = _setting(
        None,
        "Samples (.npz with inputs, and labels or references), or the name of a file of this "
        "package: all run, for accuracy; the log is of the first (`etharness explain accuracy`).",
        metavar="FILE",
    )
    baud: int | None = _setting(
        None,
        "Switch the serial line to this rate, bits per second.  [default: the best rate of the "
        "unit or board file]",
        metavar="RATE",
        least=1,
    )
    profile: LoggedEvents = _setting(
        "all", "Events to log: the scopes around the method, or all.", compared=True
    )
    values: LoggedValues = _setting(
        "none",
        "Values to log: none, outputs (of the method), or intermediate (of every instruction too).",
        metavar="VALUES",
        compared=True,
    )
    stream: bool = _setting(
        False,
        "Send the log while the model runs; its length is then unlimited.",
        compared=True,
    )
    live: Path | None = _setting(
        None,
        "With --stream, append the events to this Perfetto trace while the model runs; it can be "
        "opened at any time.  [default: none]",
        where=_CALL,
        metavar="FILE",
        documentation="With ``stream``, append the events to this Perfetto trace while the model "
        "runs.",
    )
    when_full: FullLogAction = _setting(
        "stop",
        "Action when the log is full: stop (logging), or drop-oldest (executions).",
        metavar="ACTION",
        compared=True,
    )
    counters: tuple[str, ...] = _setting(
        (),
        "Hardware counters to read at each event, such as cycles,instret; an unknown name lists "
        "those of the board.  [default: none]",
        metavar="NAMES",
        compared=True,
        documentation='Hardware counters to read at each event, such as ``("cycles", "instret")``.',
    )
    counter_passes: bool = _setting(
        False,
        "Measure more counters than the board counts at once, in several runs, and join them.",
    )
    trace_limit: int = _setting(
        0,
        "Maximum size of the log on the device.  [default: 0, all its log memory]",
        metavar="BYTES",
        least=0,
        most=2**32 - 1,
        compared=True,
        documentation="Maximum size of the log on the device, bytes; 0 for all its log memory.",
    )
    time_scales: Mapping[str, str] = _setting(
        {},
        _TIME_SCALE_HELP,
        "--time-scale",
        metavar="PATTERN=RATE",
        documentation='Tick rates of delegates\' events by pattern: ``{"npu*": "100 MHz"}``.',
    )
    budget: Path | None = _setting(
        None,
        "Budget file to check.  [default: the project's, or the board file's]",
        where=_ALL | SettingPlace.PROJECT,
        metavar="FILE",
    )
    references: tuple[Path, ...] = _setting(
        (),
        "Expected output as a .npy file; repeat it for each output, in order.",
        "--reference",
        metavar="FILE",
        documentation="One ``.npy`` file per output with the expected values.",
    )
    rtol: float | None = _setting(
        None,
        "Relative tolerance of outputs.  [default: by data type]",
        metavar="SHARE",
        least=0,
    )
    atol: float | None = _setting(
        None,
        "Absolute tolerance of outputs, added to --rtol.  [default: by data type; integers must "
        "match exactly]",
        metavar="VALUE",
        least=0,
    )
    repeat: int = _setting(
        1,
        "Number of runs in one session, each with all executions; they are compared together.",
        metavar="N",
        least=1,
        most=1000,
    )
    detect: str | None = _setting(
        None,
        "Repeat the run until the comparison would notice a change of this size, such as 3%, or "
        "the time is up (--repeat-time).",
        metavar="SHARE",
    )
    look_again: int = _setting(
        5,
        "Number of times that a suspect change is measured again, at most; 0 for never.",
        metavar="N",
        least=0,
        most=100,
    )
    repeat_time: float | None = _setting(
        None,
        "Longest time for repeats that were not asked for with --repeat.  [default: five times "
        "that of the run, or of a pair with the baseline]",
        metavar="SECONDS",
        least=0,
    )
    baseline_model: Path | None = _setting(
        None,
        "Model of the baseline, to measure a suspect change in pairs with it.  [default: that of "
        "the newest baseline result, if a run on this computer has kept it]",
        metavar="FILE",
    )
    session: str | None = _setting(
        None,
        "Label for results recorded together.  [default: $ETHARNESS_SESSION, or this run alone]",
        metavar="NAME",
    )
    commit: str | None = _setting(
        None,
        "Commit under test.  [default: $ETHARNESS_COMMIT, or the model's checkout]",
        metavar="HASH",
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class GivenSettings(RunSettings):
    """All settings as a person gives them, before a run is requested."""

    unit: str | None = _setting(
        None,
        "Lab unit (see `etharness lab units`); sets board and port. With --board it only labels "
        "results.  [default: the port]",
        where=_CALL,
        metavar="UNIT",
    )
    units: Path | None = _setting(
        None,
        "Unit file of the lab.  [default: $ETHARNESS_UNITS, ./units.toml, or "
        "~/.config/etdump-harness/units.toml]",
        where=_CALL,
        metavar="FILE",
    )
    port: str | None = _setting(
        None,
        "Port of the board: a serial device, a URL (`etharness explain remote`) or a debug probe "
        "(`etharness explain probes`).  [default: the unit's]",
        "-p",
        "--port",
        where=_CALL,
        metavar="PORT",
    )
    flash: Any = _setting(
        False,
        "Flash the board before the run.",
        annotation="bool | PathLike | HowToFlash",
        documentation="Flash the board before the run: True builds the firmware, a path is the "
        "image.",
    )
    image: Path | None = _setting(
        None,
        "Image to flash: ELF, Intel HEX, UF2 or .bin.  [default: the board's firmware, built here]",
        where=_TEST,
        metavar="FILE",
    )
    tool: str | None = _setting(
        None,
        "Flashing tool.  [default: the first installed one that the board file lists]",
        metavar="NAME",
    )
    probe: str = _setting(
        "",
        "Debug probe as VID:PID:Serial, hexadecimal, or VID:PID if only one matches.  [default: "
        "the unit's, or the only one]",
        metavar="PROBE",
        documentation="Debug probe to flash with, as VID:PID:Serial, hexadecimal; by default the "
        "unit's, or the only one.",
    )
    elf: Path | None = _setting(
        None,
        "Firmware on the board, as linked, with its symbols; needed for gdb:// and pyocd://.",
        metavar="FILE",
    )
    symbol: str | None = _setting(
        None,
        "Variable that is, contains or points to the tracer.  [default: search all]",
        metavar="NAME",
    )
    until: str | None = _setting(
        None,
        "Let the board run until it enters this function, and read the trace there.  [default: "
        "read when no event is open]",
        metavar="FUNCTION",
    )
    reset: str | None = _setting(
        None,
        "Reset the board first by this command of the gdbserver: 'reset halt' (OpenOCD, pyOCD), "
        "'reset' (J-Link) or 'system_reset' (QEMU).  [default: no reset]",
        metavar="COMMAND",
    )
    energy: Any = _setting(
        None,
        "Measure the energy of each operator with a meter: ppk2[:PORT], joulescope[:SERIAL], "
        "csv:FILE of another program, or none (`etharness explain energy`).  [default: the unit's]",
        metavar="METER",
        annotation="str | MeterRequest | None",
        documentation="Meter that records the current beside the run, such as ``ppk2`` "
        "(docs/energy.md); None or ``none`` for none. By default the unit's.",
    )
    volts: float | None = _setting(
        None,
        "Voltage of the supply, for a meter that does not measure it.",
        metavar="V",
        above=0,
    )
    marker_pin: int | None = _setting(
        None,
        "Digital input of the meter that is wired to the board's marker pin.  [default: 0]",
        metavar="N",
        least=0,
        most=7,
    )
    supply: bool = _setting(False, "Let a PPK2 supply the board with --volts.")
    history: StoreAddress | None = _setting(
        None,
        "Add the result to this history: an SQLite file or postgresql:// URL.  [default: "
        "$ETHARNESS_HISTORY, or none]",
        annotation="str | None",
        where=_CALL | SettingPlace.PROJECT,
        metavar="URL",
    )
    baseline: str | None = _setting(
        None,
        "Compare with this baseline from the history: last:20, name:NAME or commit:PREFIX "
        "(`etharness explain verdicts`).",
        where=_CALL,
        metavar="REF",
    )
    progress: Any = _setting(
        None,
        "",
        where=SettingPlace.API,
        annotation="Stages | None",
        documentation="Called with (stage, done, total) as the run goes on; total 0 means unknown.",
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class ReadSettings:
    """What the files of a trace may not say themselves, as a person gives it."""

    clock_hz: float | None = _setting(
        None,
        "Ticks per second of a file that records no rate.  [default: nanoseconds for ED00 files]",
        where=_CALL,
        metavar="HZ",
    )
    clock_bits: int | None = _setting(
        None,
        "Width of the counter, 8 to 64 bits; ticks wrap at 2**N.  [default: the recorded width; 64 "
        "for ED00 files]",
        where=_CALL,
        metavar="N",
        least=8,
        most=64,
    )
    salvage: bool = _setting(
        False, "Read the intact parts of a damaged file and report the rest.", where=_CALL
    )
    debug_buffer: Path | None = _setting(
        None,
        "File with the bytes of the tensors that an ETDump logged.",
        where=_CALL,
        metavar="FILE",
    )
    dump: int | None = _setting(
        None,
        "Read only the Nth dump of a file with several; a device that was reset puts the newest "
        "first.  [default: all, as one trace]",
        where=_CALL,
        metavar="N",
        least=1,
    )
    time_scales: Mapping[str, str] = _setting(
        {},
        _TIME_SCALE_HELP,
        "--time-scale",
        where=_CALL,
        metavar="PATTERN=RATE",
        documentation='Tick rates of delegates\' events by pattern: ``{"npu*": "100 MHz"}``.',
    )
    metadata: Mapping[str, str] = _setting(
        {},
        "Counters in the metadata of delegates' events (`etharness explain delegates`): "
        "'*=npu_macs:u32, npu_bytes:u32' or 'npu*=ethos-u'.  [default: those of the run] "
        "Repeatable.",
        where=_CALL,
        metavar="PATTERN=LAYOUT",
        documentation="Counters in the metadata of delegates' events by pattern: "
        '``{"npu*": "npu_macs:u32"}``.',
    )
    etrecord: Path | None = _setting(
        None, "ETRecord of the model; limits on modules need it.", where=SettingPlace.API
    )
    day: date | None = _setting(
        None,
        "Day on which waivers with an end are evaluated.  [default: that of the run, or today]",
        where=SettingPlace.API,
    )
    board: str = _setting(
        "", "Board whose rules apply to a trace without a result.", where=SettingPlace.API
    )
    model: str = _setting("", "Model whose rules apply, likewise.", where=SettingPlace.API)


def parse_share(text: str) -> float:
    """Read a share, such as ``3%`` or ``0.03``.

    Raises:
        ValueError: It is none, or not between 0 and 1.
    """
    number = text.strip()
    share = float(number.removesuffix("%")) / (100 if number.endswith("%") else 1)
    if not 0 < share < 1:
        raise ValueError(f"{text!r} is not between 0 and 100 %")
    return share


def _documented(help_text: str) -> str:
    """Return the help of an option as a sentence about a keyword."""
    return re.sub(r"  \[default: (.*)\]", r" Default: \1.", help_text)


def _declared(settings: type[RunSettings | ReadSettings]) -> Iterator[RunSetting]:
    types = get_type_hints(settings)
    for field in dataclasses.fields(settings):
        told = dict(field.metadata)
        told["flags"] = told["flags"] or (f"--{field.name.replace('_', '-')}",)
        told.setdefault("documentation", _documented(told["help"]))
        default = field.default if field.default is not dataclasses.MISSING else {}
        type_ = kind = types[field.name]
        if get_origin(type_) in (UnionType, Union):
            kind = next(one for one in get_args(type_) if one is not type(None))
        yield RunSetting(
            name=field.name,
            type=type_,
            default=default,
            kind=kind,
            choices=get_args(type_) if get_origin(type_) is Literal else (),
            is_file=kind is Path,
            is_files=kind == tuple[Path, ...],
            **told,
        )


SETTINGS: Final[Mapping[str, RunSetting]] = MappingProxyType(
    {setting.name: setting for setting in _declared(GivenSettings)}
)
"""All settings by name, in the order of their declaration."""


READ_SETTINGS: Final[Mapping[str, RunSetting]] = MappingProxyType(
    {setting.name: setting for setting in _declared(ReadSettings)}
)
"""All settings of reading by name, in the order of their declaration."""


def settings_in(
    place: SettingPlace, settings: Mapping[str, RunSetting] = SETTINGS
) -> list[RunSetting]:
    """Return the settings that can be given in a place."""
    return [setting for setting in settings.values() if place in setting.where]
