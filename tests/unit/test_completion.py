"""Shell completion: the scripts, and what a shell is answered."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.conftest import BOARDS, ROOT, CommandResult

Etharness = Callable[..., CommandResult]
UNITS = """\
schema = 1
[[unit]]
id = "h743-a"
board = "native"
[[unit]]
id = "h743-b"
board = "native"
[[unit]]
id = "far"
board = "native"
"""


@pytest.fixture(autouse=True)
def lab(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    file = tmp_path / "units.toml"
    file.write_text(UNITS)
    monkeypatch.setenv("ETHARNESS_UNITS", str(file))
    return file


def complete(line: str) -> list[str]:
    """What bash gets for the last word of a line, each with its type."""
    variables = {
        "COMP_WORDS": line,
        "COMP_CWORD": str(line.count(" ")),
        "_ETHARNESS_COMPLETE": "bash_complete",
    }
    done = subprocess.run(
        [sys.executable, "-m", "harness"],
        env=os.environ | variables,
        capture_output=True,
        text=True,
        check=True,
    )
    assert done.stderr == ""
    return done.stdout.split()


def plain(*names: str) -> list[str]:
    return [f"plain,{name}" for name in names]


@pytest.mark.parametrize("command", ["run", "check x", "build", "doctor"])
def test_boards(command: str) -> None:
    names = [name for name in BOARDS if name.startswith("q")]
    assert names
    assert complete(f"etharness {command} --board q") == ["file,q", *plain(*names)]


def test_units(lab: Path, tmp_path: Path) -> None:
    assert complete("etharness run --unit ") == plain("far", "h743-a", "h743-b")
    assert complete("etharness lab power h") == plain("h743-a", "h743-b")
    assert complete("etharness lab lease h743-a h") == plain("h743-b")
    other = tmp_path / "other.toml"
    other.write_text('schema = 1\n[[unit]]\nid = "other"\nboard = "native"\n')
    assert complete(f"etharness lab who --units {other} ") == plain("other")
    lab.write_text("damaged")
    assert complete("etharness run --unit ") == []


def test_models() -> None:
    names = plain("kws_int8", "kws_int8_m4", "kws_int8_m55")
    assert complete("etharness run --model kws_i") == ["file,kws_i", *names]


def test_codes() -> None:
    every = sorted(page.name[:3] for page in (ROOT / "docs/checks").glob("I0*.md"))
    assert complete("etharness explain i0") == plain(*every)
    assert complete("etharness explain I01 I0") == plain(*every[1:])
    assert complete("etharness explain labg") == plain("labgrid")


def test_commands_and_options() -> None:
    assert complete("etharness nig") == plain("nightly")
    assert complete("etharness lab ") == plain(
        *("units", "ports", "who", "status", "lease", "release", "health", "power")
    )
    assert complete("etharness run --fl") == plain("--flash")
    assert complete("etharness completion ") == plain("bash", "zsh", "fish")


@pytest.mark.parametrize("shell", ["bash", "zsh", "fish"])
def test_scripts(shell: str, etharness: Etharness) -> None:
    code, out, err = etharness("completion", shell)
    assert (code, err) == (0, "")
    assert f"_ETHARNESS_COMPLETE={shell}_complete" in out
    assert etharness("completion", "tcsh").code == 2


@pytest.mark.skipif(shutil.which("bash") is None, reason="needs bash")
def test_bash_completes_with_the_script(etharness: Etharness, tmp_path: Path) -> None:
    program = tmp_path / "etharness"
    program.write_text(f'#!/bin/sh\nexec "{sys.executable}" -m harness "$@"\n')
    program.chmod(0o755)
    script = (
        f"{etharness('completion', 'bash').out}\n"
        "COMP_WORDS=(etharness lab health h) COMP_CWORD=3\n"
        f'_etharness_completion "{program}"; echo "${{COMPREPLY[@]}}"\n'
    )
    done = subprocess.run(
        ["bash", "--norc", "-c", script], capture_output=True, text=True, check=True
    )
    assert done.stdout == "h743-a h743-b\n", done.stderr
