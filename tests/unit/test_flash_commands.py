"""What each flashing tool would be told, word by word; and how tool and probe are chosen."""

from __future__ import annotations

import shlex
from pathlib import Path
from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

import harness
from harness import Image, ImageFormat, InfrastructureError, Job, Segment, UsageError, UsbPort
from harness.flash.plan import check_flash, choose_tool, find_tool
from harness.flash.tool import choose_probe, connected, parse_selector
from tests.conftest import BOARDS, ROOT

ELF = Image(
    Path("/i/f.elf"), ImageFormat.ELF, (Segment(0x800_0000, b"code"), Segment(0x800_0010, b"d")), ""
)
BIN = Image(Path("/i/f.bin"), ImageFormat.BIN, (Segment(0x800_0000, b"code"),), "")
ST_LINK = UsbPort(0x0483, 0x374B, "066DFF48", location="1-4.1")
J_LINK = UsbPort(0x1366, 0x1015, "000683123456", location="1-2")
ST_DFU = UsbPort(0x0483, 0xDF11, "3271", location="1-3")
PICO = UsbPort(0x2E8A, 0x000F, "A1B2", location="1-5")


def commands(
    tool: str,
    image: Image = ELF,
    *,
    probe: UsbPort | None = None,
    port: str | None = None,
    verify: bool = True,
    **options: Any,
) -> list[str]:
    chosen = find_tool(tool, "here")
    job: Job[Any] = Job(
        board="b",
        image=image,
        work=Path("/w"),
        options=msgspec.convert(options, chosen.options_type),
        probe=probe,
        port=port,
        verify=verify,
        program=chosen.programs[0].name if chosen.programs else "",
    )
    return [shlex.join(step.argv) for step in chosen.commands(job)]


def test_gdb() -> None:
    [call] = commands("gdb", server="localhost:3333")
    assert call == "gdb-multiarch -nx -batch -x /w/load.gdb /i/f.elf"


def test_openocd() -> None:
    config = ["interface/stlink.cfg", "target/stm32f4x.cfg"]
    assert commands("openocd", probe=ST_LINK, config=config) == [
        "openocd -f interface/stlink.cfg -f target/stm32f4x.cfg -c 'adapter serial {066DFF48}' "
        "-c 'program {/i/f.elf} verify reset exit'"
    ]
    [call] = commands("openocd", verify=False, config=config, before=["transport select swd"])
    assert "-c 'transport select swd' -c 'program {/i/f.elf} reset exit'" in call


@pytest.mark.attack(
    "Arguments and scripts",
    "a USB serial number that is a Tcl command",
    "the number is not passed to OpenOCD",
)
@pytest.mark.parametrize("serial", ["a}", "{b", "c\\", "d\n; exec reboot"])
def test_openocd_is_told_no_serial_number_that_would_be_a_command(serial: str) -> None:
    with pytest.raises(UsageError, match=r"does not support|cannot be an argument"):
        commands("openocd", probe=UsbPort(1, 2, serial), config=["a.cfg"])


def test_pyocd() -> None:
    common = "--no-config --no-wait --target stm32f446retx --uid 066DFF48 --frequency 4000000"
    assert commands("pyocd", probe=ST_LINK, target="stm32f446retx", frequency=4_000_000) == [
        f"pyocd load {common} --no-reset --format elf /i/f.elf",
        f"pyocd commander {common} --command 'compare 0x8000000 \"/w/piece-08000000.bin\"' "
        "--command 'compare 0x8000010 \"/w/piece-08000010.bin\"'",
        f"pyocd reset {common}",
    ]
    [load, _] = commands("pyocd", BIN, verify=False, target="t")
    assert "--format bin --base-address 0x8000000 /i/f.bin" in load


def test_probe_rs() -> None:
    common = "--non-interactive --chip STM32F446RETx --probe 0483:374b:066DFF48"
    assert commands("probe-rs", probe=ST_LINK, chip="STM32F446RETx") == [
        f"probe-rs download {common} --disable-progressbars --verify --binary-format elf /i/f.elf",
        f"probe-rs reset {common}",
    ]
    [load, reset] = commands(
        "probe-rs", BIN, verify=False, chip="c", protocol="swd", speed=1000, under_reset=True
    )
    assert "--binary-format bin --base-address 0x8000000 /i/f.bin" in load
    how = "--protocol swd --speed 1000 --connect-under-reset"
    assert reset == f"probe-rs reset --non-interactive --chip c {how}"


