"""Links of built pages: every internal one leads to a file, and its anchor to an element.

No page may load anything from another host: labs without a network read the site, too.
"""

from __future__ import annotations

from collections.abc import Iterator
from html.parser import HTMLParser
from pathlib import Path
from urllib.parse import unquote, urlsplit


class Page(HTMLParser):
    """The links of an HTML page, and the places that links can lead to.

    Attributes:
        links: Values of ``href`` and ``src``.
        loaded: Those that a browser loads with the page.
        anchors: Values of ``id`` and ``name``.
    """

    def __init__(self, text: str) -> None:
        super().__init__()
        self.links: list[str] = []
        self.loaded: list[str] = []
        self.anchors: set[str] = set()
        self.feed(text)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        """Take note of the attributes of an element."""
        for name, value in attrs:
            if value and name in {"href", "src"}:
                self.links.append(value)
                if tag != "a":
                    self.loaded.append(value)
            elif value and (name == "id" or (name == "name" and tag == "a")):
                self.anchors.add(value)


def broken_links(site: Path) -> list[tuple[Path, str]]:
    """Return pages with their links that lead nowhere; links to other hosts are not followed."""
    pages = {path: Page(path.read_text()) for path in sorted(site.rglob("*.html"))}
    return [
        (path, link)
        for path, page in pages.items()
        if path.name != "404.html"  # its links are relative to any address
        for link in _broken(path, page, pages)
    ]


def _broken(path: Path, page: Page, pages: dict[Path, Page]) -> Iterator[str]:
    for link in page.links:
        address = urlsplit(link)
        if address.scheme or address.netloc:
            if address.netloc and link in page.loaded:
                yield link
            continue
        place = (path.parent / unquote(address.path)).resolve() if address.path else path
        place = place / "index.html" if place.is_dir() else place
        if not place.is_file():
            yield link
        elif address.fragment and place in pages:
            # "__..." are of the theme's script.
            fragment = unquote(address.fragment)
            if fragment not in pages[place].anchors and not fragment.startswith("__"):
                yield link
