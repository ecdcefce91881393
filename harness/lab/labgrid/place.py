"""Holds a place of a labgrid coordinator: acquires it, extends the acquisition, and releases it."""

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
from harness.lab.labgrid.identity import Identity, Inherited, held_already, held_for_children

_log = logging.getLogger(__name__)

TERM_S: Final = 900.0
"""Time from the last extension until an acquisition expires, seconds. A holder that dies on another
host blocks the place this long; one that died on the same host is noticed at once."""

_PAUSE_S: Final = (0.5, 5.0)
"""First and longest pause between two attempts."""
_ATTEMPTS: Final = 3
"""Number of refusals after which a free place counts as broken, and not as taken by another."""

_KIND: Final = "NetworkSerialPort"
_START_S: Final = 3.0
"""Longest wait until a ser2net that an exporter has just started listens."""


class LostPlaceError(BusyError):
    """A place is no longer acquired by this process."""


@dataclass(frozen=True, slots=True)
class HeldPlace:
    """A place held by this process or by one that started it.

    Attributes:
        name: Its name.
        port: Address of its serial port, as ``harness.link`` opens it.
        identity: The identity that acquired it.
        wanted: The unit that it is held for.
    """

    name: str
    port: str
    identity: str
    wanted: Unit
    _client: Client = field(repr=False)

    @property
    def unit(self) -> Unit:
        """The unit with its port; if it matched by tags, also with the id of the place."""
        if not self.wanted.match:
            return replace(self.wanted, port=self.port)
        return replace(self.wanted, id=self.name, place=self.name, match={}, port=self.port)

    def check(self) -> None:
        """Check that the place is still acquired.

        Raises:
            LostPlaceError: The coordinator restarted, or somebody released the place.
            InfrastructureError: The coordinator does not answer.
        """
        _check_ours(self._client, self.name, self.identity)


