"""A pytest within a test, with our plugin as an installed one would be."""

from __future__ import annotations

from pathlib import Path

import pytest

# An inner pytest in this process forgets what it imports, which NumPy does not survive.
import harness.pytest_plugin.running
import harness.report.terminal  # noqa: F401
from harness.target.build import build_root

PLUGIN = "harness.pytest_plugin"
BUILD_ROOT = build_root()
"""Found before ``pytester`` moves home, so that tests do not each build all firmware again."""


@pytest.fixture
def inner(pytester: pytest.Pytester, monkeypatch: pytest.MonkeyPatch) -> pytest.Pytester:
    """A directory to run pytest in, which knows no plugins but ours and pytest-xdist."""
    # By environment: an entry point in this environment, or none, then makes no difference.
    monkeypatch.setenv("PYTEST_DISABLE_PLUGIN_AUTOLOAD", "1")
    monkeypatch.setenv("PYTEST_PLUGINS", f"xdist.plugin,{PLUGIN}")
    monkeypatch.setenv("ETHARNESS_LOCK_DIR", str(pytester.path / "locks"))
    monkeypatch.setenv("ETHARNESS_BUILD_DIR", str(BUILD_ROOT))
    for name in (
        "CI",  # in which pytest writes its summary in full, and so some lines twice
        "BUILD_NUMBER",
        "PYTEST_ADDOPTS",
        "PYTEST_XDIST_WORKER",
        "PYTEST_XDIST_WORKER_COUNT",
        "ETHARNESS_SESSION",
    ):
        monkeypatch.delenv(name, raising=False)
    return pytester


def run_directories(base: Path) -> list[str]:
    """Names of the run directories that are kept below a ``--basetemp``."""
    return sorted(path.parent.name for path in base.glob("etharness/*/result.json"))
