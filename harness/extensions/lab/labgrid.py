"""Boards of several hosts, managed by a labgrid coordinator (docs/labgrid.md).

labgrid runs from an environment of its own: its client program is called, its library never
imported. labgrid's gRPC stubs belong to its library, which pins grpcio and does not promise them,
while this package must install without it. The exit code of the program is 1 for nearly every
failure, so the state is queried afterwards rather than taken from its messages. A call takes some
0.4 s, and has a deadline of its own.

labgrid knows a holder as HOST/USER, has no expiry, and cannot tell processes of one host apart. So
each acquisition uses a HOST of its own, which encodes the process and the expiry. Extensions are
stored as users who are allowed to use the place, which labgrid clears at the release. All of it is
stored at the coordinator with the acquisition, where every host can see it.
"""

from __future__ import annotations

import ast
import contextlib
import getpass
import logging
import os
import random
import re
import secrets
import shutil
import socket
import sys
import threading
import time
from collections.abc import Collection, Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import cache
from hashlib import blake2b
from pathlib import Path
from typing import Any, Final

import msgspec
from msgspec.structs import replace

from harness.config.unit import Unit, UsbPort
from harness.errors import BusyError, HarnessError, InfrastructureError, PortError, UsageError
from harness.extensions.lab.leases import own_start, process_start
from harness.files import decode_json
from harness.formatting import printable
from harness.target.build import require_linux
from harness.target.process_group import run_program

_MARK: Final = "etharness"
_NUMBER: Final = "(?:0|[1-9][0-9]{0,19})"
"""As this package writes them, so that a name that is read is printed the same."""

_OURS: Final = re.compile(
    rf"(?P<node>[^/~]+)~{_MARK}~(?P<pid>{_NUMBER})~(?P<started>{_NUMBER})~(?P<system>[0-9a-f]{{12}})"
    rf"~(?P<since>{_NUMBER})~(?P<until>{_NUMBER})~(?P<nonce>[0-9a-f]{{8}})/(?P<user>[^/]+)"
)
_PROLONGED: Final = re.compile(rf"{_MARK}~until~(\d{{1,12}})/")

CLOCKS_DIFFER_S: Final = 60
"""Clock difference between two hosts up to which neither takes a place of the other too early."""


VARIABLE: Final = "ETHARNESS_PLACES"
"""Environment variable: the places that a parent holds for its children, as JSON."""


@dataclass(frozen=True, slots=True)
class Identity:
    """The identity of one acquisition.

    Attributes:
        node: The host that made it.
        user: The user who made it.
        pid: The process that holds it.
        started: Start time of that process in clock ticks; distinguishes it from a later process
            with the same pid.
        system: Identifies the boot and pid namespace that the pid belongs to.
        since: When it was made, seconds since 1970.
        until: When it expires unless extended, seconds since 1970.
        nonce: Distinguishes the acquisitions of a process.
    """

    node: str
    user: str
    pid: int
    started: int
    system: str
    since: int
    until: int
    nonce: str

    @classmethod
    def new(cls, term_s: float) -> Identity:
        """Return an identity valid for ``term_s`` seconds, at most until this process ends."""
        return cls(
            node=re.sub(r"[/~\s]", "-", socket.gethostname()) or "host",
            user=re.sub(r"[/\s]", "-", getpass.getuser()) or "user",
            pid=os.getpid(),
            started=own_start(),
            system=_this_system(),
            since=int(time.time()),
            until=int(time.time() + term_s),
            nonce=secrets.token_hex(4),
        )

    @classmethod
    def parse(cls, acquired: str) -> Identity | None:
        """Parse the holder of a place; None if it is not an identity of this package."""
        match = _OURS.fullmatch(acquired)
        if match is None:
            return None
        fields: dict[str, Any] = match.groupdict()
        numbers = {name: int(fields[name]) for name in ("pid", "started", "since", "until")}
        return cls(**fields | numbers)

    @property
    def host(self) -> str:
        """The host name to pass to labgrid."""
        return (
            f"{self.node}~{_MARK}~{self.pid}~{self.started}~{self.system}~{self.since}"
            f"~{self.until}~{self.nonce}"
        )

    def __str__(self) -> str:
        return f"{self.host}/{self.user}"

    def prolonged(self, until: int) -> str:
        """Return the allowed user that records an extension until ``until``."""
        return f"{_MARK}~until~{until}/{self.user}"

    def ends(self, allowed: Iterable[str]) -> int:
        """Return the expiry with extensions, seconds since 1970, given the allowed users."""
        extensions = [int(match[1]) for name in allowed if (match := _PROLONGED.match(name))]
        return max([self.until, *extensions])

    @property
    def lives(self) -> bool | None:
        """Whether its process is alive; None for a process of another system."""
        if self.system != _this_system():
            return None
        return process_start(self.pid) == self.started

    def is_over(self, allowed: Iterable[str]) -> str:
        """Return why the place can be released; "" unless the holder has provably ended."""
        if self.lives is False:
            return f"process {self.pid} has ended"
        ends = self.ends(allowed)
        if ends + CLOCKS_DIFFER_S < time.time():
            return f"it expired at {utc(ends)}"
        return ""

    def describe(self, allowed: Iterable[str] = ()) -> str:
        """Return process, user, host and times, for messages."""
        times = f"since {utc(self.since)}, until {utc(self.ends(allowed))}"
        return f"process {self.pid} of {self.user} on {self.node}, {times}"


