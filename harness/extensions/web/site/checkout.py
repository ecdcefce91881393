"""Subjects of commits, from the checkout in which a site is written."""

from __future__ import annotations

import re
import subprocess
from collections.abc import Collection
from typing import Final

from harness.report.words import brief

_COMMIT: Final = re.compile(r"[0-9a-f]{7,64}")
_LONGEST: Final = 100
"""Characters of a subject."""
_DEADLINE_S: Final = 10.0


def subjects_of(commits: Collection[str]) -> dict[str, str]:
    """Return the subjects of those commits that the checkout around the current folder has.

    Without git or a checkout, it is none of them: a site may be written anywhere.
    """
    names = {commit: commit.partition("-dirty")[0] for commit in commits}
    asked = sorted({name for name in names.values() if _COMMIT.fullmatch(name)})
    if not asked:
        return {}
    try:
        # Unknown commits are left out; `git log` fails at the first of them.
        known = _git(
            "cat-file",
            "--batch-check=%(objecttype) %(rest)",
            text="".join(f"{name}^{{commit}} {name}\n" for name in asked),
        )
        there = [line.split()[1] for line in known.splitlines() if line.startswith("commit ")]
        told = _git("log", "--stdin", "--no-walk=unsorted", "--format=%s", text="\n".join(there))
    except (OSError, subprocess.SubprocessError):
        return {}
    subjects = dict(zip(there, told.splitlines(), strict=False)) if there else {}
    return {
        commit: brief(subjects[name], _LONGEST)
        for commit, name in names.items()
        if subjects.get(name)
    }


def _git(*arguments: str, text: str) -> str:
    done = subprocess.run(
        ["git", *arguments],
        input=text,
        capture_output=True,
        encoding="utf-8",
        errors="replace",
        timeout=_DEADLINE_S,
        check=True,
    )
    return done.stdout