def test_jlink() -> None:
    assert commands("jlink", probe=J_LINK, device="nRF52840_xxAA") == [
        "JLinkExe -NoGui 1 -ExitOnError 1 -AutoConnect 1 -Device nRF52840_xxAA -If SWD -Speed 4000 "
        "-USB 683123456 -CommandFile /w/load.jlink"
    ]
    with pytest.raises(UsageError, match="does not support the path"):
        commands("jlink", Image(Path("/a,b.bin"), ImageFormat.BIN, BIN.segments, ""), device="d")


def test_the_script_of_jlink_compares_every_piece() -> None:
    tool = find_tool("jlink", "here")
    options = msgspec.convert({"device": "d"}, tool.options_type)
    [step] = tool.commands(Job("b", ELF, Path("/w"), options, program="JLinkExe"))
    script = step.files[Path("/w/load.jlink")].decode()
    assert script.splitlines() == [
        *("r", "h", "loadfile /w/f.hex"),
        "verifybin /w/piece-08000000.bin, 0x8000000",
        "verifybin /w/piece-08000010.bin, 0x8000010",
        *("r", "g", "qc"),
    ]
    assert step.files[Path("/w/piece-08000010.bin")] == b"d"


def test_st_flash() -> None:
    assert commands("st-flash", probe=ST_LINK, under_reset=True, frequency=1800) == [
        "st-flash --reset --connect-under-reset --freq=1800 --serial 066DFF48 --format ihex write "
        "/w/f.hex"
    ]
    assert commands("st-flash", BIN) == ["st-flash --reset write /i/f.bin 0x8000000"]


def test_stm32flash() -> None:
    assert commands("stm32flash", port="/dev/ttyUSB0", gpio="rts,dtr") == [
        "stm32flash -b 115200 -i rts,dtr -R -w /w/f.bin -S 0x8000000 -v -g 0x8000000 /dev/ttyUSB0"
    ]
    with pytest.raises(UsageError, match="over a serial port, and no port is given"):
        commands("stm32flash")


def test_esptool() -> None:
    common = "esptool --chip esp32s3 --port /dev/ttyUSB0 --baud 460800 --before default-reset"
    assert commands("esptool", port="/dev/ttyUSB0", chip="esp32s3") == [
        "esptool --chip esp32s3 elf2image --output /w/f.app.bin /i/f.elf",
        f"{common} --after no-reset write-flash 0x10000 /w/f.app.bin",
        f"{common} --after no-reset verify-flash 0x10000 /w/f.app.bin",
        f"{common} --after hard-reset read-mac",
    ]
    [write, reset] = commands("esptool", BIN, port="p", verify=False, chip="c", offset=0)
    assert write.endswith("write-flash 0x0 /i/f.bin")
    assert reset.endswith("read-mac")


def test_dfu_util() -> None:
    device = "dfu-util --device 0483:df11 --serial 3271 --alt 0 --dfuse-address"
    assert commands("dfu-util", probe=ST_DFU) == [
        f"{device} 0x8000000 --download /w/f.bin",
        "rm -f /w/read-back.bin",
        f"{device} 0x8000000:17 --upload /w/read-back.bin",
        "cmp /w/f.bin /w/read-back.bin",
        "rm -f /w/leave.bin",
        f"{device} 0x8000000:4:leave --upload /w/leave.bin",
    ]
    assert "--device 0403:6010 --alt 1 " in commands("dfu-util", vid=0x403, pid=0x6010, alt=1)[0]


def test_picotool() -> None:
    assert commands("picotool", probe=PICO, force=True) == [
        "picotool load -v -x /i/f.elf -t elf -f --ser A1B2"
    ]
    assert commands("picotool", BIN, verify=False) == [
        "picotool load -x /i/f.bin -t bin -o 0x8000000"
    ]


def test_west() -> None:
    assert commands("west", probe=J_LINK, build_dir="build", runner="jlink", arguments=["-v"]) == [
        "west flash --skip-rebuild --build-dir build --runner jlink --elf-file /i/f.elf "
        "--dev-id 000683123456 -v"
    ]


