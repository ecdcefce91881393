"""Which tool flashes a board: the first of the board file's that can do it here; which probe."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from harness.config.board import Board, Flash
from harness.config.toml_file import read_document
from harness.errors import UsageError
from harness.files import absolute
from harness.flash.image import ImageFormat
from harness.flash.probes import Probe, choose_probe, parse_selector
from harness.flash.tool import Tool
from harness.flash.tools import find_tool


@dataclass(frozen=True, slots=True)
class Choice:
    """The tool that was chosen.

    Attributes:
        tool: It.
        options: What the board file says for it.
        why: Why this one.
        others: Tools that stand before it in the board file, and why each was not taken.
        probe: The probe that it is to use; None if it uses none, or is to look for it itself.
    """

    tool: Tool[Any]
    options: Any
    why: str
    others: dict[str, str] = field(default_factory=dict)
    probe: Probe | None = None


def flash_of(board: Board, file: Path) -> Flash:
    """How a board is flashed.

    Raises:
        UsageError: Its file does not say.
    """
    if board.flash is None:
        raise UsageError(
            f"{file} does not say how board {board.name} is flashed",
            hint="add `flash = { order = [...] }` with the tools that can do it (docs/flashing.md)",
        )
    return board.flash


def tool_options(tool: Tool[Any], file: Path) -> Any:
    """What a board file says for a tool.

    Raises:
        UsageError: Something in it is wrong; the message names file, line and key.
    """
    options = read_document(file).as_(tool.options_type, ("flash", "options", tool.name))
    return tool.placed(options, absolute(file).parent)


def check_flash(flash: Flash, file: Path) -> None:
    """Look at all that a board file says about flashing.

    Raises:
        UsageError: A tool does not exist, or an option is wrong.
    """
    document = read_document(file)
    for name in flash.order:
        find_tool(name, document.where(("flash", "order")))
    for name in flash.options:
        tool = find_tool(name, document.where(("flash", "options", name)))
        document.as_(tool.options_type, ("flash", "options", name))


def choose_tool(
    board: Board,
    file: Path,
    *,
    named: str | None = None,
    image_format: ImageFormat | None = None,
    selector: str = "",
    devices: Sequence[Probe] = (),
    dry: bool = False,
) -> Choice:
    """Choose the tool and the probe.

    Args:
        board: The board type.
        file: Its file.
        named: The tool that the user wants; None for the first that can do it.
        image_format: What kind of image there is; None if that does not matter.
        selector: The probe that is meant, VID:PID:Serial; "" if nobody said.
        devices: USB devices that are connected.
        dry: Only to be shown: nothing needs to be installed or connected.

    Raises:
        UsageError: No tool can do it, or it is not clear which probe is meant.
        InfrastructureError: The probe that is meant is not connected.
    """
    flash = flash_of(board, file)
    check_flash(flash, file)
    if named is not None:
        tool = find_tool(named, "--tool")
        refusal = "" if dry else _refusal(tool, image_format)
        if refusal:
            raise UsageError(f"{tool.name} cannot flash board {board.name}: {refusal}")
        return _with_probe(Choice(tool, tool_options(tool, file), "asked for"), selector, devices)
    others: dict[str, str] = {}
    here: list[Tool[Any]] = []
    for name in flash.order:
        tool = find_tool(name, str(file))
        refusal = _refusal(tool, image_format)
        if not refusal:
            here.append(tool)
            refusal = _sees_nothing(tool, selector, devices)
        if not refusal:
            why = (
                "the board file's first that can do it here" if others else "the board file's first"
            )
            choice = Choice(tool, tool_options(tool, file), why, others)
            return _with_probe(choice, selector, devices)
        others[name] = refusal
    if here or (dry and flash.order):
        # The tool itself says best what it does not find; a dry run needs none to be there.
        tool = here[0] if here else find_tool(flash.order[0], str(file))
        others.pop(tool.name)
        why = "the first that is installed; no probe is seen" if here else "none is installed"
        choice = Choice(tool, tool_options(tool, file), why, others)
        return _with_probe(choice, selector, devices)
    raise UsageError(
        f"no tool here can flash board {board.name}: "
        + ("; ".join(f"{name}: {why}" for name, why in others.items()) or "its file names none"),
        hint="install one of them, or name another with --tool",
    )


def _refusal(tool: Tool[Any], image_format: ImageFormat | None) -> str:
    """Why a tool cannot be used here; "" if it can."""
    if (remedy := tool.missing()) is not None:
        return f"not installed ({remedy})"
    elf_needed = tool.formats == (ImageFormat.ELF,)
    if elf_needed and image_format not in (ImageFormat.ELF, None):
        return f"takes ELF files only, and the image is a {image_format} file"
    return ""


def _sees_nothing(tool: Tool[Any], selector: str, devices: Sequence[Probe]) -> str:
    """Why a tool has no board to flash, if that can be seen; "" if it may have one."""
    if not tool.selects_probe or not devices or not tool.probes:
        return ""
    if _selector_for(tool, selector) or any(device.is_of(tool.probes) for device in devices):
        return ""
    return "nothing that it could use is connected"


def _selector_for(tool: Tool[Any], selector: str) -> str:
    """What a selector says to a tool: a debug probe's says nothing to one for bootloaders."""
    if tool.bootloader and selector and not parse_selector(selector).is_of(tool.probes):
        return ""
    return selector


def _with_probe(choice: Choice, selector: str, devices: Sequence[Probe]) -> Choice:
    tool = choice.tool
    if not tool.selects_probe:
        return choice
    selector = _selector_for(tool, selector)
    probe = choose_probe(selector, tool.probes, devices, f"the board ({tool.name})")
    return Choice(tool, choice.options, choice.why, choice.others, probe)
