"""Session: the requests of the link to one device, one method each, and the rate of its line."""

from __future__ import annotations

import hashlib
import logging
import random
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from typing import Final

from harness.errors import (
    DeviceRefusedError,
    InfrastructureError,
    LinkError,
    RunInProgressError,
    TargetError,
)
from harness.link import messages, wire
from harness.link.exchange import Exchange, Progress
from harness.link.frames import Frame
from harness.link.messages import (
    DEFAULT_OPTIONS,
    Answer,
    BaudBody,
    CommitBody,
    CounterList,
    DeviceClock,
    DeviceStatus,
    ModelInfo,
    RunOptions,
    TargetInfo,
    TensorInfo,
)
from harness.link.run import DeviceRun, RunOutcome, read_note, wait_for_end
from harness.link.transfers import MOST_REGION, LogChunks, download, upload
from harness.link.transports import Transport
from harness.printing import counted
from harness.records.trace import Ping

_PROBES: Final = 4
"""PINGs at the new rate, within the time that the device stays there without a good frame."""


_TRIAL_S: Final = wire.BAUD_TRIAL_MS / 1000


def _port_supports(exchange: Exchange, baud: int) -> bool:
    before = exchange.baud
    try:
        exchange.set_baud(baud)
    except InfrastructureError as error:
        _log.info("%s", error.message)
        return False
    exchange.set_baud(before)
    return True


def _answers_ping(exchange: Exchange) -> bool:
    """Send PINGs for as long as the device stays at a new rate without a good frame."""
    asked = set()
    for _ in range(_PROBES):
        sequence = exchange.next_sequence()
        asked.add(sequence)
        exchange.send(wire.Op.PING, sequence, b"")
        until = exchange.now() + _TRIAL_S / _PROBES
        while (heard := exchange.listen(until)) is not None:
            if not isinstance(heard, Frame):
                continue
            # A response to an earlier PING counts, too: the device may be slow.
            if heard.type == wire.Op.PING | wire.RESPONSE and heard.sequence in asked:
                return True
            exchange.statistics.stale_answers += 1
    return False


def _reconnect(exchange: Exchange) -> None:
    """Send PINGs at the first rate until the device has fallen back to it, too.

    Raises:
        LinkError: The device does not answer in time.
        TargetError: The target died.
    """
    give_up_at = exchange.now() + _TRIAL_S + (exchange.retries + 1) * exchange.deadline_s
    while not _answers_ping(exchange):
        exchange.check_alive()
        if exchange.now() >= give_up_at:
            raise exchange.failure(
                f"no answer after the fallback to {exchange.baud} baud",
                hint="reset the board; leave the rate alone with --baud if this happens again",
            )


_log = logging.getLogger(__name__)


_HEADERS: Final = 4096
"""Bytes of a log that are not in the device's buffer: headers, which it makes when it sends."""


_HELLO_INTERVAL_S: Final = 0.25
"""Interval of HELLOs to a booting board, which does not receive yet."""


_STATE_LOST: Final = (
    wire.Status.WRONG_STATE,
    wire.Status.BAD_REGION,
    wire.Status.GAP,
    wire.Status.BAD_INPUT,
)
"""Statuses that can mean that the device restarted and lost its state."""


