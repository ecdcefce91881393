"""Tracer and link compile for every core, by GCC and Clang, with the options that firmware uses."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from benchmarks.compilers import CORES, MARK, PAGE, VARIANTS, compiled, helpers, text_size
from tests.conftest import ROOT
from tests.library.conftest import INCLUDE, STUB, sh
from tests.support.examples import sampled

pytestmark = pytest.mark.sim


LARGEST = 4352
"""Bytes of the tracer on a Cortex-M3 by GCC with -Os: what it may grow to."""

TESTED_ALWAYS = ("Cortex-M0", "Cortex-M33, no FPU", "RV32IMC")


@pytest.mark.parametrize("core", sampled(CORES, *TESTED_ALWAYS))
@pytest.mark.parametrize("compiler", ["gcc", "clang"])
def test_a_core_is_compiled_for_without_a_warning(core: str, compiler: str, tmp_path: Path) -> None:
    for variant in VARIANTS:
        objects = compiled(core, compiler, variant, tmp_path / variant)
        assert len(objects) > 12
        if variant != "lto":  # whose objects have no code yet
            assert helpers(objects) == []


def test_the_page_states_the_size_on_each_core() -> None:
    lines = PAGE.read_text().partition(MARK)[2].splitlines()
    rows = [line.strip("| ").split(" | ") for line in lines if line.startswith("| ")][1:]
    assert [row[0] for row in rows] == list(CORES)
    [stated] = [int(row[1]) for row in rows if row[0] == "Cortex-M3"]
    assert stated == pytest.approx(text_size("Cortex-M3", "gcc", "os"), rel=0.02)
    assert stated <= LARGEST


OPTIONAL = re.compile(
    r"^\| `(src/\S+|ports/\S+)` \| `\S+` \| .* \| (\d+) \| (\d+|-) \|$", re.MULTILINE
)


def test_the_page_states_the_size_of_each_optional_file(tmp_path: Path) -> None:
    rows = OPTIONAL.findall((ROOT / "docs/library/README.md").read_text())
    assert {"src/clock/clock.c", "ports/itm/etd_itm.c"} < {row[0] for row in rows}
    for file, *stated in rows:
        for core, size in zip(("cortex-m3", "cortex-m0plus"), stated, strict=True):
            if size == "-":
                continue
            options = (
                f"-mcpu={core}",
                "-mthumb",
                "-Os",
                "-std=c11",
                f"-I{INCLUDE}",
                f"-I{(STUB / file).parent}",
            )
            compiler = ("arm-none-eabi-gcc", *options, "-c", STUB / file, "-o", "file.o")
            sh(*compiler, cwd=tmp_path)
            text = sh("arm-none-eabi-size", "file.o", cwd=tmp_path).splitlines()[1].split()[0]
            assert int(text) == pytest.approx(int(size), rel=0.02), (file, core)
