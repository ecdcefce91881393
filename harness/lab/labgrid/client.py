"""labgrid's client program: what it is asked, and what it means when it fails.

Its exit code is 1 for nearly everything, so what happened is found by asking for the state
afterwards, not by its messages. Each call takes some 0.4 s, and ends at a deadline of its own.
"""

from __future__ import annotations

import os
import shutil
from dataclasses import dataclass
from typing import Final

from harness.errors import InfrastructureError, UsageError
from harness.lab.labgrid.identity import Identity
from harness.lab.labgrid.output import Place, Resource, read_places, read_resources
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

    def places(self) -> list[Place]:
        """All places of the coordinator.

        Raises:
            InfrastructureError: It does not answer.
        """
        return read_places(self._call("-v", "places"))

    def place(self, name: str) -> Place:
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
