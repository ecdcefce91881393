"""Real flashing tools: onto a directory, with no probe there; and stand-ins with their words."""

from __future__ import annotations

import os
import threading
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from harness import FlashError, Image, Segment, UsageError, UsbPort
from harness.flash.plan import find_tool
from tests.conftest import CommandResult
from tests.support.documents import document
from tests.support.flash import (
    IMAGE,
    installed,
    job_of,
    no_usb,
    record_of,
    run_job,
    running_native,
    serial_native,
    stand_in,
)

pytestmark = pytest.mark.sim
Etharness = Callable[..., CommandResult]


NOT_CONNECTED = "no probe is connected, or not the selected one"
WITH_NO_PROBE = {
    "openocd": {"config": ["interface/cmsis-dap.cfg", "target/nrf52.cfg"]},
    "st-flash": {},
    "dfu-util": {},
    "pyocd": {"target": "cortex_m"},
}


@pytest.mark.parametrize("tool", WITH_NO_PROBE)
def test_a_tool_without_a_probe_says_what_is_missing(tool: str, tmp_path: Path) -> None:
    job = job_of(tool, tmp_path, program=installed(tool), **WITH_NO_PROBE[tool])
    with pytest.raises(FlashError, match=NOT_CONNECTED) as caught:
        run_job(tool, job)
    assert caught.value.exit_code == 75
    assert "lsusb" in caught.value.hint
    assert not caught.value.retryable


def test_openocd_without_an_st_link(tmp_path: Path) -> None:
    told = {"config": ["interface/stlink.cfg", "target/stm32f4x.cfg"]}
    job = job_of("openocd", tmp_path, program=installed("openocd"), **told)
    with pytest.raises(FlashError, match=NOT_CONNECTED):
        run_job("openocd", job)


def test_esptool_without_a_board_or_a_port(tmp_path: Path) -> None:
    program = installed("esptool")
    (tmp_path / "app.bin").write_bytes(bytes(100))
    image = Image(tmp_path / "app.bin", "bin", (Segment(0, bytes(100)),), "")  # type: ignore[arg-type]
    job = job_of(
        "esptool", tmp_path, image=image, program=program, chip="esp32s3", port="/dev/none"
    )
    with pytest.raises(FlashError, match="the serial port cannot be opened"):
        run_job("esptool", job)