class Session:
    """A conversation with one device.

    Examples:
        >>> session = Session(transport)  # doctest: +SKIP
        >>> session.hello(timeout_s=10)  # doctest: +SKIP
        >>> model = session.load_model(Path("model.pte").read_bytes())  # doctest: +SKIP

    Attributes:
        target: The device's description of itself; None before HELLO and after a reboot.
        statistics: Counters of the link.
        may_have_values: The device may have logged values of tensors: not in a run that logs none.
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
            deadline_s: Wait for a response before the request is repeated, seconds.
            retries: Retry limit of a request.
            console: Called with console text that the device sends between frames.
            check_alive: Raises TargetError if the target is dead; called before a failure is
                attributed to the link.
            board: Name of the target in messages until HELLO returns its own.
            clock_ns: The host's monotonic clock, nanoseconds.
            seed: Makes the session number repeatable, for tests.
        """
        # Never 0, the device's session number after a reboot.
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
        self.statistics = self._exchange.statistics
        self.target: TargetInfo | None = None
        self._state: int | None = None
        """State of the device as HELLO told it, until a request may have changed it."""
        self._last_run_id: int | None = None
        self.may_have_values = True
        self._running: DeviceRun | None = None

    def hello(self, timeout_s: float) -> TargetInfo:
        """Send HELLO until the device answers; it may still be booting.

        Raises:
            DeviceRefusedError: It has no protocol version in common with us.
            LinkError: It did not answer within ``timeout_s`` seconds, nor PINGs after that.
            RunInProgressError: It executes the run of an earlier session; see `join`.
            TargetError: The target died.
        """
        exchange = self._exchange
        exchange.greeted = False
        exchange.restore_first_baud()
        sequence = exchange.next_sequence()
        body = messages.HelloBody(self._id).encode()
        deadline = exchange.now() + timeout_s
        while (now := exchange.now()) < deadline:
            until = min(now + _HELLO_INTERVAL_S, deadline)
            answer = exchange.attempt(
                wire.Op.HELLO, sequence, body, messages.TargetInfo.parse, until
            )
            if answer is not None:
                break
            exchange.check_alive()
        else:
            raise exchange.failure(
                f"no answer to HELLO within {timeout_s:g} s",
                hint="check that the board is powered and flashed with our firmware, and that port "
                "and baud rate are right; a board that runs a model answers after the execution",
            )
        info = answer[0]
        if info.link_version != wire.VERSION:
            raise TargetError(
                f"{info.board}: the device chose link version {info.link_version}, "
                f"not {wire.VERSION}",
                hint="build and flash firmware of this version of the harness",
            )
        if not info.clocks:
            raise TargetError(
                f"{info.board}: the device declares no clock in its answer to HELLO",
                hint="give etd_server_t the clocks of the port, as in firmware_stub/ports/template",
            )
        self.target = info
        self._state, self._last_run_id = info.state, info.last_run_id
        exchange.greeted = True
        exchange.board = info.board or exchange.board
        exchange.set_mtu(info.mtu)
        return info

    def raise_baud(self, wanted: Sequence[int]) -> int:
        """Switch to the first baud rate of ``wanted`` that device, port and line support.

        Returns:
            The new rate, bits per second; the present one if none of ``wanted`` works.

        Raises:
            LinkError: The device does not answer at the first rate any more, either.
            TargetError: The target died.
        """
        exchange = self._exchange
        offered = self.target.bauds if self.target is not None else ()
        for baud in wanted:
            if baud == exchange.baud:
                break
            if baud not in offered or not _port_supports(exchange, baud):
                continue
            try:
                exchange.request(wire.Op.BAUD, BaudBody(baud).encode(), Answer.parse)
            except DeviceRefusedError as error:
                _log.info("%s", error.message)
                continue
            exchange.set_baud(baud)
            if _answers_ping(exchange):
                break
            _log.warning(
                "%s: no answer at %d baud, falling back to %d",
                exchange.board,
                baud,
                exchange.first_baud,
            )
            exchange.fall_back()
            _reconnect(exchange)
        return exchange.baud

    def restore_baud(self) -> int:
        """Switch back to the first baud rate, at which the next session will start.

        Returns:
            That rate, bits per second; 0 if the connection has no rate.

        Raises:
            LinkError: The device does not answer any more.
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
            # A new sequence number each time: a late response to an earlier PING must not be
            # matched with this one, because its reading lies outside this bracket of host times.
            sequence = exchange.next_sequence()
            before = exchange.clock_ns()
            until = exchange.now() + exchange.deadline_s
            answer = exchange.attempt(
                wire.Op.PING, sequence, b"", messages.DeviceClock.parse, until
            )
            if answer is not None:
                device: DeviceClock = answer[0]
                return Ping(before, exchange.clock_ns(), device.epoch, device.ticks)
            exchange.check_alive()
        raise exchange.failure(f"no answer to PING, sent {counted(exchange.retries + 1, 'time')}")

    def status(self) -> DeviceStatus:
        """Read the device's state.

        Raises:
            LinkError: No response in time, or another host has taken over.
            TargetError: The device restarted by itself, or died.
        """
        status = self._exchange.request(wire.Op.STATUS, b"", messages.DeviceStatus.parse)
        self._check_session(status)
        return status

    def _check_session(self, status: DeviceStatus) -> None:
        if self.target is not None and status.session != self._id:
            board = self._exchange.board
            if status.session == 0:
                raise self._exchange.restarted()
            raise LinkError(
                f"{board}: another host has started a session with this board",
                hint="find the other program that uses its port, and end it",
            )
        self.statistics.overruns = status.overruns

    def counters(self) -> CounterList:
        """Return the hardware counters that a run can select; none for older firmware.

        Raises:
            LinkError: No response in time.
            TargetError: The device restarted or died.
        """
        offered = CounterList()
        try:
            while True:
                part = self._exchange.request(
                    wire.Op.COUNTERS,
                    messages.CountersBody(len(offered.counters)).encode(),
                    CounterList.parse,
                )
                known = (*offered.counters, *part.counters)
                offered = replace(part, counters=known)
                if len(known) >= part.count or not part.counters:
                    return offered
        except DeviceRefusedError as error:
            if error.status == wire.Status.UNKNOWN_OP:
                return CounterList()
            raise

    def load_model(
        self,
        data: bytes,
        *,
        digest: bytes = b"",
        method: str = "",
        progress: Progress | None = None,
    ) -> ModelInfo:
        """Have the device load a ``.pte`` file; upload it unless the device holds it already.

        Args:
            data: The file; not uploaded if it is in the firmware image.
            digest: Its SHA-256, if that is known already.
            method: The method that will run; empty for ``forward``.
            progress: Called with (bytes arrived, total bytes).

        Raises:
            DeviceRefusedError: The file is too large or invalid, or needs an unsupported feature.
            LinkError: The upload failed.
            TargetError: The device restarted or died.
        """
        digest = digest or hashlib.sha256(data).digest()
        commit = CommitBody(wire.Region.MODEL, 0, digest, method)
        with self._noticing_restart():
            held = self._load_held(commit)
            if held is not None:
                return held
            self.statistics.model_bytes += len(data)
            return upload(self._exchange, commit, data, messages.ModelInfo.parse, progress)

    def _load_held(self, asked: CommitBody) -> ModelInfo | None:
        """Load the model that the device holds, if it has the digest that is asked for.

        It holds that of an earlier run, or has one in its image. A COMMIT without an upload has the
        device compare the digest.
        """
        commit = asked.encode()
        if self.target is not None and self.target.holds(asked.digest):
            # A refusal is final: an upload would be refused for the same reason.
            return self._exchange.request(
                wire.Op.COMMIT, commit, messages.ModelInfo.parse, backoff=True
            )
        state, self._state = self._state, None
        if state is None:
            # Not status(), which reports a restart as an error: an upload works after one.
            state = self._exchange.request(wire.Op.STATUS, b"", messages.DeviceStatus.parse).state
        if state not in (wire.State.READY, wire.State.DONE):
            return None
        try:
            held = self._exchange.request(
                wire.Op.COMMIT, commit, messages.ModelInfo.parse, backoff=True
            )
        except DeviceRefusedError as error:
            _log.debug("uploading the model: %s", error.message)
            return None
        _log.info("the device holds the model already")
        return held

    def set_input(self, index: int, data: bytes, *, sizes: Sequence[int] = ()) -> None:
        """Stage the bytes of an input tensor for the next executions.

        Args:
            index: Number of the input.
            data: Its elements in memory order.
            sizes: Shape of a dynamic input; empty for its upper bounds.

        Raises:
            DeviceRefusedError: There is no such input, or it has another size.
            LinkError: The upload failed.
            TargetError: The device restarted or died.
        """
        with self._noticing_restart():
            digest = hashlib.sha256(data).digest()
            commit = CommitBody(wire.Region.INPUT, index, digest)
            upload(self._exchange, commit, data, Answer.parse, sizes=sizes)

    def output_info(self, index: int, declared: TensorInfo) -> TensorInfo:
        """Return the type and actual shape of an output after a run.

        Raises:
            DeviceRefusedError: There is no such output.
            LinkError: No answer in time.
            TargetError: The device restarted or died.
        """
        if not declared.dynamic:
            return declared
        with self._noticing_restart():
            info = self._exchange.request(
                wire.Op.STAT,
                messages.StatBody(wire.Region.OUTPUT, index).encode(),
                messages.RegionInfo.parse,
                backoff=True,
            )
        if len(info.sizes) != len(declared.sizes) or any(
            not 0 <= size <= bound for size, bound in zip(info.sizes, declared.sizes, strict=True)
        ):
            raise TargetError(
                f"{self._exchange.board}: the device says that output {index} has the sizes "
                f"{list(info.sizes)}; the model allows at most {list(declared.sizes)}"
            )
        return replace(declared, sizes=info.sizes, nbytes=info.size)

    def run(
        self,
        count: int,
        options: RunOptions = DEFAULT_OPTIONS,
        *,
        chunks: LogChunks | None = None,
        timeout_s: float,
        progress: Progress | None = None,
    ) -> RunOutcome:
        """Execute the model.

        Args:
            count: Number of executions.
            options: What to log, and how.
            chunks: Collects log chunks streamed during the run; they are available to the caller
                even if the run fails.
            timeout_s: Longest wait for the end of the next execution, seconds.
            progress: Called with (executions completed, ``count``).

        Raises:
            DeviceRefusedError: The device refused, or a kernel failed.
            LinkError: The request was not answered.
            TargetError: The device hangs, restarted or died.
        """
        # Counted from the device's last run, not random: progress notifications contain the id, and
        # a deterministic target must send the same bytes in every session.
        with self._noticing_restart():
            self._running = None
            if self._last_run_id is None:
                self._last_run_id = self.status().run_id
            run_id = self._last_run_id = self._last_run_id % 0xFFFFFFFF + 1
            self.may_have_values = options.debug_level != wire.DebugLevel.NO_LOGGING
            self._running = DeviceRun(
                self._exchange,
                self.status,
                run_id,
                count,
                options=options,
                chunks=chunks or LogChunks(),
                timeout_s=timeout_s,
                progress=progress,
            )
            outcome = self._running.execute()
            self._running = None
            return outcome

    @property
    def is_running(self) -> bool:
        """Whether `run` has requested a run whose end is not known, as after an interruption."""
        return self._running is not None and self._running.is_requested

    def cancel(self, timeout_s: float) -> RunOutcome | None:
        """End the run that `run` has begun and not finished, after its current execution.

        Returns:
            What the run has completed; None if the device did not confirm its end within
            ``timeout_s`` seconds, or if no run was requested.

        Raises:
            DeviceRefusedError: The run has failed.
            LinkError: The stream ended.
            TargetError: The device restarted or died.
        """
        return self._running.cancel(timeout_s) if self._running is not None else None

    def join(
        self,
        run: RunInProgressError,
        *,
        timeout_s: float,
        silence_s: float,
        cancel: bool = False,
        progress: Progress | None = None,
    ) -> None:
        """Wait for the end of an earlier session's run, which `hello` found. Call `hello` next.

        Args:
            run: The run.
            timeout_s: Longest wait, seconds.
            silence_s: Longest wait for a sign of the run, seconds.
            cancel: Ask the device to end the run after its current execution.
            progress: Called with (executions completed, executions requested).

        Raises:
            DeviceRefusedError: The device cannot cancel it.
            RunInProgressError: The run has not ended in time.
            TargetError: The device restarted or died.
        """
        ended = wait_for_end(
            self._exchange,
            run.run_id,
            lambda frame: read_note(self._exchange, frame, run.run_id),
            timeout_s=timeout_s,
            silence_s=silence_s,
            cancel=cancel,
            progress=lambda completed: progress(completed, run.count) if progress else None,
        )
        if ended is None:
            raise run

    def read(
        self,
        region: wire.Region,
        index: int = 0,
        *,
        progress: Progress | None = None,
        window: int | None = None,
        most: int | None = None,
    ) -> bytes:
        """Read a whole region and verify its digest.

        Args:
            region: OUTPUT, TRACE or POSTMORTEM.
            index: Number of the output.
            progress: Called with (bytes received, total bytes).
            window: Bytes in flight; None for a multiple of the MTU.
            most: Most bytes that the region can have; None for what the device's buffer holds.

        Raises:
            DeviceRefusedError: The region is empty or missing.
            LinkError: The download failed.
            TargetError: The device restarted or died, or claims a larger region.
        """
        with self._noticing_restart():
            began = self._exchange.clock_ns()
            if most is None and region == wire.Region.TRACE and self.target is not None:
                info = self.target
                buffer = info.debug_capacity if index else info.trace_capacity
                most = buffer + _HEADERS if buffer else None
            if most is None:
                most = MOST_REGION
            data = download(
                self._exchange, region, index, progress, window, self._check_session, most
            )
            self.statistics.read_bytes += len(data)
            self.statistics.read_us += (self._exchange.clock_ns() - began) // 1000
            return data

    def reset(self, kind: wire.Reset = wire.Reset.SESSION) -> None:
        """Clear the device's model, inputs and trace, or its crash record, or reboot it.

        After a reboot, call `hello` first.

        Raises:
            LinkError: No response in time.
            TargetError: The target died.
        """
        self._exchange.request(wire.Op.RESET, messages.ResetBody(kind).encode(), Answer.parse)
        self._state = None
        if kind == wire.Reset.REBOOT:
            self.target = self._last_run_id = None
            self._exchange.greeted = False
            self._exchange.set_mtu(wire.MIN_MTU)

    @contextmanager
    def _noticing_restart(self) -> Iterator[None]:
        """Replace refusals caused by a restart of the device by the error for the restart."""
        try:
            yield
        except DeviceRefusedError as error:
            if error.status in _STATE_LOST:
                self.status()
            raise
