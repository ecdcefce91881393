"""Repositories to bisect, and bisections of generated commits, which no program runs."""

from __future__ import annotations

import subprocess
from collections.abc import Callable, Iterable, Mapping
from pathlib import Path

from harness.extensions.bisect.search import BisectSearch, Decision, NextRun
from harness.extensions.bisect.state import BisectRequest, BisectState, Commit, CommitRun

Measure = Callable[[int, int], CommitRun]
"""Returns a run, given the place of the commit and the number of the run."""


def make_repository(folder: Path, commits: Iterable[Mapping[str, bytes]]) -> None:
    """Make a git repository of commits with these files, and check the last one out.

    The commits are called ``change 0``, ``change 1`` and so on, and have the tags c0, c1, ...
    One process makes them all: `git commit` would take a second for a few of them.
    """
    stream = []
    for number, files in enumerate(commits):
        stream += [
            b"commit refs/heads/trunk\n",
            b"committer nobody <nobody@example.org> 1767225600 +0000\n",
            _data(f"change {number}".encode()),
            *(b"M 100644 inline %s\n" % name.encode() + _data(files[name]) for name in files),
            b"reset refs/tags/c%d\nfrom refs/heads/trunk\n\n" % number,
        ]
    git = ["git", "-C", str(folder)]
    subprocess.run(["git", "init", "--quiet", str(folder)], check=True)
    subprocess.run([*git, "fast-import", "--quiet"], input=b"".join(stream), check=True)
    subprocess.run([*git, "checkout", "--quiet", "--force", "trunk"], check=True)


def _data(content: bytes) -> bytes:
    return b"data %d\n%s\n" % (len(content), content)


def generated_bisection(
    count: int, *, metric: str = "execution", max_runs: int = 50
) -> BisectState:
    """A bisection of so many commits after the good one that has not begun."""
    commits = tuple(Commit(f"{place:040x}", f"change {place}") for place in range(count + 1))
    request = BisectRequest(
        commits=commits,
        command=("generated",),
        folder="",
        metric=metric,
        change=None,
        max_runs=max_runs,
        retries=2,
        timeout_s=600.0,
        started_utc="2026-01-01T00:00:00Z",
    )
    return BisectState(request)


def measured(place: int, value: float, **facts: object) -> CommitRun:
    """A run that measured a value."""
    return CommitRun(
        commit=f"{place:040x}",
        outcome="measured",
        exit_code=0,
        seconds=1.0,
        value=value,
        **{"unit": "ns", "resolution": 1.0, **facts},  # type: ignore[arg-type]
    )


def run_to_its_end(state: BisectState, measure: Measure) -> tuple[Decision, BisectState]:
    """Run what the search asks for until it has an answer."""
    while isinstance(decision := BisectSearch(state).decide(), NextRun):
        place = state.request.commits.index(decision.commit)
        state = state.followed_by(measure(place, len(state.runs)))
    return decision, state
