"""Every kernel, in one sound call and in all that spoiling one argument makes of it.

What is spoilt is refused, with a reason and before anything is written.
"""

from __future__ import annotations

import ctypes as ct
from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from harness import read_program
from harness.check.fit import refusals
from tests.firmware.test_registry import names
from tests.support.calls import Call, fresh
from tests.support.kernels import Out, one_call, run_all
from tests.support.operators import CALLS, VARIANTS
from tests.support.programs import ProgramBuilder
from tests.support.runtime import RuntimeFailure, load

ARENA_SIZE = 1 << 14
WITH_OUTPUTS = [  # that are not inputs, too
    name
    for name, call in CALLS.items()
    if any(isinstance(value, Out) for value in call.arguments[1:])
]

PER_CHANNEL = {
    "aten::_native_batch_norm_legit_no_training.out": (1, 2, 3, 4),
    "aten::convolution.out": (2,),
    "cortex_m::quantized_activation.out": (1,),
    "cortex_m::quantized_conv2d.out": (2, 8, 9),
    "cortex_m::quantized_conv2d_nhwc.out": (2, 8, 9),
    "cortex_m::quantized_depthwise_conv2d.out": (2, 9, 10),
    "cortex_m::quantized_depthwise_conv2d_nhwc.out": (2, 9, 10),
    "cortex_m::quantized_linear.out": (2,),
    "cortex_m::quantized_transpose_conv2d.out": (2, 9, 10),
    "cortex_m::quantized_transpose_conv2d_nhwc.out": (2, 9, 10),
    "quantized_decomposed::dequantize_per_channel.out": (1, 2),
    "quantized_decomposed::quantize_per_channel.out": (1, 2),
}
"""Arguments with one number for each channel, or each entry of a table."""


def refusal(library: ct.CDLL, operator: str, arguments: list[Any]) -> str | None:
    """Why the kernel refuses the arguments, or None."""
    loaded = load(library, one_call(operator, fresh(arguments)), arena_size=ARENA_SIZE)
    before = loaded.planned
    try:
        loaded.execute()
    except RuntimeFailure as caught:
        failure = caught
    else:
        return None
    assert failure.status == "KERNEL_FAILED"
    assert failure.message.startswith(f"{operator}: ")
    assert loaded.planned == before, "wrote before it refused"
    return failure.message.removeprefix(f"{operator}: ")


def test_every_kernel_has_a_call(etstub: ct.CDLL) -> None:
    assert sorted(names(etstub)) == sorted(CALLS)


@pytest.mark.parametrize("operator", CALLS)
def test_a_sound_call_is_taken(etstub: ct.CDLL, operator: str) -> None:
    assert refusal(etstub, operator, CALLS[operator].arguments) is None


@pytest.mark.parametrize("operator", WITH_OUTPUTS)
def test_a_dynamic_output_gets_the_size_that_it_needs(etstub: ct.CDLL, operator: str) -> None:
    found = []
    for room in (0, 2):
        arguments = [
            replace(value, room=room) if isinstance(value, Out) and value.nbytes else value
            for value in CALLS[operator].arguments
        ]
        found.append(run_all(etstub, operator, *arguments))
    for exact, resized in zip(*found, strict=True):
        np.testing.assert_array_equal(resized, exact)


@pytest.mark.parametrize(
    ("operator", "index"),
    [(name, index) for name, indexes in PER_CHANNEL.items() for index in indexes],
)
def test_numbers_per_channel_come_in_any_shape(etstub: ct.CDLL, operator: str, index: int) -> None:
    """As many as there are channels, as an exporter has arranged them; no other number of them."""
    arguments = fresh(CALLS[operator].arguments)
    expected = run_all(etstub, operator, *arguments)
    vector = np.asarray(arguments[index])
    for shape in [(1, -1), (-1, 1), (1, 1, -1)]:
        arguments = fresh(CALLS[operator].arguments)
        arguments[index] = vector.reshape(shape)
        for found, wanted in zip(run_all(etstub, operator, *arguments), expected, strict=True):
            np.testing.assert_array_equal(found, wanted)
        arguments[index] = np.concatenate([vector, vector[:1]]).reshape(shape)
        assert refusal(etstub, operator, arguments) is not None


def is_type_listed(operator: str, what: str, arguments: list[Any]) -> bool:
    """Whether the call has another type of a tensor, which operators.def lists for the operator."""
    method = read_program(one_call(operator, fresh(arguments))).methods[0]
    return what.endswith(" type") and refusals(method) == ()


def check_spoilt(library: ct.CDLL, operator: str, call: Call) -> None:
    """Refused is what the table does not accept, and only that."""
    taken, unused, reasons = set(), set(call.accepts), set()
    for what, arguments in call.spoilt():
        reason = refusal(library, operator, arguments)
        if reason is None:
            unused.discard(call.reads_over(what))
            if not (call.takes(what) or is_type_listed(operator, what, arguments)):
                taken.add(what)
        else:
            reasons.add(reason)
    assert not taken, "accepted"
    assert not unused, "never accepted, though the table says so"
    assert reasons
    assert "" not in reasons


@pytest.mark.parametrize("operator", CALLS)
def test_what_is_wrong_is_refused(etstub: ct.CDLL, operator: str) -> None:
    check_spoilt(etstub, operator, CALLS[operator])


@pytest.mark.parametrize(("operator", "call"), VARIANTS, ids=[name for name, _ in VARIANTS])
def test_variants_are_taken_and_refused(etstub: ct.CDLL, operator: str, call: Call) -> None:
    assert refusal(etstub, operator, call.arguments) is None
    check_spoilt(etstub, operator, call)


@pytest.mark.parametrize("operator", ["aten::index.Tensor_out", "aten::masked_select.out"])
def test_a_mask_under_its_output_cannot_grow(etstub: ct.CDLL, operator: str) -> None:
    """In a corrupt file: what is written changes the mask, and only two elements have room."""
    program = ProgramBuilder([0, 64])
    x = program.constant(np.full(8, -1, np.float32))
    mask = program.tensor((8,), np.bool_, memory=(1, 0))
    out = program.tensor((8,), memory=(1, 0), dynamism=1)
    name, _, overload = operator.partition(".")
    chosen = program.tensors(mask, optional=True) if "index" in name else mask
    program.call(name, x, chosen, out, overload=overload)
    loaded = load(etstub, program.finish([mask], [out]))
    assert loaded.run(np.array([1, 0, 0, 0, 0, 0, 0, 1], np.bool_)).size == 2
    assert not any(loaded.planned[8:])
