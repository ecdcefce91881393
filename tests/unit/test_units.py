"""The lab's own file: which boards are connected here."""

from pathlib import Path

import pytest

from harness import (
    CommandPower,
    MeterRequest,
    Unit,
    UsageError,
    UsbHubPower,
    UsbPort,
    find_unit,
    load_units,
)
from harness.extensions.lab.nightly.night import prepare
from harness.runs.request import request_of
from tests.support.nights import PLAN, written_plan

RACK = """\
schema = 1

[[unit]]
id = "h743-a"
board = "nucleo-h743zi"
probe = "0483:374e:0024001E3532511131333430"
port = { vid = 0x0483, pid = 0x374e, serial = "0024001E3532511131333430", interface = 2 }
power = { kind = "usb-hub", hub = "1-4", port = 3 }
fixtures = ["gpio-loopback"]

[[unit]]
id = "far"
board = "boards/ours.toml"
port = "rfc2217://bench-2:4001"
power = { kind = "command", on = ["plug", "on"], off = ["plug", "off"] }
lease = "labgrid"
"""


def write(directory: Path, text: str) -> Path:
    file = directory / "units.toml"
    file.write_text(text)
    return file


def test_a_unit_is_read_with_all_that_is_said_of_it(tmp_path):
    unit = find_unit("h743-a", write(tmp_path, RACK))
    assert unit.port == UsbPort(0x0483, 0x374E, "0024001E3532511131333430", 2)
    assert unit.power == UsbHubPower("1-4", 3)
    assert (unit.fixtures, unit.health, unit.lease) == (("gpio-loopback",), "hello", "local")


def test_a_board_file_stands_beside_the_units(tmp_path):
    unit = find_unit("far", write(tmp_path, RACK))
    assert unit.board == str(tmp_path / "boards/ours.toml")
    assert unit.power == CommandPower(("plug", "on"), ("plug", "off"))


def test_an_unknown_unit_is_answered_with_the_one_that_was_meant(tmp_path):
    with pytest.raises(UsageError) as caught:
        find_unit("h743-b", write(tmp_path, RACK))
    assert caught.value.hint == "did you mean 'h743-a'? known units: far, h743-a"


def test_two_units_of_one_name_are_refused(tmp_path):
    text = 'schema = 1\n[[unit]]\nid = "a"\nboard = "native"\n'
    text += '[[unit]]\nid = "a"\nboard = "native"\n'
    with pytest.raises(UsageError, match="duplicate unit id 'a'"):
        load_units(write(tmp_path, text))


@pytest.mark.attack(
    "Arguments and scripts",
    "unit files with wrong types, ranges and keys",
    "exit code 2, with file, line and key",
)
@pytest.mark.parametrize(
    ("line", "what"),
    [
        ('id = "no spaces"', "id"),
        ("port = { vid = 70000, pid = 1 }", "vid"),
        ('power = { kind = "magic" }', "kind"),
        ('lease = "somewhere"', "lease"),
        ("colour = 1", "colour"),
        ('energy = { meter = "ppk2", volts = -1 }', "volts"),
        ('energy = { meter = "ppk2", marker_pin = 8 }', "marker_pin"),
    ],
)
def test_what_is_wrong_is_named_with_its_line(tmp_path, line, what):
    ours = "" if line.startswith("id") else 'id = "a"\n'
    file = write(tmp_path, f'schema = 1\n[[unit]]\nboard = "native"\n{ours}{line}\n')
    with pytest.raises(UsageError, match=what) as caught:
        load_units(file)
    assert f"{file}:" in caught.value.message


def test_the_labs_file_is_the_environments_or_the_one_here_or_the_users(tmp_path, monkeypatch):
    home, here = tmp_path / "config", tmp_path / "here"
    (home / "etdump-harness").mkdir(parents=True)
    here.mkdir()
    monkeypatch.chdir(here)
    monkeypatch.setenv("XDG_CONFIG_HOME", str(home))
    monkeypatch.delenv("ETHARNESS_UNITS", raising=False)
    with pytest.raises(UsageError, match=r"no units\.toml found") as caught:
        load_units()
    assert "ETHARNESS_UNITS" in caught.value.hint
    write(home / "etdump-harness", RACK.replace("h743-a", "users"))
    assert [unit.id for unit in load_units()] == ["far", "users"]
    write(here, RACK.replace("h743-a", "here"))
    assert [unit.id for unit in load_units()] == ["far", "here"]
    monkeypatch.setenv("ETHARNESS_UNITS", "/elsewhere.toml")
    with pytest.raises(UsageError, match=r"/elsewhere\.toml"):
        load_units()


