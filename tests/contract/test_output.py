"""What the command line prints: nothing in it acts on a terminal or on a CI system."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, example, given, settings
from hypothesis import strategies as st

Etharness = Callable[..., Any]

MODELS = Path(__file__).parents[2] / "firmware_stub/models"
COMMANDS = ["::error file=a.c::no", "::stop-commands::x", "##[error]no", "##vso[task.complete]"]
CONTROLS = [
    "\x1b[2J\x1b]0;title\x07",
    "\x9b31m",
    "\u202egnp.exe",
    "\udcff",
    "\r\n",
    "\u2028",
    "\x7f",
]
TEXTS = st.lists(
    st.sampled_from([*COMMANDS, *CONTROLS, "\n", "\n  ", "\t", " ", "error: ", "#", ":"])
    | st.text(st.characters(exclude_characters="\0/", exclude_categories=[]), max_size=3),
    min_size=1,
    max_size=6,
).map("".join)


def acts(line: str) -> bool:
    """Whether GitHub's runner or Azure's agent may find a command in a line."""
    return bool(re.match(r"\s*::\S.*::|.*##(\[|vso\[)", line))


def check_inert(text: str) -> None:
    """Check that text has printable lines only, none of them a command of a CI system."""
    for line in text.splitlines():
        assert line.isprintable()
        assert not acts(line)


@pytest.mark.attack(
    "Texts", "terminal escapes and commands of CI systems in an error message", "printed as text"
)
@settings(suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(text=TEXTS)
@example("a\n::error::b\n \t::stop-commands::c ##[group]d ##vso[e]")
@example("\x1b[2J\x9b\udc80\u202e\r")
def test_an_error_cannot_act(etharness: Etharness, text: str) -> None:
    code, out, err = etharness("decode", f"no such file {text}")
    assert (code, out) == (2, "")
    check_inert(err)
    first, *others = err.removesuffix("\n").split("\n")
    assert first.startswith("error: ")
    assert all(not line or line.startswith("  ") for line in others), (
        "only our own line begins a message"
    )


@pytest.fixture
def hostile_model(tmp_path: Path) -> Callable[[bytes], Path]:
    """Make a model with an operator of this name, ten bytes long."""

    def make(name: bytes) -> Path:
        data = (MODELS / "kws_f32.pte").read_bytes()
        assert data.count(b"aten::relu") == 1
        model = tmp_path / "hostile.pte"
        model.write_bytes(data.replace(b"aten::relu", name))
        return model

    return make


@pytest.mark.parametrize(
    "name",
    [b"##[group]x", b"::error::x", b"\x1b[2J\x1b]0;ab", b"\xc2\x9b31m\xe2\x80\xaeab", b"\xff" * 10],
)
def test_a_document_cannot_act_and_keeps_its_texts(
    etharness: Etharness, hostile_model: Callable[[bytes], Path], name: bytes
) -> None:
    model = hostile_model(name)
    code, out, err = etharness("inspect", model, "--json")
    assert (code, err) == (0, "")
    check_inert(out)
    operators = [entry["operator"] for entry in json.loads(out)["methods"][0]["operators"]]
    assert f"{name.decode(errors='backslashreplace')}.out" in operators
    code, out, err = etharness("inspect", model)
    check_inert(out)
    check_inert(err)


@pytest.mark.extension("ci")
def test_an_annotation_is_a_command_on_purpose(etharness: Etharness, tmp_path: Path) -> None:
    trace = Path(__file__).parents[1] / "fixtures/kws_f32_executorch.etdp"
    budget = tmp_path / "budget.toml"
    budget.write_text(
        'schema = 1\n[[time]]\nevent = "Method::execute"\nstatistic = "p50"\nlimit_us = 0.001\n'
    )
    code, out, _ = etharness("check", trace, "--budget", budget, "--annotations", "github")
    assert code == 1
    assert [line for line in out.splitlines() if line.startswith("::error file=")]


def etharness_into(stream: int, *arguments: str, error: bool = False) -> int:
    """Run the command line with its output into a stream; return how it ended."""
    outputs = (
        {"stdout": subprocess.DEVNULL, "stderr": stream}
        if error
        else {"stdout": stream, "stderr": subprocess.DEVNULL}
    )
    command = [sys.executable, "-m", "harness", *arguments]
    return subprocess.run(command, check=False, stdin=subprocess.DEVNULL, **outputs).returncode  # type: ignore[call-overload, no-any-return]


@pytest.mark.skipif(sys.platform == "win32", reason="SIGPIPE")
@pytest.mark.parametrize(
    ("arguments", "error"),
    [
        (("boards",), False),
        (("boards", "--json"), False),
        (("explain", "clocks"), False),
        (("--help",), False),
        (("--version",), False),
        (("run", "--help"), False),
        (("completion", "bash"), False),
        (("decode", "no such file"), True),
        (("decode",), True),
        ((), True),
    ],
)
def test_output_that_nobody_reads_ends_the_command_by_sigpipe(
    arguments: tuple[str, ...], error: bool
) -> None:
    reading, writing = os.pipe()
    os.close(reading)
    try:
        ended = etharness_into(writing, *arguments, error=error)
    finally:
        os.close(writing)
    assert ended == -13  # SIGPIPE


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="/dev/full")
@pytest.mark.parametrize("arguments", [("boards",), ("boards", "--json"), ("--help",)])
def test_output_onto_a_full_disk_is_a_failure_of_the_host(arguments: tuple[str, ...]) -> None:
    with Path("/dev/full").open("wb") as full:
        assert etharness_into(full.fileno(), *arguments) == 75
