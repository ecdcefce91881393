"""Boards that run ExecuTorch itself, as far as that needs no ExecuTorch."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

import harness
from harness import HOST_NANOSECONDS, DeviceRefusedError, Region, UsageError
from harness.extensions.executorch import linking as executorch
from harness.link.exchange import refusal_error
from harness.runs.device import pull_trace
from harness.runs.directory import RunDirectory
from harness.target import build
from harness.target.doctor import missing_tools
from harness.testing import Op, Status, messages, wire
from tests.conftest import FIXTURES, ROOT

DUMP = (FIXTURES / "kws_f32_executorch.etdp").read_bytes()


def test_without_the_package(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(executorch, "find_executorch", lambda: None)
    with pytest.raises(UsageError, match="needs the executorch package") as caught:
        build.build_firmware(harness.Board.load("native-executorch"))
    assert "pip install" in caught.value.hint


def test_without_a_cxx_compiler(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr(executorch, "find_executorch", lambda: tmp_path)
    monkeypatch.setenv("CXX", "/nonexistent/c++")
    with pytest.raises(UsageError, match=r"needs a C\+\+ compiler"):
        build.build_firmware(harness.Board.load("native-executorch"))


INSTALLED = "qemu-mps2-an385-executorch"


@pytest.fixture
def _cross_compiler(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(executorch, "has_cross_library", lambda: True)


def refused(board: str = INSTALLED) -> UsageError:
    found = harness.Board.load(board)
    assert found.build is not None
    with pytest.raises(UsageError) as caught:
        executorch.linked_executorch(found, found.build, "sources")
    return caught.value


def test_an_installed_executorch_needs_the_cpp_library_for_its_core(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(executorch, "has_cross_library", lambda: False)
    error = refused()
    assert "needs arm-none-eabi-g++ with the C++ standard library" in str(error)
    assert "apt-get install libstdc++-arm-none-eabi-newlib" in error.hint


@pytest.mark.usefixtures("_cross_compiler")
def test_where_executorch_is_installed_has_to_be_said(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("EXECUTORCH_ROOT", raising=False)
    error = refused()
    assert "links an ExecuTorch built for cortex-m3: EXECUTORCH_ROOT is not set" in str(error)
    assert "etharness explain executorch" in error.hint


@pytest.mark.usefixtures("_cross_compiler")
def test_what_a_prefix_lacks_is_named(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("EXECUTORCH_ROOT", str(tmp_path / "nowhere"))
    assert "no such directory" in str(refused())
    monkeypatch.setenv("EXECUTORCH_ROOT", str(tmp_path))
    error = refused()
    assert "has no lib/cmake/ExecuTorch/executorch-config.cmake" in str(error)
    assert "--target install" in error.hint
    package = tmp_path / "lib/cmake/ExecuTorch"
    package.mkdir(parents=True)
    (package / "executorch-config.cmake").touch()
    assert f"has no libexecutorch_core.a in {tmp_path / 'lib'}" in str(refused())


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("a_lib", ("a_lib",)),
        ("a_lib;b_lib", ("a_lib", "b_lib")),
        (" a_lib, b_lib\n", ("a_lib", "b_lib")),
        ("", ()),
    ],
)
def test_kernel_libraries_of_the_environment_replace_those_of_the_board(
    text: str, expected: tuple[str, ...], monkeypatch: pytest.MonkeyPatch
) -> None:
    recipe = harness.Board.load(INSTALLED).build
    assert recipe is not None
    monkeypatch.delenv("EXECUTORCH_KERNELS", raising=False)
    assert "portable_ops_lib" in executorch.kernel_libraries(recipe)
    monkeypatch.setenv("EXECUTORCH_KERNELS", text)
    assert executorch.kernel_libraries(recipe) == expected


def test_doctor_says_which_executorch_a_board_lacks(monkeypatch: pytest.MonkeyPatch) -> None:
    board = harness.Board.load(INSTALLED)
    monkeypatch.delenv("EXECUTORCH_ROOT", raising=False)
    assert any("ExecuTorch for cortex-m3" in line for line in missing_tools(board))
    monkeypatch.setenv("EXECUTORCH_ROOT", "/opt/executorch-m3")
    [missing] = [line for line in missing_tools(board) if "ExecuTorch for cortex-m3" in line]
    assert "EXECUTORCH_ROOT=/opt/executorch-m3 has no lib/cmake" in missing


@pytest.mark.parametrize(
    ("status", "code", "shown"),
    [
        (Status.UNSUPPORTED_OPERATOR, 0x14, "ExecuTorch Error 0x14 OperatorMissing"),
        (Status.OUT_OF_MEMORY, 0x21, "ExecuTorch Error 0x21 MemoryAllocationFailed"),
        (Status.KERNEL_FAILED, 0x12, "ExecuTorch Error 0x12 InvalidArgument"),
        (Status.KERNEL_FAILED, 0x77, "ExecuTorch Error 0x77"),
    ],
)
def test_its_errors_are_shown_as_such(status: Status, code: int, shown: str) -> None:
    error = refusal_error(
        "b",
        Op.COMMIT,
        messages.DeviceOutcome(
            status=status, detail=code, message="x", detail_kind=wire.DetailKind.EXECUTORCH
        ),
    )
    assert f"refused COMMIT: x ({shown})" in str(error)
    assert error.executorch_error == code
    ours = refusal_error(
        "b",
        Op.COMMIT,
        messages.DeviceOutcome(status=Status.UNSUPPORTED_OPERATOR, detail=20, message="x"),
    )
    assert "(instruction 20)" in str(ours)
    assert ours.executorch_error is None


class Traced:
    """A session with a device whose runtime traced itself."""

    may_have_values = True

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
    info = messages.TargetInfo(1, 256, clocks=(HOST_NANOSECONDS,))
    trace, summary = pull_trace(Traced(buffer), info, directory)  # type: ignore[arg-type]
    assert (tmp_path / "trace.etdp").read_bytes() == DUMP
    assert not (tmp_path / "trace.etlog").exists()
    kept = tmp_path / "debug_buffer.bin"
    assert (kept.read_bytes() if kept.exists() else None) == buffer
    assert (summary.events, summary.log_bytes) == (len(trace), len(DUMP))
    assert harness.load(tmp_path / "trace.etdp").trace == trace


def test_the_board_file_of_the_guide_is_valid(tmp_path: Path) -> None:
    page = (ROOT / "docs/executorch.md").read_text()
    [text] = re.findall(r"```toml\n(.*?)```", page, re.DOTALL)
    (tmp_path / "my-board.toml").write_text(text)
    board = harness.Board.load(tmp_path / "my-board.toml")
    assert board.build is None
    assert "--board my-board.toml" in page