def test_where_labgrid_is_to_look_is_said_in_one_way_and_only_to_labgrid(tmp_path):
    unit = '[[unit]]\nid = "a"\nboard = "native"\n'
    head = f"schema = 1\n{unit}"
    labgrid = f'{head}lease = "labgrid"\n'
    match = 'match = { board = "native" }\n'
    assert find_unit("a", write(tmp_path, labgrid + match)).match == {"board": "native"}
    with pytest.raises(UsageError, match="unit 'a': `place` and `match` exclude each other"):
        load_units(write(tmp_path, f'{labgrid}{match}place = "b"\n'))
    with pytest.raises(UsageError, match="unit 'a': `coordinator` requires lease"):
        load_units(write(tmp_path, f'{head}coordinator = "host:20408"\n'))


def test_any_place_of_a_board_needs_no_file():
    unit = find_unit("labgrid:nucleo-f446re")
    assert (unit.id, unit.board, unit.lease) == ("nucleo-f446re", "nucleo-f446re", "labgrid")
    assert unit.match == {"board": "nucleo-f446re"}


def test_a_unit_may_have_a_line_that_is_slower_or_faster_than_its_board() -> None:
    listed = (921_600, 460_800, 115_200)
    assert Unit("a", "b").rates(listed) == listed
    assert Unit("a", "b", baud=460_800).rates(listed) == (460_800, 115_200)
    assert Unit("a", "b", baud=3_000_000).rates(listed) == (3_000_000, *listed)


def test_units_are_listed_in_natural_order(tmp_path: Path) -> None:
    ids = ["desk-10", "desk-2", "a9", "desk-1", "a10", "b"]
    entries = "".join(f'[[unit]]\nid = "{name}"\nboard = "native"\n' for name in ids)
    found = load_units(write(tmp_path, f"schema = 1\n{entries}"))
    assert [unit.id for unit in found] == ["a9", "a10", "b", "desk-1", "desk-2", "desk-10"]


def test_the_meter_of_a_unit_is_what_its_runs_record_with(tmp_path):
    text = 'schema = 1\n[[unit]]\nid = "a"\nboard = "native"\n'
    energy = '{ meter = "ppk2:/dev/ppk2", volts = 1.8, marker_pin = 3, supply = true }'
    unit = find_unit("a", write(tmp_path, f"{text}energy = {energy}\n"))
    assert unit.meter == MeterRequest("ppk2", "/dev/ppk2", 1.8, 3, supply=True)
    assert find_unit("a", write(tmp_path, text)).meter is None
    file = find_unit("a", write(tmp_path, f'{text}energy = {{ meter = "csv:now.csv" }}\n')).meter
    assert file == MeterRequest("csv", str(tmp_path / "now.csv"))


@pytest.mark.parametrize(
    ("energy", "what"),
    [
        ('{ meter = "ppk3", volts = 3.3 }', "unit 'a': invalid meter 'ppk3'"),
        ('{ meter = "ppk2" }', "unit 'a': a PPK2 does not measure the voltage"),
        ('{ meter = "joulescope", supply = true }', "unit 'a': only a PPK2 supplies a board"),
    ],
)
def test_a_wrong_meter_of_a_unit_is_an_error_when_it_is_used(tmp_path, energy, what):
    text = f'schema = 1\n[[unit]]\nid = "a"\nboard = "native"\nenergy = {energy}\n'
    units = write(tmp_path, text)
    unit = find_unit("a", units)
    with pytest.raises(UsageError, match=what) as caught:
        _ = unit.meter
    assert caught.value.hint.endswith("; `etharness explain lab` describes `energy` of a unit")
    # A plan with this unit is wrong before its night begins, and other commands are not.
    plan = written_plan(tmp_path, PLAN + '[[board]]\nboard = "native"\nunits = ["a"]\n')
    with pytest.raises(UsageError, match=what):
        prepare(plan, units)


def test_a_run_in_python_uses_the_meter_of_its_unit(tmp_path, monkeypatch):
    """Unless it says otherwise, or reads the board through a debug probe."""
    text = 'schema = 1\n[[unit]]\nid = "a"\nboard = "native"\nenergy = { meter = "joulescope:7" }\n'
    text += '[[unit]]\nid = "b"\nboard = "native"\nport = "gdb://localhost:3333"\n'
    text += 'energy = { meter = "ppk2", volts = 3.3 }\n'
    monkeypatch.setenv("ETHARNESS_UNITS", str(write(tmp_path, text)))
    monkeypatch.setattr("harness.config.unit.JOULESCOPE_DRIVER", "json")  # a module that is there
    output = tmp_path / "run"

    def meter(**options):
        return request_of("m.pte", None, {"output": output, **options}).energy

    assert meter(unit="a") == MeterRequest("joulescope", "7")
    assert meter(unit="a", energy=None) is None
    other = MeterRequest("csv", "x.csv")
    assert meter(unit="a", energy=other) is other
    assert meter(unit="b", elf=tmp_path / "x.elf", until="done") is None
