"""Result: inputs, measurements and outcome of one run, as stored in ``result.json``.

The JSON Schema in ``schema/result.schema.json`` is generated from these classes. Times are
nanoseconds or seconds as the names say; sizes are bytes.

``contradiction`` finds damage that keeps the digest of ``result.json`` right: what a result says
twice, and differently, because it was edited or mixed from two runs. Without these rules a result
that lost its reference, its outputs or its budget would pass, because nothing would be left to
compare.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from hashlib import sha256
from pathlib import PurePath, PurePosixPath
from typing import Annotated, Any, Final, Literal

import msgspec

from harness import __version__
from harness.errors import DamagedError, FormatError, Owner, UsageError
from harness.files import decode_json
from harness.printing import printable
from harness.records.energy import EnergyRecord
from harness.records.measurement import MeasurementSettings
from harness.records.trace import CounterPassesRecord, HardwareCounter, InstructionRecord, Ping
from harness.records.verdict import OUTPUTS, Check, Verdict


def now_utc(timespec: str = "seconds") -> str:
    """Return the current time, ISO 8601, UTC, as precise as ``timespec`` of ``isoformat``."""
    return datetime.now(UTC).isoformat(timespec=timespec)


def moment(when: str) -> datetime:
    """Parse a timestamp.

    Raises:
        FormatError: The text is not a timestamp.
    """
    try:
        time = datetime.fromisoformat(when)
    except ValueError:
        raise FormatError(
            f"invalid time {when!r}", hint="use 2026-11-21 or 2026-11-21T23:00:00+00:00"
        ) from None
    return time if time.tzinfo else time.replace(tzinfo=UTC)


def microseconds(when: str) -> int:
    """Parse a timestamp into microseconds since 1970.

    Raises:
        FormatError: The text is not a timestamp.
    """
    since = moment(when) - datetime(1970, 1, 1, tzinfo=UTC)
    return (since.days * 86_400 + since.seconds) * 1_000_000 + since.microseconds


SCHEMA: Final = 1

UNFINISHED: Final = "Unfinished"
"""Kind of failure in a result until its run has ended."""

RESTORE: Final = (
    "restore the file, or the whole directory with `etharness replay BUNDLE --out DIRECTORY`; "
    "or run again"
)
"""What to try when a file of a run directory is damaged."""


_Ppm = Annotated[float, msgspec.Meta(ge=0, lt=1_000_000)]


class _ResultRecord(msgspec.Struct, frozen=True):
    """A JSON object of a result; keys that a later version added are ignored.

    Within a schema version fields are only ever added, each with a default (docs/run-directory.md).
    """


class ClockRecord(_ResultRecord, frozen=True):
    """A clock domain; the rate is hz_numerator / hz_denominator ticks per second, 0/1 unknown.
    Its tolerance is null if the board file declares none.
    """

    name: str
    bits: Annotated[int, msgspec.Meta(ge=8, le=64)]
    down: bool
    hz_numerator: Annotated[int, msgspec.Meta(ge=0, lt=1 << 32)]
    hz_denominator: Annotated[int, msgspec.Meta(ge=1, lt=1 << 32)]
    monotonic: bool = False
    tolerance_ppm: _Ppm | None = None
    wander_ppm: _Ppm = 0.0


BUNDLED_RUNTIME: Final = "bundled C runtime"
"""Name of the C runtime in HELLO, which its kernels' name already says."""


class TargetRecord(_ResultRecord, frozen=True):
    """The firmware's description of itself and of its memory.

    ``runtime`` and ``kernels`` name the runtime and its kernel library, such as ``ExecuTorch
    1.5.1`` and ``CMSIS-NN``; "" if the firmware does not report them, as older firmware.
    """

    board: str
    cpu: str
    build_id: str
    link_version: int
    mtu: int
    clocks: tuple[ClockRecord, ...]
    model_capacity: int
    arena_capacity: int
    input_capacity: int
    trace_capacity: int
    debug_capacity: int
    probe_ticks: int
    probe_pairs: int
    operators: int
    runtime: str = ""
    kernels: str = ""

    @property
    def software(self) -> str:
        """Whose kernels run, such as ``ExecuTorch 1.5.1 with CMSIS-NN``; "" if not reported."""
        if self.runtime in ("", BUNDLED_RUNTIME):
            return self.kernels
        return f"{self.runtime} with {self.kernels}"


