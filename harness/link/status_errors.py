"""Errors for answers of a device with a status other than OK."""

from __future__ import annotations

from typing import Final

from harness.errors import DeviceRefusedError, RunInProgressError
from harness.link.values import DeviceOutcome, RunInProgress
from harness.link.wire import DetailKind, ExecutorchError, Op, Status

_DEFAULT_MESSAGES: Final[dict[int, str]] = {
    Status.BAD_REQUEST: "malformed request",
    Status.UNKNOWN_OP: "unknown request",
    Status.WRONG_STATE: "not possible in its present state",
    Status.TOO_LARGE: "too large",
    Status.GAP: "bytes are missing",
    Status.DIGEST_MISMATCH: "the digest does not match the bytes received",
    Status.BAD_PROGRAM: "invalid program",
    Status.UNSUPPORTED_OPERATOR: "missing kernel for an operator of the program",
    Status.UNSUPPORTED_FEATURE: "the program needs an unsupported feature",
    Status.OUT_OF_MEMORY: "out of memory",
    Status.KERNEL_FAILED: "a kernel failed",
    Status.BAD_INPUT: "an input is missing or of the wrong size",
    Status.BAD_REGION: "no such region",
    Status.BAD_VERSION: "no common link version",
    Status.NO_METHOD: "the program has no such method",
    Status.CANCELLED: "the run was cancelled",
}
"""Messages for devices that send only a status."""


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
    Status.BAD_VERSION: "the device has version {}",
}
"""Meaning of the detail number, by status."""


_OTHER_VERSION: Final = "build and flash firmware of this version of the harness"


_HINTS: Final[dict[int, str]] = {
    Status.UNSUPPORTED_OPERATOR: "add a kernel to the firmware, or export a model without it",
    Status.OUT_OF_MEMORY: "give the board a larger arena, or use a smaller model",
    Status.TOO_LARGE: "use a smaller model, or a board with more memory",
    Status.BAD_VERSION: _OTHER_VERSION,
    Status.UNKNOWN_OP: _OTHER_VERSION,
}


def executorch_error_name(code: int) -> str:
    """Return an error code of ExecuTorch as ``ExecuTorch Error 0x14 OperatorMissing``."""
    try:
        name = ExecutorchError(code).name.title().replace("_", "")
    except ValueError:  # of a later version
        name = ""
    return f"ExecuTorch Error 0x{code:02x} {name}".rstrip()


def refusal_error(
    board: str, op: Op, outcome: DeviceOutcome, circumstance: str = ""
) -> DeviceRefusedError:
    """Return the error for a request or run that ended with a status other than OK.

    ``circumstance`` is appended to the message.
    """
    words = outcome.message or _DEFAULT_MESSAGES.get(outcome.status, f"status {outcome.status}")
    executorch = outcome.detail_kind == DetailKind.EXECUTORCH
    if executorch:
        explained = f" ({executorch_error_name(outcome.detail)})"
    else:
        detail = _DETAILS.get(outcome.status)
        explained = f" ({detail.format(outcome.detail)})" if detail else ""
    return DeviceRefusedError(
        f"{board}: the device refused {op.name}: {words}{explained}{circumstance}",
        status=outcome.status,
        detail=outcome.detail,
        executorch_error=outcome.detail if executorch else None,
        hint=_HINTS.get(outcome.status, ""),
    )


def busy_error(board: str, run: RunInProgress) -> RunInProgressError:
    """Return the error for a request that the device refused because of a run."""
    return RunInProgressError(
        f"{board}: the board is busy with run {run.run_id}: {run.completed} of {run.count} "
        f"executions after {run.elapsed_s:.3g} s",
        run_id=run.run_id,
        completed=run.completed,
        count=run.count,
    )
