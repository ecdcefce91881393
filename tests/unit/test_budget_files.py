"""Budget files together: what extends what, which sections count, and what wins."""

from __future__ import annotations

from pathlib import Path

import pytest

from harness import Budget, Subject, UsageError, evaluate
from tests.support.traces import EventSpec, RunSpec, trace_of

BASE = """\
schema = 1

[[time]]
id = "execute"
event = "Method::execute"
limit_us = 1000

[[time]]
event = "native_call_*"
statistic = "p90"
limit_us = 300

[stack]
limit_bytes = 4096
limit_percent = 50
"""


class Files:
    """Files in a directory."""

    def __init__(self, directory: Path) -> None:
        self._directory = directory

    def write(self, name: str, text: str) -> Path:
        path = self._directory / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text if text.startswith("schema") else f"schema = 1\n{text}")
        return path


@pytest.fixture
def files(tmp_path: Path) -> Files:
    return Files(tmp_path)


def times(budget: Budget) -> list[tuple[str, str, float | None, str]]:
    """Event, statistic and limit of each rule, and where the limit stands."""
    return [
        (rule.event, rule.statistic, rule.limit_us, budget.source("time", index, "limit_us"))
        for index, rule in enumerate(budget.time)
    ]


def test_a_rule_of_a_file_changes_that_of_the_file_it_extends(files: Files) -> None:
    files.write("lab/base.toml", BASE)
    text = "extends = 'lab/base.toml'\n[[time]]\nid = 'execute'\nlimit_us = 7\n"
    text += "[[time]]\nevent = 'native_call_*'\nstatistic = 'p90'\nlimit_us = 8\n"
    text += "[stack]\nlimit_bytes = 9\n"
    budget = Budget.load(files.write("own.toml", text))
    assert times(budget) == [
        ("Method::execute", "p50", 7, "own.toml:5"),
        ("native_call_*", "p90", 8, "own.toml:9"),
    ]
    assert budget.source("time", 0, "event") == "lab/base.toml:5"
    assert budget.stack is not None
    assert (budget.stack.limit_bytes, budget.stack.limit_percent) == (9, 50)
    assert budget.source("stack", "limit_percent") == "lab/base.toml:15"
    assert budget.files == ("lab/base.toml", "own.toml")


def test_sections_count_for_the_boards_and_models_that_match(files: Files) -> None:
    text = BASE + "\n".join(
        f"[[for]]\n{selects}\n[[for.time]]\nid = 'execute'\nlimit_us = {limit}"
        for limit, selects in enumerate(
            [
                "board = 'qemu-*'",
                "board = ['native', 'microbit-v1']\nmodel = 'kws_*.pte'",
                "unit = 'desk-?'",
            ],
            1,
        )
    )
    path = files.write("budget.toml", text)

    def limit(*place: str) -> float | None:
        return Budget.load(path, *place).time[0].limit_us

    assert limit() == limit("native") == limit("native", "ic_int8.pte") == 1000
    assert limit("qemu-mps2-an385", "any.pte") == 1
    assert limit("native", "kws_int8.pte") == limit("microbit-v1", "kws_f32.pte") == 2
    assert limit("native", "kws_int8.pte", "desk-1") == limit("qemu-x", "", "desk-2") == 3


def test_what_comes_later_wins_and_a_files_own_rules_come_before_its_sections(
    files: Files,
) -> None:
    rule = "time]]\nevent = 'a'\nlimit_us = "
    files.write("one.toml", f"[[{rule}1\n[[for]]\nboard='native'\n[[for.{rule}2\n")
    files.write("two.toml", f"[[{rule}3\n")
    both = files.write("both.toml", "extends = ['one.toml', 'two.toml']\n")
    assert times(Budget.load(both, "native")) == [("a", "p50", 3, "two.toml:4")]
    text = "extends = ['two.toml', 'one.toml']\n[[for]]\nboard = 'microbit-v1'\n"
    text += f"[[for.{rule}5\n[[{rule}4\n"
    own = files.write("own.toml", text)
    assert times(Budget.load(own, "native"))[0][2:] == (4, "own.toml:10")
    assert times(Budget.load(own, "microbit-v1"))[0][2:] == (5, "own.toml:7")


def test_a_file_that_two_extend_is_read_once(files: Files) -> None:
    files.write("base.toml", "[[time]]\nevent = 'a'\nlimit_us = 1\n")
    files.write("b.toml", "extends = 'base.toml'\n[[time]]\nevent = 'a'\nlimit_us = 2\n")
    files.write("c.toml", "extends = './base.toml'\n")
    budget = Budget.load(files.write("d.toml", "extends = ['b.toml', 'c.toml']\n"))
    assert [rule.limit_us for rule in budget.time] == [2]
    assert budget.files == ("base.toml", "b.toml", "c.toml", "d.toml")