@dataclass(frozen=True, slots=True)
class ClockQuality:
    """Accuracy of the times of a clock's events.

    Attributes:
        clock: Its name.
        reference: The clock that its readings refer to: ``host``, or another one of the target.
        readings: Number of readings in epochs with events.
        epochs: Reason for the start of each epoch, over all readings.
        events: Number of events on the clock.
        placed: Number of these on the timeline of an epoch.
        bounded: Number of these with bounds for their start and end.
        half_width_ns: Largest error of the middle of the bounds, on the host's clock; null if
            unknown.
        silent_wraps: Counter wraps among events at unknown positions.
        unsettled: Number of events that may be later than placed because of these wraps.
        rate_ppm: Smallest and largest deviation of the clock's rate from the declared one against
            the reference, parts per million; null if unknown.
        unknown: Reason why events are not bounded, if some are not.
    """

    clock: str
    reference: str
    readings: int
    epochs: tuple[str, ...]
    events: int
    placed: int
    bounded: int
    half_width_ns: int | None
    silent_wraps: int
    unsettled: int
    rate_ppm: tuple[float, float] | None
    unknown: str


@dataclass(frozen=True, slots=True)
class FirmwareSize:
    """Size of a part of the firmware, bytes.

    Attributes:
        part: A source folder, or ``image``.
        text: Code and constants.
        data: Initialized variables.
        bss: Zeroed variables.
    """

    part: str
    text: int
    data: int
    bss: int


class TensorRecord(_ResultRecord, frozen=True):
    """An input or output; ``file`` is relative to the run directory."""

    scalar_type: int
    sizes: tuple[int, ...]
    nbytes: int
    file: str


class DelegateOperator(_ResultRecord, frozen=True):
    """An operation of a delegate, as its blob describes it.

    Attributes:
        name: What it computes, such as ``conv 3x3``.
        operands: Types and shapes, such as ``int8[8, 8, 3] -> int8[8, 8, 16]``.
        macs: Multiply-accumulates.
        weight_bytes: Bytes of its weights, scales and biases, as they are stored.
        dma_bytes: Bytes that are copied for it before it begins.
        read: Bytes that it reads, by memory, with those that it reads again.
        written: Bytes that it writes, by memory.
        cycles: Its compiler's estimate of cycles; null without one.
    """

    name: str
    operands: str = ""
    macs: int = 0
    weight_bytes: int = 0
    dma_bytes: int = 0
    read: dict[str, int] = {}
    written: dict[str, int] = {}
    cycles: int | None = None


class DelegateWork(_ResultRecord, frozen=True):
    """What a delegate does, as a decoder of its blob found.

    Attributes:
        target: What it was compiled for; "" if it is not known.
        operators: Its operations, in order.
        constant_bytes: Bytes of its constants.
        scratch_bytes: Bytes of memory that one execution needs.
        estimated_by: The tool that estimated cycles; "" without an estimate.
        notes: What is not known, a sentence each.
    """

    target: str = ""
    operators: tuple[DelegateOperator, ...] = ()
    constant_bytes: int = 0
    scratch_bytes: int = 0
    estimated_by: str = ""
    notes: tuple[str, ...] = ()


class DelegateCall(_ResultRecord, frozen=True):
    """An instruction that calls a delegate of this backend; ``work`` is null in old results."""

    chain: int
    instruction: int
    backend: str
    work: DelegateWork | None = None

    @property
    def macs(self) -> int | None:
        """Multiply-accumulates of the delegate; None where its work is not known."""
        operators = self.work.operators if self.work is not None else ()
        return sum(each.macs for each in operators) if operators else None


