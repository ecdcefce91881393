"""Boards that run ExecuTorch itself, as far as that needs no ExecuTorch."""

from __future__ import annotations

from pathlib import Path

import pytest

from harness.config.board import load_board
from harness.errors import DeviceRefusedError, UsageError
from harness.link.values import TargetInfo
from harness.link.wire import Region, Status
from harness.records.clock_domain import HOST_NANOSECONDS
from harness.runs.device_data import pull_trace
from harness.runs.directory import RunDirectory
from harness.runs.source import load_source
from harness.target import build, executorch
from tests.conftest import FIXTURES

DUMP = (FIXTURES / "kws_f32_executorch.etdp").read_bytes()


def test_without_the_package(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(executorch, "find_executorch", lambda: None)
    with pytest.raises(UsageError, match="needs the executorch package") as caught:
        build.build_firmware(load_board("native-executorch")[0])
    assert "pip install" in caught.value.hint


def test_without_a_cxx_compiler(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr(executorch, "find_executorch", lambda: tmp_path)
    monkeypatch.setenv("CXX", "/nonexistent/c++")
    with pytest.raises(UsageError, match=r"needs a C\+\+ compiler"):
        build.build_firmware(load_board("native-executorch")[0])


class Traced:
    """A session with a device whose runtime traced itself."""

    def __init__(self, buffer: bytes | None) -> None:
        self.buffer = buffer

    def read(self, region: Region, index: int = 0, **_: object) -> bytes:
        assert region == Region.TRACE
        if index == 0:
            return DUMP
        if self.buffer is None:
            raise DeviceRefusedError("no", status=Status.BAD_REGION, detail=1)
        return self.buffer


@pytest.mark.parametrize("buffer", [None, b"tensors"])
def test_a_dump_is_kept_as_it_came(tmp_path: Path, buffer: bytes | None) -> None:
    directory = RunDirectory.create(tmp_path)
    info = TargetInfo(1, 256, clocks=(HOST_NANOSECONDS,))
    trace, summary = pull_trace(Traced(buffer), info, directory)  # type: ignore[arg-type]
    assert (tmp_path / "trace.etdp").read_bytes() == DUMP
    assert not (tmp_path / "trace.etlog").exists()
    kept = tmp_path / "debug_buffer.bin"
    assert (kept.read_bytes() if kept.exists() else None) == buffer
    assert (summary.events, summary.log_bytes) == (len(trace), len(DUMP))
    assert load_source(tmp_path / "trace.etdp").trace == trace
