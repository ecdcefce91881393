"""Runs the command of a bisection for one commit, and decides what became of it."""

from __future__ import annotations

import shutil
import signal
import time
from pathlib import Path
from typing import Any, Final

from harness.bisect.commits import Commit, clean_environment
from harness.bisect.metrics import read_metric
from harness.bisect.search import VERDICT
from harness.bisect.state import BisectRequest, CommitRun
from harness.capped import CappedFile
from harness.errors import HarnessError, UsageError
from harness.files import read_tail
from harness.runs.directory import RunDirectory
from harness.target.process_group import ProcessGroup, exit_text, with_death_signal

OUTPUT_VARIABLE: Final = "ETHARNESS_OUTPUT"
"""Environment variable of the command: the run directory that it has to leave."""

OUTPUT_PLACEHOLDER: Final = "{output}"
"""The same in the command's arguments."""

SKIP: Final = 125
"""Exit code for a commit that cannot be built or run, as for ``git bisect run``."""

_INTERRUPTED: Final = (130, -signal.SIGINT, 143)

_INFRASTRUCTURE: Final = (71, 74, 75, 76)
"""Exit codes of failures that a retry may cure: host, flashing, any of them, link."""

_MEASURED: Final = (0, 1, 3)
"""Exit codes of runs that are complete: passed, a check failed, not comparable."""

_FAILED: Final = (1, 4)
"""Exit codes of a failing run for the metric ``verdict``: a check failed, the target crashed."""

_ASK_S: Final = 15.0
"""Time for the command to end after an interrupt: a board completes its current execution."""

_TAIL_BYTES: Final = 2000


def run_commit(request: BisectRequest, commit: Commit, tree: Path, folder: Path) -> CommitRun:
    """Run the command for a commit that is checked out.

    Args:
        request: What to run, and what to measure.
        commit: The commit.
        tree: Working tree of the commit.
        folder: Run directory to leave; the command's output is logged in a file beside it.

    Raises:
        UsageError: The command cannot be started.
        KeyboardInterrupt: It was interrupted.
    """
    shutil.rmtree(folder, ignore_errors=True)
    folder.parent.mkdir(parents=True, exist_ok=True)
    log = folder.with_name(f"{folder.name}.log")
    began = time.monotonic()
    code = _run(request, commit, tree, folder, log)
    found: dict[str, Any] = {
        "commit": commit.sha,
        "exit_code": code,
        "seconds": round(time.monotonic() - began, 3),
        "run": folder.name if RunDirectory(folder).is_one else "",
    }
    if code is None:
        reason = f"timed out after {request.timeout_s:g} s"
        return CommitRun(outcome="infrastructure", reason=reason, **found)
    if code in _INTERRUPTED:
        raise KeyboardInterrupt("the command was interrupted")
    reason = exit_text(code)
    if last := _last_line(log):
        reason = f"{reason}: {last}"
    if code < 0 or code in _INFRASTRUCTURE:
        return CommitRun(outcome="infrastructure", reason=reason, **found)
    if request.metric == VERDICT:
        if code != 0 and code not in _FAILED:
            return CommitRun(outcome="skipped", reason=reason, **found)
        fails = float(code in _FAILED)
        return CommitRun(outcome="measured", value=fails, repeatable=_is_emulated(folder), **found)
    if code not in _MEASURED:
        return CommitRun(outcome="skipped", reason=reason, **found)
    if not found["run"]:
        reason = f"no run directory in {OUTPUT_PLACEHOLDER} or ${OUTPUT_VARIABLE}; {reason}"
        return CommitRun(outcome="skipped", reason=reason, **found)
    return _measured(request, folder, found)


def _measured(request: BisectRequest, folder: Path, found: dict[str, Any]) -> CommitRun:
    """Read the value of a run that is complete."""
    try:
        reading, result = read_metric(folder, request.metric)
    except HarnessError as error:
        return CommitRun(outcome="skipped", reason=error.message, **found)
    if result.failure is not None:  # a script may not pass the exit code on
        retry = result.exit_code in _INFRASTRUCTURE
        outcome: Any = "infrastructure" if retry else "skipped"
        return CommitRun(outcome=outcome, reason=result.failure.message, **found)
    return CommitRun(
        outcome="measured",
        value=reading.value,
        unit=reading.unit,
        resolution=reading.resolution,
        repeatable=reading.repeatable,
        **found,
    )


def _is_emulated(folder: Path) -> bool:
    """Whether the run was on an emulator, whose runs are all alike."""
    run = RunDirectory(folder)
    try:
        return run.is_one and run.read_result().emulated_time
    except HarnessError:
        return False


def _run(request: BisectRequest, commit: Commit, tree: Path, folder: Path, log: Path) -> int | None:
    """Run the command; return its exit code, None if it timed out."""
    output = str(folder)
    words = [word.replace(OUTPUT_PLACEHOLDER, output) for word in request.command]
    environment = clean_environment()
    environment |= {OUTPUT_VARIABLE: output, "ETHARNESS_COMMIT": commit.sha}
    # A commit may be from before the folder.
    place = tree / request.folder if (tree / request.folder).is_dir() else tree
    with CappedFile(log) as written:
        try:
            # The kernel ends it if this process is killed.
            command = with_death_signal(words)
            child = ProcessGroup(command, stdout=written.write, cwd=place, env=environment)
        except OSError as error:
            raise UsageError(
                f"the command {words[0]!r} cannot be started: {error.strerror or error}",
                hint="the command is started in a checkout of each commit: give the path of a "
                "program outside of it from the root",
            ) from error
        try:
            in_time = child.wait(request.timeout_s)
        except KeyboardInterrupt:
            # It has a session of its own, so the terminal's Ctrl-C did not reach it.
            child.signal(signal.SIGINT)
            child.wait(_ASK_S)
            raise
        finally:
            code = child.end()
    return code if in_time else None


def _last_line(log: Path) -> str:
    """Return the last line that the command wrote."""
    text = read_tail(log, _TAIL_BYTES).decode(errors="backslashreplace")
    lines = [line.strip() for line in text.splitlines() if line.strip()]
    return lines[-1] if lines else ""