def utc(seconds: int) -> str:
    """Format a time in seconds since 1970 as ISO 8601."""
    return time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime(min(seconds, 253_402_300_799)))


@cache
def _this_system() -> str:
    """Return an id of this boot and pid namespace: pids of other systems cannot be checked."""
    try:
        boot = Path("/proc/sys/kernel/random/boot_id").read_text(encoding="utf-8")
        container = str(Path("/proc/self/ns/pid").readlink())
    except OSError:
        # Not Linux: no process of another run can be checked.
        boot, container = secrets.token_hex(8), ""
    parts = (socket.gethostname(), boot, container)
    return blake2b("\0".join(parts).encode(), digest_size=6).hexdigest()


class Inherited(msgspec.Struct, frozen=True):
    """A place that is held.

    Attributes:
        place: Its name.
        port: Address of its serial port.
        identity: The identity that acquired it.
        pid: The process that holds it.
    """

    place: str
    port: str
    identity: str
    pid: int


class _OfThread(threading.local):
    def __init__(self) -> None:
        self.places: dict[str, Inherited] = {}


_of_thread = _OfThread()
_environment = threading.Lock()


def held_already(key: str) -> Inherited | None:
    """Return the place that this thread, or a parent process for it, holds as ``key``; else None.

    A place held by another thread does not count: threads exclude each other, too.

    Raises:
        UsageError: The environment variable is invalid.
    """
    if key in _of_thread.places:
        return _of_thread.places[key]
    found = _published().get(key)
    return None if found is None or found.pid == os.getpid() else found


@contextmanager
def held_for_children(keys: Collection[str], held: Inherited) -> Iterator[None]:
    """Share a held place with this thread and the processes it starts, inside a ``with`` block."""
    known = dict.fromkeys(keys, held)
    _of_thread.places.update(known)
    _publish(known)
    try:
        yield
    finally:
        for key in keys:
            del _of_thread.places[key]
        _publish({}, without=keys)


def _published() -> dict[str, Inherited]:
    try:
        return decode_json(os.environ.get(VARIABLE) or "{}", type_=dict[str, Inherited])
    except msgspec.DecodeError as error:
        raise UsageError(f"invalid ${VARIABLE}: {error}") from error


def _publish(more: dict[str, Inherited], without: Collection[str] = ()) -> None:
    with _environment:
        places = {key: held for key, held in _published().items() if key not in without} | more
        if places:
            os.environ[VARIABLE] = msgspec.json.encode(places).decode()
        else:
            os.environ.pop(VARIABLE, None)


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
