"""A place of a labgrid coordinator, held: acquired with a deadline, kept, and released again."""

from __future__ import annotations

import contextlib
import logging
import os
import random
import socket
import sys
import threading
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Final

from msgspec.structs import replace

from harness.config.unit import Unit, UsbPort
from harness.errors import BusyError, HarnessError, InfrastructureError, PortError, UsageError
from harness.formatting import printable
from harness.lab.labgrid.client import Client, LabgridPlace, RefusedError, Resource
from harness.lab.labgrid.identity import Identity
from harness.lab.labgrid.inherited import Inherited, held_already, held_for_children

_log = logging.getLogger(__name__)

TERM_S: Final = 900.0
"""How long a place stays ours after we last said so, seconds. A holder that dies on another host
keeps its place so long; one that dies on the host of whoever asks next loses it at once."""

_PAUSE_S: Final = (0.5, 5.0)
"""The first pause between two attempts, and the longest."""
_ATTEMPTS: Final = 3
"""How often a free place may refuse before it counts as broken, and not as just taken."""


class LostPlaceError(BusyError):
    """A place that was ours is not any more."""


@dataclass(frozen=True, slots=True)
class HeldPlace:
    """A place that is ours.

    Attributes:
        name: Its name.
        port: Address of its serial port, as ``harness.link`` opens it.
        identity: As whom it is held, by this process or by one that started it.
        wanted: The unit that it is held for.
    """

    name: str
    port: str
    identity: str
    wanted: Unit
    _client: Client = field(repr=False)

    @property
    def unit(self) -> Unit:
        """The unit as it is there: of several places that it may be, results tell which it was."""
        if not self.wanted.match:
            return replace(self.wanted, port=self.port)
        return replace(self.wanted, id=self.name, place=self.name, match={}, port=self.port)

    def check(self) -> None:
        """Do nothing while it is ours.

        Raises:
            LostPlaceError: The coordinator was started again, or somebody has released it.
            InfrastructureError: The coordinator does not answer.
        """
        _check_ours(self._client, self.name, self.identity)


def labgrid_places(unit: Unit) -> list[LabgridPlace]:
    """The places that a unit may be.

    Raises:
        UsageError: There is none.
        InfrastructureError: The coordinator does not answer.
    """
    client = Client.of(unit.coordinator)
    if not unit.match:
        return [client.place(unit.place or unit.id)]
    places = client.places()
    found = [place for place in places if place.matches(unit.match)]
    if not found:
        tags = sorted({f"{key}={value}" for place in places for key, value in place.tags.items()})
        raise UsageError(
            f"the labgrid coordinator at {client.coordinator} has no place with the tags "
            f"{_tags(unit)}",
            hint=f"tags of its places: {', '.join(tags) or 'none'}; `labgrid-client -p PLACE "
            "set-tags board=BOARD` adds one",
        )
    return found


def holder_of(place: LabgridPlace) -> str:
    """Who has a place, for people; "" if it is free."""
    if place.reserved and not place.acquired:
        return f"reservation {place.reserved}"
    identity = place.identity
    if identity is not None:
        return identity.describe(place.allowed)
    host, _, user = place.acquired.partition("/")
    return f"{user} on {host}, since {place.changed}" if place.acquired else ""


@contextmanager
def hold_place(unit: Unit, timeout_s: float, *, term_s: float = TERM_S) -> Iterator[HeldPlace]:
    """Hold the place of a unit, or one of those that it may be.

    Within each other, in one thread and in processes that are started meanwhile, it is the same.

    Args:
        unit: The unit.
        timeout_s: Longest wait for whoever has it, seconds.
        term_s: How long it stays ours after this process has last said so, seconds.

    Raises:
        BusyError: It was not free in time; the message says who has it.
        PortError: Nothing is connected there, or what is there has no serial port.
        LostPlaceError: At the end: it was no longer ours.
        UsageError: There is no such place, or labgrid is not installed.
        InfrastructureError: The coordinator does not answer.
    """
    client = Client.of(unit.coordinator)
    key = _key(unit, client)
    if (known := held_already(key)) is not None:
        held = HeldPlace(known.place, known.port, known.identity, unit, client)
        if known.pid != os.getpid():  # whoever it is may not have noticed
            held.check()
        yield held
        return
    name, identity = _acquire(client, unit, timeout_s, term_s)
    keeper = _Keeper(client, name, identity, term_s)
    keeper.start()
    try:
        port = port_at(client.resources(name), name, unit.port)
        held = HeldPlace(name, port, str(identity), unit, client)
        inherited = Inherited(name, port, held.identity, os.getpid())
        # By either name: as what was looked for, and as what was found.
        with held_for_children({key, _key(held.unit, client)}, inherited):
            yield held
    finally:
        keeper.stop()
        _give_back(client, name, identity)