class Model(_ResultRecord, frozen=True):
    """The program that ran; ``planned`` are the bytes planned for each allocator, by name.

    Of a bundled program it is the program within, whose length and digest it has; for the whole run
    with the memory of the method that takes most, and ``method`` is empty.

    ``name`` is the one that its run was given, and absent without one.
    ``outputs_unread`` is why a debug probe did not read the outputs, "" for all other runs.
    ``temporary_bytes`` is the most memory that the runtime's temporary allocator had in use, as it
    reports; absent if it reports none.
    ``chains`` are the method's instructions, per chain; null if the host could not read the file,
    and in results of older versions.
    ``sections`` are what extensions say of a program, by their names.
    ``data`` are the ``.ptd`` files with its external data, which its length and digest include.
    """

    file: str
    sha256: str
    nbytes: int
    planned_bytes: int
    method_bytes: int
    inputs: tuple[TensorRecord, ...]
    outputs: tuple[TensorRecord, ...]
    method: str = "forward"
    delegates: tuple[DelegateCall, ...] = ()
    planned: dict[str, int] = {}
    chains: tuple[tuple[InstructionRecord, ...], ...] | None = None
    outputs_unread: str = ""
    name: str | msgspec.UnsetType = msgspec.UNSET
    temporary_bytes: int | msgspec.UnsetType = msgspec.UNSET
    sections: dict[str, Any] | msgspec.UnsetType = msgspec.UNSET
    data: tuple[str, ...] | msgspec.UnsetType = msgspec.UNSET

    @property
    def known_as(self) -> str:
        """Its name in budgets and histories: the given one, else the name of its file."""
        return self.name or PurePath(self.file).name

    @property
    def arena_bytes(self) -> int:
        """Bytes of the arena that it takes."""
        return self.planned_bytes + self.method_bytes

    @property
    def changes_state(self) -> bool:
        """Whether a kernel changes buffers of the model, as ``aten::copy_`` does."""
        names = (step.name.partition(".")[0] for chain in self.chains or () for step in chain)
        return any(name.endswith("_") and not name.endswith("__") for name in names)


class TraceSummary(_ResultRecord, frozen=True):
    """The downloaded log, and everything missing from it or from its ED00 copy.

    ``executions`` is the number of executions in the log; null in results of older versions.
    ``streaming_ticks`` and ``waiting_ticks`` are the ticks of sending it and waiting for the host.
    ``probe_pairs`` empty events took ``probe_ticks`` while the hardware counters were read; 0
    without counters, or if the firmware did not measure it.
    """

    events: int
    blocks: int
    log_bytes: int
    sha256: str
    dropped_events: int
    dropped_blocks: int
    missing_chunks: int
    missing_records: int
    streaming_ticks: int
    stack_used: int
    stack_size: int
    values: int
    dropped_values: int
    dropped_runs: int
    value_ticks: int
    debug_bytes: int
    etdp_left_out_allocations: int
    etdp_left_out_values: int
    executions: int | None = None
    waiting_ticks: int = 0
    counters: tuple[HardwareCounter, ...] = ()
    passes: CounterPassesRecord | None = None
    etdp_left_out_counts: int = 0
    probe_ticks: int = 0
    probe_pairs: int = 0


class VerdictRecord(_ResultRecord, frozen=True, omit_defaults=True):
    """Results of the checks, the budget file, "" for none, and its copy in the run directory.

    ``repeats`` is the number of further runs that it rests on, which took ``repeats_s`` seconds.
    ``disturbed``: what was suspect is in runs of the baseline's model and firmware, too, so the
    numbers say more of the session than of a change, and are no baseline for later runs.
    """

    passed: bool
    budget: str
    checks: tuple[Check, ...]
    budget_copy: str = ""
    repeats: int = 0
    repeats_s: float | None = None
    disturbed: bool = False


class ReferenceRecord(_ResultRecord, frozen=True):
    """Reference outputs: a file per output, relative to the run directory, and the relative and
    absolute tolerance of an element; null for the default of its type.
    """

    files: tuple[str, ...]
    rtol: float | None
    atol: float | None


