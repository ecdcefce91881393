"""Runs shell steps of a CI job as its runner does: by ``bash -e``, with the variables it sets."""

from __future__ import annotations

import re
import subprocess
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path

EXPRESSION = re.compile(r"\$\{\{\s*(.*?)\s*\}\}")


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
