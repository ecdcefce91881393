"""The command line's frame: help, usage errors, interrupts."""

from __future__ import annotations

import re
import subprocess
import sys
from collections.abc import Callable

import click
import pytest

from harness import __version__
from harness.cli import cli
from tests.conftest import BOARDS, ROOT, CommandResult
from tests.support.documents import document

Etharness = Callable[..., CommandResult]


COMMANDS = cli.list_commands(click.Context(cli))


def listed(out: str) -> dict[str, str]:
    """The text of each command in the help."""
    found: dict[str, str] = {}
    name = ""
    for line in out.splitlines():
        if match := re.fullmatch(r"  ([a-z][a-z-]*) {2,}(\S.*)", line):
            name, found[match[1]] = match[1], match[2]
        elif name and line.startswith("      "):
            found[name] += f" {line.strip()}"
        else:
            name = ""
    return found


def test_help_lists_every_command_and_exit_code(etharness: Etharness) -> None:
    code, out, _ = etharness("--help")
    assert code == 0
    assert {*COMMANDS} == {*listed(out)}
    for exit_code in ("0 pass", "1 a check", "2 usage", "3 results", "4 the target", "75 infra"):
        assert exit_code in " ".join(out.split())


@pytest.mark.parametrize("command", COMMANDS)
def test_every_command_has_the_help_that_the_list_shows(command: str, etharness: Etharness) -> None:
    code, out, _ = etharness(command, "--help")
    assert code == 0
    assert listed(etharness("--help").out)[command] in " ".join(out.split())
    assert "--json" in out or command == "completion"


@pytest.mark.parametrize("words", [["--version"], ["--help"], ["lab", "--help"], ["run", "--help"]])
def test_help_imports_nothing_heavy(words: list[str]) -> None:
    script = (
        "import sys; from harness.cli import main\n"
        f"try: main({words})\n"
        "except SystemExit: pass\n"
        "print(sorted({'numpy', 'rich', 'construct', 'serial', 'msgspec'} & set(sys.modules)))"
    )
    done = subprocess.run(
        [sys.executable, "-c", script], capture_output=True, text=True, check=True
    )
    assert done.stdout.splitlines()[-1] == "[]"


UNUSED = {
    *("importlib.metadata", "numpy.random", "rich._emoji_codes", "scipy", "serial", "construct"),
    *("harness.analyze.alignment", "harness.analyze.converters", "harness.inspector"),
    *("harness.check.history.noise", "harness.decode.device_log", "harness.decode.pte"),
}
"""What a look at an ED00 file needs none of: plugins, clocks of a run, models, baselines."""


def test_decode_imports_only_what_it_uses() -> None:
    file = ROOT / "tests/fixtures/kws_f32_executorch.etdp"
    script = (
        "import sys; from harness.cli import main\n"
        f"try: main(['decode', {str(file)!r}])\n"
        "except SystemExit: pass\n"
        f"print(sorted({UNUSED} & set(sys.modules)))"
    )
    done = subprocess.run(
        [sys.executable, "-c", script], capture_output=True, text=True, check=True
    )
    assert done.stdout.splitlines()[-1] == "[]"


def test_version(etharness: Etharness) -> None:
    assert etharness("--version").out == f"etharness, version {__version__}\n"


def test_usage_errors_exit_with_2_and_say_what_to_try(etharness: Etharness) -> None:
    code, _, err = etharness("lab", "unit")
    assert code == 2
    assert err == (
        "error: unknown command 'unit'\n"
        "  try: did you mean 'units'? `etharness lab --help` lists all commands\n"
    )
    code, _, err = etharness("boards", "--fly")
    assert code == 2
    assert err.startswith("error: No such option")
    assert err.endswith("\n  try: etharness boards --help\n")
    code, _, err = etharness()
    assert code == 2
    assert err.startswith("Usage: etharness ")
    assert etharness("run", "--board", "native").code == 2
    assert etharness("run", "--board", "native", "--model", "x", "--runs", "0").code == 2


def test_run_takes_its_model_as_argument_or_option_and_says_what_to_type(
    etharness: Etharness,
) -> None:
    for words in (["kws_int8"], ["--model", "kws_int8"]):
        code, _, err = etharness("run", *words)
        assert (code, err.splitlines()[0]) == (2, "error: no board selected")
        assert "try: --board native runs it on this computer" in err
    for words in ([], ["a.pte", "--model", "b.pte"]):
        code, _, err = etharness("run", *words, "--board", "native")
        assert code == 2
        assert "try: name it once: `etharness run model.pte --board native`" in err


def test_an_interrupt_exits_with_130(etharness: Etharness, monkeypatch: pytest.MonkeyPatch) -> None:
    def interrupt() -> list[str]:
        raise KeyboardInterrupt

    monkeypatch.setattr("harness.cli.setup.board_names", interrupt)
    assert etharness("boards").code == 130


def test_boards_as_json(etharness: Etharness) -> None:
    code, out, _ = etharness("boards", "--json")
    assert code == 0
    names = [board["name"] for board in document("boards", out)]
    assert names == BOARDS


def test_doctor_says_what_is_missing(etharness: Etharness, monkeypatch: pytest.MonkeyPatch) -> None:
    code, out, _ = etharness("doctor", "--board", "native")
    assert code == 0
    assert "cmake" in out
    monkeypatch.setenv("PATH", "/nonexistent")
    monkeypatch.delenv("CC", raising=False)
    code, out, _ = etharness("doctor", "--board", "native", "--json")
    assert code == 2
    missing = {
        entry["tool"]: entry["remedy"] for entry in document("doctor", out) if not entry["version"]
    }
    assert missing["cc"] == "apt-get install gcc"
