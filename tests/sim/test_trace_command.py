"""``etharness trace``: Arm's image with ExecuTorch, which nobody rebuilt, under QEMU."""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest

import harness
from harness import Call, Trace
from harness.extensions.mlek.image import TFLITE_MICRO, find_image
from harness.extensions.probes.unbuilt import CallTracer
from tests.conftest import MODELS, CommandResult
from tests.support import tflite

pytestmark = pytest.mark.sim

Command = Callable[..., CommandResult]
BOARD = "qemu-mps3-an547"
EVENT_COST = 800
"""Instructions that our tracer takes for an event, with the reading of its clock, rounded up."""
MODEL_AT = "0x90000000"
NPU = "arm_ethosu_npu_init"


def trace(etharness: Command, directory: Path, model: str, *more: str | Path) -> CommandResult:
    load = f"{MODELS / model}.pte@{MODEL_AT}"
    options = ("--board", BOARD, "--load", load, "--return", NPU, "-o", directory)
    return etharness("trace", find_image(), *options, *more)


def events(run: Path) -> Trace:
    return harness.read_ed00((run / "trace.etdp").read_bytes())


def row_texts(trace: Trace) -> list[tuple[str | None, int, int]]:
    columns = (trace.name.tolist(), trace.chain.tolist(), trace.instruction.tolist())
    return [(trace.text(name), *place) for name, *place in zip(*columns, strict=True)]


def test_order_and_names_are_those_of_the_model_and_counts_repeat(
    etharness: Command, tmp_path: Path
) -> None:
    ran = [tmp_path / "first", tmp_path / "second"]
    for directory in ran:
        result = trace(etharness, directory, "kws_f32", "--model", "kws_f32", "--json")
        assert result.code == 0, result.err
    document = json.loads(result.out)
    assert document["trace"]["executions"] == 1
    assert [clock["name"] for clock in document["target"]["clocks"]] == ["instructions"]
    assert document["emulated_time"] is True
    followed = events(ran[0])
    assert [block.name for block in followed.blocks] == ["Default", "Execute"]
    # Our own runtime logs what ExecuTorch's tracer logs (tests/oracle): the same events, in order.
    harness.run(MODELS / "kws_f32.pte", board="native", output=tmp_path / "native")
    assert row_texts(followed) == row_texts(events(tmp_path / "native"))
    assert (ran[0] / "trace.etdp").read_bytes() == (ran[1] / "trace.etdp").read_bytes()
    # What the kernels take was counted by another plugin (convolution 0, 3 and 6).
    counts = (followed.end - followed.start)[followed.named("OPERATOR_CALL")].astype(np.int64)
    assert [round(count, -4) for count in counts[[0, 3, 6]].tolist()] == [
        11_340_000,
        3_070_000,
        37_700_000,
    ]
    assert b"Initialising ExecuTorch runtime" in (ran[0] / "console.log").read_bytes()
    loaded = harness.load(ran[0]).trace
    assert loaded is not None
    assert (loaded.end == followed.end).all()


@pytest.mark.parametrize("model", ["rows_m55", "ad_f32"])
def test_int8_and_small_networks_are_followed(
    etharness: Command, tmp_path: Path, model: str
) -> None:
    result = trace(etharness, tmp_path / "run", model, "--model", model, "--quiet")
    assert result.code == 0, result.err
    file = MODELS / f"{model}.pte"
    method = harness.read_program(file.read_bytes()).method("forward")
    kernels = [
        (number, each) for number, each in enumerate(method.chains[0]) if each.call == Call.KERNEL
    ]
    followed = events(tmp_path / "run")
    calls = followed.named("OPERATOR_CALL")
    assert followed.instruction[calls].tolist() == [number for number, _ in kernels]


def test_without_a_model_operators_are_named_by_their_kernels(
    etharness: Command, tmp_path: Path
) -> None:
    result = trace(etharness, tmp_path / "run", "kws_f32", "--quiet")
    assert result.code == 0, result.err
    names = [name for name, _, _ in row_texts(events(tmp_path / "run"))]
    assert names[2:4] == ["torch::executor::native::convolution_out", "OPERATOR_CALL"]
    assert "torch::executor::native::softmax_out" in names


def test_another_model_is_refused(etharness: Command, tmp_path: Path) -> None:
    result = trace(etharness, tmp_path / "run", "kws_f32", "--model", "ic_f32")
    assert result.code != 0
    assert "the firmware runs another model: instruction 8" in result.err
    assert "torch::executor::native::relu_out" in result.err
    assert not (tmp_path / "run" / "result.json").exists()


