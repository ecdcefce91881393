"""Flashing as a whole, without a board: what is refused before anything is touched, and why."""

from __future__ import annotations

import json
import os
import shlex
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from harness import FlashStep, Image, ImageFormat, Segment
from harness.extensions.lab.holding import hold_keys
from harness.flash.execute import SIGNS, Log, find_sign, run_steps
from harness.target.selection import probe_key
from tests.conftest import CommandResult
from tests.support.documents import document
from tests.support.flash import record_of, serial_native, stand_in

VARIABLE = "ETHARNESS_LEASE"

Etharness = Callable[..., CommandResult]

BANNER = b"....etdump stub 0123456789ab on \0native\0...."
OPTIONS = 'order = ["openocd"]\n[flash.options.openocd]\nconfig = ["interface/cmsis-dap.cfg"]'


@pytest.fixture
def lab(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A unit with a probe, two of whose kind are connected, and its board's tool."""
    board = serial_native(tmp_path, OPTIONS)
    (tmp_path / "i.bin").write_bytes(BANNER)
    units = tmp_path / "units.toml"
    units.write_text(
        f'schema = 1\n[[unit]]\nid = "desk"\nboard = "{board.name}"\nport = "/dev/ttyNONE"\n'
        'probe = "0d28:0204:BBBB"\n'
    )
    usb = tmp_path / "sys/bus/usb/devices"
    for name, serial in (("1-1", "AAAA"), ("1-2", "BBBB")):
        (usb / name).mkdir(parents=True)
        (usb / name / "idVendor").write_text("0d28\n")
        (usb / name / "idProduct").write_text("0204\n")
        (usb / name / "serial").write_text(f"{serial}\n")
    monkeypatch.setenv("ETHARNESS_SYSROOT", str(tmp_path))
    monkeypatch.setenv("ETHARNESS_UNITS", str(units))
    stand_in(tmp_path, "openocd", 'echo "$@"; exit 1')
    monkeypatch.setenv("PATH", f"{tmp_path}:{os.environ['PATH']}")
    return tmp_path


def test_a_unit_s_probe_is_the_one_that_is_told_the_tool(etharness: Etharness, lab: Path) -> None:
    # Given as HEX, since openocd takes no flat images.
    image = lab / "i.hex"
    made = Image(image, ImageFormat.ELF, (Segment(0x0800_0000, BANNER),), "")
    image.write_bytes(made.as_hex())
    result = etharness("flash", "--unit", "desk", "--image", image, "--dry-run")
    assert result.code == 0, result.err
    [call] = result.out.splitlines()
    assert "adapter serial {BBBB}" in shlex.split(call)


def test_several_probes_and_no_selector_are_refused_with_their_selectors(
    etharness: Etharness, lab: Path
) -> None:
    arguments = ("--board", lab / "native.toml", "--port", "/dev/x", "--image", lab / "i.bin")
    for more in ((), ("--probe", "0d28:0204")):
        result = etharness("flash", *arguments, *more, "-o", lab / "out")
        assert result.code == 2
        assert "0d28:0204:AAAA (USB 1-1), 0d28:0204:BBBB (USB 1-2)" in result.err
    assert not (lab / "out").exists()
    result = etharness("flash", *arguments, "--probe", "0d28:0204:CCCC", "-o", lab / "out")
    assert result.code == 75
    assert "0d28:0204:CCCC of the board (openocd) is not connected" in result.err


def test_a_plan_is_printed_as_json(etharness: Etharness, lab: Path) -> None:
    board = serial_native(
        lab, 'order = ["jlink", "st-flash"]\noptions.st-flash.address = 0x8000000'
    )
    stand_in(lab, "st-flash", "echo v1")
    arguments = ("flash", "--board", board, "--port", "/dev/x", "--image", lab / "i.bin")
    text = etharness(*arguments, "--dry-run").out
    assert text == f"{lab}/st-flash --reset write {lab}/i.bin 0x8000000\n"
    plan = document("flash-plan", etharness(*arguments, "--dry-run", "--json").out)
    assert plan["steps"][0]["argv"] == shlex.split(text)
    assert plan["build_id"] == "0123456789ab"
    assert list(plan["others"]) == ["jlink"]


def test_an_output_that_cannot_be_written_is_said(etharness: Etharness, lab: Path) -> None:
    board = serial_native(
        lab, 'order = ["command"]\noptions.command = { write = ["true"], formats = ["bin"] }'
    )
    (lab / "file").write_text("")
    arguments = ("flash", "--board", board, "--no-identity", "--image", lab / "i.bin")
    result = etharness(*arguments, "--probe", "0d28:0204:AAAA", "-o", lab / "file/out")
    assert result.code == 75
    assert f"cannot write to {lab}/file/out: Not a directory" in result.err


def test_options_that_contradict_each_other_are_refused(etharness: Etharness, lab: Path) -> None:
    both = etharness("flash", "--unit", "desk", "--if-needed", "--no-identity")
    assert both.code == 2
    alone = etharness("run", "--board", "native", "--model", "m.pte", "--tool", "gdb")
    assert alone.code == 2
    assert "require --flash" in alone.err


def test_a_board_file_without_flash_says_what_to_add(etharness: Etharness, lab: Path) -> None:
    path = serial_native(lab, "order = []")
    path.write_text(path.read_text().partition("[flash]")[0])
    result = etharness("flash", "--board", path, "--port", "/dev/x", "--image", lab / "i.bin")
    assert result.code == 2
    assert "flash = { order = [...] }" in result.err


def test_a_probe_that_another_process_uses_is_waited_for_and_named(
    etharness: Etharness, lab: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("ETHARNESS_LOCK_DIR", str(lab / "locks"))
    board = serial_native(
        lab, 'order = ["command"]\noptions.command = { write = ["true"], formats = ["bin"] }'
    )
    board.write_text(board.read_text().replace("reopen_s = 1", "reopen_s = 1, unit_s = 0.2"))
    arguments = ["flash", "--board", str(board), "--no-identity", "--image", str(lab / "i.bin")]
    arguments += ["--probe", "0d28:0204:BBBB", "-o", str(lab / "out"), "--json"]
    with hold_keys([probe_key("0d28:0204:BBBB")], 1):
        stranger = {key: value for key, value in os.environ.items() if key != VARIABLE}
        other = subprocess.run(
            [sys.executable, "-m", "harness", *arguments],
            capture_output=True,
            text=True,
            check=False,
            env=stranger,
        )
    assert other.returncode == 75
    assert "probe 0d28:0204:BBBB was not free within 0.2 s" in other.stderr
    assert str(os.getpid()) in other.stderr
    assert record_of(lab / "out")["failure"]["kind"] == "BusyError"
    free = etharness(*arguments)
    assert free.code == 0
    record = document("flash", free.out)
    assert record["probe"] == "0d28:0204:BBBB"
    assert record == json.loads((lab / "out/flash.json").read_text())


@given(st.text(max_size=300))
def test_any_output_of_a_tool_is_judged(text: str) -> None:
    sign = find_sign(text)
    assert sign is None or sign in SIGNS


def test_what_a_tool_prints_stays_apart_from_what_it_was_told(tmp_path: Path) -> None:
    """A path that holds the proof proves nothing, and bytes that are no text do no harm."""
    log = Log(tmp_path / "flash.log")
    tool = stand_in(tmp_path, "tool", r"printf 'half \377\r\n\033[2J'; echo fine >&2")
    took: dict[str, float] = {}
    run_steps("t", [FlashStep("write", (tool, "all done"), proof="fine")], log, 10, tmp_path, took)
    assert set(took) == {"write"}
    text = log.path.read_bytes()
    assert b"all done\n" in text
    assert b"\xff" in text
    with pytest.raises(Exception, match="no sign of success") as caught:
        run_steps(
            "t", [FlashStep("write", (tool, "all done"), proof="all done")], log, 10, tmp_path, {}
        )
    assert "all done" not in str(caught.value)
    assert str(caught.value).isprintable()


def test_nothing_is_written_before_all_programs_of_a_board_are_found(
    etharness: Etharness, lab: Path
) -> None:
    stand_in(lab, "writer", f'echo written > "{lab}/written"')
    board = serial_native(
        lab,
        'order = ["command"]\noptions.command = { write = ["./writer"], '
        'verify = ["./checker"], formats = ["bin"], address = 0 }',
    )
    arguments = ("flash", "--board", board, "--port", "/dev/x", "--image", lab / "i.bin")
    result = etharness(*arguments, "--probe", "0d28:0204:AAAA", "-o", lab / "out")
    assert result.code == 2
    assert f"not installed (no program {lab}/checker" in result.err
    assert not (lab / "written").exists()
    doctor = etharness("doctor", "--board", board)
    assert f"no program {lab}/checker" in " ".join(doctor.out.split())


def test_a_file_that_a_tool_does_not_find_is_not_the_hardware_s_fault(
    etharness: Etharness, lab: Path
) -> None:
    lost = 'echo "Error: Can\'t find interface/stlnk.cfg"; exit 1'
    script = stand_in(lab, "lost", lost)
    board = serial_native(
        lab,
        f'order = ["command"]\noptions.command = {{ write = ["{script}"], formats = ["bin"] }}',
    )
    arguments = ("flash", "--board", board, "--no-identity", "--image", lab / "i.bin")
    result = etharness(*arguments, "--probe", "0d28:0204:AAAA", "-o", lab / "out")
    assert result.code == 2, result.err
    assert "a file that the tool needs does not exist" in result.err
    assert "correct its path" in result.err
