"""``compare`` explains: real exports with one change, and the names of arguments.

All forty changes are measured by ``benchmarks/why_study.py``; here are some of small networks.
"""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

import pytest

pytest.importorskip("executorch.exir", reason="needs torch and executorch")

import torch

from benchmarks.why_study import Change, changes, exported, is_right
from harness.extensions.why.explain import explain_programs
from tests.conftest import ROOT, CommandResult

pytestmark = [pytest.mark.oracle]

SAMPLED = {
    ("mixer", "XNNPACK leaves softmax"),
    ("kws", "images channels last"),
    ("kws", "batch norms not folded"),
    ("kws", "padding of a convolution"),
    ("kws", "a layer with more channels"),
    ("mixer", "relu became another activation"),
    ("mixer", "one layer trained again"),
    ("mixer", "an exporter that copies views"),
}
CHOSEN = [
    change
    for change in changes()
    if (change.network, change.name) in SAMPLED and change.before.flow != "int8"
]


@pytest.mark.parametrize("change", CHOSEN, ids=lambda one: f"{one.network}: {one.name}")
def test_the_change_of_an_export_is_the_first_cause(change: Change) -> None:
    before, after = (exported(change.network, recipe) for recipe in (change.before, change.after))
    [found] = explain_programs(before, after)
    assert is_right(change, found.causes), [cause.sentence for cause in found.causes]
    assert [method.causes for method in explain_programs(before, before)] == [()]
    assert found.before is not None
    assert found.after is not None
    assert found.unexplained == pytest.approx(0, abs=1)
    [back] = explain_programs(after, before)
    assert {cause.kind for cause in back.causes} == {cause.kind for cause in found.causes}


def test_every_change_is_sampled_by_name() -> None:
    assert len(changes()) == 40
    assert {(change.network, change.name) for change in changes()} >= SAMPLED


def test_arguments_have_the_names_of_the_schemas() -> None:
    from executorch.backends.cortex_m.passes.cortex_m_pass_manager import CortexMPassManager

    assert CortexMPassManager  # which registers its operators
    file = ROOT / "harness/extensions/why/arguments.txt"
    listed = {name: names for name, *names in map(str.split, file.read_text().splitlines())}
    compared = 0
    for schema in torch._C._jit_get_all_schemas():
        name = f"{schema.name}.{schema.overload_name}" if schema.overload_name else schema.name
        if name in listed:
            arguments = [item.name for item in schema.arguments if not item.is_out]
            assert listed[name] == arguments, name
            compared += 1
    assert compared == len(listed) > 100


def test_the_command_explains_exports(
    etharness: Callable[..., CommandResult], tmp_path: Path
) -> None:
    [change] = [one for one in CHOSEN if one.name == "padding of a convolution"]
    for name, recipe in (("a.pte", change.before), ("b.pte", change.after)):
        (tmp_path / name).write_bytes(exported(change.network, recipe))
    ended = etharness("compare", tmp_path / "a.pte", tmp_path / "b.pte", "--json")
    assert ended.code == 0, ended.err
    first = json.loads(ended.out)["why"][0]["causes"][0]
    assert "padding" in first["sentence"]
    assert first["difference"] > 0
    shown = etharness("compare", tmp_path / "a.pte", tmp_path / "b.pte").out
    assert first["sentence"] in " ".join(shown.split())
