"""All flashing tools, by the names that board files and ``--tool`` call them."""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType
from typing import Any, Final

from harness.errors import UsageError, did_you_mean
from harness.flash.gdb import Gdb
from harness.flash.tool import Tool

TOOLS: Final[Mapping[str, Tool[Any]]] = MappingProxyType({tool.name: tool for tool in (Gdb(),)})


def find_tool(name: str, where: str) -> Tool[Any]:
    """The tool of this name.

    Raises:
        UsageError: There is none; the message says ``where`` it was named.
    """
    if name not in TOOLS:
        raise UsageError(
            f"{where}: no such flashing tool: {name!r}",
            hint=f"{did_you_mean(name, TOOLS)}known tools: {', '.join(TOOLS)}",
        )
    return TOOLS[name]
