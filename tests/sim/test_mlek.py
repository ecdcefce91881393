"""Arm's image with ExecuTorch under QEMU: packaged networks run, or ExecuTorch's error is shown."""

from __future__ import annotations

import json
import subprocess
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest

import harness
from harness import TargetError, UsageError, build_firmware, start_target
from harness.extensions.mlek import image, machine
from harness.extensions.qualify.qualification import qualify
from harness.target.selection import Chosen
from tests.conftest import MODELS, CommandResult

pytestmark = pytest.mark.sim
BOARD = "qemu-mps3-an547-mlek"

RUN = [
    *("ad_f32", "arenas", "functions", "ic_f32", "images", "kws_f32", "rows_m55", "state"),
    *("ad_int8_m55", "small_int8_m55", "vww_f32"),
]
OTHER_CORES = (
    *("ad_int8", "ic_int8", "ic_int8_m4", "kws_int8", "kws_int8_m4", "one_m0", "picture_m4"),
    *("small_int8", "vww_int8", "vww_int8_m4"),
)
"""Exported for other cores."""

REFUSED = {
    # Operators that are younger than the image, or have changed.
    "ic_int8_m55": r"kernel 'cortex_m::pad.out' not found.*0x14 OperatorMissing",
    "kws_int8_m55": r"Expected 15args received 16",
    "vww_int8_m55": r"Expected 14args received 15",
    "picture_m55": r"kernel 'cortex_m::quantized_transpose_conv2d.out' not found",
    "npu_int": r"Backend SimulatedNpu is not registered.*0x20 NotFound",
    "npu_str": r"Backend SimulatedNpu is not registered",
}
UNFIT = {
    "scalars": "input 1 has no dimension, which the runner",
    "unplanned": "output 0 has no planned memory",
    "dynamic": r"input 0 must be float32\[",
}
"""What the runner of the kit does not handle, so nothing is started."""


def run(model: str, directory: Path, runs: int = 0) -> harness.Run:
    """Run a packaged network with its reference."""
    with np.load(MODELS / "references.npz") as arrays:
        files: dict[str, list[Path]] = {"input": [], "output": []}
        for kind, paths in files.items():
            for key in sorted(key for key in arrays.files if key.startswith(f"{model}.{kind}")):
                paths.append(directory / f"{key}.npy")
                np.save(paths[-1], arrays[key])
        again = int(arrays[f"{model}.runs"]) if f"{model}.runs" in arrays.files else 1
    return harness.run(
        MODELS / f"{model}.pte",
        board=BOARD,
        runs=runs or again,
        inputs=files["input"],
        references=files["output"],
        output=directory / "run",
    )


def test_every_packaged_network_is_in_one_list() -> None:
    packaged = sorted(path.stem for path in MODELS.glob("*.pte"))
    assert sorted([*RUN, *OTHER_CORES, *REFUSED, *UNFIT, "methods"]) == packaged


@pytest.mark.parametrize("model", RUN)
def test_networks_compute_the_references(model: str, tmp_path: Path) -> None:
    done = run(model, tmp_path)
    assert done.result.exit_code == 0
    result = done.result
    assert result is not None
    assert result.verdict is not None
    compared = [check for check in result.verdict.checks if check.code == "I11"]
    assert compared
    assert all(check.passed and "elements match" in check.reason for check in compared)


@pytest.mark.parametrize("model", REFUSED)
def test_executorch_says_why_it_does_not_run_a_network(model: str, tmp_path: Path) -> None:
    with pytest.raises(TargetError, match=REFUSED[model]) as refused:
        run(model, tmp_path)
    assert refused.value.exit_code == 4
    result = json.loads((tmp_path / "run" / "result.json").read_text())
    assert result["exit_code"] == 4
    assert result["failure"]["message"] == refused.value.message
    assert b"ExecuTorch" in (tmp_path / "run" / "console.log").read_bytes()


@pytest.mark.extension("executorch")
@pytest.mark.parametrize("model", OTHER_CORES)
def test_networks_for_other_cores_are_refused(model: str, tmp_path: Path) -> None:
    with pytest.raises(UsageError, match=r"not for Cortex-M55 \(MVE\)") as refused:
        run(model, tmp_path)
    assert "CortexM.M55" in refused.value.hint


@pytest.mark.parametrize("model", UNFIT)
def test_what_the_runner_cannot_handle_is_refused(model: str, tmp_path: Path) -> None:
    with pytest.raises(UsageError, match=UNFIT[model]):
        run(model, tmp_path)


