"""What takes the place of Linux's own calls: here without them, or beside them."""

from __future__ import annotations

import json
import os
import time
from contextlib import closing
from pathlib import Path
from types import SimpleNamespace

import pytest
from serial.tools import list_ports

from harness import UsbPort
from harness.extensions.lab.leases import LeaseClock, is_alive
from harness.target import ports
from harness.target.process_group import ThreadedDrain
from harness.target.selection import port_key
from tests.support.desk import Desk


@pytest.fixture
def desk(tmp_path: Path) -> Desk:
    return Desk(tmp_path)


def plugged(device: str, location: str | None, **fields: object) -> SimpleNamespace:
    usb: dict[str, object] = {"vid": 0x0483, "pid": 0x374E, "serial_number": "0024"}
    return SimpleNamespace(device=device, location=location, **(usb | fields))


@pytest.fixture
def without_sysfs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A host without ``/sys``, on which pyserial finds these ports."""
    found = [
        plugged("COM7", "1-4.3:x.2"),
        plugged("COM3", None, vid=None, pid=None, serial_number=None),
        plugged("/dev/cu.usbmodem1", "20-1.4", serial_number=None),
    ]
    monkeypatch.delenv(ports.ROOT_VARIABLE, raising=False)
    monkeypatch.setattr(ports, "system_root", lambda: tmp_path)
    monkeypatch.setattr(list_ports, "comports", lambda: found)


@pytest.mark.usefixtures("without_sysfs")
def test_ports_that_pyserial_lists() -> None:
    assert ports.list_ports() == [
        ports.SerialPort("/dev/cu.usbmodem1", 0x0483, 0x374E, "", None, "20-1.4"),
        ports.SerialPort("COM3"),
        ports.SerialPort("COM7", 0x0483, 0x374E, "0024", 2, "1-4.3"),
    ]
    assert ports.find_port(UsbPort(0x0483, 0x374E, interface=2)) == "COM7"


@pytest.mark.usefixtures("without_sysfs")
def test_a_port_has_one_key_for_device_and_location() -> None:
    assert "1-4.3" in port_key("COM7").stem
    assert port_key("COM3") != port_key("COM7")


def test_a_threaded_drain_has_all_output() -> None:
    read, write = os.pipe()
    arrived = bytearray()
    with os.fdopen(read, "rb") as pipe:
        drain = ThreadedDrain([(pipe, arrived.extend)])
        data = bytes(range(256)) * 1000
        for _ in range(3):
            assert os.write(write, data[:60_000]) == 60_000
            drain.catch_up()
        assert bytes(arrived) == 3 * data[:60_000]
        os.close(write)
        drain.end()
        assert pipe.closed


def test_a_threaded_drain_ends_though_a_child_keeps_the_pipe() -> None:
    read, write = os.pipe()
    arrived = bytearray()
    drain = ThreadedDrain([(os.fdopen(read, "rb"), arrived.extend)])
    with closing(os.fdopen(write, "wb", buffering=0)) as child:
        child.write(b"last words")
        drain.end()
        assert bytes(arrived) == b"last words"


def test_a_lease_clock_without_the_time_since_boot(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delattr(time, "CLOCK_BOOTTIME")
    clock = LeaseClock()
    now = clock.now()
    assert now.boot == "", "so that the time of day is compared"
    assert now.seconds_until(now.plus(30)) == pytest.approx(30)


def test_without_proc_nobody_is_said_to_be_dead(desk: Desk) -> None:
    program = (
        "import os; from harness.target.selection import host_name;"
        "from harness.extensions.lab.leases import is_alive;"
        "print(is_alive(host_name(), os.getpid(), 0))"
    )
    assert desk.python("-c", program).out == "None\n"
    assert is_alive("elsewhere", 1, 1) is None


@pytest.mark.attack("Leases", "a port that another program has open", "exit code 75: in use")
@pytest.mark.slow
def test_a_port_that_another_process_holds_is_busy(desk: Desk) -> None:
    """By a lock of Windows's kind, which has no shared mode."""
    second = """
from harness.errors import BusyError
from harness.extensions.lab.holding import hold_keys
from harness.target.selection import unit_key
try:
    with hold_keys([unit_key("a")], 0):
        print("held")
except BusyError as error:
    print(error)
"""
    first = f"""
import json, os, subprocess, sys
from harness.extensions.lab.holding import VARIABLE, hold_keys, open_registry
from harness.target.selection import unit_key
def second():
    # Without the token by which it would inherit our lease.
    environment = {{name: value for name, value in os.environ.items() if name != VARIABLE}}
    command = [sys.executable, "-c", {second!r}]
    done = subprocess.run(command, env=environment, capture_output=True, check=True)
    return done.stdout.decode().splitlines()
registry = open_registry()
with hold_keys([unit_key("a")], 0):
    busy = second()
    holders = [holder.record.pid == os.getpid() for holder in registry.holders(unit_key("a"))]
print(json.dumps([busy, holders, second(), registry.holders(unit_key("a"))]))
"""
    code, out, err = desk.python("-c", first)
    assert code == 0, err
    busy, holders, after, left = json.loads(out)
    assert "already in use by" in busy[0]
    assert (holders, after, left) == ([True], ["held"], [])


def test_a_program_is_ended_and_its_output_kept(desk: Desk) -> None:
    program = """
import sys, time
from harness.target.process_group import ProcessGroup, run_program
talk = "import sys, time; print('x' * 300_000, flush=True); time.sleep(%s)"
done = run_program([sys.executable, "-c", talk % 0], 600)
print(done.code, len(done.stdout))
output = bytearray()
group = ProcessGroup([sys.executable, "-c", talk % 600], stdout=output.extend)
while len(output) < 300_001:
    time.sleep(0.01)
print(group.end(), group.remaining, group.wait(0))
"""
    code, out, err = desk.python("-c", program)
    assert code == 0, err
    assert out.splitlines() == ["0 300001", "-9 () True"]


@pytest.mark.attack(
    "Texts", "names outside the encoding of a pipe", "escaped; the command ends normally"
)
@pytest.mark.slow
def test_names_that_a_code_page_lacks_are_escaped(desk: Desk) -> None:
    # As on Windows, where names of files are text in Unicode and a pipe is in a code page.
    program = "from harness.cli import main; main(['inspect', '\\u6a21.pte'])"
    code, out, err = desk.python("-X", "utf8", "-c", program)
    assert (code, out) == (2, "")
    assert "error: cannot read the model" in err
    model = Path(__file__).parents[2] / "firmware_stub/models/small_int8.pte"
    (desk.folder / "模.pte").write_bytes(model.read_bytes())
    code, out, err = desk.python("-X", "utf8", "-c", program)
    assert (code, err) == (0, "")
    assert out.startswith("\\u6a21.pte: ")
