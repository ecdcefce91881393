"""What commands print on a terminal of 80 columns, of a run on the native board."""

from __future__ import annotations

import re
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

import harness
from tests.conftest import FIXTURES, MODELS, CommandResult

Etharness = Callable[..., CommandResult]
pytestmark = pytest.mark.sim
WIDTH = 80

COMMANDS = {
    "run": "run --board native --model kws_int8 --runs 3 -o {new}/run",
    "run -v": "run --board native --model kws_int8 -v -o {new}/run",
    "run --report": "run --board native --model kws_int8 --report {new}/r.html -o {new}/run",
    "run --budget": "run --board native --model kws_int8 --budget {budget} -o {new}/run",
    "decode": "decode {run}",
    "decode -v": "decode {run} -v",
    "decode --tree": "decode {run} --tree",
    "decode --memory": "decode {run} --memory --model {model} -v",
    "decode ED00": "decode {executorch}",
    "check": "check {run}",
    "check -v": "check {run} -v",
    "check --budget": "check {run} --budget {budget}",
    "check --baseline": "check {run} --history {history} --baseline last:2",
    "check --suggest": "check {run} --suggest {new}/budget.toml",
    "compare": "compare {run} {other}",
    "compare -v": "compare {run} {other} -v",
    "export": "export {run} -f perfetto -o {new}/x.pftrace",
    "report": "report {run} {other} -o {new}/r.html",
    "replay": "replay {bundle}",
    "inspect": "inspect {model}",
    "inspect --board": "inspect {model} --board native --board qemu-microbit -v",
    "boards": "boards",
    "doctor": "doctor",
    "doctor -v": "doctor -v",
    "build": "build --board native",
    "budget": "budget {budget} --board native --model {model}",
    "explain": "explain",
    "explain B01": "explain B01",
    "history list": "history list --history {history}",
    "history list -v": "history list --history {history} -v",
    "history show": "history show *conv2d* --history {history}",
    "history info": "history info --history {history}",
    "history baseline set": "history baseline set good --last 1 --board native --history {history}",
    "history baseline list": "history baseline list --history {history}",
    "lab units": "lab units --units {units}",
    "lab ports": "lab ports --units {units}",
    "lab who": "lab who",
    "flash --dry-run": "flash --board nucleo-f446re --image {image} --no-identity --dry-run",
}

PASTED = ("openocd", "st-flash", "probe-rs")
"""Commands that are printed in one line, to be pasted."""


UNITS = """schema = 1
[[unit]]
id = "bench-with-a-long-name-1"
board = "nucleo-h743zi"
port = { vid = 0x0483, pid = 0x374e, serial = "0024001E3532511131333430", interface = 2 }
power = { kind = "usb-hub", hub = "1-4", port = 3 }
note = "beside the window, with a cable that was replaced in spring and again in autumn"
"""


def call(*arguments: object) -> None:
    subprocess.run([sys.executable, "-m", "harness", *map(str, arguments)], check=True)


@pytest.fixture(scope="module")
def files(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    """Files of the commands, in a folder whose path is as long as a line."""
    folder = tmp_path_factory.mktemp("a_folder_with_a_name_that_is_as_long_as_a_line_of_a_terminal")
    names = ("run", "other", "history", "bundle.zip", "budget.toml", "units.toml", "image.hex")
    found = {name.split(".")[0]: folder / name for name in names}
    for name in ("run", "other"):
        harness.run(MODELS / "kws_int8.pte", board="native", runs=3, output=found[name])
    call("history", "add", found["run"], found["other"], "--history", found["history"], "-q")
    call("check", found["run"], "--report", found["bundle"], "-q")
    rule = "event = 'native_call_quantized_*conv2d.out'"
    found["budget"].write_text(f"schema = 1\n[[time]]\n{rule}\nlimit_us = 0.001\n")
    found["units"].write_text(UNITS)
    found["image"].write_text(":10000000" + "00" * 16 + "F0\n:00000001FF\n")
    known = {"model": MODELS / "kws_int8.pte", "executorch": FIXTURES / "kws_f32_executorch.etdp"}
    return found | known


@pytest.mark.parametrize("name", COMMANDS)
def test_no_line_is_wider_than_a_terminal_of_80_columns(
    name: str,
    files: dict[str, Path],
    etharness: Etharness,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv("ETHARNESS_LOCK_DIR", str(tmp_path / "locks"))
    # What makes rich take standard output for a terminal of this width, without colours.
    for variable, value in {"FORCE_COLOR": "1", "NO_COLOR": "1", "COLUMNS": str(WIDTH)}.items():
        monkeypatch.setenv(variable, value)
    code, out, err = etharness(
        *(word.format(**files, new=tmp_path) for word in COMMANDS[name].split())
    )
    assert code in (0, 1), err
    lines = re.sub(r"\x1b\[[0-9;?]*[a-zA-Z]", "", out).splitlines()
    assert any(lines)
    wide = [line.split() for line in lines if len(line.rstrip()) > WIDTH]
    # A path stays whole, on a line of its own, to be copied.
    assert [words for words in wide if len(words) > 1 and Path(words[0]).name not in PASTED] == []
    assert all("/" in " ".join(words) for words in wide)


def test_the_verdict_is_the_last_line_and_progress_is_no_part_of_the_output(
    files: dict[str, Path], etharness: Etharness
) -> None:
    code, out, err = etharness("check", files["run"], "--budget", files["budget"])
    assert (code, err) == (1, "")
    lines = out.splitlines()
    assert re.fullmatch(r"FAIL: 9 of \d+ checks failed(, \d+ \w+)*", lines[-1])
    assert [line[:11] for line in lines[-10:-1]] == ["failed: B01"] * 9


def test_a_pipe_is_never_cut(
    files: dict[str, Path], etharness: Etharness, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("FORCE_COLOR", raising=False)
    monkeypatch.setenv("COLUMNS", "40")  # as Python's readline sets it for its children
    out = etharness("decode", files["run"], "-v").out
    assert max(map(len, out.splitlines())) > WIDTH
    assert "not shown" not in out
    assert "native_call_quantized_depthwise_conv2d.out" in out


@pytest.mark.parametrize("name", ["decode", "decode --tree", "compare"])
def test_tables_have_the_same_layout_in_a_pipe_as_on_a_terminal(
    name: str, files: dict[str, Path], etharness: Etharness, monkeypatch: pytest.MonkeyPatch
) -> None:
    words = COMMANDS[name].format(**files).split()
    monkeypatch.delenv("FORCE_COLOR", raising=False)
    piped = etharness(*words).out.splitlines()
    for variable, value in {"FORCE_COLOR": "1", "NO_COLOR": "1", "COLUMNS": str(WIDTH)}.items():
        monkeypatch.setenv(variable, value)
    shown = re.sub(r"\x1b\[[0-9;?]*[a-zA-Z]", "", etharness(*words).out).splitlines()
    # A sentence is one line in a pipe, and folded on a terminal.
    sentences = [line for line in piped if len(line) > WIDTH]
    assert all(re.match(r"clock |  |Why", line) for line in sentences)
    rest = iter(shown)
    for line in piped:
        assert line in sentences or line in rest