def test_only_the_first_method_runs(tmp_path: Path) -> None:
    first, second = harness.read_program((MODELS / "methods.pte").read_bytes()).methods[:2]
    with pytest.raises(UsageError, match=f"executes the first method .*{first.name!r}") as refused:
        harness.run("methods", board=BOARD, method=second.name, output=tmp_path / "second")
    assert "this method alone" in refused.value.hint
    done = harness.run("methods", board=BOARD, method=first.name, output=tmp_path / "first")
    assert done.result.exit_code == 0


def test_a_run_is_recorded_like_any_other(tmp_path: Path) -> None:
    done = run("kws_f32", tmp_path, runs=3)
    result = done.result
    assert result is not None
    assert (result.runs_requested, result.runs_completed) == (3, 3)
    assert result.emulated_time
    assert result.target is not None
    assert result.target.runtime == "ExecuTorch of Arm's kit 26.03"
    assert "CMSIS-NN" in result.target.kernels
    assert image.EXECUTORCH.sha256.startswith(result.target.build_id)
    assert result.model is not None
    # ExecuTorch's own numbers, as the image prints them.
    assert (result.model.planned_bytes, result.model.method_bytes) == (64_000, 11_793)
    assert result.model.temporary_bytes == 148
    again = harness.load(tmp_path / "run")
    assert again.trace is not None
    assert [block.name for block in again.trace.blocks] == ["Default", *["Execute"] * 3]
    # 31 instructions, each with its kernel, and the execution itself.
    assert [block.count for block in again.trace.blocks] == [2, *[63] * 3]
    assert again.verdict.passed


def test_two_runs_count_the_same_instructions_in_every_operator(tmp_path: Path) -> None:
    durations = []
    for name in ("first", "second"):
        (tmp_path / name).mkdir()
        trace = run("ad_f32", tmp_path / name, runs=2).trace
        assert trace is not None
        durations.append((trace.end - trace.start).tolist())
    assert durations[0] == durations[1]
    assert len(durations[0]) > 20


@pytest.mark.parametrize("model", ["kws_f32", "rows_m55", "functions"])
def test_the_trace_has_the_programs_instructions_in_order(model: str, tmp_path: Path) -> None:
    trace = run(model, tmp_path).trace
    assert trace is not None
    (method,) = harness.read_program((MODELS / f"{model}.pte").read_bytes()).methods
    named = [trace.names[name] for name in trace.name]
    called = [
        at
        for at, name in zip(trace.instruction.tolist(), named, strict=True)
        if name == "OPERATOR_CALL"
    ]
    kernels = [at for at, each in enumerate(method.chains[0]) if each.name]
    assert called == kernels
    natives = [name.removeprefix("native_call_") for name in named if name.startswith("native_")]
    assert natives == [each.name.rpartition("::")[2] for each in method.chains[0] if each.name]


