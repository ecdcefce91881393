"""Moves both ends of a line to a higher rate, or leaves them at the one they began with."""

from __future__ import annotations

import logging
from collections.abc import Sequence
from typing import Final

from harness.errors import DeviceRefusedError, InfrastructureError
from harness.link.exchange import Exchange
from harness.link.messages import baud_request, parse_empty, parse_ping
from harness.link.wire import BAUD_TRIAL_MS, Op

_log = logging.getLogger(__name__)

_PROBES: Final = 4
"""PINGs at the new rate, within the time that the device stays there unheard."""
_PROBE_S: Final = BAUD_TRIAL_MS / 1000 / _PROBES


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
    first = exchange.baud
    for baud in wanted:
        if baud == exchange.baud:
            return baud
        if baud not in offered or not _port_takes(exchange, baud):
            continue
        try:
            exchange.request(Op.BAUD, baud_request(baud), parse_empty)
        except DeviceRefusedError as error:
            _log.info("%s", error.message)
            continue
        exchange.set_baud(baud)
        if _is_heard(exchange):
            return baud
        _log.warning("%s: nothing is heard at %d baud", exchange.board, baud)
        exchange.fall_back()
        # Wrong bytes and silence alike send the device back, too.
        exchange.request(Op.PING, b"", parse_ping)
    return first


def _port_takes(exchange: Exchange, baud: int) -> bool:
    first = exchange.baud
    try:
        exchange.set_baud(baud)
    except InfrastructureError as error:
        _log.info("%s", error.message)
        return False
    exchange.set_baud(first)
    return True


def _is_heard(exchange: Exchange) -> bool:
    for _ in range(_PROBES):
        sequence = exchange.next_sequence()
        until = exchange.now() + _PROBE_S
        if exchange.attempt(Op.PING, sequence, b"", parse_ping, until) is not None:
            return True
    return False
