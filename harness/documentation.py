"""Pages of the documentation, which every installed copy has, and their addresses on a site."""

from __future__ import annotations

import os
from pathlib import Path
from typing import NamedTuple

from harness.errors import UsageError, did_you_mean
from harness.files import data_directory

URL_VARIABLE = "ETHARNESS_DOCS_URL"
"""Address of a site that `make docs` has built."""


class DocumentationPage(NamedTuple):
    """A page of the documentation.

    Attributes:
        name: Its path below ``docs/`` without suffix, such as ``lab`` or ``library/cmake``.
        title: Its heading.
        text: The page as Markdown.
        url: Its address on the site; None without $ETHARNESS_DOCS_URL.
    """

    name: str
    title: str
    text: str
    url: str | None


def page_names() -> list[str]:
    """Return the names of all pages but those of checks, which their codes name."""
    root = data_directory("docs")
    names = (path.relative_to(root).with_suffix("").as_posix() for path in root.rglob("*.md"))
    return sorted(name for name in names if not name.startswith("checks/"))


def read_page(name: str) -> DocumentationPage:
    """Return a page by its name.

    Raises:
        UsageError: There is no such page.
    """
    names = page_names()
    if name not in names:
        raise UsageError(
            f"page {name!r} not found",
            hint=f"{did_you_mean(name, names)}`etharness explain` lists codes of checks and pages",
        )
    file = data_directory("docs") / f"{name}.md"
    text = file.read_text(encoding="utf-8")
    return DocumentationPage(name, text.partition("\n")[0].removeprefix("# "), text, page_url(file))


def page_url(file: Path) -> str | None:
    """Return the address of a page of ``docs/`` on the site; None without $ETHARNESS_DOCS_URL."""
    site = os.environ.get(URL_VARIABLE)
    if not site:
        return None
    path = file.relative_to(data_directory("docs")).with_suffix(".html").as_posix()
    # The site's generator makes a folder's README its index.
    folder, _, name = path.rpartition("/")
    path = f"{folder}/index.html" if name == "README.html" else path
    return f"{site.rstrip('/')}/docs/{path}"
