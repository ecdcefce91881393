"""Jobs of GitHub Actions and GitLab, run here: their shell steps, in the environment these give."""

from __future__ import annotations

import os
import re
import subprocess
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import yaml

from tests.support.workflow_steps import bash

_EXPRESSION = re.compile(r"\$\{\{ *(.*?) *\}\}")
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
        return _EXPRESSION.sub(lambda found: str(_evaluate(found[1], names)), shown)


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
