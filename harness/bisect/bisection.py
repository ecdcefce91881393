"""One bisection: begins or goes on, runs what the search asks for, and keeps the state."""

from __future__ import annotations

import shutil
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

from msgspec.structs import replace

from harness.bisect.command import run_commit
from harness.bisect.commits import Repository
from harness.bisect.metrics import check_metric
from harness.bisect.search import Alike, BisectSearch, NextRun, Role, Unmeasurable
from harness.bisect.state import (
    STATE,
    BisectRequest,
    BisectState,
    CommitRun,
    read_state,
    write_state,
)
from harness.errors import BusyError, InfrastructureError, NotComparableError, UsageError
from harness.files import display_path
from harness.records.result import now_utc
from harness.target.lease.flock import Flock

_FOLDER: Final = "etharness-bisect"
"""Folder of a bisection in the git directory, where no commit and no `git clean` finds it."""

_TREES: Final = "trees"
_RUNS: Final = "runs"
_LOCK: Final = "lock"

OnRun = Callable[[BisectSearch, NextRun, CommitRun], None]
"""Called after each run, with what follows from it."""

OnStart = Callable[[NextRun], None]
"""Called before each run."""


def bisect_folder(repository: Repository, chosen: Path | None) -> Path:
    """Return the folder of the bisection of a repository."""
    return chosen or repository.git / _FOLDER


@dataclass(frozen=True, slots=True)
class BisectOptions:
    """What the user chose, besides the two commits and the command.

    Attributes:
        metric: What is measured (``harness.bisect.metrics.KINDS``).
        change: Smallest change of a bad commit, as a share; None for half of the difference.
        max_runs: Runs of one commit at most.
        retries: Retries after a failure of the infrastructure.
        timeout_s: Longest time of one run, seconds.
    """

    metric: str = "execution"
    change: float | None = None
    max_runs: int = 50
    retries: int = 2
    timeout_s: float = 1800.0


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
        options: BisectOptions,
        start: Path,
    ) -> Bisection:
        """Begin a bisection; a finished one in the same folder is replaced.

        Args:
            repository: The repository.
            folder: Folder of the bisection.
            good: Name of the commit from before the change.
            bad: Name of a commit with the change.
            command: The command that builds and runs a commit.
            options: What is measured, and how often at most.
            start: Folder in the user's working tree that the command belongs to.

        Raises:
            UsageError: A commit or the metric is unknown, or another bisection is unfinished.
        """
        check_metric(options.metric)
        first, last = repository.commit(good), repository.commit(bad)
        commits = (first, *repository.between(first, last))
        inside = start.is_relative_to(repository.folder)
        request = BisectRequest(
            commits=commits,
            command=tuple(command),
            folder=str(start.relative_to(repository.folder)) if inside else "",
            metric=options.metric,
            change=options.change,
            max_runs=options.max_runs,
            retries=options.retries,
            timeout_s=options.timeout_s,
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
                    f"the deadline of {deadline_s:g} s passed after {len(self.state.runs)} runs",
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
            f"{found.bad:g}{share}, {len(self.state.runs)} runs{noticed}",
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
