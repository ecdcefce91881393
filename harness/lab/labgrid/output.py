"""What labgrid's client prints, read back: places, and what is connected there.

It prints for people. What does not look as expected is an error; nothing is passed over.
"""

from __future__ import annotations

import ast
import re
from dataclasses import dataclass, field
from typing import Any, Final

from harness.errors import InfrastructureError
from harness.lab.labgrid.identity import Identity


@dataclass(frozen=True, slots=True)
class Place:
    """A place, as the coordinator has it.

    Attributes:
        name: Its name.
        tags: What a reservation, or a unit, may choose it by.
        acquired: Who has it, as HOST/USER; "" if nobody.
        allowed: Who else may use it, and until when ours is acquired.
        changed: When it was last acquired, released or changed, by the clock of this host.
        reserved: Token of the reservation that it is kept for; "" if it is not.
    """

    name: str
    tags: dict[str, str] = field(default_factory=dict)
    acquired: str = ""
    allowed: tuple[str, ...] = ()
    changed: str = ""
    reserved: str = ""

    @property
    def identity(self) -> Identity | None:
        """Who has it, if that is one of us."""
        return Identity.parse(self.acquired)

    def matches(self, tags: dict[str, str]) -> bool:
        """Whether it has all of these tags."""
        return self.tags.items() >= tags.items()


@dataclass(frozen=True, slots=True)
class Resource:
    """Something that an exporter offers at a place.

    Attributes:
        name: Its name at the place.
        kind: labgrid's class, such as ``NetworkSerialPort``.
        params: What describes it.
        extra: What the exporter says beside that.
        acquired: The place it is acquired for; "" for none.
        available: Whether the exporter believes it is there.
    """

    name: str
    kind: str
    params: dict[str, Any]
    extra: dict[str, Any]
    acquired: str
    available: bool


# A comment may hold lines of its own; it ends where all that follows is as it should be.
_PLACE: Final = re.compile(
    r"""Place\ '(?P<name>[^\n]*)':\n
    (?:\ \ aliases:\ [^\n]*\n)?
    (?:\ \ comment:\ (?:(?!\n\ \ created:\ ).)*?\n)?
    (?:\ \ tags:\ (?P<tags>[^\n]*)\n)?
    \ \ matches:\n(?:\ \ \ \ [^\n]*\n)*
    \ \ acquired:\ (?P<acquired>[^\n]*)\n
    \ \ acquired\ resources:\n(?:\ \ \ \ [^\n]*\n)*
    (?:\ \ allowed:\ (?P<allowed>[^\n]*)\n)?
    \ \ created:\ [^\n]*\n
    \ \ changed:\ (?P<changed>[^\n]*)\n
    (?:\ \ reservation:\ (?P<reserved>[^\n]*)\n)?""",
    re.VERBOSE | re.DOTALL,
)
_RESOURCE: Final = re.compile(
    r"^(?:Acquired|Matching) resource '(?P<name>.*)' \(.*\):\n(?P<data>(?:  .*\n)+)", re.MULTILINE
)


def read_places(text: str) -> list[Place]:
    """Read what ``labgrid-client -v places`` prints.

    Raises:
        InfrastructureError: It printed something else.
    """
    found, at = [], 0
    while at < len(text):
        match = _PLACE.match(text, at)
        if match is None:
            raise _not_understood(text[at:])
        found.append(_place(match))
        at = match.end()
    return found


def read_resources(text: str) -> list[Resource]:
    """Read what ``labgrid-client -p PLACE show`` prints behind the place.

    Raises:
        InfrastructureError: It printed something else.
    """
    place = _PLACE.match(text)
    if place is None:
        raise _not_understood(text)
    rest = text[place.end() :]
    found = [_resource(match) for match in _RESOURCE.finditer(rest)]
    if _RESOURCE.sub("", rest).strip():
        raise _not_understood(rest)
    return found


def _place(match: re.Match[str]) -> Place:
    tags = dict(tag.partition("=")[::2] for tag in _split(match["tags"]))
    acquired = "" if match["acquired"] == "None" else match["acquired"]
    return Place(
        name=match["name"],
        tags=tags,
        acquired=acquired,
        allowed=tuple(_split(match["allowed"])),
        changed=match["changed"],
        reserved=match["reserved"] or "",
    )


def _split(text: str | None) -> list[str]:
    return text.split(", ") if text else []


def _resource(match: re.Match[str]) -> Resource:
    try:
        data = ast.literal_eval(match["data"].strip())
        params = dict(data["params"])
        return Resource(
            name=match["name"],
            kind=str(data["cls"]),
            extra=dict(params.pop("extra", {})),
            params=params,
            acquired=data["acquired"] or "",
            available=bool(data["avail"]),
        )
    except (ValueError, SyntaxError, KeyError, TypeError):
        raise _not_understood(match[0]) from None


def _not_understood(text: str) -> InfrastructureError:
    return InfrastructureError(
        f"labgrid's client printed what this version does not understand: {text[:200]!r}",
        hint="this is tested with labgrid 26.0",
    )
