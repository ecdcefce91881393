"""Parts from other packages: an installed distribution, as small as one can be."""

from __future__ import annotations

import itertools
import os
import re
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from harness import UsageError, export_trace, format_names, open_port, write_report
from harness.flash.plan import find_tool
from harness.link.transports import parse_address, port_identity
from harness.report.formats import check_report_file
from harness.strategies import EventSpec, RunSpec, trace_of
from tests.conftest import CommandResult
from tests.support.reported import reported

TRACE = trace_of(RunSpec([EventSpec("a")]))

Install = Callable[..., str]

MODULE = """
from harness.config.board import Strict
from harness.export.formats import Exported, ExportFormat
from harness.flash.image import ImageFormat
from harness.flash.tool import FlashStep, Tool, ToolProgram


class Options(Strict, frozen=True):
    pass


class Blink(Tool[Options]):
    name = "blink"
    programs = (ToolProgram("sh", "install a shell"),)
    formats = (ImageFormat.BIN,)
    options_type = Options

    def commands(self, job):
        return (FlashStep("write", (job.program, "-c", "true")),)


def opened(address, baud):
    from harness.testing import SimulatedBoard, VirtualClock
    board = SimulatedBoard(VirtualClock())
    board.opened = (address, baud)
    return board


LENGTH = ExportFormat("Number of events.", lambda trace, _: Exported(str(len(trace)).encode()))
NOTHING = 7


def text_report(runs, night):
    return f"{len(runs)} runs".encode()
"""


