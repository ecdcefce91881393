"""Changes the baud rate of a line; both ends fall back to the first rate if it does not work."""

from __future__ import annotations

import logging
from collections.abc import Sequence
from typing import Final

from harness.errors import DeviceRefusedError, InfrastructureError
from harness.link.exchange import Exchange
from harness.link.frames import Frame
from harness.link.messages import baud_request, parse_empty
from harness.link.wire import BAUD_TRIAL_MS, RESPONSE, Op

_log = logging.getLogger(__name__)


_PROBES: Final = 4
"""PINGs at the new rate, within the time that the device stays there without a good frame."""


_TRIAL_S: Final = BAUD_TRIAL_MS / 1000


def raise_baud(exchange: Exchange, offered: Sequence[int], wanted: Sequence[int]) -> int:
    """Try baud rates until the device answers at one.

    Args:
        exchange: The link, at its first rate.
        offered: Rates that the device supports.
        wanted: Rates to try, preferred first.

    Returns:
        The rate of the line now, bits per second.

    Raises:
        LinkError: The device does not answer at the first rate any more, either.
        TargetError: The target died.
    """
    for baud in wanted:
        if baud == exchange.baud:
            break
        if baud not in offered or not _port_supports(exchange, baud):
            continue
        try:
            exchange.request(Op.BAUD, baud_request(baud), parse_empty)
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
        exchange.send(Op.PING, sequence, b"")
        until = exchange.now() + _TRIAL_S / _PROBES
        while (heard := exchange.listen(until)) is not None:
            if not isinstance(heard, Frame):
                continue
            # A response to an earlier PING counts, too: the device may be slow.
            if heard.type == Op.PING | RESPONSE and heard.sequence in asked:
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
