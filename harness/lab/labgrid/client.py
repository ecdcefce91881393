"""labgrid's client program: what it is asked, and what it means when it fails.

Its exit code is 1 for nearly everything, so what happened is found by asking for the state
afterwards, not by its messages. Each call takes some 0.4 s, and ends at a deadline of its own.
"""

from __future__ import annotations

import ast
import os
import re
import shutil
from dataclasses import dataclass, field
from typing import Any, Final

from harness.errors import InfrastructureError, UsageError
from harness.lab.labgrid.identity import Identity
from harness.target.process_group import run_program

PROGRAM_VARIABLE: Final = "ETHARNESS_LABGRID"
"""Environment variable that names the client program."""

COORDINATOR_VARIABLE: Final = "LG_COORDINATOR"
"""labgrid's own."""

_DEFAULT_COORDINATOR: Final = "127.0.0.1:20408"
_PROGRAM: Final = "labgrid-client"
_NOT_PASSED_ON: Final = ("PYTHONPATH", "PYTHONHOME", "LG_ENV", "LG_PLACE", "LG_STATE", "LG_TOKEN")
"""Variables that would have it load our libraries, or mean another place than the one we name."""


class RefusedError(InfrastructureError):
    """The coordinator, or the client itself, did not do what it was asked for."""


@dataclass(frozen=True, slots=True)
class Client:
    """The client program, and the coordinator that it asks.

    Attributes:
        coordinator: Its address, HOST:PORT.
        deadline_s: How long one call may take, seconds.
    """

    coordinator: str
    deadline_s: float = 30.0

    @classmethod
    def of(cls, coordinator: str = "") -> Client:
        """The client of a coordinator; by default the one that labgrid asks."""
        configured = os.environ.get(COORDINATOR_VARIABLE, "").strip()
        return cls(coordinator or configured or _DEFAULT_COORDINATOR)

    def places(self) -> list[LabgridPlace]:
        """All places of the coordinator.

        Raises:
            InfrastructureError: It does not answer.
        """
        return read_places(self._call("-v", "places"))

    def place(self, name: str) -> LabgridPlace:
        """The place of this name.

        Raises:
            UsageError: There is none; the hint lists what there is.
            InfrastructureError: The coordinator does not answer.
        """
        places = {place.name: place for place in self.places()}
        if name not in places:
            raise UsageError(
                f"the labgrid coordinator at {self.coordinator} has no place {name!r}",
                hint=f"its places: {', '.join(places) or 'none'}",
            )
        return places[name]

    def resources(self, place: str) -> list[Resource]:
        """What is connected at a place.

        Raises:
            InfrastructureError: The coordinator does not answer, or there is no such place.
        """
        return read_resources(self._call("-p", place, "show"))

    def acquire(self, place: str, identity: Identity) -> None:
        """Acquire a place.

        Raises:
            RefusedError: It could not be: it is another's, or what is connected there is gone.
            InfrastructureError: The coordinator does not answer; the place may be acquired or not.
        """
        self._call("-p", place, "acquire", identity=identity)

    def prolong(self, place: str, identity: Identity, until: int) -> None:
        """Say until when a place stays acquired, as seconds since 1970.

        Raises:
            RefusedError: It is no longer acquired by this identity.
            InfrastructureError: The coordinator does not answer.
        """
        self._call("-p", place, "allow", identity.prolonged(until), identity=identity)

    def release(self, place: str, identity: Identity) -> None:
        """Release a place if it is acquired by this identity, else do nothing, in one step.

        Raises:
            InfrastructureError: The coordinator does not answer, or there is no such place.
        """
        try:
            self._call("-p", place, "release-from", str(identity))
        except RefusedError:
            if self.place(place).acquired == str(identity):
                raise

    def _call(self, *arguments: str, identity: Identity | None = None) -> str:
        """Call the program; return what it printed."""
        name = os.environ.get(PROGRAM_VARIABLE, "").strip() or _PROGRAM
        program = shutil.which(name)
        if program is None:
            raise UsageError(
                f"labgrid's client {name} is not installed",
                hint="install labgrid in an environment of its own (docs/labgrid.md), and name its "
                f"client in ${PROGRAM_VARIABLE}",
            )
        environment = {k: v for k, v in os.environ.items() if k not in _NOT_PASSED_ON}
        environment[COORDINATOR_VARIABLE] = self.coordinator
        if identity is not None:
            environment |= {"LG_HOSTNAME": identity.host, "LG_USERNAME": identity.user}
        what = " ".join(arguments)
        try:
            done = run_program([program, *arguments], self.deadline_s, env=environment)
        except OSError as error:
            raise InfrastructureError(f"cannot start {program}: {error}") from error
        if done.code is None:
            raise InfrastructureError(
                f"the labgrid coordinator at {self.coordinator} did not answer `{what}` within "
                f"{self.deadline_s:g} s{done.remains}",
                hint=_IS_IT_RUNNING,
            )
        if done.code == 0:
            return done.stdout.decode("utf-8", "replace")
        errors = done.stderr.decode("utf-8", "replace").splitlines()
        said = [line for line in errors if line.strip()]
        last = said[-1].removeprefix(f"{_PROGRAM}: ").removeprefix("Error: ") if said else ""
        if "coordinator" in last and "connect" in last:
            raise InfrastructureError(
                f"the labgrid coordinator at {self.coordinator} cannot be reached",
                hint=_IS_IT_RUNNING,
            )
        raise RefusedError(
            f"labgrid's client failed at `{what}` with exit code {done.code}: "
            f"{last or 'it said nothing'}"
        )


_IS_IT_RUNNING: Final = (
    f"does labgrid-coordinator run there, and is that its address (${COORDINATOR_VARIABLE}, or "
    "`coordinator` of the unit)?"
)


@dataclass(frozen=True, slots=True)
class LabgridPlace:
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


def read_places(text: str) -> list[LabgridPlace]:
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


def _place(match: re.Match[str]) -> LabgridPlace:
    tags = dict(tag.partition("=")[::2] for tag in _split(match["tags"]))
    acquired = "" if match["acquired"] == "None" else match["acquired"]
    return LabgridPlace(
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
