"""Boards with an installed ExecuTorch: its adapter, our ports, and a stand-in for its libraries.

The stand-in is compiled with the headers of the executorch package. It registers kernels in
constructors, uses a global offset table, allocates, traces and fails as ExecuTorch does, and
executes one network, or any with the bundled runtime and kernels.
"""

from __future__ import annotations

import json
import re
import shutil
import subprocess
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest

pytest.importorskip("executorch.exir", reason="needs torch and executorch")

import torch
from executorch.exir import to_edge

import harness
from harness import STREAMING, HarnessError, Subject, TargetError, UsageError
from harness.target import build
from harness.target.doctor import missing_tools
from harness.target.process_group import run_program
from tests.conftest import ROOT, CommandResult
from tests.oracle.test_executorch_boards import identities
from tests.support.standin import CORES, install_standin

pytestmark = [
    pytest.mark.oracle,
]
M3, M4, M55 = CORES
ALL = "intermediate"
Installed = Callable[[str], Path]
Events = list[tuple[object, ...]]


@pytest.fixture(scope="module")
def installed(tmp_path_factory: pytest.TempPathFactory) -> Installed:
    """Installs the stand-in for the core of a board, once."""
    prefixes: dict[str, Path] = {}

    def install(board: str) -> Path:
        if board not in prefixes:
            prefixes[board] = install_standin(CORES[board], tmp_path_factory.mktemp("executorch"))
        return prefixes[board]

    return install


