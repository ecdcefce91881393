"""Result: what one run was and how it ended, as ``result.json`` keeps it.

The JSON Schema in ``schema/result.schema.json`` is generated from these classes. Times are
nanoseconds or seconds as the names say; sizes are bytes.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from hashlib import sha256
from typing import Annotated, Any, Final, Literal

import msgspec

from harness import __version__
from harness.errors import DamagedError, Owner, UsageError
from harness.records.clock_domain import Ping
from harness.records.verdict import Check

SCHEMA: Final = 1

UNFINISHED: Final = "Unfinished"
"""The kind of failure that stands in a result until what it is of has ended."""

RESTORE: Final = (
    "restore the file, or the whole directory with `etharness replay BUNDLE --out DIRECTORY`; "
    "or run again"
)
"""What to try when a file of a run directory is damaged."""


class _ResultRecord(msgspec.Struct, frozen=True):
    """A JSON object of a result; keys that a later version added are ignored.

    Within a schema version fields are only ever added, each with a default (docs/run-directory.md).
    """


class ClockRecord(_ResultRecord, frozen=True):
    """A clock domain; the rate is hz_numerator / hz_denominator ticks per second, 0/1 unknown."""

    name: str
    bits: int
    down: bool
    hz_numerator: int
    hz_denominator: int


class TargetRecord(_ResultRecord, frozen=True):
    """What the firmware said of itself and of its memory."""

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


class TensorRecord(_ResultRecord, frozen=True):
    """An input or output; ``file`` is relative to the run directory."""

    scalar_type: int
    sizes: tuple[int, ...]
    nbytes: int
    file: str


class DelegateCall(_ResultRecord, frozen=True):
    """An instruction that calls a delegate of this backend."""

    chain: int
    instruction: int
    backend: str


class Model(_ResultRecord, frozen=True):
    """The program that ran; ``planned`` are the bytes planned for each allocator, by name."""

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


class TraceSummary(_ResultRecord, frozen=True):
    """The log that was pulled, and everything that is missing from it or from its ED00 copy.

    ``executions`` are those in the log; null in results from before they were counted.
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


class VerdictRecord(_ResultRecord, frozen=True):
    """What the checks said, and the budget file that they came from; "" for none."""

    passed: bool
    budget: str
    checks: tuple[Check, ...]


class ReferenceRecord(_ResultRecord, frozen=True):
    """What outputs should be: a file per output, relative to the run directory, and how far off an
    element may be, as a share of the reference and besides; null for what its type allows.
    """

    files: tuple[str, ...]
    rtol: float | None
    atol: float | None


class Failure(_ResultRecord, frozen=True):
    """Why a run did not end: the error's class, its message and hint, and who has to look at it;
    null in results from before that was told.
    """

    kind: str
    message: str
    hint: str
    owner: Owner | None = None


class FileRecord(_ResultRecord, frozen=True):
    """A file of a run directory as its run left it."""

    nbytes: int
    sha256: str


