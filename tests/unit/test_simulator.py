"""Simulators of cores: what they need, when they are built again, and how a failure reads."""

from __future__ import annotations

import os
import shutil
from pathlib import Path

import pytest

import harness
from harness import InfrastructureError, UsageError
from harness.extensions.simulators.rtl import PACKAGES, RtlPackage, build_simulator
from harness.target.doctor import missing_tools

CORE = "cv32e40p"
VERILATOR = """#!/bin/sh
set -e
echo "$@" >>"$(dirname "$0")/calls"
while [ "$1" != --Mdir ]; do shift; done
test -z "$FAIL" || { echo "%Error: no such module"; exit 1; }
echo built >"$2/simulator"
"""
NOWHERE = RtlPackage("pythondata-cpu-nowhere", "rtl")


@pytest.fixture
def tools(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder that is all of PATH, with a Verilator that only writes down its calls.

    So nothing calls the C++ compiler, which `tools/setup fast` does not install.
    """
    folder = tmp_path / "bin"
    folder.mkdir()
    for name in ("sh", "env", "dirname", "make"):
        found = shutil.which(name)
        assert found is not None
        (folder / name).symlink_to(found)
    for name, script in (("verilator", VERILATOR), ("c++", "#!/bin/sh\nexit 1\n")):
        (folder / name).write_text(script)
        (folder / name).chmod(0o755)
    monkeypatch.setenv("PATH", str(folder))
    monkeypatch.delenv("CXX", raising=False)
    monkeypatch.setenv("ETHARNESS_BUILD_DIR", str(tmp_path / "builds"))
    return folder


def calls(tools: Path) -> int:
    return len((tools / "calls").read_text().splitlines())


def test_a_simulator_is_built_once(tools: Path) -> None:
    simulator = build_simulator(CORE)
    assert simulator.read_text() == "built\n"
    assert build_simulator(CORE) == simulator
    assert calls(tools) == 1
    assert [path.name for path in simulator.parent.iterdir() if path.is_dir()] == []


def test_another_verilator_builds_it_again(tools: Path) -> None:
    build_simulator(CORE)
    os.utime(tools / "verilator", (1, 1))
    build_simulator(CORE)
    assert calls(tools) == 2


def test_a_failed_build_shows_what_verilator_said(
    tools: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("FAIL", "1")
    with pytest.raises(UsageError, match="building the simulator of cv32e40p failed") as caught:
        build_simulator(CORE)
    assert "%Error: no such module" in caught.value.message
    monkeypatch.delenv("FAIL")
    assert build_simulator(CORE).exists()


@pytest.mark.parametrize("tool", ["verilator", "make", "c++"])
def test_a_missing_tool_is_named(tools: Path, tool: str) -> None:
    (tools / tool).unlink()
    with pytest.raises(
        UsageError, match=f"{CORE} needs {tool.replace('+', '[+]')}: not found"
    ) as caught:
        build_simulator(CORE)
    assert "apt-get install" in caught.value.hint
    assert any(line.startswith(tool) for line in missing_tools(harness.Board.load("rtl-cv32e40p")))


def test_a_missing_package_is_named(tools: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    board = harness.Board.load("rtl-cv32e40p")
    assert not any("pythondata" in line for line in missing_tools(board))
    monkeypatch.setitem(PACKAGES, CORE, NOWHERE)
    with pytest.raises(UsageError, match="package pythondata-cpu-nowhere not found") as caught:
        build_simulator(CORE)
    assert caught.value.hint == "pip install 'etdump-harness[rtl]'"
    assert any("pythondata-cpu-nowhere" in line for line in missing_tools(board))


def test_a_profile_that_cannot_be_taken_is_a_failed_build(tools: Path, tmp_path: Path) -> None:
    """The simulator that this Verilator makes is no program."""
    with pytest.raises(InfrastructureError, match="did not run for its profile") as caught:
        build_simulator(CORE, tmp_path / "firmware")
    assert caught.value.hint == "build it without `profile_guided`"
    assert "-fprofile-generate" in (tools / "calls").read_text()
    assert build_simulator(CORE).exists()
