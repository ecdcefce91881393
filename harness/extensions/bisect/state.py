"""State of a bisection: its commits, what was asked for, and every run so far, in one file.

All decisions are computed from the runs again, so the file is all that a resumed bisection needs.
The user's own working tree is never touched: every commit is checked out in a linked working tree
below the folder of the bisection.
"""

from __future__ import annotations

import os
import shutil
import subprocess
from math import isfinite
from pathlib import Path
from typing import Final, Literal

import msgspec

from harness.errors import HostError, UsageError
from harness.files import MOST_DOCUMENT, decode_json, display_path, read_limited, write_atomic
from harness.records.result import encode

_SHORT: Final = 10
"""Digits of a hash that messages show."""


class Commit(msgspec.Struct, frozen=True):
    """A commit: its full hash, and the first line of its message."""

    sha: str
    subject: str

    @property
    def short(self) -> str:
        """The first digits of its hash."""
        return self.sha[:_SHORT]


def clean_environment() -> dict[str, str]:
    """Return this process's environment without the variables that redirect git.

    A hook sets ``GIT_DIR`` and others; git would use them instead of the folder it is started in.
    """
    local = ("GIT_DIR", "GIT_WORK_TREE", "GIT_INDEX_FILE", "GIT_COMMON_DIR", "GIT_PREFIX")
    return {name: value for name, value in os.environ.items() if name not in local}


class Repository:
    """A git repository.

    Attributes:
        folder: Top folder of its working tree, or the repository itself if it is bare.
        git: Its git directory, which all linked working trees share.
    """

    def __init__(self, folder: Path) -> None:
        """Find the repository that contains ``folder``.

        Raises:
            UsageError: There is none, or git is not installed.
        """
        if shutil.which("git") is None:
            raise UsageError("git not found", hint="install git")
        self.folder = folder
        found = self._run("rev-parse", "--path-format=absolute", "--git-common-dir")
        if found.returncode != 0:
            raise UsageError(
                f"{folder} is not in a git repository",
                hint="change to a checkout of the repository that has both commits",
            )
        self.git = Path(os.fsdecode(found.stdout).removesuffix("\n"))
        top = self._run("rev-parse", "--show-toplevel")
        if top.returncode == 0:
            self.folder = Path(os.fsdecode(top.stdout).removesuffix("\n"))

    def commit(self, name: str) -> Commit:
        """Return the commit that a name means.

        Args:
            name: A hash, a branch, a tag, or another name of git's.

        Raises:
            UsageError: There is no such commit.
        """
        found = self._run(
            "rev-parse", "--verify", "--quiet", "--end-of-options", f"{name}^{{commit}}"
        )
        if found.returncode != 0:
            raise UsageError(
                f"commit {name!r} not found in {self.folder}",
                hint="`git log` lists commits; a shallow clone lacks old ones: "
                "`git fetch --unshallow`",
            )
        sha = found.stdout.decode().strip()
        return self._log("-1", sha)[0]

    def between(self, good: Commit, bad: Commit) -> list[Commit]:
        """Return the commits after ``good`` up to ``bad``, oldest first.

        Only first parents are followed, so a merged branch counts as one commit, its merge.

        Raises:
            UsageError: ``good`` is not an ancestor of ``bad``.
        """
        if good.sha == bad.sha:
            raise UsageError(
                f"good and bad are the same commit, {good.short}",
                hint="name a commit from before the change with --good",
            )
        if self._run("merge-base", "--is-ancestor", good.sha, bad.sha).returncode != 0:
            raise UsageError(
                f"the good commit {good.short} is not an ancestor of the bad commit {bad.short}",
                hint=f"use --good $(git merge-base {good.short} {bad.short})",
            )
        return self._log("--first-parent", "--reverse", bad.sha, f"^{good.sha}")

    def check_out(self, commit: Commit, folder: Path) -> None:
        """Put the files of a commit into a linked working tree; untracked files of it stay.

        So what was built there before is built again only as far as it changed.

        Raises:
            HostError: git failed.
        """
        if (folder / ".git").is_file():
            # The build may have changed files of the commit: --force resets them.
            words = ("checkout", "--quiet", "--detach", "--force", commit.sha)
            if self._run(*words, at=folder).returncode == 0:
                return
        # It is new, or was left in the middle of a checkout, such as with a lock of git's.
        self.remove_tree(folder)
        folder.parent.mkdir(parents=True, exist_ok=True)
        add = ("worktree", "add", "--quiet", "--detach", "--force", "--", str(folder), commit.sha)
        found = self._run(*add)
        if found.returncode != 0:
            raise HostError(
                f"cannot check out {commit.short} in {folder}: {_errors(found)}",
                hint="check the free space of that disk, or use another folder with -o",
            )

    def remove_tree(self, folder: Path) -> None:
        """Remove a linked working tree with all its files."""
        shutil.rmtree(folder, ignore_errors=True)
        self._run("worktree", "prune")

    def _log(self, *arguments: str) -> list[Commit]:
        """Return the commits that ``git log`` lists; ``arguments`` are options and hashes."""
        found = self._run("log", "--no-show-signature", "--format=%H%x00%s", *arguments, "--")
        if found.returncode != 0:
            raise HostError(f"git cannot list commits: {_errors(found)}")
        lines = found.stdout.decode("utf-8", "backslashreplace").split("\n")
        return [Commit(*line.split("\0", 1)) for line in lines if line]

    def _run(self, *arguments: str, at: Path | None = None) -> subprocess.CompletedProcess[bytes]:
        command = ["git", "-C", str(at or self.folder), *arguments]
        try:
            return subprocess.run(
                command,
                stdin=subprocess.DEVNULL,
                capture_output=True,
                env=clean_environment(),
                check=False,
            )
        except OSError as error:
            raise HostError.of(error, "git cannot be started") from error


