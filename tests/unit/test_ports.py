"""Serial ports: found by what is plugged in, refused when that is not one, found again."""

from __future__ import annotations

import os
from pathlib import Path

import pytest
from msgspec.structs import replace
from serial.tools import list_ports_linux

import harness
from harness import Deadlines, Owner, PortError, SerialTarget, UsbPort, start_target
from harness.target.ports import SerialPort, find_port, list_ports, port_text
from tests.support.sysfs import FakeHost

STLINK = UsbPort(0x0483, 0x374E, "0024", 2)


@pytest.fixture
def host(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> FakeHost:
    monkeypatch.setenv("ETHARNESS_SYSROOT", str(tmp_path))
    monkeypatch.setenv("ETHARNESS_LOCK_DIR", str(tmp_path / "locks"))
    return FakeHost(tmp_path)


def test_every_port_is_listed_with_what_it_is_found_by(host: FakeHost) -> None:
    acm = host.plug("ttyACM0", link="usb-STM_ST-LINK_0024-if02")
    usb = host.plug("ttyUSB1", vid=0x0403, pid=0x6011, serial="", interface=1, location="1-2")
    built_in = host.build_in("ttyS0")
    host.build_in("ttyS1", type_=0)
    assert list_ports() == [
        SerialPort(
            *(acm, 0x0483, 0x374E, "0024", 2, "1-4.3"),
            links=(str(host.by_id / "usb-STM_ST-LINK_0024-if02"),),
        ),
        SerialPort(built_in),
        SerialPort(usb, 0x0403, 0x6011, "", 1, "1-2"),
    ]
    assert find_port(STLINK) == acm
    assert find_port(UsbPort(0x0403, 0x6011)) == usb


def test_the_same_ports_as_pyserial_finds(host: FakeHost, monkeypatch: pytest.MonkeyPatch) -> None:
    """What it reads from ``/sys`` of this tree, by the numbers that both know."""
    host.plug("ttyACM0")
    host.plug("ttyUSB0", vid=0x10C4, pid=0xEA60, serial="", interface=0, location="1-1")
    host.plug("ttyUSB1", vid=0x0403, pid=0x6010, serial="FT1", interface=1, location="1-4.4")
    (host.root / "sys/bus/usb").mkdir(parents=True)
    (host.root / "sys/bus/usb-serial").mkdir()
    for name in ("ttyACM0", "ttyUSB0", "ttyUSB1"):
        bus = "usb" if name == "ttyACM0" else "usb-serial"
        subsystem = (host.tty / name / "device").resolve() / "subsystem"
        subsystem.symlink_to(host.root / "sys/bus" / bus)

    class Rooted:
        """``os.path`` of a host whose ``/sys`` is ours."""

        def __getattr__(self, name: str) -> object:
            return getattr(os.path, name)

        def exists(self, path: str) -> bool:
            return Path(self._ours(path)).exists()

        def realpath(self, path: str) -> str:
            return os.path.realpath(self._ours(path))

        def _ours(self, path: str) -> str:
            return f"{host.root}{path}" if path.startswith("/sys") else path

    class Os:
        path = Rooted()

    monkeypatch.setattr(list_ports_linux, "os", Os())
    for port in list_ports():
        theirs = list_ports_linux.SysFS(port.device)
        assert (port.vid, port.pid) == (theirs.vid, theirs.pid)
        assert port.serial == (theirs.serial_number or "")
        assert theirs.location == f"{port.location}:1.{port.interface}"


def test_a_port_that_is_not_there_is_answered_with_what_is(host: FakeHost) -> None:
    host.plug("ttyACM0", serial="0099")
    host.build_in("ttyS0")
    with pytest.raises(PortError) as caught:
        find_port(STLINK)
    assert caught.value.message == (
        "serial port 0483:374e:0024 interface 2 not found; ports on USB: "
        f"{host.root}/dev/ttyACM0 (0483:374e:0099 interface 2 at 1-4.3)"
    )
    assert caught.value.owner is Owner.LINK
    assert "etharness lab ports" in caught.value.hint
    host.unplug("ttyACM0")
    with pytest.raises(PortError, match="ports on USB: none"):
        find_port(STLINK)


@pytest.mark.parametrize(
    ("second", "told_apart_by"),
    [
        ({"interface": 4}, "interface"),
        ({"location": "1-4.4", "serial": "0025"}, "serial or location"),
        ({"location": "1-4.4"}, "location"),
    ],
)
def test_several_ports_are_refused_with_what_tells_them_apart(
    host: FakeHost, second: dict[str, object], told_apart_by: str
) -> None:
    host.plug("ttyACM0")
    host.plug("ttyACM1", **second)  # type: ignore[arg-type]
    with pytest.raises(
        PortError, match=r"2 serial ports match 0483:374e: .*ttyACM0.*ttyACM1"
    ) as hit:
        find_port(UsbPort(0x0483, 0x374E))
    assert hit.value.hint == f"add to the port in units.toml: {told_apart_by}"
    found = find_port(UsbPort(0x0483, 0x374E, "", 2, "1-4.3"))
    assert found == f"{host.root}/dev/ttyACM0"


def test_a_serial_number_may_hold_anything(host: FakeHost) -> None:
    host.plug("ttyACM0", serial=b"\x1b[2J\xff evil")
    [port] = list_ports()
    assert find_port(UsbPort(0x0483, 0x374E, port.serial)) == port.device
    assert port_text(UsbPort(1, 2, "a\x1b[2J")) == r"0001:0002:'a\x1b[2J'"
    with pytest.raises(PortError) as caught:
        find_port(UsbPort(1, 2))
    assert caught.value.message.isprintable()


def test_numbers_that_cannot_be_read_are_no_usb_port(host: FakeHost) -> None:
    host.plug("ttyACM0")
    (host.root / "sys/devices/pci0000:00/usb1/1-4/1-4.3/idVendor").write_text("junk\n")
    [port] = list_ports()
    assert port.vid is None
    assert port.described == f"{port.device} (not on USB)"


def test_a_port_that_comes_back_by_another_name_is_found_again(host: FakeHost) -> None:
    """A board that re-enumerates in the middle: the session goes on at the new device."""
    master, slave = os.openpty()
    later, other = os.openpty()
    host.plug("ttyACM0", leads_to=os.ttyname(slave))
    board = replace(
        harness.Board.load("native"), target=SerialTarget(), deadlines=Deadlines(reopen_s=10)
    )
    with start_target(board, None, port=STLINK) as target:
        assert target.description == "0483:374e:0024 interface 2 at 115200 baud"
        os.write(master, b"before")
        assert target.transport.read(1) == b"before"
        host.unplug("ttyACM0")
        host.plug("ttyACM7", leads_to=os.ttyname(other), location="1-3")
        os.close(slave)
        os.close(master)
        assert target.transport.read(1) == b""  # it was gone, and came back
        os.write(later, b"after")
        assert target.transport.read(1) == b"after"
    os.close(later)
    os.close(other)
