"""The commit that a result is of: what the environment says, or else the checkout."""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest

from harness.runs.request import current_commit

VARIABLES = ("ETHARNESS_COMMIT", "GITHUB_SHA", "CI_COMMIT_SHA", "GIT_COMMIT")


@pytest.fixture(autouse=True)
def no_ci(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in VARIABLES:
        monkeypatch.delenv(name, raising=False)


@pytest.fixture
def checkout(tmp_path: Path) -> Path:
    git(tmp_path, "init", "--quiet")
    (tmp_path / "model.pte").write_bytes(b"1")
    git(tmp_path, "add", "model.pte")
    git(tmp_path, "commit", "--quiet", "-m", "first")
    return tmp_path


def git(place: Path, *arguments: str) -> str:
    person = ["-c", "user.name=nobody", "-c", "user.email=nobody@example.org"]
    command = ["git", *person, "-C", str(place), *arguments]
    return subprocess.run(command, check=True, capture_output=True, text=True).stdout.strip()


def test_the_checkout_around_a_model_says_its_commit(checkout: Path) -> None:
    head = git(checkout, "rev-parse", "HEAD")
    assert current_commit(checkout / "model.pte") == current_commit(checkout) == head
    (checkout / "notes.txt").write_text("nobody asked for this file")
    assert current_commit(checkout) == head
    (checkout / "model.pte").write_bytes(b"2")
    assert current_commit(checkout / "model.pte") == f"{head}-dirty"


def test_the_environment_knows_better_and_ours_best(
    checkout: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in reversed(VARIABLES):
        monkeypatch.setenv(name, f"said by {name}")
        assert current_commit(checkout) == f"said by {name}"
    monkeypatch.setenv("ETHARNESS_COMMIT", " ")
    assert current_commit(checkout) == "said by GITHUB_SHA"


def test_nobody_knows_outside_of_a_checkout(tmp_path: Path) -> None:
    assert current_commit(tmp_path / "absent.pte") == ""


def test_without_git_nobody_knows(checkout: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", str(checkout))
    assert current_commit(checkout) == ""