def labgrid_places(unit: Unit) -> list[LabgridPlace]:
    """Return the places that a unit may use: the named one, or all that match its tags.

    Raises:
        UsageError: There is no such place.
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
            hint=f"existing tags: {', '.join(tags) or 'none'}; add one with "
            "`labgrid-client -p PLACE set-tags board=BOARD`",
        )
    return found


def holder_of(place: LabgridPlace) -> str:
    """Return who holds a place, for messages; "" if it is free."""
    if place.reserved and not place.acquired:
        return f"reservation {place.reserved}"
    identity = place.identity
    if identity is not None:
        return identity.describe(place.allowed)
    host, _, user = place.acquired.partition("/")
    return f"{user} on {host}, since {place.changed}" if place.acquired else ""


@contextmanager
def hold_place(unit: Unit, timeout_s: float, *, term_s: float = TERM_S) -> Iterator[HeldPlace]:
    """Hold the place of a unit, or one that matches its tags, inside a ``with`` block.

    Nested calls in the same thread, and in processes started in the block, get the same place.

    Args:
        unit: The unit.
        timeout_s: Longest wait for the current holder, seconds.
        term_s: Time from the last extension until the acquisition expires, seconds.

    Raises:
        BusyError: The place was not free in time; the message names the holder.
        PortError: The place has no serial port, or the port is not connected.
        LostPlaceError: At the end of the block: the place was lost in the meantime.
        UsageError: There is no such place, or labgrid is not installed.
        InfrastructureError: The coordinator does not answer.
    """
    client = Client.of(unit.coordinator)
    key = _key(unit, client)
    if (known := held_already(key)) is not None:
        held = HeldPlace(known.place, known.port, known.identity, unit, client)
        if known.pid != os.getpid():  # the parent may not have noticed a loss
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
        # Under both keys: the unit as configured, and the unit with the place that was found.
        with held_for_children({key, _key(held.unit, client)}, inherited):
            yield held
    finally:
        keeper.stop()
        _give_back(client, name, identity)


class _Search:
    """Searches for a place that can be acquired, and remembers refusals."""

    def __init__(self, client: Client, unit: Unit, term_s: float) -> None:
        self.places: Sequence[LabgridPlace] = ()
        self._client, self._unit, self._term_s = client, unit, term_s
        self._tried: dict[str, Identity] = {}
        self._refused: dict[str, list[RefusedError]] = {}

    def attempt(self) -> tuple[str, Identity] | None:
        """Acquire one of the free places; return None if all are in use.

        Raises:
            PortError: All places are free, and each has refused several times.
        """
        self.places = labgrid_places(self._unit)
        for place in self.places:
            identity = self._tried.get(place.name)
            if identity is not None and place.acquired == str(identity):
                return place.name, identity  # acquired, although the client reported a failure
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
            if "already acquired" not in error.message:  # another client was faster
                self._refused.setdefault(name, []).append(error)
            return None
        except InfrastructureError:
            with contextlib.suppress(HarnessError):
                self._client.release(name, identity)  # the request may have been executed
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
    """Release a place if its holder is of this package, and has ended or expired."""
    identity = place.identity
    over = identity.is_over(place.allowed) if identity is not None else ""
    if identity is None or not over:
        return False
    _log.warning("releasing place %s, in use by %s: %s", place.name, holder_of(place), over)
    client.release(place.name, identity)
    return True


def _give_back(client: Client, name: str, identity: Identity) -> None:
    """Release a place; raise if it was lost in the meantime, unless another error is raised."""
    failing = sys.exc_info()[0] is not None
    try:
        _check_ours(client, name, str(identity))
        client.release(name, identity)
    except HarnessError as error:
        if not failing and isinstance(error, LostPlaceError):
            raise
        _log.warning("%s", error.message)


class _Keeper(threading.Thread):
    """Thread that extends the acquisition of a place."""

    def __init__(self, client: Client, place: str, identity: Identity, term_s: float) -> None:
        super().__init__(name=f"keeps {place}", daemon=True)
        self._client, self._place, self._identity = client, place, identity
        self._term_s = term_s
        self._ended = threading.Event()

    def run(self) -> None:
        """Extend the acquisition until stopped, or until the place is lost."""
        while not self._ended.wait(self._term_s / 3):
            try:
                self._client.prolong(self._place, self._identity, int(time.time() + self._term_s))
            except RefusedError as error:
                _log.warning("place %s is lost: %s", self._place, error.message)
                return
            except HarnessError as error:
                _log.warning("place %s could not be extended: %s", self._place, error.message)

    def stop(self) -> None:
        """Stop the thread, and wait for its current call."""
        self._ended.set()
        self.join()


def _check_ours(client: Client, name: str, identity: str) -> None:
    holders = {place.name: place for place in client.places()}
    now = holders.get(name)
    if now is not None and now.acquired == identity:
        return
    other = f": already in use by {printable(holder_of(now))}" if now and now.acquired else ""
    raise LostPlaceError(
        f"lost labgrid place {name} at the coordinator {client.coordinator}{other}",
        hint="the coordinator restarted, or somebody released the place; others may have used the "
        "board in the meantime, so run again",
    )


def _busy(
    client: Client, unit: Unit, places: Sequence[LabgridPlace], timeout_s: float
) -> BusyError:
    held = "; ".join(
        f"{place.name} is already in use by {printable(holder_of(place))}"
        if holder_of(place)
        else f"{place.name} was free just now"
        for place in places
    )
    which = f"none of the {len(places)} places with {_tags(unit)}" if unit.match else "the place"
    was = "was" if unit.match else f"of unit {unit.id} was not"
    return BusyError(
        f"{which} {was} free within {timeout_s:g} s at the labgrid coordinator "
        f"{client.coordinator}: {printable(held)}",
        hint="wait until it is free; `labgrid-client release --kick` takes a place by force",
    )


def _unusable(broken: dict[str, RefusedError]) -> PortError:
    why = "; ".join(f"{name}: {error.message}" for name, error in broken.items())
    return PortError(
        f"labgrid refuses all free places: {printable(why)}",
        hint="check that labgrid-exporter runs on the host of the board and that the board is "
        "connected; `labgrid-client resources` lists the resources",
    )


def _key(unit: Unit, client: Client) -> str:
    where = _tags(unit) if unit.match else unit.place or unit.id
    return f"{unit.id}: {where} at {client.coordinator}"


def _tags(unit: Unit) -> str:
    return ", ".join(f"{key}={value}" for key, value in unit.match.items())


def port_at(resources: Sequence[Resource], place: str, port: UsbPort | str | None) -> str:
    """Return the address of the serial port of an acquired place.

    Args:
        resources: The resources of the place.
        place: Name of the place.
        port: ``port`` of the unit: the name of one of several ports, an address to use unchanged,
            or None for the only port.

    Raises:
        UsageError: The place has several ports, or the port cannot be reached from this host.
        PortError: The place has no such port, or nothing listens at it.
    """
    if isinstance(port, str) and ("/" in port or "://" in port):
        return port
    if isinstance(port, UsbPort):
        raise UsageError(
            f"place {place}: labgrid finds the serial port, but the unit sets a USB port",
            hint="remove `port` from the unit, or set it to the name of one of the place's ports",
        )
    found = [item for item in resources if item.kind == _KIND and port in (None, item.name)]
    names = ", ".join(f"{item.name} ({item.kind})" for item in resources) or "nothing"
    if not found:
        called = "" if port is None else f" called {port!r}"
        raise PortError(
            f"place {place} has no serial port{called}; it has {names}",
            hint="add one: `labgrid-client -p PLACE add-match EXPORTER/GROUP/NetworkSerialPort`",
        )
    if len(found) > 1:
        raise UsageError(
            f"place {place} has several serial ports: {names}",
            hint="set `port` of the unit to the name of one of them",
        )
    return _address(found[0], place)


def _address(resource: Resource, place: str) -> str:
    params, extra = resource.params, resource.extra
    if extra.get("proxy_required"):
        raise UsageError(
            f"the serial port of place {place} is only reachable through {extra.get('proxy')} by "
            "ssh",
            hint="start its labgrid-exporter without --isolated",
        )
    host, port = params.get("host"), params.get("port")
    if not resource.available or not host or not port:
        raise PortError(
            f"the exporter reports the serial port of place {place} as unavailable",
            hint="check that the board is connected",
        )
    if extra.get("path"):
        _wait_for_listener(place, str(host), int(port))
    # RFC 2217 is labgrid's default, which its exporter also passes to ser2net.
    scheme = "socket" if params.get("protocol") == "raw" else "rfc2217"
    return f"{scheme}://{host}:{port}"


def _wait_for_listener(place: str, host: str, port: int) -> None:
    """Wait until ser2net listens: the exporter reports the port without checking that."""
    deadline = time.monotonic() + _START_S
    while True:
        try:
            socket.create_connection((host, port), timeout=_START_S).close()
        except OSError as error:
            if isinstance(error, ConnectionRefusedError) and time.monotonic() < deadline:
                time.sleep(0.1)
                continue
            raise PortError(
                f"nothing listens at the serial port of place {place}, {host}:{port}, although "
                f"its exporter reports it as available: {error.strerror or error}",
                hint="ser2net has ended or cannot open the board's port: see the exporter's log, "
                "and acquire the place again, which starts ser2net again",
            ) from error
        return
