"""Power of units: by a hub, by programs, by a relay; and that the board comes back with it."""

from __future__ import annotations

import os
import shutil
import sys
import tty
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from harness import (
    CommandPower,
    NotBackError,
    Owner,
    PortError,
    PowerError,
    RelayPower,
    Unit,
    UsageError,
    UsbHubPower,
    load_units,
)
from harness.extensions.lab.power import switch
from tests.conftest import CommandResult
from tests.support.documents import document
from tests.support.processes import time_out_once_ready

BOARD = """\
schema = 1
name = "there"
description = "a board on a port"
cpu = "none"
timer = { source = "none", bits = 32, hz = 1 }
target = { kind = "serial" }
deadlines = { reopen_s = 0.3 }
"""
HUB = UsbHubPower("1-4", 3)
STAND_IN = """\
#!{python}
import sys
assert sys.argv[1:6] == ["-l", "1-4", "-p", "3", "-a"], sys.argv
action = sys.argv[6]
print(open({script!r} + "." + action).read(), end="")
sys.exit(int(open({script!r} + ".code").read()))
"""
OFF = """\
Current status for hub 1-4 [0bda:5411 Generic USB2.1 Hub, USB 2.10, 4 ports, ppps]
  Port 3: 0103 power enable connect [0483:374e STMicroelectronics STLINK-V3 0024]
Sent power off request
New status for hub 1-4 [0bda:5411 Generic USB2.1 Hub, USB 2.10, 4 ports, ppps]
  Port 3: 0000 off
Current status for hub 2-4 [0bda:0411 Generic USB3.2 Hub, USB 3.20, 4 ports, ppps]
  Port 3: 02a0 power 5gbps Rx.Detect
Sent power off request
New status for hub 2-4 [0bda:0411 Generic USB3.2 Hub, USB 3.20, 4 ports, ppps]
  Port 3: 0080 off
"""
ON = """\
Current status for hub 1-4 [0bda:5411 Generic USB2.1 Hub, USB 2.10, 4 ports, ppps]
  Port 3: 0000 off
Sent power on request
New status for hub 1-4 [0bda:5411 Generic USB2.1 Hub, USB 2.10, 4 ports, ppps]
  Port 3: 0100 power
"""
NONE = "No compatible devices detected at location 1-4!\nRun with -h to get usage info.\n"

Install = Callable[..., None]


