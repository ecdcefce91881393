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
from harness.cli import cli
from harness.printing import LogFormatter, message_lines, print_document, without_commands
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
def test_commands_of_ci_systems_become_text(text: str, shown: str) -> None:
    assert without_commands(text) == shown


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(
    text=st.text(st.characters(exclude_categories=["Cs"]))
    | st.sampled_from(["##[a]", "###vso[", "\x9b\U000e0001", "\u202e", "\x7f"])
)
def test_a_document_is_printed_without_loss(capfd: pytest.CaptureFixture[str], text: str) -> None:
    print_document(json.dumps({"name": text}, ensure_ascii=False).encode())
    out = capfd.readouterr().out
    assert json.loads(out) == {"name": text}
    assert out.replace("\n", "").isprintable()
    assert "##[" not in out
    assert "##vso[" not in out


def test_lines_of_a_tool_are_indented() -> None:
    assert message_lines("it says\r\n::a::\tb\n\n\x1b[1m") == [
        "it says",
        "    ::a::   b",
        "",
        r"    \x1b[1m",
    ]


def test_logged_texts_are_inert() -> None:
    try:
        raise ValueError("\x1b[2J\n::error::")
    except ValueError as error:
        record = logging.LogRecord(
            *("harness", logging.WARNING, "a.py", 1, "it says %s", ("a\n::error::b\x9b",)),
            (type(error), error, error.__traceback__),
        )
    lines = LogFormatter("%(levelname)s %(message)s").format(record).split("\n")
    assert lines[0] == "WARNING it says a"
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
