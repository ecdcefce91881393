"""Every block of the README that can run here, pasted in order into one empty folder."""

from __future__ import annotations

import re
import subprocess
from pathlib import Path

import pytest

from tests.packaging.conftest import EXTRAS, ROOT, Installed

pytestmark = [pytest.mark.sim, pytest.mark.uncounted, pytest.mark.timeout(600)]

README = (ROOT / "README.md").read_text()
BLOCK = re.compile(r"^```(\w*)(?: file=(\S+))?\n(.*?)^```$", re.MULTILINE | re.DOTALL)
ELSEWHERE = {
    "make ": "needs a checkout: `make fresh` runs these two in a bare Debian",
    "pip install ": "the fixture has done it with the wheel",
}
"""Commands that this test does not run, by how they begin, and why."""

WITHOUT_LANGUAGE = ("board       native", "etharness flash --board nucleo-f446re")
"""How the other blocks begin: output, and commands that need a real board."""


def test_every_block_runs_as_pasted(installed: Installed, tmp_path: Path) -> None:
    blocks = BLOCK.findall(README)
    assert {language for language, _, _ in blocks} == {"", "sh", "toml", "python"}
    for language, file, body in blocks:
        if file:
            (tmp_path / file).write_text(body)
        elif language == "sh":
            lines = [line for line in body.splitlines() if not line.startswith(tuple(ELSEWHERE))]
            done = subprocess.run(
                ["sh", "-euxc", "\n".join(lines)],
                cwd=tmp_path,
                env=installed.variables,
                stdin=subprocess.DEVNULL,
                capture_output=True,
                text=True,
                timeout=300,
                check=False,
            )
            assert done.returncode == 0, body + done.stdout + done.stderr
        else:
            assert body.startswith(WITHOUT_LANGUAGE), body
    made = ["runs.html", "m3.pftrace", "budget.toml", "results.db", "out/again/result.json"]
    assert [name for name in made if not (tmp_path / name).stat().st_size] == []


def test_the_readme_installs_what_its_blocks_use() -> None:
    assert re.findall(r"pip install '[^'\[]*\[(.*?)\]'", README) == [EXTRAS]


def test_every_link_of_the_readme_leads_somewhere() -> None:
    links = re.findall(r"\]\((?!https?:)([^)#]+)", README)
    assert len(links) > 20
    assert [link for link in links if not (ROOT / link).exists()] == []
