"""A badge: a label and a short message in a picture of one line, for READMEs."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final, Literal

import msgspec

from harness.report.html.svg import said, tag

BadgeKind = Literal["pass", "fail", "unknown"]

_COLORS: Final[dict[BadgeKind, str]] = {"pass": "#2e7d32", "fail": "#c62828", "unknown": "#5f6670"}
"""Backgrounds on which white text has a contrast of at least 5 to 1."""

_LABEL_COLOR: Final = "#3d434b"
_FONT: Final = "Verdana,DejaVu Sans,sans-serif"
_HEIGHT: Final = 20
_BASELINE: Final = 14
_PADDING: Final = 6

_NARROW: Final = frozenset("ijltfrI1.,:;'|!() ")
_WIDE: Final = frozenset("mwMW%@")


@dataclass(frozen=True, slots=True)
class Badge:
    """What a badge says.

    Attributes:
        label: What it is about.
        message: How that is.
        kind: Its colour.
    """

    label: str
    message: str
    kind: BadgeKind

    @property
    def svg(self) -> bytes:
        """The badge as a file that needs nothing else."""
        left, right = _width(self.label), _width(self.message)
        text = f"{self.label}: {self.message}"
        picture = tag(
            "svg",
            tag("title", said(text)),
            tag("rect", width=left + right, height=_HEIGHT, rx=3, fill=_LABEL_COLOR),
            tag("rect", x=left, width=right, height=_HEIGHT, rx=3, fill=_COLORS[self.kind]),
            tag("rect", x=left, width=3, height=_HEIGHT, fill=_COLORS[self.kind]),
            _text(self.label, 0, left),
            _text(self.message, left, right),
            xmlns="http://www.w3.org/2000/svg",
            width=left + right,
            height=_HEIGHT,
            role="img",
            aria_label=text,
        )
        return f"{picture}\n".encode()

    @property
    def endpoint(self) -> bytes:
        """The same for services that draw badges themselves, as shields.io's endpoint has it."""
        color = _COLORS[self.kind].removeprefix("#")
        document = {"schemaVersion": 1, "label": self.label, "message": self.message}
        return msgspec.json.encode({**document, "color": color}) + b"\n"


def _text(text: str, x: int, width: int) -> str:
    """A text of a known length, whatever font there is."""
    return tag(
        "text",
        said(text),
        x=x + _PADDING,
        y=_BASELINE,
        textLength=width - 2 * _PADDING,
        fill="#fff",
        font_family=_FONT,
        font_size=11,
    )


def _width(text: str) -> int:
    """About the width of a text in Verdana of 11 pixels, with space around it."""
    widths = (4 if char in _NARROW else 10 if char in _WIDE else 7 for char in text)
    return sum(widths) + 2 * _PADDING
