"""Says in words what a device refused."""

from __future__ import annotations

from typing import Final

from harness.errors import DeviceRefusedError
from harness.link.answers import Outcome
from harness.link.wire import Op, Status

_DEFAULT_MESSAGES: Final[dict[int, str]] = {
    Status.BAD_REQUEST: "malformed request",
    Status.UNKNOWN_OP: "no such request",
    Status.WRONG_STATE: "not possible in its present state",
    Status.TOO_LARGE: "it does not fit",
    Status.GAP: "bytes are missing",
    Status.DIGEST_MISMATCH: "the bytes received are not the bytes announced",
    Status.BAD_PROGRAM: "the program is not valid",
    Status.UNSUPPORTED_OPERATOR: "no kernel for an operator of the program",
    Status.UNSUPPORTED_FEATURE: "the program needs a feature that is missing",
    Status.OUT_OF_MEMORY: "out of memory",
    Status.KERNEL_FAILED: "a kernel failed",
    Status.BAD_INPUT: "an input is missing or of the wrong size",
    Status.BAD_REGION: "no such region",
    Status.BAD_VERSION: "no common link version",
    Status.NO_METHOD: "the program has no such method",
}

_DETAILS: Final[dict[int, str]] = {
    Status.UNKNOWN_OP: "request type {}",
    Status.TOO_LARGE: "capacity {} bytes",
    Status.GAP: "expected offset {}",
    Status.BAD_PROGRAM: "byte {} of the file",
    Status.UNSUPPORTED_OPERATOR: "instruction {}",
    Status.UNSUPPORTED_FEATURE: "at {}",
    Status.OUT_OF_MEMORY: "{} bytes needed",
    Status.KERNEL_FAILED: "instruction {}",
    Status.BAD_INPUT: "{} bytes expected",
    Status.BAD_VERSION: "it speaks version {}",
}

_HINTS: Final[dict[int, str]] = {
    Status.UNSUPPORTED_OPERATOR: "add a kernel to the firmware, or export a model without it",
    Status.OUT_OF_MEMORY: "give the board a larger arena, or use a smaller model",
    Status.TOO_LARGE: "use a smaller model, or a board with more memory",
    Status.BAD_VERSION: "build and flash firmware of this version of the harness",
}


def refusal_error(
    board: str, op: Op, outcome: Outcome, circumstance: str = ""
) -> DeviceRefusedError:
    """Return the error for a request, or a run, that ended with a status other than OK."""
    words = outcome.message or _DEFAULT_MESSAGES.get(outcome.status, f"status {outcome.status}")
    detail = _DETAILS.get(outcome.status)
    place = f" ({detail.format(outcome.detail)})" if detail else ""
    return DeviceRefusedError(
        f"{board}: the device refused {op.name}: {words}{place}{circumstance}",
        status=outcome.status,
        detail=outcome.detail,
        hint=_HINTS.get(outcome.status, ""),
    )
