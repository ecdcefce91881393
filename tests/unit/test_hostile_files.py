"""Files and paths that somebody made to do harm: in folders that a command writes, and in JSON."""

from __future__ import annotations

import json
import os
import subprocess
from collections.abc import Callable
from pathlib import Path
from typing import Any

import msgspec
import numpy as np
import pytest

from harness import FormatError, UsageError, read_json
from harness.check.history.samples import decode_history
from harness.files import CappedFile, decode_json, open_regular
from harness.runs.directory import RunDirectory
from tests.conftest import CommandResult
from tests.support.flash import serial_native
from tests.support.reported import FINISHED

DEEP = b"[" * 200_000
Etharness = Callable[..., CommandResult]


@pytest.mark.attack("Files", "JSON of 200,000 nested brackets", "exit code 2: damaged")
@pytest.mark.parametrize("content", [DEEP, b'{"later": ' + DEEP])
@pytest.mark.parametrize("command", ["decode", "check", "report"])
def test_nested_brackets_are_a_damaged_result(
    etharness: Etharness, tmp_path: Path, command: str, content: bytes
) -> None:
    (tmp_path / "result.json").write_bytes(content)
    code, _, err = etharness(command, tmp_path)
    assert code == 2
    assert f"{tmp_path / 'result.json'}: damaged: not JSON" in err


@pytest.mark.parametrize("read", [read_json, lambda data: decode_history(data, "history.json")])
def test_nested_brackets_are_a_damaged_file(read: Callable[[bytes], object]) -> None:
    with pytest.raises(FormatError, match="not a"):
        read(DEEP)


def test_json_is_decoded_as_by_msgspec() -> None:
    document = {"a": [1, 2.5, None, "b"]}
    assert decode_json(json.dumps(document)) == document
    assert decode_json(b"[1, 2]", list[int]) == [1, 2]
    with pytest.raises(msgspec.ValidationError):
        decode_json(b'"1"', int)


@pytest.mark.attack("Files", "paths of 300 and of 5,000 characters", "exit code 2 at once")
@pytest.mark.parametrize("length", [300, 5000])
@pytest.mark.parametrize(
    "arguments",
    [
        ["run", "--board", "native", "--model", "LONG"],
        ["run", "--board", "native", "--model", "kws_int8", "-o", "LONG"],
        ["run", "--board", "LONG.toml", "--model", "kws_int8"],
        ["decode", "LONG"],
        ["history", "list", "--history", "LONG.db"],
    ],
)
def test_a_path_may_be_too_long(etharness: Etharness, arguments: list[str], length: int) -> None:
    code, _, err = etharness(*(word.replace("LONG", "a" * length) for word in arguments))
    assert code == 2
    assert "is too long: " in err
    assert len(err) < 300


@pytest.fixture
def precious(tmp_path: Path) -> Path:
    """A folder with a file that no command may change."""
    folder = tmp_path / "home"
    folder.mkdir()
    np.save(folder / "weights.npy", np.arange(4))
    return folder


@pytest.fixture
def output(tmp_path: Path) -> Path:
    """A run directory of an earlier run."""
    directory = RunDirectory.create(tmp_path / "out")
    directory.write_result(FINISHED)
    return directory.path


@pytest.mark.attack(
    "Files",
    "an output folder whose `inputs` is a link to another folder",
    "exit code 2; nothing is deleted",
)
@pytest.mark.parametrize("name", ["inputs", "outputs", "reference", "test_sets"])
def test_folders_of_a_run_are_not_followed(output: Path, precious: Path, name: str) -> None:
    if (output / name).is_dir():
        (output / name).rmdir()
    (output / name).symlink_to(precious)
    with pytest.raises(UsageError, match=f"{name} is a symbolic link"):
        RunDirectory.create(output)
    assert [path.name for path in precious.iterdir()] == ["weights.npy"]


