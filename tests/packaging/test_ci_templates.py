"""The GitHub action and the GitLab component: their shell steps run, as CI systems run them."""

from __future__ import annotations

import json
import os
import re
import sqlite3
import subprocess
import sys
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest
import yaml

from tests.packaging.conftest import ROOT, Installed
from tests.support.workflow_steps import bash

# Jobs of GitHub Actions and GitLab, run here: their shell steps, in the environment these give.
EXPRESSION = re.compile(r"\$\{\{ *(.*?) *\}\}")
_NAME = re.compile(r"'[^']*'|\b[a-z]+(?:\.[\w-]+)+")


@dataclass
class CompositeAction:
    """A composite action whose shell steps are run; steps of other actions are only listed.

    Attributes:
        file: Its ``action.yml``.
        inputs: What a workflow gives it with ``with``.
        github: The context ``github``, by dotted names.
        folder: Where GitHub's files and the workspace are.
        variables: Variables of the runner's own environment.
        used: The other actions that it called, with what it gave them.
        printed: What its steps printed.
    """

    file: Path
    inputs: Mapping[str, str]
    github: Mapping[str, str]
    folder: Path
    variables: Mapping[str, str]
    used: dict[str, dict[str, str]] = field(default_factory=dict)
    printed: str = ""

    def run(self, only: str = "") -> int:
        """Run the steps until one fails, or only that of this name; return its exit code, or 0."""
        action = yaml.safe_load(self.file.read_text())
        (self.folder / "workspace").mkdir(parents=True, exist_ok=True)
        (self.folder / "temp").mkdir(exist_ok=True)
        names = {f"github.{name}": value for name, value in self.github.items()}
        names |= {"runner.temp": str(self.folder / "temp")}
        for name, given in action["inputs"].items():
            default = self.filled(given.get("default", ""), names)
            names[f"inputs.{name}"] = self.inputs.get(name, default)
        unknown = set(self.inputs) - set(action["inputs"])
        assert not unknown, unknown
        path = self.variables["PATH"]
        for number, step in enumerate(action["runs"]["steps"]):
            if only not in ("", step["name"]) or not _evaluate(step.get("if", "'true'"), names):
                continue
            if "uses" in step:
                given = step.get("with", {})
                self.used[step["uses"]] = {k: self.filled(v, names) for k, v in given.items()}
                continue
            assert "${{" not in step["run"], "an input could end a quotation"
            made = self._files(number)
            environment = {
                **self.variables,
                **{key: str(file) for key, file in made.items()},
                **{key: self.filled(value, names) for key, value in step.get("env", {}).items()},
                "PATH": path,
            }
            code, printed = _bash(step["run"], self.folder / "workspace", environment)
            self.printed += printed
            if code:
                return code
            added = made["GITHUB_PATH"].read_text().splitlines()
            path = os.pathsep.join([*reversed(added), path])
            for line in made["GITHUB_OUTPUT"].read_text().splitlines():
                name, _, value = line.partition("=")
                names[f"steps.{step['id']}.outputs.{name}"] = value
        return 0

    def _files(self, number: int) -> dict[str, Path]:
        """The files through which a step talks to GitHub, and the places it is told."""
        files = {}
        for name in ("PATH", "OUTPUT", "ENV"):
            files[f"GITHUB_{name}"] = self.folder / f"{name.lower()}-{number}"
            files[f"GITHUB_{name}"].touch()
        summary = self.folder / "step-summary.md"
        summary.touch()
        places = {"GITHUB_WORKSPACE": self.folder / "workspace"}
        return (
            files | places | {"GITHUB_STEP_SUMMARY": summary, "RUNNER_TEMP": self.folder / "temp"}
        )

    def filled(self, text: object, names: Mapping[str, str]) -> str:
        """Put values for the expressions in a text."""
        shown = str(text).lower() if isinstance(text, bool) else str(text)
        return EXPRESSION.sub(lambda found: str(_evaluate(found[1], names)), shown)


def _evaluate(expression: str, names: Mapping[str, str]) -> Any:
    """Evaluate names, ``'texts'``, ``==``, ``!=``, ``&&`` and ``||``; unknown names are empty."""

    def value(found: re.Match[str]) -> str:
        text = found[0]
        return repr(text[1:-1] if text.startswith("'") else names.get(text, ""))

    python = _NAME.sub(value, expression).replace("&&", " and ").replace("||", " or ")
    return eval(python, {"__builtins__": {}})  # an expression of our own file


def component_jobs(file: Path, inputs: Mapping[str, str]) -> Iterator[tuple[str, dict[str, Any]]]:
    """Yield name and definition of each job of a GitLab component, with inputs put in as text."""
    header, body = file.read_text().split("\n---\n")
    declared = yaml.safe_load(header)["spec"]["inputs"]
    assert not set(inputs) - set(declared)
    for name, about in declared.items():
        # GitLab puts inputs in before the shell sees anything, as an action's expressions are.
        body = body.replace(f"$[[ inputs.{name} ]]", inputs.get(name, about["default"]))
    assert "$[[" not in body
    yield from yaml.safe_load(body).items()