def test_copy() -> None:
    [call] = commands("copy", format="uf2", family=0xE48BFF59, mount="/m")
    assert call.endswith(" /w/f.uf2 /m/firmware.uf2")
    with pytest.raises(UsageError, match="cannot be converted"):
        commands("copy", format="uf2", mount="/m")
    with pytest.raises(UsageError, match="no drive is configured"):
        commands("copy", format="hex")


def test_a_command_of_ones_own() -> None:
    argv = ["prog", "{image}", "--at={address}", "{probe}/{serial}", "{port}", "{board}", "100%{}"]
    with pytest.raises(UsageError, match=r"unknown placeholder \{\}"):
        commands("command", write=argv, probe=ST_LINK, port="/dev/x")
    assert commands("command", write=argv[:-1], reset=["r"], probe=ST_LINK, port="/dev/x") == [
        "prog /i/f.elf --at=0x8000000 0483:374b:066DFF48/066DFF48 /dev/x b",
        "r",
    ]
    with pytest.raises(UsageError, match=r"unknown placeholder \{imgae\}") as caught:
        commands("command", write=["x", "{imgae}"])
    assert "did you mean 'image'?" in caught.value.hint
    with pytest.raises(UsageError, match="no probe is connected"):
        commands("command", write=["x", "{probe}"])
    assert not find_tool("command", "here").reads_back(
        msgspec.convert({"write": ["x"]}, find_tool("command", "here").options_type)
    )


def test_a_flat_image_needs_to_be_told_where_it_belongs() -> None:
    unplaced = Image(Path("/i/f.bin"), ImageFormat.BIN, (Segment(0, b"code"),), "", placed=False)
    for tool, options in (("st-flash", {}), ("stm32flash", {"port": "p"}), ("dfu-util", {})):
        with pytest.raises(UsageError, match="has no load address"):
            commands(tool, unplaced, **options)
    placed = unplaced.at(0x800_0000)
    assert commands("st-flash", placed) == ["st-flash --reset write /i/f.bin 0x8000000"]
    assert ELF.at(0).address == 0x800_0000


@pytest.mark.parametrize("name", BOARDS)
def test_boards_that_come_along_say_of_tools_what_these_know(name: str) -> None:
    board = harness.Board.load(name)
    file = board.file
    if board.flash is None:
        return
    check_flash(board.flash, file)
    for tool in board.flash.order:
        choice = choose_tool(board, file, named=tool, dry=True)
        assert choice.tool.name == tool


def board_file(directory: Path, flash: str) -> Path:
    text = (ROOT / "boards/native.toml").read_text().replace('"native"', '"ours"', 1)
    text = text.replace('budget = "budgets/default.toml"\n', "")
    path = directory / "ours.toml"
    path.write_text(text + flash)
    return path


@pytest.mark.parametrize(
    ("flash", "said"),
    [
        ('order = ["opnocd"]', "did you mean 'openocd'"),
        ("order = []\n[flash.options.jlnik]\na = 1", "did you mean 'jlink'"),
        ('order = []\n[flash.options.jlink]\ndevcie = "x"', "ours.toml:15:1: "),
        ('order = []\n[flash.options.jlink]\ndevice = "x"\nspeed = "4"', "ours.toml:16:1: "),
    ],
)
def test_what_is_wrong_with_a_board_file_is_said_by_its_place(
    tmp_path: Path, flash: str, said: str
) -> None:
    path = board_file(tmp_path, f"[flash]\n{flash}\n")
    board = harness.Board.load(path)
    with pytest.raises(UsageError) as caught:
        choose_tool(board, path, dry=True)
    assert said in caught.value.message + caught.value.hint