@pytest.mark.attack(
    "Files", "links to other files, named like files of a run", "replaced; not followed"
)
@pytest.mark.parametrize("name", ["console.log", "result.json", "outputs/0.npy", "trace.etdp"])
@pytest.mark.parametrize("target", ["weights.npy", "missing"])
def test_links_to_files_are_replaced(output: Path, precious: Path, name: str, target: str) -> None:
    before = (precious / "weights.npy").read_bytes()
    if name != "result.json":
        (output / name).symlink_to(precious / target)
    directory = RunDirectory.create(output)
    if name == "result.json":
        (output / name).symlink_to(precious / target)
    if name.endswith(".npy"):
        directory.write_tensor(name, np.zeros(3))
    else:
        directory.write(name, b"of the run")
    assert not (output / name).is_symlink()
    assert [path.name for path in precious.iterdir()] == ["weights.npy"]
    assert (precious / "weights.npy").read_bytes() == before


@pytest.mark.attack(
    "Files", "a folder `flash_files` that is a link to another folder", "exit code 2 at once"
)
def test_files_for_a_tool_are_not_written_through_a_link(
    etharness: Etharness, tmp_path: Path, precious: Path
) -> None:
    board = serial_native(
        tmp_path, 'order = ["command"]\noptions.command = { write = ["true"], formats = ["bin"] }'
    )
    (tmp_path / "i.bin").write_bytes(bytes(64))
    output = tmp_path / "out"
    output.mkdir()
    arguments = ("flash", "--board", board, "--image", tmp_path / "i.bin", "--no-identity")
    assert etharness(*arguments, "-o", output).code == 0
    (output / "flash_files").symlink_to(precious)
    code, _, err = etharness(*arguments, "-o", output)
    assert code == 2
    assert "flash_files is a symbolic link" in err
    assert [path.name for path in precious.iterdir()] == ["weights.npy"]


@pytest.mark.attack("Files", "a link named like the log of a tool", "replaced; not followed")
def test_a_log_does_not_follow_a_link(tmp_path: Path, precious: Path) -> None:
    before = (precious / "weights.npy").read_bytes()
    (tmp_path / "flash.log").symlink_to(precious / "weights.npy")
    log = CappedFile(tmp_path / "flash.log")
    log.write(b"words of the tool")
    log.close()
    assert (tmp_path / "flash.log").read_bytes() == b"words of the tool"
    assert (precious / "weights.npy").read_bytes() == before


@pytest.mark.parametrize("target", ["weights.npy", "missing"])
def test_a_link_that_replaces_a_file_while_it_is_opened_is_not_followed(
    target: str, tmp_path: Path, precious: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Between the look at a path and its opening, whoever may write to its folder can change it."""
    path = tmp_path / "board.0.lock"
    path.touch()
    open_ = os.open

    def replaced(*arguments: Any) -> int:
        path.unlink()
        path.symlink_to(precious / target)
        return open_(*arguments)

    monkeypatch.setattr(os, "open", replaced)
    with pytest.raises(OSError, match=r"board\.0\.lock"):
        open_regular(path, os.O_RDWR | os.O_CREAT)
    assert [file.name for file in precious.iterdir()] == ["weights.npy"]


@pytest.mark.attack(
    "Arguments and scripts",
    "names of commits that are options of git, or hold `;` and newlines",
    "exit code 2: not found; nothing is run",
)
@pytest.mark.parametrize("name", ["--upload-pack=touch ran", "--output=ran", "HEAD;touch ran"])
def test_a_commit_cannot_be_an_option_of_git(
    etharness: Etharness, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, name: str
) -> None:
    subprocess.run(["git", "init", "--quiet", tmp_path], check=True)
    monkeypatch.chdir(tmp_path)
    given = [f"--good={name}", "--bad=HEAD", "--metric=execution"]
    code, _, err = etharness("bisect", *given, "--", "true")
    assert code == 2
    assert f"commit {name!r} not found" in err
    assert [path.name for path in tmp_path.iterdir()] == [".git"]
