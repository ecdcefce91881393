"""``etharness lab``: ``units``, ``ports``, ``who``, ``lease`` and ``release``."""

from __future__ import annotations

import os
import socket
from collections.abc import Callable
from pathlib import Path

import pytest

from harness.target.selection import unit_key
from tests.conftest import CommandResult
from tests.support.documents import document
from tests.support.leases import another_process
from tests.support.sysfs import FakeHost

Etharness = Callable[..., CommandResult]
HERE = os.uname().nodename
LAB = """\
schema = 1
[[unit]]
id = "rack-1"
board = "native"
probe = "0483:374e:0024"
port = { vid = 0x0483, pid = 0x374e, serial = "0024", interface = 2 }
power = { kind = "usb-hub", hub = "1-4", port = 3 }
note = "with a [red] sticker"
[[unit]]
id = "rack-2"
board = "native"
port = { vid = 0x0483, pid = 0x374e, serial = "0025" }
power = { kind = "command", on = ["plug", "on"], off = ["plug", "off"] }
[[unit]]
id = "far"
board = "native"
port = "socket://bench-2:4001"
power = { kind = "relay", port = "/dev/relay", on = "a0", off = "a1" }
[[unit]]
id = "twin"
board = "native"
"""


@pytest.fixture(autouse=True)
def host(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> FakeHost:
    (tmp_path / "units.toml").write_text(LAB)
    monkeypatch.setenv("ETHARNESS_UNITS", str(tmp_path / "units.toml"))
    monkeypatch.setenv("ETHARNESS_SYSROOT", str(tmp_path))
    monkeypatch.setenv("ETHARNESS_LOCK_DIR", str(tmp_path / "locks"))
    monkeypatch.setenv("ETHARNESS_OWNER", "ada")
    monkeypatch.delenv("ETHARNESS_LEASE", raising=False)
    host = FakeHost(tmp_path)
    host.plug("ttyACM0", link="usb-ST")
    host.plug("ttyACM1", serial="\x1b[31mevil", location="1-1")
    return host


def test_units_are_listed_with_where_they_are(etharness: Etharness, host: FakeHost) -> None:
    code, out, err = etharness("lab", "units")
    assert code == 0, err
    lines = {line.split()[0]: line for line in out.splitlines() if line}
    assert f"{host.root}/dev/ttyACM0" in lines["rack-1"]
    assert "free" in lines["rack-1"]
    assert "[red]" in lines["rack-1"]
    assert "serial port 0483:374e:0025 not found" in lines["rack-2"]
    assert "socket://bench-2:4001" in lines["far"]
    assert etharness("lab", "lease", "rack-1", "--for=1h30m", "--reason=soldering").code == 0
    listed = document("lab-units", etharness("lab", "units", "--json").out)
    units = {unit["id"]: unit for unit in listed}
    [holder] = units["rack-1"]["holders"]
    assert (holder["owner"], holder["kind"], holder["reason"]) == ("ada", "person", "soldering")
    assert {name: unit["power"] for name, unit in units.items()} == {
        "rack-1": "port 3 of hub 1-4",
        "rack-2": "plug",
        "far": "relay on /dev/relay",
        "twin": "",
    }
    assert units["twin"]["problem"] == "runs on this host"
    shown = etharness("lab", "units").out
    assert f"ada on {HERE} until 20" in shown
    assert "(soldering)" in shown


def test_ports_are_listed_with_whose_they_are(etharness: Etharness, host: FakeHost) -> None:
    device = f"{host.root}/dev/ttyACM0"
    with another_process(device, ETHARNESS_OWNER="bob") as process:
        code, out, err = etharness("lab", "ports")
        assert code == 0, err
        [ours, other] = document("lab-ports", etharness("lab", "ports", "--json").out)
    line = next(line for line in out.splitlines() if device in line)
    assert f"bob on {HERE} since 20" in line
    assert "usb-ST" in line
    assert "\x1b" not in out
    assert (ours["unit"], ours["interface"], ours["location"]) == ("rack-1", 2, "1-4.3")
    [holder] = ours["holders"]
    assert (holder["pid"], holder["alive"], holder["level"]) == (process.pid, True, 0)
    assert holder["silent_s"] < 60
    assert (other["unit"], other["holders"]) == (None, [])
    host.unplug("ttyACM0")
    host.unplug("ttyACM1")
    assert etharness("lab", "ports").out == "no serial ports\n"


def test_who_says_who_holds_what(etharness: Etharness, host: FakeHost) -> None:
    assert etharness("lab", "who").out == "nobody holds anything\n"
    assert etharness("lab", "lease", "rack-1", "twin", "--for", "2h", "--reason", "demo").code == 0
    with another_process("socket://bench-2:4001", "socket://bench-2:4001") as process:
        held = document("lab-who", etharness("lab", "who", "--json").out)
        code, out, _ = etharness("lab", "who", "far")
        assert code == 0
    assert {(each["unit"], each["kind"], each["level"]) for each in held} == {
        *(("rack-1", "person", 0), ("twin", "person", 0)),
        *(("far", "process", 0), ("far", "process", 1)),
    }
    assert f"{process.pid} -c" in out
    assert "alive" in out
    code, out, _ = etharness("lab", "who", "rack-1")
    assert out.count("ada") == 1  # once, although both its name and its port are held
    assert "not needed" in out
    for note in (host.root / "locks").glob("unit-twin*.person.json"):
        note.write_text("{")
    [damaged] = document("lab-who", etharness("lab", "who", "twin", "--json").out)
    assert (damaged["owner"], damaged["pid"]) == ("", None)
    assert "unknown" in etharness("lab", "who", "twin").out
    assert "unknown" in etharness("lab", "units").out
    assert etharness("lab", "who", "rack-9").code == 2


def test_what_is_leased_is_released(etharness: Etharness, monkeypatch: pytest.MonkeyPatch) -> None:
    [leased] = document("lab-lease", etharness("lab", "lease", "rack-1", "--for=1d", "--json").out)
    monkeypatch.setenv("ETHARNESS_OWNER", "bob")
    code, _, err = etharness("lab", "lease", "rack-1", "--for=1s")
    assert code == 75
    assert f"unit 'rack-1' is already in use by ada on {HERE} since " in err
    code, _, err = etharness("lab", "release", "rack-1")
    assert code == 75
    assert "--force" in err
    monkeypatch.setenv("ETHARNESS_LEASE", leased["token"])
    assert "export ETHARNESS_LEASE=" in etharness("lab", "lease", "rack-1", "--for=90m").out
    code, out, _ = etharness("lab", "release", "rack-1", "twin")
    assert code == 0
    assert f"rack-1: ended the lease of bob on {HERE} since " in out
    assert "twin was not leased" in out
    [released] = document(
        "lab-release", etharness("lab", "release", "rack-1", "--force", "--json").out
    )
    assert released == {"unit": "rack-1", "ended": []}


@pytest.mark.parametrize("how_long", ["", "2", "h", "2 hours", "-1h", "0h"])
def test_how_long_is_said_with_a_unit_of_time(etharness: Etharness, how_long: str) -> None:
    assert etharness("lab", "lease", "rack-1", "--for", how_long).code == 2


def test_a_run_waits_for_a_leased_unit_by_any_of_its_names(
    etharness: Etharness, host: FakeHost, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """A unit that is held, or was when it was last plugged in, is not had by its port either."""
    text = (Path(__file__).parents[2] / "boards/native.toml").read_text()
    text = text.replace('kind = "native"', 'kind = "serial"').replace("budget =", "# budget =")
    (tmp_path / "native.toml").write_text(text.replace("{ boot_s = 10", "{ unit_s = 0.1"))
    assert etharness("lab", "lease", "rack-1", "--for=2h").code == 0
    monkeypatch.setenv("ETHARNESS_OWNER", "bob")
    board = f"--board={tmp_path}/native.toml"
    host.unplug("ttyACM0")
    device = host.plug("ttyACM5", location="1-3")  # in another socket than when it was leased
    code, _, err = etharness("pull", board, f"--port={device}", f"-o{tmp_path}/out")
    assert code == 75
    assert "unit 'rack-1' was not free within 0.1 s: already in use by ada" in err


def make_socket(path: Path) -> None:
    with socket.socket(socket.AF_UNIX) as made:
        os.chdir(path.parent)  # its name may have no more than 107 bytes
        made.bind(path.name)


MAKERS: dict[str, Callable[[Path], None]] = {
    "a FIFO": os.mkfifo,
    "a socket": make_socket,
    "a folder": Path.mkdir,
    "a link to a FIFO": lambda path: path.symlink_to("fifo"),
    "a link to a device": lambda path: path.symlink_to("/dev/zero"),
    "a link to nothing": lambda path: path.symlink_to("nowhere"),
}


@pytest.mark.parametrize("kind", MAKERS)
def test_what_is_no_file_among_leases_is_passed_over(
    kind: str,
    host: FakeHost,
    monkeypatch: pytest.MonkeyPatch,
    caplog: pytest.LogCaptureFixture,
    etharness: Etharness,
) -> None:
    """To open a FIFO waits for its other end, which may never come."""
    monkeypatch.chdir(host.root)
    locks = host.root / "locks"
    locks.mkdir()
    os.mkfifo(locks / "fifo")
    twin = unit_key("twin").stem
    strange = [locks / f"{twin}.person.json", locks / f"{twin}.3.lock", locks / f"{twin}.3.json"]
    strange += [locks / "other.0.lock", locks / "other.0.json", locks / f"{twin}.taken.json"]
    for path in strange:
        MAKERS[kind](path)

    for words in (["lab", "who"], ["lab", "who", "twin"], ["lab", "units"]):
        done = etharness(*words)
        assert done.code == 0, done.err
    for path in (strange[0], strange[3]):  # said once by a process
        assert caplog.text.count(f"{path}: not a regular file") == 1
    if kind != "a folder":  # which nothing can be put in the place of
        leased = etharness("lab", "lease", "twin", "--for", "1h")
        assert leased.code == 0, leased.err
        assert strange[0].is_file()
        assert "ada" in etharness("lab", "who", "twin").out
        released = etharness("lab", "release", "twin")
        assert released.code == 0, released.err
    strange[0].rmdir() if kind == "a folder" else strange[0].unlink(missing_ok=True)
    (locks / f"{twin}.0.lock").unlink(missing_ok=True)
    MAKERS[kind](locks / f"{twin}.0.lock")
    refused = etharness("lab", "lease", "twin", "--for", "1h")
    assert refused.code == 75
    assert f"cannot lock {locks}/{twin}.0.lock: not a regular file" in refused.err
