"""All flashing tools by name, the one that a board uses, and its probe."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from types import MappingProxyType
from typing import Any, Final

from harness.config.board import Board, Flash
from harness.config.toml_file import read_document
from harness.errors import UsageError, did_you_mean
from harness.files import absolute
from harness.flash.custom import CustomCommand
from harness.flash.dfu_util import DfuUtil
from harness.flash.esptool import Esptool
from harness.flash.execute import version_of
from harness.flash.gdb import Gdb
from harness.flash.image import ImageFormat
from harness.flash.jlink import JLink
from harness.flash.mass_storage import Copy
from harness.flash.openocd import OpenOcd
from harness.flash.picotool import Picotool
from harness.flash.probe_rs import ProbeRs
from harness.flash.probes import Probe, choose_probe, parse_selector
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


def find_flash_tools(boards: Iterable[Board]) -> list[ProgramFinding]:
    """Look for all tools that can flash ``boards``; a board needs only one of its tools."""
    findings: dict[str, ProgramFinding] = {}
    for board in boards:
        for name in board.flash.order if board.flash else ():
            tool = find_tool(name, f"board {board.name}")
            # What a board file calls a command is a tool of that board only.
            title = name if tool.programs else f"{name} of {board.name}"
            if title not in findings:
                missing = _missing(tool, board.file)
                path = tool.programs[0].find() if tool.programs else None
                version = None if missing else (path and version_of(tool, path)) or "installed"
                findings[title] = ProgramFinding(title, version, missing or "")
            findings[title].needed_by.append(board.name)
    return list(findings.values())


@dataclass(frozen=True, slots=True)
class Choice:
    """The selected tool.

    Attributes:
        tool: The tool.
        options: Its options from the board file.
        why: Reason for the selection.
        others: Earlier tools in the board file, with the reason why each was skipped.
        probe: The probe to use; None if the tool uses no probe or finds it itself.
    """

    tool: Tool[Any]
    options: Any
    why: str
    others: dict[str, str] = field(default_factory=dict)
    probe: Probe | None = None


def flash_of(board: Board, file: Path) -> Flash:
    """Return the flash settings of a board.

    Raises:
        UsageError: Its file has no flash settings.
    """
    if board.flash is None:
        raise UsageError(
            f"{file}: board {board.name} has no flash settings",
            hint="add `flash = { order = [...] }` with its flashing tools "
            "(`etharness explain flashing`)",
        )
    return board.flash


def tool_options(tool: Tool[Any], file: Path) -> Any:
    """Return the options of a tool from a board file.

    Raises:
        UsageError: An option is invalid; the message names file, line and key.
    """
    options = read_document(file).as_(tool.options_type, ("flash", "options", tool.name))
    return tool.resolve_paths(options, absolute(file).parent)


def check_flash(flash: Flash, file: Path) -> None:
    """Validate all flash settings of a board file.

    Raises:
        UsageError: A tool is unknown, or an option is invalid.
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
    """Select the tool and the probe.

    Args:
        board: The board type.
        file: Its board file.
        named: The tool requested by the user; None for the first usable one.
        image_format: Format of the image; None if it does not matter.
        selector: The probe requested, VID:PID:Serial; "" for none.
        devices: The connected USB devices.
        dry: For a dry run: tools need not be installed, probes need not be connected.

    Raises:
        UsageError: No tool is usable, or several probes match.
        InfrastructureError: The requested probe is not connected.
    """
    flash = flash_of(board, file)
    check_flash(flash, file)
    if named is not None:
        tool = find_tool(named, "--tool")
        refusal = "" if dry else _refusal(tool, file, image_format)
        if refusal:
            raise UsageError(f"{tool.name} cannot flash board {board.name}: {refusal}")
        return _with_probe(Choice(tool, tool_options(tool, file), "requested"), selector, devices)
    others: dict[str, str] = {}
    here: list[Tool[Any]] = []
    for name in flash.order:
        tool = find_tool(name, str(file))
        refusal = _refusal(tool, file, image_format)
        if not refusal:
            here.append(tool)
            refusal = _missing_device(tool, selector, devices)
        if not refusal:
            why = (
                "first usable tool in the board file" if others else "first tool in the board file"
            )
            choice = Choice(tool, tool_options(tool, file), why, others)
            return _with_probe(choice, selector, devices)
        others[name] = refusal
    if here or (dry and flash.order):
        # No tool sees a probe. The tool's own error explains that best.
        tool = here[0] if here else find_tool(flash.order[0], str(file))
        others.pop(tool.name)
        why = "first installed tool; no probe found" if here else "no tool is installed"
        choice = Choice(tool, tool_options(tool, file), why, others)
        return _with_probe(choice, selector, devices)
    raise UsageError(
        f"no usable flashing tool for board {board.name}: "
        + ("; ".join(f"{name}: {why}" for name, why in others.items()) or "its file lists none"),
        hint="install one of them, or select another with --tool",
    )


def _missing(tool: Tool[Any], file: Path) -> str | None:
    """Return how to install missing programs of a tool; None if all are installed."""
    needed = tool.programs or tool.named_programs(tool_options(tool, file))
    remedies = [program.remedy for program in needed if program.find() is None]
    return "; ".join(dict.fromkeys(remedies)) or None


def _refusal(tool: Tool[Any], file: Path, image_format: ImageFormat | None) -> str:
    """Return why a tool cannot be used on this host; "" if it can."""
    if (remedy := _missing(tool, file)) is not None:
        return f"not installed ({remedy})"
    elf_needed = tool.formats == (ImageFormat.ELF,)
    if elf_needed and image_format not in (ImageFormat.ELF, None):
        return f"supports only ELF files, and the image is a {image_format} file"
    return ""


def _missing_device(tool: Tool[Any], selector: str, devices: Sequence[Probe]) -> str:
    """Return a reason if no connected device can be used by a tool, else ""."""
    if not tool.selects_probe or not devices or not tool.probes:
        return ""
    if _selector_for(tool, selector) or any(device.is_of(tool.probes) for device in devices):
        return ""
    return "no supported device is connected"


def _selector_for(tool: Tool[Any], selector: str) -> str:
    """Return the selector if it applies to a tool; bootloader tools ignore those of probes."""
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