@pytest.fixture(scope="module")
def model(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The network that the stand-in executes."""

    class AddOne(torch.nn.Module):
        def forward(self, x: torch.Tensor) -> torch.Tensor:
            return x + 1.0

    program = to_edge(torch.export.export(AddOne().eval(), (torch.randn(4),))).to_executorch()
    path = tmp_path_factory.mktemp("model") / "add_one.pte"
    path.write_bytes(program.buffer)
    return path


@pytest.fixture(scope="module")
def events_of_executorch(model: Path, tmp_path_factory: pytest.TempPathFactory) -> Events:
    """What ExecuTorch's own runtime logs of this network, on the host."""
    outcome = run("native-executorch", model, tmp_path_factory.mktemp("host") / "run", values=ALL)
    return identities(outcome.trace)


@pytest.fixture(scope="module")
def builds(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Tests that run beside these build the same boards with other libraries."""
    return tmp_path_factory.mktemp("builds")


@pytest.fixture(autouse=True)
def _portable_kernels(
    events_of_executorch: Events, builds: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("EXECUTORCH_KERNELS", "portable_ops_lib")
    monkeypatch.setenv("ETHARNESS_BUILD_DIR", str(builds))


def numbers(directory: Path, *values: float) -> Path:
    """Write four floats to a file for ``--input``."""
    path = directory / "input.npy"
    np.save(path, np.array(values, np.float32))
    return path


def run(board: str, model: Path, directory: Path, **options: object) -> harness.Run:
    return harness.run(model, board=board, runs=3, output=directory, **options)  # type: ignore[arg-type]


def symbols(board: str) -> dict[str, int]:
    firmware = build.build_firmware(harness.Board.load(board))
    listed = run_program(["arm-none-eabi-nm", "-C", str(firmware.image)], 30).stdout.decode()
    rows = [line.split(" ", 2) for line in listed.splitlines()]
    return {name: int(address, 16) for address, _, name in rows}


@pytest.mark.parametrize("board", CORES)
def test_a_model_runs_as_on_executorch_itself(
    board: str,
    installed: Installed,
    model: Path,
    events_of_executorch: Events,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv("EXECUTORCH_ROOT", str(installed(board)))
    inputs = (numbers(tmp_path, 0, 1.5, -2, 1e6),)
    here = run(board, model, tmp_path / "here", inputs=inputs, values=ALL)
    assert here.result.verdict is not None
    assert here.result.verdict.passed
    assert here.result.target is not None
    assert (here.result.target.runtime, here.result.target.kernels) == (
        "ExecuTorch",
        "ExecuTorch's portable kernels",
    )
    assert here.result.target.operators == 3
    output = np.load(tmp_path / "here/outputs/0.npy")
    np.testing.assert_array_equal(output, np.array([1, 2.5, -1, 1e6 + 1], np.float32))
    assert identities(here.trace) == events_of_executorch
    memory = {each.name: each for each in Subject(here.trace).allocators}
    assert here.result.model is not None
    assert memory["planned_1"].total_bytes == here.result.model.planned_bytes == 32
    assert 0 < memory["method"].total_bytes < here.result.model.method_bytes
    scratch = memory["temporary"]  # the kernel takes that of four floats, in three executions
    assert (scratch.count, scratch.peak_bytes, scratch.total_bytes) == (3, 16, 0)


@pytest.mark.parametrize(("board", "code", "external"), [(M3, 0x00, 0x21), (M55, 0x10, 0x70)])
def test_portable_kernels_are_in_external_memory(
    board: str, code: int, external: int, installed: Installed, monkeypatch: pytest.MonkeyPatch
) -> None:
    """All of them take megabytes: 3.4 MB of code in a real image for the third of these boards."""
    monkeypatch.setenv("EXECUTORCH_ROOT", str(installed(board)))
    there = symbols(board)
    [kernel] = [address for name, address in there.items() if name.startswith("standin::add_out")]
    assert kernel >> 24 == external
    assert there["reset"] >> 24 == code


def test_libraries_that_the_package_does_not_know_are_linked_whole(
    installed: Installed, model: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("EXECUTORCH_ROOT", str(installed(M3)))
    monkeypatch.setenv("EXECUTORCH_KERNELS", "selected_ops_lib, custom_ops_lib")
    outcome = run(M3, model, tmp_path / "run")
    assert outcome.result.target is not None
    assert outcome.result.target.kernels == "ExecuTorch's selected, custom kernels"
    assert outcome.result.target.operators == 4


@pytest.mark.parametrize(
    ("file", "cause", "instead", "symptom"),
    [
        pytest.param(
            "ports/cortex_m/startup_cortex_m.c",
            "    run_constructors();\n",
            "",
            "constructors of static objects did not run.*ExecuTorch Error 0x02 InvalidState",
            id="constructors not called",
        ),
        pytest.param(
            "ports/cortex_m/sections.ld",
            "KEEP(*(SORT_BY_INIT_PRIORITY(.init_array.*)))\n    KEEP(*(.init_array))",
            "*(.init_array*)",
            "constructors of static objects did not run.*ExecuTorch Error 0x02 InvalidState",
            id="constructors not kept",
        ),
        pytest.param(
            "ports/cortex_m/sections.ld",
            "*(.got*)",
            "",
            "no answer to HELLO.* no frames",  # it faults again and again
            id="global offset table not loaded",
        ),
        pytest.param(
            "cmake/executorch_installed.cmake",
            "-Wl,--whole-archive ${file}",
            "${file}",
            "Missing operator.*ExecuTorch Error 0x14 OperatorMissing",
            id="registration not linked whole",
        ),
    ],
)
def test_a_port_without_this_part_fails(
    file: str,
    cause: str,
    instead: str,
    symptom: str,
    installed: Installed,
    model: Path,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    ours = ROOT / "firmware_stub"
    broken = tmp_path / "firmware_stub"
    shutil.copytree(ours, broken, ignore=shutil.ignore_patterns("build", "models", "fuzz"))
    text = (broken / file).read_text()
    assert text.count(cause) == 1
    (broken / file).write_text(text.replace(cause, instead))
    monkeypatch.setenv("EXECUTORCH_ROOT", str(installed(M3)))
    monkeypatch.setenv("EXECUTORCH_KERNELS", "selected_ops_lib")
    monkeypatch.setenv("ETHARNESS_BUILD_DIR", str(tmp_path / "build"))
    monkeypatch.setattr(build, "data_directory", lambda name: broken if name == ours.name else None)
    board = harness.Board.load(M3).file.read_text().replace("boot_s = 20", "boot_s = 5")
    impatient = tmp_path / f"{M3}.toml"
    impatient.write_text(re.sub("budget = .*", "", board))
    with pytest.raises(HarnessError, match=symptom):
        run(str(impatient), model, tmp_path / "run")


def test_a_failed_kernel_is_shown_with_executorchs_error(
    installed: Installed,
    model: Path,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv("EXECUTORCH_ROOT", str(installed(M3)))
    with pytest.raises(TargetError) as caught:
        run(M3, model, tmp_path / "run", inputs=(numbers(tmp_path, -1, 0, 0, 0),))
    assert "add.out: a negative number (ExecuTorch Error 0x12 InvalidArgument)" in str(caught.value)


def test_without_kernels_the_operator_is_missing(
    installed: Installed, model: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("EXECUTORCH_ROOT", str(installed(M3)))
    monkeypatch.setenv("EXECUTORCH_KERNELS", "")
    with pytest.raises(TargetError) as caught:
        run(M3, model, tmp_path / "run")
    message = "Missing operator: [0] aten::add.out (ExecuTorch Error 0x14 OperatorMissing)"
    assert message in str(caught.value)


def test_an_executorch_for_another_core_is_refused(
    installed: Installed, monkeypatch: pytest.MonkeyPatch
) -> None:
    for board, of, words in (
        (M3, M4, "is built for"),
        (M4, M3, "with -mfloat-abi=soft, not hard"),
        (M4, M55, "is built for"),
    ):
        monkeypatch.setenv("EXECUTORCH_ROOT", str(installed(of)))
        with pytest.raises(UsageError, match=words) as caught:
            build.build_firmware(harness.Board.load(board))
        assert f"cannot be linked for board {board}" in str(caught.value)


def test_an_executorch_without_the_tracer_is_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    prefix = install_standin(CORES[M3], tmp_path, "-DSTANDIN_TRACER=OFF")
    monkeypatch.setenv("EXECUTORCH_ROOT", str(prefix))
    with pytest.raises(UsageError, match="built without the event tracer") as caught:
        build.build_firmware(harness.Board.load(M3))
    assert "-DEXECUTORCH_ENABLE_EVENT_TRACER=ON" in caught.value.hint


def test_a_missing_kernel_library_is_named_with_those_there_are(
    installed: Installed, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("EXECUTORCH_ROOT", str(installed(M3)))
    monkeypatch.delenv("EXECUTORCH_KERNELS")
    with pytest.raises(UsageError, match="kernel library quantized_ops_lib not found") as caught:
        build.build_firmware(harness.Board.load(M3))
    assert "custom_ops_lib, portable_ops_lib, selected_ops_lib" in caught.value.hint


def test_doctor_checks_what_build_checks(
    installed: Installed, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    board = harness.Board.load(M3)

    def lacks() -> str:
        return " ".join(tool for tool in missing_tools(board) if "ExecuTorch for" in tool)

    monkeypatch.setenv("EXECUTORCH_ROOT", str(installed(M3)))
    assert lacks() == ""
    monkeypatch.delenv("EXECUTORCH_KERNELS")
    assert "kernel library quantized_ops_lib not found" in lacks()
    monkeypatch.setenv("EXECUTORCH_KERNELS", "portable_ops_lib")
    monkeypatch.setenv("EXECUTORCH_ROOT", str(installed(M4)))
    assert "cannot be linked" in lacks()
    half = tmp_path / "half"
    shutil.copytree(installed(M3), half)
    (half / "lib/libexecutorch_core.a").unlink()
    monkeypatch.setenv("EXECUTORCH_ROOT", str(half))
    assert "its build has not finished" in lacks()
    with pytest.raises(UsageError, match="its build has not finished"):
        build.build_firmware(board)


def test_a_cmsis_nn_without_mve_is_refused_for_a_core_with_it(
    installed: Installed, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    prefix = tmp_path / "installed"
    shutil.copytree(installed(M55), prefix)
    monkeypatch.setenv("EXECUTORCH_ROOT", str(prefix))
    (tmp_path / "nn.c").write_text("int nn;")
    library = str(prefix / "lib/libcmsis-nn.a")
    for cpu in ("cortex-m55+nomve", "cortex-m55"):
        for command in (
            ["gcc", "-c", "-mthumb", f"-mcpu={cpu}", "-mfloat-abi=hard", "nn.c"],
            ["ar", "rc", library, "nn.o"],
        ):
            tool, *words = command
            subprocess.run([f"arm-none-eabi-{tool}", *words], cwd=tmp_path, check=True)
        if cpu.endswith("+nomve"):
            with pytest.raises(UsageError, match=r"libcmsis-nn\.a is built without MVE") as caught:
                build.build_firmware(harness.Board.load(M55))
            assert "-DTARGET_CPU=cortex-m55" in caught.value.hint
    assert build.build_firmware(harness.Board.load(M55)).image.is_file()


def test_the_version_is_that_of_the_checkout(
    installed: Installed, model: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    prefix = tmp_path / "executorch/cmake-out-m3"
    shutil.copytree(installed(M3), prefix)
    (tmp_path / "executorch/version.txt").write_text("1.5.0a0\n")
    monkeypatch.setenv("EXECUTORCH_ROOT", str(prefix))
    outcome = run(M3, model, tmp_path / "run")
    assert outcome.result.target is not None
    assert outcome.result.target.runtime == "ExecuTorch 1.5.0a0"


def test_building_again_takes_up_a_new_library(
    installed: Installed, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    prefix = installed(M4)
    monkeypatch.setenv("EXECUTORCH_ROOT", str(prefix))
    board = harness.Board.load(M4)
    first = build.build_firmware(board)
    image = first.image
    before = image.stat().st_mtime_ns
    assert build.build_firmware(board).image.stat().st_mtime_ns == before
    (tmp_path / "more.c").write_text("int more;")
    library = prefix / "lib/libportable_kernels.a"
    for command in (
        ["arm-none-eabi-gcc", "-c", "-mthumb", "-mcpu=cortex-m4", "-mfloat-abi=hard", "more.c"],
        ["arm-none-eabi-ar", "r", str(library), "more.o"],
    ):
        subprocess.run(command, cwd=tmp_path, check=True)
    again = build.build_firmware(board)
    assert again.image.stat().st_mtime_ns > before
    assert again.build_id != first.build_id
    assert build.built_firmware(board) == again


def test_a_log_is_streamed_between_executions(
    installed: Installed, model: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The stand-in's kernels, on an emulated clock that counts instructions."""
    monkeypatch.setenv("EXECUTORCH_ROOT", str(installed(M3)))
    whole = harness.run(model, board=M3, runs=100, output=tmp_path / "whole")
    streamed = harness.run(
        model, board=M3, runs=100, output=tmp_path / "streamed", trace_limit=2048, stream=True
    )
    assert streamed.result.trace is not None
    assert streamed.result.trace.log_bytes > 3 * 2048
    assert not streamed.trace.losses.any
    events = [row for row in identities(streamed.trace) if row[0] not in STREAMING]
    assert events == identities(whole.trace)


@pytest.mark.long
@pytest.mark.extension("qualify")
@pytest.mark.parametrize("board", CORES)
def test_a_board_with_executorch_qualifies(
    board: str,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    etharness: Callable[..., CommandResult],
) -> None:
    """With the bundled runtime and kernels behind the stand-in, which then takes any network."""
    firmware = ROOT / "firmware_stub"
    prefix = install_standin(CORES[board], tmp_path, f"-DSTANDIN_FIRMWARE={firmware}")
    monkeypatch.setenv("EXECUTORCH_ROOT", str(prefix))
    monkeypatch.delenv("EXECUTORCH_KERNELS")
    done = etharness("qualify", "--board", board, "--quick", "-o", tmp_path / "out", "--json")
    stages = {stage["name"]: stage for stage in json.loads(done.out)["stages"]}
    offered = {name: stage for name, stage in stages.items() if stage["state"] != "not offered"}
    assert {*stages} - {*offered} == {"rate", "counters"}
    wrong = {
        name: stage["message"] for name, stage in offered.items() if stage["state"] != "passed"
    }
    assert {*wrong} == {"wrap"}, wrong  # left out by --quick
    assert done.code == 0
    found = {figure["name"]: figure["value"] for figure in stages["networks"]["figures"]}
    assert "scalars" in found
    assert "not run" not in found["scalars"]  # how many follow depends on the host
