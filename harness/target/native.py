"""Native target: the firmware as a process of this host, on a pseudo-terminal that it creates."""

from __future__ import annotations

import re
from typing import Final

from harness.config.board import Board
from harness.errors import HarnessError, TargetError
from harness.link.transports import open_serial
from harness.target.build import Firmware
from harness.target.process import ChildProcess, ProcessTarget

_LINK: Final = re.compile(rb"^link: (\S+)\r?\n", re.MULTILINE)
_BAUD: Final = 115_200
"""A pseudo-terminal has a baud rate, but ignores it."""


def start_native(board: Board, firmware: Firmware) -> ProcessTarget:
    """Start the image and open the pseudo-terminal that it prints on standard output.

    Raises:
        TargetError: It ended, or printed no path within ``deadlines.boot_s``.
        InfrastructureError: It cannot be started, or the pseudo-terminal cannot be opened.
    """
    child = ChildProcess(f"the firmware of {board.name}", [str(firmware.image)])
    try:
        path = _link_path(child, board)
        transport = open_serial(path, _BAUD)
    except HarnessError:
        child.close()
        raise
    return ProcessTarget(child, transport, f"{firmware.image} (process {child.pid}) on {path}")


def _link_path(child: ChildProcess, board: Board) -> str:
    limit = board.deadlines.boot_s
    child.wait_for(lambda: _LINK.search(child.output()) is not None, limit)
    if found := _LINK.search(child.output()):
        return found[1].decode("utf-8", errors="replace")
    child.check_alive()
    raise TargetError(f"{child.name} printed no `link:` line on stdout within {limit:g} s")
