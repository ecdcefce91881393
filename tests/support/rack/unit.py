"""A simulated unit: its firmware's serial line behind a TCP port, and what goes wrong with it."""

from __future__ import annotations

import asyncio
import os
import random
from collections.abc import Callable, Mapping
from contextlib import suppress
from pathlib import Path

from harness import Region
from harness.link.messages import BatchBody
from harness.testing import RESPONSE, Frame, FrameDecoder, Op
from tests.support.rack.client import run_directory_of
from tests.support.rack.faults import Kind, Lasts, When
from tests.support.rack.firmware import Firmware, Image

HOST = "127.0.0.1"
BLINK_S = 0.3
PATIENCE_S = 0.5
"""The connection before may take so long to be seen closed; then a second one is an intruder."""
_LONGEST_FRAME = 65_535
_APART = (20_000, 40_000)
"""Bytes between two that noise changes: more than a frame has."""
_READ_SIZE = 65_536


class SimulatedUnit:
    """A unit on the rack.

    Attributes:
        name: What the lab calls it.
        port: Its TCP port.
        plan: Faults to come, by the number of the session they begin in.
        fault: What is wrong with it now.
        sessions: How many times a model was brought to it.
        intruders: Connections that came while another one was there.
        cycles: How often its power came back.
        flashes: How often a tool was asked to flash it.
    """

    def __init__(
        self,
        name: str,
        images: Mapping[Image, Path],
        seed: str,
        report: Callable[[SimulatedUnit, Kind | None, Path | None], None],
    ) -> None:
        self.name, self.port = name, 0
        self.plan: dict[int, Kind] = {}
        self.fault: Kind | None = None
        self.sessions = self.intruders = self.cycles = self.flashes = 0
        self._images, self._report = images, report
        self._image = images[Image.RIGHT]
        self._random = random.Random(seed)
        self._firmware: Firmware | None = None
        self._server: asyncio.Server | None = None
        self._client: _Client | None = None
        self._waiting: asyncio.Task[None] | None = None
        self._held = bytearray()
        """What the host has sent and the firmware not taken."""
        self._deaf = False
        """What the firmware says is dropped."""
        self._decoder = FrameDecoder(_LONGEST_FRAME)
        self._heard: FrameDecoder | None = None
        """Looks for the answer to RUN, while that has not come."""
        self._greeting = self._session = b""
        """The session that the host has greeted with, and the one it has announced a model in."""
        self._directory: Path | None = None
        """Of the run that has the session."""
        self._quiet_bytes = {"up": 0, "down": 0}
        """How many bytes noise still leaves alone, each way."""

    async def start(self) -> None:
        """Give it power and put it on the network."""
        self._boot()
        await self._listen()
        self._begin(When.BEFORE)

    def status(self) -> dict[str, object]:
        return {
            "port": self.port,
            "fault": self.fault,
            "sessions": self.sessions,
            "intruders": self.intruders,
            "cycles": self.cycles,
            "flashes": self.flashes,
            "power": self._firmware is not None,
        }

    # What a lab's tools do.

    async def power(self, *, on: bool) -> None:
        """Take its power away, or give it back."""
        if not on:
            self._unboot()
            return
        if self._firmware is not None:
            return
        self.cycles += 1
        if self.fault is not None and self.fault.effect.lasts is Lasts.POWER:
            self.fault = None
            await self._listen()
        if self.fault is not Kind.DEAD:
            self._boot()

    async def flash(self, image: Path) -> None:
        """Do what a flash tool does, or says that it does."""
        self.flashes += 1
        if self.fault in (Kind.UNFLASHABLE, Kind.OTHER_BOARD, Kind.DEAD):
            return
        self._image = image
        if self.fault is not None and self.fault.effect.lasts is Lasts.FLASH:
            self.fault = None
        self._unboot()
        self._boot()

    async def cure(self) -> None:
        """Repair what is wrong with it."""
        self.fault, self._deaf = None, False
        self._become(Image.RIGHT)
        await self._listen()

    def meet(self, kind: Kind) -> None:
        """Have a fault begin in the next session."""
        self.plan[self.sessions + 1] = kind
        self._begin(When.BEFORE)

    # Its line.

    def connected(self, client: _Client) -> None:
        if self._client is None:
            self._client = client
            self._decoder = FrameDecoder(_LONGEST_FRAME)
            self._heard = None
        else:
            self._waiting = asyncio.create_task(self._succeed(client))

    def holds(self, client: _Client) -> bool:
        """Whether it is the one that was let in."""
        return client is self._client

    async def _succeed(self, client: _Client) -> None:
        """Let a connection in when the one before it has gone."""
        waited = 0.0
        while self._client is not None and waited < PATIENCE_S:
            await asyncio.sleep(0.01)
            waited += 0.01
        if self._client is not None:
            self.intruders += 1
            client.transport.close()
        else:
            self.connected(client)
            client.release()

    def lost(self, client: _Client) -> None:
        if client is not self._client:
            return
        self._client = None
        self._deaf = False
        if not self._session:  # asked how it is, and nothing more
            return
        if self.fault is not None and self.fault.effect.lasts is Lasts.SESSION:
            self.fault = None
        if self.fault is None:
            self._begin(When.BEFORE)

    def from_host(self, data: bytes) -> None:
        """Take what the host sends."""
        if self._firmware is not None:
            self._held += self._noisy("up", data)
            self._pass_on()
        if self.fault is Kind.GARBAGE and self._client is not None:
            self._client.transport.write(self._random.randbytes(len(data)))
        for item in self._decoder.feed(data):
            if isinstance(item, Frame) and item.type == Op.BATCH:
                for part in BatchBody.parse(item.body).parts:
                    self._watch(Frame(part.op, item.sequence, part.body))
            elif isinstance(item, Frame):
                self._watch(item)

    def _watch(self, frame: Frame) -> None:
        assert self._client is not None
        if frame.type == Op.HELLO and frame.body[-4:] != self._greeting:
            self._greeting, self._session = frame.body[-4:], b""
        elif frame.type in (Op.OPEN, Op.COMMIT) and frame.body[:1] == bytes((Region.MODEL,)):
            # A COMMIT comes first if the firmware may hold the model of an earlier run.
            if self._session != self._greeting:
                self._session = self._greeting
                self.sessions += 1
                self._directory = run_directory_of(self.port, self._client.peer)
                self._report(self, None, self._directory)
            self._begin(When.UPLOAD)
        elif frame.type == Op.RUN:
            self._heard = FrameDecoder(_LONGEST_FRAME)
        elif frame.type == Op.STAT and frame.body[:1] == bytes((Region.TRACE,)):
            self._begin(When.PULL)

    def _pass_on(self) -> None:
        loop = asyncio.get_running_loop()
        if self._firmware is None:
            self._held.clear()
            return
        with suppress(BlockingIOError, OSError):
            del self._held[: os.write(self._firmware.line, self._held)]
        if self._held:
            loop.add_writer(self._firmware.line, self._pass_on)
        else:
            loop.remove_writer(self._firmware.line)

    def _from_firmware(self) -> None:
        assert self._firmware is not None
        try:
            data = os.read(self._firmware.line, _READ_SIZE)
        except BlockingIOError:
            return
        except OSError:
            data = b""
        if not data:  # it has ended
            self._unboot()
            return
        if self._deaf:
            return
        if self._heard is not None:
            data = self._until_run_began(data)
        if self._client is not None:
            self._client.transport.write(self._noisy("down", data))

    def _until_run_began(self, data: bytes) -> bytes:
        """Begin what begins in a run once the firmware has said that it does; nothing after that is
        heard if it is not to be.
        """
        assert self._heard is not None
        for place in range(len(data)):
            for item in self._heard.feed(data[place : place + 1]):
                if isinstance(item, Frame) and item.type == Op.RUN | RESPONSE:
                    self._heard = None
                    self._begin(When.RUN)
                    return data[: place + 1] if self._deaf else data
        return data

    def _noisy(self, way: str, data: bytes) -> bytes:
        if self.fault is Kind.GARBAGE:
            return self._random.randbytes(len(data))
        if self.fault is not Kind.NOISE:
            return data
        made = bytearray()
        while len(data) > self._quiet_bytes[way]:
            quiet = self._quiet_bytes[way]
            byte = data[quiet]
            changed = (bytes((byte ^ 1 << self._random.randrange(8),)), b"", bytes((byte, byte)))
            made += data[:quiet] + self._random.choice(changed)
            data = data[quiet + 1 :]
            self._quiet_bytes[way] = self._random.randrange(*_APART)
        self._quiet_bytes[way] -= len(data)
        return bytes(made + data)

    # What goes wrong.

    def _begin(self, when: When) -> None:
        """Begin the fault that is planned for this moment, or what goes on since an earlier one."""
        session = self.sessions + (when is When.BEFORE)
        if (kind := self.plan.get(session)) is not None and kind.effect.when is when:
            del self.plan[session]
            self.fault = kind
            self._report(self, kind, None if when is When.BEFORE else self._directory)
            self._act(kind)
        elif self.fault is Kind.CRASHES and when is When.RUN:
            self._act(self.fault)

    def _act(self, kind: Kind) -> None:
        match kind:
            case Kind.BLINK | Kind.BLINK_PULL:
                self._vanish()
                asyncio.get_running_loop().call_later(BLINK_S, self._come_back)
            case Kind.UNPLUGGED | Kind.GONE:
                self._vanish()
            case Kind.NOISE | Kind.GARBAGE:
                self._quiet_bytes = {way: self._random.randrange(*_APART) for way in ("up", "down")}
            case Kind.FULL_DISK:
                if self._directory is not None:
                    fill(self._directory)
            case _:
                self._misbehave(kind)

    def _misbehave(self, kind: Kind) -> None:
        """Do to the firmware what a kind of fault does to it."""
        match kind:
            case Kind.OLD_FIRMWARE | Kind.UNFLASHABLE:
                self._become(Image.OTHER_BUILD)
            case Kind.OTHER_BOARD:
                self._become(Image.OTHER_BOARD)
            case Kind.HANG | Kind.DEAD:
                self._deaf = True
                if self._firmware is not None:
                    self._firmware.hang()
            case Kind.CRASH | Kind.CRASHES:
                if self._firmware is not None:
                    self._firmware.crash()

    def _become(self, image: Image) -> None:
        self._image = self._images[image]
        self._unboot()
        self._boot()

    def _boot(self) -> None:
        if self._firmware is None:
            self._firmware = Firmware(self._image)
            asyncio.get_running_loop().add_reader(self._firmware.line, self._from_firmware)

    def _unboot(self) -> None:
        if self._firmware is not None:
            loop = asyncio.get_running_loop()
            loop.remove_reader(self._firmware.line)
            loop.remove_writer(self._firmware.line)
            self._firmware.end()
            self._firmware = None
            self._held.clear()

    async def _listen(self) -> None:
        if self._server is None:
            loop = asyncio.get_running_loop()
            self._server = await loop.create_server(lambda: _Client(self), HOST, self.port)
            self.port = self._server.sockets[0].getsockname()[1]

    def _vanish(self) -> None:
        if self._server is not None:
            self._server.close()
            self._server = None
        if self._client is not None:
            self._client.transport.abort()

    def _come_back(self) -> None:
        if self.fault in (Kind.BLINK, Kind.BLINK_PULL):
            self.fault = None
            self._returning = asyncio.ensure_future(self._listen())

    def close(self) -> None:
        """End its firmware and its port."""
        self._vanish()
        self._unboot()


class _Client(asyncio.Protocol):
    """A connection to a unit's port."""

    def __init__(self, unit: SimulatedUnit) -> None:
        self._unit = unit
        self._early = b""
        self._let_in = False
        self.peer = 0

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        assert isinstance(transport, asyncio.Transport)
        self.transport = transport
        self.peer = transport.get_extra_info("peername")[1]
        self._unit.connected(self)
        self._let_in = self._unit.holds(self)

    def data_received(self, data: bytes) -> None:
        if self._let_in:
            self._unit.from_host(data)
        else:
            self._early += data

    def release(self) -> None:
        """Pass on what has come before it was let in."""
        self._let_in = True
        early, self._early = self._early, b""
        self._unit.from_host(early)

    def connection_lost(self, error: Exception | None) -> None:
        del error
        self._unit.lost(self)


def fill(directory: Path) -> None:
    """Let what a run writes last into its directory find a full disk: a device that is one."""
    for name in ("trace.etlog", "result.json"):
        partial = directory / f".{name}.partial"
        partial.unlink(missing_ok=True)
        partial.symlink_to("/dev/full")