def test_kernels_that_print_are_named(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    run("rows_m55", tmp_path)
    (warning,) = [each for each in caplog.messages if "print while they execute" in each]
    assert warning.endswith("those of printing, too: quantized_linear")
    caplog.clear()
    (tmp_path / "float").mkdir()
    run("kws_f32", tmp_path / "float")
    assert not [each for each in caplog.messages if "print while they execute" in each]


@pytest.mark.parametrize(
    ("options", "named"),
    [
        ({"stream": True, "profile": "method"}, "--stream, --profile cannot be set"),
        ({"values": "outputs"}, "--values cannot be set"),
        ({"counters": "cycles"}, "--counters cannot be set"),
    ],
)
def test_options_of_other_firmware_are_refused(
    options: dict[str, object], named: str, tmp_path: Path
) -> None:
    with pytest.raises(UsageError, match=named):
        harness.run("kws_f32", board=BOARD, output=tmp_path / "run", **options)


def test_a_missing_image_is_named_with_its_remedy(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(image, "DISTRIBUTION", "etdump-harness-without-such-a-package")
    with pytest.raises(UsageError, match="is not installed") as missing:
        harness.run("kws_f32", board=BOARD, output=tmp_path / "run")
    assert missing.value.hint == image.PACKAGE_REMEDY


def test_what_needs_a_link_says_that_there_is_none() -> None:
    with pytest.raises(UsageError, match="has no link") as refused:
        start_target(harness.Board.load(BOARD), None)
    assert f"etharness run --board {BOARD}" in refused.value.hint
    with pytest.raises(UsageError, match="nobody here builds"):
        build_firmware(harness.Board.load(BOARD))


def test_the_text_of_the_runner_is_read_with_its_errors() -> None:
    text = (
        b"INFO - Total planned memory allocated: 48 bytes\r\n"
        b"E [ExecuTorch: a.cpp:3 f()] kernel 'x' not found.\r\n"
        b"E [ExecuTorch: a.cpp:3 f()] kernel 'x' not found.\r\n"
        b"E [ExecuTorch: m.cpp:9 g()] arg 0 with type id 1\r\n"
        b'INFO - Loading of method "forward" failed with status 0x14\r\n'
        b"INFO - \tTemp memory: Used: 0; Peak: 165; Available: 33554432\r\n"
    )
    report = machine.read_report(text)
    assert report.errors == ("kernel 'x' not found. (a.cpp:3)",)
    assert (report.planned, report.method, report.temporary) == (48, None, 165)
    assert (report.status, report.executed) == (0x14, False)


def symbols_of(elf: Path) -> dict[str, int]:
    listed = subprocess.run(
        ["arm-none-eabi-nm", "--defined-only", str(elf)],
        check=True,
        capture_output=True,
        text=True,
    ).stdout
    return {line.split()[-1]: int(line.split()[0], 16) for line in listed.splitlines()}


def test_the_hooks_are_the_assembled_file(tmp_path: Path) -> None:
    source = Path(machine.__file__).with_name("runner_hooks.S")
    elf, binary = tmp_path / "hooks.elf", tmp_path / "hooks.bin"
    for command in (
        ["arm-none-eabi-as", "-mthumb", str(source), "-o", str(tmp_path / "hooks.o")],
        ["arm-none-eabi-ld", "-Ttext=0x60000", str(tmp_path / "hooks.o"), "-o", str(elf)],
        ["arm-none-eabi-objcopy", "-O", "binary", "-j", ".text", str(elf), str(binary)],
    ):
        subprocess.run(command, check=True, capture_output=True)
    assert binary.read_bytes() == machine.HOOKS
    symbols = symbols_of(elf)
    assert [*machine.CALLS.values()] == [symbols["loop"]]


def test_the_places_in_the_image_are_its_symbols() -> None:
    symbols = symbols_of(image.find_image())
    assert [*machine.REPLACED] == [symbols["arm_ethosu_npu_init"]]
    handler = symbols["_ZN3arm3app19RunInferenceHandlerERNS0_18ApplicationContextE"]
    assert handler == 0x76C0
    assert symbols["_Z8MainLoopv"] < min(machine.CALLS) < handler


def test_qualification_has_the_stages_that_apply(tmp_path: Path) -> None:
    record = qualify(Chosen(BOARD), tmp_path)
    assert (record.qualified, record.exit_code) == (True, 0)
    states = {stage.name: stage.state for stage in record.stages}
    assert states.pop("run") == states.pop("networks") == "passed"
    assert set(states.values()) == {"not offered"}
    assert all("not applicable" in record.stage(name).message for name in states)
    assert record.kernels.startswith("ExecuTorch of Arm's kit 26.03 with")
    found = {figure.name: str(figure.value) for figure in record.stage("networks").figures}
    assert sorted(name for name, text in found.items() if "elements match" in text) == sorted(RUN)
    refused = {name for name, text in found.items() if text.startswith("not run: ")}
    assert refused == set(found) - {*RUN}
    assert refused >= {*REFUSED, *UNFIT}


def test_doctor_names_what_the_board_needs(etharness: Callable[..., CommandResult]) -> None:
    code, out, _ = etharness("doctor", "--board", BOARD)
    assert code == 0
    rows = {line.split()[1]: line for line in out.splitlines() if BOARD in line}
    assert set(rows) >= {"mlia-ethos-u", "qemu-system-arm"}
    assert all(line.startswith("ok") and line.count(BOARD) == 1 for line in rows.values())


def test_doctor_says_how_to_install_the_image(
    etharness: Callable[..., CommandResult], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(image, "DISTRIBUTION", "etdump-harness-without-such-a-package")
    code, out, err = etharness("doctor", "--board", BOARD)
    assert code == 2
    assert "pip install --no-deps mlia-ethos-u==0.1.0" in out + err
