"""The action, the GitLab component and the examples, by the schemas of GitHub and GitLab."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
import yaml

pytestmark = pytest.mark.tools

ROOT = Path(__file__).parents[2]
EXAMPLES = ROOT / "docs/examples"
EXPRESSION = re.compile(r"\$\{\{|\$\[\[")


def problems(schema: str, file: Path) -> str:
    """What is wrong with a file; empty if nothing is. The schemas come with the tool."""
    program = [sys.executable, "-m", "check_jsonschema", "--builtin-schema", f"vendor.{schema}"]
    done = subprocess.run([*program, file], capture_output=True, text=True, check=False)
    return "" if done.returncode == 0 else done.stdout + done.stderr


def test_the_action_is_one(tmp_path: Path) -> None:
    assert problems("github-actions", ROOT / "action.yml") == ""
    broken = tmp_path / "action.yml"
    broken.write_text((ROOT / "action.yml").read_text().replace("using: composite", "using: shell"))
    assert problems("github-actions", broken) != ""


@pytest.mark.parametrize("file", sorted(EXAMPLES.glob("*.github.yml")), ids=lambda f: f.name)
def test_workflows_of_the_examples_are_valid(file: Path) -> None:
    assert problems("github-workflows", file) == ""


def test_the_gitlab_files_are_valid(tmp_path: Path) -> None:
    header, body = (ROOT / "templates/etharness.yml").read_text().split("\n---\n")
    parts = {"header.yml": header, "body.yml": body}
    for name, text in parts.items():
        (tmp_path / name).write_text(text)
        assert problems("gitlab-ci", tmp_path / name) == ""
    for file in EXAMPLES.glob("*.gitlab-ci.yml"):
        assert problems("gitlab-ci", file) == ""


def test_inputs_are_never_put_into_a_script() -> None:
    """A model called ``$(command)`` would run it."""
    action: Any = yaml.safe_load((ROOT / "action.yml").read_text())
    scripts = [step["run"] for step in action["runs"]["steps"] if "run" in step]
    assert len(scripts) > 3
    *_, jobs = yaml.safe_load_all((ROOT / "templates/etharness.yml").read_text())
    [job] = jobs.values()
    scripts += [*job["before_script"], *job["script"]]
    assert not [script for script in scripts if EXPRESSION.search(script)]


def test_the_examples_give_only_inputs_that_there_are() -> None:
    action: Any = yaml.safe_load((ROOT / "action.yml").read_text())
    workflow = yaml.safe_load((EXAMPLES / "check.github.yml").read_text())
    [*_, step] = workflow["jobs"]["models"]["steps"]
    assert set(step["with"]) <= set(action["inputs"])
    header, _ = yaml.safe_load_all((ROOT / "templates/etharness.yml").read_text())
    [include] = yaml.safe_load((EXAMPLES / "check.gitlab-ci.yml").read_text())["include"]
    assert set(include["inputs"]) <= set(header["spec"]["inputs"])
