"""A release has the same bytes wherever it is made, and the steps of its workflow run."""

from __future__ import annotations

import os
import subprocess
import sys
import tomllib
from collections.abc import Callable, Iterator, Mapping, Sequence
from hashlib import sha256
from pathlib import Path
from typing import Any

import pytest
import yaml

from tests.conftest import CommandResult
from tests.packaging.conftest import ROOT, Installed
from tests.support.workflow_steps import EXPRESSION, ShellStep

VERSION = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["version"]
WORKFLOW = yaml.safe_load((ROOT / ".github/workflows/release.yml").read_text())
WHEEL, SDIST = f"etdump_harness-{VERSION}-py3-none-any.whl", f"etdump_harness-{VERSION}.tar.gz"


def stand_ins(folder: Path, *programs: str) -> str:
    """Programs that write their arguments to ``PROGRAM.calls`` in ``folder``; a PATH with them."""
    folder.mkdir(exist_ok=True)
    for program in programs:
        file = folder / program
        file.write_text(f'#!/bin/sh\nprintf "%s\\n" "$*" >> "{file}.calls"\n')
        file.chmod(0o755)
    return f"{folder}{os.pathsep}{os.environ['PATH']}"


def shell_steps(steps: list[dict[str, Any]], values: Mapping[str, str]) -> Iterator[ShellStep]:
    """The steps with a script; ``values`` has the values of expressions, by their text.

    An expression within a script is refused: its value would become a part of the script.
    """
    for step in steps:
        if "run" not in step:
            continue
        if EXPRESSION.search(step["run"]):
            raise ValueError(f"step {step['name']!r} has an expression in its script; use env:")
        variables = {
            name: EXPRESSION.sub(lambda match: values[match[1]], str(value))
            for name, value in step.get("env", {}).items()
        }
        folder = step.get("working-directory", ".")
        yield ShellStep(step.get("name", ""), step["run"], variables, folder)


def git(*arguments: str | Path, folder: Path = ROOT) -> str:
    who = {"GIT_AUTHOR_NAME": "A", "GIT_AUTHOR_EMAIL": "a@b.invalid"}
    who |= {name.replace("AUTHOR", "COMMITTER"): value for name, value in who.items()}
    done = subprocess.run(
        ["git", *arguments],
        cwd=folder,
        env={**os.environ, **who},
        check=True,
        capture_output=True,
        text=True,
    )
    return done.stdout.strip()


@pytest.fixture
def clone(tmp_path: Path) -> Path:
    """A clone of what is in the checkout now, committed or not."""
    commit = git("stash", "create") or git("rev-parse", "HEAD")
    folder = tmp_path / "clone"
    # A user of Windows has this setting.
    git("clone", "--quiet", "--no-checkout", "--config", "core.autocrlf=true", ROOT, folder)
    git("fetch", "--quiet", "origin", commit, folder=folder)
    git("checkout", "--quiet", "FETCH_HEAD", folder=folder)
    return folder


def release(clone: Path, *arguments: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "tools/release.py", "--boards", "none", *arguments],
        cwd=clone,
        env={**os.environ, "PYTHONPATH": str(clone)},
        capture_output=True,
        text=True,
        check=False,
    )


@pytest.mark.sim
def test_an_installed_copy_builds_the_same_bytes(
    installed: Installed, tmp_path: Path, etharness: Callable[..., CommandResult]
) -> None:
    """It has other folders for sources and builds, and no compiler cache."""
    image = tmp_path / "m3.elf"
    done = installed.run(
        "etharness", "build", "--board", "qemu-mps2-an385", "-o", image, cwd=tmp_path
    )
    assert done.returncode == 0, done.stderr
    ours = tmp_path / "ours.elf"
    assert etharness("build", "--board", "qemu-mps2-an385", "-o", ours).code == 0
    assert sha256(image.read_bytes()).hexdigest() == sha256(ours.read_bytes()).hexdigest()


