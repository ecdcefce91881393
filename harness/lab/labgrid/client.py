"""Calls labgrid's client program, and parses its output.

The program instead of labgrid's gRPC stubs: these belong to its library, which pins grpcio and does
not promise them, while this package must install without it.

Its exit code is 1 for nearly every failure, so the state is queried afterwards rather than taken
from its messages. A call takes some 0.4 s, and has a deadline of its own.
"""

from __future__ import annotations

import ast
import os
import re
import shutil
from dataclasses import dataclass, field
from typing import Any, Final

from harness.errors import InfrastructureError, UsageError
from harness.extras import require_linux
from harness.lab.labgrid.identity import Identity
from harness.target.process_group import run_program

PROGRAM_VARIABLE: Final = "ETHARNESS_LABGRID"
"""Environment variable that names the client program."""

COORDINATOR_VARIABLE: Final = "LG_COORDINATOR"
"""labgrid's own variable."""

_DEFAULT_COORDINATOR: Final = "127.0.0.1:20408"
_PROGRAM: Final = "labgrid-client"
_NOT_PASSED_ON: Final = ("PYTHONPATH", "PYTHONHOME", "LG_ENV", "LG_PLACE", "LG_STATE", "LG_TOKEN")
"""Variables that would make it load our libraries, or use another place than the named one."""

_CHECK_COORDINATOR: Final = (
    "check that labgrid-coordinator runs there, and that the address is right "
    f"(${COORDINATOR_VARIABLE}, or `coordinator` of the unit)"
)


# A comment may span lines; it ends where the rest of the pattern matches.
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


class RefusedError(InfrastructureError):
    """The coordinator or the client program refused a request."""


@dataclass(frozen=True, slots=True)
class LabgridPlace:
    """A place, as the coordinator reports it.

    Attributes:
        name: Its name.
        tags: Tags for reservations, and for units that match by tag.
        acquired: Who has acquired it, as HOST/USER; "" if it is free.
        allowed: Who else may use it; our entries also tell until when it is acquired.
        changed: When it was last acquired, released or changed, in this host's local time.
        reserved: Token of the reservation for it; "" without a reservation.
    """

    name: str
    tags: dict[str, str] = field(default_factory=dict)
    acquired: str = ""
    allowed: tuple[str, ...] = ()
    changed: str = ""
    reserved: str = ""

    @property
    def identity(self) -> Identity | None:
        """The identity that acquired it, if it is one of this package's."""
        return Identity.parse(self.acquired)

    def matches(self, tags: dict[str, str]) -> bool:
        """Whether it has all of these tags."""
        return self.tags.items() >= tags.items()


@dataclass(frozen=True, slots=True)
class Resource:
    """A resource that an exporter offers at a place.

    Attributes:
        name: Its name at the place.
        kind: labgrid's class, such as ``NetworkSerialPort``.
        params: Its parameters.
        extra: Further parameters from the exporter.
        acquired: The place it is acquired for; "" if it is not.
        available: Whether the exporter reports it as present.
    """

    name: str
    kind: str
    params: dict[str, Any]
    extra: dict[str, Any]
    acquired: str
    available: bool


