"""Plans a flash operation: image, tool, probe and commands, before anything is done.

``find_tool`` finds a flashing tool by its name; ``choose_tool`` selects the one of a board.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final

from msgspec.structs import asdict

from harness.config.board import (
    Board,
    Flash,
    NativeTarget,
    QemuTarget,
    SerialTarget,
    board_names,
    load_board,
)
from harness.config.toml_file import read_document
from harness.config.unit import UsbPort
from harness.errors import PortError, UsageError, did_you_mean
from harness.files import absolute
from harness.flash.execute import version_of
from harness.flash.image import Image, ImageFormat, read_image
from harness.flash.tool import (
    CustomCommand,
    FlashStep,
    Gdb,
    Job,
    Tool,
    choose_probe,
    connected,
    parse_selector,
)
from harness.plugins import (
    FLASH_TOOLS,
    extension_remedy,
    is_deleted,
    load_extension,
    load_plugin,
    plugin_names,
    unfit_plugin,
)
from harness.records.flashing import FlashPlan, FlashSetup, PlannedStep
from harness.target.build import build_firmware
from harness.target.doctor import ProgramFinding
from harness.target.ports import device_of, port_text
from harness.target.selection import Chosen

_TOOLS: Final[dict[str, Tool[Any]]] = {"gdb": Gdb(), "command": CustomCommand()}
_EXTENSION: Final = "flash_tools"


def tool_names() -> list[str]:
    """Return the names of all flashing tools."""
    return [*_TOOLS, *plugin_names(FLASH_TOOLS)]


def find_tool(name: str, where: str) -> Tool[Any]:
    """Return the tool with this name, of the core or from a plugin.

    Raises:
        UsageError: There is no such tool, or its extension is not installed; ``where`` (file and
            line, or option) begins the message.
    """
    if name in _TOOLS:
        return _TOOLS[name]
    if is_deleted(FLASH_TOOLS, name):
        load_extension(FLASH_TOOLS, name, f"{where}: {name} is", _EXTENSION)
    plugin = load_plugin(FLASH_TOOLS, name)
    if plugin is None:
        known = tool_names()
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
            if is_deleted(FLASH_TOOLS, name):
                remedy = extension_remedy(_EXTENSION)
                findings.setdefault(name, ProgramFinding(name, None, remedy))
                findings[name].needed_by.append(board.name)
                continue
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
    probe: UsbPort | None = None


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
        if not is_deleted(FLASH_TOOLS, name):
            find_tool(name, document.where(("flash", "order")))
    for name in flash.options:
        if is_deleted(FLASH_TOOLS, name):
            continue
        tool = find_tool(name, document.where(("flash", "options", name)))
        document.as_(tool.options_type, ("flash", "options", name))


def choose_tool(
    board: Board,
    file: Path,
    *,
    named: str | None = None,
    image_format: ImageFormat | None = None,
    selector: str = "",
    devices: Sequence[UsbPort] = (),
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
    others: dict[str, str] = {}

    def choice(tool: Tool[Any], why: str) -> Choice:
        probe = None
        if tool.selects_probe:
            own = _selector_for(tool, selector)
            probe = choose_probe(own, tool.probes, devices, f"the board ({tool.name})")
        return Choice(tool, tool_options(tool, file), why, others, probe)

    if named is not None:
        tool = find_tool(named, "--tool")
        refusal = "" if dry else _refusal(tool, file, image_format)
        if refusal:
            raise UsageError(f"{tool.name} cannot flash board {board.name}: {refusal}")
        return choice(tool, "requested")
    here: list[Tool[Any]] = []
    for name in flash.order:
        if is_deleted(FLASH_TOOLS, name):
            others[name] = f"not installed (extension {_EXTENSION})"
            continue
        tool = find_tool(name, str(file))
        refusal = _refusal(tool, file, image_format)
        if not refusal:
            here.append(tool)
            refusal = _missing_device(tool, selector, devices)
        if not refusal:
            first = "first usable tool" if others else "first tool"
            return choice(tool, f"{first} in the board file")
        others[name] = refusal
    planned = [name for name in flash.order if dry and not is_deleted(FLASH_TOOLS, name)]
    if here or planned:
        # No tool sees a probe. The tool's own error explains that best.
        tool = here[0] if here else find_tool(planned[0], str(file))
        others.pop(tool.name)
        why = "first installed tool; no probe found" if here else "no tool is installed"
        return choice(tool, why)
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


def _missing_device(tool: Tool[Any], selector: str, devices: Sequence[UsbPort]) -> str:
    """Return a reason if no connected device can be used by a tool, else ""."""
    if not devices or not tool.probes:
        return ""
    if _selector_for(tool, selector) or any(device.is_of(tool.probes) for device in devices):
        return ""
    return "no supported device is connected"


def _selector_for(tool: Tool[Any], selector: str) -> str:
    """Return the selector if it applies to a tool; bootloader tools ignore those of probes."""
    if tool.bootloader and selector and not parse_selector(selector).is_of(tool.probes):
        return ""
    return selector


Stages = Callable[[str, int, int], None]
"""Called with (stage, done, total) to report progress; total 0 means unknown."""


@dataclass(frozen=True, slots=True)
class HowToFlash:
    """What to flash, and with which tool.

    Attributes:
        image: The image; None to build the board's firmware.
        tool: The tool; None for the first installed tool of the board file.
        probe: The debug probe, VID:PID:Serial; "" if only one is connected.
        attempts: Number of attempts when the infrastructure fails.
        identity: Read the build id from the board afterwards, and compare it with the image's.
        if_needed: Read the build id before flashing, and skip flashing if it matches.
    """

    image: Path | None = None
    tool: str | None = None
    probe: str = ""
    attempts: int = 3
    identity: bool = True
    if_needed: bool = False


THE_USUAL_WAY: Final = HowToFlash()
"""The board's own firmware, by the first installed tool of its board file."""


