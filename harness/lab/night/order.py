"""What each unit does, and in which order.

The sides of a comparison take turns, so that whatever drifts in the course of a night (temperature,
a clock, neighbours on the machine) does the same to all of them. In each block every variant runs
once; the next block is its mirror image, so that a steady drift cancels out over the two:
``A B | B A | B A | A B``. Which variant comes first in a pair of blocks is drawn.
"""

from __future__ import annotations

import random
from collections.abc import Iterable, Iterator, Sequence

from harness.report.night import Step


def steps_of(
    unit: str,
    board: str,
    models: Sequence[str],
    variants: Sequence[str],
    *,
    repeats: int,
    seed: int,
) -> Iterator[Step]:
    """Yield what a unit does: a block per model and repeat, the same for the same seed.

    Of any beginning of this the numbers of steps of a model's variants differ by one at most.

    Args:
        unit: Id of the unit.
        board: Its type.
        models: Names of the models.
        variants: Labels of the variants.
        repeats: How often each variant of each model runs.
        seed: Of the order.
    """
    chance = random.Random(f"{seed}/{unit}")
    blocks: dict[str, list[str]] = {}
    for repeat in range(1, repeats + 1):
        for model in chance.sample(models, len(models)):
            block = blocks.get(model)
            if block is None or repeat % 2:
                block = chance.sample(variants, len(variants))
            else:
                block = block[::-1]
            blocks[model] = block
            for variant in block:
                yield Step(unit, board, model, variant, repeat)


def only(steps: Iterable[Step], patterns: Sequence[str]) -> list[Step]:
    """Those that one of the patterns ``UNIT/MODEL`` means; all without patterns."""
    from fnmatch import fnmatchcase

    return [
        step
        for step in steps
        if not patterns or any(fnmatchcase(f"{step.unit}/{step.model}", p) for p in patterns)
    ]
