"""A network of sixty operators, any of which can be made slower by giving it more to do.

    file = sixty()            # the network
    file = sixty(slower=4)    # operator 4 has 3 % more elements

Twenty blocks of a matrix product, an activation and a product of tensors, as networks have them;
the last block's operators are 14 times as large as the first's. They do not depend on each other:
each reads the input and writes to the same memory, so that more elements of one change nothing for
the others.
"""

from __future__ import annotations

import numpy as np

from tests.support.programs import ProgramBuilder

OPERATORS = 60

_BLOCKS = 20
_LEAST, _MOST = 35, 490
"""Rows of the first and the last block."""
_WIDTH = 32
_ROOM = 520 * _WIDTH
"""Elements of the input, and room for those of any output."""
_ACTIVATIONS = ("aten::relu", "aten::sigmoid", "aten::tanh", "aten::abs")


def sixty(slower: int | None = None, share: float = 0.03, *, operators: int = OPERATORS) -> bytes:
    """Return the .pte file; operator ``slower`` has ``share`` more rows, of at least 35.

    With fewer ``operators`` it is the beginning of the network.
    """
    program = ProgramBuilder(planned=[0, 8 * _ROOM])
    x = out = program.tensor((_ROOM,), memory=(1, 0))
    weight = program.constant(np.full((_WIDTH, _WIDTH), 1 / 7, np.float32))
    for number in range(operators):
        block, kind = divmod(number, 3)
        rows = round(_LEAST * (_MOST / _LEAST) ** (block / (_BLOCKS - 1)))
        if number == slower:
            rows = round(rows * (1 + share))
        part = program.tensor((rows, _WIDTH), memory=(1, 0))
        out = program.tensor((rows, _WIDTH), memory=(1, 4 * _ROOM))
        if kind == 0:
            program.call("aten::mm", part, weight, out)
        elif kind == 1:
            program.call(_ACTIVATIONS[block % len(_ACTIVATIONS)], part, out)
        else:
            program.call("aten::mul", part, part, out)
    return program.finish(inputs=[x], outputs=[out])
