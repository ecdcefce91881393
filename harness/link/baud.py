"""Moves both ends of a line to a higher rate, or leaves them at the one they began with."""

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
"""PINGs at the new rate, within the time that the device stays there unheard."""
_TRIAL_S: Final = BAUD_TRIAL_MS / 1000


def raise_baud(exchange: Exchange, offered: Sequence[int], wanted: Sequence[int]) -> int:
    """Try rates until both ends hear each other at one.

    Args:
        exchange: The link, at the rate it began with.
        offered: What the device can do.
        wanted: What to try, best first.

    Returns:
        The rate the line has now, bits per second.

    Raises:
        LinkError: The two do not find each other at the first rate, either.
        TargetError: The target died.
    """
    for baud in wanted:
        if baud == exchange.baud:
            break
        if baud not in offered or not _port_takes(exchange, baud):
            continue
        try:
            exchange.request(Op.BAUD, baud_request(baud), parse_empty)
        except DeviceRefusedError as error:
            _log.info("%s", error.message)
            continue
        exchange.set_baud(baud)
        if _is_heard(exchange):
            break
        _log.warning("%s: nothing is heard at %d baud", exchange.board, baud)
        exchange.fall_back()
        _meet_again(exchange)
    return exchange.baud


def _port_takes(exchange: Exchange, baud: int) -> bool:
    before = exchange.baud
    try:
        exchange.set_baud(baud)
    except InfrastructureError as error:
        _log.info("%s", error.message)
        return False
    exchange.set_baud(before)
    return True


def _is_heard(exchange: Exchange) -> bool:
    """PING for as long as a device that hears nobody stays where it is."""
    asked = set()
    for _ in range(_PROBES):
        sequence = exchange.next_sequence()
        asked.add(sequence)
        exchange.send(Op.PING, sequence, b"")
        until = exchange.now() + _TRIAL_S / _PROBES
        while (heard := exchange.listen(until)) is not None:
            if not isinstance(heard, Frame):
                continue
            # An answer to an earlier one is as good: the device may be slow.
            if heard.type == Op.PING | RESPONSE and heard.sequence in asked:
                return True
            exchange.statistics.stale_answers += 1
    return False


def _meet_again(exchange: Exchange) -> None:
    """Wait at the first rate for the device, to which our bytes are noise until it is there, too.

    Raises:
        LinkError: It does not come.
        TargetError: The target died.
    """
    give_up_at = exchange.now() + _TRIAL_S + (exchange.retries + 1) * exchange.deadline_s
    while not _is_heard(exchange):
        exchange.check_alive()
        if exchange.now() >= give_up_at:
            raise exchange.failure(f"nothing is heard at {exchange.baud} baud any more, either")