def test_another_limit_or_reason_replaces_the_one_it_stands_for(files: Files) -> None:
    files.write(
        "base.toml",
        "[[time]]\nid = 'a'\nevent = 'x'\nlimit_percent = 40\nof = 'y'\nat_least_us = 3\n"
        "severity = 'warning'\nreason = 'known'\nexpires = 2030-01-01\n",
    )
    text = "extends = 'base.toml'\n[[time]]\nid = 'a'\nlimit_ms = 2\nseverity = 'note'\n"
    (rule,) = Budget.load(files.write("own.toml", text)).time
    assert (rule.limit_percent, rule.of, rule.limit_ms, rule.at_least_us) == (None, None, 2, 3)
    assert (rule.severity, rule.reason, rule.expires) == ("note", "", None)


def test_rules_alike_in_one_file_stand_beside_each_other(files: Files) -> None:
    rules = "".join(
        f"[[time]]\nevent = 'a'\n{limit} = 1\n" for limit in ("limit_us", "limit_ticks")
    )
    files.write("base.toml", rules)
    assert len(Budget.load(files.write("a.toml", "extends = 'base.toml'")).time) == 2
    text = "extends = 'base.toml'\n[[time]]\nevent = 'a'\nlimit_us = 5"
    (rule,) = Budget.load(files.write("b.toml", text)).time
    assert (rule.limit_us, rule.limit_ticks) == (5, None), "it speaks for both"


@pytest.mark.parametrize(
    ("text", "said"),
    [
        (
            "extends = 'none.toml'",
            "own.toml:2:1: file not found: {0}/own.toml, which extends {0}/none",
        ),
        ("extends = ['own.toml']", "own.toml:2:12: budgets extend each other in a cycle: "),
        ("extends = 'loop.toml'", "loop.toml:2:1: budgets extend each other in a cycle: {0}/own"),
        ("extends = '/base.toml'", "own.toml:2:1: '/base.toml' is an absolute path"),
        ("extends = 7", "own.toml:2:1: extends must be a string or a list, not 7"),
        ("extends = 'bad.toml'", "bad.toml:3:1: unknown key 'evnt' in [time]"),
        ("[severity]\nB77 = 'off'", "own.toml:3:1: unknown check code 'B77'"),
        ("[severity]\nB01 = 'of'", "own.toml:3:1: severity.B01 cannot be 'of'"),
        ("[severity.B01]\nreason = 'x'", "own.toml:2:1: severity missing for B01"),
        ("[[for]]\nboard='a'\n[for.severity]\nB77='off'", "own.toml:5:1: unknown check code"),
        ("[history]\nfdr = 1.5", "own.toml:3:1: history.fdr must be less than 1, not 1.5"),
        (
            "[history]\nrelative = -0.1",
            "own.toml:3:1: history.relative must be at least 0, not -0.1",
        ),
        (
            "[history]\nmin_results = 2",
            "own.toml:3:1: history.min_results must be at least 3, not 2",
        ),
        ("[history]\nrelative = inf", "own.toml:3:1: history.relative must be at most 1, not inf"),
        ("[history]\nabsolute_us = inf", "own.toml:3:1: absolute_us is not a finite number"),
        (
            "[[history.override]]\nevent = 'a'\nrelative = nan",
            "own.toml:4:1: history.override.relative must be at ",
        ),
        (
            "[[for]]\nboard='native'\n[for.history]\nfdr = 0",
            "own.toml:5:1: for.history.fdr must be more than 0, not 0",
        ),
        ("[[for]]\nboard = 'natve'", "own.toml:3:1: 'natve' matches no known board"),
        ("[[for]]\nboard = ['native', 'qem-*']", "own.toml:3:20: 'qem-*' matches no known board"),
        (
            "[[time]]\nevent = 'a'\nlimit_us = 1\nat_least_ms = 1",
            "own.toml:5:1: [time] at_least_ms = 1 is more than limit_us = 1",
        ),
        (
            "[[block]]\nat_least_percent = 60\nlimit_percent = 50",
            "own.toml:3:1: [block] at_least_percent = 60 is more than limit_percent = 50",
        ),
        ("[[for]]\n[[for.time]]\nevnt = 'a'", "own.toml:4:1: unknown key 'evnt' in [for.time]"),
        ("[[time]]\nid = 'exec'\nlimit_us = 1", "own.toml:2:1: [time] the key 'event' is missing"),
        ("[[time]]\nevent = 'a'\nlimit_us = inf", "own.toml:4:1: limit_us is not a finite number"),
        ("[[time]]\nevent = 'a'\nlimit_us = 1\nof = 'b'", "of requires limit_percent"),
        ("[[time]]\nevent = 'a'\nlimit_us = 1\nreason = 'b'", "need a severity"),
        ("[[module]]\nlimit_us = 1", "[module] the key 'module' is missing"),
        ("[[delegate]]\nlimit_us = 1", "[delegate] the key 'backend' is missing"),
        ("[[allocator]]\nlimit_bytes = 1", "[allocator] the key 'name' is missing"),
        ("[[block]]", "[block] limit missing: set one of limit_ns"),
        ("[stack]", "[stack] limit missing: set limit_bytes or limit_percent"),
        ("[code]", "[code] limit missing: set one of limit_text_bytes"),
        ("[losses]\nreason = 'x'", "[losses] reason and expires need a severity"),
        (
            "[[time]]\nid='a'\nevent='b'\nlimit_us=1\n[[time]]\nid='a'\nevent='c'\nlimit_us=1",
            "own.toml:6:1: duplicate id 'a' in [[time]]",
        ),
    ],
)
def test_a_wrong_budget_is_refused_by_file_and_line(text: str, said: str, files: Files) -> None:
    files.write("loop.toml", "extends = './own.toml'")
    files.write("bad.toml", "[[time]]\nevnt = 1")
    path = files.write("own.toml", text)
    with pytest.raises(UsageError) as raised:
        Budget.load(path)
    assert said.format(path.parent) in raised.value.message
    assert str(path.parent) in raised.value.message


