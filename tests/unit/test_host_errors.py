"""A disk that is full while a run goes on: whose failure it is, and what is kept."""

from __future__ import annotations

import errno
import json
from collections.abc import Callable
from pathlib import Path

import pytest

from harness import HostError, Owner
from harness.runs.directory import RunDirectory
from tests.conftest import MODELS, CommandResult

Etharness = Callable[..., CommandResult]


def fill_disk(monkeypatch: pytest.MonkeyPatch, from_file: str, until: str = "") -> None:
    """Let the disk be full from the writing of one file of a run on, until another's."""
    real, full = RunDirectory.write, [False]

    def write(self: RunDirectory, name: str, data: bytes) -> object:
        full[0] = (full[0] or name == from_file) and name != until
        if full[0]:
            raise OSError(errno.ENOSPC, "No space left on device", name)
        return real(self, name, data)

    monkeypatch.setattr(RunDirectory, "write", write)


def run(etharness: Etharness, place: Path) -> CommandResult:
    model = MODELS / "small_int8.pte"
    return etharness("run", "--board", "native", "--model", model, "-o", place)


@pytest.mark.attack(
    "Host and signals",
    "a full disk during a run",
    "exit code 75; the failure is attributed to the host",
)
def test_a_full_disk_is_a_failure_of_the_host(
    tmp_path: Path, etharness: Etharness, monkeypatch: pytest.MonkeyPatch
) -> None:
    fill_disk(monkeypatch, "trace.etlog", "result.json")
    said = run(etharness, tmp_path / "out")
    assert said.code == 75
    assert "No space left on device" in said.err
    assert "free space on that disk" in said.err
    result = json.loads((tmp_path / "out" / "result.json").read_text())
    assert result["failure"]["kind"] == "HostError"
    assert result["failure"]["owner"] == Owner.HOST
    assert result["runs_completed"] == 1


def test_a_console_that_cannot_be_kept_does_not_lose_the_result(
    tmp_path: Path, etharness: Etharness, monkeypatch: pytest.MonkeyPatch
) -> None:
    fill_disk(monkeypatch, "console.log", "result.json")
    said = run(etharness, tmp_path / "out")
    assert said.code == 75
    assert "the console of the run" in said.err
    result = json.loads((tmp_path / "out" / "result.json").read_text())
    assert result["exit_code"] == 0


def test_a_result_that_cannot_be_kept_is_said_to_be_cut_off(
    tmp_path: Path, etharness: Etharness, monkeypatch: pytest.MonkeyPatch
) -> None:
    fill_disk(monkeypatch, "console.log")
    said = run(etharness, tmp_path / "out")
    assert said.code == 75
    assert "the result of the run" in said.err
    result = json.loads((tmp_path / "out" / "result.json").read_text())
    assert result["failure"]["kind"] == "Unfinished"


@pytest.mark.attack(
    "Host and signals",
    "a full disk while a file is written",
    "the earlier file is kept; no partial file is left",
)
def test_half_a_file_is_not_left(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    directory = RunDirectory(tmp_path)

    def half(self: Path, data: bytes) -> int:
        with self.open("wb") as file:
            file.write(data[:3])
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr(Path, "write_bytes", half)
    with pytest.raises(OSError, match="No space"):
        directory.write("x", b"123456")
    assert [*tmp_path.iterdir()] == []


@pytest.mark.parametrize("error", [OSError(errno.ENOSPC, "No space left"), MemoryError()])
def test_what_a_command_runs_out_of_is_said(
    error: Exception, etharness: Etharness, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fails(*_: object) -> None:
        raise error

    monkeypatch.setattr("harness.cli.setup.board_names", fails)
    said = etharness("boards")
    assert said.code == 75
    assert "the host ran out of a resource" in said.err


def test_a_host_error_names_the_file() -> None:
    error = HostError.of(PermissionError(errno.EACCES, "Permission denied", "/a/b"), "it stopped")
    assert error.message == "it stopped: Permission denied: /a/b"
    assert error.hint == ""