def release_all(unit: Unit) -> list[str]:
    """Release what nobody needs any more of the places of a unit: of ours, dead or expired.

    Returns:
        Whose they were, for people.
    """
    client = Client.of(unit.coordinator)
    return [
        f"{place.name}: {holder_of(place)}"
        for place in labgrid_places(unit)
        if _free_if_over(client, place)
    ]


class _Search:
    """Looks for a place that can be acquired, and remembers what came of it."""

    def __init__(self, client: Client, unit: Unit, term_s: float) -> None:
        self.places: Sequence[LabgridPlace] = ()
        self._client, self._unit, self._term_s = client, unit, term_s
        self._tried: dict[str, Identity] = {}
        self._refused: dict[str, list[RefusedError]] = {}

    def attempt(self) -> tuple[str, Identity] | None:
        """Acquire one of the places that are free now, if there is one.

        Raises:
            PortError: All of them are free and refuse, again and again.
        """
        self.places = labgrid_places(self._unit)
        for place in self.places:
            identity = self._tried.get(place.name)
            if identity is not None and place.acquired == str(identity):
                return place.name, identity  # though the client failed afterwards
        for place in random.sample(self.places, len(self.places)):
            free = not place.reserved and not place.acquired
            if (free or _free_if_over(self._client, place)) and (taken := self._take(place.name)):
                return place.name, taken
        if all(len(self._refused.get(place.name, ())) >= _ATTEMPTS for place in self.places):
            raise _unusable({name: errors[-1] for name, errors in self._refused.items()})
        return None

    def _take(self, name: str) -> Identity | None:
        identity = self._tried[name] = Identity.new(self._term_s)
        try:
            self._client.acquire(name, identity)
        except RefusedError as error:
            if "already acquired" not in error.message:  # another was quicker
                self._refused.setdefault(name, []).append(error)
            return None
        except InfrastructureError:
            with contextlib.suppress(HarnessError):
                self._client.release(name, identity)  # it may have got through
            raise
        return identity


def _acquire(client: Client, unit: Unit, timeout_s: float, term_s: float) -> tuple[str, Identity]:
    deadline = time.monotonic() + timeout_s
    search = _Search(client, unit, term_s)
    pause = _PAUSE_S[0]
    while True:
        if found := search.attempt():
            return found
        remaining = deadline - time.monotonic()
        if remaining <= 0:
            raise _busy(client, unit, search.places, timeout_s)
        time.sleep(min(remaining, pause * random.uniform(0.5, 1)))
        pause = min(1.5 * pause, _PAUSE_S[1])


def _free_if_over(client: Client, place: LabgridPlace) -> bool:
    """Release a place if one of us had it who does not need it any more."""
    identity = place.identity
    over = identity.is_over(place.allowed) if identity is not None else ""
    if identity is None or not over:
        return False
    _log.warning("releasing place %s, which was held by %s: %s", place.name, holder_of(place), over)
    client.release(place.name, identity)
    return True


def _give_back(client: Client, name: str, identity: Identity) -> None:
    """Release a place; complain if it was not ours any more, unless something else went wrong."""
    failing = sys.exc_info()[0] is not None
    try:
        _check_ours(client, name, str(identity))
        client.release(name, identity)
    except HarnessError as error:
        if not failing and isinstance(error, LostPlaceError):
            raise
        _log.warning("%s", error.message)


class _Keeper(threading.Thread):
    """Says again and again that a place is still ours."""

    def __init__(self, client: Client, place: str, identity: Identity, term_s: float) -> None:
        super().__init__(name=f"keeps {place}", daemon=True)
        self._client, self._place, self._identity = client, place, identity
        self._term_s = term_s
        self._ended = threading.Event()

    def run(self) -> None:
        """Until it ends, or is lost."""
        while not self._ended.wait(self._term_s / 3):
            try:
                self._client.prolong(self._place, self._identity, int(time.time() + self._term_s))
            except RefusedError as error:
                _log.warning("place %s is no longer ours: %s", self._place, error.message)
                return
            except HarnessError as error:
                _log.warning("place %s is not prolonged: %s", self._place, error.message)

    def stop(self) -> None:
        """End it, and wait for the call that is under way."""
        self._ended.set()
        self.join()


def _check_ours(client: Client, name: str, identity: str) -> None:
    holders = {place.name: place for place in client.places()}
    now = holders.get(name)
    if now is not None and now.acquired == identity:
        return
    other = f": it is held by {printable(holder_of(now))}" if now and now.acquired else ""
    raise LostPlaceError(
        f"the labgrid coordinator at {client.coordinator} has dropped our acquisition of place "
        f"{name}{other}",
        hint="it was started again, or somebody released the place; others may have used the board "
        "meanwhile, so run it again",
    )


