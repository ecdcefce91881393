"""Registry of all flashing tools, by their names in board files and for ``--tool``."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from types import MappingProxyType
from typing import Any, Final

from harness.config.board import Board
from harness.errors import UsageError, did_you_mean
from harness.flash.custom import CustomCommand
from harness.flash.dfu_util import DfuUtil
from harness.flash.esptool import Esptool
from harness.flash.execute import version_of
from harness.flash.gdb import Gdb
from harness.flash.jlink import JLink
from harness.flash.mass_storage import Copy
from harness.flash.openocd import OpenOcd
from harness.flash.picotool import Picotool
from harness.flash.probe_rs import ProbeRs
from harness.flash.pyocd import PyOcd
from harness.flash.st_flash import StFlash
from harness.flash.stm32flash import Stm32Flash
from harness.flash.tool import Tool
from harness.flash.west import West
from harness.plugins import FLASH_TOOLS, load_plugin, plugin_names, unfit_plugin
from harness.target.doctor import ProgramFinding

_ALL: Final[tuple[Tool[Any], ...]] = (
    *(Gdb(), OpenOcd(), PyOcd(), ProbeRs(), JLink(), StFlash(), Stm32Flash(), Esptool()),
    *(DfuUtil(), Picotool(), Copy(), West(), CustomCommand()),
)

TOOLS: Final[Mapping[str, Tool[Any]]] = MappingProxyType({tool.name: tool for tool in _ALL})


def find_tool(name: str, where: str) -> Tool[Any]:
    """Return the tool with this name, built in or from a plugin.

    Raises:
        UsageError: There is no such tool; ``where`` (file and line, or option) begins the message.
    """
    if name in TOOLS:
        return TOOLS[name]
    plugin = load_plugin(FLASH_TOOLS, name)
    if plugin is None:
        known = [*TOOLS, *plugin_names(FLASH_TOOLS)]
        raise UsageError(
            f"{where}: no such flashing tool: {name!r}",
            hint=f"{did_you_mean(name, known)}known tools: {', '.join(known)}",
        )
    tool = plugin() if isinstance(plugin, type) else plugin
    if not isinstance(tool, Tool) or tool.name != name:
        raise unfit_plugin(FLASH_TOOLS, name, "a harness.flash.tool.Tool with this name")
    return tool


def examine(boards: Iterable[Board]) -> list[ProgramFinding]:
    """Look for all tools that can flash ``boards``; a board needs only one of its tools."""
    findings: dict[str, ProgramFinding] = {}
    for board in boards:
        for name in board.flash.order if board.flash else ():
            if name not in findings:
                tool = find_tool(name, f"board {board.name}")
                missing = tool.missing()
                path = tool.programs[0].find() if tool.programs else None
                version = None if missing else (path and version_of(tool, path)) or "installed"
                findings[name] = ProgramFinding(name, version, missing or "")
            findings[name].needed_by.append(board.name)
    return list(findings.values())
