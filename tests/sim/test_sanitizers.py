"""The device's code under AddressSanitizer and UndefinedBehaviorSanitizer, at work and under fuzz.

A sanitizer's finding ends the process, so a sanitized board that answers to the end has none. It
is built by clang, with the fuzzers' objects; by GCC with ``ETHARNESS_EVERY_MODEL=1``, as
`make measure` does.
"""

from __future__ import annotations

import os
from pathlib import Path

import pytest

import harness
from tests.conftest import MODELS
from tests.support.boards import native_board, started
from tests.support.calls import fresh
from tests.support.examples import sampled
from tests.support.fuzzing import FUZZERS, fuzz, replay
from tests.support.kernels import one_call
from tests.support.operators import CALLS, VARIANTS

pytestmark = [pytest.mark.sim, pytest.mark.uncounted]
EVERY_MODEL = "ETHARNESS_EVERY_MODEL" in os.environ


@pytest.fixture
def board(tmp_path: Path) -> Path:
    """The native board, built with sanitizers."""
    return native_board(tmp_path, "native-sanitized" if EVERY_MODEL else "fuzz")


def run(board: Path, model: Path, *, trace_limit: int = 0) -> harness.Run:
    return harness.run(
        model, board=board, runs=2, output=board.parent / "out", trace_limit=trace_limit
    )


@pytest.mark.parametrize("model", ["kws_f32", "kws_int8", "npu_int", "npu_str"])
@pytest.mark.parametrize("trace_limit", [0, 1024, 100])
def test_a_sanitized_board_runs_the_models(board: Path, model: str, trace_limit: int) -> None:
    outcome = run(board, MODELS / f"{model}.pte", trace_limit=trace_limit)
    assert outcome.result.runs_completed == 2
    assert outcome.trace.losses.any == (trace_limit > 0)


@pytest.mark.attack(
    "Files", "damaged models on firmware with sanitizers", "refused; no sanitizer reports anything"
)
def test_a_sanitized_board_refuses_damaged_models(board: Path) -> None:
    whole = (MODELS / "kws_int8.pte").read_bytes()
    damaged = board.parent / "damaged.pte"
    for size in (0, 7, 8, 64, 1000, 14_632, 14_719, len(whole) // 2):
        damaged.write_bytes(whole[:size])
        with pytest.raises(harness.HarnessError) as refused:
            run(board, damaged)
        assert refused.value.exit_code == 2
    damaged.write_bytes(whole.replace(b"cortex_m::softmax", b"cortex_m::hardmax"))
    with pytest.raises(harness.HarnessError, match=r"cortex_m::hardmax\.out") as refused:
        run(board, damaged)
    assert refused.value.exit_code == 2
    # The host refuses that before it uploads; so does the board itself.
    with (
        started(str(board)) as bench,
        pytest.raises(harness.HarnessError, match="hardmax") as refused,
    ):
        bench.session.load_model(damaged.read_bytes())
    assert refused.value.exit_code == 4


@pytest.mark.long
def test_no_kernel_looks_beyond_its_arguments(tmp_path: Path) -> None:
    """The calls that the kernels take or refuse in tests/firmware, sanitized.

    Every third of the refused ones; all with ``ETHARNESS_EVERY_MODEL=1``, as `make measure` does.
    """
    step = 1 if EVERY_MODEL else 3
    corpus = tmp_path / "corpus"
    corpus.mkdir()
    count = 0
    for operator, call in [*CALLS.items(), *VARIANTS]:
        spoilt = [arguments for _, arguments in call.spoilt()]
        for arguments in [call.arguments, *spoilt[count % step :: step]]:
            (corpus / str(count)).write_bytes(one_call(operator, fresh(arguments)))
            count += 1
        overlapping = one_call(operator, fresh(call.arguments), overlapping=True)
        (corpus / f"{count}_overlapping").write_bytes(overlapping)
    assert replay("fuzz_program", corpus) >= count


@pytest.mark.parametrize("name", sampled(FUZZERS, FUZZERS[0]))
def test_fuzzing_finds_nothing(name: str, tmp_path: Path) -> None:
    corpus = tmp_path / "corpus"
    corpus.mkdir()
    if name == "fuzz_program":
        for model in MODELS.glob("*.pte"):
            (corpus / model.name).write_bytes(model.read_bytes())
        for operator, call in CALLS.items():
            program = one_call(operator, fresh(call.arguments))
            (corpus / operator.replace(":", "_")).write_bytes(program)
        for operator, call in VARIANTS:
            program = one_call(operator, fresh(call.arguments))
            (corpus / f"{operator.replace(':', '_')}_variant").write_bytes(program)
    if name == "fuzz_npu":
        for model in MODELS.glob("npu_*.pte"):
            for number, part in enumerate(model.read_bytes().split(b"ENPU")[1:]):
                (corpus / f"{model.stem}_{number}").write_bytes(b"ENPU" + part)
    assert fuzz(name, corpus) > 100, "the fuzzer hardly ran"
