"""The settings of a run mean the same on the command line, in Python, in a plan and in a test."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import typing
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

import harness

ROOT = Path(__file__).parents[2]

KEYWORDS = set(typing.get_args(typing.get_type_hints(harness.run)["options"])[0].__annotations__)

OF_PLANS = {"unit", "units", "port", "output", "history", "baseline", "image", "live"}
"""Settings that other keys of a plan and options of `nightly` say, and what only a person watches;
the rest is in [run]."""

OF_SESSIONS = {"unit", "units", "port", "output", "history", "baseline", "live"}
"""Settings that the command line of pytest says, or only a person needs; the rest is in the
marker."""

OPTIONS = {
    "runs": 2,
    "seed": 5,
    "profile": "method",
    "values": "outputs",
    "trace_limit": 8192,
    "when_full": "drop-oldest",
    "placed": True,
    "rtol": 0.5,
    "time_scales": {"npu*": "100 MHz"},
    "session": "tuesday",
    "commit": "4f1c9a2",
}
WORDS = [
    *("--runs=2", "--seed=5", "--profile=method", "--values=outputs", "--trace-limit=8192"),
    *("--when-full=drop-oldest", "--placed", "--rtol=0.5", "--time-scale=npu*=100 MHz"),
    *("--session=tuesday", "--commit=4f1c9a2"),
]


def recorded(directory: Path) -> dict[str, Any]:
    """Return what a result says of the settings of its run."""
    result = json.loads((directory / "result.json").read_text())
    names = ("settings", "runs_requested", "runs_completed", "seed", "session", "commit")
    return {**{name: result[name] for name in names}, "method": result["model"]["method"]}


def plan_of(options: dict[str, Any]) -> str:
    """Return a plan with one run."""
    text = 'schema = 1\noutput = "night"\n[[board]]\nboard = "native"\ncount = 1\n'
    text += '[[model]]\nfile = "m.pte"\n[run]\n'
    for name, value in options.items():
        pairs = value.items() if isinstance(value, dict) else ()
        inner = ", ".join(f"{json.dumps(key)} = {json.dumps(rate)}" for key, rate in pairs)
        text += f"{name} = {f'{{ {inner} }}' if pairs else json.dumps(value)}\n"
    return text


@pytest.mark.extension("lab")
@pytest.mark.long
def test_settings_mean_the_same_everywhere(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, etharness: Callable[..., Any]
) -> None:
    monkeypatch.chdir(tmp_path)
    model = ROOT / "firmware_stub/models/small_int8.pte"
    Path("m.pte").write_bytes(model.read_bytes())

    options: Any = OPTIONS
    run = harness.run("m.pte", board="native", output="api", **options)
    said = recorded(Path("api"))
    assert (said["runs_completed"], said["session"], said["commit"]) == (2, "tuesday", "4f1c9a2")
    assert run.result is not None
    assert run.result.settings is not None
    assert run.result.settings.placed

    assert etharness("run", "--board=native", "--model=m.pte", "-o", "cli", *WORDS).code == 0
    assert recorded(Path("cli")) == said

    Path("plan.toml").write_text(plan_of(OPTIONS))
    assert etharness("nightly", "plan.toml").code == 0
    [night] = Path("night").rglob("result.json")
    assert recorded(night.parent) == said

    marked = ", ".join(f"{name}={value!r}" for name, value in OPTIONS.items())
    Path("test_it.py").write_text(
        f"import pytest\n@pytest.mark.etharness(board='native', model='m.pte', {marked})\n"
        "def test_it(etharness_run):\n    print(etharness_run.directory)\n"
    )
    environment = {**os.environ, "PYTHONPATH": str(ROOT)}
    words = ["-q", "-p", "no:cacheprovider", "--etharness-keep", "--basetemp=tests", "test_it.py"]
    done = subprocess.run(
        [sys.executable, "-m", "pytest", *words], env=environment, capture_output=True, check=False
    )
    assert done.returncode == 0, done.stdout.decode()
    [tested] = Path("tests/etharness").glob("*/result.json")
    assert recorded(tested.parent) == said


def test_the_command_line_has_every_keyword(etharness: Callable[..., Any]) -> None:
    text = etharness("run", "--help").out
    once = {"inputs": "--input", "references": "--reference", "time_scales": "--time-scale"}
    options = {once.get(name, f"--{name.replace('_', '-')}") for name in KEYWORDS - {"progress"}}
    assert [option for option in options if f"{option} " not in text.replace("\n", " ")] == []


def test_a_plan_has_every_setting_of_a_run() -> None:
    schema = json.loads((ROOT / "schema/nightly-plan.schema.json").read_text())
    of_runs = set(schema["$defs"]["PlannedRun"]["properties"])
    assert of_runs == KEYWORDS - OF_PLANS - {"progress"}
    of_models = set(schema["$defs"]["PlannedModel"]["properties"])
    assert of_models - of_runs == {"file", "boards"}


def test_a_marker_has_every_setting_of_a_run(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    Path("test_it.py").write_text(
        "import pytest\n@pytest.mark.etharness(run=3)\ndef test_it(etharness_run): ...\n"
    )
    words = ["-q", "-p", "no:cacheprovider", "test_it.py"]
    environment = {**os.environ, "PYTHONPATH": str(ROOT), "COLUMNS": "2000"}
    done = subprocess.run(
        [sys.executable, "-m", "pytest", *words],
        env=environment,
        capture_output=True,
        check=False,
        text=True,
    )
    assert "wrong arguments of the marker etharness: unknown: run" in done.stdout
    [line] = [line for line in done.stdout.splitlines() if "try: " in line]
    named = {name.strip() for name in line.partition("try: ")[2].split(",")}
    assert named == KEYWORDS - OF_SESSIONS - {"progress"} | {"board", "model", "exclude"}


@pytest.mark.extension("exports")
@pytest.mark.parametrize(
    ("words", "message"),
    [
        (("--live=live.pftrace",), "--live requires --stream\n  try: add --stream"),
        (("--live=no/live.pftrace", "--stream"), "no/live.pftrace: No such file or directory"),
    ],
)
def test_a_live_trace_needs_a_streamed_log_and_a_place(
    words: tuple[str, ...],
    message: str,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    etharness: Callable[..., Any],
) -> None:
    monkeypatch.chdir(tmp_path)
    done = etharness("run", "--board=native", "--model=kws_int8", "-o", "out", *words)
    assert (done.code, message in done.err) == (2, True), done.err


def test_what_is_not_declared_is_refused_in_python() -> None:
    options: Any = {"reports": ["x.html"]}
    with pytest.raises(harness.HarnessError, match="a run has no option reports"):
        harness.run("kws_int8", board="native", **options)


def test_a_project_has_defaults_for_board_budget_and_history(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, etharness: Callable[..., Any]
) -> None:
    monkeypatch.chdir(tmp_path)
    Path("pyproject.toml").write_text("[tool.etharness]\nruns = 3\n")
    done = etharness("run", "--board=native", "--model=kws_int8", "-o", "out")
    assert done.code == 2
    assert "pyproject.toml:2:1: unknown key 'runs' in [tool.etharness]" in done.err
    assert "known keys: board, budget, history, models" in done.err