@pytest.mark.parametrize(
    ("text", "hint"),
    [
        (
            "[[time]]\nid = 'exekute'\nlimit_us = 1",
            "no earlier rule has the id 'exekute': did you ",
        ),
        ("[[tyme]]", "did you mean 'time'?"),
        ("[[time]]\nlimit_uss = 1", "did you mean 'limit_us'?"),
        ("[[for]]\nbord = 'a'", "did you mean 'board'?"),
        ("[[for]]\nboard = 'natve'", "did you mean 'native'? `etharness boards` lists"),
        ("[history]\nconfidence = 95", "write it as a share: 0.95 for 95 %"),
        ("[history]\nrelative = 5", "write it as a share: 0.05 for 5 %"),
        ("[[time]]\nevent = 'a'\nlimit_us = 1\nat_least_ms = 1", "lower the first"),
        ("[severity]\nB1 = 'off'", "did you mean 'B1"),
        ("[severity]\nB01 = { severty = 'off' }", "did you mean 'severity'?"),
        ("[[time]]\nstatistic = 'p9'", "did you mean 'p90'? known values: avg, count, max, min"),
        ("[severity]\nB01 = 'eror'", "did you mean 'error'?"),
        ("[history]\nfrd = 0.1", "did you mean 'fdr'?"),
    ],
)
def test_what_was_meant_is_suggested(text: str, hint: str, files: Files) -> None:
    files.write("base.toml", BASE)
    path = files.write("own.toml", f"extends = 'base.toml'\n{text}")
    with pytest.raises(UsageError) as raised:
        Budget.load(path)
    assert hint in raised.value.hint


def test_a_table_of_history_is_inherited_too(files: Files) -> None:
    files.write("base.toml", "[history]\nrelative = 0.1\nfdr = 0.2\n")
    own = files.write("own.toml", "extends = 'base.toml'\n[history]\nfdr = 0.3\n")
    history = Budget.load(own).history
    assert (history.relative, history.fdr) == (0.1, 0.3)


@pytest.mark.parametrize(
    ("data", "said", "hint"),
    [
        (b"\xef\xbb\xbfschema = 1\n", ":1:1: the file begins with a byte order mark", "without"),
        ("schema = 1\n".encode("utf-16"), ":1:1: the file begins with a byte order mark", "UTF-8"),
        (b"schema = 1\n# caf\xe9\n", ":2:6: not valid TOML: byte 0xe9 is not UTF-8", "UTF-8"),
    ],
)
def test_a_file_in_another_encoding_is_an_error_with_its_place(
    tmp_path: Path, data: bytes, said: str, hint: str
) -> None:
    path = tmp_path / "own.toml"
    path.write_bytes(data)
    with pytest.raises(UsageError) as raised:
        Budget.load(path)
    assert f"{path}{said}" in raised.value.message
    assert hint in raised.value.hint


