"""Session: what a host asks of a device, one method each."""

from __future__ import annotations

import random
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from typing import Final

from harness.errors import DeviceRefusedError, LinkError, TargetError
from harness.link import messages
from harness.link.answers import DeviceClock, DeviceStatus, ModelInfo, TargetInfo, TensorInfo
from harness.link.baud import raise_baud
from harness.link.download import download
from harness.link.exchange import Exchange, Progress
from harness.link.options import USUAL, RunOptions
from harness.link.run import DeviceRun, RunOutcome
from harness.link.statistics import LinkStatistics
from harness.link.transfer import LogChunks
from harness.link.transports import Transport
from harness.link.upload import upload
from harness.link.wire import MIN_MTU, VERSION, Op, Region, Reset, Status
from harness.records.clock_domain import Ping

_HELLO_INTERVAL_S: Final = 0.25
"""A board that boots does not hear; asked so often, it is noticed soon after it does."""

_STATE_LOST: Final = (Status.WRONG_STATE, Status.BAD_REGION, Status.GAP, Status.BAD_INPUT)
"""Refusals that a device gives when it has forgotten what the host did."""


class Session:
    """A conversation with one device.

    Example:
        >>> session = Session(transport)  # doctest: +SKIP
        >>> session.hello(timeout_s=10)  # doctest: +SKIP
        >>> model = session.load_model(Path("model.pte").read_bytes())  # doctest: +SKIP

    Attributes:
        target: What the device said about itself; None before HELLO and after a reboot.
        statistics: What the link has carried and lost.
    """

    def __init__(
        self,
        transport: Transport,
        *,
        deadline_s: float = 2.0,
        retries: int = 4,
        console: Callable[[bytes], None] | None = None,
        check_alive: Callable[[], None] | None = None,
        board: str = "target",
        clock_ns: Callable[[], int] = time.monotonic_ns,
        seed: int | None = None,
    ) -> None:
        """Wrap a transport; nothing is sent yet.

        Args:
            transport: The byte stream; the caller closes it.
            deadline_s: Wait for an answer before the request is repeated, seconds.
            retries: How often a request is repeated.
            console: Takes the console text the device sends between frames.
            check_alive: Raises TargetError when the target is dead; called before the link is
                blamed.
            board: Name of the target in messages until it has said its own.
            clock_ns: The host's monotonic clock, nanoseconds.
            seed: Makes the session number repeatable, for tests.
        """
        # Never 0, which the device has after a reboot.
        self._id = random.Random(seed).randrange(1, 1 << 32)
        self._exchange = Exchange(
            transport,
            deadline_s=deadline_s,
            retries=retries,
            console=console,
            check_alive=check_alive,
            board=board,
            first_sequence=self._id,
            clock_ns=clock_ns,
        )
        self.target: TargetInfo | None = None

    @property
    def statistics(self) -> LinkStatistics:
        """What the link has carried and lost."""
        return self._exchange.statistics

    def hello(self, timeout_s: float) -> TargetInfo:
        """Greet the device until it answers; it may still be booting.

        Raises:
            DeviceRefusedError: It speaks no version of the protocol that we do.
            LinkError: It did not answer within ``timeout_s`` seconds.
            TargetError: The target died.
        """
        exchange = self._exchange
        exchange.greeted = False
        exchange.use_first_baud()
        sequence = exchange.next_sequence()
        body = messages.hello_request(self._id)
        deadline = exchange.now() + timeout_s
        while (now := exchange.now()) < deadline:
            until = min(now + _HELLO_INTERVAL_S, deadline)
            answer = exchange.attempt(Op.HELLO, sequence, body, messages.parse_hello, until)
            if answer is not None:
                return self._greet(answer[0])
            exchange.check_alive()
        raise exchange.failure(
            f"no answer to HELLO within {timeout_s:g} s",
            hint="is it powered, flashed with our firmware, and is this its port and baud rate?",
        )

    def raise_baud(self, wanted: Sequence[int]) -> int:
        """Move the line to the first of ``wanted`` that device, port and line can do.

        Returns:
            The rate then, bits per second; the line may also stay at the one it has.

        Raises:
            LinkError: Device and host cannot hear each other any more.
            TargetError: The target died.
        """
        offered = self.target.bauds if self.target is not None else ()
        return raise_baud(self._exchange, offered, wanted)

    def restore_baud(self) -> int:
        """Move the line back to the rate it began with, where whoever comes next looks for it.

        Returns:
            That rate, bits per second; 0 when the connection has none.

        Raises:
            LinkError: Device and host cannot hear each other any more.
            TargetError: The target died.
        """
        return self.raise_baud([self._exchange.first_baud])

    def ping(self) -> Ping:
        """Read the device's clock.

        Raises:
            LinkError: No answer in time.
            TargetError: The target died.
        """
        exchange = self._exchange
        for attempt in range(exchange.retries + 1):
            exchange.statistics.retries += bool(attempt)
            if attempt > 1:
                exchange.fall_back()
            # A new sequence number each time: a late answer to an earlier PING must not be
            # taken for one to this, whose bracket it does not fit.
            sequence = exchange.next_sequence()
            before = exchange.clock_ns()
            until = exchange.now() + exchange.deadline_s
            answer = exchange.attempt(Op.PING, sequence, b"", messages.parse_ping, until)
            if answer is not None:
                device: DeviceClock = answer[0]
                return Ping(before, exchange.clock_ns(), device.epoch, device.ticks)
            exchange.check_alive()
        raise exchange.failure(f"no answer to PING, asked {exchange.retries + 1} times")

    def status(self) -> DeviceStatus:
        """Ask what the device is doing.

        Raises:
            LinkError: No answer in time, or another host has taken over.
            TargetError: The device restarted by itself, or died.
        """
        status = self._exchange.request(Op.STATUS, b"", messages.parse_status)
        if self.target is not None and status.session != self._id:
            board = self._exchange.board
            if status.session == 0:
                raise self._exchange.restarted()
            raise LinkError(f"{board}: another host has begun a session with this board")
        self.statistics.overruns = status.overruns
        return status

    def load_model(
        self, data: bytes, *, method: str = "", progress: Progress | None = None
    ) -> ModelInfo:
        """Upload a ``.pte`` file and have the device check it.

        Args:
            data: The file.
            method: The method that will run; empty for ``forward``.
            progress: Called with (bytes arrived, bytes in all).

        Raises:
            DeviceRefusedError: It does not fit, is not valid, or needs what the device has not.
            LinkError: It could not be brought over.
            TargetError: The device restarted or died.
        """
        with self._noticing_restart():
            return upload(
                self._exchange, Region.MODEL, 0, data, messages.parse_model, progress, method
            )

    def set_input(self, index: int, data: bytes, *, sizes: Sequence[int] = ()) -> None:
        """Stage the bytes of an input tensor for the executions to come.

        Args:
            index: Number of the input.
            data: Its elements, in the order they have in memory.
            sizes: Of an input of dynamic shape: its sizes; none for the largest.

        Raises:
            DeviceRefusedError: There is no such input, or it has another size.
            LinkError: It could not be brought over.
            TargetError: The device restarted or died.
        """
        with self._noticing_restart():
            upload(*(self._exchange, Region.INPUT, index, data, messages.parse_empty), sizes=sizes)

    def output_info(self, index: int, declared: TensorInfo) -> TensorInfo:
        """Return what an output is after a run: one of dynamic shape may be smaller than declared.

        Raises:
            DeviceRefusedError: There is no such output.
            LinkError: No answer in time.
            TargetError: The device restarted or died.
        """
        if not declared.dynamic:
            return declared
        with self._noticing_restart():
            info = self._exchange.request(
                Op.STAT,
                messages.stat_request(Region.OUTPUT, index),
                messages.parse_stat,
                patient=True,
            )
        return replace(declared, sizes=info.sizes, nbytes=info.size)

    def run(
        self,
        count: int,
        options: RunOptions = USUAL,
        *,
        chunks: LogChunks | None = None,
        timeout_s: float,
        progress: Progress | None = None,
    ) -> RunOutcome:
        """Execute the model.

        Args:
            count: Number of executions.
            options: What to log, and how.
            chunks: Takes what the device sends of the log meanwhile, so that it is there also
                when the run fails.
            timeout_s: Longest wait for the end of the next execution, seconds.
            progress: Called with (executions completed, ``count``).

        Raises:
            DeviceRefusedError: The device refused, or a kernel failed.
            LinkError: The request did not get through.
            TargetError: The device hangs, restarted or died.
        """
        # Counted from the device's last run, not random: the id stands in progress notes, which a
        # deterministic target must spend the same time on in every session.
        with self._noticing_restart():
            run_id = self.status().run_id % 0xFFFFFFFF + 1
            return DeviceRun(
                self._exchange,
                self.status,
                run_id,
                count,
                options=options,
                chunks=chunks or LogChunks(),
                timeout_s=timeout_s,
                progress=progress,
            ).execute()

    def read(
        self,
        region: Region,
        index: int = 0,
        *,
        progress: Progress | None = None,
        window: int | None = None,
    ) -> bytes:
        """Read a region whole and checked against the device's digest.

        Args:
            region: OUTPUT, TRACE or POSTMORTEM.
            index: Number of the output.
            progress: Called with (bytes received, bytes in all).
            window: Bytes under way; None chooses by the MTU.

        Raises:
            DeviceRefusedError: There is nothing to read.
            LinkError: It could not be brought over whole.
            TargetError: The device restarted or died.
        """
        with self._noticing_restart():
            began = self._exchange.clock_ns()
            data = download(self._exchange, region, index, progress, window)
            self.statistics.read_bytes += len(data)
            self.statistics.read_us += (self._exchange.clock_ns() - began) // 1000
            return data

    def reset(self, kind: Reset = Reset.SESSION) -> None:
        """Make the device forget model, inputs and trace, or what a crash has left, or reboot.

        After a reboot HELLO comes first.

        Raises:
            LinkError: No answer in time.
            TargetError: The target died.
        """
        self._exchange.request(Op.RESET, messages.reset_request(kind), messages.parse_empty)
        if kind == Reset.REBOOT:
            self.target = None
            self._exchange.greeted = False
            self._exchange.mtu = MIN_MTU

    def _greet(self, info: TargetInfo) -> TargetInfo:
        if info.version != VERSION:
            raise TargetError(
                f"{info.board}: the device chose link version {info.version}, not {VERSION}"
            )
        self.target = info
        self._exchange.greeted = True
        self._exchange.board = info.board or self._exchange.board
        self._exchange.mtu = info.mtu
        return info

    @contextmanager
    def _noticing_restart(self) -> Iterator[None]:
        """Turn a refusal by a device that has lost its state into the reason it has."""
        try:
            yield
        except DeviceRefusedError as error:
            if error.status in _STATE_LOST:
                self.status()
            raise