class StepRecord(_ResultRecord, frozen=True):
    """A step of a sequence: its inputs and its outputs, and files of expected outputs, if given."""

    inputs: tuple[TensorRecord, ...]
    outputs: tuple[TensorRecord, ...]
    reference: tuple[str, ...] = ()


ACCURACY_METRICS: Final = ("top1", "auc", "mean_error", "rms_error", "max_error")

_LARGEST_FLOAT32: Final = 2.0**128 - 2.0**104


class AccuracyRecord(_ResultRecord, frozen=True):
    """How right a model is over the samples of a file (docs/accuracy.md).

    ``ran`` of ``samples`` gave outputs; ``failures`` counts the others by their reason. Outputs of
    ``not_numbers`` samples are infinite or no number. ``top1`` is the share of samples whose label
    is the largest output, ``auc`` the probability that an anomaly scores above another sample by
    ``score``: "output", "class 1 - class 0" or "reconstruction error"; the errors are over all
    elements of all outputs. Metrics that the file is not for are null; ``unknown`` says why those
    of ``unknown_metrics``, which it is for, are null, too.
    """

    file: str
    sha256: str
    samples: int
    ran: int
    top1: float | None = None
    auc: float | None = None
    mean_error: float | None = None
    rms_error: float | None = None
    max_error: float | None = None
    score: str = ""
    not_numbers: int = 0
    failures: dict[str, int] = {}
    unknown: str = ""
    unknown_metrics: tuple[str, ...] = ()

    @property
    def losses(self) -> dict[str, float]:
        """Its metrics by name, the larger the worse: wrong shares, and errors.

        Those of outputs that are not numbers are the worst there are, in float32.
        """
        worst = dict.fromkeys(self.unknown_metrics, _LARGEST_FLOAT32)
        errors = {name: worst.get(name, getattr(self, name)) for name in ACCURACY_METRICS}
        shares = {name: errors.pop(name) for name in ("top1", "auc")}
        found = {
            f"1 - {name}": 1.0 if name in worst else 1 - share
            for name, share in shares.items()
            if share is not None
        }
        return found | {name: error for name, error in errors.items() if error is not None}


class TestSetRecord(_ResultRecord, frozen=True):
    """The run of one test set of a bundled program: its method, its number among the test sets of
    the method, the id of its result, and its run directory, relative to that of the whole.
    """

    __test__ = False  # pytest collects classes called Test*

    method: str
    index: int
    id: str
    directory: str
    exit_code: int


class Failure(_ResultRecord, frozen=True):
    """Why a run did not end: class, message and hint of the error, and its owner (null in results
    of older versions).
    """

    kind: str
    message: str
    hint: str
    owner: Owner | None = None


class FileRecord(_ResultRecord, frozen=True):
    """Size and digest of a file of a run directory at the end of the run."""

    nbytes: int
    sha256: str