@pytest.fixture
def install(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Install:
    """Install a package whose module holds some text, with entry points; return the module."""
    numbers = itertools.count()

    def install(package: str, points: str, text: str = MODULE) -> str:
        site = tmp_path / package
        module = f"plugin_{tmp_path.name.replace('-', '_')}_{next(numbers)}"
        metadata = site / f"{package}-1.0.dist-info"
        metadata.mkdir(parents=True)
        (site / f"{module}.py").write_text(text)
        (metadata / "METADATA").write_text(
            f"Metadata-Version: 2.1\nName: {package}\nVersion: 1.0\n"
        )
        (metadata / "entry_points.txt").write_text(points.replace("MODULE", module))
        monkeypatch.syspath_prepend(str(site))
        return module

    return install


def test_a_plugin_is_imported_when_it_is_named_and_not_before(install: Install) -> None:
    module = install("acme", "[etharness.exporters]\nlength = MODULE:LENGTH\n")
    assert "length" in format_names()
    assert module not in sys.modules
    assert export_trace(TRACE, "length").data == str(len(TRACE)).encode()
    assert module in sys.modules


def test_the_command_line_exports_in_it(
    install: Install, etharness: Callable[..., CommandResult], tmp_path: Path
) -> None:
    install("acme", "[etharness.exporters]\nlength = MODULE:LENGTH\n")
    dump = Path(__file__).parents[1] / "fixtures" / "xnnpack_clock32.etdp"
    done = etharness("export", dump, "-f", "length", "-o", tmp_path / "n.txt")
    assert done.code == 0, done.err
    assert int((tmp_path / "n.txt").read_text()) > 10
    done = etharness("export", dump, "-f", "lenght", "-o", tmp_path / "m.txt")
    assert (done.code, "did you mean 'length'?" in done.err) == (2, True)


def test_the_help_lists_it_and_imports_nothing(install: Install) -> None:
    module = install("acme", "[etharness.exporters]\nlength = MODULE:LENGTH\n")
    paths = [str(Path(sys.modules["harness"].__file__ or "").parents[1]), sys.path[0]]
    code = "import sys; from harness.cli import cli; cli(['export', '-h'], standalone_mode=False)"
    done = subprocess.run(
        [sys.executable, "-c", f"{code}; print({module!r} in sys.modules)"],
        env={"PYTHONPATH": os.pathsep.join(paths)},
        capture_output=True,
        text=True,
        check=True,
    )
    assert re.search(r"^  length +From a plugin\.$", done.stdout, re.MULTILINE)
    assert done.stdout.endswith("False\n")


def test_a_flashing_tool(install: Install) -> None:
    install("acme", "[etharness.flash_tools]\nblink = MODULE:Blink\nother = MODULE:Blink\n")
    assert find_tool("blink", "board.toml").name == "blink"
    with pytest.raises(UsageError) as caught:
        find_tool("blnk", "board.toml:3:1")
    assert caught.value.message == "board.toml:3:1: no such flashing tool: 'blnk'"
    assert caught.value.hint.startswith("did you mean 'blink'? known tools: gdb, ")
    with pytest.raises(UsageError, match=r"plugin 'other' .* of package acme is not a harness\."):
        find_tool("other", "board.toml")


def test_a_transport_by_its_scheme(install: Install) -> None:
    install("acme", "[etharness.transports]\nbridge = MODULE:opened\nbad = MODULE:NOTHING\n")
    board = open_port("bridge://rack/7?x=1", 115_200)
    assert board.opened == ("bridge://rack/7?x=1", 115_200)  # type: ignore[attr-defined]
    assert port_identity("bridge://rack/7") == "bridge://rack/7"
    with pytest.raises(UsageError) as caught:
        parse_address("brdge://rack/7")
    assert ", bad://, bridge://" in caught.value.hint
    with pytest.raises(UsageError, match="is not a function of address and baud rate"):
        open_port("bad://x", 9600)


def test_a_decoder_of_delegates_by_their_backend(
    install: Install, etharness: Callable[..., CommandResult]
) -> None:
    text = """
from harness.records.result import DelegateOperator, DelegateWork

def read(delegate):
    dot = DelegateOperator("dot", macs=len(delegate.blob))
    return DelegateWork(target=delegate.backend.lower(), operators=(dot,))
"""
    install("npu_tools", "[etharness.delegates]\nSimulatedNpu = MODULE:read\n", text)
    _, out, _ = etharness("inspect", "npu_int")
    assert "SimulatedNpu, instruction 0: simulatednpu" in out
    assert ["dot", "1", "15,888"] in [line.split() for line in out.splitlines()]
    assert "no decoder" not in out


def test_a_report_by_its_suffix(install: Install, tmp_path: Path) -> None:
    install("acme", "[etharness.reports]\ntxt = MODULE:text_report\nbad = MODULE:NOTHING\n")
    check_report_file(tmp_path / "night.TXT")
    write_report(tmp_path / "run.txt", [reported()])
    assert (tmp_path / "run.txt").read_text() == "1 runs"
    with pytest.raises(UsageError) as caught:
        check_report_file(tmp_path / "run.doc")
    assert caught.value.hint.endswith(".zip (bundle), .bad (plugin), .txt (plugin)")
    with pytest.raises(UsageError, match="is not a function of runs and a night"):
        check_report_file(tmp_path / "run.bad")


def test_a_plugin_that_cannot_be_imported_is_said_with_its_package(install: Install) -> None:
    install("broken-pack", "[etharness.exporters]\nlate = MODULE:X\n", "import no_such_module\n")
    with pytest.raises(UsageError) as caught:
        export_trace(TRACE, "late")
    assert caught.value.message == (
        "cannot load plugin 'late' (etharness.exporters) of package broken-pack: "
        "ModuleNotFoundError: No module named 'no_such_module'"
    )
    assert caught.value.hint == "update or uninstall broken-pack"


def test_two_plugins_of_one_name_are_an_error_and_built_in_names_win(install: Install) -> None:
    install("one", "[etharness.exporters]\nlength = MODULE:LENGTH\ned00 = MODULE:LENGTH\n")
    install("two", "[etharness.exporters]\nlength = MODULE:LENGTH\n")
    with pytest.raises(UsageError, match="ambiguous: one and two have one"):
        export_trace(TRACE, "length")
    assert b"ED00" in export_trace(TRACE, "ed00").data