def run_job(job: Mapping[str, Any], folder: Path, variables: Mapping[str, str]) -> tuple[int, str]:
    """Run the scripts of a GitLab job in one shell; return exit code and output."""
    assert not any("$[[" in line for line in (*job["before_script"], *job["script"]))
    script = "\n".join([*job["before_script"], *job["script"]])
    environment = {**variables, **job["variables"], "CI_PROJECT_DIR": str(folder)}
    return _bash(script, folder, environment)


def _bash(script: str, folder: Path, variables: Mapping[str, str]) -> tuple[int, str]:
    done = bash(script, folder, variables, stderr=subprocess.STDOUT)
    return done.returncode, done.stdout


pytestmark = [pytest.mark.sim, pytest.mark.uncounted]

BUDGET = """
schema = 1
[[time]]
event = "Method::execute"
limit_us = 1
"""

GH = """#!{python}
import json, os, pathlib, subprocess, sys
kept = pathlib.Path({kept!r})
comments = json.loads(kept.read_text()) if kept.exists() else []
given = sys.argv[1:]
assert given[0] == "api", given
if "--method" not in given:
    page = json.dumps(comments)
    subprocess.run(["jq", "-r", given[given.index("--jq") + 1]], input=page, text=True, check=True)
    sys.exit()
if os.environ.get("GH_TOKEN") != "writes":
    sys.exit("HTTP 403: Resource not accessible by integration")
[field] = [text for text in given if text.startswith("body=@")]
body = pathlib.Path(field.removeprefix("body=@")).read_text()
method, where = given[given.index("--method") + 1 :][:2]
if method == "POST":
    assert where == "repos/us/models/issues/7/comments", where
    comments.append({{"id": len(comments) + 1, "user": {{"type": "Bot"}}, "body": body}})
else:
    number = int(where.removeprefix("repos/us/models/issues/comments/"))
    comments[number - 1]["body"] = body
kept.write_text(json.dumps(comments))
"""
"""Stands for GitHub's command ``gh``: keeps comments in a file, and filters as ``gh`` does."""


PYTHON = """#!/bin/sh
[ "$1 $2" = "-m venv" ] || exec {python} "$@"
mkdir -p "$3/bin"
printf '#!/bin/sh\n' > "$3/bin/pip"
chmod +x "$3/bin/pip"
"""
"""Stands for an environment in which pip has installed the product already: that is in PATH."""


@pytest.fixture
def variables(installed: Installed) -> dict[str, str]:
    """Environment of a runner; what the product needs is installed, the product itself is not."""
    [libraries] = (installed.directory.parent / "lib").glob("python*/site-packages")
    return {
        **installed.variables,
        "PATH": os.environ["PATH"],
        "PYTHONPATH": str(libraries),
        "PIP_NO_DEPS": "1",
        "PIP_IGNORE_INSTALLED": "1",
        "PIP_NO_INDEX": "1",
        "GITHUB_REPOSITORY": "us/models",
    }


@pytest.fixture
def ready(installed: Installed, tmp_path: Path) -> dict[str, str]:
    """The same where the product is installed: most tests are not about pip."""
    (programs := tmp_path / "programs").mkdir()
    write_program(programs / "python3", PYTHON.format(python=sys.executable))
    # Without packages of the system, none is looked for.
    write_program(programs / "apt-get", "#!/bin/sh\nexit 9\n")
    path = f"{programs}{os.pathsep}{installed.variables['PATH']}"
    return {**installed.variables, "PATH": path, "GITHUB_REPOSITORY": "us/models"}


def write_program(file: Path, text: str) -> None:
    file.write_text(text)
    file.chmod(0o755)


def action(
    wheel: Path, folder: Path, variables: dict[str, str], event: str, **inputs: str
) -> CompositeAction:
    github = {
        **{"job": "models", "event_name": event, "run_id": "11", "run_attempt": "1"},
        **{"ref_name": "main", "event.repository.default_branch": "main", "sha": "c0ffee"},
        **{"event.pull_request.number": "7", "token": "writes", "action_path": str(ROOT)},
    }
    given = {"package": str(wheel), **inputs}
    return CompositeAction(ROOT / "action.yml", given, github, folder, variables)


