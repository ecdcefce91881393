"""HTML reports taken apart, for tests that read them as a browser would."""

from __future__ import annotations

import base64
import hashlib
import re
from collections.abc import Iterator
from typing import Any

import html5lib

ALLOWED = {
    *(
        "html",
        "head",
        "meta",
        "link",
        "title",
        "style",
        "body",
        "script",
        "wbr",
        "header",
        "main",
        "footer",
    ),
    *(
        "nav",
        "section",
        "h1",
        "h2",
        "h3",
        "h4",
        "h5",
        "h6",
        "p",
        "a",
        "span",
        "strong",
        "em",
        "code",
    ),
    *(
        "pre",
        "div",
        "dl",
        "dt",
        "dd",
        "ul",
        "ol",
        "li",
        "details",
        "summary",
        "figure",
        "figcaption",
    ),
    *("table", "thead", "tbody", "tr", "th", "td", "button", "label", "input", "output"),
    *("svg", "rect", "line", "path", "circle", "text", "defs", "pattern"),
}
"""Elements of a report; whatever else there is came from a device."""


class Page:
    """A report as HTML5 parses it.

    Attributes:
        root: The document.
        elements: All of it, in order, by names without namespaces.
    """

    def __init__(self, data: bytes) -> None:
        parser = html5lib.HTMLParser(strict=True, namespaceHTMLElements=False)
        self.root = parser.parse(data.decode())  # a parse error is an exception
        self.elements = [(_name(element), element) for element in self.root.iter()]

    def all(self, name: str) -> list[Any]:
        return [element for own, element in self.elements if own == name]

    def text(self, element: Any = None) -> str:
        """All text that people may see."""
        return "".join(_texts(self.root if element is None else element))

    def section(self, ending: str) -> str:
        """The text of the sections whose heading's id ends so."""
        found = [
            section
            for section in self.all("section")
            if any((child.get("id") or "").endswith(ending) for child in section)
        ]
        assert found, f"no section {ending}"
        return "".join(map(self.text, found))

    def assert_sound(self) -> None:
        """Nothing acts but the page's own script, nothing is loaded, all ids are there once."""
        names = {name for name, _ in self.elements}
        assert names <= ALLOWED, names - ALLOWED
        (script,), (style,) = self.all("script"), self.all("style")
        policy = next(m for m in self.all("meta") if m.get("http-equiv")).get("content")
        assert policy.startswith("default-src 'none';")
        for element, kind in ((script, "script"), (style, "style")):
            digest = hashlib.sha256(element.text.encode()).digest()
            assert f"{kind}-src 'sha256-{base64.b64encode(digest).decode()}';" in policy
        assert "http" not in style.text
        assert "url(" not in style.text
        ids = [element.get("id") for _, element in self.elements if element.get("id")]
        assert len(ids) == len(set(ids))
        for name, element in self.elements:
            for attribute, value in element.attrib.items():
                assert not str(attribute).startswith("on"), attribute
                assert attribute not in (
                    "src",
                    "style",
                    "srcset",
                    "{http://www.w3.org/1999/xlink}href",
                )
                if attribute == "href":
                    assert value == "data:," if name == "link" else value[1:] in ids, value
                assert value.isprintable(), value
        assert re.sub(r"\n", "", self.text()).isprintable()


def _name(element: Any) -> str:
    return element.tag.rpartition("}")[2] if isinstance(element.tag, str) else "#comment"


def _texts(element: Any) -> Iterator[str]:
    if _name(element) not in ("style", "script"):
        yield element.text or ""
        for child in element:
            yield from _texts(child)
    yield element.tail or ""
