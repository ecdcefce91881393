"""Help of the command line: panels of options, plain text, 80 columns."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator

import click
import pytest

from harness.cli import cli
from tests.conftest import FIXTURES, CommandResult

Etharness = Callable[..., CommandResult]
ETDUMP = FIXTURES / "kws_f32_executorch.etdp"

RUN = {
    "What to run": [
        *("--model", "--name", "--method", "--data", "--placed", "--runs", "--input", "--steps"),
        *("--state", "--seed", "--dataset"),
    ],
    "Where": ["--board", "--unit", "--units", "--port", "--baud"],
    "Firmware": ["--flash", "--image", "--tool", "--probe"],
    "Debug probe": ["--elf", "--symbol", "--until", "--reset"],
    "What is logged": [
        *("--profile", "--values", "--stream", "--live", "--when-full", "--counters"),
        *("--counter-passes", "--trace-limit", "--time-scale"),
    ],
    "Energy": ["--energy", "--volts", "--marker-pin", "--supply"],
    "What must hold": [
        *("--budget", "--reference", "--rtol", "--atol", "--baseline"),
        *("--repeat", "--detect", "--look-again", "--repeat-time", "--baseline-model"),
    ],
    "Where results go": ["--output", "--report", "--history", "--session", "--commit"],
    "View": ["--top", "--by"],
    "Output": [
        *("--json", "--verbose", "--quiet", "--no-progress", "--help"),
    ],
}


def leaves(group: click.Group, *words: str) -> Iterator[tuple[tuple[str, ...], click.Command]]:
    for name in group.list_commands(click.Context(group)):
        command = group.get_command(click.Context(group), name)
        assert command is not None
        if isinstance(command, click.Group):
            yield from leaves(command, *words, name)
        else:
            yield (*words, name), command


LEAVES = dict(leaves(cli))


def panels(text: str) -> dict[str, list[str]]:
    """Options by the title above them, as a help page shows them."""
    found: dict[str, list[str]] = {}
    title = ""
    for line in text.splitlines():
        if heading := re.fullmatch(r"([A-Z][\w ]*):", line):
            title = heading[1]
        elif option := re.match(r"  (?:-\w, )?(--[\w-]+)", line):
            found.setdefault(title, []).append(option[1])
    return found


def test_every_option_of_run_is_in_its_panel(etharness: Etharness) -> None:
    out = etharness("run", "--help").out
    shown = panels(out)
    assert shown == RUN
    assert [*shown] == [*RUN]
    assert out.index("Examples:") < out.index("What to run:") < out.index("Exit codes: 0 pass")
    options = [param for param in LEAVES["run",].params if isinstance(param, click.Option)]
    names = {name for option in options for name in option.opts if name.startswith("--")}
    assert {name for titles in shown.values() for name in titles} == names | {"--help"}


@pytest.mark.parametrize("words", LEAVES, ids=" ".join)
def test_help_pages_are_plain_and_fit_80_columns(
    words: tuple[str, ...], etharness: Etharness, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("COLUMNS", "80")
    code, out, _ = etharness(*words, "--help")
    assert code == 0
    assert etharness(*words, "-h").out == out
    assert out.isascii()
    assert "\x1b" not in out
    assert max(map(len, out.splitlines())) <= 80
    assert re.findall(r" (TEXT|INTEGER|FLOAT|RANGE)\b", out) == []
    shown = panels(out)
    if sum(map(len, shown.values())) > 8:
        assert "Options" not in shown, "an option is in no panel"
    # All panels of a page are aligned.
    columns = {
        len(line) - len(line[27:].lstrip()) for line in out.splitlines() if line[:27] == " " * 27
    }
    assert len(columns) <= 1


def test_a_pipe_and_no_color_have_no_colours(
    etharness: Callable[..., CommandResult], monkeypatch: pytest.MonkeyPatch
) -> None:
    def colours() -> list[str]:
        return re.findall(r"\x1b\[[\d;]*3\dm", etharness("check", ETDUMP).out)

    for name in ("FORCE_COLOR", "NO_COLOR"):
        monkeypatch.delenv(name, raising=False)
    assert "\x1b" not in etharness("check", ETDUMP).out
    monkeypatch.setenv("FORCE_COLOR", "1")
    monkeypatch.setenv("TERM", "xterm-256color")
    assert colours()
    monkeypatch.setenv("NO_COLOR", "1")
    assert not colours()
