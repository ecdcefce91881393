"""One place prints, and what it prints is inert."""

from __future__ import annotations

import ast
import json
import logging
import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

import harness
from harness import UsageError
from harness.cli import cli
from tests.conftest import CommandResult

PACKAGE = Path(harness.__file__).parent
PRINTERS = {
    "printing.py": "the printer of text and documents",
    "report/terminal.py": "the printer of lines and tables with styles",
    "report/description.py": "a console that collects text",
    "__main__.py": "may be unable to import the printer",
}


def prints(node: ast.AST) -> bool:
    """Whether a node writes to standard output or standard error, or opens a console on one."""
    if isinstance(node, ast.Call):
        function = ast.unparse(node.func)
        return function in ("print", "click.echo", "click.secho", "Console", "rich.print") or (
            function.endswith(("stdout.write", "stderr.write", "traceback.print_exc"))
        )
    return False


def test_one_place_prints() -> None:
    others = [
        f"{path.relative_to(PACKAGE)}:{node.lineno}"  # type: ignore[attr-defined]
        for path in PACKAGE.rglob("*.py")
        if path.relative_to(PACKAGE).as_posix() not in PRINTERS
        for node in ast.walk(ast.parse(path.read_text("utf-8")))
        if prints(node)
    ]
    assert others == []


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("::error::a", r"\x3a:error::a"),
        ("a\n  ::add-mask::b", "a\n  \\x3a:add-mask::b"),
        ("aten::add ::error::a", "aten::add ::error::a"),
        (":: a", ":: a"),
        ("a ##[group]b ###vso[c] ##teamcity[d]", r"a \x23#[group]b #\x23#vso[c] \x23#teamcity[d]"),
        ("# a ## b [c]", "# a ## b [c]"),
    ],
)
def test_commands_of_ci_systems_become_text(
    text: str, shown: str, fails_with: Callable[[str], list[str]]
) -> None:
    assert fails_with(f"x\n{text}") == ["error: x", *(f"    {line}" for line in shown.split("\n"))]


@pytest.fixture
def fails_with(
    etharness: Callable[..., CommandResult], monkeypatch: pytest.MonkeyPatch
) -> Callable[[str], list[str]]:
    """What a command prints that fails with some message."""

    def call(message: str) -> list[str]:
        def fail(**_: object) -> None:
            raise UsageError(message)

        command = cli.get_command(None, "boards")  # type: ignore[arg-type]
        assert command is not None
        monkeypatch.setattr(command, "callback", fail)
        code, out, err = etharness("boards")
        assert (code, out) == (2, "")
        return err.splitlines()

    return call


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(
    text=st.text(st.characters(exclude_categories=["Cs"]), min_size=1)
    | st.sampled_from(["##[a]", "###vso[", "\x9b\U000e0001", "\u202e", "\x7f"])
)
def test_a_document_is_printed_without_loss(
    etharness: Callable[..., CommandResult], tmp_path: Path, text: str
) -> None:
    file = tmp_path / "budget.toml"
    event = json.dumps(text, ensure_ascii=False).replace("\x7f", r"\u007f")
    file.write_text(f"schema = 1\n[[time]]\nevent = {event}\nlimit_us = 1\n", "utf-8")
    out = etharness("budget", file, "--board", "native", "--model", "x", "--json").out
    assert [item["value"] for item in json.loads(out) if item["field"] == "event"] == [text]
    assert out.replace("\n", "").isprintable()
    assert "##[" not in out
    assert "##vso[" not in out


def test_lines_of_a_tool_are_indented(fails_with: Callable[[str], list[str]]) -> None:
    assert fails_with("it says\r\n::a::\tb\n\n\x1b[1m") == [
        "error: it says",
        r"    \x3a:a::   b",
        "",
        r"    \x1b[1m",
    ]


def test_logged_texts_are_inert() -> None:
    program = (
        "import logging\n"
        "from harness.cli import main, setup\n"
        "def warn():\n"
        "    try:\n"
        "        raise ValueError('\\x1b[2J\\n::error::')\n"
        "    except ValueError:\n"
        "        log = logging.getLogger('harness')\n"
        "        log.warning('it says %s', 'a\\n::error::b\\x9b', exc_info=True)\n"
        "    return []\n"
        "setup.board_names = warn\n"
        "main(['boards'])\n"
    )
    done = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, check=True
    )
    lines = done.stderr.splitlines()
    assert lines[0] == "WARNING harness: it says a"
    assert lines[1] == r"    \x3a:error::b\x9b"
    assert lines[-1] == r"    \x3a:error::"
    assert all(line.isprintable() for line in lines)


def test_a_defect_in_a_thread_cannot_act(tmp_path: Path) -> None:
    program = (
        "import threading, harness.cli as cli\n"
        "def fail(): raise ValueError('\\x1b[2J\\n::error::')\n"
        "def run(*_, **__): t = threading.Thread(target=fail); t.start(); t.join()\n"
        "cli.cli.main = run; cli.main([])\n"
    )
    done = subprocess.run(
        [sys.executable, "-c", program],
        env={**os.environ, "TMPDIR": str(tmp_path)},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0
    first, second, hint = done.stderr.splitlines()
    assert first == r"error: a defect of etharness: ValueError: \x1b[2J"
    assert second == r"    \x3a:error:: (<string>:2)"
    assert "with the traceback in" in hint


@pytest.mark.parametrize("verbose", [False, True])
def test_a_defect_is_no_failed_check(
    etharness: Callable[..., CommandResult],
    monkeypatch: pytest.MonkeyPatch,
    caplog: pytest.LogCaptureFixture,
    tmp_path: Path,
    verbose: bool,
) -> None:
    def fail(**_: object) -> None:
        raise ZeroDivisionError("of \x1b[2J\n::error::")

    command = cli.get_command(None, "boards")  # type: ignore[arg-type]
    assert command is not None
    monkeypatch.setattr(command, "callback", fail)
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    caplog.set_level(logging.INFO if verbose else logging.WARNING)
    code, out, err = etharness("boards")
    assert (code, out) == (70, "")
    [kept] = tmp_path.iterdir()
    assert "ZeroDivisionError: of \x1b[2J\n::error::" in kept.read_text()
    assert err.splitlines()[-3:] == [
        r"error: a defect of etharness: ZeroDivisionError: of \x1b[2J",
        f"    \\x3a:error:: ({Path(__file__).name}:{fail.__code__.co_firstlineno + 1})",
        f"  try: report it to the project, with the traceback in {kept}",
    ]
    assert ("Traceback" in err) is verbose
    assert "\x1b" not in err
