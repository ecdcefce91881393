"""Formatting of names, times and sizes as readable text that is safe to print.

An event of a kernel is called ``native_call_`` and the operator without its namespace; an
instruction of a program has the operator with its namespace: ``native_call_addmm.out`` is
``aten::addmm.out``. Both have the short name ``addmm``.
"""

from __future__ import annotations

import math
import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from enum import StrEnum
from functools import lru_cache
from typing import Final, Literal, TypeVar

import msgspec

from harness.printing import counted as counted
from harness.printing import printable as printable
from harness.records.trace import DELEGATE_CALL, LOADING, OPERATOR_CALL, Signature, Stack
from harness.records.verdict import Check

KERNEL_EVENT: Final = "native_call_"
"""Prefix of ExecuTorch's kernel event names, before the operator's name."""

_OPERATOR: Final = re.compile(
    rf"(?:{KERNEL_EVENT}(?:[a-z0-9_]+::)?|[a-z0-9_]+::)"
    r"_*(?P<short>[A-Za-z0-9_]+?)(?:__)?(?:\..*)?",
    re.DOTALL,
)
"""Classes of the runtime, as in ``Method::execute``, begin with a capital letter."""


class OperatorKind(StrEnum):
    """Kind of work of an event, to sort and colour events by."""

    CONVOLUTION = "convolution"
    LINEAR = "linear"
    POOLING = "pooling"
    NORMALIZATION = "normalization"
    ACTIVATION = "activation"
    ELEMENTWISE = "elementwise"
    REDUCTION = "reduction"
    QUANTIZE = "quantize"
    INDEXING = "indexing"
    SHAPE = "shape"
    DELEGATE = "delegate"
    LOADING = "loading"
    RUNTIME = "runtime"
    OTHER = "other"


_WORDS: Final = {
    OperatorKind.CONVOLUTION: "convolution conv conv1d conv2d conv3d",
    OperatorKind.LINEAR: "linear mm addmm bmm baddbmm matmul mv addmv dot",
    OperatorKind.POOLING: "pool pool1d pool2d pool3d",
    OperatorKind.NORMALIZATION: "norm",
    OperatorKind.QUANTIZE: "quantize dequantize qparams",
    OperatorKind.ACTIVATION: (
        "activation elu gelu glu hardsigmoid hardswish hardtanh logit relu relu6 sigmoid silu "
        "softmax tanh softplus mish prelu"
    ),
    OperatorKind.REDUCTION: (
        "all amax amin any argmax argmin cdist cumprod cumsum max mean median min pdist prod "
        "std sum var"
    ),
    OperatorKind.SHAPE: (
        "alias arange cat clone copy detach diagonal empty expand fill flip full lift ones pad "
        "pad1d pad2d pad3d permute repeat reshape roll scalar slice split squeeze stack t to "
        "transpose tril triu unbind unfold unsqueeze upsample view zeros shuffle unshuffle narrow "
        "sym tensor"
    ),
    OperatorKind.INDEXING: (
        "embedding gather grid index masked nonzero scatter select sort topk searchsorted sampler"
    ),
    OperatorKind.ELEMENTWISE: (
        "abs acos acosh add and asin asinh atan atan2 atanh bitwise ceil clamp cos cosh div eq erf "
        "exp exp2 expm1 floor floordiv fmod ge gt isinf isnan le log log10 log1p log2 logical "
        "lshift lt maximum minimum mod mul ne neg not or pow reciprocal remainder round rshift "
        "rsqrt rsub sign sin sinh sqrt square sub tan truediv trunc where xor"
    ),
}
"""Words of short names, by kind. The first kind with a word of the name is its kind."""

_KNOWN: Final = {kind: frozenset(words.split()) for kind, words in _WORDS.items()}

_WORKLESS: Final = frozenset({"quantized", "native"})
"""Words that say how an operator works, not what it does."""


