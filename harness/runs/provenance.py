"""Where a result comes from: the commit that was tested, and what it was made together with."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Final

from harness.target.process_group import run_program

_VARIABLES: Final = ("ETHARNESS_COMMIT", "GITHUB_SHA", "CI_COMMIT_SHA", "GIT_COMMIT")
"""Ours, and those of GitHub Actions, GitLab and Jenkins."""

SESSION_VARIABLE: Final = "ETHARNESS_SESSION"

_DEADLINE_S: Final = 10.0


def current_commit(place: Path) -> str:
    """Return the commit that is being tested.

    That is what the environment says (``ETHARNESS_COMMIT``, or a CI system's variable), or else the
    commit checked out around ``place``, with ``-dirty`` behind it when files were changed since; ""
    when nobody knows.
    """
    for name in _VARIABLES:
        if commit := os.environ.get(name, "").strip():
            return commit
    where = place if place.is_dir() else place.parent
    commit = _git(where, "rev-parse", "HEAD")
    changed = commit and _git(where, "status", "--porcelain", "--untracked-files=no")
    return f"{commit}-dirty" if changed else commit


def _git(where: Path, *arguments: str) -> str:
    try:
        done = run_program(["git", "-C", str(where), *arguments], _DEADLINE_S)
    except OSError:
        return ""
    return done.stdout.decode(errors="replace").strip() if done.code == 0 else ""
