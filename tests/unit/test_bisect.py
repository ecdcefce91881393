"""``etharness bisect`` in a real git repository, with a command that runs nothing slow."""

from __future__ import annotations

import fcntl
import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

import pytest
from msgspec.structs import replace

from tests.conftest import CommandResult
from tests.support.bisections import make_repository
from tests.support.results import TARGET, made, run_directory

Etharness = Callable[..., CommandResult]

COPY = ("sh", "-c", 'cp -r "$RUNS/$(cat level)" "$ETHARNESS_OUTPUT"')
"""Leaves the run directory that a commit names in its file ``level``."""


def git(place: Path, *arguments: str) -> str:
    person = ["-c", "user.name=nobody", "-c", "user.email=nobody@example.org"]
    command = ["git", *person, "-C", str(place), *arguments]
    return subprocess.run(command, check=True, capture_output=True, text=True).stdout.strip()


@pytest.fixture
def repository(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A repository of 13 commits, tagged c0 to c12; c8 made the run slower."""
    runs = tmp_path / "runs"
    for name, ticks in (("fast", 1000), ("slow", 1030)):
        times = {"Method::execute": [ticks] * 3, "native_call_conv.out": [ticks // 2] * 3}
        run_directory(runs / name, made(name, emulated_time=True), times)
    monkeypatch.setenv("RUNS", str(runs))
    place = tmp_path / "project"
    levels = [b"slow" if number >= 8 else b"fast" for number in range(13)]
    files = ({"level": level, "number": b"%d" % number} for number, level in enumerate(levels))
    make_repository(place, files)
    monkeypatch.chdir(place)
    return place


def begin(*words: str, good: str = "c0", bad: str = "c12") -> list[str]:
    return ["bisect", "--good", good, "--bad", bad, *words]


def test_the_first_bad_commit_is_found_and_explained(
    repository: Path, etharness: Etharness
) -> None:
    (repository / "number").write_text("not committed")
    ended = etharness(*begin("--", *COPY))
    assert ended.code == 0, ended.err
    sha = git(repository, "rev-parse", "c8")
    assert f"FOUND: {sha} is the first bad commit\n  change 8\n" in ended.out
    assert "before 1,000.0, after 1,030.0 ns: +3.00%" in ended.out
    assert "no noise" in ended.out
    # Nothing of the user's was touched, and no working tree is left.
    assert (repository / "number").read_text() == "not committed"
    assert git(repository, "status", "--porcelain") == "M number"
    assert len(git(repository, "worktree", "list").splitlines()) == 1
    status = etharness("bisect", "--status", "--json")
    document = json.loads(status.out)
    assert document["answer"] == "found"
    assert [commit["subject"] for commit in document["suspects"]] == ["change 8"]
    assert document["before"]["subject"] == "change 7"
    assert document["runs"] == 7  # good twice and bad once, then one of four commits


def test_the_output_may_be_a_placeholder_and_the_metric_an_operator(
    repository: Path, etharness: Etharness, tmp_path: Path
) -> None:
    words = ["sh", "-c", 'unset ETHARNESS_OUTPUT; cp -r "$RUNS/$(cat level)" "$0"', "{output}"]
    out = tmp_path / "state"
    ended = etharness(*begin("-o", str(out), "--metric", "operator:*conv*", "--json", "--", *words))
    assert ended.code == 0, ended.err
    document = json.loads(ended.out)
    assert document["suspects"][0]["subject"] == "change 8"
    assert (document["before"]["value"], document["after"]["value"]) == (500, 515)
    assert (out / "bisect.json").is_file()
    assert not (repository / ".git/etharness-bisect").exists()


def test_commits_that_do_not_build_are_skipped(repository: Path, etharness: Etharness) -> None:
    script = "case $(cat number) in 6|7) echo no compiler; exit 125;; esac; " + COPY[2]
    ended = etharness(*begin("--", "sh", "-c", script))
    assert ended.code == 3, ended.err
    assert "NOT CERTAIN: the first bad commit is one of 3" in ended.out
    assert "exited with status 125: no compiler" in ended.out
    listed = ended.out.partition("NOT CERTAIN")[2].splitlines()[1:4]
    assert [line.split()[-1] for line in listed] == ["6", "7", "8"]
    assert ["(skipped)" in line for line in listed] == [True, True, False]


def test_failures_of_the_infrastructure_are_retried(
    repository: Path, etharness: Etharness, tmp_path: Path
) -> None:
    """Every commit fails once; a board that stays away ends the search, which can be resumed."""
    script = (
        f"f={tmp_path}/$(cat number); [ -e $f ] || {{ touch $f; echo no port; exit 75; }}; "
        + COPY[2]
    )
    ended = etharness(*begin("--json", "--", "sh", "-c", script))
    assert ended.code == 0, ended.err
    document = json.loads(ended.out)
    assert document["suspects"][0]["subject"] == "change 8"
    assert document["infrastructure"] == len(document["commits"]) == 6

    away = tmp_path / "away"
    away.touch()
    script = f"[ -e {away} ] && exit 75; {COPY[2]}"
    ended = etharness(*begin("--retries", "1", "--", "sh", "-c", script))
    assert ended.code == 75
    assert "the good commit" in ended.err
    assert "--resume" in ended.err
    away.unlink()
    ended = etharness("bisect", "--resume", "-q")
    assert ended.code == 0, ended.err
    assert "change 8" in ended.out


def test_a_verdict_needs_no_run_directory(repository: Path, etharness: Etharness) -> None:
    words = ["sh", "-c", "test $(cat number) -lt 5"]
    ended = etharness(*begin("--metric", "verdict", "--", *words))
    assert ended.code == 0, ended.err
    assert "\n  change 5\n" in ended.out


@pytest.mark.attack("Nights and history", "kill -9 of a bisection", "it continues where it stopped")
@pytest.mark.slow
def test_a_killed_bisection_goes_on_where_it_was(
    repository: Path, etharness: Etharness, tmp_path: Path
) -> None:
    """The first suspect waits to be interrupted; the runs before it are not repeated."""
    waits = tmp_path / "waits"
    script = f"[ $(cat number) = 6 ] && [ ! -e {waits} ] && touch {waits} && sleep 600; {COPY[2]}"
    command = [sys.executable, "-m", "harness", *begin("--", "sh", "-c", script)]
    process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    try:
        while not waits.exists() and process.poll() is None:
            time.sleep(0.01)
        refused = etharness("bisect", "--resume")
        assert refused.code == 75
        assert "another process" in refused.err
        process.send_signal(signal.SIGINT)
        _, errors = process.communicate(timeout=600)
    finally:
        process.kill()
    assert process.returncode == 130
    assert "3 runs are kept; `etharness bisect --resume` continues" in errors
    unfinished = etharness(*begin("--", *COPY))
    assert unfinished.code == 2
    assert "a bisection is unfinished: 3 runs" in unfinished.err
    assert "SEARCHING: 12 suspects left" in etharness("bisect", "--status").out
    # As if git itself had been killed in the middle of a checkout.
    (repository / ".git/worktrees/suspect/index.lock").touch()
    ended = etharness("bisect", "--resume", "--json")
    assert ended.code == 0, ended.err
    document = json.loads(ended.out)
    assert (document["suspects"][0]["subject"], document["runs"]) == ("change 8", 7)
    # A finished one makes room for another.
    assert etharness(*begin("-q", "--", *COPY)).code == 0


def test_a_deadline_ends_it_before_the_next_run(
    repository: Path, etharness: Etharness, monkeypatch: pytest.MonkeyPatch
) -> None:
    now = iter(range(0, 100_000, 40))
    monkeypatch.setattr(
        "harness.extensions.bisect.bisection.time.monotonic", lambda: float(next(now))
    )
    ended = etharness(*begin("--deadline", "1m", "--", *COPY))
    assert ended.code == 75
    assert "the deadline of 60 s passed" in ended.err
    assert etharness("bisect", "--reset").out == "removed the bisection\n"
    assert etharness("bisect", "--reset").out == "there is no bisection\n"
    assert etharness("bisect", "--status").code == 2
    assert len(git(repository, "worktree", "list").splitlines()) == 1


def test_a_merge_counts_as_one_commit(repository: Path, etharness: Etharness) -> None:
    git(repository, "checkout", "--quiet", "-b", "work", "c7")
    for number in range(3):
        (repository / "other").write_text(f"{number}")
        git(repository, "add", ".")
        git(repository, "commit", "--quiet", "-m", f"work {number}")
    git(repository, "checkout", "--quiet", "c7")
    git(repository, "merge", "--quiet", "--no-ff", "-m", "merge of work", "work")
    (repository / "level").write_text("slow")
    git(repository, "commit", "--quiet", "--amend", "-a", "-m", "merge of work")
    ended = etharness(*begin("--json", "--", *COPY, bad="HEAD"))
    document = json.loads(ended.out)
    assert document["count"] == 8
    assert [commit["subject"] for commit in document["suspects"]] == ["merge of work"]


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (begin("--", *COPY, good="c12", bad="c0"), "is not an ancestor of the bad commit"),
        (begin("--", *COPY, good="c3", bad="c3"), "the same commit"),
        (begin("--", *COPY, good="--output=x"), "commit '--output=x' not found"),
        (begin("--", *COPY, good="nowhere"), "commit 'nowhere' not found"),
        (begin("--metric", "speed", "--", *COPY), "unknown metric 'speed'"),
        (begin("--metric", "operator", "--", *COPY), "invalid metric 'operator'"),
        (begin("--metric", "memory:x", "--", *COPY), "invalid metric 'memory:x'"),
        (begin("--change", "much", "--", *COPY), "'much' is not a percentage"),
        (begin("--", "true"), "no run directory in {output}"),
        (begin("--", "/no/such/program"), "the good commit"),
        (begin("--metric", "operator:none", "--", *COPY), "matches 'none'"),
        (begin(), "a command are needed"),
        (["bisect", "--resume", "--status"], "no other action"),
        (["bisect", "--resume"], "no bisection in"),
    ],
)
def test_errors_say_what_is_wrong(
    repository: Path, etharness: Etharness, words: list[str], message: str
) -> None:
    ended = etharness(*words)
    assert ended.code == 2
    assert message in ended.err
    assert "Traceback" not in ended.err


def test_good_and_bad_that_do_not_differ_are_refused(
    repository: Path, etharness: Etharness
) -> None:
    ended = etharness(*begin("--", *COPY, bad="c7"))
    assert ended.code == 3
    assert "good and bad do not differ in execution: 1000 and 1000" in ended.err
    ended = etharness(*begin("--change", "10%", "--", *COPY))
    assert ended.code == 3
    assert "differ by less than --change" in ended.err


def test_outside_of_a_repository(
    tmp_path: Path, etharness: Etharness, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("GIT_CEILING_DIRECTORIES", str(tmp_path.parent))
    ended = etharness(*begin("--", *COPY))
    assert ended.code == 2
    assert "is not in a git repository" in ended.err


def test_a_damaged_state_says_how_to_begin_again(repository: Path, etharness: Etharness) -> None:
    assert etharness(*begin("-q", "--", *COPY)).code == 0
    state = repository / ".git/etharness-bisect/bisect.json"
    state.write_text("{}")
    ended = etharness("bisect", "--status")
    assert ended.code == 2
    assert "etharness bisect --reset" in ended.err
    with state.with_name("lock").open("r+") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        assert etharness("bisect", "--reset").code == 75
    assert etharness("bisect", "--reset").code == 0


def test_a_hook_does_not_redirect_git(
    repository: Path, etharness: Etharness, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("GIT_DIR", os.devnull)
    assert etharness(*begin("-q", "--", *COPY)).code == 0


def test_a_commit_with_a_clock_of_another_unit_is_skipped(
    repository: Path, etharness: Etharness, tmp_path: Path
) -> None:
    """The rate of the clock is unknown in one commit, so its times are ticks."""
    unknown = replace(TARGET, clocks=(replace(TARGET.clocks[0], hz_numerator=0),))
    times = {"Method::execute": [1000] * 3}
    run = made("ticks", emulated_time=True, target=unknown)
    run_directory(tmp_path / "runs/ticks", run, times)
    script = f"[ $(cat number) = 4 ] && echo ticks > level; {COPY[2]}"
    ended = etharness(*begin("--json", "--", "sh", "-c", script, bad="c8"))
    assert ended.code == 0, ended.err
    document = json.loads(ended.out)
    reasons = {commit["subject"]: commit["reason"] for commit in document["commits"]}
    assert reasons["change 4"] == "measured in ticks, other commits in ns"