def _busy(
    client: Client, unit: Unit, places: Sequence[LabgridPlace], timeout_s: float
) -> BusyError:
    held = "; ".join(
        f"{place.name} is held by {printable(holder_of(place))}"
        if holder_of(place)
        else f"{place.name} was free just now"
        for place in places
    )
    which = f"none of the {len(places)} places with {_tags(unit)}" if unit.match else "the place"
    was = "was" if unit.match else f"of unit {unit.id} was not"
    return BusyError(
        f"{which} {was} free within {timeout_s:g} s at the labgrid coordinator "
        f"{client.coordinator}: {printable(held)}",
        hint="wait for that to end; `labgrid-client release --kick` takes a place by force",
    )


def _unusable(broken: dict[str, RefusedError]) -> PortError:
    why = "; ".join(f"{name}: {error.message}" for name, error in broken.items())
    return PortError(
        f"labgrid has no board to give, though nobody holds one: {printable(why)}",
        hint="is labgrid-exporter running on the host of the board, and is the board plugged in? "
        "`labgrid-client resources` lists what there is",
    )


def _key(unit: Unit, client: Client) -> str:
    where = _tags(unit) if unit.match else unit.place or unit.id
    return f"{unit.id}: {where} at {client.coordinator}"


def _tags(unit: Unit) -> str:
    return ", ".join(f"{key}={value}" for key, value in unit.match.items())


_KIND: Final = "NetworkSerialPort"


_START_S: Final = 3.0
"""How long a ser2net that an exporter has just started may take to listen."""


def port_at(resources: Sequence[Resource], place: str, port: UsbPort | str | None) -> str:
    """The address of the serial port of a place that is ours.

    Args:
        resources: What is connected there.
        place: Its name.
        port: What the unit says: the name of one of several, an address to be used as it is, or
            None for the only one.

    Raises:
        UsageError: There are several, or none of that name, or it cannot be reached from here.
        PortError: There is none, or nobody listens at it.
    """
    if isinstance(port, str) and ("/" in port or "://" in port):
        return port
    if isinstance(port, UsbPort):
        raise UsageError(
            f"place {place} is labgrid's, which knows its serial port",
            hint="leave `port` out of the unit, or name one of several there",
        )
    found = [item for item in resources if item.kind == _KIND and port in (None, item.name)]
    names = ", ".join(f"{item.name} ({item.kind})" for item in resources) or "nothing"
    if not found:
        called = "" if port is None else f" called {port!r}"
        raise PortError(
            f"place {place} has no serial port{called}; it has {names}",
            hint="`labgrid-client -p PLACE add-match EXPORTER/GROUP/NetworkSerialPort` adds one",
        )
    if len(found) > 1:
        raise UsageError(
            f"place {place} has several serial ports: {names}",
            hint="name one of them as `port` of the unit",
        )
    return _address(found[0], place)


def _address(resource: Resource, place: str) -> str:
    params, extra = resource.params, resource.extra
    if extra.get("proxy_required"):
        raise UsageError(
            f"the serial port of place {place} is only to be reached through "
            f"{extra.get('proxy')} by ssh",
            hint="start its labgrid-exporter without --isolated",
        )
    host, port = params.get("host"), params.get("port")
    if not resource.available or not host or not port:
        raise PortError(
            f"the serial port of place {place} is not there, says its exporter",
            hint="is the board plugged in?",
        )
    if extra.get("path"):
        _wait_for_listener(place, str(host), int(port))
    # Where nothing is said labgrid means RFC 2217, which it tells ser2net, too.
    scheme = "socket" if params.get("protocol") == "raw" else "rfc2217"
    return f"{scheme}://{host}:{port}"


def _wait_for_listener(place: str, host: str, port: int) -> None:
    """Wait until the exporter's ser2net listens: it does not look, and it says so all the same."""
    deadline = time.monotonic() + _START_S
    while True:
        try:
            socket.create_connection((host, port), timeout=_START_S).close()
        except OSError as error:
            if isinstance(error, ConnectionRefusedError) and time.monotonic() < deadline:
                time.sleep(0.1)
                continue
            raise PortError(
                f"nobody listens at the serial port of place {place}, {host}:{port}, though its "
                f"exporter says that it is available: {error.strerror or error}",
                hint="its ser2net has ended or cannot open the board's port; acquiring the place "
                "again starts another, and the exporter's log says why it ended",
            ) from error
        return