class Result(_ResultRecord, frozen=True):
    """One run of one model on one target. What a failed run never got to know is null.

    ``baud`` is the rate of the line, 0 when it has none or is not known. ``restart`` is when the
    run set the device's clock to zero, ``clock_quality`` how well it is known when events were.
    ``time_scales`` say what the ticks of delegates' events mean, by patterns (docs/clocks.md).
    ``id`` is the result's own. ``unit`` is the board of this type, ``commit`` what was tested, and
    ``session`` what results have in common that were made together. ``image`` is the size of the
    firmware, where it was built here. ``console_left_out`` are bytes of the board's text that are
    not in console.log, which has its head and its tail.
    ``files`` are the files of the run directory by name, null until the run has ended and in
    results from before they were recorded. ``digest`` is the SHA-256 of this document without it
    (``digest_of``), "" where ``files`` is null.
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
    time_scales: dict[str, str] = {}
    reference: ReferenceRecord | None = None
    verdict: VerdictRecord | None = None
    failure: Failure | None = None
    files: dict[str, FileRecord] | None = None
    digest: str = ""
    schema: Literal[1] = SCHEMA

    @property
    def unfinished(self) -> bool:
        """Whether it was written before its run had ended, which may go on or have been cut off."""
        return self.failure is not None and self.failure.kind == UNFINISHED


def corrupt_frames(link: Mapping[str, int]) -> int:
    """How many frames a link has rejected, whatever for."""
    return sum(count for name, count in link.items() if name.startswith("corrupt_"))


def bytes_carried(link: Mapping[str, int]) -> int:
    """Bytes that a link has carried, in both directions."""
    return link.get("bytes_sent", 0) + link.get("bytes_received", 0)


def encode(document: object) -> bytes:
    """Return the indented JSON of a result, or of any other document that a command prints."""
    return msgspec.json.format(msgspec.json.encode(document), indent=2) + b"\n"


def digest_of(data: bytes) -> str:
    """Return the SHA-256, in hex, of the JSON of a result, less its ``digest``.

    It is that of the document with sorted keys and without white space, so that it does not depend
    on how the file is laid out, nor on fields that another version has.
    """
    document = msgspec.json.decode(data)
    document.pop("digest", None)
    return sha256(json.dumps(document, sort_keys=True, separators=(",", ":")).encode()).hexdigest()


def decode(data: bytes, where: str) -> Result:
    """Read the JSON of a result, also of one from before results had an id.

    The digest of what can be read is not checked: ``RunDirectory.read_result`` does that.

    Raises:
        UsageError: It is no result of this version; the message names ``where`` and the key.
        DamagedError: It is no JSON, or cannot be read and has another digest than it says.
    """
    try:
        data.decode()  # msgspec does not look at the text of what it skips
        return msgspec.json.decode(data, type=Result)
    except (msgspec.DecodeError, UnicodeDecodeError) as error:
        earlier = _before_ids(data)
        if earlier is None:
            raise _undecodable(data, where, error) from error
    try:
        return msgspec.convert(earlier, Result)
    except msgspec.ValidationError as error:
        raise _undecodable(data, where, error) from error


def _undecodable(data: bytes, where: str, error: Exception) -> UsageError:
    """What there is to say of a result that cannot be read."""
    try:
        document = msgspec.json.decode(data)
    except (msgspec.DecodeError, UnicodeDecodeError):
        return DamagedError(f"{where}: damaged: it is no JSON: {error}", hint=RESTORE)
    records = isinstance(document, dict) and (document.get("files") or document.get("digest"))
    if records and document.get("digest") != digest_of(data):
        said = "its digest is not the one that it records"
        return DamagedError(f"{where}: damaged: {said}: {error}", hint=RESTORE)
    schema = document.get("schema", SCHEMA) if isinstance(document, dict) else SCHEMA
    if schema != SCHEMA:
        return UsageError(
            f"{where}: not a result of this version: it has schema {schema}, etdump-harness "
            f"{__version__} reads schema {SCHEMA}",
            hint="install the version that wrote it, which tool_version names: "
            f"{document.get('tool_version', 'unknown')}",
        )
    return UsageError(f"{where}: not a result of this version: {error}")


def _before_ids(data: bytes) -> dict[str, Any] | None:
    """What results lacked before they had an id, filled in; None if this is not such a one.

    The id is made of the bytes, so that it is always the same. Checks had no codes then: only what
    came of all of them is left.
    """
    try:
        document = msgspec.json.decode(data)
    except (msgspec.DecodeError, UnicodeDecodeError):
        return None
    if not isinstance(document, dict) or "id" in document:
        return None
    own_id = sha256(data).hexdigest()[:32]
    unit = document.get("port") or document.get("board", "")
    if isinstance(verdict := document.get("verdict"), dict):
        document["verdict"] = {**verdict, "checks": []}
    return {"id": own_id, "unit": unit, "commit": "", "session": own_id, **document}


def json_schema() -> dict[str, Any]:
    """Return the JSON Schema of ``result.json``."""
    return msgspec.json.schema(Result)


@dataclass(frozen=True, slots=True)
class ClockQuality:
    """How well it is known when the events of a clock were.

    Attributes:
        clock: Its name.
        reference: The clock that readings tie it to: ``host``, or another of the target's.
        readings: How many of these there are, in the epochs that hold events.
        epochs: Why each epoch begins, of all readings.
        events: How many events the clock stamped.
        placed: How many of them are on the timeline of an epoch.
        bounded: How many of them are known to have begun and ended between two instants.
        half_width_ns: How far the middle of these may be off on the host's clock, at most; null
            when none is known.
        silent_wraps: Wraps of the counter that passed among events, nobody knows between which.
        unsettled: How many events may be later than they are placed, because of these.
        rate_ppm: How far the clock's rate is off the declared one against the reference, at least
            and at most, parts per million; null when not known.
        unknown: Why events are not bounded, when some are not.
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
    """Bytes of a part of the firmware.

    Attributes:
        part: A room, or ``image``.
        text: Code and constants.
        data: Initialised variables.
        bss: Zeroed variables.
    """

    part: str
    text: int
    data: int
    bss: int
