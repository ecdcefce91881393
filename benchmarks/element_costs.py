"""Measure what operators cost per multiply-accumulate or element; write a table of docs/kernels.md.

    python -m benchmarks.element_costs                # the table "costs" of the page
    python -m benchmarks.element_costs max_pool add   # print the rows whose names have these words

Each row is one call in a typical shape. Its cost is that of the whole call, with the reading of its
arguments and the recording of its event, on an emulated board that counts instructions. What the
page states as the cost before stays there; a new row is its own. Arm's image has its own ExecuTorch
and CMSIS-NN (docs/mlek.md); its arguments are those of March 2026.
"""

from __future__ import annotations

import sys
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from math import prod
from pathlib import Path
from typing import Any, Final

import numpy as np

from benchmarks.calibration import int8s, last, last8, masks, out8, packed, signed
from benchmarks.instructions import samples
from harness import read_program
from harness.analyze.workload import method_steps
from harness.runs.request import RunRequest
from harness.runs.run import run_model
from tests.support.kernels import Out, TensorList
from tests.support.operators import int32s

ROOT = Path(__file__).resolve().parents[1]
PAGE = ROOT / "docs/kernels.md"
BEGIN, END = "<!-- costs -->\n", "<!-- end of costs -->\n"
BOARDS = {"M4F": "qemu-mps2-an386", "M55": "qemu-mps3-an547"}
ARM = "qemu-mps3-an547-mlek"
HEAD = (
    "name",
    "per",
    "M4F before",
    "M4F",
    "M4F aim",
    "M55 before",
    "M55",
    "M55 aim",
    "Arm's image",
    "",
)

FEW = "12 products for each tap: most of the instructions are for its bounds and for rounding"
FEWEST = 12  # input channels times output channels

MOST: Final = 40
"""Rows of a program, at most: their operands share its memory."""

Shape = tuple[int, ...]


@dataclass(frozen=True)
class Row:
    """A call whose cost is measured.

    Attributes:
        name: What is computed, and its shape.
        aim: Most instructions per unit on a Cortex-M4F; by default half of what they were before.
        why: Why an aim is not met, if it is not.
        in_image: Indices of the arguments that the operator of Arm's image lacks; None if it has no
            such operator, or one that prints.
        products: Whether a unit is a multiply-accumulate; otherwise it is an element of the output.
    """

    name: str
    operator: str
    arguments: list[Any]
    aim: float | None = None
    why: str = ""
    products: bool = False
    in_image: tuple[int, ...] | None = None


