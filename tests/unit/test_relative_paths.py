"""Paths are relative to the working folder, or to the file that names them, whatever is started."""

from __future__ import annotations

import os
import shlex
from collections.abc import Callable, Iterator
from pathlib import Path

import click
import pytest

from harness import Image, ImageFormat, Segment, UsageError, load_units
from harness.cli import cli
from harness.config.project import default_history
from harness.flash.plan import find_tool
from harness.records.store_address import StoreAddress
from harness.target.build import build_root
from harness.target.selection import lock_directory
from tests.conftest import CommandResult
from tests.support.flash import serial_native, stand_in

Etharness = Callable[..., CommandResult]
BANNER = b"....etdump stub 0123456789ab on \0native\0...."
NAMES_OF_FILES = {"board": "x.toml", "port": "dev/tty", "url": "runs.sqlite"}
"""Parameters that may name a file, and how they do."""

OPTIONS = {
    "command": 'write = ["./load.sh", "{image}", "plain"], verify = ["../v.sh"], formats = ["bin"]',
    "copy": 'mount = "drive", format = "bin"',
    "dfu-util": "vid = 0x0483, pid = 0xdf11, address = 0x8000000",
    "esptool": 'chip = "esp32"',
    "gdb": 'server = "localhost:3333"',
    "jlink": 'device = "STM32F4"',
    "openocd": 'config = ["own.cfg", "interface/cmsis-dap.cfg"]',
    "probe-rs": 'chip = "STM32F446"',
    "pyocd": 'target = "stm32f4", pack = "chip.pack"',
    "st-flash": "address = 0x8000000",
    "picotool": "address = 0x10000000",
    "stm32flash": "address = 0x8000000",
    "west": 'build_dir = "build"',
}


def all_commands(
    group: click.Group, *words: str
) -> Iterator[tuple[tuple[str, ...], click.Command]]:
    for name in group.list_commands(click.Context(group)):
        command = group.get_command(click.Context(group), name)
        assert command is not None
        if isinstance(command, click.Group):
            yield from all_commands(command, *words, name)
        else:
            yield (*words, name), command


COMMANDS = list(all_commands(cli))


def used(value: object) -> object:
    """Return what is opened: the address of a store shows no secrets in any other text."""
    return value.with_secrets() if isinstance(value, StoreAddress) else value


@pytest.mark.parametrize(("words", "command"), COMMANDS, ids=[" ".join(w) for w, _ in COMMANDS])
def test_every_path_of_every_command_is_absolute_on_entry(
    words: tuple[str, ...], command: click.Command, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "x.html").touch()
    context = click.Context(command)
    for param in command.params:
        if isinstance(param.type, click.Path):
            name = "x.html" if param.type.file_okay else "folder"
            wanted = tmp_path / name
            several = param.multiple or param.nargs == -1
            got = param.process_value(context, [name] if several else name)
            assert got == ((wanted,) if several else wanted), f"{words}: {param.name}"
        elif param.name in NAMES_OF_FILES and (param.name != "board" or words[0] != "history"):
            said = NAMES_OF_FILES[param.name]
            if param.callback is None:
                assert words[0] == "history" or param.name == "board", f"{words}: {param.name}"
                continue
            assert used(param.process_value(context, said)) == str(tmp_path / said)
            for other in ("native", "socket://h/1", "COM3"):
                if param.name != "url":
                    assert used(param.process_value(context, other)) == other
        else:
            assert getattr(param, "metavar", "") != "FILE" or param.name == "model"


