"""Pages of the documentation that explain the codes of checks, one each."""

from __future__ import annotations

from harness.errors import UsageError
from harness.records.check_codes import CODES, Code
from harness.resources import data_directory

SECTIONS = ("What it means", "How it is computed", "Why it happens", "What to do", "Example")
"""What every page has to say, in this order."""

_INDEX = """# Checks

Every check has a code. `etharness explain CODE` prints its page. A check that does not hold and is
an error makes the verdict a failure; a warning is to be looked at, a note is good to know. A budget
may give a code another severity, or turn it off: `I05 = "off"` in its table `[severity]`. Only
I13 stays an error.

Codes with an I always hold for a sound trace, B are limits of a budget, H compare with history.

| code | severity | what holds |
|---|---|---|
"""


def explain(code: str) -> tuple[Code, str]:
    """Return a code, however its letter is written, and its page as Markdown.

    Raises:
        UsageError: There is no such code.
    """
    found = CODES.get(code.upper())
    if found is None:
        raise UsageError(f"no check has the code {code!r}", hint=f"codes are {', '.join(CODES)}")
    file = _files().get(found.code)
    if file is None:
        raise UsageError(f"{found.code} ({found.title}) has no page")
    return found, (data_directory("checks") / file).read_text(encoding="utf-8")


def index() -> str:
    """The page that lists all codes, ``docs/checks/README.md``."""
    files = _files()
    return _INDEX + "".join(
        f"| {_link(code.code, files)} | {code.severity} | {code.title} |\n"
        for code in CODES.values()
    )


def _files() -> dict[str, str]:
    """Names of pages by the code that they begin with."""
    names = [path.name for path in data_directory("checks").glob("*-*.md")]
    return {name.partition("-")[0]: name for name in sorted(names)}


def _link(code: str, files: dict[str, str]) -> str:
    return f"[{code}]({files[code]})" if code in files else code