def test_a_board_of_ones_own_is_named_at_the_top_or_is_the_one_in_use(files: Files) -> None:
    section = "[[for]]\nboard = 'my-*'\n[for.losses]\nevents = 7\n"
    path = files.write("own.toml", section)
    assert Budget.load(path, "my-board").losses.events == 7
    with pytest.raises(UsageError, match="matches no known board"):
        Budget.load(path, "native")
    path = files.write("own.toml", f"boards = ['my-board']\n{section}")
    assert Budget.load(path, "native").losses.events == 0
    base = files.write("base.toml", section)
    extending = files.write("last.toml", f"extends = '{base.name}'\nboards = ['my-board']\n")
    assert Budget.load(extending, "native").losses.events == 0


def test_a_section_without_a_board_is_valid_for_every_board(files: Files) -> None:
    path = files.write("own.toml", "[[for]]\nboard = ''\n[for.losses]\nevents = 7\n")
    assert Budget.load(path).losses.events == 7
    assert Budget.load(path, "native").losses.events == 0


def test_the_class_reads_for_board_model_and_unit(files: Files) -> None:
    sections = "".join(
        f"[[for]]\n{name} = '?*'\n[for.losses]\n{losses} = 7\n"
        for name, losses in (("board", "events"), ("model", "blocks"), ("unit", "values"))
    )
    path = str(files.write("own.toml", sections))

    def allowed(*names: str) -> tuple[int, int, int]:
        losses = Budget.load(path, *names).losses
        return losses.events, losses.blocks, losses.values

    assert allowed() == (0, 0, 0)
    assert allowed("native") == (7, 0, 0)
    assert allowed("", "kws_int8.pte") == (0, 7, 0)
    assert allowed("", "", "desk-1") == (0, 0, 7)


@pytest.mark.parametrize(
    "limits",
    [
        "limit_ns = 1\nat_least_percent = 50",
        "limit_percent = 1\nat_least_ns = 50",
        "limit_ticks = 1\nat_least_percent = 50",
        "limit_percent = 50\nat_least_percent = 30",
        "limit_percent = 50\nat_least_percent = 50",
        "limit_ms = 1\nat_least_us = 1000",
    ],
)
def test_limits_that_do_not_compare_or_leave_a_time_between_them_are_no_contradiction(
    files: Files, limits: str
) -> None:
    (rule,) = Budget.load(files.write("own.toml", f"[[time]]\nevent = 'a'\n{limits}\n")).time
    assert len(list(rule.limits())) == 2


@pytest.mark.parametrize("limits", ["count = 5", "ratio = 0.5\nof = 'cycles'"])
def test_a_count_may_be_limited_to_one_number(files: Files, limits: str) -> None:
    rule = f"[[counter]]\ncounter = 'instret'\nevent = 'a'\nlimit_{limits}\nat_least_{limits}"
    (found,) = Budget.load(files.write("own.toml", rule.removesuffix("\nof = 'cycles'"))).counter
    (_, upper, _), (_, lower, _) = found.limits()
    assert upper == lower


def test_a_ratio_stays_of_the_same_counter_when_its_limit_changes(files: Files) -> None:
    rule = "[[counter]]\nid = 'a'\n"
    first = f"{rule}counter = 'cycles'\nevent = 'a'\nof = 'instret'\nlimit_ratio = 2\n"
    files.write("base.toml", first)
    own = files.write("own.toml", f"extends = 'base.toml'\n{rule}limit_ratio = 3\n")
    (found,) = Budget.load(own).counter
    assert (found.of, found.limit_ratio) == ("instret", 3)


def test_a_contradiction_of_two_files_names_the_place_of_the_lower_limit(files: Files) -> None:
    files.write("base.toml", "[[time]]\nid = 'x'\nevent = 'a'\nlimit_us = 3\n")
    own = files.write("own.toml", "extends = 'base.toml'\n[[time]]\nid = 'x'\nat_least_us = 4\n")
    with pytest.raises(UsageError, match=r"own\.toml:5:1: \[time\] at_least_us = 4 is more than"):
        Budget.load(own)


def test_an_override_of_the_history_that_matches_nothing_fails(files: Files) -> None:
    subject = Subject(trace_of(RunSpec([EventSpec("relu", 0, 5)])))
    rule = "[[history.override]]\nevent = '{}'\nrelative = 0.1\n"
    found = evaluate(subject, Budget.load(files.write("a.toml", rule.format("conv*")))).failures
    assert [(check.code, check.subject, check.source) for check in found] == [
        ("B01", "conv*", "a.toml:2")
    ]
    assert "no operator matches 'conv*'" in found[0].reason
    for text in (rule.format("re*"), rule.format("conv*") + "optional = true\n"):
        assert not evaluate(subject, Budget.load(files.write("b.toml", text))).failures