class Result(_ResultRecord, frozen=True):
    """One run of one model on one target. Fields that a failed run did not reach are null.

    ``baud`` is the baud rate of the line, 0 if it has none or it is unknown. ``restart`` is when
    the run set the device's clock to zero, ``clock_quality`` is the accuracy of event times.
    ``time_scales`` are the tick rates of delegates' events, by pattern (docs/clocks.md);
    ``metadata`` are the counters in their metadata, likewise (docs/delegates.md). ``id``
    identifies the result. ``unit`` is the physical board, ``commit`` the tested commit, ``session``
    a label for results recorded together. ``settings`` are how it was measured, null in results of
    older versions and of ``etharness pull``. ``image`` is the firmware size, known only for runs
    that built the firmware. ``emulated_time``: the device's clocks count an emulator's steps, not
    real time. ``core`` is what the core can do at most, null if its board file does not say.
    ``console_left_out`` is the number of bytes omitted from console.log, which has head
    and tail of the board's console text.
    ``test_sets`` are the runs of a bundled program's test sets. Each has a run directory of its own
    with inputs, outputs and trace; the result of the whole has the verdict of all of them, and
    neither trace nor outputs. ``test_set`` is the number of the test set that ran, null for a run
    of anything else; its method is that of ``model``.
    ``steps`` are those of a sequence, absent without one; inputs and outputs of ``model`` are then
    those of the last step, and ``reference`` has the tolerances.
    ``energy`` is what the run drew, null if no meter recorded it; ``accuracy`` is over the samples
    of ``--dataset``, null without it.
    ``role`` is set in runs that looked again at a suspect change of another result, with what it
    ran or with what its baseline ran: they are evidence for its verdict, and no results of a
    history.
    ``files`` are the files of the run directory by name, null until the run has ended and in
    results of older versions. ``digest`` is the SHA-256 of this document without it
    (``digest_of``), "" if ``files`` is null.
    """

    id: str
    tool_version: str
    started_utc: str
    duration_s: float
    board: str
    port: str | None
    unit: str
    commit: str
    session: str
    runs_requested: int
    runs_completed: int
    seed: int
    exit_code: Annotated[int, msgspec.Meta(ge=0, le=255)]
    settings: MeasurementSettings | None = None
    target: TargetRecord | None = None
    image: FirmwareSize | None = None
    model: Model | None = None
    trace: TraceSummary | None = None
    baud: int = 0
    console_left_out: int = 0
    link: dict[str, int] = {}
    pings: tuple[Ping, ...] = ()
    restart: Ping | None = None
    clock_quality: tuple[ClockQuality, ...] = ()
    emulated_time: bool = False
    core: CoreRecord | None = None
    time_scales: dict[str, str] = {}
    metadata: dict[str, str] = {}
    reference: ReferenceRecord | None = None
    verdict: VerdictRecord | None = None
    failure: Failure | None = None
    test_set: int | None = None
    test_sets: tuple[TestSetRecord, ...] = ()
    steps: tuple[StepRecord, ...] | msgspec.UnsetType = msgspec.UNSET
    energy: EnergyRecord | None = None
    accuracy: AccuracyRecord | None = None
    role: Literal["second look", "baseline"] | msgspec.UnsetType = msgspec.UNSET
    files: dict[str, FileRecord] | None = None
    digest: str = ""
    schema: Literal[1] = SCHEMA

    @property
    def hidden_wraps(self) -> int:
        """Whole wraps of the target's clock among the events of its log, at unknown positions.

        0 for emulated time, of which readings of the host say nothing.
        """
        if self.emulated_time:
            return 0
        return sum(clock.silent_wraps for clock in self.clock_quality if clock.reference == "host")

    @property
    def unfinished(self) -> bool:
        """Whether its run had not ended: it is still going on, or was interrupted."""
        return self.failure is not None and self.failure.kind == UNFINISHED


def recorded_settings(result: Result | None) -> MeasurementSettings | None:
    """Return how a run was measured; None if it was not recorded, or for a trace alone."""
    return None if result is None else result.settings


def corrupt_frames(link: Mapping[str, int]) -> int:
    """Return the number of frames that a link rejected, for any reason."""
    return sum(count for name, count in link.items() if name.startswith("corrupt_"))


def bytes_carried(link: Mapping[str, int]) -> int:
    """Return the number of bytes transferred, in both directions."""
    return link.get("bytes_sent", 0) + link.get("bytes_received", 0)


def encode(document: object) -> bytes:
    r"""Return the indented JSON of a result, or of any other document printed by a command.

    Bytes of a name that are not UTF-8 become ``\xNN``.
    """
    try:
        data = msgspec.json.encode(document)
    except UnicodeEncodeError:
        data = msgspec.json.encode(_encodable(msgspec.to_builtins(document)))
    return msgspec.json.format(data, indent=2) + b"\n"


