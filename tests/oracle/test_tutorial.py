"""docs/tutorial.md, pasted in order into one empty folder."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

pytest.importorskip("executorch.exir", reason="needs torch and executorch")

pytestmark = [pytest.mark.oracle, pytest.mark.sim]

PAGE = (Path(__file__).parents[2] / "docs/tutorial.md").read_text()
BLOCK = re.compile(r"^```(sh|text)\n(.*?)^```$", re.MULTILINE | re.DOTALL)
VARIES = re.compile(r"[+-]?\d[\d.,:T]*|/\S*/|[█▇▆▅▄▃▂▁]+|firmware \w+|\bm?s\b")
"""What depends on the compiler, the clock and the folder."""


def comparable(line: str) -> str:
    return " ".join(VARIES.sub("#", line).split())


def paste(commands: str, folder: Path) -> str:
    programs = Path(sys.executable).parent
    done = subprocess.run(
        ["sh", "-eu", "-c", commands],
        cwd=folder,
        env=os.environ | {"PATH": f"{programs}{os.pathsep}{os.environ['PATH']}"},
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        timeout=600,
        check=False,
    )
    assert done.returncode == 0, commands + done.stdout + done.stderr
    return done.stdout


def test_every_block_runs_and_prints_what_the_page_shows(tmp_path: Path) -> None:
    printed: list[str] = []
    compared = 0
    for kind, body in BLOCK.findall(PAGE):
        if kind == "sh":
            printed = [comparable(line) for line in paste(body, tmp_path).splitlines()]
            continue
        # Shown lines occur in this order; "..." stands for any others.
        rest = iter(printed)
        for line in body.splitlines():
            if line not in ("", "..."):
                assert comparable(line) in rest, f"{line}\nis not in this order in {printed}"
                compared += 1
    assert compared > 40