def _conv(
    image: Shape, channels: int, kernel: int, stride: int, pad: int, groups: int = 1
) -> tuple[list[Any], list[Any]]:
    """Return the arguments of a convolution in int8 and in float32."""
    n, c, *area = image
    size = [(a + 2 * pad - kernel) // stride + 1 for a in area]
    out, common = (n, channels, *size), [[stride] * 2, [pad] * 2, [1, 1]]
    weight = int8s(channels, kernel, kernel, c // groups)
    scratch = out8(4 * kernel * kernel * c)
    stage = [5, 3, int32s(channels, 1 << 30), int32s(channels, -9), -128, 127]
    quantized = [last(int8s(*image)), weight, int32s(channels, 9), *common, *stage, scratch]
    real = [signed(*image), signed(channels, c // groups, kernel, kernel), signed(channels)]
    return [*quantized, last8(*out)], [*real, *common, False, [0, 0], groups, Out(out)]


def _depthwise(image: Shape, stride: int) -> list[Any]:
    """Return the arguments of a depthwise convolution, 3x3, in int8."""
    n, c, *area = image
    out = (n, c, *[(a - 1) // stride + 1 for a in area])
    stage = [5, 3, int32s(c, 1 << 30), int32s(c, -9), -128, 127]
    window = [[stride] * 2, [1, 1], [1, 1], 1]
    weight, bias = int8s(1, 3, 3, c), int32s(c, 9)
    return [last(int8s(*image)), weight, bias, *window, *stage, out8(36 * c), last8(*out)]


def _transposed(
    image: Shape, channels: int, kernel: int, stride: int, pad: int, groups: int = 1
) -> tuple[list[Any], list[Any]]:
    """As `_conv`, of a transposed convolution."""
    n, c, *area = image
    size = [(a - 1) * stride - 2 * pad + kernel for a in area]
    out, window = (n, channels, *size), [[stride] * 2, [pad] * 2]
    weight = int8s(channels, kernel, kernel, c)
    stage = [5, 3, int32s(channels, 1 << 30), int32s(channels, -9), -128, 127]
    # As the exporter sizes them: columns of one position, and an int32 per element of the output.
    scratch = [out8(2 * kernel * kernel * c), out8(4 * prod(size) * channels)]
    quantized = [last(int8s(*image)), weight, int32s(channels, 9), *window, [0, 0], [1, 1], *stage]
    real = [signed(*image), signed(c, channels // groups, kernel, kernel), signed(channels)]
    floats = [*real, *window, [1, 1], True, [0, 0], groups, Out(out)]
    return [*quantized, *scratch, last8(*out)], floats


_PRODUCTS = (
    # kind, image, output channels, kernel, stride, padding, groups, aim
    (_conv, "convolution", (1, 16, 16, 16), 16, 3, 1, 1, 1, 4),
    (_conv, "grouped convolution", (1, 16, 16, 16), 16, 3, 1, 1, 2, 6),
    (_conv, "grouped convolution", (1, 32, 8, 8), 32, 3, 1, 1, 4, 6),
    (_conv, "grouped convolution", (1, 48, 8, 8), 96, 1, 1, 0, 3, 6),
    (_conv, "grouped convolution", (1, 12, 12, 12), 24, 3, 2, 1, 3, 6),
    (_transposed, "transposed convolution", (1, 16, 8, 8), 16, 4, 2, 1, 1, 8),
    (_transposed, "transposed convolution", (1, 32, 8, 8), 16, 2, 2, 0, 1, 8),
    (_transposed, "transposed convolution", (1, 8, 10, 10), 8, 3, 1, 1, 1, 8),
    (_transposed, "transposed convolution", (1, 16, 8, 8), 8, 3, 2, 1, 1, 8),
    (_transposed, "transposed convolution", (1, 4, 16, 16), 3, 4, 2, 1, 1, 8),
)


def _products() -> Iterator[Row]:
    for make, kind, image, channels, kernel, stride, pad, groups, aim in _PRODUCTS:
        calls = make(image, channels, kernel, stride, pad, groups)
        area = f"{image[1]} x {image[2]} x {image[3]}"
        shape = f"{kernel}x{kernel} / {stride}, {area} to {channels}"
        shape += f" in {groups} groups" if groups > 1 else ""
        whole = "quantized_transpose_conv2d" if make is _transposed else "quantized_conv2d"
        names = (f"cortex_m::{whole}.out", "aten::convolution.out")
        for of, name, call in zip(("int8", "float32"), names, calls, strict=True):
            image_has = (12,) if of == "int8" and make is _conv else None
            why = FEW if make is _transposed and channels * image[1] == FEWEST else ""
            yield Row(f"{kind} {of}, {shape}", name, call, aim, why, True, image_has)
    name = "cortex_m::quantized_depthwise_conv2d.out"
    for image, stride in (((1, 64, 12, 12), 1), ((1, 32, 16, 16), 2), ((1, 24, 10, 10), 1)):
        shape = f"3x3 / {stride}, {image[1]} x {image[2]} x {image[3]}"
        call = _depthwise(image, stride)
        yield Row(f"depthwise convolution int8, {shape}", name, call, 10, "", True, (13,))


def _pools() -> Iterator[Row]:
    n, c, h, w = shape = (1, 16, 16, 16)
    x, x8, plane = signed(*shape), last(int8s(*shape)), f"{c} x {h} x {w}"
    for k, s, p in ((2, 2, 0), (3, 2, 1), (3, 1, 1)):
        out = (n, c, *[(a + 2 * p - k) // s + 1 for a in (h, w)])
        window, name = [[k, k], [s, s], [p, p]], f"{k}x{k} / {s}, {plane}"
        both = Out(out), Out(out, np.int64)
        call: list[Any] = [x, *window, [1, 1], False, *both]
        yield Row(f"max_pool float32, {name}", "aten::max_pool2d_with_indices.out", call)
        call = [x, *window, False, True, None, Out(out)]
        yield Row(f"avg_pool float32, {name}", "aten::avg_pool2d.out", call)
        call = [x8, *window, [1, 1], False, 3, 3, -128, 127, last8(*out)]
        yield Row(f"max_pool int8, {name}", "cortex_m::quantized_max_pool2d.out", call)
        call = [x8, *window, False, 3, 1 << 30, -2, None, last8(*out)]
        operator = "cortex_m::quantized_avg_pool2d.out"
        yield Row(f"avg_pool int8, {name}", operator, call, in_image=(4, 8))
    for size in ([7, 7], [4, 4]):
        out, name = (n, c, *size), f"{plane} to {size[0]} x {size[1]}"
        call = [x, size, Out(out)]
        yield Row(f"adaptive_avg_pool float32, {name}", "aten::_adaptive_avg_pool2d.out", call)
        call = [x, size, Out(out), Out(out, np.int64)]
        yield Row(f"adaptive_max_pool float32, {name}", "aten::adaptive_max_pool2d.out", call)


def _resized() -> Iterator[Row]:
    n, c, h, w = shape = (1, 8, 12, 12)
    x, plane, large = signed(*shape), f"{c} x {h} x {w}", (n, c, 2 * h, 2 * w)
    call: list[Any] = [x, None, [2.0, 2.0], Out(large)]
    name = "aten::upsample_nearest2d.vec_out"
    yield Row(f"upsample_nearest float32, {plane} by 2", name, call)
    name = "aten::upsample_bilinear2d.vec_out"
    call = [x, None, False, [2.0, 2.0], Out(large)]
    yield Row(f"upsample_bilinear float32, {plane} by 2", name, call)
    padded, name = (n, c, h + 2, w + 2), "aten::constant_pad_nd.out"
    call = [x, [1, 1, 1, 1], 0.0, Out(padded)]
    yield Row(f"constant_pad float32, {plane} by 1", name, call)
    call = [int8s(*shape), [1, 1, 1, 1], 0, out8(*padded)]
    yield Row(f"constant_pad int8, {plane} by 1", name, call)
    call = [last(int8s(*shape)), [0, 1, 1, 0], [0, 1, 1, 0], 3, last8(*padded)]
    yield Row(f"pad int8, {plane} by 1", "cortex_m::pad.out", call, 4)


_SAME: Final = {"add": 51.0, "mul": 47.0}
"""What an int8 sum or product of equal shapes may take: little more than before."""

_BROADCASTS: Final = {"add": 72.5, "mul": 47.0}
"""What they may take if one is broadcast: 1.5 times what those of equal shapes take now."""

_BROADCAST: Final = [
    (" broadcast", last, (1, 16, 1, 1)),
    (" by a number", last, (1, 1, 1, 1)),
    (" broadcast along channels", last, (1, 1, 16, 16)),
    (" in another layout", lambda data: data, (1, 16, 16, 16)),
]


def _elementwise() -> Iterator[Row]:
    shape = (1, 16, 16, 16)
    x, side = last(int8s(*shape)), [3, 1 << 30, -1]
    for kind, order, other in [("", last, shape), *_BROADCAST]:
        y = order(int8s(*other))
        aims = _BROADCASTS if kind else _SAME
        call: list[Any] = [x, *side, y, *side, *side, -128, 127, last8(*shape)]
        yield Row(f"add int8{kind}, 4,096", "cortex_m::quantized_add.out", call, aims["add"])
        call = [x, 3, y, 4, *side, last8(*shape)]
        image = () if kind in ("", " broadcast") else None  # it does not run the others, or prints
        name = "cortex_m::quantized_mul.out"
        yield Row(f"mul int8{kind}, 4,096", name, call, aims["mul"], in_image=image)
    x8, y8, out = int8s(4, 1000), int8s(4, 1000), out8(4, 1000)
    for name in ("minimum", "maximum"):
        for kind, y in (("", y8), (" with a number", int8s(1))):
            call = [x8, y, out]
            operator = f"cortex_m::{name}.out"
            yield Row(f"{name} int8{kind}, 4,000", operator, call, 35, in_image=())
    yield Row("clamp int8, 4,000", "aten::clamp.out", [x8, -100, 100, out], 35)
    yield Row("relu int8, 4,000", "aten::relu.out", [x8, out], 35)
    for width in (10, 1000):
        rows = 4000 // width
        call = [int8s(rows, width), 1, 3, -128, 1 << 30, 20, -100, out8(rows, width)]
        yield Row(f"softmax int8, {rows} x {width}", "cortex_m::softmax.out", call)
    f, g, real = signed(4, 1000), signed(4, 1000), Out((4, 1000))
    yield Row("where float32, 4,000", "aten::where.self_out", [masks(4, 1000), f, g, real])
    flat, name = (1, 16, 12, 12), "aten::masked_fill.Scalar_out"
    call = [masks(*flat), int8s(*flat), int8s(*flat), out8(*flat)]
    yield Row("where int8, 2,304", "aten::where.self_out", call)
    yield Row("masked_fill float32, 2,304", name, [signed(*flat), masks(*flat), 0.5, Out(flat)])
    yield from _found()


def _found() -> Iterator[Row]:
    # Of few values 105 to 117 were too many; of many only the loop counts.
    for height, width, make in ((500, 8, signed), (200, 10, int8s), (4, 1000, signed)):
        call: list[Any] = [make(height, width), 1, False, Out((height,), np.int64)]
        kind, aim = "int8" if make is int8s else "float32", 52 if width < 100 else 17.5
        yield Row(f"argmax {kind}, {height} x {width}", "aten::argmax.out", call, aim)
    name = "aten::index.Tensor_out"
    chosen = np.random.default_rng(6).integers(0, 64, 500)
    for width in (1, 8):
        call = [signed(64, width), TensorList([chosen]), Out((500, width))]
        yield Row(f"index float32, 500 rows of {width}", name, call)
    call = [int8s(300, 3), TensorList([np.arange(250)]), out8(250, 3)]
    yield Row("index int8, 250 rows of 3", name, call)
    call = [signed(40, 64), TensorList([None, np.arange(30) * 2]), Out((40, 30))]
    yield Row("index float32, 30 columns of 40", name, call)
    pairs = TensorList([np.arange(400) % 64, np.arange(400) % 24])
    why = "reads and checks two indexes for each element"
    yield Row("index float32, 400 pairs", name, [signed(64, 24), pairs, Out((400,))], why=why)


def rows() -> list[Row]:
    """Return the rows of the table."""
    return [*_products(), *_pools(), *_resized(), *_elementwise()]


def measure(board: str, chosen: Sequence[Row]) -> list[float]:
    """Return instructions per unit of each row."""
    if len(chosen) > MOST:
        return measure(board, chosen[:MOST]) + measure(board, chosen[MOST:])
    calibration = packed((row.operator, row.arguments) for row in chosen)
    with tempfile.TemporaryDirectory() as scratch:
        path = Path(scratch) / "calls.pte"
        path.write_bytes(calibration.program)
        trace = run_model(RunRequest(board, path, 1, Path(scratch) / "run")).trace
    steps = method_steps(read_program(calibration.program).method("forward"))
    calls = {call.step.instruction: call for call in samples(trace, steps)}
    found = []
    for row, place in zip(chosen, sorted(calibration.instructions), strict=True):
        [out, *_] = (value for value in row.arguments[::-1] if isinstance(value, Out))
        outs = calls[place].step.macs if row.products else prod(out.shape)
        # A reduction's outputs are few: its unit is an element that it reads.
        outs = row.arguments[0].size if "argmax" in row.name else outs
        found.append(calls[place].instructions / (outs or 1))
    return found


def measure_image(chosen: Sequence[Row]) -> list[float | None]:
    """Return instructions per unit of each row's operator in Arm's image, None of one it lacks."""
    known = [
        replace(row, arguments=[a for i, a in enumerate(row.arguments) if i not in row.in_image])
        for row in chosen
        if row.in_image is not None
    ]
    costs = iter(measure(ARM, known) if known else [])
    return [None if row.in_image is None else next(costs) for row in chosen]


def read_table(page: str) -> dict[str, dict[str, str]]:
    """Return the cells of each row by its name, then by the head of the column."""
    lines = page.partition(BEGIN)[2].partition(END)[0].splitlines()[2:]
    cells = [[cell.strip() for cell in line.split("|")[1:-1]] for line in lines]
    return {name: dict(zip(HEAD, [name, *rest], strict=True)) for name, *rest in cells}


def table(chosen: Sequence[Row], known: Mapping[str, Mapping[str, str]]) -> Iterator[str]:
    """Measure rows and yield the lines of the table."""
    yield "| " + " | ".join(["operator and shape", *HEAD[1:]]) + " |"
    yield "|---" * len(HEAD) + "|"
    costs = [measure(board, chosen) for board in BOARDS.values()]
    for row, m4, m55, image in zip(chosen, *costs, measure_image(chosen), strict=True):
        cells = known.get(row.name, {})
        before = [
            float(cells.get(f"{core} before", now)) for core, now in (("M4F", m4), ("M55", m55))
        ]
        aim = before[0] / 2 if row.aim is None else row.aim
        numbers = [before[0], m4, aim, before[1], m55, None if image is None else 2 * image, image]
        texts = ["" if number is None else f"{number:.2f}" for number in numbers]
        unit = "MAC" if row.products else "element"
        yield "| " + " | ".join([row.name, unit, *texts, row.why]) + " |"


def main(words: Sequence[str]) -> None:
    chosen = [row for row in rows() if not words or any(word in row.name for word in words)]
    page = PAGE.read_text()
    lines = table(chosen, read_table(page))
    if words:
        print("\n".join(lines))
        return
    before, begin, rest = page.partition(BEGIN)
    _, end, after = rest.partition(END)
    PAGE.write_text(before + begin + "".join(f"{line}\n" for line in lines) + end + after)


if __name__ == "__main__":
    main(sys.argv[1:])