def test_the_first_tool_that_is_here_is_taken_and_says_why(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = board_file(
        tmp_path,
        '[flash]\norder = ["probe-rs", "gdb", "st-flash"]\n'
        '[flash.options]\nprobe-rs = { chip = "x" }\n',
    )
    board = harness.Board.load(path)
    (tmp_path / "st-flash").write_text("#!/bin/sh\n")
    (tmp_path / "st-flash").chmod(0o755)
    monkeypatch.setenv("PATH", str(tmp_path))
    choice = choose_tool(board, path, image_format=ImageFormat.HEX)
    assert choice.tool.name == "st-flash"
    assert set(choice.others) == {"probe-rs", "gdb"}
    assert choice.others["gdb"] == "not installed (apt-get install gdb-multiarch)"
    monkeypatch.setenv("PATH", str(tmp_path / "none"))
    with pytest.raises(
        UsageError, match="no usable flashing tool for board ours: probe-rs: not inst"
    ):
        choose_tool(board, path)
    with pytest.raises(UsageError, match="gdb cannot flash board ours: not installed"):
        choose_tool(board, path, named="gdb")
    assert choose_tool(board, path, dry=True).tool.name == "probe-rs"


def test_a_debug_probe_that_a_unit_has_does_not_matter_to_its_bootloader(tmp_path: Path) -> None:
    path = board_file(tmp_path, '[flash]\norder = ["dfu-util", "st-flash"]\n')
    board = harness.Board.load(path)
    devices = [ST_LINK, ST_DFU]
    for tool, probe in (("dfu-util", ST_DFU), ("st-flash", ST_LINK)):
        choice = choose_tool(
            board, path, named=tool, selector=ST_LINK.selector, devices=devices, dry=True
        )
        assert choice.probe == probe


def test_a_tool_that_sees_nothing_gives_way_to_one_that_does(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A Pico that is not in its bootloader, and the debug probe beside it."""
    path = board_file(tmp_path, '[flash]\norder = ["picotool", "st-flash"]\n')
    board = harness.Board.load(path)
    for name in ("picotool", "st-flash"):
        (tmp_path / name).write_text("#!/bin/sh\n")
        (tmp_path / name).chmod(0o755)
    monkeypatch.setenv("PATH", str(tmp_path))
    both, probe_only, neither = (
        [ST_LINK, PICO],
        [ST_LINK],
        [UsbPort(0x1D6B, 2, "", location="usb1")],
    )
    assert choose_tool(board, path, devices=both).probe == PICO
    choice = choose_tool(board, path, devices=probe_only, selector=ST_LINK.selector)
    assert (choice.tool.name, choice.probe) == ("st-flash", ST_LINK)
    assert choice.others == {"picotool": "no supported device is connected"}
    # Nobody knows all probes: the tool is asked, and says what it does not find.
    choice = choose_tool(board, path, devices=neither)
    assert (choice.tool.name, choice.probe) == ("picotool", None)
    assert list(choice.others) == ["st-flash"]
    assert choose_tool(board, path).tool.name == "picotool"


KINDS = ("0483:374b", "1366")
serials = st.text("0123456789ABCDEFabcdef:-_ ", max_size=6)
devices = st.lists(
    st.builds(
        UsbPort,
        st.sampled_from([0x0483, 0x1366, 0x1D6B]),
        st.sampled_from([0x374B, 0x1015, 2]),
        serials,
        location=st.sampled_from(["1-1", "1-2.3", "2-1"]),
    ),
    max_size=4,
)


@given(devices)
def test_without_a_selector_only_a_single_probe_is_taken(there: list[UsbPort]) -> None:
    known = [device for device in there if device.is_of(KINDS)]
    if len(known) > 1:
        with pytest.raises(UsageError) as caught:
            choose_probe("", KINDS, there, "x")
        assert all(device.selector in caught.value.hint for device in known)
    else:
        assert choose_probe("", KINDS, there, "x") == (known[0] if known else None)


@given(devices, st.data())
def test_a_selector_takes_what_it_says_and_nothing_else(
    there: list[UsbPort], data: st.DataObject
) -> None:
    wanted = data.draw(st.sampled_from([*there, UsbPort(0x0483, 0x374B, "0")]))
    selector = data.draw(st.sampled_from([wanted.selector, wanted.ids, wanted.ids.upper()]))
    meant = parse_selector(selector)
    fitting = [
        device
        for device in there
        if device.ids == meant.ids
        and (not meant.serial or device.serial.casefold() == meant.serial.casefold())
    ]
    if len(fitting) > 1:
        with pytest.raises(UsageError, match=r"connected"):
            choose_probe(selector, KINDS, there, "x")
    elif fitting:
        assert choose_probe(selector, KINDS, there, "x") == fitting[0]
    elif there:
        with pytest.raises(InfrastructureError, match="is not connected"):
            choose_probe(selector, KINDS, there, "x")
    else:
        assert choose_probe(selector, KINDS, there, "x") == meant


@pytest.mark.parametrize("text", ["", "0483", "0483:", "ST-Link", "12345:1", "0483:374b066D:x:"])
def test_what_is_no_selector_is_refused(text: str) -> None:
    with pytest.raises(UsageError, match="invalid probe selector"):
        parse_selector(text)


def test_connected_devices_are_read_from_sysfs(tmp_path: Path) -> None:
    folder = tmp_path / "sys/bus/usb/devices"
    for name, texts in {
        "usb1": {"idVendor": "1d6b", "idProduct": "0002", "serial": "0000:00:14.0"},
        "1-4.1": {"idVendor": "0483", "idProduct": "374b", "serial": "066DFF48"},
        "1-4.1:1.0": {"bInterfaceClass": "ff"},
        "1-2": {"idVendor": "1366", "idProduct": "1015"},
    }.items():
        (folder / name).mkdir(parents=True)
        for key, text in texts.items():
            (folder / name / key).write_text(f"{text}\n")
    assert connected(tmp_path) == [
        ST_LINK,
        UsbPort(0x1366, 0x1015, "", location="1-2"),
        UsbPort(0x1D6B, 2, "0000:00:14.0", location="usb1"),
    ]
    assert connected(tmp_path / "nowhere") == []


HOSTILE = st.one_of(
    st.text(min_size=1).map("-{}".format),
    st.builds("{}{}{}".format, st.text(), st.sampled_from("\n\r\0 ;'\"`$&|<>"), st.text()),
)
OPTIONS = [
    ("jlink", "device", {}),
    ("jlink", "interface", {"device": "STM32F446RE"}),
    ("gdb", "server", {}),
    ("esptool", "chip", {}),
    ("esptool", "before", {"chip": "esp32"}),
    ("esptool", "after", {"chip": "esp32"}),
    ("probe-rs", "chip", {}),
    ("probe-rs", "protocol", {"chip": "nRF52840_xxAA"}),
    ("pyocd", "target", {}),
    ("pyocd", "connect", {"target": "stm32f446re"}),
    ("west", "runner", {"build_dir": "build"}),
    ("stm32flash", "mode", {}),
]


@pytest.mark.attack(
    "Arguments and scripts",
    "a board file with `-`, quotes, `;` or newlines in options of a flashing tool",
    "exit code 2, with file and key; no value becomes another option or a line of a script",
)
@pytest.mark.parametrize(("tool", "option", "others"), OPTIONS)
@given(value=HOSTILE)
def test_an_option_cannot_become_another_or_a_line_of_a_script(
    tool: str, option: str, others: dict[str, Any], value: str
) -> None:
    with pytest.raises(msgspec.ValidationError, match="regex"):
        msgspec.convert({**others, option: value}, find_tool(tool, "here").options_type)


@pytest.mark.attack(
    "Arguments and scripts",
    "a USB serial number that begins with `-`",
    "refused before a tool is started",
)
@pytest.mark.parametrize("tool", ["pyocd", "st-flash", "west", "picotool", "dfu-util"])
def test_a_serial_number_cannot_become_an_option(tool: str) -> None:
    options = {"pyocd": {"target": "a"}, "west": {"build_dir": "b"}}.get(tool, {})
    probe = UsbPort(0x0483, 0x374B, "--erase-all", location="1-4.1")
    with pytest.raises(UsageError, match="serial number '--erase-all'"):
        commands(tool, BIN, probe=probe, **options)


@pytest.mark.attack(
    "Arguments and scripts", "a port that begins with `-`", "refused before a tool is started"
)
def test_a_port_cannot_become_an_option() -> None:
    with pytest.raises(UsageError, match="'-w' is not a port"):
        commands("stm32flash", BIN, port="-w")


@pytest.mark.attack(
    "Arguments and scripts",
    "a `preset` with `../` or an option of CMake",
    "exit code 2; no build directory outside the cache",
)
@pytest.mark.parametrize(
    "preset", ["../../../etc", "/etc", "-DCMAKE_C_COMPILER=/bin/sh", "a b", ""]
)
def test_a_preset_stays_in_the_cache(tmp_path: Path, preset: str) -> None:
    text = (ROOT / "boards/native.toml").read_text()
    assert 'preset = "native"' in text
    board = tmp_path / "native.toml"
    board.write_text(text.replace('preset = "native"', f'preset = "{preset}"'))
    with pytest.raises(UsageError, match=r"native\.toml:\d+:\d+: build.preset cannot be") as caught:
        harness.Board.load(board)
    assert caught.value.hint.startswith("begin with a letter")
