"""Documentation pages of the check codes, one each."""

from __future__ import annotations

from pathlib import Path

from harness.documentation import DocumentationPage, page_url
from harness.errors import UsageError
from harness.files import data_directory
from harness.records.check_codes import CODES, Code

SECTIONS = ("What it means", "How it is computed", "Why it happens", "What to do", "Example")
"""Sections of every page, in this order."""

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
    file = _folder() / name
    text = file.read_text(encoding="utf-8")
    return found, DocumentationPage(found.code, found.title, text, page_url(file))


def index() -> str:
    """Return the text of the page that lists all codes, ``docs/checks/README.md``."""
    files = _files()
    return _INDEX + "".join(
        f"| {_link(code.code, files)} | {code.severity} | {code.title} |\n"
        for code in CODES.values()
    )


def _folder() -> Path:
    return data_directory("docs") / "checks"


def _files() -> dict[str, str]:
    """Return file names of pages by code."""
    names = [path.name for path in _folder().glob("*-*.md")]
    return {name.partition("-")[0]: name for name in sorted(names)}


def _link(code: str, files: dict[str, str]) -> str:
    return f"[{code}]({files[code]})" if code in files else code
