"""Runs shell steps of a CI job as its runner does: by ``bash -e``, with the variables it sets."""

from __future__ import annotations

import os
import re
import subprocess
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

_EXPRESSION = re.compile(r"\$\{\{\s*(.*?)\s*\}\}")


@dataclass(frozen=True)
class ShellStep:
    """A step with a script.

    Attributes:
        name: Its title.
        script: What bash runs.
        variables: What it sets, for itself.
        folder: Where it runs, relative to the workspace.
    """

    name: str
    script: str
    variables: Mapping[str, str] = field(default_factory=dict)
    folder: str = "."

    def run(
        self, workspace: Path, variables: Mapping[str, str]
    ) -> subprocess.CompletedProcess[str]:
        """Run it with ``variables``; of the surroundings it has only these."""
        return bash(self.script, workspace / self.folder, {**variables, **self.variables})


def bash(
    script: str, folder: Path, variables: Mapping[str, str], stderr: int = subprocess.PIPE
) -> subprocess.CompletedProcess[str]:
    """Run a script as the runners of GitHub and GitLab do."""
    return subprocess.run(
        ["bash", "--noprofile", "--norc", "-eo", "pipefail", "-c", script],
        cwd=folder,
        env=dict(variables),
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=stderr,
        text=True,
        timeout=600,
        check=False,
    )


def shell_steps(steps: list[dict[str, Any]], values: Mapping[str, str]) -> Iterator[ShellStep]:
    """The steps with a script; ``values`` has the values of expressions, by their text.

    An expression within a script is refused: its value would become a part of the script.
    """
    for step in steps:
        if "run" not in step:
            continue
        if _EXPRESSION.search(step["run"]):
            raise ValueError(f"step {step['name']!r} has an expression in its script; use env:")
        variables = {
            name: _EXPRESSION.sub(lambda match: values[match[1]], str(value))
            for name, value in step.get("env", {}).items()
        }
        folder = step.get("working-directory", ".")
        yield ShellStep(step.get("name", ""), step["run"], variables, folder)


def stand_ins(folder: Path, *programs: str) -> str:
    """Programs that write their arguments to ``PROGRAM.calls`` in ``folder``; a PATH with them."""
    folder.mkdir(exist_ok=True)
    for program in programs:
        file = folder / program
        file.write_text(f'#!/bin/sh\nprintf "%s\\n" "$*" >> "{file}.calls"\n')
        file.chmod(0o755)
    return f"{folder}{os.pathsep}{os.environ['PATH']}"
