"""Pages of the public Python names; mkdocstrings fills them from the docstrings."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from pathlib import Path

MODULES = (
    "harness",
    "harness.inspector",
    "harness.testing",
    "harness.strategies",
    "harness.pytest_plugin",
)


def pages(root: Path) -> Iterator[tuple[str, str]]:
    """Yield a page for each public module, with the names of its ``__all__``."""
    for module in MODULES:
        names = "".join(f"        - {name}\n" for name in _public(root, module))
        # Headings of members follow the module's own, which the page needs as its title.
        yield (
            f"python/{module}.md",
            f"::: {module}\n    options:\n      heading_level: 1\n      members:\n{names}",
        )


def _public(root: Path, module: str) -> list[str]:
    """Return ``__all__``, without importing: some modules need optional libraries.

    The names of ``harness`` are those that its stub imports.
    """
    if module == "harness":
        stub = ast.parse((root / "harness/__init__.pyi").read_text())
        imports = (node for node in stub.body if isinstance(node, ast.ImportFrom))
        return sorted(alias.name for node in imports for alias in node.names)
    file = root / module.replace(".", "/") / "__init__.py"
    for node in ast.parse(file.read_text()).body:
        if isinstance(node, ast.Assign) and getattr(node.targets[0], "id", "") == "__all__":
            found: list[str] = ast.literal_eval(node.value)
            return found
    raise ValueError(f"{file}: no __all__")
