"""Prints how large the house is, and how often things are declared twice (docs/architecture.md).

    python tools/house.py            this checkout
    python tools/house.py OTHER      another one, such as a working tree of an earlier commit

A code line has a token that belongs to no docstring and no comment. Two classes are a mirrored pair
if they share at least 60 % of the fields of the smaller one, which has at least four.
"""

from __future__ import annotations

import ast
import io
import itertools
import sys
import tokenize
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

EXTENSIONS = ("extensions", "inspector", "pytest_plugin", "strategies", "testing")
WAITING = ("site", "lab", "nightly", "bisect", "qualify", "meter", "report/html")
"""Folders that are to become extensions; earlier commits have some that have moved since."""

PUBLIC = {f"harness.{name}" for name in EXTENSIONS[1:]} | {"harness", "harness.__main__"}

_NO_CODE = {
    *(tokenize.COMMENT, tokenize.NL, tokenize.NEWLINE, tokenize.INDENT, tokenize.DEDENT),
    tokenize.ENDMARKER,
}


class Module(NamedTuple):
    """A module: its syntax tree, and the numbers of its lines."""

    tree: ast.Module
    code: set[int]
    imports: set[int]


def read_module(path: Path) -> Module:
    """Parse a module and tell code from docstrings, comments and imports."""
    source = path.read_text(encoding="utf-8")
    tree = ast.parse(source)
    code: set[int] = set()
    for token in tokenize.generate_tokens(io.StringIO(source).readline):
        if token.type not in _NO_CODE:
            code.update(range(token.start[0], token.end[0] + 1))
    imports: set[int] = set()
    for node in ast.walk(tree):
        match node:
            case ast.Expr(value=ast.Constant(value=str())):
                code.difference_update(range(node.lineno, (node.end_lineno or node.lineno) + 1))
            case ast.Import() | ast.ImportFrom():
                imports.update(range(node.lineno, (node.end_lineno or node.lineno) + 1))
    return Module(tree, code, imports & code)


def fields_of_classes(tree: ast.Module) -> Iterator[frozenset[str]]:
    """Yield the names of the annotated fields of each class that has some."""
    for node in ast.walk(tree):
        if isinstance(node, ast.ClassDef):
            annotated = [item for item in node.body if isinstance(item, ast.AnnAssign)]
            names = {item.target.id for item in annotated if isinstance(item.target, ast.Name)}
            if names:
                yield frozenset(names)


def internal_names(tree: ast.Module) -> Iterator[str]:
    """Yield what a test imports from modules that are not public."""
    for node in ast.walk(tree):
        if isinstance(node, ast.ImportFrom) and _is_internal(node.module or ""):
            yield from (f"{node.module}.{alias.name}" for alias in node.names)
        elif isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names if _is_internal(alias.name))


def _is_internal(module: str) -> bool:
    known = any(module == name or module.startswith(f"{name}.") for name in PUBLIC - {"harness"})
    return module.split(".")[0] == "harness" and module != "harness" and not known


def figures(root: Path) -> dict[str, float]:
    """Return all figures of a checkout."""
    modules = {
        path.relative_to(root / "harness"): read_module(path)
        for path in sorted((root / "harness").rglob("*.py"))
    }
    outside = tuple(Path(name) for name in (*EXTENSIONS, *WAITING))
    core = [
        module
        for path, module in modules.items()
        if not any(path.is_relative_to(folder) for folder in outside)
    ]
    code = sum(len(module.code) for module in modules.values())
    classes = [fields for module in modules.values() for fields in fields_of_classes(module.tree)]
    large = [fields for fields in classes if len(fields) >= 4]
    tests = [
        set(internal_names(ast.parse(path.read_text(encoding="utf-8"))))
        for path in (root / "tests").rglob("test_*.py")
    ]
    return {
        "modules": len(modules),
        "code lines": code,
        "code lines of the core": sum(len(module.code) for module in core),
        "imports, % of code lines": round(
            100 * sum(len(module.imports) for module in modules.values()) / code, 1
        ),
        "classes with fields": len(classes),
        "mirrored pairs": sum(
            len(one & other) >= 0.6 * min(len(one), len(other))
            for one, other in itertools.combinations(large, 2)
        ),
        "test files that import internals, %": round(100 * sum(map(bool, tests)) / len(tests)),
        "internal names that tests import": len(set().union(*tests)),
    }


if __name__ == "__main__":
    checkout = Path(sys.argv[1]) if len(sys.argv) > 1 else Path(__file__).parents[1]
    for name, figure in figures(checkout).items():
        print(f"{name:36}{figure:10,}")
