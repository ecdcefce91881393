"""Pages of the documentation, which every installed copy has, and their addresses on a site."""

from __future__ import annotations

import os
from pathlib import Path
from typing import NamedTuple

from harness.errors import UsageError, did_you_mean
from harness.files import data_directory
from harness.records.verdict import CODES, Code

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
    """Return a page by its name, or by the last part of it if no other page ends so.

    Raises:
        UsageError: There is no such page.
    """
    names = page_names()
    ends = [page for page in names if page.endswith(f"/{name}")]
    name = ends[0] if len(ends) == 1 and name not in names else name
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


_INDEX = """# Checks

Every check has a code. `etharness explain CODE` prints its page. A failed check of severity `error`
makes the verdict FAIL; a `warning` needs a look, a `note` is for information. A budget can change
the severity of a code or turn it off: `I05 = "off"` in its `[severity]` table. Only I13 is always
an error.

I checks are invariants of every sound trace, B checks are limits of a budget, H checks compare with
the history.

| code | severity | passes if |
|---|---|---|
"""


def explain(code: str) -> tuple[Code, DocumentationPage]:
    """Return a code (upper or lower case) and its page.

    Raises:
        UsageError: The code is unknown.
    """
    found = CODES.get(code.upper())
    if found is None:
        raise UsageError(f"unknown check code {code!r}", hint=f"codes are {', '.join(CODES)}")
    name = _files().get(found.code)
    if name is None:
        raise UsageError(f"page of {found.code} ({found.title}) not found")
    file = _checks() / name
    text = file.read_text(encoding="utf-8")
    return found, DocumentationPage(found.code, found.title, text, page_url(file))


def index_of_checks() -> str:
    """Return the text of the page that lists all codes, ``docs/checks/README.md``."""
    files = _files()
    return _INDEX + "".join(
        f"| {_link(code.code, files)} | {code.severity} | {code.title} |\n"
        for code in CODES.values()
    )


def _checks() -> Path:
    return data_directory("docs") / "checks"


def _files() -> dict[str, str]:
    """Return file names of pages by code."""
    names = [path.name for path in _checks().glob("*-*.md")]
    return {name.partition("-")[0]: name for name in sorted(names)}


def _link(code: str, files: dict[str, str]) -> str:
    return f"[{code}]({files[code]})" if code in files else code
