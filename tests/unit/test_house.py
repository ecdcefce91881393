"""The house: no circles, public classes of different names, and a true map for newcomers."""

from __future__ import annotations

import ast
import re
from collections import Counter
from collections.abc import Iterator
from graphlib import TopologicalSorter
from pathlib import Path

ROOT = Path(__file__).parents[2]

MODULES = {
    ".".join(path.relative_to(ROOT).with_suffix("").parts).removesuffix(".__init__"): path
    for path in (ROOT / "harness").rglob("*.py")
}


def imported_at_once(body: list[ast.stmt]) -> Iterator[ast.Import | ast.ImportFrom]:
    """Imports that run when a module is imported."""
    for statement in body:
        if isinstance(statement, ast.Import | ast.ImportFrom):
            yield statement
        elif isinstance(statement, ast.If | ast.Try):
            test = ast.dump(statement.test) if isinstance(statement, ast.If) else ""
            yield from () if "TYPE_CHECKING" in test else imported_at_once(statement.body)


def needs(name: str) -> set[str]:
    """Modules of ours that a module imports at once."""
    found = set()
    for statement in imported_at_once(ast.parse(MODULES[name].read_text()).body):
        if isinstance(statement, ast.Import):
            found |= {alias.name for alias in statement.names}
        elif statement.module:
            members = {f"{statement.module}.{alias.name}" for alias in statement.names}
            found |= {member if member in MODULES else statement.module for member in members}
    return {other for other in found if other in MODULES and other != name}


def test_no_modules_import_each_other_in_a_circle() -> None:
    graph = {name: needs(name) for name in MODULES}
    assert sum(map(len, graph.values())) > len(graph)
    list(TopologicalSorter(graph).static_order())  # raises CycleError, and names the circle


def test_every_public_class_has_a_name_of_its_own() -> None:
    names = Counter(
        node.name
        for path in MODULES.values()
        for node in ast.walk(ast.parse(path.read_text()))
        if isinstance(node, ast.ClassDef) and not node.name.startswith("_")
    )
    assert len(names) > 400
    assert [name for name, count in names.items() if count > 1] == []


def test_newcomers_are_sent_to_files_that_exist() -> None:
    page = (ROOT / "CONTRIBUTING.md").read_text()
    table = page.split("## Where would I add ...?")[1].split("\n[docs/")[0]
    rows = [row.split(" | ") for row in table.splitlines() if row.startswith("| a")]
    assert len(rows) == 12
    starts = [re.findall(r"`([^`]+)`", start) for _, start, _ in rows]
    assert all(len(start) == 1 for start in starts)
    named = re.findall(r"`((?:harness|firmware_stub|boards|schema|tests|docs)/[^`]*)`", page)
    assert len(named) > 24
    assert [path for path in named if not (ROOT / path).exists()] == []


def test_the_path_of_a_run_in_the_architecture_exists() -> None:
    page = (ROOT / "docs/architecture.md").read_text()
    section = page.split("## The path of a run")[1].split("\n## ")[0]
    files = re.findall(r"^ +\d+  (\S+\.py)$", section, re.MULTILINE)
    assert len(files) > 40
    assert [file for file in files if not (ROOT / "harness" / file).is_file()] == []


def test_the_architecture_names_files_that_exist() -> None:
    page = (ROOT / "docs/architecture.md").read_text()
    folders = ("harness", "firmware_stub", "schema", "tests", "tools", "benchmarks", "examples")
    files = {path.name for folder in folders for path in (ROOT / folder).rglob("*.py")}
    named = {Path(name).name for name in re.findall(r"`([\w/]+\.py)`", page)}
    assert len(named) > 40
    assert sorted(named - files) == []
