"""The sentence of each cause: what changed, where it begins, and at how many operators."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Final

from harness.extensions.why.alignment import Pair, Unjoined
from harness.extensions.why.causes import CauseKind, Causes, Root, computed_type, different
from harness.extensions.why.programs import (
    CHANNELS_LAST,
    ComparedInstruction,
    ProgramFacts,
    family_of,
)
from harness.formatting import printable, short_operator_name
from harness.report.words import counted, short_size

_MOST_NAMES: Final = 3
"""Operators that a sentence names; the others are counted."""

_WEIGHTS: Final = ("weight", "weights", "bias", "kernel_sum", "running_mean", "running_var")

_DIGEST: Final = re.compile(r"[0-9a-f]{16}")
_LONGEST_VALUE: Final = 40


def sentence(root: Root, causes: Causes) -> str:
    """Return what a cause changed, in one sentence without a full stop."""
    text = _SENTENCES[root.kind](root, causes)
    known = any(step.work is not None for pair in root.worked for step in pair)
    return f"{text}; {_work(root, causes)}" if known and root.kind == "layout" else text


def _dtype(root: Root, causes: Causes) -> str:
    before, after = root.key
    if root.inputs and not root.pairs:
        return root.inputs[0]
    computing = [step for step in root.after if _is_retyped(step, causes.partner(step))]
    places = (*(new for _, new in root.pairs), *computing, *root.after, *root.before)
    begin = next(iter(places))
    partner = causes.partner(begin)
    if len(computing) == 1 and partner and "quantized_activation" in partner.name + begin.name:
        # It looks its results up in a table, of any function.
        edges = _edges(_steps(root), "its")
        return f"{begin.title} in {after} replaced {partner.title} in {before}{edges}"
    named = f"{_computing(computing or [begin], begin)} in {after} instead of {before}"
    on = f", from {begin.title} on" if len(computing) > 1 else ""
    return f"{named}{on}{_edges(_steps(root), 'their' if on else 'its')}"


def _is_retyped(step: ComparedInstruction, partner: ComparedInstruction | None) -> bool:
    """Return whether an operator computes in another type than its partner, or has none."""
    if family_of(step.name) == "quantize":
        return False
    return partner is None or computed_type(step) != computed_type(partner)


def _computing(steps: Sequence[ComparedInstruction], first: ComparedInstruction) -> str:
    if len(steps) == 1:
        return f"{first.title} computes"
    return f"{counted(len(steps), 'operator')} compute"


def _steps(root: Root) -> list[list[ComparedInstruction]]:
    """Return the operators that vanished, and those that appeared, where a cause begins."""
    gaps = root.gaps
    return [[step for gap in gaps for step in gap.old], [step for gap in gaps for step in gap.new]]


def _edges(sides: Sequence[Sequence[ComparedInstruction]], whose: str) -> str:
    """Return how many operators appeared and vanished at the edges of others."""
    verbs = zip(("appeared", "vanished"), reversed(sides), strict=True)
    texts = [f"{_kinds(steps)} {verb}" for verb, steps in verbs if steps]
    return f", and {_joined(texts)} at {whose} edges" if texts else ""


def _delegate(root: Root, causes: Causes) -> str:
    (backend,) = root.key
    calls = [_calls(facts, str(backend)) for facts in (causes.old, causes.new)]
    times = f"{backend} is called {counted(calls[1], 'time')} instead of {calls[0]}"
    old, new = ([step for step in side if not step.delegated] for side in _steps(root))
    left = [_without(new, old), _without(old, new)]
    moved = [[step for step in steps if not _is_edge(step)] for steps in left]
    edges = ""
    if any(moved):
        copies = [[step for step in steps if _is_edge(step)] for steps in reversed(left)]
        edges = _edges(copies, "its" if sum(map(len, moved)) == 1 else "their")
    ways = (f"from {backend} to the CPU", f"from the CPU to {backend}")
    texts = [
        f"{_listed(steps)} moved {way}"
        for steps, way in zip(moved if any(moved) else left, ways, strict=True)
        if steps
    ]
    if not texts:
        return times if calls[0] != calls[1] else f"{backend} is called in other places"
    return f"{_joined(texts)}{edges}" + (
        f"; {times}" if calls[0] != calls[1] and all(calls) else ""
    )


def _is_edge(step: ComparedInstruction) -> bool:
    """Return whether an operator is at the edge of a delegate: it converts for it."""
    return family_of(step.name) == "quantize" or "dim_order" in step.name


def _without(
    steps: Sequence[ComparedInstruction], others: Sequence[ComparedInstruction]
) -> list[ComparedInstruction]:
    """Return the operators that have no counterpart among others."""
    rest = Counter(family_of(step.name) for step in others)
    found = []
    for step in steps:
        rest[family_of(step.name)] -= 1
        if rest[family_of(step.name)] < 0:
            found.append(step)
    return found


def _calls(facts: ProgramFacts, backends: str) -> int:
    names = backends.split(", ")
    steps = [step for chain in facts.chains for step in chain if step.delegated]
    return sum(printable(step.name) in names for step in steps)


def _operator(root: Root, causes: Causes) -> str:
    if root.pairs:
        old, new = root.pairs[0]
        names = [short_operator_name(step.name) for step in (old, new)]
        before = names[0] if names[0] != names[1] else old.name
        also = _also(len(root.pairs) - 1, "in {} more place", "in {} more places")
        return f"{new.title} replaced {printable(before)}{also}"
    gap = root.gaps[0]
    also = _also(len(root.gaps) - 1, "in {} more place", "in {} more places")
    if gap.old and gap.new:
        return f"{_listed(gap.new)} replaced {_listed(gap.old)}{_beside(gap, causes)}{also}"
    verb = "appeared" if gap.new else "vanished"
    return f"{_listed(gap.new or gap.old)} {verb}{_beside(gap, causes)}{also}"


def _fusion(root: Root, _: Causes) -> str:
    if not root.gaps:
        old, new = root.pairs[0]
        changed = different(old.bounds, new.bounds)
        bounds = _joined(f"{name} {two} instead of {one}" for name, (one, two) in changed.items())
        also = _also(len(root.pairs) - 1, "{} more operator has", "{} more operators have")
        return f"the activation fused into {new.title} has {printable(bounds)}{also}"
    gap = root.gaps[0]
    assert gap.behind is not None
    also = _also(len(root.gaps) - 1, "in {} more place", "in {} more places")
    if gap.new:
        return f"{_listed(gap.new)} is no longer fused into {gap.behind[1].title}{also}"
    return f"{_listed(gap.old)} is now fused into {gap.behind[1].title}{also}"


def _layout(root: Root, causes: Causes) -> str:
    parts = []
    if root.inputs:
        parts.append(root.inputs[0])
    elif root.pairs:
        before, after = map(str, root.key)
        also = _also(len(root.pairs) - 1, "{} more operator likewise", "{} more operators likewise")
        if before == CHANNELS_LAST:
            parts.append(f"{root.pairs[0][1].title} lost {before}{also}")
        else:
            parts.append(f"{root.pairs[0][1].title} is {after} instead of {before}{also}")
    for gap in root.gaps[:1]:
        for steps, verb in ((gap.new, "appeared"), (gap.old, "vanished")):
            if steps:
                elements = sum(item.elements for item in steps[0].outputs)
                name = f"{short_operator_name(steps[0].name)} of {elements:,} elements"
                parts.append(f"a {printable(name)} {verb}{_beside(gap, causes)}")
    if root.retyped:
        types = [computed_type(step) for step in root.retyped[0]]
        computing = [new for _, new in root.retyped]
        text = f"{_computing(computing, computing[0])} in {types[1]} instead of {types[0]}"
        parts.append(text)
    more = sum(len(gap.old) + len(gap.new) for gap in root.gaps[1:])
    return ", and ".join(parts) + _also(more, "{} more copy", "{} more copies")


def _shape(root: Root, _: Causes) -> str:
    if root.inputs:
        return root.inputs[0]
    old, new = root.pairs[0]
    for name in [*new.weights]:
        if name in old.weights and old.weights[name].sizes != new.weights[name].sizes:
            sizes = [[*step.weights[name].sizes] for step in (old, new)]
            return f"{printable(name)} of {new.title} is {sizes[1]} instead of {sizes[0]}"
    return f"{new.title} is {new.text} instead of {old.text}"


def _argument(root: Root, _: Causes) -> str:
    changes = _joined(_changed(printable(str(pair[0])), *pair[1]) for pair in root.changed)
    also = _also(len(root.pairs) - 1, "{} more operator has", "{} more operators have")
    return f"{root.pairs[0][1].title} has {changes}{also}"


def _work(root: Root, _: Causes) -> str:
    old, new = root.worked[0]
    targets = [step.work.target for step in (old, new) if step.work is not None]
    changes = []
    if len({*targets}) > 1 and all(targets):
        texts = [text.replace(", ", " with ") for text in targets]
        changes.append(f"compiled for {texts[1]} instead of {texts[0]}")
    if "blob" in new.amounts:
        size = f"{new.blob_bytes:,} bytes"
        if old.blob_bytes == new.blob_bytes:
            changes.append(f"another blob of {size}")
        else:
            changes.append(f"its blob has {size} instead of {old.blob_bytes:,}")
    else:
        changes += [
            f"{amount:,} {name} instead of {old.amounts.get(name, 0):,}"
            for name, amount in new.amounts.items()
            if amount != old.amounts.get(name, 0)
        ] or ["the same amount of it, with other operations, constants or scales"]
    also = _also(len(root.worked) - 1, "that of {} more call", "that of {} more calls")
    return f"the work of {new.title} changed: {_joined(map(printable, changes))}{also}"


def _quantizer(root: Root, _: Causes) -> str:
    old, new = root.pairs[0]
    ways = ("per channel", "per tensor") if new.channels == 1 else ("per tensor", "per channel")
    return (
        f"weights of {counted(len(root.pairs), 'operator')} are quantized {ways[1]} instead of "
        f"{ways[0]}, first {new.title}: {counted(new.channels, 'scale')} instead of {old.channels}"
    )


def _weights(root: Root, _: Causes) -> str:
    old, new = root.pairs[0]
    names = [name for name, pair in different(old.digests, new.digests).items() if all(pair)]
    if names:
        known = [name if name in _WEIGHTS else "a constant" for name in names]
        return f"{_joined(dict.fromkeys(known))} of {new.title} changed{_more(root)}"
    appeared = [name for name in new.digests if name not in old.digests]
    vanished = [name for name in old.digests if name not in new.digests]
    name = printable((appeared or vanished)[0])
    return f"{name} of {new.title} {'appeared' if appeared else 'vanished'}{_more(root)}"


def _core(root: Root, causes: Causes) -> str:
    cores = f"exported for {causes.new.cores}, before for {causes.old.cores}"
    moved = sum(different(old.digests, new.digests) != {} for old, new in root.pairs)
    scratch = _scratch(root, causes) if _rescratched(root) else ""
    sums = f"other constants in {counted(moved, 'operator')}" if moved else ""
    return f"{cores}: {'; '.join(filter(None, (scratch, sums)))}"


def _scratch(root: Root, _: Causes) -> str:
    changed = _rescratched(root)
    old, new = changed[0]
    before, after = (sum(pair[side].scratch for pair in changed) for side in (0, 1))
    count = counted(len(changed), "operator")
    if before == after:
        size = size_change(old.scratch, new.scratch)
        return f"scratch memory of {count} changed, first {new.title}: {size}"
    return f"scratch memory of {count} is {size_change(before, after)}, first {new.title}"


def _rescratched(root: Root) -> list[Pair]:
    return [pair for pair in root.pairs if pair[0].scratch != pair[1].scratch]


def _scale(root: Root, _: Causes) -> str:
    old, new = root.pairs[0]
    ((name, values), *_others) = different(old.scales, new.scales).items()
    return f"{_changed(printable(name), *values)} in {new.title}{_more(root, 'scales')}"


def _plan(_: Root, causes: Causes) -> str:
    old, new = sum(causes.old.planned), sum(causes.new.planned)
    if old == new:
        return f"the memory plan places tensors elsewhere in the same {short_size(new)}"
    return f"the memory plan takes {size_change(old, new)} for the same operators"


def _method(root: Root, _: Causes) -> str:
    return f"the method {printable(str(root.key[0]))} {'appeared' if root.after else 'vanished'}"


_SENTENCES: Final[Mapping[CauseKind, Callable[[Root, Causes], str]]] = {
    "method": _method,
    "dtype": _dtype,
    "delegate": _delegate,
    "operator": _operator,
    "fusion": _fusion,
    "layout": _layout,
    "shape": _shape,
    "argument": _argument,
    "work": _work,
    "quantizer": _quantizer,
    "weights": _weights,
    "core": _core,
    "scratch": _scratch,
    "scale": _scale,
    "plan": _plan,
}


def _changed(name: str, before: str, after: str) -> str:
    """Return how a value changed; values that say nothing to people are left out."""
    if not before or not after:
        return f"{name} {printable(after)}, which it had not" if after else f"no {name}"
    texts = before, after
    if any(_DIGEST.fullmatch(text) or len(text) > _LONGEST_VALUE for text in texts):
        return f"another {name}"
    return f"{name} {printable(after)} instead of {printable(before)}"


def size_change(before: int, after: int) -> str:
    """Return a size and what it was, to the byte where they look alike otherwise."""
    texts = [short_size(before), short_size(after)]
    if texts[0] == texts[1]:
        texts = [f"{before:,} bytes", f"{after:,} bytes"]
    return f"{texts[1]} instead of {texts[0]}"


def _more(root: Root, what: str = "those") -> str:
    return _also(
        len(root.pairs) - 1, f"{what} of {{}} more operator", f"{what} of {{}} more operators"
    )


def _also(count: int, one: str, several: str) -> str:
    if count <= 0:
        return ""
    return f", and {(one if count == 1 else several).format(f'{count:,}')}"


def _listed(steps: Sequence[ComparedInstruction]) -> str:
    """Return the operators by name, or how many of each kind if there are many."""
    if len(steps) <= _MOST_NAMES:
        return _joined(step.title for step in steps)
    return f"{counted(len(steps), 'operator')} ({_kinds(steps)})"


def _kinds(steps: Iterable[ComparedInstruction]) -> str:
    """Return how many operators there are of each name, most first."""
    counts = Counter(printable(short_operator_name(step.name)) for step in steps).most_common()
    texts = [f"{count:,} {name}" for name, count in counts[:_MOST_NAMES]]
    if rest := sum(count for _, count in counts[_MOST_NAMES:]):
        texts.append(f"{rest:,} other")
    return _joined(texts)


def _joined(texts: Iterable[str]) -> str:
    *first, last = texts
    return f"{', '.join(first)} and {last}" if first else last


def _beside(gap: Unjoined, causes: Causes) -> str:
    near = causes.neighbour(gap)
    return f" {near[0]} {near[1].title}" if near is not None else ""
