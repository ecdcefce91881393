"""One bisection: begins or goes on, runs what the search asks for, and keeps the state.

A run of a commit leaves a run directory, from which its number is read.
"""

from __future__ import annotations

import hashlib
import shutil
import signal
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from fnmatch import fnmatchcase
from pathlib import Path
from typing import Any, Final

from msgspec.structs import asdict, replace

from harness.analyze.statistics import Operator, OperatorTimes
from harness.analyze.ticks import nanoseconds_per_tick
from harness.api import EXECUTE, find_allocator, find_operators
from harness.check.history.measure import history_numbers
from harness.check.subject import Subject
from harness.errors import (
    BusyError,
    HarnessError,
    InfrastructureError,
    NotComparableError,
    UsageError,
    did_you_mean,
)
from harness.extensions.bisect.answer import BisectDocument
from harness.extensions.bisect.search import (
    VERDICT,
    Alike,
    BisectSearch,
    NextRun,
    Role,
    Unmeasurable,
)
from harness.extensions.bisect.state import (
    STATE,
    BisectRequest,
    BisectState,
    Commit,
    CommitRun,
    Reading,
    Repository,
    clean_environment,
    read_state,
    write_state,
)
from harness.files import CappedFile, display_path, read_tail
from harness.plugins import EXPLANATIONS, load_plugin
from harness.printing import counted
from harness.records.result import Result, now_utc
from harness.records.trace import EXECUTION
from harness.runs.directory import RunDirectory
from harness.runs.evaluation import find_run
from harness.runs.source import DEFAULT_OPTIONS
from harness.target.process_group import ProcessGroup, exit_text, with_death_signal
from harness.target.selection import Flock

KINDS: Final = {
    "execution": "median time of an execution",
    "operator:PATTERN": "sum of the median times of the operators with these names",
    "memory": "sum of the allocators' peaks",
    "allocator:NAME": "peak of one allocator",
    "size:NAME": "size of the result, such as text_bytes or stack_used",
    VERDICT: "whether the command passes, exit code 0, or fails, 1 or 4",
}
"""What ``--metric`` accepts."""


def check_metric(metric: str) -> None:
    """Check that a metric is one of ``KINDS``.

    Raises:
        UsageError: It is not.
    """
    kind, sign, name = metric.partition(":")
    known = {word.partition(":")[0]: ":" in word for word in KINDS}
    if kind not in known:
        raise UsageError(
            f"unknown metric {metric!r}",
            hint=f"{did_you_mean(kind, known)}metrics: {', '.join(KINDS)}",
        )
    if known[kind] != bool(sign and name):
        usage = next(word for word in KINDS if word.partition(":")[0] == kind)
        raise UsageError(f"invalid metric {metric!r}", hint=f"write it as {usage}")


def read_metric(directory: Path, metric: str) -> tuple[Reading, Result]:
    """Return the value of a metric in a run directory, and the run's result.

    Raises:
        HarnessError: The directory is damaged, its run has no trace, or nothing of that name.
    """
    run = find_run(directory)
    if run.result is None or run.subject is None:
        raise UsageError(f"{directory} has no trace to measure")
    subject, result = run.subject, run.result
    kind, _, name = metric.partition(":")
    where = directory.name
    if kind == "execution":
        times = find_operators(where, subject, EXECUTION, "*")
        return _time([times[0]], result), result
    if kind == "operator":
        return _time(find_operators(where, subject, name, EXECUTE), result), result
    size = _bytes(where, subject, kind, name)
    return Reading(value=size, unit="bytes", repeatable=True), result


def _time(found: list[OperatorTimes], result: Result) -> Reading:
    """Return the sum of the medians, in nanoseconds, or in ticks if a rate is unknown."""
    operators = [times.operator for times in found]
    rates = [nanoseconds_per_tick(operator.clock) for operator in operators]
    known = all(rate is not None for rate in rates)
    value = sum(_median(operator, known) for operator in operators)
    resolution = max(float(rate) if known and rate is not None else 1.0 for rate in rates)
    return Reading(
        value=value,
        unit="ns" if known else "ticks",
        resolution=resolution,
        repeatable=result.emulated_time,
    )


def _median(operator: Operator, known: bool) -> float:
    summary = operator.ns if known else operator.ticks
    if summary is None:
        raise UsageError(f"the durations of {operator.name} are unknown")
    return summary.p50


def _bytes(where: str, subject: Subject, kind: str, name: str) -> float:
    if kind == "allocator":
        return float(find_allocator(where, subject, name).peak_bytes)
    if kind == "memory":
        if not subject.allocators:
            raise UsageError(f"{where} has no allocators")
        return float(sum(totals.peak_bytes for totals in subject.allocators))
    numbers = history_numbers(subject).numbers
    sizes = {metric.name: value for metric, value in numbers.items() if metric.kind == "result"}
    for size, value in sizes.items():
        if fnmatchcase(size, name):
            return value
    raise UsageError(f"{where} has no size {name!r}", hint=f"there are {', '.join(sizes)}")


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
    return CommitRun(outcome="measured", **asdict(reading), **found)