@dataclass(frozen=True, slots=True)
class FlashSteps:
    """A planned flash operation.

    Attributes:
        board: The board type.
        choice: The tool, and why it was chosen.
        image: The image to write.
        build_id: The build id that the board has to report afterwards; None if it is not checked.
        job: The parameters of the tool.
        timeout_s: Timeout of the tool, seconds.
    """

    board: Board
    choice: Choice
    image: Image
    build_id: str | None
    job: Job[Any]
    timeout_s: float

    def steps(self) -> tuple[FlashStep, ...]:
        """Return the commands to run."""
        return self.choice.tool.commands(self.job)

    @property
    def setup(self) -> FlashSetup:
        """What is flashed, for records."""
        choice, image = self.choice, self.image
        return FlashSetup(
            board=self.board.name,
            tool=choice.tool.name,
            why=choice.why,
            others=choice.others,
            probe=choice.probe.selector if choice.probe else "",
            image=str(image.path),
            image_format=str(image.format),
            image_bytes=image.nbytes,
            build_id=self.build_id,
        )

    def document(self) -> FlashPlan:
        """Return the plan as a JSON document."""
        steps = tuple(
            PlannedStep(
                step.stage,
                step.argv,
                {str(path): len(content) for path, content in step.files.items()},
            )
            for step in self.steps()
        )
        return FlashPlan(**asdict(self.setup), steps=steps)


def plan(
    chosen: Chosen,
    output: Path,
    how: HowToFlash = THE_USUAL_WAY,
    *,
    dry: bool = False,
    stages: Stages = lambda *_: None,
) -> FlashSteps:
    """Plan a flash operation; build the firmware if no image is named.

    Args:
        chosen: The board to flash.
        output: Directory for the log, ``flash.json`` and files generated for the tool.
        how: What to flash, and with which tool.
        dry: Only show the plan: tool and probe may be missing.
        stages: Called to report progress.

    Raises:
        UsageError: The request, the board file or the image is invalid.
        InfrastructureError: The requested probe is not connected.
    """
    board, file = load_board(chosen.board)
    if isinstance(board.target, NativeTarget):
        raise UsageError(f"board {board.name} runs as a process of this host and cannot be flashed")
    flash = flash_of(board, file)
    path = how.image
    if path is None:
        path = build_firmware(board, stages=stages).image
    # Tools run in another directory, where a relative path would name another file.
    image = read_image(absolute(path))
    choice = choose_tool(
        board,
        file,
        named=how.tool,
        image_format=image.format,
        selector=how.probe,
        devices=connected(),
        dry=dry,
    )
    image = image.at(getattr(choice.options, "address", None))
    build_id = image.build_id() if how.identity else None
    if how.identity and build_id is None:
        raise UsageError(
            f"{path} has no build id, so the flashed firmware cannot be verified",
            hint="use firmware with this project's server, or skip the check with --no-identity",
        )
    if how.identity and not image.names(board.name):
        others = [name for name in board_names() if image.names(name)]
        what = " or ".join(others) or "another one"
        raise UsageError(
            f"{path} is not firmware of board {board.name}, but of {what}; nothing was written",
            hint="give the image of this board, or --no-identity for firmware that does not say "
            "its board",
        )
    work = (output / "flash_files").absolute()
    if work.is_symlink():
        raise UsageError(
            f"{work} is a symbolic link, and files for the tool are written in it",
            hint="remove the link, or name another directory with -o",
        )
    tool = choice.tool
    if isinstance(board.target, SerialTarget) and chosen.port is None and how.identity:
        raise UsageError(
            f"board {board.name} needs a serial port to verify the flashed firmware",
            hint="give --unit, or --port such as /dev/ttyACM0, or --no-identity",
        )
    program = tool.programs[0] if tool.programs else None
    job = Job(
        board=board.name,
        image=image,
        work=work,
        options=choice.options,
        verify=flash.verify and tool.reads_back(choice.options),
        probe=choice.probe,
        port=_port_now(chosen.port, needed=tool.needs_port and not dry),
        server="GDBSERVER" if isinstance(board.target, QemuTarget) else None,
        program=(program.find() or program.name) if program else "",
    )
    return FlashSteps(board, choice, image, build_id, job, flash.timeout_s)


def _port_now(port: UsbPort | str | None, *, needed: bool) -> str | None:
    """Return the current device of a port, or its description while it is missing.

    It may be missing unless the tool uses it: some boards get their port from the new firmware.

    Raises:
        PortError: The port is missing, and the tool needs it.
    """
    try:
        return device_of(port) if port else None
    except PortError:
        if needed:
            raise
        return port_text(port) if port else None