def test_the_command_line_retries_no_missing_probe_and_keeps_the_tool_s_words(
    etharness: Etharness, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    installed("st-flash")
    no_usb(monkeypatch, tmp_path)
    board = serial_native(tmp_path, 'order = ["st-flash"]')
    with running_native() as port:
        result = etharness("flash", "--board", board, "--port", port, "-o", tmp_path / "out")
    record = record_of(tmp_path / "out")
    assert result.code == record["exit_code"] == 75
    assert NOT_CONNECTED in result.err
    assert record["failure"]["owner"] == "flash"
    assert len(record["attempts"]) == 1
    assert "ST-Link" in (tmp_path / "out/flash.log").read_text()


@pytest.fixture
def drive(tmp_path: Path) -> Path:
    """What a micro:bit's DAPLink shows."""
    folder = tmp_path / "media/me/MICROBIT"
    folder.mkdir(parents=True)
    (folder / "DETAILS.TXT").write_text("# DAPLink Firmware\r\nUnique ID: 9904360261974e45\r\n")
    return folder


def copying(directory: Path, drive: Path, then: Callable[[Path], None], **told: object) -> None:
    """Copy onto the drive, with somebody doing ``then`` once the image is there."""
    target = drive / f"firmware.{told.get('format', 'hex')}"
    target.unlink(missing_ok=True)  # of the time before, which would be taken for this one

    def watch() -> None:
        deadline = time.monotonic() + 600
        while time.monotonic() < deadline and not target.exists():
            time.sleep(0.005)
        then(target)

    options = {"format": "hex", "mount": str(drive), "settle_s": 3} | told
    job = job_of("copy", directory, **options)
    thread = threading.Thread(target=watch)
    thread.start()
    try:
        run_job("copy", job)
    finally:
        thread.join()


def remount(target: Path, fail: str = "") -> None:
    """What DAPLink does when it has got everything: the drive goes, and comes back."""
    drive = target.parent
    hidden = drive.with_name("unplugged")
    drive.rename(hidden)
    (hidden / target.name).unlink()
    time.sleep(0.2)
    if fail:
        (hidden / "FAIL.TXT").write_text(fail)
    hidden.rename(drive)


def test_daplink_takes_an_image(tmp_path: Path, drive: Path) -> None:
    kept = []

    def take(target: Path) -> None:
        time.sleep(0.1)
        kept.append(target.read_bytes())
        (drive / "FAIL.TXT").write_text("error: of an earlier image")
        (drive / "FAIL.TXT").unlink()
        remount(target)

    copying(tmp_path, drive, take)
    assert kept == [IMAGE.as_hex()]


@pytest.mark.attack(
    "Flashing",
    "a DAPLink drive that refuses an image after the copy",
    "exit code 75, with the message of the drive",
)
@pytest.mark.parametrize(
    ("reason", "again"),
    [
        ("error: In application programming interface failed.\r\ntype: interface\r\n", True),
        ("error: The hex file cannot be decoded.\r\ntype: user\r\n", False),
    ],
)
def test_a_fail_txt_is_a_failure_though_the_copy_went_well(
    tmp_path: Path, drive: Path, reason: str, again: bool
) -> None:
    with pytest.raises(FlashError, match="refused the image: error: ") as caught:
        copying(tmp_path, drive, lambda target: (time.sleep(0.1), remount(target, reason))[0])
    assert caught.value.retryable is again


def test_a_drive_that_does_not_come_back_or_go_on_is_a_failure(tmp_path: Path, drive: Path) -> None:
    with pytest.raises(FlashError, match=r"did not accept .* within 0\.2 s"):
        copying(tmp_path, drive, lambda _: None, settle_s=0.2)
    away = lambda target: (time.sleep(0.1), target.parent.rename(tmp_path / "away"))[0]  # noqa: E731
    with pytest.raises(FlashError, match="did not come back within 1 s"):
        copying(tmp_path, drive, away, settle_s=1)


@pytest.mark.parametrize(
    ("serial", "label"), [("AAAA", "MICROBIT"), ("bbbb", "MICROBIT1"), ("", ""), ("CCCC", "none")]
)
def test_drives_of_one_label_are_told_apart_by_the_probe(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, serial: str, label: str
) -> None:
    monkeypatch.setenv("ETHARNESS_SYSROOT", str(tmp_path))
    for name, own in (("MICROBIT", "AAAA"), ("MICROBIT1", "BBBB"), ("MICROBITS", "CCCC")):
        folder = tmp_path / "media/me" / name
        folder.mkdir(parents=True)
        (folder / "DETAILS.TXT").write_text(f"# DAPLink\r\nUnique ID: {own}\r\n")
    (tmp_path / "media/me/MICROBIT2").mkdir()  # not mounted
    probe = UsbPort(0x0D28, 0x0204, serial) if serial else None
    job = job_of("copy", tmp_path, format="hex", label="MICROBIT", probe=probe)
    if not label:
        with pytest.raises(UsageError, match="2 drives match board"):
            find_tool("copy", "here").commands(job)
        return
    [step] = find_tool("copy", "here").commands(job)
    where = Path(step.argv[-1]).parent
    assert where == tmp_path / "media/me" / label if label != "none" else not where.is_dir()


def test_a_uf2_bootloader_goes_when_it_has_the_image(tmp_path: Path) -> None:
    drive = tmp_path / "RP2350"
    drive.mkdir()
    (drive / "INFO_UF2.TXT").write_text("UF2 Bootloader v1.0\n")
    away = lambda target: (time.sleep(0.1), drive.rename(tmp_path / "away"))[0]  # noqa: E731
    copying(tmp_path, drive, away, format="uf2", family=0xE48BFF59)
    assert (tmp_path / "away/firmware.uf2").read_bytes() == IMAGE.as_uf2(0xE48BFF59)


def test_a_drive_that_is_not_there_is_said_to_be_missing(tmp_path: Path) -> None:
    job = job_of("copy", tmp_path, format="hex", mount=str(tmp_path / "gone"))
    with pytest.raises(FlashError, match="drive disappeared") as caught:
        run_job("copy", job)
    assert caught.value.retryable


IMAGE_OK = 'order = ["command"]\noptions.command = { write = ["true"], verify = ["true"] }'


def test_a_board_that_has_that_build_is_left_alone_if_needed(
    etharness: Etharness, tmp_path: Path
) -> None:
    board = serial_native(tmp_path, 'order = ["command"]\noptions.command = { write = ["false"] }')
    with running_native() as port:
        result = etharness(
            *("flash", "--board", board, "--port", port, "-o", tmp_path / "out", "--if-needed")
        )
    record = record_of(tmp_path / "out")
    assert result.code == 0, result.err
    assert record["skipped"]
    assert record["attempts"] == []
    assert record["build_id_before"] == record["build_id"] == record["build_id_after"]
    assert "not flashed" in result.out


@pytest.mark.attack(
    "Flashing",
    "a flashing tool that reports success and writes nothing",
    "exit code 4: the board runs another build",
)
def test_a_tool_that_only_says_so_is_found_out_by_the_build_id(
    etharness: Etharness, tmp_path: Path
) -> None:
    """A real board on a port that goes on with what it ran before."""
    board = serial_native(tmp_path, IMAGE_OK)
    other = tmp_path / "other.bin"
    other.write_bytes(b"....etdump stub newer on \0native\0....")
    with running_native() as port:
        wrong = etharness(
            *("flash", "--board", board, "--port", port, "--image", other),
            *("-o", tmp_path / "wrong", "--if-needed"),
        )
        right = etharness("flash", "--board", board, "--port", port, "-o", tmp_path / "right")
    record = record_of(tmp_path / "wrong")
    assert wrong.code == record["exit_code"] == 4
    assert record["failure"]["kind"] == "WrongFirmwareError"
    assert f"{record['build_id_before']!r}, expected 'newer'" in wrong.err
    assert len(record["attempts"]) == 2
    assert right.code == 0, right.err
    assert record_of(tmp_path / "right")["verified"]


def test_failures_that_may_pass_are_tried_again_and_counted(
    etharness: Etharness, tmp_path: Path
) -> None:
    marker = tmp_path / "second time"
    busy = 'echo "libusb: device or resource busy"; exit 1'
    shaky = f'[ -e "{marker}" ] && exit 0; : > "{marker}"; {busy}'
    script = stand_in(tmp_path, "shaky", shaky)
    board = serial_native(tmp_path, f'order = ["command"]\noptions.command.write = ["{script}"]')
    with running_native() as port:
        result = etharness("flash", "--board", board, "--port", port, "-o", tmp_path / "out")
    record = record_of(tmp_path / "out")
    assert result.code == 0, result.err
    assert [bool(attempt["failure"]) for attempt in record["attempts"]] == [True, False]
    assert "another program is using" in record["attempts"][0]["failure"]
    assert 'attempt 1: command failed in the stage "write"' in result.out


def test_a_run_flashes_the_board_on_a_port_first(etharness: Etharness, tmp_path: Path) -> None:
    from tests.conftest import MODELS

    board = serial_native(tmp_path, IMAGE_OK)
    with running_native() as port:
        result = etharness(
            *("run", "--flash", "--board", board, "--port", port, "-o", tmp_path / "run"),
            *("--model", MODELS / "small_int8.pte"),
        )
    assert result.code == 0, result.err
    record = record_of(tmp_path / "run")
    assert record["build_id_after"] == record["build_id"]
    assert record["verified"]


def test_a_board_may_have_its_port_only_with_its_firmware(
    etharness: Etharness, tmp_path: Path
) -> None:
    """The port appears a while after the tool has ended, as USB ports of boards do."""
    port, written = tmp_path / "ttyACM0", tmp_path / "written"
    with running_native() as behind:

        def appear() -> None:
            deadline = time.monotonic() + 600
            while time.monotonic() < deadline and not written.exists():
                time.sleep(0.01)
            time.sleep(0.3)
            port.symlink_to(behind)

        flash = f'order = ["command"]\noptions.command.write = ["touch", "{written}"]'
        board = serial_native(tmp_path, flash)
        thread = threading.Thread(target=appear)
        thread.start()
        result = etharness(
            *("flash", "--board", board, "--port", port, "-o", tmp_path / "out", "--if-needed"),
            *("--attempts", "1"),
        )
        thread.join()
    assert result.code == 0, result.err
    record = record_of(tmp_path / "out")
    assert record["build_id_before"] is None
    assert record["build_id_after"] == record["build_id"]


def test_an_image_without_a_build_id_needs_to_be_allowed(
    etharness: Etharness, tmp_path: Path
) -> None:
    board = serial_native(tmp_path, IMAGE_OK)
    image = tmp_path / "blinky.bin"
    image.write_bytes(b"no server in here")
    arguments = ("flash", "--board", board, "--image", image, "-o", tmp_path / "out")
    with running_native() as port:
        refused = etharness(*arguments, "--port", port)
    assert refused.code == 2
    assert "has no build id" in refused.err
    allowed = etharness(*arguments, "--no-identity")
    assert allowed.code == 0, allowed.err
    assert record_of(tmp_path / "out")["build_id_after"] is None
    assert "was not asked for its build id" in allowed.out


def test_a_board_without_a_port_cannot_be_asked(etharness: Etharness, tmp_path: Path) -> None:
    board = serial_native(tmp_path, IMAGE_OK)
    result = etharness("flash", "--board", board, "-o", tmp_path / "out")
    assert result.code == 2
    assert "--no-identity" in result.err
    assert etharness("flash", "--board", "native").code == 2


def test_doctor_lists_the_tools_of_a_board_and_is_content_with_one(
    etharness: Etharness, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    board = serial_native(tmp_path, 'order = ["jlink", "st-flash"]')
    stand_in(tmp_path, "st-flash", "echo v9.8.7-rc1")
    monkeypatch.setenv("PATH", f"{tmp_path}:{os.environ['PATH']}")
    result = etharness("doctor", "--board", board, "--json")
    found = {item["tool"]: item for item in document("doctor", result.out)}
    assert result.code == 0
    assert found["st-flash"]["version"] == "9.8.7-rc1"
    assert found["jlink"]["version"] is None
    assert "segger.com" in found["jlink"]["remedy"]
    assert "one is enough" in etharness("doctor", "--board", board).out
    (tmp_path / "st-flash").unlink()
    board = serial_native(tmp_path, 'order = ["jlink"]')
    assert etharness("doctor", "--board", board).code == 2


# Tools that cannot be installed from Debian or PyPI: programs that print and exit as theirs do.
JLINK_GOOD = """Connecting to J-Link via USB...O.K.
Downloading file [f.hex]...
J-Link: Flash download: Bank 0 @ 0x08000000: 1 range affected (10240 bytes)
O.K.
Reading 10240 bytes data from target memory @ 0x08000000.
Verify successful."""
STAND_INS = {
    "jlink, all well": ("jlink", JLINK_GOOD, 0, None),
    "jlink, nothing connected": (
        *("jlink", "Connecting to J-Link via USB...FAILED: Cannot connect to J-Link.", 0),
        NOT_CONNECTED,
    ),
    "jlink, ended early": ("jlink", JLINK_GOOD.partition("Reading")[0], 0, "no sign of success"),
    "jlink, other contents": (
        *(
            "jlink",
            JLINK_GOOD.replace("Verify successful.", "Verify failed @ address 0x8000004"),
            0,
        ),
        "the flash differs from the image",
    ),
    "jlink, no power": (
        *(
            "jlink",
            "Connecting to J-Link via USB...O.K.\nVTref=0.000V\nCannot connect to target.",
            0,
        ),
        "cannot connect to the chip",
    ),
    "probe-rs, all well": ("probe-rs", "     Finished in 1.21s", 0, None),
    "probe-rs, nothing connected": (
        "probe-rs",
        "Error: No connected probes were found.",
        1,
        NOT_CONNECTED,
    ),
    "probe-rs, forbidden": (
        *("probe-rs", "Error: Failed to open probe: Permission denied (os error 13)", 1),
        "permission denied for the probe",
    ),
    "probe-rs, other contents": (
        "probe-rs",
        "Error: Verification failed",
        1,
        "the flash differs from the image",
    ),
    "picotool, all well": ("picotool", "Verifying Flash:  [====] 100%\n  OK", 0, None),
    "picotool, nothing connected": (
        *("picotool", "No accessible RP-series devices in BOOTSEL mode were found.", 249),
        NOT_CONNECTED,
    ),
    "picotool, forbidden": (
        "picotool",
        "No accessible RP-series devices in BOOTSEL mode were found.\nRP2350 device at bus 1, "
        "address 5 appears to be in BOOTSEL mode, but picotool was unable to connect. Maybe try "
        "'sudo' or check your permissions.",
        249,
        "permission denied for the probe",
    ),
    "west, nothing built": (
        "west",
        "FATAL ERROR: build directory b is not a directory",
        1,
        "status 1",
    ),
    "west, all well": ("west", "-- runners.jlink: Flashing file", 0, None),
}
TOLD: dict[str, dict[str, object]] = {
    "jlink": {"device": "STM32F446RE"},
    "probe-rs": {"chip": "STM32F446RETx"},
    "picotool": {},
    "west": {"build_dir": "b"},
}


@pytest.mark.parametrize("case", STAND_INS)
def test_what_tools_say_is_understood(case: str, tmp_path: Path) -> None:
    tool, output, code, said = STAND_INS[case]
    program = stand_in(tmp_path, tool, f"cat <<'END'\n{output}\nEND\nexit {code}")
    job = job_of(tool, tmp_path, program=program, **TOLD[tool])
    if said is None:
        run_job(tool, job)
        return
    with pytest.raises(FlashError, match=said) as caught:
        run_job(tool, job)
    assert caught.value.exit_code == 75
    assert output.splitlines()[-1].strip() in caught.value.message


def test_a_tool_that_is_killed_or_hangs(tmp_path: Path) -> None:
    killed = job_of("picotool", tmp_path, program=stand_in(tmp_path, "dying", "kill -9 $$"))
    with pytest.raises(FlashError, match="was killed by SIGKILL"):
        run_job("picotool", killed)
    hanging = job_of("picotool", tmp_path, program=stand_in(tmp_path, "hanging", "sleep 60"))
    with pytest.raises(FlashError, match=r"timed out after 0\.3 s"):
        run_job("picotool", hanging, timeout_s=0.3)
    gone = job_of("picotool", tmp_path, program=str(tmp_path / "gone"))
    with pytest.raises(UsageError, match="gone not found; nothing was written"):
        run_job("picotool", gone)