def _program_of(folder: Path) -> Path:
    """Return where the program of a run is kept, beside its directory."""
    return folder.with_name(f"{folder.name}.pte")


def _keep_program(folder: Path, tree: Path, request: BisectRequest) -> None:
    """Keep the program that a commit ran, as the next checkout replaces it."""
    try:
        model = RunDirectory(folder).read_result().model
    except HarnessError:
        return
    for place in (tree / request.folder, tree):
        file = place / (model.file if model is not None else "")
        if model is not None and file.is_file() and file.stat().st_size <= _KEPT:
            data = file.read_bytes()
            if hashlib.sha256(data).hexdigest() == model.sha256:
                _program_of(folder).write_bytes(data)
                return


def explain_bisection(document: BisectDocument, state: BisectState, folder: Path) -> BisectDocument:
    """Return the answer with why the first bad commit differs, if an extension can say it."""
    plugin: Any = load_plugin(EXPLANATIONS, "compare")
    if plugin is None or None in (document.before, document.after):
        return document
    shas = [side.sha for side in (document.before, document.after) if side is not None]
    runs = {run.commit: run.run for run in state.runs if run.outcome == "measured" and run.run}
    if document.answer != "found" or not {*shas} <= {*runs}:
        return document
    folders = [folder / _RUNS / runs[sha] for sha in shas]
    models = [file for file in map(_program_of, folders) if file.is_file()]
    try:
        sources = [DEFAULT_OPTIONS.load(run, warn=False) for run in folders]
        why = plugin.explain_runs(sources, models if len(models) == len(folders) else ())
    except HarnessError:
        return document
    return replace(document, why=why)


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


FOLDER: Final = "etharness-bisect"
"""Folder of a bisection in the git directory, where no commit and no `git clean` finds it."""

_KEPT: Final = 16 << 20
"""Bytes of the largest program that is kept beside its run."""

_TREES: Final = "trees"
_RUNS: Final = "runs"
_LOCK: Final = "lock"

OnRun = Callable[[BisectSearch, NextRun, CommitRun], None]
"""Called after each run, with what follows from it."""

OnStart = Callable[[NextRun], None]
"""Called before each run."""


