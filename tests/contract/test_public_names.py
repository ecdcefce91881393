"""The contract suite knows public names only, so that everything behind them can change."""

from __future__ import annotations

import ast
from pathlib import Path

import pytest

PUBLIC = {
    "harness",
    "harness.inspector",
    "harness.pytest_plugin",
    "harness.strategies",
    "harness.testing",
}
MODULES = sorted(Path(__file__).parent.rglob("*.py"))


@pytest.mark.parametrize("module", MODULES, ids=lambda path: path.stem)
def test_a_contract_imports_public_names_only(module: Path) -> None:
    imported = set()
    for node in ast.walk(ast.parse(module.read_text("utf-8"))):
        if isinstance(node, ast.ImportFrom):
            imported.add(node.module or "")
        elif isinstance(node, ast.Import):
            imported.update(alias.name for alias in node.names)
    internal = {name for name in imported if name.split(".")[0] == "harness"} - PUBLIC
    # Helpers of other tests import what they like, so a contract has its own.
    internal |= {
        name
        for name in imported
        if name.split(".")[0] == "tests" and not name.startswith("tests.contract")
    }
    assert internal == set()
