"""Commits of a git repository, and working trees to build them in.

The user's own working tree is never touched: every commit is checked out in a linked working tree
below the folder of the bisection.
"""

from __future__ import annotations

import os
import shutil
import subprocess
from pathlib import Path
from typing import Final

import msgspec

from harness.errors import HostError, UsageError

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