def _errors(ended: subprocess.CompletedProcess[bytes]) -> str:
    """Return what git wrote to standard error."""
    return ended.stderr.decode("utf-8", "backslashreplace").strip()


STATE: Final = "bisect.json"
"""Name of the file in the folder of a bisection."""

Outcome = Literal["measured", "skipped", "infrastructure"]
"""How a run ended: with a value; without one, and a retry would not help; by a failure of the host,
the line or a tool, which a retry may cure."""


ValueUnit = Literal["ns", "ticks", "bytes", ""]
"""Unit of values; empty for the metric ``verdict``."""


class BisectRequest(msgspec.Struct, frozen=True, kw_only=True):
    """What a bisection was asked for.

    Attributes:
        metric: What is measured, as in ``--metric``.
        change: Share by which a bad commit differs from the good one at least; None for half of
            the difference between good and bad.
        max_runs: Runs of one commit at most, without retries.
        retries: Retries after a failure of the infrastructure.
        timeout_s: Longest time of one run, seconds.
        commits: The good commit, then all commits up to the bad one, oldest first.
        command: The command that builds and runs a commit.
        folder: Folder below the top of the repository that it is started in.
        started_utc: When it began.
    """

    metric: str
    change: float | None
    max_runs: int
    retries: int
    timeout_s: float
    commits: tuple[Commit, ...]
    command: tuple[str, ...]
    folder: str
    started_utc: str

    def __post_init__(self) -> None:
        hashes = [commit.sha for commit in self.commits]
        if len(set(hashes)) != len(hashes) or len(hashes) < 2:
            raise ValueError("it has fewer than two commits, or one of them twice")

    @property
    def good(self) -> Commit:
        """The good commit."""
        return self.commits[0]

    @property
    def bad(self) -> Commit:
        """The bad commit."""
        return self.commits[-1]


class Reading(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """What a run measured.

    Attributes:
        value: The value; for the metric ``verdict`` 1 if the run failed, else 0.
        unit: Unit of the value.
        resolution: Smallest difference that the clock shows, in the same unit; 0 for sizes.
        repeatable: The value is the same in every run: a time of an emulator's clock, or a size.
    """

    value: float = 0.0
    unit: ValueUnit = ""
    resolution: float = 0.0
    repeatable: bool = False


class CommitRun(Reading, frozen=True, kw_only=True, omit_defaults=True):
    """One run of one commit.

    Attributes:
        commit: Hash of the commit.
        outcome: How it ended.
        exit_code: Exit code of the command, negative for a signal; None if it timed out.
        seconds: How long it took, without the checkout.
        run: Its run directory, relative to the folder of the bisection; empty without one.
        reason: Why it has no value.
    """

    commit: str
    outcome: Outcome
    exit_code: int | None
    seconds: float
    run: str = ""
    reason: str = ""

    def __post_init__(self) -> None:
        if not all(map(isfinite, (self.seconds, self.value, self.resolution))):
            raise ValueError("a number is not finite")


class BisectState(msgspec.Struct, frozen=True):
    """A bisection with all its runs, in their order."""

    request: BisectRequest
    runs: tuple[CommitRun, ...] = ()
    schema: Literal[1] = 1

    def __post_init__(self) -> None:
        known = {commit.sha for commit in self.request.commits}
        if foreign := {run.commit for run in self.runs} - known:
            raise ValueError(f"it has runs of {min(foreign)!r}, which is none of its commits")

    def followed_by(self, run: CommitRun) -> BisectState:
        """Return the state after one more run."""
        return msgspec.structs.replace(self, runs=(*self.runs, run))


def write_state(folder: Path, state: BisectState) -> None:
    """Write the state into the folder of its bisection, atomically.

    Raises:
        HostError: It cannot be written.
    """
    try:
        folder.mkdir(parents=True, exist_ok=True)
        write_atomic(folder / STATE, encode(state))
    except OSError as error:
        raise HostError.of(error, "cannot save the state of the bisection") from error


def read_state(folder: Path) -> BisectState | None:
    """Read the state from the folder of a bisection; None if there is no bisection.

    Raises:
        UsageError: The file is damaged, or of another version.
    """
    path = folder / STATE
    try:
        return decode_json(read_limited(path, MOST_DOCUMENT), type_=BisectState)
    except FileNotFoundError:
        return None
    except (msgspec.DecodeError, UnicodeDecodeError) as error:
        raise UsageError(
            f"{display_path(path)}: not the state of a bisection of this version: {error}",
            hint="`etharness bisect --reset` removes it",
        ) from error
    except OSError as error:
        raise HostError.of(error, "cannot read the state of the bisection") from error