@pytest.mark.long
def test_the_action_runs_the_demo_and_keeps_its_history(
    wheel: Path, variables: dict[str, str], tmp_path: Path
) -> None:
    done = action(wheel, tmp_path / "push", variables, "push")
    assert done.run() == 0, done.printed
    summary = (tmp_path / "push/step-summary.md").read_text()
    assert summary.startswith("## PASS: kws\\_int8 on qemu-mps2-an385: ")
    assert summary == (tmp_path / "push/workspace/etharness-out/summary.md").read_text()
    made = {file.name for file in (tmp_path / "push/workspace/etharness-out").iterdir()}
    assert made == {"runs", "summary.md", "report.html", "junit.xml", "results.sarif"}
    history = tmp_path / "push/temp/etharness.sqlite"
    key = "etharness-models-qemu-mps2-an385/11-1"
    kept = tmp_path / "push/temp/etharness-baselines"
    assert done.used["actions/cache/save@v4"]["key"] == key
    for use in ("save", "restore"):
        paths = done.used[f"actions/cache/{use}@v4"]["path"]
        assert paths.split() == [str(history), str(kept)]
    assert len([*kept.glob("*.pte")]) == 1
    assert len([*kept.iterdir()]) == 2  # and the firmware that ran it
    assert done.used["actions/cache/restore@v4"]["restore-keys"] == key.removesuffix("11-1")
    assert done.used["actions/upload-artifact@v4"]["path"] == "etharness-out"
    with sqlite3.connect(history) as store:
        assert store.execute("select count(*) from result").fetchone() == (1,)


@pytest.mark.long
def test_the_action_fails_with_the_run_and_says_why_everywhere(
    wheel: Path, ready: dict[str, str], tmp_path: Path
) -> None:
    (tmp_path / "budget.toml").write_text(BUDGET)
    given = {
        **{"board": "native", "models": "kws_int8\nno-such-model $(touch injected)", "runs": "2"},
        **{"sarif": "true", "packages": "", "budget": str(tmp_path / "budget.toml")},
    }
    done = action(wheel, tmp_path / "job", ready, "pull_request", **given)
    assert done.run() == 1, done.printed
    assert "::error file=" in done.printed
    assert "no-such-model" in done.printed
    assert not [*tmp_path.rglob("injected")]
    summary = (tmp_path / "job/step-summary.md").read_text()
    assert summary.startswith("## FAIL: ")
    assert "B01 Method::execute" in summary.splitlines()[0]
    assert done.used["github/codeql-action/upload-sarif@v3"] == {
        "sarif_file": "etharness-out/results.sarif",
        "category": "etharness-models-native",
    }
    assert "actions/cache/save@v4" not in done.used


@pytest.mark.parametrize(("allowed", "message"), [("false", "board-code"), ("true", "status 3")])
def test_the_action_starts_programs_of_a_board_file_only_when_asked(
    allowed: str, message: str, wheel: Path, ready: dict[str, str], tmp_path: Path
) -> None:
    ran, board = tmp_path / "ran", tmp_path / "native.toml"
    script = f"touch {ran}; exit 3"
    target = f'kind = "command", time = "real", argv = ["sh", "-c", "{script}", "{{connect}}"]'
    text = (ROOT / "boards/native.toml").read_text().replace('kind = "native"', target)
    board.write_text(text.replace('budget = "budgets/default.toml"\n', ""))
    given = {"board": str(board), "models": "small_int8", "packages": "", "board-code": allowed}
    done = action(wheel, tmp_path / "job", ready, "push", **given)
    done.run(only="Run")
    assert message in done.printed
    assert ran.exists() is (allowed == "true")


def test_the_comment_is_written_once_and_then_replaced(
    wheel: Path, ready: dict[str, str], tmp_path: Path
) -> None:
    kept, marker = tmp_path / "comments.json", "<!-- etdump-harness: kws on native -->"
    write_program(tmp_path / "programs/gh", GH.format(python=sys.executable, kept=str(kept)))
    other = {"id": 1, "user": {"type": "User"}, "body": marker}
    kept.write_text(json.dumps([other]))
    summary = tmp_path / "job/workspace/etharness-out/summary.md"
    summary.parent.mkdir(parents=True)
    for text in ("first", "second"):
        summary.write_text(f"{text}\n\n{marker}\n")
        done = action(wheel, tmp_path / "job", ready, "pull_request", comment="true")
        assert done.run(only="Comment") == 0, done.printed
        # Somebody else's comment is left alone.
        theirs, own = json.loads(kept.read_text())
        assert theirs == other
        assert own["body"] == summary.read_text()
    readonly = action(wheel, tmp_path / "job", ready, "pull_request", comment="true", token="reads")
    assert readonly.run(only="Comment") == 0
    assert "::warning::the comment was not written" in readonly.printed
    push = action(wheel, tmp_path / "job", ready, "push", comment="true")
    assert (push.run(only="Comment"), push.printed) == (0, "")


@pytest.mark.long
def test_the_gitlab_component_runs_the_demo(
    wheel: Path, ready: dict[str, str], tmp_path: Path
) -> None:
    [(name, job)] = component_jobs(ROOT / "templates/etharness.yml", {"package": str(wheel)})
    assert name == "etharness"
    (project := tmp_path / "project").mkdir()
    code, printed = run_job(job, project, {**ready, "CI_COMMIT_SHA": "c0ffee"})
    assert code == 0, printed
    assert (project / "etharness-out/summary.md").read_text().startswith("## PASS: kws")
    assert (project / job["artifacts"]["reports"]["junit"]).read_text().startswith("<?xml")
    history, models = job["cache"]["paths"]
    assert (project / history).stat().st_size > 0
    assert len([*(project / models).glob("*.pte")]) == 1
