"""Records of flashings: ``flash.json`` and the plan of a dry run."""

from __future__ import annotations

from typing import Annotated, Any, Literal

import msgspec

from harness.records.result import Failure

FLASH = "flash.json"


FLASH_LOG = "flash.log"


class FlashAttempt(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """One attempt; ``stages`` are durations by stage, seconds, ``failure`` is "" after success."""

    duration_s: float
    stages: dict[str, float]
    failure: str = ""


class FlashSetup(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """What is flashed onto which board, and with which tool; `FlashRecord` describes the fields."""

    board: str
    tool: str
    why: str
    others: dict[str, str]
    probe: str
    image: str
    image_format: str
    image_bytes: int
    build_id: str | None


class FlashRecord(FlashSetup, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """One flashing of one board. Unknown values are null.

    ``others`` are earlier tools in the board file, with the reason why each was skipped. ``probe``
    is VID:PID:Serial, "" if the tool used no probe or selected it itself. ``commands`` are those of
    one attempt. ``verified``: the tool read back the image. ``build_id`` is that of the image,
    ``build_id_before`` and ``build_id_after`` were reported by the board. ``skipped``: the board
    already ran this build. ``failure`` is null after success.
    """

    tool_version: str
    started_utc: str
    duration_s: float
    unit: str
    version: str
    port: str | None
    image_sha256: str
    commands: tuple[tuple[str, ...], ...]
    log: str
    exit_code: Annotated[int, msgspec.Meta(ge=0, le=255)]
    attempts: tuple[FlashAttempt, ...] = ()
    verified: bool = False
    skipped: bool = False
    build_id_before: str | None = None
    build_id_after: str | None = None
    failure: Failure | None = None
    schema: Literal[1] = 1


class PlannedStep(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """A command to run; ``files`` are created before it, by path, with their sizes in bytes."""

    stage: str
    argv: tuple[str, ...]
    files: dict[str, int]


class FlashPlan(FlashSetup, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Output of ``etharness flash --dry-run --json``; fields as in ``flash.json``."""

    steps: tuple[PlannedStep, ...]


def json_schemas() -> dict[str, dict[str, Any]]:
    """Return the JSON Schemas of ``flash.json`` and of a plan, by their names."""
    return {
        "flash": msgspec.json.schema(FlashRecord),
        "flash-plan": msgspec.json.schema(FlashPlan),
    }
