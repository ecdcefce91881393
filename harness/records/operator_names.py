"""Short names and kinds of operators, from the names of events and instructions.

An event of a kernel is called ``native_call_`` and the operator without its namespace; an
instruction of a program has the operator with its namespace: ``native_call_addmm.out`` is
``aten::addmm.out``. Both have the short name ``addmm``.
"""

from __future__ import annotations

import re
from enum import StrEnum
from functools import lru_cache
from typing import Final

from harness.records.trace import DELEGATE_CALL, LOADING, OPERATOR_CALL

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
