"""What one flashing was and how it ended, as ``flash.json`` keeps it and ``--json`` prints it."""

from __future__ import annotations

from typing import Annotated, Any, Literal

import msgspec

from harness.records.result import Failure

FLASH = "flash.json"


FLASH_LOG = "flash.log"


class FlashAttempt(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """One time the tool was run; ``stages`` are seconds by what was done, ``failure`` is "" if it
    went well.
    """

    duration_s: float
    stages: dict[str, float]
    failure: str = ""


class FlashRecord(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """One flashing of one board. What was not asked or not answered is null.

    ``others`` are tools that stand before this one in the board file, and why each was not taken.
    ``probe`` is its VID:PID:Serial, "" if the tool used none or chose itself. ``commands`` are
    those of one attempt. ``verified`` says that the tool read back what it had written.
    ``build_id`` is the image's, ``build_id_before`` and ``build_id_after`` are what the board
    reported. ``skipped``: it ran that build already. ``failure`` is null when it has it now.
    """

    tool_version: str
    started_utc: str
    duration_s: float
    board: str
    unit: str
    tool: str
    version: str
    why: str
    others: dict[str, str]
    probe: str
    port: str | None
    image: str
    image_format: str
    image_sha256: str
    image_bytes: int
    build_id: str | None
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
    """A command that would be run; ``files`` are made for it first, with their bytes' number."""

    stage: str
    argv: tuple[str, ...]
    files: dict[str, int]


class FlashPlan(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """What ``etharness flash --dry-run --json`` prints; names as in ``flash.json``."""

    board: str
    tool: str
    why: str
    others: dict[str, str]
    probe: str
    image: str
    image_format: str
    image_bytes: int
    build_id: str | None
    steps: tuple[PlannedStep, ...]


def json_schemas() -> dict[str, dict[str, Any]]:
    """Return the JSON Schemas of ``flash.json`` and of a plan, by their names."""
    return {
        "flash": msgspec.json.schema(FlashRecord),
        "flash-plan": msgspec.json.schema(FlashPlan),
    }