@lru_cache(4096)
def short_operator_name(name: str) -> str:
    """Return an operator's name without prefix, namespace, outer underscores and overload.

    Other names, such as ``Method::execute`` or those of a delegate's events, are returned as given.

    Examples:
        >>> short_operator_name("native_call_cortex_m::quantized_conv2d.out")
        'quantized_conv2d'
        >>> short_operator_name("aten::_softmax.out")
        'softmax'
    """
    found = _OPERATOR.fullmatch(name)
    return found["short"] if found else name


@lru_cache(4096)
def operator_kind(name: str, delegated: bool = False) -> OperatorKind:
    """Return the kind of an event or of an instruction, by its name.

    Args:
        name: Name of the event or of the operator.
        delegated: It is an event of a delegate, or the call of one.

    Examples:
        >>> operator_kind("native_call_addmm.out")
        <OperatorKind.LINEAR: 'linear'>
    """
    if delegated or name == DELEGATE_CALL:
        return OperatorKind.DELEGATE
    if name in LOADING or name.startswith("Program::"):
        return OperatorKind.LOADING
    if name == OPERATOR_CALL or re.match("[A-Z][A-Za-z]*::", name):
        return OperatorKind.RUNTIME
    words = set(short_operator_name(name).lower().split("_")) - _WORKLESS
    kinds = (kind for kind, known in _KNOWN.items() if not words.isdisjoint(known))
    return next(kinds, OperatorKind.OTHER)


_T = TypeVar("_T")
_Named = TypeVar("_Named", bound=Signature)


def operator_title(name: str, instruction: int | None = None) -> str:
    """Return the short name of an operator and its instruction, safe to print.

    Args:
        name: Name of an event or of an operator.
        instruction: Its instruction; None or -1 if it belongs to no instruction.

    Examples:
        >>> operator_title("native_call_cortex_m::quantized_conv2d.out", 5)
        'quantized_conv2d #5'
    """
    short = printable(short_operator_name(name))
    return short if instruction is None or instruction < 0 else f"{short} #{instruction}"


def ordinal(number: int) -> str:
    """Return "first" to "tenth", then "11th" and so on."""
    if number <= len(_ORDINALS):
        return _ORDINALS[number - 1]
    teen = number % 100 in (11, 12, 13)
    return f"{number}{'th' if teen else {1: 'st', 2: 'nd', 3: 'rd'}.get(number % 10, 'th')}"


_ORDINALS = (
    *("first", "second", "third", "fourth", "fifth"),
    *("sixth", "seventh", "eighth", "ninth", "tenth"),
)


def with_printable_names(item: _Named) -> _Named:
    """Return a copy of an operator with printable names."""
    delegate = item.delegate_str and printable(item.delegate_str)
    return msgspec.structs.replace(
        item, block=printable(item.block), name=printable(item.name), delegate_str=delegate
    )


def with_printable_keys(items: Mapping[str, _T]) -> dict[str, _T]:
    """Return a copy with printable names, such as those of counters."""
    return {printable(name): item for name, item in items.items()}


def with_printable_text(check: Check) -> Check:
    """Return a copy of a check with printable texts, which JSON can encode."""
    texts = {
        name: printable(getattr(check, name)) for name in ("rule", "subject", "reason", "source")
    }
    return msgspec.structs.replace(check, **texts)


_DECIMALS = [f",.{count}f" for count in range(10)]


@dataclass(frozen=True, slots=True)
class DisplayUnit:
    """The unit of a column of numbers.

    Attributes:
        name: Name for the column's header.
        divisor: Base units (nanoseconds, ticks or bytes) per unit.
        decimals: Digits after the decimal point.
    """

    name: str
    divisor: float
    decimals: int

    def text(self, value: float) -> str:
        """Return ``value``, given in base units, as a number in this unit."""
        return format(value / self.divisor, _DECIMALS[self.decimals])

    def brief(self, value: float) -> str:
        """Return the same with three significant digits, or all digits before the point.

        A small value has more than ``decimals`` decimals where it needs them for two digits.
        """
        number = abs(value / self.divisor)
        needed = 2 - math.floor(math.log10(number)) if number > 0 else 0
        most = min(max(self.decimals, needed - 1), 9) if self.decimals else 0
        return format(value / self.divisor, _DECIMALS[min(max(needed, 0), most)])


