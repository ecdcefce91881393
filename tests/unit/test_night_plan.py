"""Plans of nights: what they mean, and what is said of those that are wrong."""

from __future__ import annotations

import re
import socket
from collections.abc import Callable
from pathlib import Path

import pytest

from harness import UsageError
from harness.extensions.lab.nightly.night import prepare
from harness.extensions.lab.nightly.plan import load_plan, options_of
from tests.conftest import CommandResult
from tests.support.nights import PLAN, written_plan

UNITS = """
schema = 1
[[unit]]
id = "a"
board = "native"
fixtures = ["loopback"]
[[unit]]
id = "b"
board = "native"
[[unit]]
id = "c"
board = "qemu-microbit"
"""


def test_simulated_units_are_made_where_none_are_named(tmp_path: Path) -> None:
    plan = written_plan(tmp_path, PLAN.replace('"native"', '"native"\ncount = 3'))
    assert [unit.id for unit in prepare(plan, None).units] == ["native-1", "native-2", "native-3"]


@pytest.mark.parametrize(
    ("chosen", "units"),
    [
        ('units = ["b", "a"]', ["b", "a"]),
        ('fixtures = ["loopback"]', ["a"]),
        ("", ["a", "b"]),
        ("count = 1", ["native-1"]),
    ],
)
def test_units_of_the_lab_are_chosen(tmp_path: Path, chosen: str, units: list[str]) -> None:
    plan = written_plan(tmp_path, PLAN.replace('"native"', f'"native"\n{chosen}'))
    lab = tmp_path / "units.toml"
    lab.write_text(UNITS)
    assert [unit.id for unit in prepare(plan, lab).units] == units


@pytest.mark.attack(
    "Arguments and scripts",
    "nightly plans with wrong types, ranges and keys",
    "exit code 2, with file, line and key",
)
@pytest.mark.parametrize(
    ("old", "new", "said"),
    [
        ("schema = 1", "schema = 1\nrepeat = 2", "plan.toml:3:1: unknown key 'repeat'"),
        ('"small_int8.pte"', '"none.pte"', r"plan.toml:6:1: file not found: .*none.pte"),
        ('"small_int8.pte"', '"small_int8.pte"\nbudget = "b.toml"', "file not found: b.toml"),
        ('"native"', '"nativ"', "no such board"),
        ('"native"', '"native"\nunits = ["x"]', "plan.toml:4:1: no such unit: 'x'"),
        ('"native"', '"native"\nunits = ["c"]', "c is not a native"),
        ('"native"', '"native"\nfixtures = ["x"]', "no unit of type native with x"),
        ('"native"', '"native"\ncount = 2\nunits = ["a"]', "count is for simulated units"),
        ('"native"', '"native"\nimage = "plan.toml"', "native cannot be flashed"),
        ('"native"', '"native"\n[[board]]\nboard = "native"', "a, b selected by several"),
        (
            "schema = 1",
            'schema = 1\nbaseline = "last:20"',
            "plan.toml:3:1: a baseline needs a history",
        ),
        (
            "schema = 1",
            'schema = 1\nhistory = "h.db"\nbaseline = "nonsense"',
            "plan.toml:4:1: invalid baseline 'nonsense'",
        ),
        ('"small_int8.pte"', '"small_int8.pte"\nboards = ["x"]', "no unit of type x"),
        ("[[board]]", '[[variant]]\nlabel = "a"\n[[board]]', None),
        (
            "[[board]]",
            '[[variant]]\nlabel = "a"\n[[variant]]\nlabel = "b"\n[[board]]',
            "plan.toml:4:1: variant 'a' has no commit",
        ),
        (
            "[[board]]",
            '[[variant]]\nlabel = "a"\ncommit = "c1"\n[[variant]]\nlabel = "b"\ncommit = "c1"\n'
            "[[board]]",
            "duplicate commit 'c1'",
        ),
        ("[[model]]", '[[model]]\nfile = "small_int8.pte"\n[[model]]', "duplicate model"),
    ],
)
def test_what_is_wrong_with_a_plan_is_said(
    tmp_path: Path, old: str, new: str, said: str | None
) -> None:
    plan = written_plan(tmp_path, PLAN.replace(old, new, 1))
    lab = tmp_path / "units.toml"
    lab.write_text(UNITS)
    if said is None:
        assert prepare(plan, lab).all_steps
        return
    with pytest.raises(UsageError, match=said):
        prepare(plan, lab)


def test_a_model_has_the_options_of_all_and_its_own(tmp_path: Path) -> None:
    text = PLAN + 'runs = 7\nvalues = "outputs"\n[run]\nruns = 3\nseed = 4\nstream = true\n'
    plan, document = load_plan(written_plan(tmp_path, text))
    found = [*options_of(plan, plan.model[0]).arguments(document.path.parent)]
    assert found == ["--runs=7", "--seed=4", "--values=outputs", "--stream"]


def test_a_dry_run_prints_the_schedule_and_does_nothing(
    tmp_path: Path, etharness: Callable[..., CommandResult]
) -> None:
    plan = written_plan(tmp_path, PLAN.replace("schema = 1", "schema = 1\nrepeats = 2"))
    said = etharness("nightly", plan, "--dry-run")
    assert said.code == 0, said.err
    lines = [line.split() for line in said.out.splitlines()]
    assert ["native-1", "2", "native", "small_int8", "only", "2"] in lines
    assert "2 runs on 1 unit;" in said.out
    assert not (tmp_path / "out").exists()
    assert etharness("nightly", plan, "--only", "x/*").code == 2


RACK = """
schema = 1
output = "out"
[[board]]
board = "nucleo-f446re"
[[board]]
board = "qemu-microbit"
[[board]]
board = "native"
[[model]]
file = "small_int8.pte"
[[model]]
file = "kws_f32.pte"
boards = ["qemu-microbit", "native"]
"""


def test_a_dry_run_finds_what_would_fail_in_every_run(
    tmp_path: Path, etharness: Callable[..., CommandResult]
) -> None:
    plan = written_plan(tmp_path, RACK, models=("small_int8", "kws_f32"))
    lab = tmp_path / "units.toml"
    unit = '[[unit]]\nid = "{}"\nboard = "{}"\nport = "{}"\n'
    with socket.create_server(("127.0.0.1", 0)) as server:
        open_port = f"socket://127.0.0.1:{server.getsockname()[1]}"
        missing = str(tmp_path / "ttyACM0")
        nucleos = [
            unit.format(f"nuc-{n}", "nucleo-f446re", p)
            for n, p in ((1, open_port), (2, "socket://127.0.0.1:9"), (3, missing))
        ]
        lab.write_text("schema = 1\n" + "".join(nucleos))
        told = etharness("nightly", plan, "--units", lab, "--dry-run")
    words = "set-up error: ", "infrastructure failure: "
    found = [line for line in told.out.splitlines() if line.startswith(words)]
    assert re.match(
        r"set-up error: qemu-microbit cannot run \S+/kws_f32.pte: model: [\d,]+ b", found[0]
    )
    assert found[1:] == [
        "infrastructure failure: nuc-2: cannot reach socket://127.0.0.1:9: Connection refused",
        f"infrastructure failure: nuc-3: serial port {missing} does not exist",
    ]
    assert (told.code, (tmp_path / "out").exists()) == (2, False)
    lab.write_text("schema = 1\n" + unit.format("nat-1", "native", open_port))
    plan.write_text(PLAN)
    told = etharness("nightly", plan, "--units", lab)
    assert told.code == 2
    assert "native runs on this host, and nat-1 has a port" in told.err
