"""What changed between two programs: root causes, each with all that follows from it.

Instructions are joined by their place in the graph (``harness.extensions.why.alignment``).

A change is a consequence if its tensors come from an operator or an input that has changed in a way
that explains it: shapes behind another padding, types behind a quantize, scales behind anything
that computes other numbers. Everything else is a root. Equal roots in several places are one cause.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import chain, zip_longest
from typing import Final, Literal, get_args

from harness.extensions.why.alignment import Pair, Unjoined, join
from harness.extensions.why.programs import ComparedInstruction, Operand, ProgramFacts, family_of
from harness.formatting import printable, short_operator_name

CauseKind = Literal[
    "method",
    "dtype",
    "delegate",
    "operator",
    "fusion",
    "layout",
    "shape",
    "argument",
    "work",
    "quantizer",
    "weights",
    "core",
    "scratch",
    "scale",
    "plan",
]
"""What changed: whether there is the method; types; what a delegate executes; operators; fusions;
dim orders; shapes; arguments such as padding; the work of a delegate; how weights are scaled; their
values; the core that it was exported for; scratch memory; scales and zero points; memory plans."""

RANKS: Final = {kind: rank for rank, kind in enumerate(get_args(CauseKind))}
"""Order of causes that cost the same."""

_Shapes = tuple[tuple[int, ...], ...]

_EDGES: Final = frozenset({"view", "layout", "quantize"})
"""Families of operators at the edge of a delegate."""

_AROUND: Final = frozenset({"layout", "batch norm", "activation", "view"})
"""Families of operators that come and go with the type of the operator that they are around."""

_VALUES_ONLY: Final = frozenset({"scratch", "core", "plan"})
"""Causes that leave all computed numbers as they are."""

_FREE: Final = frozenset({"stride", "padding", "dilation", "transposed"})
"""Arguments that follow from no shape."""


@dataclass(eq=False, slots=True)
class Root:
    """A cause while it is found.

    Attributes:
        kind: What changed.
        key: Equal for equal changes of several operators.
        pairs: Joined operators where it begins.
        gaps: Gaps where it begins: operators of the first and of the second program.
        changed: Arguments that changed, with both values.
        inputs: What it changes of the method's inputs, in words.
        retyped: Joined operators that compute in another type, because of it.
        worked: Joined calls of a delegate that do another amount of work, because of it.
        before: All operators of the first program that it changes, with consequences.
        after: Likewise of the second.
    """

    kind: CauseKind
    key: tuple[object, ...]
    pairs: list[Pair] = field(default_factory=list)
    gaps: list[Unjoined] = field(default_factory=list)
    inputs: list[str] = field(default_factory=list)
    retyped: list[Pair] = field(default_factory=list)
    worked: list[Pair] = field(default_factory=list)
    changed: tuple[tuple[str, tuple[str, str]], ...] = ()
    before: list[ComparedInstruction] = field(default_factory=list)
    after: list[ComparedInstruction] = field(default_factory=list)


_NO_METHOD: Final = ProgramFacts((), (), ())


class Causes:
    """The root causes of the differences between two programs."""

    def __init__(self, before: ProgramFacts | None, after: ProgramFacts | None) -> None:
        """Find all of them; None for a method that only one of both has."""
        self.old, self.new = old, new = before or _NO_METHOD, after or _NO_METHOD
        self.roots: list[Root] = []
        self._from: dict[tuple[int, int], Root] = {}
        """Cause of the change of a tensor, by side and value number."""
        self._makers = [
            {
                item.number: step
                for step in chain.from_iterable(side.chains)
                for item in step.outputs
            }
            for side in (old, new)
        ]
        self._readers: list[dict[int, list[ComparedInstruction]]] = [{}, {}]
        for readers, side in zip(self._readers, (old, new), strict=True):
            for step in chain.from_iterable(side.chains):
                for item in step.inputs:
                    readers.setdefault(item.number, []).append(step)
        self._partners: dict[int, ComparedInstruction] = {}
        """What an instruction is joined with, by its ``id``."""
        self._moved: dict[int, str] = {}
        """Backends that operators without counterparts moved to or from, by their ``id``."""
        if before is None or after is None:
            root = self._root("method", old.method or new.method)
            root.before, root.after = ([*chain.from_iterable(s.chains)] for s in (old, new))
            return
        self._inputs()
        chains = [[*join(*pair)] for pair in zip_longest(old.chains, new.chains, fillvalue=())]
        joined = [one for items in chains for one in items if not isinstance(one, Unjoined)]
        self._partners.update({id(one): two for one, two in joined})
        self._partners.update({id(two): one for one, two in joined})
        self._find_moved([one for items in chains for one in items if isinstance(one, Unjoined)])
        for items in chains:
            for place, part in enumerate(items):
                if isinstance(part, Unjoined):
                    self._gap(part)
                else:
                    behind = items[place + 1] if place + 1 < len(items) else None
                    self._pair(*part, behind if isinstance(behind, Unjoined) else None)
        self._moved_work()
        self._plan()
        self.roots.sort(key=lambda root: RANKS[root.kind])

    def _root(self, kind: CauseKind, *key: object) -> Root:
        """Return the cause with this key, a new one if there is none."""
        for root in self.roots:
            if (root.kind, root.key) == (kind, key):
                return root
        self.roots.append(root := Root(kind, key))
        return root

    def _upstream(
        self, old: Iterable[ComparedInstruction], new: Iterable[ComparedInstruction]
    ) -> list[Root]:
        """Return the causes that changed the inputs of some operators, nearest first."""
        numbers = [
            (side, operand.number)
            for side, steps in enumerate((old, new))
            for step in steps
            for operand in step.inputs
            if not operand.constant
        ]
        return [*dict.fromkeys(self._from[key] for key in numbers if key in self._from)]

    def _attach(
        self, root: Root, old: Iterable[ComparedInstruction], new: Iterable[ComparedInstruction]
    ) -> None:
        """Note that a cause changes operators, and with them their outputs."""
        for side, steps, listed in ((0, old, root.before), (1, new, root.after)):
            for step in steps:
                if step not in listed:
                    listed.append(step)
                self._passes(root, side, step.outputs)

    def _passes(self, root: Root, side: int, operands: Iterable[Operand]) -> None:
        """Note that a cause changed tensors, unless another one did before it."""
        for operand in operands:
            self._from.setdefault((side, operand.number), root)

    def _inputs(self) -> None:
        for number, (old, new) in enumerate(zip(self.old.inputs, self.new.inputs, strict=False)):
            name = "the input" if len(self.new.inputs) == 1 else f"input {number}"
            for kind, before, after in _operand_changes(old, new):
                root = self._root(kind, before, after)
                root.inputs.append(f"{name} is {after} instead of {before}")
                self._passes(root, 0, [old])
                self._passes(root, 1, [new])

    def _pair(
        self, old: ComparedInstruction, new: ComparedInstruction, gap: Unjoined | None
    ) -> None:
        upstream = self._upstream([old], [new])
        found = [*self._changes(old, new, upstream, gap)]
        for root, begins in found:
            if begins:
                root.pairs.append((old, new))
            self._attach(root, [old], [new])
        if not found and upstream:
            numbers = [root for root in upstream if root.kind not in _VALUES_ONLY]
            # It computes other numbers of the same types and shapes, which costs nothing.
            for root in numbers[:1]:
                self._passes(root, 0, old.outputs)
                self._passes(root, 1, new.outputs)

    def _changes(
        self,
        old: ComparedInstruction,
        new: ComparedInstruction,
        upstream: list[Root],
        gap: Unjoined | None,
    ) -> Iterator[tuple[Root, bool]]:
        """Yield the causes that change a joined operator, and whether each begins here."""
        kinds = {root.kind: root for root in reversed(upstream)}
        types, shapes = _types_differ(old, new), _shapes(old, new) != _shapes(new, old)
        complete = self.old.complete and self.new.complete
        if types:
            yield self._retyped(old, new, kinds)
            return
        if family_of(old.name) == family_of(new.name) and old.name != new.name:
            yield self._root("operator", old.name, new.name), True
            return
        if shapes:
            yield from self._reshaped(old, new, kinds)
        elif arguments := different(old.arguments, new.arguments):
            yield (own := self._argument(arguments)), True
            upstream = [own, *upstream]
        layouts = _layout_changes(old, new)
        if complete and layouts:
            root = kinds.get("layout")
            yield (root, False) if root else (self._root("layout", *layouts[0]), True)
        if old.delegated and not shapes and (root := self._work(old, new, upstream)):
            yield root, root.kind == "work"
        if complete and not shapes:
            yield from self._other_numbers(old, new, upstream, gap)

    def _retyped(
        self, old: ComparedInstruction, new: ComparedInstruction, kinds: Mapping[CauseKind, Root]
    ) -> tuple[Root, bool]:
        """Return why an operator computes in other types, and whether that begins here."""
        if (layout := self._unsuitable(old, new)) is not None:
            layout.retyped.append((old, new))
            return layout, False
        for kind in ("dtype", "layout", "delegate"):
            root = kinds.get(kind)
            if root is not None and (kind != "layout" or root.retyped):
                if kind == "layout":
                    root.retyped.append((old, new))
                return root, kind == "dtype" and computed_type(old) != computed_type(new)
        return self._root("dtype", *_main_types(old, new)), True

    def _unsuitable(self, old: ComparedInstruction, new: ComparedInstruction) -> Root | None:
        """Return the change of layout for which a quantized operator has no kernel; None if none.

        It computes in float behind a dequantize: the export quantized it, and no kernel took it.
        """
        changes = _layout_changes(old, new)
        floats = [computed_type(step).startswith("float") for step in (old, new)]
        if not changes or floats[0] == floats[1]:
            return None
        side, step = (0, old) if floats[0] else (1, new)
        while step.inputs:
            maker = self._makers[side].get(step.inputs[0].number)
            if maker is None or (maker.chain, maker.index) >= (step.chain, step.index):
                return None
            if (family := family_of(maker.name)) == "quantize":
                return self._root("layout", *changes[0])
            if family not in _AROUND:
                return None
            step = maker
        return None

    def _reshaped(
        self, old: ComparedInstruction, new: ComparedInstruction, kinds: Mapping[CauseKind, Root]
    ) -> Iterator[tuple[Root, bool]]:
        """Yield why an operator has other shapes."""
        own = {
            name: values
            for name, values in different(old.arguments, new.arguments).items()
            if name in _FREE
        }
        given = [[item.sizes for item in step.inputs] for step in (old, new)]
        if own:
            yield self._argument(own), True
            return
        # Whatever else changed before it: only that can change the shapes of its inputs.
        for kind in ("shape", "argument", "operator", "delegate", "dtype", "fusion", "layout"):
            if given[0] != given[1] and kind in kinds:
                yield kinds[kind], False
                if _resized(old, new):
                    yield self._root("shape", new.title), True
                return
        if arguments := different(old.arguments, new.arguments):
            yield self._argument(arguments), True
            return
        yield self._root("shape", new.title), True

    def _argument(self, changed: Mapping[str, tuple[str, str]]) -> Root:
        root = self._root("argument", *sorted(changed.items()))
        root.changed = tuple(sorted(changed.items()))
        return root

    def _other_numbers(
        self,
        old: ComparedInstruction,
        new: ComparedInstruction,
        upstream: list[Root],
        gap: Unjoined | None,
    ) -> Iterator[tuple[Root, bool]]:
        """Yield why an operator with the same types and shapes has other constants or memory."""
        fused = gap is not None and _is_fusion(gap, (old, new))
        weights = different(old.digests, new.digests)
        if old.arguments != new.arguments:
            yield from self._constants(old, new, weights, upstream)
            return
        cores = "" not in (self.old.cores, self.new.cores) and self.old.cores != self.new.cores
        if cores and (old.scratch != new.scratch or {*old.digests} != {*new.digests}):
            yield self._root("core"), True
            weights = {}
        elif old.scratch != new.scratch and not fused:
            yield self._root("scratch"), True
        if not fused:
            numbers = [root for root in upstream if root.kind not in _VALUES_ONLY]
            yield from self._constants(old, new, weights, numbers)

    def _work(
        self, old: ComparedInstruction, new: ComparedInstruction, upstream: Sequence[Root]
    ) -> Root | None:
        """Return why a delegate does other work; None if it does the same.

        Other numbers before it are in its constants, and other types and layouts in all its work.
        """
        sized = old.amounts != new.amounts and (old.work is None) == (new.work is None)
        if not sized and (not old.blob or not new.blob or old.blob == new.blob):
            return None
        explains = {"dtype", "delegate", "layout"} if sized else {*RANKS} - _VALUES_ONLY
        root = next((root for root in upstream if root.kind in explains), None)
        root = root or self._root("work", old.name)
        if sized or root.kind == "work":
            root.worked.append((old, new))
        return root

    def _moved_work(self) -> None:
        """Count other work and outputs of a backend for operators that moved to or from it."""
        for root in [root for root in self.roots if _is_work(root)]:
            backend = printable(root.pairs[0][0].name)
            for other in self.roots:
                if other.kind == "delegate" and backend in str(other.key[0]):
                    self._attach(other, root.before, root.after)
                    self.roots.remove(root)
                    break

    def _constants(
        self,
        old: ComparedInstruction,
        new: ComparedInstruction,
        weights: Mapping[str, tuple[str, str]],
        upstream: Sequence[Root],
    ) -> Iterator[tuple[Root, bool]]:
        """Yield why an operator has other weights, scales or bounds."""
        counts = sorted((old.channels, new.channels))
        if counts[0] == 1 < counts[1]:
            yield self._root("quantizer", new.channels == 1), True
            return
        scales = different(old.scales, new.scales)
        follows = scales or upstream  # a bias is scaled like the product of input and weights
        if any(not name.startswith("bias") or not follows for name in weights):
            yield self._root("weights"), True
        elif scales or weights or different(old.bounds, new.bounds):
            if upstream:
                yield upstream[0], False
            else:
                yield self._root(*(("scale",) if scales else ("fusion", "bounds"))), True

    def _gap(self, gap: Unjoined) -> None:
        upstream = self._upstream(gap.old, gap.new)
        root, begins = self._gap_root(gap, {root.kind: root for root in reversed(upstream)})
        if begins:
            root.gaps.append(gap)
        self._attach(root, gap.old, gap.new)
        if gap.behind is not None and _is_fusion(gap, gap.behind):
            self._attach(root, [gap.behind[0]], [gap.behind[1]])

    def _gap_root(self, gap: Unjoined, kinds: Mapping[CauseKind, Root]) -> tuple[Root, bool]:
        """Return why operators appeared or vanished, and whether that begins here."""
        families = gap.families
        if gap.delegated:
            return self._root("delegate", _backends(gap)), True
        around = families <= {"quantize", *_AROUND}
        for kind in ("dtype", "delegate"):
            if kind in kinds and (around or kind == "dtype"):
                return kinds[kind], False
        if around and (found := self._around(gap, kinds.get("layout"))) is not None:
            return found
        if families == {"layout"}:
            root = kinds.get("layout") or self._layout_near(gap)
            return root, True
        if gap.behind is not None and _is_fusion(gap, gap.behind):
            return self._root("fusion", *_names(gap)), True
        if backend := self._moved.get(id((*gap.old, *gap.new)[0])):
            return self._root("delegate", printable(backend)), True
        return self._root("operator", *_names(gap)), True

    def _around(self, gap: Unjoined, layout: Root | None) -> tuple[Root, bool] | None:
        """Return the change of type with which operators around another came or went, if any."""
        for pair in (gap.ahead, gap.behind):
            if pair is not None and _types_differ(*pair):
                root = layout if layout and layout.retyped else self._unsuitable(*pair)
                if root is not None:
                    return root, False
                return self._root("dtype", *_main_types(*pair)), gap.families == {"quantize"}
        return None

    def _find_moved(self, gaps: Sequence[Unjoined]) -> None:
        """Find the operators that a delegate executes in the other program.

        Their tensors are those of its calls, or of other operators that moved.
        """
        rest = [gap for gap in gaps if not gap.delegated and not (gap.old and gap.new)]
        for gap in gaps:
            for call in (step for step in (*gap.old, *gap.new) if step.delegated):
                self._moved |= {id(step): call.name for step in (*gap.old, *gap.new)}
        found = True
        while found:
            found = False
            for gap in [*rest]:
                if backend := self._backend_beside(gap):
                    self._moved |= {id(step): backend for step in (*gap.old, *gap.new)}
                    rest.remove(gap)
                    found = True

    def _backend_beside(self, gap: Unjoined) -> str:
        """Return the backend that operators came from or went to; "" for none."""
        side = 0 if gap.old else 1
        facts = (self.old, self.new)
        for makers in (True, False):
            for step in self._beyond(side, (*gap.old, *gap.new), makers=makers):
                partner = self.partner(step)
                calls = [step] if step.delegated else []
                if partner is not None:
                    others = self._beyond(1 - side, [partner], makers=not makers)
                    calls += [other for other in others if other.delegated]
                for name in (*(call.name for call in calls), self._moved.get(id(step), "")):
                    here, there = (_blobs(facts[one], name) for one in (side, 1 - side))
                    if there and (here != there or "" in here):
                        return name
        return ""

    def _beyond(
        self, side: int, steps: Iterable[ComparedInstruction], *, makers: bool
    ) -> Iterator[ComparedInstruction]:
        """Yield what computes the inputs of operators, or what reads their outputs.

        Views, copies and quantizations between them are passed.
        """
        rest, seen = [*steps], set[int]()
        while rest:
            for one in self._beside(side, rest.pop(0), makers=makers):
                if id(one) not in seen:
                    seen.add(id(one))
                    yield one
                    if family_of(one.name) in _EDGES:
                        rest.append(one)

    def partner(self, step: ComparedInstruction) -> ComparedInstruction | None:
        """Return what an instruction is joined with; None if nothing."""
        return self._partners.get(id(step))

    def _beside(
        self, side: int, step: ComparedInstruction, *, makers: bool
    ) -> list[ComparedInstruction]:
        """Return what computes the inputs of an operator, or what reads its outputs."""
        if makers:
            found = [self._makers[side].get(item.number) for item in step.inputs]
            return [one for one in found if one is not None]
        return [one for item in step.outputs for one in self._readers[side].get(item.number, ())]

    def neighbour(self, gap: Unjoined) -> tuple[str, ComparedInstruction] | None:
        """Return what reads the outputs of a gap ("before" it), else what its inputs are from.

        Only of operators that both programs have, as the second one numbers them.
        """
        side = 0 if gap.old else 1
        steps = gap.old or gap.new
        for word, makers in (("before", False), ("after", True)):
            for step in steps:
                for near in self._beside(side, step, makers=makers):
                    if (partner := self.partner(near)) is not None:
                        return word, near if side else partner
        return None

    def _layout_near(self, gap: Unjoined) -> Root:
        """Return the cause of a permute or a copy: the layouts that change beside it."""
        for pair in (gap.ahead, gap.behind):
            if pair is not None and (changes := _layout_changes(*pair)):
                return self._root("layout", *changes[0])
        return self._root("layout", *_names(gap))

    def _plan(self) -> None:
        explains = {*RANKS} - {"quantizer", "weights", "scale", *_VALUES_ONLY}
        kinds = {root.kind for root in self.roots}
        sizes = self.old.planned != self.new.planned
        moved = self.old.complete and self.new.complete and self.old.plan != self.new.plan
        if (sizes and not kinds & {*explains, "core", "scratch"}) or (moved and not kinds):
            self._root("plan")


def _is_work(root: Root) -> bool:
    """Return whether all that changed is what calls of one backend do with the same inputs."""
    return root.kind == "work" or (
        root.kind == "shape"
        and not root.inputs
        and len({old.name for old, _ in root.pairs if old.delegated}) == 1
        and all(_alike(old.inputs, new.inputs) for old, new in root.pairs)
    )


def _alike(old: Sequence[Operand], new: Sequence[Operand]) -> bool:
    """Return whether tensors have the same types and shapes."""
    return [(one.dtype, one.sizes) for one in old] == [(one.dtype, one.sizes) for one in new]


def _blobs(side: ProgramFacts, backend: str) -> set[str]:
    """Return the digests of what a backend executes in a program; "" for unknown ones."""
    steps = chain.from_iterable(side.chains)
    return {step.blob for step in steps if step.delegated and step.name == backend}


def _operand_changes(old: Operand, new: Operand) -> Iterator[tuple[CauseKind, str, str]]:
    """Yield what changed of an input of the method."""
    if old.dtype != new.dtype:
        yield "dtype", old.dtype, new.dtype
    if old.sizes != new.sizes:
        yield "shape", str([*old.sizes]), str([*new.sizes])
    elif old.layout != new.layout and old.layout and new.layout:
        yield "layout", old.layout, new.layout


def different(old: Mapping[str, str], new: Mapping[str, str]) -> dict[str, tuple[str, str]]:
    """Return both values of all names whose values differ; "" for one that is absent."""
    names = dict.fromkeys([*old, *new])
    pairs = {name: (old.get(name, ""), new.get(name, "")) for name in names}
    return {name: pair for name, pair in pairs.items() if pair[0] != pair[1]}


def _types_differ(old: ComparedInstruction, new: ComparedInstruction) -> bool:
    """Return whether two operators compute with other types, or have weights of other types."""
    pairs = [
        *zip(old.inputs, new.inputs, strict=False),
        *zip(old.outputs, new.outputs, strict=False),
    ]
    shared = [name for name in old.weights if name in new.weights and name.startswith("weight")]
    pairs += [(old.weights[name], new.weights[name]) for name in shared]
    return any(before.dtype != after.dtype for before, after in pairs)


def computed_type(step: ComparedInstruction) -> str:
    """Return the type that an operator computes with."""
    if family_of(step.name) == "quantize":
        return "/".join(sorted({item.dtype for item in (*step.inputs, *step.outputs)}))
    for items in (step.inputs, step.outputs):
        if items:
            return items[0].dtype
    return ""


def _main_types(old: ComparedInstruction, new: ComparedInstruction) -> tuple[str, str]:
    """Return the types that two operators compute with; those of outputs if only they differ."""
    types = computed_type(old), computed_type(new)
    results = zip(old.outputs, new.outputs, strict=False)
    others = [(one.dtype, two.dtype) for one, two in results if one.dtype != two.dtype]
    return others[0] if types[0] == types[1] and others else types


def _shapes(step: ComparedInstruction, other: ComparedInstruction) -> tuple[_Shapes, ...]:
    """Return all sizes of a step, of weights those that the other step has, too."""
    shared = {name for name in other.weights if name.startswith("weight")}
    weights = [step.weights[name] for name in sorted(step.weights) if name in shared]
    parts = (step.inputs, step.outputs, weights)
    return tuple(tuple(item.sizes for item in part) for part in parts)


def _resized(old: ComparedInstruction, new: ComparedInstruction) -> bool:
    """Return whether weights have other sizes, for inputs of as many channels or features."""
    dim = {"convolution": 1, "linear": -1}.get(family_of(new.name))
    if (
        dim is None
        or not (old.inputs and new.inputs)
        or _shapes(old, new)[2] == _shapes(new, old)[2]
    ):
        return False
    sizes = old.inputs[0].sizes, new.inputs[0].sizes
    return len(sizes[0]) == len(sizes[1]) > 1 and sizes[0][dim] == sizes[1][dim]


def _layout_changes(old: ComparedInstruction, new: ComparedInstruction) -> list[tuple[str, str]]:
    """Return both layouts of each tensor whose layout changes.

    Where a dimension of one element becomes larger, or the reverse, layouts do not compare.
    """
    sides = [(*step.inputs, *step.outputs) for step in (old, new)]
    return [
        (before.layout, after.layout)
        for before, after in zip(*sides, strict=False)
        if before.layout != after.layout
        and [size == 1 for size in before.sizes] == [size == 1 for size in after.sizes]
    ]


def _names(gap: Unjoined) -> tuple[object, ...]:
    return tuple(
        tuple(short_operator_name(step.name) for step in side) for side in (gap.old, gap.new)
    )


def _backends(gap: Unjoined) -> str:
    names = dict.fromkeys(step.name for step in (*gap.new, *gap.old) if step.delegated)
    return ", ".join(map(printable, names))


def _is_fusion(gap: Unjoined, behind: Pair) -> bool:
    """Return whether operators vanished into the one before them, or appeared out of it."""
    if (gap.old and gap.new) or family_of(behind[1].name) not in (
        *("convolution", "linear", "add", "matmul"),
    ):
        return False
    if gap.families == {"batch norm"}:
        return True
    changed = different(behind[0].bounds, behind[1].bounds)
    return gap.families == {"activation"} and bool(changed)