def test_firmware_that_does_not_execute_shows_its_console(
    etharness: Command, tmp_path: Path
) -> None:
    more = ("--board", BOARD, "-o", tmp_path / "run", "--timeout", "5")
    result = etharness("trace", find_image(), *more)
    assert result.code != 0
    assert "has ended no execution: it has begun none" in result.err
    assert "Failed to initialise Ethos-U device" in result.err
    result = trace(etharness, tmp_path / "run", "kws_f32", "--runs", "2", "--timeout", "5")
    assert "executed the model 1 of 2 times" in result.err
    assert "--runs 1" in result.err


def test_operators_of_tflite_micro_are_followed(etharness: Command, tmp_path: Path) -> None:
    model = tmp_path / "chain.tflite"
    model.write_bytes(tflite.chain_of((tflite.RELU, tflite.ABS, tflite.NEG, tflite.RELU), 64))
    result = etharness(
        "trace",
        find_image(TFLITE_MICRO),
        *(
            "--board",
            BOARD,
            "--load",
            f"{model}@{MODEL_AT}",
            "--return",
            NPU,
            "-o",
            tmp_path / "run",
        ),
        *(
            "--at",
            "*P13TfLiteContextP10TfLiteNode",
            "--execution",
            "tflite::MicroInterpreter::Invoke",
        ),
        "--quiet",
    )
    assert result.code == 0, result.err
    names = [(name or "").rsplit("::", 1)[-1] for name, _, _ in row_texts(events(tmp_path / "run"))]
    assert names == ["ReluEval", "AbsEval", "NegEval", "ReluEval", "execute"]


def test_functions_that_are_not_there_are_refused(etharness: Command, tmp_path: Path) -> None:
    more = ("--board", BOARD, "-o", tmp_path / "run", "--quiet")
    result = etharness("trace", find_image(), "--at", "tflite::Relu*", *more)
    assert result.code == 2
    assert "has no function 'tflite::Relu*'" in result.err
    result = etharness("trace", find_image(), "--return", "arm_ethosu_npu_innit", *more)
    assert result.code == 2
    assert "did you mean 'arm_ethosu_npu_init'" in result.err
    result = etharness("trace", find_image(), "--execution", "main", *more)
    assert result.code == 2
    assert "--execution needs --at" in result.err
    result = etharness("trace", find_image(), "--load", "model.pte", *more)
    assert result.code == 2
    assert "FILE@ADDRESS" in result.err


@pytest.mark.parametrize(("name", "tick"), [("qemu-mps2-an385", 40), ("qemu-riscv32-virt", 1)])
def test_counts_of_a_loop_of_our_own_are_those_of_its_tracer(
    tmp_path: Path, name: str, tick: int
) -> None:
    """The bundled runtime, in the same run: its tracer reads a timer of ``tick`` instructions."""
    board = harness.Board.load(name)
    image = harness.build_firmware(board).image
    kernels = ("quantize", "dequantize", "quantized_*", "softmax")
    tracer = CallTracer(image, tmp_path, kernels, "etd_method_execute")
    file = tmp_path / f"{name}.toml"
    words = ", ".join(json.dumps(word) for word in ("-icount", "shift=0", *tracer.arguments))
    text = board.file.read_text().replace('"-icount", "shift=0"', words)
    lines = [line for line in text.splitlines() if not line.startswith("budget")]
    file.write_text("\n".join(lines))
    run = harness.run("kws_int8", board=str(file), runs=2, output=tmp_path / "run")
    assert run.trace is not None
    counted = tracer.trace()
    ours, theirs = (
        (each.end.astype(np.int64) - each.start.astype(np.int64)) for each in (run.trace, counted)
    )
    calls = ours[run.trace.named("OPERATOR_CALL")] * tick
    operators = theirs[~counted.named("Method::execute")]
    assert len(operators) == len(calls) == 2 * 16
    assert operators[:16].tolist() == operators[16:].tolist()
    # A reading is cut to whole ticks, and lies within what the tracer does for an event. A kernel
    # that ends by a jump is counted until the next one begins, so with the next event's beginning.
    cost = calls - operators
    assert np.abs(cost).max() < EVENT_COST
    if tick == 1:  # exact: one cost for kernels that return, one for those that end by a jump
        assert len(np.unique(cost)) == 2
    whole = ours[run.trace.named("Method::execute")] * tick
    assert np.abs(whole - theirs[counted.named("Method::execute")]).max() < 2 * EVENT_COST
    assert operators.sum() > 100 * EVENT_COST * len(operators)


FPGA_COUNTER = ("--stops", "--counter", "0x49302018", "--counter-hz", "20000000")
"""A counter of the emulated board that runs on while the core is halted: 50 instructions a tick."""