def steps_of(job: str, tag: str) -> Sequence[ShellStep]:
    values = {
        "github.ref_name": tag,
        "github.token": "a secret",
        "github.repository": "etdump/harness",
    }
    return list(shell_steps(WORKFLOW["jobs"][job]["steps"], values))


def runner(clone: Path, tmp_path: Path) -> dict[str, str]:
    """Variables of a runner that has what a release needs; the release is of no boards."""
    python = clone / ".venv/bin/python"
    python.parent.mkdir(parents=True)
    python.write_text(f'#!/bin/sh\nexec "{sys.executable}" "$@"\n')
    python.chmod(0o755)
    checksum = subprocess.run(
        ["cksum"], input=(clone / "pyproject.toml").read_bytes(), capture_output=True, check=True
    )
    (clone / f".venv/.installed-{checksum.stdout.split()[0].decode()}-dev").touch()
    return {
        **os.environ,
        "PATH": stand_ins(tmp_path / "programs", "apt-get", "gh"),
        "PYTHONPATH": str(clone),
        "GIT_CONFIG_GLOBAL": str(tmp_path / "gitconfig"),
        "GITHUB_WORKSPACE": str(clone),
        "GITHUB_STEP_SUMMARY": str(tmp_path / "summary.md"),
        "BOARDS": "none",
    }


@pytest.mark.long
def test_every_step_of_the_workflow_runs(clone: Path, tmp_path: Path) -> None:
    variables = runner(clone, tmp_path)
    printed = ""
    for job in WORKFLOW["jobs"]:
        for step in steps_of(job, f"v{VERSION}"):
            done = step.run(clone, variables)
            assert done.returncode == 0, step.name + done.stdout + done.stderr
            printed += done.stdout + done.stderr
    assert "built twice, 3 files with the same bytes" in printed
    assert sorted(path.name for path in (clone / "packages").iterdir()) == sorted([WHEEL, SDIST])
    assert (tmp_path / "summary.md").read_text().startswith("# Firmware images")
    created = (tmp_path / "programs/gh.calls").read_text().split()
    assert created[:3] == ["release", "create", f"v{VERSION}"]
    assert {f"dist/{name}" for name in (WHEEL, SDIST, "SHA256SUMS", "IMAGES.md")} <= {*created}


@pytest.mark.attack(
    "Arguments and scripts",
    "a release tag that holds commands of a shell and of make",
    "refused; the commands are not run",
)
@pytest.mark.parametrize("tag", ["v9.9.9", "v$(shell${IFS}touch${IFS}ran)", 'v";touch${IFS}ran;"'])
@pytest.mark.long
def test_a_tag_of_another_version_is_refused_whatever_it_holds(
    clone: Path, tmp_path: Path, tag: str
) -> None:
    [build] = [step for step in steps_of("build", tag) if "make release" in step.script]
    done = build.run(clone, runner(clone, tmp_path))
    assert done.returncode == 2
    assert f"release: tag {tag} is not of version {VERSION}" in done.stderr
    assert not [*tmp_path.rglob("ran")]
    assert not (clone / "dist").exists()


def test_what_is_in_no_commit_is_not_released(clone: Path, tmp_path: Path) -> None:
    (clone / "README.md").write_text("changed\n")
    done = release(clone, "--output", str(tmp_path / "dist"))
    assert done.returncode == 2
    assert "1 files differ from the commit, such as README.md" in done.stderr


def test_files_of_others_are_not_removed(clone: Path, tmp_path: Path) -> None:
    (clone / "dist").mkdir()
    (clone / "dist/thesis.pdf").write_text("years of work")
    done = release(clone, "--output", str(clone / "dist"))
    assert done.returncode == 2
    assert "has files that are not of an earlier release, such as thesis.pdf" in done.stderr
    assert [path.name for path in (clone / "dist").iterdir()] == ["thesis.pdf"]


def test_only_real_boards_are_released(clone: Path) -> None:
    done = release(clone, "--boards", "qemu-mps2-an385")
    assert done.returncode == 2
    assert "no real boards: qemu-mps2-an385; choose from arduino-nano-33, " in done.stderr
