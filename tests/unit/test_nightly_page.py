"""docs/nightly.md and its examples: the plan is one, the files parse, the commands are there."""

from __future__ import annotations

import configparser
import json
import re
import shlex
import tomllib
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import jsonschema
import numpy as np
import pytest
import yaml

from harness.extensions.lab.nightly.night import prepare
from harness.extensions.lab.nightly.verdict import load_quarantine
from harness.records.nightly import EXIT_CODES
from tests.conftest import ROOT, CommandResult
from tests.support.nights import written_plan

DOCS = Path(__file__).parents[2] / "docs"
PAGE = (DOCS / "nightly.md").read_text()
FILES = dict(re.findall(r"^```toml file=(\S+)\n(.*?)^```", PAGE, re.MULTILINE | re.DOTALL))
SCHEMA = ROOT / "schema"


@pytest.fixture
def plan(tmp_path: Path) -> Path:
    """The page's plan, with everything that it names."""
    models = ("small_int8", "functions")
    for folder in ("models", "branch"):
        written_plan(tmp_path / folder, models=models)
    for name, text in FILES.items():
        (tmp_path / name).write_text(text)
    np.save(tmp_path / "models/input.npy", np.zeros(1, np.float32))
    (tmp_path / "budget.toml").write_text("schema = 1\n")
    (tmp_path / "units.toml").write_text(
        'schema = 1\n[[unit]]\nid = "native-a"\nboard = "native"\nfixtures = ["loopback"]\n'
    )
    return tmp_path / "plan.toml"


@pytest.mark.parametrize(
    ("file", "schema"), [("plan.toml", "nightly-plan"), ("quarantine.toml", "quarantine")]
)
def test_every_file_follows_its_schema(file: str, schema: str) -> None:
    document = json.loads(json.dumps(tomllib.loads(FILES[file]), default=str))
    found = json.loads((SCHEMA / f"{schema}.schema.json").read_text())
    jsonschema.validate(document, found, cls=jsonschema.Draft202012Validator)


def test_the_plan_means_what_the_page_says(plan: Path) -> None:
    prepared = prepare(plan, plan.parent / "units.toml")
    assert [unit.id for unit in prepared.units] == [
        *("qemu-mps2-an385-1", "qemu-mps2-an385-2", "native-a")
    ]
    of_native = {step.model for step in prepared.steps["native-a"]}
    assert of_native == {"small_int8", "features"}
    assert len(prepared.all_steps) == 10 * 2 * (2 + 2)
    _, [(entry, line)] = load_quarantine(plan.parent / "quarantine.toml")
    assert entry.reprove == 20
    assert line == 3


def test_the_page_has_every_exit_code() -> None:
    rows = re.findall(r"^\| (\w+) \|.*\| (\d+) \|$", PAGE, re.MULTILINE)
    assert rows == [(str(owner), str(code)) for owner, code in EXIT_CODES.items()]


def commands() -> Iterator[str]:
    """Every command line of ours, on the page and in the examples."""
    yield from re.findall(r"^(etharness nightly[^#\n]*)", PAGE, re.MULTILINE)
    for file in (DOCS / "examples").iterdir():
        yield from re.findall(r"(etharness nightly .*)$", file.read_text(), re.MULTILINE)


@pytest.mark.parametrize("line", sorted(set(commands())))
def test_every_command_is_one(
    line: str, plan: Path, etharness: Callable[..., CommandResult], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(plan.parent)
    arguments = shlex.split(line)[1:]
    arguments = [plan.name if a in ("plan.toml", "PLAN.toml") else a for a in arguments]
    arguments = ["native-*/small*" if a == "h743-*/kws*" else a for a in arguments]
    if "--dry-run" not in arguments:
        arguments.append("--dry-run")
    said = etharness(*arguments)
    assert said.code == 0, said.err


@pytest.mark.parametrize("name", ["nightly.github.yml", "nightly.gitlab-ci.yml"])
def test_the_pipelines_are_yaml(name: str) -> None:
    document = yaml.safe_load((DOCS / "examples" / name).read_text())
    job = document["jobs"]["nightly"] if "jobs" in document else document["nightly"]
    steps = [step.get("run", "") for step in job["steps"]] if "steps" in job else job["script"]
    assert any("etharness nightly" in step for step in steps)
    if "allow_failure" in job:
        ours = {code for owner, code in EXIT_CODES.items() if owner not in ("product", "test")}
        assert set(job["allow_failure"]["exit_codes"]) == ours


def test_the_units_of_systemd_have_what_they_need() -> None:
    def read(name: str) -> Any:
        parser = configparser.ConfigParser(strict=False, interpolation=None)
        parser.optionxform = str  # type: ignore[method-assign, assignment]
        parser.read(DOCS / "examples" / name)
        return parser

    service = read("etharness-nightly.service")["Service"]
    assert service["Type"] == "oneshot"
    assert "etharness nightly plan.toml" in service["ExecStart"]
    timer = read("etharness-nightly.timer")["Timer"]
    assert timer["Persistent"] == "true"