def test_stops_measure_what_counting_counts_within_their_bound(
    etharness: Command, tmp_path: Path
) -> None:
    counted, stopped = tmp_path / "counted", tmp_path / "stopped"
    assert trace(etharness, counted, "kws_f32", "--model", "kws_f32", "--quiet").code == 0
    result = trace(etharness, stopped, "kws_f32", "--model", "kws_f32", *FPGA_COUNTER)
    assert result.code == 0, result.err
    assert "which may run on while the core is halted" in result.out
    assert "measured on 8 empty intervals and subtracted" in result.out
    link = json.loads((stopped / "result.json").read_bytes())["link"]
    assert link["stops"] == 2 + 2 * 31 + 8
    assert link["stop_ticks"] > 0
    assert link["stop_bound_ticks"] > 0
    exact, measured = events(counted), events(stopped)
    rows = exact.named("OPERATOR_CALL"), measured.named("OPERATOR_CALL")
    assert exact.instruction[rows[0]].tolist() == measured.instruction[rows[1]].tolist()
    counts, ticks = (
        (each.end - each.start)[row] for each, row in zip((exact, measured), rows, strict=True)
    )
    # Four layers of one shape: a busy host may delay the reading at one of them.
    large = counts == counts.max()
    assert np.count_nonzero(large) == 4
    assert np.median(ticks[large]) * 50 == pytest.approx(counts.max(), rel=0.05)
    assert (ticks[large] * 50 > counts.max() * 0.95).all()
    names = [name for name, _, _ in row_texts(measured)]
    assert names[:2] == ["native_call_convolution.out", "OPERATOR_CALL"]


def test_another_model_is_noticed_at_a_stop(etharness: Command, tmp_path: Path) -> None:
    result = trace(etharness, tmp_path, "kws_f32", "--model", "rows_m55", *FPGA_COUNTER)
    assert result.code != 0
    assert "the firmware runs another model: it executes instruction" in result.err


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (("--stops", "--counter", "cyccnt"), "cycle counter"),
        (("--stops", "--counter", "systick"), "SysTick"),
        (("--stops", "--counter", "0x3"), "--counter 0x3: not a counter"),
        (("--stops",), "the address of the board's timer (system counter) is not known"),
        (("--counter", "cyccnt"), "are for stops"),
        (("--stops", "--at", "main"), "--at with breakpoints needs --execution"),
    ],
)
def test_counters_that_cannot_be_read_are_refused(
    etharness: Command, tmp_path: Path, words: tuple[str, ...], message: str
) -> None:
    result = trace(etharness, tmp_path / "run", "kws_f32", "--model", "kws_f32", *words)
    assert result.code != 0
    assert message in result.err


def test_outputs_and_allocators_are_read_at_the_end(etharness: Command, tmp_path: Path) -> None:
    """The runner's input is memory that nobody has written, so zeros."""
    given = np.zeros((1, 1, 49, 10), np.float32)
    np.save(tmp_path / "zeros.npy", given)
    ours = harness.run(
        "kws_f32", board="native", inputs=[tmp_path / "zeros.npy"], output=tmp_path / "native"
    )
    assert ours.result is not None
    expected = np.load(tmp_path / "native/outputs/0.npy")
    result = trace(etharness, tmp_path / "run", "kws_f32", "--model", "kws_f32")
    assert result.code == 0, result.err
    np.testing.assert_allclose(
        np.load(tmp_path / "run/outputs/0.npy"), expected, rtol=1e-4, atol=1e-6
    )
    document = json.loads((tmp_path / "run/result.json").read_bytes())
    assert document["model"]["outputs_unread"] == ""
    used, size = document["link"]["method_pool_used"], document["link"]["method_pool_size"]
    # The runner counts without what alignment takes.
    said = re.search(rb"Method memory: Used: (\d+);.*Available: (\d+)", console(tmp_path / "run"))
    assert said is not None
    assert int(said[1]) <= used < int(said[1]) + 500
    assert size == int(said[2])
    assert f"allocators at the end: method {used:,} of {size:,} bytes" in result.out


def console(run: Path) -> bytes:
    return (run / "console.log").read_bytes()


def test_outputs_are_read_from_variables(etharness: Command, tmp_path: Path) -> None:
    variable = ("--output-variable", "SystemCoreClock")
    result = trace(etharness, tmp_path / "run", "kws_f32", *variable, "--quiet")
    assert result.code == 0, result.err
    result = trace(etharness, tmp_path / "run", "kws_f32", "--model", "kws_f32", *variable)
    assert result.code == 2
    assert "output 0 has 48 bytes, and SystemCoreClock has 4" in result.err
    result = trace(etharness, tmp_path / "run", "kws_f32", "--output-variable", "no_such")
    assert result.code == 2
    assert "has no variable named 'no_such'" in result.err
