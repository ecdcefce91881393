"""Every block of the README that can run here, pasted in order into one empty folder."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from tests.packaging.conftest import EXTRAS, ROOT, Installed

pytestmark = [pytest.mark.sim, pytest.mark.uncounted]

README = (ROOT / "README.md").read_text()
BLOCK = re.compile(r"^```(\w*)\n(.*?)^```$", re.MULTILINE | re.DOTALL)

WITHOUT_LANGUAGE = "etharness run --board nucleo-f446re"
"""How the other block begins: commands that need a real board."""


def test_every_block_runs_as_pasted(installed: Installed, tmp_path: Path) -> None:
    blocks = BLOCK.findall(README)
    assert {language for language, _ in blocks} == {"", "sh"}
    for language, body in blocks:
        if language == "sh":
            installed.paste(body, cwd=tmp_path)
        else:
            assert body.startswith(WITHOUT_LANGUAGE), body
    made = ["runs.html", "m3.pftrace", "budget.toml", "results.db", "out/again/result.json"]
    assert [name for name in made if not (tmp_path / name).stat().st_size] == []


def test_the_readme_installs_what_its_blocks_use() -> None:
    assert re.findall(r"pip install '[^'\[]*\[(.*?)\]'", README) == [EXTRAS]


def test_every_link_of_the_readme_leads_somewhere() -> None:
    links = re.findall(r"\]\((?!https?:)([^)#]+)", README)
    links += re.findall(r'src(?:set)?="([^"]+)"', README)
    assert len(links) > 20
    assert [link for link in links if not (ROOT / link).exists()] == []