def _encodable(value: Any) -> Any:
    if isinstance(value, str):
        return re.sub("[\ud800-\udfff]", lambda found: printable(found[0]), value)
    if isinstance(value, dict):
        return {_encodable(key): _encodable(item) for key, item in value.items()}
    return [*map(_encodable, value)] if isinstance(value, list | tuple) else value


def digest_of(data: bytes) -> str:
    """Return the SHA-256, in hex, of the JSON of a result without its ``digest``.

    Keys are sorted and white space is removed, so the digest does not depend on the layout of the
    file or on the version that reads it.
    """
    document = decode_json(data)
    document.pop("digest", None)
    return sha256(json.dumps(document, sort_keys=True, separators=(",", ":")).encode()).hexdigest()


def decode(data: bytes, where: str) -> Result:
    """Parse the JSON of a result, including results of versions without ids.

    The digest of a valid result is not checked here, but by ``RunDirectory.read_result``.

    Raises:
        UsageError: Not a result of this version; the message names ``where`` and the key.
        DamagedError: Not JSON, or invalid with a wrong digest.
    """
    try:
        data.decode()  # msgspec does not validate UTF-8 in skipped fields
        return decode_json(data, type_=Result)
    except (msgspec.DecodeError, UnicodeDecodeError) as error:
        earlier = _before_ids(data)
        if earlier is None:
            raise _undecodable(data, where, error) from error
    try:
        return msgspec.convert(earlier, Result)
    except msgspec.ValidationError as error:
        raise _undecodable(data, where, error) from error


def json_schema() -> dict[str, Any]:
    """Return the JSON Schema of ``result.json``."""
    return msgspec.json.schema(Result)


def _undecodable(data: bytes, where: str, error: Exception) -> UsageError:
    """Return the error for an invalid result."""
    try:
        document = decode_json(data)
    except (msgspec.DecodeError, UnicodeDecodeError):
        return DamagedError(f"{where}: damaged: not JSON: {error}", hint=RESTORE)
    records = isinstance(document, dict) and (document.get("files") or document.get("digest"))
    if records and document.get("digest") != digest_of(data):
        return DamagedError(f"{where}: damaged: wrong digest: {error}", hint=RESTORE)
    schema = document.get("schema", SCHEMA) if isinstance(document, dict) else SCHEMA
    if schema != SCHEMA:
        return UsageError(
            f"{where}: unsupported result: it has schema {schema}, etdump-harness "
            f"{__version__} reads schema {SCHEMA}",
            hint=f"install the version that wrote it: {document.get('tool_version', 'unknown')}",
        )
    return UsageError(f"{where}: not a result of this version: {error}")


def _before_ids(data: bytes) -> dict[str, Any] | None:
    """Add the missing fields to a result of a version without ids; None if it is not one.

    The id is derived from the bytes, so it is always the same. Checks had no codes then, so only
    their overall verdict is kept.
    """
    try:
        document = decode_json(data)
    except (msgspec.DecodeError, UnicodeDecodeError):
        return None
    if not isinstance(document, dict) or "id" in document:
        return None
    own_id = sha256(data).hexdigest()[:32]
    unit = document.get("port") or document.get("board", "")
    if isinstance(verdict := document.get("verdict"), dict):
        document["verdict"] = {**verdict, "checks": []}
    return {"id": own_id, "unit": unit, "commit": "", "session": own_id, **document}


def contradiction(result: Result) -> str:
    """Return the first contradiction within the result of a finished run, "" if there is none."""
    if result.files is None:
        return ""
    return next(_of_verdict(result), "") or next(_of_files(result), "")


def changed_outputs(result: Result, verdict: Verdict) -> str:
    """Return which output matches its reference now and did not in the run, "" if there is none.

    Outputs, references and tolerances are recorded, so no option and no budget changes this check;
    the default tolerance of another version may.
    """
    if result.verdict is None or result.tool_version != __version__:
        return ""
    differed = {c.subject for c in result.verdict.checks if c.code == OUTPUTS and not c.passed}
    for check in verdict.checks:
        if check.code == OUTPUTS and check.passed and check.subject in differed:
            return (
                f"it records that {check.subject} differs from its reference, but by its tolerance "
                "they match"
            )
    return ""


