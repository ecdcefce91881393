"""Build the site of the documentation and check its links: ``python -m tools.docs [zensical]``.

Pages are the repository's own, at their places, so that their links stay as they are, and those of
``reference/``, made from the code. ``mkdocs.yml`` says where each is in the navigation.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path

from tools.docs import commands, messages, python_names, schemas
from tools.docs.links import broken_links
from tools.docs.markdown import for_site

ROOT = Path(__file__).resolve().parents[2]
OUTPUT = ROOT / "out/docs"
PAGES, SITE = OUTPUT / "pages", OUTPUT / "site"

COPIED = ("docs", "examples", "schema")
"""Folders with pages, and with files that pages link to."""


def assemble() -> None:
    """Put all pages together, as ``docs_dir`` of ``mkdocs.yml``."""
    shutil.rmtree(OUTPUT, ignore_errors=True)
    found = [*ROOT.glob("*.md")]
    found += [file for folder in COPIED for file in (ROOT / folder).rglob("*") if file.is_file()]
    files = {file.relative_to(ROOT) for file in found if _belongs(file)}
    for file in files:
        place = PAGES / file
        place.parent.mkdir(parents=True, exist_ok=True)
        if file.suffix == ".md":
            place.write_text(for_site((ROOT / file).read_text(), file, files))
        else:
            shutil.copyfile(ROOT / file, place)
    for generate in (commands.pages, messages.pages, python_names.pages, schemas.pages):
        for name, text in generate(ROOT):
            place = PAGES / "reference" / name
            place.parent.mkdir(parents=True, exist_ok=True)
            place.write_text(text)


def _belongs(file: Path) -> bool:
    """Whether pages may link to a file: not to generators and what Python leaves."""
    return file.suffix != ".pyc" and (file.suffix != ".py" or file.parent.name == "examples")


def build(generator: str) -> int:
    """Build with ``mkdocs`` or ``zensical``, every warning an error; return the exit code."""
    program = Path(sys.executable).with_name(generator)
    # The theme advertises its successor on every call.
    environment = {**os.environ, "NO_MKDOCS_2_WARNING": "1", "PYTHONPATH": str(ROOT)}
    command = [program, "build", "--strict", "--config-file", ROOT / "mkdocs.yml"]
    return subprocess.run(command, cwd=ROOT, env=environment, check=False).returncode


def main(arguments: list[str]) -> int:
    """Build the site with mkdocs, or with the generator that is named; report broken links."""
    assemble()
    if code := build(arguments[0] if arguments else "mkdocs"):
        return code
    broken = broken_links(SITE)
    for page, link in broken:
        print(f"docs: {page.relative_to(SITE)}: broken link {link}", file=sys.stderr)
    count = sum(1 for _ in SITE.rglob("*.html"))
    if not broken:
        print(f"docs: {count} pages without a broken link, in {SITE.relative_to(ROOT)}")
        print(f"docs: python3 -m http.server --directory {SITE.relative_to(ROOT)} serves them")
    return 1 if broken else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