TICKS = DisplayUnit("ticks", 1, 0)
BYTES = DisplayUnit("B", 1, 0)


def time_unit(nanoseconds: Iterable[float]) -> DisplayUnit:
    """Return the unit for a column of times, chosen by the largest."""
    largest = max(nanoseconds, default=0.0)
    if largest < 10e3:
        return DisplayUnit("ns", 1, 1)
    if largest < 10e6:
        return DisplayUnit("us", 1e3, 3)
    if largest < 10e9:
        return DisplayUnit("ms", 1e6, 3)
    return DisplayUnit("s", 1e9, 6)


COUNTS = DisplayUnit("counts", 1, 0)
MICROJOULES = DisplayUnit("uJ", 1e3, 3)
ERRORS = DisplayUnit("error", 1, 4)


def metric_unit(
    unit: Literal["ns", "ticks", "bytes", "count", "nJ", "error"], values: Iterable[float]
) -> DisplayUnit:
    """Return the unit for a column of metric values given in ``unit``."""
    if unit == "ns":
        return time_unit(values)
    return {"ticks": TICKS, "bytes": BYTES, "count": COUNTS, "nJ": MICROJOULES, "error": ERRORS}[
        unit
    ]


def time_text(
    nanoseconds: float | None, ticks: float, unit: DisplayUnit, *, brief: bool = False
) -> str:
    """Return a time in the unit of its column, or in ticks (labeled) if the rate is unknown."""
    if nanoseconds is not None:
        return unit.brief(nanoseconds) if brief else unit.text(nanoseconds)
    return TICKS.text(ticks) if unit is TICKS else f"{TICKS.text(ticks)} ticks"


def unit_of(scale: str | None) -> DisplayUnit | None:
    """Return the unit of a time scale such as ``us``; None to choose the unit by the values."""
    known = {"ns": (1, 1), "us": (1e3, 3), "ms": (1e6, 6), "s": (1e9, 9)}
    if scale in known:
        return DisplayUnit(scale, *known[scale])
    return TICKS if scale == "cycles" else None


def stack_use(used: int, size: int) -> str:
    """Return a text with the stack use, and whether the stack overflowed."""
    overflowed = ": overflowed" if Stack(0, used, size).overflowed else ""
    return f"{used:,} of {size:,} bytes used{overflowed}"


def commit_text(commit: str, characters: int = 10) -> str:
    """The beginning of a commit, and whether it had changes."""
    plain, dirty, _ = commit.partition("-dirty")
    return plain[:characters] + dirty


_UNSAFE: Final = re.compile(
    r"[\x00-\x1f\x7f-\x9f\\\u061c\u200e\u200f\u2028-\u202e\u2066-\u2069\ud800-\udfff]"
)
"""Controls, ends of lines, marks that turn the direction of text, bytes that are no UTF-8."""
_ESCAPE: Final = re.compile(r"\\(?:\\|x([0-9a-f]{2})|u([0-9a-f]{4}))")


def escaped(name: str) -> str:
    r"""Return ``name`` as text that other tools' files can hold, and different for each name.

    A name may be any bytes of a device or file. A backslash becomes ``\\``, and a control
    character or an invalid UTF-8 byte ``\xNN``, so no name breaks a line of a table. What turns the
    direction of text becomes ``\uNNNN``.
    """
    return _UNSAFE.sub(lambda found: _escape(ord(found[0])), name)


def unescaped(text: str) -> str:
    """Return the name for escaped ``text``."""
    return _ESCAPE.sub(_character, text)


def _escape(code: int) -> str:
    if code == ord("\\"):
        return r"\\"
    if code < 0x80:
        return f"\\x{code:02x}"
    # surrogateescape keeps a byte in the low half of a surrogate.
    return f"\\x{code - 0xDC00:02x}" if 0xDC80 <= code <= 0xDCFF else f"\\u{code:04x}"


def _character(found: re.Match[str]) -> str:
    if found[1]:
        code = int(found[1], 16)
        return chr(code if code < 0x80 else code + 0xDC00)
    return chr(int(found[2], 16)) if found[2] else "\\"
