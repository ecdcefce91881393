"""Memory over time as people and programs get it."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from tests.conftest import CommandResult
from tests.support.documents import document
from tests.support.logs import CompactLog
from tests.support.programs import ProgramBuilder

Etharness = Callable[..., CommandResult]


@pytest.fixture
def trace(tmp_path: Path) -> Path:
    log = CompactLog().block("Default").allocator("method").allocator("planned_1")
    log.allocation(1, 100, tick=1, offset=0).allocation(1, 60, tick=2, offset=112)
    log.allocation(2, 96, tick=3, offset=0).allocator("temporary")
    log.profile("Method::init", 0, 5, chain=-1).block("Execute")
    log.allocation(3, 30, tick=12, offset=0).allocation(3, 50, tick=13, offset=64)
    log.allocation(3, 9000, tick=14, failed=True).allocation(3, -30, tick=15, offset=0)
    log.allocation(3, -7, tick=15, offset=0).allocation(3, 50, tick=16, offset=80)
    log.profile("native_call_relu.out", 11, 19).profile("OPERATOR_CALL", 10, 20)
    log.profile("Method::execute", 9, 22, chain=-1)
    path = tmp_path / "trace.etlog"
    path.write_bytes(log.image())
    return path


@pytest.fixture
def model(tmp_path: Path) -> Path:
    builder = ProgramBuilder([0, 96])
    x, y = builder.tensor((8,), memory=(1, 0)), builder.tensor((8,), memory=(1, 64))
    builder.call("aten::relu", x, y, y)
    path = tmp_path / "model.pte"
    path.write_bytes(builder.finish([x], [y]))
    return path


def test_peaks_gaps_and_refusals_are_printed(etharness: Etharness, trace: Path) -> None:
    lines = etharness("decode", trace, "--memory").out.splitlines()
    rows = {line.split()[0]: line.split() for line in lines if line}
    assert lines[0] == "Memory"
    begin = lines.index("Live at the peak of 349 bytes")
    assert lines[2].split() == ["method", "160", "172", "12", "0"]
    assert lines[4].split() == ["temporary", "93", "130", "64", "0"]
    assert "temporary: 1 frees of pieces that are not known" in lines
    assert "temporary: 1 pieces that overlap one which nobody had freed" in lines
    assert lines[begin + 2].split() == ["method", "Method::init", "2", "160"]
    assert lines[begin + 4].split()[-2:] == ["2", "100"]
    refused = lines[lines.index("Refused") + 2].split()
    assert refused[:4] == ["temporary", "9,000", "80", "34"]
    assert refused[4:] == ["native_call_relu.out", "(instruction", "0)"]
    assert rows["losses:"][1] == "none;"
    assert "Operators of" not in "".join(lines)


def test_a_model_says_what_is_planned_and_needed(
    etharness: Etharness, trace: Path, model: Path
) -> None:
    lines = etharness("decode", trace, "--memory", "--model", model, "-v").out.splitlines()
    assert "planned [B]" in lines[1]
    assert lines[3].split() == ["planned_1", "96", "96", "96", "0", "0"]
    pool = lines[lines.index("Planned memory") + 2].split()
    assert pool == ["planned_1", "96", "96", "64", "instruction", "0", "2", "32"]
    at_peak = [line.split() for line in lines[lines.index("Live at the peak of 349 bytes") :]]
    assert ["method", "112", "60", "Method::init"] in at_peak

    out = etharness("decode", trace, "--memory", "--model", model, "--json").out
    found = document("decode", out)["memory"]
    assert found["peak_bytes"] == 349
    assert [item["planned"] for item in found["allocators"]] == [None, 96, None]
    assert found["allocators"][2]["refused_bytes"] == [9000]
    assert found["pools"][0]["peak_bytes"] == 64
    assert found["live_at_peak"][0]["during"] == "Method::init"
    assert document("decode", etharness("decode", trace, "--json").out)["memory"] is None


def test_tree_and_memory_go_together_and_without_allocators_it_is_said(
    etharness: Etharness, trace: Path, tmp_path: Path
) -> None:
    out = etharness("decode", trace, "--memory", "--tree").out
    assert out.index("Call tree of Execute") < out.index("Live at the peak")
    bare = tmp_path / "bare.etlog"
    bare.write_bytes(CompactLog().block("Execute").profile("a", 0, 1).image())
    assert "no allocators" in etharness("decode", bare, "--memory").out
