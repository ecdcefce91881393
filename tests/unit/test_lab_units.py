"""Which board a command is for: what is said of it fits together, or it is refused."""

from __future__ import annotations

import re
from pathlib import Path

import msgspec
import pytest

from harness import Unit, UsageError, UsbPort, find_unit, load_units
from harness.target.selection import Chosen, choose
from tests.conftest import MODELS, ROOT

LAB = """\
schema = 1
[[unit]]
id = "rack-1"
board = "ours.toml"
port = { vid = 0x0483, pid = 0x374e, serial = "0024", interface = 2 }
[[unit]]
id = "far"
board = "ours.toml"
port = "socket://bench-2:4001"
[[unit]]
id = "twin"
board = "native"
"""


@pytest.fixture(autouse=True)
def lab(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    text = (ROOT / "boards/native.toml").read_text()
    text = text.replace('name = "native"', 'name = "ours"').replace(
        'kind = "native"', 'kind = "serial"'
    )
    assert 'kind = "serial"' in text
    (tmp_path / "ours.toml").write_text(text.replace('budget = "budgets/default.toml"\n', ""))
    file = tmp_path / "units.toml"
    file.write_text(LAB)
    monkeypatch.setenv("ETHARNESS_UNITS", str(file))
    monkeypatch.setenv("ETHARNESS_SYSROOT", str(tmp_path))
    return file


def test_a_unit_says_board_and_port(lab: Path) -> None:
    board = str(lab.parent / "ours.toml")
    port = UsbPort(0x0483, 0x374E, "0024", 2)
    assert choose(None, "rack-1", None) == Chosen(board, port, "rack-1", find_unit("rack-1"))
    assert choose(board, "rack-1", None) == choose(None, "rack-1", None, lab)
    assert choose(None, "far", "socket://bench-2:4001").port == "socket://bench-2:4001"
    assert choose("native", "twin", None).port is None


def test_without_a_unit_of_the_lab_a_name_is_only_a_name(monkeypatch: pytest.MonkeyPatch) -> None:
    assert choose("native", "my desk", None) == Chosen("native", None, "my desk")
    assert choose("native", None, "/dev/ttyACM0") == Chosen("native", "/dev/ttyACM0")
    monkeypatch.delenv("ETHARNESS_UNITS")
    monkeypatch.chdir("/")
    monkeypatch.setenv("XDG_CONFIG_HOME", "/nowhere")
    assert choose("native", "rack-1", None) == Chosen("native", None, "rack-1")


@pytest.mark.parametrize(
    ("board", "unit", "port", "message"),
    [
        (None, None, None, "no board selected"),
        (None, "rack-2", None, "no such unit: 'rack-2'"),
        ("native", "rack-1", None, "unit 'rack-1' is a ours, but --board is native"),
        ("nativ", "rack-1", None, "no such board: 'nativ'"),
        (None, "far", "/dev/ttyACM0", "on socket://bench-2:4001, but --port is /dev/ttyACM0"),
        (None, "twin", "/dev/ttyACM0", "unit 'twin' is on no port"),
    ],
)
def test_what_contradicts_itself_is_refused(
    board: str | None, unit: str | None, port: str | None, message: str
) -> None:
    with pytest.raises(UsageError, match=message) as caught:
        choose(board, unit, port)
    assert caught.value.hint


def test_a_file_that_is_named_must_have_the_unit(lab: Path) -> None:
    with pytest.raises(UsageError, match="no such unit"):
        choose("native", "my desk", None, lab)


def test_commands_take_units(etharness, tmp_path: Path) -> None:
    model = str(MODELS / "small_int8.pte")
    for command in (
        ("run", "--model", model, "-o", str(tmp_path / "out")),
        ("pull", "-o", str(tmp_path / "pulled")),
        ("postmortem",),
    ):
        code, _, err = etharness(*command, "--unit", "rack-1")
        assert code == 75, err
        assert "serial port 0483:374e:0024 interface 2 not found; ports on USB: none" in err
        assert etharness(*command, "--unit", "rack-9").code == 2
    code, _, err = etharness("postmortem")
    assert (code, "no crash record is selected" in err) == (2, True)


def test_the_page_names_every_key_and_every_variable(tmp_path: Path) -> None:
    """Its example is a file of a lab; its tables leave out no key of a unit and no variable."""
    root = Path(__file__).parents[2]
    page = (root / "docs/lab.md").read_text()
    [example] = re.findall(r"^```toml file=units.toml\n(.*?)^```$", page, re.M | re.S)
    (tmp_path / "example.toml").write_text(example)
    assert [unit.id for unit in load_units(tmp_path / "example.toml")] == ["far", "h743-a"]
    keys = {field.encode_name for field in msgspec.structs.fields(Unit)}
    table = page.partition("## Keys of a unit")[2].partition("\n## ")[0]
    assert keys <= set(re.findall(r"`(\w+)`", table))
    sources = "".join(path.read_text() for path in (root / "harness").rglob("*.py"))
    used = set(re.findall(r"\bETHARNESS_[A-Z_]+\b", sources))
    table = page.partition("## Environment variables")[2]
    assert used == set(re.findall(r"`(ETHARNESS_\w+)`", table))
