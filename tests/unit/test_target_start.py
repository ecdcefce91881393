"""Starting targets: what is missing is said, and nothing stays behind."""

from __future__ import annotations

import os
import stat
from pathlib import Path

import msgspec
import pytest

import harness
from harness import (
    Board,
    Deadlines,
    Firmware,
    InfrastructureError,
    QemuTarget,
    SerialTarget,
    TargetError,
    UsageError,
    start_target,
)


def board(name: str, **changes: object) -> Board:
    return msgspec.structs.replace(
        harness.Board.load(name), deadlines=Deadlines(boot_s=0.5), **changes
    )


def script(path: Path, text: str) -> Firmware:
    path.write_text("#!/bin/sh\n" + text)
    path.chmod(path.stat().st_mode | stat.S_IXUSR)
    return Firmware(path, "0", path.parent, "native")


def test_a_board_on_a_port_needs_a_port() -> None:
    with pytest.raises(UsageError, match="no port is given") as caught:
        start_target(board("native", target=SerialTarget()), None)
    assert "--port" in caught.value.hint


def test_a_port_that_cannot_be_opened_is_infrastructure() -> None:
    with pytest.raises(InfrastructureError, match="/dev/nowhere"):
        start_target(board("native", target=SerialTarget()), None, port="/dev/nowhere")


def test_a_board_on_a_port() -> None:
    master, slave = os.openpty()
    path = os.ttyname(slave)
    with start_target(board("native", target=SerialTarget(baud=9600)), None, port=path) as target:
        assert target.description == f"{path} at 9600 baud"
        os.write(master, b"hello")
        assert target.transport.read(1) == b"hello"
        target.check_alive()
    os.close(master)
    os.close(slave)


def test_a_board_that_is_started_takes_no_port() -> None:
    with pytest.raises(UsageError, match="omit --port"):
        start_target(board("native"), None, port="/dev/ttyACM0")


def test_a_board_that_is_started_needs_firmware() -> None:
    with pytest.raises(UsageError, match="has no firmware to start"):
        start_target(board("native"), None)


def test_firmware_that_ends_at_once(tmp_path: Path) -> None:
    firmware = script(tmp_path / "image", "echo cannot open it >&2; exit 4\n")
    with pytest.raises(TargetError) as caught:
        start_target(board("native"), firmware)
    assert caught.value.message == (
        "the firmware of native exited with status 4; its last output:\ncannot open it"
    )


def test_firmware_that_names_no_link(tmp_path: Path) -> None:
    firmware = script(
        tmp_path / "image", f"echo $$ > {tmp_path}/pid; printf 'link: /dev/pts'; exec sleep 60\n"
    )
    with pytest.raises(TargetError, match=r"printed no `link:` line on stdout within 0\.5 s"):
        start_target(board("native"), firmware)
    pid = int((tmp_path / "pid").read_text())
    assert not Path(f"/proc/{pid}").exists()


def test_firmware_that_names_a_link_that_is_none(tmp_path: Path) -> None:
    firmware = script(tmp_path / "image", "echo link: /dev/null; exec sleep 60\n")
    with pytest.raises(InfrastructureError, match="cannot open the serial port /dev/null"):
        start_target(board("native"), firmware)


def test_no_qemu(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    target = QemuTarget(machine="virt", system="qemu-system-riscv32")
    monkeypatch.setenv("PATH", str(tmp_path))
    with pytest.raises(UsageError, match="needs qemu-system-riscv32, which is not") as caught:
        start_target(board("native", target=target), Firmware(Path("image"), "0", Path(), "native"))
    assert "apt-get install qemu-system-misc" in caught.value.hint


def fake_qemu(path: Path, text: str) -> QemuTarget:
    return QemuTarget(machine="none", system=str(script(path, text).image))


def test_a_qemu_that_ends_at_once(tmp_path: Path) -> None:
    target = fake_qemu(tmp_path / "qemu", "echo unsupported machine >&2; exit 1\n")
    with pytest.raises(InfrastructureError, match=r"exited with status 1(.|\n)*unsupported"):
        start_target(board("native", target=target), Firmware(Path("image"), "0", Path(), "native"))


def test_a_qemu_that_never_connects(tmp_path: Path) -> None:
    target = fake_qemu(tmp_path / "qemu", "exec sleep 60\n")
    with pytest.raises(InfrastructureError, match=r"did not open its UART within 0\.5 s"):
        start_target(board("native", target=target), Firmware(Path("image"), "0", Path(), "native"))