@pytest.fixture
def board(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A board file that names files beside it; the working folder is another one, and empty."""
    place = tmp_path / "boards"
    place.mkdir()
    lines = "\n".join(f"options.{name} = {{ {said} }}" for name, said in OPTIONS.items())
    file = serial_native(place, f"order = {list(OPTIONS)}\n{lines}")
    (place / "own.cfg").touch()
    (tmp_path / "empty").mkdir()
    monkeypatch.chdir(tmp_path / "empty")
    monkeypatch.setenv("ETHARNESS_SYSROOT", str(tmp_path))
    return file


def test_every_tool_has_options_here() -> None:
    with pytest.raises(UsageError) as caught:
        find_tool("nothing", "here")
    known = caught.value.hint.partition("known tools: ")[2]
    assert sorted(known.split(", ")) == sorted(OPTIONS)


@pytest.mark.parametrize("tool", sorted({*OPTIONS} - {"gdb"}))  # gdb: test_flash_qemu.py
def test_a_tool_gets_paths_that_mean_the_same_elsewhere(
    tool: str, board: Path, etharness: Etharness
) -> None:
    """It is started in the output folder."""
    given = next(
        f
        for f in (ImageFormat.HEX, ImageFormat.BIN, ImageFormat.UF2)
        if f in find_tool(tool, "here").formats
    )
    image = Image(Path("f"), ImageFormat.ELF, (Segment(0x0800_0000, BANNER),), "")
    name = f"f.{given}"
    as_ = {
        ImageFormat.HEX: image.as_hex,
        ImageFormat.BIN: image.as_bin,
        ImageFormat.UF2: lambda: image.as_uf2(0),
    }
    Path(name).write_bytes(as_[given]())
    arguments = ["flash", "--tool", tool, "--dry-run", "--port", "/dev/x"]
    here = os.path.relpath(board)
    relative = etharness(*arguments, "--board", here, "--image", name, "-o", "out")
    whole = [*arguments, "--board", str(board), "--image", str(Path.cwd() / name)]
    assert relative.code == 0, relative.err
    assert relative.out == etharness(*whole, "-o", str(Path.cwd() / "out")).out
    text = relative.out
    call = next(line for line in text.splitlines() if not line.startswith("#"))
    if tool != "west":  # which flashes what it has built
        assert f"{Path.cwd()}/" in text
    for word in shlex.split(call):
        assert not word.startswith(("./", "../", "out/", name))
    place = board.parent
    own = {
        "command": [f"{place}/load.sh", " plain", f"{place.parent}/v.sh"],
        "copy": [f"{place}/drive/firmware.bin"],
        "openocd": [f"-f {place}/own.cfg -f interface/cmsis-dap.cfg"],
        "pyocd": [f"--pack {place}/chip.pack"],
        "west": [f"--build-dir {place}/build"],
    }
    for said in own.get(tool, []):
        assert said in text


def test_a_tool_on_a_relative_path_is_found_elsewhere(
    board: Path, etharness: Etharness, monkeypatch: pytest.MonkeyPatch
) -> None:
    Path("bin").mkdir()
    stand_in(Path("bin"), "st-flash", "echo $2; cat $3; exit 1")
    monkeypatch.setenv("PATH", f"bin:{os.environ['PATH']}")
    Path("i.bin").write_bytes(BANNER)
    words = ("--tool", "st-flash", "--no-identity", "--image", "i.bin", "--attempts", "1")
    result = etharness("flash", "--board", str(board), *words)
    assert result.code == 75
    log = Path("out/flash/flash.log").read_bytes()
    assert f"# {Path.cwd()}/bin/st-flash --reset write {Path.cwd()}/i.bin".encode() in log
    assert BANNER in log


def test_what_the_environment_names_is_absolute(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "lab.toml").write_text(
        'schema = 1\n[[unit]]\nid = "u"\nboard = "b/x.toml"\n'
        'power = { kind = "command", on = ["./p", "on"], off = ["plug", "./f", "off"] }\n'
    )
    monkeypatch.setenv("ETHARNESS_UNITS", "lab.toml")
    monkeypatch.setenv("ETHARNESS_LOCK_DIR", "locks")
    monkeypatch.setenv("ETHARNESS_BUILD_DIR", "builds")
    monkeypatch.setenv("ETHARNESS_HISTORY", "h.sqlite")
    [unit] = load_units()
    assert unit.board == str(tmp_path / "b/x.toml")
    assert unit.power is not None
    assert (unit.power.on, unit.power.off) == (  # type: ignore[union-attr]
        (f"{tmp_path}/p", "on"),
        ("plug", f"{tmp_path}/f", "off"),
    )
    assert (lock_directory(), build_root()) == (tmp_path / "locks", tmp_path / "builds")
    assert used(default_history()) == str(tmp_path / "h.sqlite")
    monkeypatch.setenv("ETHARNESS_HISTORY", "postgresql://u@h/d")
    assert used(default_history()) == "postgresql://u@h/d"


def test_links_stay_and_steps_back_do_not(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "link").symlink_to("/dev")
    (tmp_path / "b").touch()
    [decode] = [command for words, command in COMMANDS if words == ("decode",)]
    [path] = [param for param in decode.params if isinstance(param, click.Argument)]
    context = click.Context(decode)
    assert path.process_value(context, "link/null") == tmp_path / "link/null"
    assert path.process_value(context, "a/../b") == tmp_path / "b"