@dataclass(frozen=True, slots=True)
class Client:
    """The client program for one coordinator.

    Attributes:
        coordinator: Address of the coordinator, HOST:PORT.
        deadline_s: Timeout of a call, seconds.
    """

    coordinator: str
    deadline_s: float = 30.0

    @classmethod
    def of(cls, coordinator: str = "") -> Client:
        """Return the client for a coordinator; by default labgrid's own default."""
        configured = os.environ.get(COORDINATOR_VARIABLE, "").strip()
        return cls(coordinator or configured or _DEFAULT_COORDINATOR)

    def places(self) -> list[LabgridPlace]:
        """Return all places of the coordinator.

        Raises:
            InfrastructureError: The coordinator does not answer.
        """
        return read_places(self._call("-v", "places"))

    def place(self, name: str) -> LabgridPlace:
        """Return the place of this name.

        Raises:
            UsageError: There is no such place; the hint lists the places.
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
        """Return the resources of a place.

        Raises:
            InfrastructureError: The coordinator does not answer, or there is no such place.
        """
        return read_resources(self._call("-p", place, "show"))

    def acquire(self, place: str, identity: Identity) -> None:
        """Acquire a place.

        Raises:
            RefusedError: The place is acquired already, or its resources are gone.
            InfrastructureError: The coordinator does not answer; the place may be acquired or not.
        """
        self._call("-p", place, "acquire", identity=identity)

    def prolong(self, place: str, identity: Identity, until: int) -> None:
        """Extend an acquisition until ``until``, seconds since 1970.

        Raises:
            RefusedError: The place is no longer acquired by this identity.
            InfrastructureError: The coordinator does not answer.
        """
        self._call("-p", place, "allow", identity.prolonged(until), identity=identity)

    def release(self, place: str, identity: Identity) -> None:
        """Release a place if this identity has acquired it, in one atomic step.

        Raises:
            InfrastructureError: The coordinator does not answer, or there is no such place.
        """
        try:
            self._call("-p", place, "release-from", str(identity))
        except RefusedError:
            if self.place(place).acquired == str(identity):
                raise

    def _call(self, *arguments: str, identity: Identity | None = None) -> str:
        """Call the program; return its standard output."""
        require_linux("labgrid", "run this command on a Linux host of the lab")
        name = os.environ.get(PROGRAM_VARIABLE, "").strip() or _PROGRAM
        program = shutil.which(name)
        if program is None:
            raise UsageError(
                f"labgrid's client {name} is not installed",
                hint="install labgrid in an environment of its own "
                "(`etharness explain labgrid`), and name its "
                f"client in ${PROGRAM_VARIABLE}",
            )
        environment = {k: v for k, v in os.environ.items() if k not in _NOT_PASSED_ON}
        environment[COORDINATOR_VARIABLE] = self.coordinator
        if identity is not None:
            environment |= {"LG_HOSTNAME": identity.host, "LG_USERNAME": identity.user}
        command = " ".join(arguments)
        try:
            done = run_program([program, *arguments], self.deadline_s, env=environment)
        except OSError as error:
            raise InfrastructureError(f"cannot start {program}: {error}") from error
        if done.code is None:
            raise InfrastructureError(
                f"the labgrid coordinator at {self.coordinator} did not answer `{command}` within "
                f"{self.deadline_s:g} s{done.remains}",
                hint=_CHECK_COORDINATOR,
            )
        if done.code == 0:
            return done.stdout.decode("utf-8", "replace")
        errors = done.stderr.decode("utf-8", "replace").splitlines()
        lines = [line for line in errors if line.strip()]
        last = lines[-1].removeprefix(f"{_PROGRAM}: ").removeprefix("Error: ") if lines else ""
        if "coordinator" in last and "connect" in last:
            raise InfrastructureError(
                f"cannot reach the labgrid coordinator at {self.coordinator}",
                hint=_CHECK_COORDINATOR,
            )
        raise RefusedError(
            f"labgrid's client failed at `{command}` with exit code {done.code}: "
            f"{last or 'no output'}"
        )


def read_places(text: str) -> list[LabgridPlace]:
    """Parse the output of ``labgrid-client -v places``.

    Raises:
        InfrastructureError: The output has an unknown form.
    """
    found, at = [], 0
    while at < len(text):
        match = _PLACE.match(text, at)
        if match is None:
            raise _unknown_output(text[at:])
        found.append(_place(match))
        at = match.end()
    return found


def read_resources(text: str) -> list[Resource]:
    """Parse the resources in the output of ``labgrid-client -p PLACE show``.

    Raises:
        InfrastructureError: The output has an unknown form.
    """
    place = _PLACE.match(text)
    if place is None:
        raise _unknown_output(text)
    rest = text[place.end() :]
    found = [_resource(match) for match in _RESOURCE.finditer(rest)]
    if _RESOURCE.sub("", rest).strip():
        raise _unknown_output(rest)
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
        raise _unknown_output(match[0]) from None


def _unknown_output(text: str) -> InfrastructureError:
    return InfrastructureError(
        f"unknown output of labgrid's client: {text[:200]!r}",
        hint="use labgrid 26.0, the tested version",
    )
