"""The tree that was logged comes back: exactly where ticks tell, and marked where they do not."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from fractions import Fraction

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

from harness import Block, ClockDomain, Kind, Subject, Trace, merged_tree
from harness.analyze.call_tree import call_tree, depths
from harness.strategies import arbitrary_traces
from tests.support.examples import examples
from tests.support.logs import profile_trace


@dataclass
class Scope:
    """A scope of a program that ran: gaps before each child and at the end, in true time."""

    inside: list[Scope]
    gaps: list[int]
    start: int = 0
    end: int = 0
    row: int = field(default=-1, compare=False)

    def run(self, now: int) -> int:
        self.start = now
        for gap, child in zip(self.gaps, self.inside, strict=False):
            now = child.run(now + gap)
        self.end = now + self.gaps[-1]
        return self.end

    def logged(self) -> Iterator[Scope]:
        """Scopes in the order in which they end."""
        for child in self.inside:
            yield from child.logged()
        yield self


GAPS = st.integers(1, 40)
SCOPES = st.recursive(
    st.builds(lambda gap: Scope([], [gap]), GAPS),
    lambda inner: st.lists(inner, max_size=4).flatmap(
        lambda inside: st.lists(GAPS, min_size=len(inside) + 1, max_size=len(inside) + 1).map(
            lambda gaps: Scope(inside, gaps)
        )
    ),
    max_leaves=20,
)


def log_of(scopes: list[Scope], origin: int) -> tuple[list[Scope], list[int]]:
    """Scopes in the order of the log, and the row of the scope around each."""
    now = origin
    for scope in scopes:
        now = scope.run(now + 1)
    log = [scope for root in scopes for scope in root.logged()]
    for row, scope in enumerate(log):
        scope.row = row
    parents = [-1] * len(log)
    for scope in log:
        for child in scope.inside:
            parents[child.row] = scope.row
    return log, parents


@given(
    scopes=st.lists(SCOPES, min_size=1, max_size=4),
    bits=st.sampled_from([12, 24, 32, 64]),
    down=st.booleans(),
    origin=st.integers(0, 2**40),
)
@settings(max_examples=examples(100))
def test_parents_come_back_from_a_log_in_order_of_ends(
    scopes: list[Scope], bits: int, down: bool, origin: int
) -> None:
    log, parents = log_of(scopes, origin)
    if max(scope.end for scope in log) - origin >= 2**bits - 2 ** max(bits - 16, 0):
        bits = 64
    clock = ClockDomain("counter", Fraction(1_000_000), bits, down)
    sign = -1 if down else 1
    trace = profile_trace(
        [sign * scope.start % 2**bits for scope in log],
        [sign * scope.end % 2**bits for scope in log],
        clock,
    )
    tree = Subject(trace).tree
    assert tree.parent.tolist() == parents
    assert not tree.ambiguous.any()
    assert tree.total.tolist() == [scope.end - scope.start for scope in log]
    assert tree.own.tolist() == [sum(scope.gaps) for scope in log]
    # Self times of all events add up to the total time of those that nothing contains.
    roots = tree.depth == 0
    assert tree.own.sum() == tree.total[roots].sum()
    assert [tree.children(row).tolist() for row in range(len(log))] == [
        [child.row for child in scope.inside] for scope in log
    ]


@given(
    scopes=st.lists(SCOPES, min_size=1, max_size=4),
    tick=st.integers(2, 400),
    origin=st.integers(0, 2**20),
)
@settings(max_examples=examples(120))
def test_with_coarse_ticks_every_wrong_parent_is_marked(
    scopes: list[Scope], tick: int, origin: int
) -> None:
    log, parents = log_of(scopes, origin)
    clock = ClockDomain("counter", None, 64)
    trace = profile_trace([s.start // tick for s in log], [s.end // tick for s in log], clock)
    tree = Subject(trace).tree
    wrong = tree.parent != np.array(parents)
    assert not (wrong & ~tree.ambiguous).any()
    assert (tree.own <= tree.total).all()


@given(
    tick=st.integers(1, 5000),
    gaps=st.lists(st.integers(0, 300), min_size=4, max_size=40),
    origin=st.integers(0, 5000),
    calls=st.sampled_from(["OPERATOR_CALL", "DELEGATE_CALL"]),
)
def test_instructions_are_told_apart_however_coarse_ticks_are(
    tick: int, gaps: list[int], origin: int, calls: str
) -> None:
    count = len(gaps) // 4
    now, starts, ends = origin, [], []
    for number in range(count):
        marks = np.cumsum([now, *gaps[4 * number : 4 * number + 4]]).tolist()
        starts += [marks[1], marks[0]]
        ends += [marks[2], marks[3]]
        now = marks[4]
    starts.append(origin)
    ends.append(now)
    trace = Trace.unset(
        len(starts),
        names=["native_call", calls, "Method::execute"],
        blocks=[Block("Execute", 0, len(starts))],
        clocks=[ClockDomain("counter", None, 64)],
    )
    trace.clock[:] = 0
    trace.name[:] = [0, 1] * count + [2]
    trace.chain[:-1] = 0
    trace.instruction[:-1] = np.repeat(np.arange(count), 2)
    trace.start[:] = [start // tick for start in starts]
    trace.end[:] = [end // tick for end in ends]
    tree = Subject(trace.sealed()).tree
    last = 2 * count
    assert tree.parent.tolist() == [row + 1 if row % 2 == 0 else last for row in range(last)] + [-1]


@given(st.lists(st.integers(-1, 10**6), min_size=1, max_size=60))
def test_depth_counts_ancestors(choices: list[int]) -> None:
    parent = np.array(
        [-1 if row == 0 else choice % (row + 1) - 1 for row, choice in enumerate(choices)]
    )
    depth = depths(parent)
    for row, above in enumerate(parent.tolist()):
        assert depth[row] == (0 if above < 0 else depth[above] + 1)


@given(arbitrary_traces(), st.booleans())
@settings(max_examples=examples(120))
def test_any_log_has_a_tree_in_which_times_add_up(trace: Trace, across_blocks: bool) -> None:
    tree = call_tree(trace, across_blocks=across_blocks)
    depth = tree.depth.tolist()
    for row, parent in enumerate(tree.parent.tolist()):
        assert depth[row] == (0 if parent < 0 else depth[parent] + 1)
        if parent >= 0:
            # What contains something is a scope, or of the same delegate; and of the same tracer.
            assert trace.kind[parent] == Kind.PROFILE
            assert trace.tracer[parent] == trace.tracer[row]
    assert (tree.own <= tree.total).all()
    nodes = merged_tree(tree)
    profile = trace.kind == Kind.PROFILE
    assert sum(node.count for node in nodes) == np.count_nonzero(profile)
    assert sum(node.own_ticks for node in nodes) == sum(tree.own[profile].tolist())
    for node in nodes:
        assert node.depth == (0 if node.parent < 0 else nodes[node.parent].depth + 1)
    found = Subject(trace).memory
    assert (
        found.live.tolist() == np.cumsum(np.where(trace.failed, 0, trace.size)[found.rows]).tolist()
    )
    assert len(Subject(trace).runs) == len(trace.blocks)
