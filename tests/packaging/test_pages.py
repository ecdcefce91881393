"""Blocks of pages, pasted in order into a folder with a model, a budget and a run, page by page.

A block marked as ``sh`` or ``python`` is one that a reader can run as it is.
"""

from __future__ import annotations

import re
import shutil
from pathlib import Path

import pytest

from tests.conftest import MODELS
from tests.packaging.conftest import ROOT, Installed
from tests.support.examples import sampled

pytestmark = [pytest.mark.sim, pytest.mark.uncounted]

BLOCK = re.compile(r"^```(sh|python)\n(.*?)^```$", re.MULTILINE | re.DOTALL)

QUICK = "docs/api.md"
"""The page that `make test` runs; CI runs all."""

ELSEWHERE = {
    "docs/boards.md": "tests/sim/test_board_guide.py follows it in a checkout",
    "docs/probes.md": "tests/sim/test_debug_probe.py runs its blocks beside a simulated probe",
    "docs/trace.md": "tests/sim/test_trace_command.py traces images, with the extra `probe`",
    "docs/pytest.md": "tests/sim/test_pytest_plugin.py runs its blocks",
    "docs/tutorial.md": "tests/oracle/test_tutorial.py runs it",
}
"""Pages whose blocks do not run here, and why."""

FIXTURES = ROOT / "tests/fixtures"
ITS_FILES = {
    "docs/external-data.md": {
        "model.pte": FIXTURES / "external_data/all.pte",
        "weights.ptd": FIXTURES / "external_data/all.ptd",
        "parts.pte": FIXTURES / "external_data/two.pte",
        "conv.ptd": FIXTURES / "external_data/conv.ptd",
        "linear.ptd": FIXTURES / "external_data/linear.ptd",
    },
    "docs/stateful-models.md": {"stream.bpte": FIXTURES / "stateful/stream.bpte"},
}
"""Files that a page needs beside, or instead of, the usual model."""

WITH_BLOCKS = sorted(
    name
    for path in ROOT.glob("docs/**/*.md")
    if (name := path.relative_to(ROOT).as_posix()) not in ELSEWHERE
    and BLOCK.search(path.read_text())
)


@pytest.mark.parametrize("page", sampled(WITH_BLOCKS, QUICK))
def test_every_block_of_a_page_runs_as_pasted(
    page: str, installed: Installed, tmp_path: Path
) -> None:
    shutil.copy(MODELS / "kws_int8.pte", tmp_path / "model.pte")
    (tmp_path / "other.toml").write_text("schema = 1\n")
    installed.paste("etharness run --board native --model model.pte -o out/run", cwd=tmp_path)
    for name, file in ITS_FILES.get(page, {}).items():
        shutil.copy(file, tmp_path / name)
    blocks = BLOCK.findall((ROOT / page).read_text())
    assert blocks
    for number, (language, body) in enumerate(blocks):
        if language == "sh":
            installed.paste(body, cwd=tmp_path)
        else:
            (tmp_path / f"block{number}.py").write_text(body)
            installed.paste(f"python block{number}.py", cwd=tmp_path)