def _of_verdict(result: Result) -> Iterator[str]:
    """Compare the exit code with failure and verdict, and the verdict with its checks."""
    verdict = result.verdict
    if result.failure is not None:
        if result.exit_code == 0:
            yield "it records a failure, but exit code 0"
        return
    passed = True if verdict is None else verdict.passed
    if passed != (result.exit_code == 0):
        said = "no failed verdict" if passed else "a failed verdict"
        yield f"it records {said}, but exit code {result.exit_code}"
    if verdict is None or not verdict.checks:  # versions without codes recorded no checks
        return
    failed = sum(check.failed for check in verdict.checks)
    if verdict.passed != (failed == 0):
        said = "passed" if verdict.passed else "failed"
        yield f"its verdict {said}, but {failed} of its checks failed"
    if not verdict.budget and any(check.source for check in verdict.checks):
        yield "its checks name a budget, its verdict does not"


def _of_files(result: Result) -> Iterator[str]:
    """Compare the recorded files of tensors with those that model and reference name."""
    if result.failure is not None:  # it may have ended between two of them
        return
    model, reference = result.model, result.reference
    named = {
        "inputs": {tensor.file for tensor in model.inputs} if model else set(),
        "outputs": {tensor.file for tensor in model.outputs} if model else set(),
        "reference": set(reference.files) if reference else set(),
    }
    if result.steps:
        tensors = {each.file for step in result.steps for each in (*step.inputs, *step.outputs)}
        named = {"steps": tensors.union(*(step.reference for step in result.steps))}
    for folder, names in named.items():
        recorded = {
            name for name in result.files or () if PurePosixPath(name).parts[:1] == (folder,)
        }
        for name in sorted(recorded ^ names):
            where = "the model" if folder != "reference" else "the reference"
            if name in recorded:
                yield f"it records the file {name}, but {where} does not name it"
            else:
                yield f"{where} names {name}, which is not among the recorded files"


class RunIdentity(msgspec.Struct, frozen=True, omit_defaults=True):
    """What every export says about the run of a trace; texts are empty if unknown.

    Attributes:
        board: Board type.
        model: File name of the model.
        firmware: Build id of the firmware.
        kernels: Whose kernels ran: kernel library, and runtime if it is not the bundled one.
        commit: The tested commit.
        run: Id of the result.
        emulated_time: Times are of an emulator's clock, not of real time.
    """

    board: str = ""
    model: str = ""
    firmware: str = ""
    kernels: str = ""
    commit: str = ""
    run: str = ""
    emulated_time: bool = False

    @classmethod
    def of(cls, result: Result | None) -> RunIdentity:
        """Return the identity of the run of a result."""
        if result is None:
            return cls()
        return cls(
            board=result.board,
            model=result.model.known_as if result.model else "",
            firmware=result.target.build_id if result.target else "",
            kernels=result.target.software if result.target else "",
            commit=result.commit,
            run=result.id,
            emulated_time=result.emulated_time,
        )

    def texts(self) -> dict[str, str]:
        """Return all fields as text by name, in order; ``time`` is ``emulated`` or empty."""
        fields = {name: getattr(self, name) for name in self.__struct_fields__[:-1]}
        return {**fields, "time": "emulated" if self.emulated_time else ""}


NO_RUN: Final = RunIdentity()
"""The identity of a trace whose run is unknown."""


class CoreRecord(msgspec.Struct, frozen=True):
    """What a core can do at most, from the board file.

    Attributes:
        issue_width: Instructions that it can retire in a cycle.
        macs_per_cycle: Multiply-accumulates of integers.
        bytes_per_cycle: Bytes that it can load or store.
    """

    issue_width: Annotated[int, msgspec.Meta(ge=1)]
    macs_per_cycle: Annotated[float, msgspec.Meta(gt=0)]
    bytes_per_cycle: Annotated[float, msgspec.Meta(gt=0)]