@pytest.fixture
def uhubctl(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Install:
    """Install a stand-in that says this, whatever is true of any hub here."""
    script = tmp_path / "bin" / "uhubctl"
    script.parent.mkdir()

    def install(*, off: str = OFF, on: str = ON, code: int = 0) -> None:
        script.write_text(STAND_IN.format(python=sys.executable, script=str(script)))
        script.chmod(0o755)
        for name, text in (("off", off), ("on", on), ("code", str(code))):
            Path(f"{script}.{name}").write_text(text)
        monkeypatch.setenv("PATH", f"{script.parent}:{os.environ['PATH']}")

    return install


@pytest.fixture(autouse=True)
def own_leases(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("ETHARNESS_LOCK_DIR", str(tmp_path / "locks"))


@pytest.fixture
def board(tmp_path: Path) -> str:
    path = tmp_path / "there.toml"
    path.write_text(BOARD)
    return str(path)


@pytest.fixture
def device() -> Iterator[tuple[int, str]]:
    """The master of a pseudo-terminal, and the name of its other end."""
    master, slave = os.openpty()
    tty.setraw(slave)
    yield master, os.ttyname(slave)
    os.close(master)
    os.close(slave)


def unit(
    board: str, power: CommandPower | RelayPower | UsbHubPower | None, port: str | None = None
) -> Unit:
    return Unit("u1", board, port=port, power=power, off_s=0.01, settle_s=0.01)


def python(code: str, *arguments: str) -> tuple[str, ...]:
    return (sys.executable, "-c", code, *arguments)


def test_a_hub_is_asked_and_believed_when_it_says_so(uhubctl: Install, board: str) -> None:
    uhubctl()
    switched = switch(unit(board, HUB), "cycle")
    assert switched.steps == ("uhubctl -l 1-4 -p 3 -a off", "uhubctl -l 1-4 -p 3 -a on")
    assert (switched.went, switched.back_s) == (None, None), "it has no port to tell by"


@pytest.mark.parametrize(
    ("answers", "why", "hint"),
    [
        (
            {"off": OFF.replace("0080 off", "02a0 power 5gbps")},
            "is still on after switching it off",
            "some hubs",
        ),
        ({"off": OFF.replace("Port 3", "Port 2")}, "reports no state of port 3", "lists the ports"),
        ({"off": "  Port 3: 0000 off\n"}, "reports no state of port 3", "lists the ports"),
        (
            {"off": NONE, "code": 1},
            "no USB hub that can switch its ports at 1-4",
            "lists the switchable",
        ),
        (
            {"off": "There were permission problems while accessing USB.\n" + NONE, "code": 1},
            "permission denied for the USB hub 1-4",
            "udev",
        ),
        ({"off": "libusb: broken\n", "code": 3}, "failed with exit code 3: libusb: broken", ""),
    ],
)
def test_a_hub_that_does_not_switch(
    answers: dict[str, str], why: str, hint: str, uhubctl: Install, board: str
) -> None:
    uhubctl(**answers)
    with pytest.raises(PowerError, match=why) as caught:
        switch(unit(board, HUB), "off")
    assert hint in caught.value.hint
    assert (caught.value.exit_code, caught.value.owner) == (75, Owner.HOST)


def test_uhubctl_itself_without_a_hub(board: str) -> None:
    if not shutil.which("uhubctl", path=f"{os.environ['PATH']}:/usr/sbin"):
        pytest.skip("uhubctl is not installed; tools/setup test installs it")
    nowhere = UsbHubPower("99-1", 1)
    with pytest.raises(PowerError, match="no USB hub that can switch its ports at 99-1") as caught:
        switch(unit(board, nowhere), "off")
    assert "`uhubctl` lists the switchable hubs" in caught.value.hint


def test_uhubctl_that_is_not_installed(board: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(shutil, "which", lambda *_, **__: None)
    with pytest.raises(UsageError, match="is not installed") as caught:
        switch(unit(board, HUB), "on")
    assert caught.value.hint == "on Debian or Ubuntu: apt-get install uhubctl"


def test_programs_of_the_lab_are_run_as_they_are_given(board: str, tmp_path: Path) -> None:
    log = tmp_path / "log"
    note = "import sys; open(sys.argv[1], 'a').write(sys.argv[2])"
    power = CommandPower(python(note, str(log), "$HOME on;"), python(note, str(log), "off;"))
    for action in ("cycle", "off", "on"):
        switch(unit(board, power), action)
    assert log.read_text() == "off;$HOME on;off;$HOME on;"


def test_a_program_that_fails_is_quoted(board: str) -> None:
    fails = python("import sys; print('asking'); sys.exit('no such socket')")
    with pytest.raises(PowerError) as caught:
        switch(unit(board, CommandPower(fails, fails)), "on")
    assert "failed with exit code 1; the power may not be on" in caught.value.message
    assert caught.value.message.endswith("asking | no such socket")


def test_a_program_that_hangs_is_ended_with_all_it_started(
    board: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    started = tmp_path / "pid"
    time_out_once_ready(monkeypatch, started)
    hangs = (
        "sh",
        "-c",
        f"echo waiting; sleep 1000 & echo $! > {started}.new; mv {started}.new {started}; wait",
    )
    with pytest.raises(PowerError, match=r"timed out after 0\.2 s: waiting"):
        switch(unit(board, CommandPower(hangs, hangs, timeout_s=0.2)), "off")
    assert state(int(started.read_text())) == "Z"


def state(pid: int) -> str:
    """The state of a process in ``/proc``; "Z" also when it is gone."""
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0]
    except (OSError, IndexError):
        return "Z"


def test_a_program_that_is_not_there(board: str) -> None:
    with pytest.raises(UsageError, match="no-such-program not found"):
        switch(unit(board, CommandPower(("no-such-program",), ("x",))), "on")


def test_a_relay_gets_its_bytes(board: str, device: tuple[int, str]) -> None:
    master, name = device
    power = RelayPower(name, on="A0 01 01 A2", off="a00100a1")
    switched = switch(unit(board, power), "cycle")
    assert os.read(master, 100) == b"\xa0\x01\x00\xa1\xa0\x01\x01\xa2"
    assert switched.steps[0] == f"a0 01 00 a1 to the relay on {name}"


def test_a_relay_that_is_not_there(board: str) -> None:
    with pytest.raises(PortError, match="cannot open the serial port /dev/nowhere"):
        switch(unit(board, RelayPower("/dev/nowhere", on="01", off="00")), "on")


def linked(path: Path, name: str, *, back: bool = True) -> CommandPower:
    """Power of a board whose port is there only while it has power."""
    on = f"import os, sys; os.path.lexists({str(path)!r}) or os.symlink({name!r}, {str(path)!r})"
    off = f"import os; os.remove({str(path)!r})"
    return CommandPower(python(on if back else ""), python(off))


def test_a_port_goes_with_its_power_and_comes_back(
    board: str, device: tuple[int, str], tmp_path: Path
) -> None:
    port = tmp_path / "ttyUSB0"
    port.symlink_to(device[1])
    switched = switch(unit(board, linked(port, device[1]), str(port)), "cycle")
    assert switched.went is True
    assert switched.back_s is not None
    assert switched.duration_s >= switched.back_s


def test_a_port_that_stays_though_its_power_is_gone_is_told(
    board: str, device: tuple[int, str]
) -> None:
    nothing = python("")
    switched = switch(unit(board, CommandPower(nothing, nothing), device[1]), "off")
    assert switched.went is False
    assert switched.back_s is None


def test_a_board_that_does_not_come_back_is_to_be_looked_at(
    board: str, device: tuple[int, str], tmp_path: Path
) -> None:
    port = tmp_path / "ttyUSB0"
    port.symlink_to(device[1])
    with pytest.raises(NotBackError, match=r"did not come back within 0\.31 s") as caught:
        switch(unit(board, linked(port, device[1], back=False), str(port)), "cycle")
    assert (caught.value.exit_code, caught.value.owner) == (75, Owner.BOARD)
    assert "settle_s" in caught.value.hint


def test_a_unit_that_nothing_can_switch(board: str) -> None:
    with pytest.raises(UsageError, match="unit 'u1' has no power control") as caught:
        switch(unit(board, None), "off")
    assert "power = {" in caught.value.hint


@pytest.mark.parametrize(
    "power",
    [
        '{ kind = "relay", port = "/dev/x", on = "A0 0", off = "00" }',
        '{ kind = "usb-hub", hub = "../../x", port = 1 }',
        '{ kind = "usb-hub", hub = "1-4", port = 0 }',
        '{ kind = "command", on = [], off = ["x"] }',
        '{ kind = "hand" }',
    ],
)
def test_what_no_power_control_is_like_is_refused_when_it_is_read(
    power: str, tmp_path: Path
) -> None:
    file = tmp_path / "units.toml"
    file.write_text(f'schema = 1\n[[unit]]\nid = "a"\nboard = "native"\npower = {power}\n')
    with pytest.raises(UsageError, match=rf"^{file}:5:"):
        load_units(file)


def test_the_command(
    etharness: Callable[..., CommandResult], board: str, tmp_path: Path, uhubctl: Install
) -> None:
    uhubctl()
    units = tmp_path / "units.toml"
    units.write_text(
        'schema = 1\n[[unit]]\nid = "a"\nboard = "there.toml"\noff_s = 0\nsettle_s = 0\n'
        'power = { kind = "usb-hub", hub = "1-4", port = 3 }\n'
        '[[unit]]\nid = "b"\nboard = "there.toml"\n'
    )
    code, out, err = etharness("lab", "power", "a", "cycle", "--units", units, "--json")
    assert code == 0, err
    assert document("lab-power", out)["steps"] == [
        "uhubctl -l 1-4 -p 3 -a off",
        "uhubctl -l 1-4 -p 3 -a on",
    ]
    assert etharness("lab", "power", "a", "off", "--units", units).out == (
        "uhubctl -l 1-4 -p 3 -a off\nthe power of a is off\n"
    )
    assert (
        etharness("lab", "power", "a", "on", "--units", units, "-q").out == "the power of a is on\n"
    )
    assert etharness("lab", "power", "b", "off", "--units", units).code == 2
    uhubctl(off=NONE, code=1)
    assert etharness("lab", "power", "a", "off", "--units", units).code == 75