@dataclass(slots=True)
class Bisection:
    """A bisection of a repository; its state is saved after every run.

    Attributes:
        repository: The repository.
        folder: Folder of state, working trees and run directories.
        state: What was asked for, and all runs so far.
    """

    repository: Repository
    folder: Path
    state: BisectState
    _lock: Flock = field(init=False)

    @classmethod
    def begin(
        cls,
        repository: Repository,
        folder: Path,
        good: str,
        bad: str,
        command: Sequence[str],
        start: Path,
        *,
        metric: str,
        **limits: Any,
    ) -> Bisection:
        """Begin a bisection; a finished one in the same folder is replaced.

        Args:
            repository: The repository.
            folder: Folder of the bisection.
            good: Name of the commit from before the change.
            bad: Name of a commit with the change.
            command: The command that builds and runs a commit.
            start: Folder in the user's working tree that the command belongs to.
            metric: What is measured.
            limits: Further fields of ``BisectRequest``: how often it is measured at most.

        Raises:
            UsageError: A commit or the metric is unknown, or another bisection is unfinished.
        """
        check_metric(metric)
        first, last = repository.commit(good), repository.commit(bad)
        commits = (first, *repository.between(first, last))
        inside = start.is_relative_to(repository.folder)
        request = BisectRequest(
            metric=metric,
            **limits,
            commits=commits,
            command=tuple(command),
            folder=str(start.relative_to(repository.folder)) if inside else "",
            started_utc=now_utc(),
        )
        earlier = read_state(folder)
        if earlier is not None and isinstance(BisectSearch(earlier).decide(), NextRun):
            raise UsageError(
                f"a bisection is unfinished: {len(earlier.runs)} runs in {display_path(folder)}",
                hint="continue it with --resume, or remove it with --reset",
            )
        made = cls(repository, folder, BisectState(request))
        made._acquire()
        if earlier is not None:
            shutil.rmtree(folder / _RUNS, ignore_errors=True)
        write_state(folder, made.state)
        return made

    @classmethod
    def resume(cls, repository: Repository, folder: Path) -> Bisection:
        """Go on with the bisection in a folder.

        Failures of the infrastructure that ended it are tried again.

        Raises:
            UsageError: There is no bisection.
        """
        made = cls(repository, folder, saved_bisection(folder))
        made._acquire()
        decision = BisectSearch(made.state).decide()
        if isinstance(decision, Unmeasurable) and decision.infrastructure:
            kept = [run for run in made.state.runs if run.outcome != "infrastructure"]
            made.state = replace(made.state, runs=tuple(kept))
        return made

    def run(self, deadline_s: float | None, on_start: OnStart, on_run: OnRun) -> None:
        """Run commits until the answer is known.

        Args:
            deadline_s: Time after which no further run is started; None for no limit.
            on_start: Called before each run.
            on_run: Called after each run.

        Raises:
            NotComparableError: Good and bad do not differ.
            UsageError: Good or bad cannot be measured.
            InfrastructureError: The deadline has passed, or all retries failed.
        """
        began = time.monotonic()
        while True:
            decision = BisectSearch(self.state).decide()
            if isinstance(decision, Alike):
                raise self._not_different(decision)
            if isinstance(decision, Unmeasurable):
                raise self._not_measurable(decision)
            if not isinstance(decision, NextRun):
                return
            if deadline_s is not None and time.monotonic() - began >= deadline_s:
                raise InfrastructureError(
                    f"the deadline of {deadline_s:g} s passed; runs: {len(self.state.runs)}",
                    hint="`etharness bisect --resume` continues",
                )
            on_start(decision)
            run = self._run(decision)
            self.state = self.state.followed_by(run)
            write_state(self.folder, self.state)
            on_run(BisectSearch(self.state), decision, run)

    def close(self) -> None:
        """Let other processes go on with it; once it is finished, remove its working trees."""
        if not isinstance(BisectSearch(self.state).decide(), NextRun | Unmeasurable):
            remove_trees(self.repository, self.folder)
        self._lock.release()

    def _run(self, step: NextRun) -> CommitRun:
        # Good and bad keep working trees of their own, so that they are built only once.
        tree = self.folder / _TREES / step.role
        self.repository.check_out(step.commit, tree)
        name = f"{len(self.state.runs) + 1:04}-{step.commit.short}"
        run = run_commit(self.state.request, step.commit, tree, self.folder / _RUNS / name)
        if run.run:
            _keep_program(self.folder / _RUNS / name, tree, self.state.request)
        units = {run.unit for run in self.state.runs if run.outcome == "measured"}
        if run.outcome == "measured" and units and run.unit not in units:
            reason = f"measured in {run.unit}, other commits in {', '.join(units)}"
            return replace(run, outcome="skipped", reason=reason)
        return run

    def _acquire(self) -> None:
        self.folder.mkdir(parents=True, exist_ok=True)
        self._lock = Flock(self.folder / _LOCK)
        if not self._lock.acquire():
            raise BusyError(
                f"another process runs the bisection in {display_path(self.folder)}",
                hint="wait for its end, or use another folder with -o",
            )

    def _not_different(self, decision: Alike) -> NotComparableError:
        search = BisectSearch(self.state)
        found = search.evidence.difference
        share = "" if found.share is None else f" ({found.share:+.2%})"
        if decision.reason == "smaller than the change":
            return NotComparableError(
                f"good and bad differ by less than --change: {found.good:g} and {found.bad:g}"
                f"{share}",
                hint="choose a smaller --change, or an older good commit",
            )
        noticed = ""
        if found.error:
            noticed = f"; a change of {found.detectable:.2%} would be found"
        return NotComparableError(
            f"good and bad do not differ in {self.state.request.metric}: {found.good:g} and "
            f"{found.bad:g}{share}, {counted(len(self.state.runs), 'run')}{noticed}",
            hint="check --good, --bad and --metric; on a noisy board raise --max-runs, or measure "
            "more executions per run",
        )

    def _not_measurable(self, decision: Unmeasurable) -> UsageError | InfrastructureError:
        run = next(run for run in reversed(self.state.runs) if run.commit == decision.commit.sha)
        place = display_path(self.folder / _RUNS)
        text = f"the {decision.role} commit {decision.commit.short} was not measured: {run.reason}"
        if decision.infrastructure:
            return InfrastructureError(
                text, hint=f"repair it, then `etharness bisect --resume`; output: {place}"
            )
        return UsageError(
            text,
            hint=f"the command must work for good and bad, and leave a run directory in "
            f"{{output}}; its output is in {place}",
        )


def saved_bisection(folder: Path) -> BisectState:
    """Return the state of the bisection in a folder.

    Raises:
        UsageError: There is none.
    """
    state = read_state(folder)
    if state is None:
        raise UsageError(
            f"no bisection in {display_path(folder)}",
            hint="begin one: etharness bisect --good COMMIT --bad COMMIT -- COMMAND",
        )
    return state


def remove_bisection(repository: Repository, folder: Path) -> bool:
    """Remove a bisection with its working trees and runs; return whether there was one.

    Raises:
        BusyError: It is running.
    """
    if not (folder / STATE).exists():
        return False
    lock = Flock(folder / _LOCK)
    if not lock.acquire():
        raise BusyError(f"the bisection in {display_path(folder)} is running")
    remove_trees(repository, folder)
    shutil.rmtree(folder / _RUNS, ignore_errors=True)
    (folder / STATE).unlink(missing_ok=True)
    lock.release()
    return True


def remove_trees(repository: Repository, folder: Path) -> None:
    """Remove the working trees of a bisection."""
    roles: tuple[Role, ...] = ("good", "bad", "suspect")
    for role in roles:
        repository.remove_tree(folder / _TREES / role)
