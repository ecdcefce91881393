"""``compare`` explains: what changed between two programs, and what it costs."""

from __future__ import annotations

import dis
import html
import json
import re
import shlex
import shutil
import subprocess
import sys
from collections.abc import Callable, Iterator
from importlib.metadata import EntryPoint
from pathlib import Path
from types import CodeType, FrameType
from typing import Any

import jsonschema
import msgspec
import pytest

import harness

Command = Callable[..., Any]
HERE = Path(__file__).parent
MODELS = HERE.parents[1] / "firmware_stub/models"
SCHEMAS = HERE.parents[1] / "schema"
EXPORTS = HERE.parents[1] / "tests/fixtures/why"
TRACE = HERE.parents[1] / "tests/fixtures/kws_f32_executorch.etdp"
SENTENCES = HERE.parents[1] / "harness/extensions/why/sentences.py"

pytestmark = pytest.mark.extension("why")


def causes(etharness: Command, before: object, after: object) -> list[dict[str, Any]]:
    """The causes of the differences between two programs, of all methods, or between two runs."""
    ended = etharness("compare", before, after, "--json")
    assert ended.code == 0, ended.err
    found = json.loads(ended.out)
    name = "compare" if "comparison" in found else "compare-programs"
    jsonschema.validate(found, json.loads((SCHEMAS / f"{name}.schema.json").read_text()))
    methods = [found["why"]] if "comparison" in found else found["why"]
    return [cause for method in methods for cause in method["causes"]]


@pytest.mark.parametrize(
    "model", ["kws_int8", "ad_f32", "npu_int", "functions", "dynamic", "state"]
)
def test_equal_programs_have_no_cause(model: str, etharness: Command, tmp_path: Path) -> None:
    copy = shutil.copy(MODELS / f"{model}.pte", tmp_path / "copy.pte")
    assert causes(etharness, MODELS / f"{model}.pte", copy) == []
    assert "the program did not change" in etharness("compare", MODELS / f"{model}.pte", copy).out


def test_methods_are_paired_by_name_and_a_change_of_any_of_them_is_said(
    etharness: Command,
) -> None:
    before, after = EXPORTS / "two_methods.pte", EXPORTS / "two_methods_exp.pte"
    shown = etharness("compare", before, after).out
    assert "did not change" not in shown
    assert "Why, method decode: +10.6 %" in shown
    assert "in decode, exp #0 replaced cos #0" in shown
    assert "Why, method encode: 0.0 %" in shown
    assert shown.count("no change of the method was found") == 1
    [chosen] = json.loads(etharness("compare", before, after, "--method", "encode", "--json").out)[
        "why"
    ]
    assert (chosen["method"], chosen["causes"], chosen["same"]) == ("", [], False)
    none = etharness("compare", before, after, "--method", "forward")
    assert (none.code, "its methods: decode, encode" in none.err) == (2, True)


def test_only_methods_of_programs_with_one_each_are_compared_by_another_name(
    etharness: Command,
) -> None:
    shown = etharness("compare", EXPORTS / "sin.pte", EXPORTS / "encode.pte").out
    assert "the method encode is compared with forward, each the only one" in shown
    assert "no change of the program was found, but files differ" in shown
    shown = etharness("compare", EXPORTS / "sin.pte", EXPORTS / "two_methods.pte").out
    for text in ("decode appeared", "encode appeared", "forward vanished"):
        assert f"the method {text}" in shown


@pytest.mark.parametrize(
    ("arguments", "error"),
    [
        (("sin", "cos", "--statistic", "min"), "--statistic is for two runs"),
        (("sin", "cos", "--executions", "all"), "--executions is for two runs"),
        (("sin", "cos", "--clock-hz", "1000"), "--clock-hz is for two runs"),
        (("sin", "cos", "--model", "kws_f32"), "--model is for two runs"),
        (("sin", "cos", "--values"), "--values is for two runs"),
        (("sin", "cos", "--report", "x.html"), "name a file that ends in .json or .md"),
        (("sin", TRACE), "sin.pte is a program, and"),
        ((TRACE, "sin"), "sin.pte is a program, and"),
        ((TRACE, TRACE, "--method", "forward"), "--method is for two programs"),
    ],
)
def test_what_programs_or_runs_cannot_heed_is_refused(
    arguments: tuple[object, ...], error: str, etharness: Command
) -> None:
    files = [EXPORTS / f"{one}.pte" if isinstance(one, str) else one for one in arguments[:2]]
    ended = etharness("compare", *files, *arguments[2:])
    assert (ended.code, error in ended.err) == (2, True), ended.err


def test_a_program_is_known_by_its_contents(etharness: Command, tmp_path: Path) -> None:
    file = shutil.copy(EXPORTS / "cos.pte", tmp_path / "network.bin")
    [cause] = causes(etharness, EXPORTS / "sin.pte", file)
    assert cause["sentence"] == "cos #0 replaced sin #0"


def test_reports_of_traces_without_a_program_say_that_causes_are_unknown(
    etharness: Command, tmp_path: Path
) -> None:
    reports = [tmp_path / f"why.{end}" for end in ("md", "json")]
    words = [word for file in reports for word in ("--report", file)]
    ended = etharness("compare", TRACE, TRACE, *words)
    assert ended.code == 0, ended.err
    for text in (ended.out, reports[0].read_text(), reports[1].read_text()):
        assert "causes are unknown" in text
        assert "did not change" not in text


def test_any_two_programs_are_compared(etharness: Command) -> None:
    models = sorted(MODELS.glob("*.pte"))
    for number, before in enumerate(models):
        after = models[(number * 7 + 5) % len(models)]
        for one, other in ((before, after), (after, before)):
            found = causes(etharness, one, other)
            assert bool(found) == (one.read_bytes() != other.read_bytes()), (one, other)
            assert all(cause["sentence"] for cause in found)


@pytest.mark.extension("executorch")  # cores that CMSIS-NN's arguments are for
@pytest.mark.parametrize(
    ("before", "after", "kind", "sentence"),
    [
        (
            *("ad_int8", "ad_int8_m55", "core"),
            "exported for Cortex-M55, M85 (MVE), before for Cortex-M0, M0+, M3, M23 (no DSP) and "
            "Cortex-M4, M7, M33, M35P (DSP): other constants in 10 operators",
        ),
        (
            *("kws_int8", "kws_int8_m55", "core"),
            "exported for Cortex-M55, M85 (MVE), before for Cortex-M0, M0+, M3, M23 (no DSP): "
            "scratch memory of 5 operators is 20.1 KiB instead of 0 bytes, first "
            "quantized_depthwise_conv2d #1; other constants in 1 operator",
        ),
        (
            *("kws_f32", "kws_int8", "dtype"),
            "12 operators compute in int8 instead of float32, from quantized_depthwise_conv2d #1 "
            "on, and 1 quantize_per_tensor appeared at their edges",
        ),
    ],
)
def test_the_cause_of_another_export_comes_first(
    before: str, after: str, kind: str, sentence: str, etharness: Command
) -> None:
    first = causes(etharness, before, after)[0]
    assert (first["kind"], first["sentence"]) == (kind, sentence)


def named(name: str) -> Path:
    """A program of the fixtures, or of the package's models."""
    folders = (EXPORTS, MODELS, EXPORTS.parent, EXPORTS.parent / "advice")
    return next(file for one in folders if (file := one / f"{name}.pte").is_file())


SAID: dict[tuple[str, str], set[str]] = {}
"""Kinds and sentences of causes that there are between two programs."""
for line in (EXPORTS / "sentences.txt").read_text().splitlines():
    first, second, text = line.split(" ", 2)
    SAID.setdefault((first, second), set()).add(text)


def test_scratch_sizes_alone_are_said_where_nothing_tells_cores(
    etharness: Command, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Without the extension that knows which core a scratch size is for."""
    load = EntryPoint.load
    monkeypatch.setattr(
        EntryPoint, "load", lambda self: None if self.name == "cmsis-nn" else load(self)
    )
    found = causes(etharness, "kws_int8", MODELS / "kws_int8_m4.pte")
    assert (found[0]["kind"], found[0]["sentence"]) == SCRATCH


SCRATCH = (
    "scratch",
    "scratch memory of 1 operator is 256 bytes instead of 0 bytes, first quantized_avg_pool2d #10",
)


@pytest.mark.extension("executorch")
@pytest.mark.extension("npu")
def test_changes_of_exports_are_said_and_every_text_of_the_sentences_is_of_one_of_them(
    etharness: Command, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Each constant that a function of the sentences can return is loaded for some pair."""
    reached: set[tuple[str, int, int]] = set()

    def trace(frame: FrameType, event: str, _: Any) -> Any:
        code = frame.f_code
        if code.co_filename != str(SENTENCES):
            return None
        frame.f_trace_opcodes = True
        if event == "opcode":
            reached.add((code.co_name, code.co_firstlineno, frame.f_lasti))
        return trace

    tracing = sys.gettrace()
    sys.settrace(trace)
    try:
        found = {pair: causes(etharness, *map(named, pair)) for pair in SAID}
        test_scratch_sizes_alone_are_said_where_nothing_tells_cores(etharness, monkeypatch)
    finally:
        sys.settrace(tracing)
    said = {pair: {f"{one['kind']} {one['sentence']}" for one in found[pair]} for pair in SAID}
    assert {pair: said[pair] & texts for pair, texts in SAID.items()} == SAID, said
    unsaid = [
        (code.co_name, step.positions.lineno if step.positions else None, step.argval)
        for code in codes(compile(SENTENCES.read_text(), str(SENTENCES), "exec"))
        for step in dis.get_instructions(code)
        if step.opname == "LOAD_CONST"
        and (code.co_name, code.co_firstlineno, step.offset) not in reached
    ]
    assert unsaid == []


def codes(code: CodeType) -> Iterator[CodeType]:
    """The functions of a module with those within them."""
    for constant in code.co_consts:
        if isinstance(constant, CodeType):
            yield constant
            yield from codes(constant)


@pytest.mark.parametrize(
    ("before", "after", "kind", "sentence"),
    [
        (
            *("forked", "forked_xnnpack", "delegate"),
            "4 operators (1 permute_copy, 1 addmm, 1 sin and 1 other) moved from the CPU to "
            "XnnpackBackend",
        ),
        (
            *("forked_xnnpack", "forked", "delegate"),
            "4 operators (1 permute_copy, 1 addmm, 1 sin and 1 other) moved from XnnpackBackend "
            "to the CPU",
        ),
        ("pad_1", "pad_2", "weights", "weight and bias of quantized_conv2d #1 changed"),
        (
            *("power", "products", "delegate"),
            "pow #1 moved from the CPU to XnnpackBackend; XnnpackBackend is called 1 time instead "
            "of 2",
        ),
        (
            *("three", "three_contiguous", "layout"),
            "the input is contiguous instead of channels_last, and 3 operators compute in float32 "
            "instead of int8",
        ),
        (
            *("three_contiguous", "three", "layout"),
            "the input is channels_last instead of contiguous, and 3 operators compute in int8 "
            "instead of float32",
        ),
        (
            *("three_leaky", "three_gelu", "dtype"),
            "quantized_activation #2 in int8 replaced leaky_relu #3 in float32, and 1 "
            "dequantize_per_tensor vanished at its edges",
        ),
    ],
)
def test_all_that_follows_from_one_edit_is_one_cause(
    before: str, after: str, kind: str, sentence: str, etharness: Command
) -> None:
    found = causes(etharness, named(before), named(after))
    assert [(one["kind"], one["sentence"]) for one in found] == [(kind, sentence)]


def test_two_edits_are_two_causes_and_cost_once(etharness: Command) -> None:
    files = named("narrow"), named("wide_large")
    found = causes(etharness, *files)
    assert [(one["sentence"], one["difference"] is None) for one in found] == [
        ("the input is [1, 4, 12, 12] instead of [1, 4, 8, 8]", False),
        ("weight of convolution #0 is [6, 4, 3, 3] instead of [4, 4, 3, 3]", True),
    ]
    shown = " ".join(etharness("compare", *files).out.split())
    assert f"counted with another cause: {found[1]['sentence']}" in shown


def test_operators_in_another_order_that_depend_on_each_other_are_a_change(
    etharness: Command,
) -> None:
    found = causes(etharness, named("sin_exp"), named("exp_sin"))
    assert sorted(one["sentence"] for one in found) == [
        "sin #0 vanished before exp #0",
        "sin #1 appeared after exp #0",
    ]


def test_the_page_shows_what_the_command_says(etharness: Command) -> None:
    [first] = causes(etharness, "kws_int8", "kws_f32")[:1]
    assert first["sentence"] in (HERE.parents[1] / "docs/why.md").read_text()


@pytest.mark.sim
def test_causes_and_the_rest_add_up_to_what_a_method_takes_longer(
    etharness: Command, tmp_path: Path
) -> None:
    runs = []
    for model in ("kws_int8_m55", "kws_f32"):
        runs.append(tmp_path / model)
        ended = etharness("run", "--board", "native", "--model", model, "-o", runs[-1])
        assert ended.code == 0, ended.out
    why = json.loads(etharness("compare", *runs, "--json").out)["why"]
    totals = [
        next(op.p50 for op in harness.load(run).operators() if op.name == "Method::execute")
        for run in runs
    ]
    assert [why["before"], why["after"]] == totals
    explained = sum(cause["difference"] for cause in why["causes"])
    assert explained + why["unexplained"] == pytest.approx(why["after"] - why["before"])
    assert [cause["kind"] for cause in why["causes"]] == ["dtype"]
    assert why["memory"] == {"planned_1": [20_464, 64_000]}
    text = etharness("compare", *runs).out
    assert why["causes"][0]["sentence"] in " ".join(text.split())
    assert etharness("compare", *runs, "--report", tmp_path / "why.md").code == 0
    markdown = (tmp_path / "why.md").read_text()
    assert "#0" not in markdown, "GitHub links it to an issue"
    assert why["causes"][0]["sentence"] in re.sub(r"\\|&#8203;", "", markdown)


@pytest.mark.sim
def test_counters_and_energy_are_those_of_the_operators_that_changed(
    etharness: Command, tmp_path: Path
) -> None:
    runs = [tmp_path / "before", tmp_path / "after"]
    nanojoules = 1e-9
    expected = []
    for run, model in zip(runs, ("kws_int8", "kws_f32"), strict=True):
        words = ("--board", "qemu-riscv32-virt", "--model", model, "--counters", "instret")
        assert etharness("run", *words, "--runs", "1", "-o", run).code == 0
        kernels = [
            op.operator
            for op in harness.load(run).operators()
            if op.operator.delegate_int == -1 and op.operator.chain == 0 and op.instruction >= 0
            if op.name != "OPERATOR_CALL"  # the scope around a kernel, which histories do not have
        ]
        # A meter measured each instruction: its number in nanojoules.
        record = harness.EnergyRecord(
            *("PPK2", 1e5, 1000, 0, 0, 64),
            operators=tuple(
                harness.OperatorEnergy(*op.signature, 1, 1, op.instruction * nanojoules, nanojoules)
                for op in kernels
            ),
        )
        result = json.loads((run / "result.json").read_text())
        del result["files"], result["digest"]  # as earlier versions wrote it
        result["energy"] = msgspec.to_builtins(record)
        (run / "result.json").write_text(json.dumps(result))
        counted = sorted((op.instruction, op.counters["instret"].p50) for op in kernels)
        expected.append(dict(counted))
    [cause] = causes(etharness, *runs)
    places = [
        [int(title.rpartition("#")[2]) for title in cause[side]]
        for side in ("operators_before", "operators")
    ]
    assert all(places)
    sides = [*zip(places, expected, strict=True)]
    counts = [sum(each[number] for number in numbers) for numbers, each in sides]
    joules = [sum(numbers) * nanojoules for numbers in places]
    assert cause["counters"] == {"instret": counts[1] - counts[0]}
    assert cause["joules"] == pytest.approx(joules[1] - joules[0])
    shown = " ".join(etharness("compare", *runs).out.split())
    assert f"[instret {counts[1] - counts[0]:+,.0f}, {joules[1] - joules[0]:+.3g} J]" in shown


@pytest.mark.sim
def test_a_program_that_is_not_at_hand_is_compared_by_what_the_run_recorded(
    etharness: Command, tmp_path: Path
) -> None:
    model = tmp_path / "model.pte"
    runs = [tmp_path / "a", tmp_path / "b"]
    for run, name in zip(runs, ("kws_f32", "kws_int8"), strict=True):
        shutil.copy(MODELS / f"{name}.pte", model)
        data = bytearray(model.read_bytes())
        model.write_bytes(data + bytes(16))  # no packaged model
        assert etharness("run", "--board", "native", "--model", model, "-o", run).code == 0
    why = json.loads(etharness("compare", *runs, "--json").out)["why"]
    assert [cause["kind"] for cause in why["causes"]][:1] == ["dtype"]
    [note] = why["notes"]
    assert note.endswith(
        "is not at hand: layouts, arguments and constants are not compared; give the programs "
        "with --model"
    )
    wrong = etharness("compare", *runs, "--model", "ad_int8")
    assert (wrong.code, "is not the program that ran" in wrong.err) == (3, True)


@pytest.mark.sim
def test_of_runs_of_two_methods_only_that_is_said(etharness: Command, tmp_path: Path) -> None:
    runs = [tmp_path / name for name in ("encode", "decode")]
    for run in runs:
        words = ("--model", EXPORTS / "two_methods.pte", "--method", run.name, "--runs", "1")
        assert etharness("run", "--board", "native", *words, "-o", run).code == 0
    why = json.loads(etharness("compare", *runs, "--json").out)["why"]
    assert why["notes"] == ["the first run executed the method encode, the second decode"]
    assert (sentences(why), why["same"]) == ([], False), "nothing of the program changed"
    shown = etharness("compare", *runs).out
    assert "change of the program" not in shown
    assert "the program did not change" not in shown


def test_operators_without_an_estimate_are_counted(etharness: Command) -> None:
    files = [EXPORTS.parent / f"{name}.pte" for name in ("ethos_u55", "ethos_u65")]
    shown = etharness("compare", *files).out
    shown = " ".join(shown.split())
    assert f"{files[0].name}: 1 operator without an estimate" in shown
    assert "per execution on the CPU, without EthosUBackend (estimated" in shown
    assert "on the CPU" not in etharness("compare", *map(named, ("sin", "cos"))).out


@pytest.fixture
def project(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder whose ``model.pte`` changes, as a project's does."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("ETHARNESS_BASELINE_DIR", str(tmp_path / "kept"))
    return tmp_path


def sentences(why: dict[str, Any]) -> list[str]:
    return sorted(cause["sentence"] for cause in why["causes"])


PLAN = """
schema = 1
name = "why"
output = "nights"
repeats = 1
history = "h.sqlite"
baseline = "last:1"
reports = ["night.html", "night.md", "report.json"]

[[board]]
board = "native"

[[model]]
file = "model.pte"
"""


@pytest.mark.sim
@pytest.mark.extension("history")
@pytest.mark.extension("lab")
@pytest.mark.extension("web")
@pytest.mark.extension("executorch")
def test_a_night_with_a_changed_program_says_what_compare_says(
    project: Path, etharness: Command
) -> None:
    Path("plan.toml").write_text(PLAN)
    for model in ("kws_int8", "kws_int8_m55"):
        shutil.copy(MODELS / f"{model}.pte", "model.pte")
        ended = etharness("nightly", "plan.toml", "--fresh", "--json")
    assert ended.code == 1, ended.err
    folders = sorted(Path("nights").glob("why-*"))
    before, after = (next(folder.rglob("result.json")).parent for folder in folders)
    expected = sentences(json.loads(etharness("compare", before, after, "--json").out)["why"])
    assert expected[0].startswith(CORE)
    [arm] = json.loads(ended.out)["arms"]
    [run] = json.loads((folders[1] / "report.json").read_text())["runs"]
    assert sentences(arm["program"]) == sentences(run["why"]) == expected
    page = html.unescape((folders[1] / "night.html").read_text())
    comment = re.sub(r"\\|&#8203;", "", (folders[1] / "night.md").read_text())
    for text in expected:
        assert text in page
        assert text in comment


def without_remainder(text: str) -> str:
    """Without the time that is unexplained, which is the tracer's and changes with it."""
    return re.sub(r"\([+-][\d.]+ us\): unexplained", "unexplained", text)


@pytest.mark.sim
@pytest.mark.extension("history")
@pytest.mark.extension("executorch")
def test_the_page_walks_from_a_red_run_to_its_cause_and_its_cure(
    project: Path, etharness: Command
) -> None:
    """The commands of docs/why.md, as printed."""
    page = (HERE.parents[1] / "docs/why.md").read_text()
    shutil.copy(MODELS / "kws_int8.pte", "model.pte")
    said: dict[str, Any] = {}
    walk = page[page.index("## From red") : page.index("## What is compared")]
    for block in re.findall(r"```sh\n(.*?)```", walk, re.DOTALL):
        for line in block.replace("\\\n", " ").splitlines():
            program, *words = shlex.split(line.removesuffix(" || echo red"))
            if program == "etharness":
                said[line] = etharness(*words)
            else:
                command = [sys.executable if program == "python" else program, *words]
                subprocess.run(command, check=True)
    red = [line for line, ended in said.items() if ended.code]
    assert [line.endswith("|| echo red") for line in red] == [True], red
    [shown] = re.findall(r"```text\n(.*?)```", walk, re.DOTALL)
    assert without_remainder(shown) in without_remainder(said[red[0]].out)
    assert "the program did not change" in [*said.values()][-1].out


CORE = "exported for Cortex-M55, M85 (MVE), before for Cortex-M0, M0+, M3, M23 (no DSP)"


@pytest.mark.sim
@pytest.mark.extension("history")
@pytest.mark.extension("web")
@pytest.mark.extension("executorch")
def test_a_run_with_a_baseline_says_what_changed_since(project: Path, etharness: Command) -> None:
    run = ("run", "--board", "native", "--model", "model.pte", "--history", "h.sqlite")
    for name, model in (("b", "kws_int8"), ("c", "kws_int8_m55")):
        shutil.copy(MODELS / f"{model}.pte", "model.pte")
        ends = ("md", "html", "json")
        reports = [word for end in ends for word in ("--report", f"{name}.{end}")]
        ended = etharness(*run, "--baseline", "last:1", "-o", name, *reports)
        assert ended.code in (0, 1), ended.err
    for text in (ended.out, Path("c.md").read_text(), Path("c.html").read_text()):
        assert CORE.split("(")[0] in " ".join(text.split()), text
    compared = etharness("compare", "b", "c", "--report", "page.html")
    assert CORE in " ".join(compared.out.split())
    page = Path("page.html").read_text()
    assert CORE in page
    [headline] = [line for line in compared.out.splitlines() if line.startswith("Why: ")]
    assert headline in page
    # A report has the causes of ``compare``, in JSON as records.
    why = json.loads(Path("c.json").read_text())["runs"][0]["why"]
    compared_why = json.loads(etharness("compare", "b", "c", "--json").out)["why"]
    assert sentences(why) == sentences(compared_why) != []
    rest = compared_why["unexplained"]
    assert ("unexplained (operators that did not change: " in compared.out) == (
        bool(compared_why["unchanged"]) and abs(rest) >= 0.5
    )
    assert re.search(r"^- .*exported for", Path("c.md").read_text(), re.MULTILINE)
    # The program is not kept any more: the history knows operators, types and shapes.
    shutil.rmtree("kept")
    again = etharness("check", "c", "--history", "h.sqlite", "--baseline", "last:1")
    assert CORE not in again.out
    assert "one of both programs is not at hand" in " ".join(again.out.split())


@pytest.mark.sim
@pytest.mark.extension("bisect")
@pytest.mark.extension("executorch")
def test_a_bisection_says_what_its_commit_changed(project: Path, etharness: Command) -> None:
    git = ("git", "-c", "user.name=n", "-c", "user.email=n@example.org")
    subprocess.run([*git, "init", "-q", "."], check=True)
    for number, model in enumerate(("kws_int8", "kws_int8_m55", "kws_int8_m55")):
        shutil.copy(MODELS / f"{model}.pte", "model.pte")
        Path("number").write_text(str(number))
        subprocess.run([*git, "add", "model.pte", "number"], check=True)
        subprocess.run([*git, "commit", "-q", "-m", f"change {number}"], check=True)
        subprocess.run([*git, "tag", f"c{number}"], check=True)
    words = "-m harness run --board native --model model.pte --runs 1 -q -o {output}"
    ended = etharness(
        *("bisect", "--good", "c0", "--bad", "c2", "--metric", "allocator:planned_1", "--json"),
        *("--", sys.executable, *words.split()),
    )
    assert ended.code == 0, ended.err
    found = json.loads(ended.out)
    jsonschema.validate(found, json.loads((SCHEMAS / "bisect.schema.json").read_text()))
    assert [commit["subject"] for commit in found["suspects"]] == ["change 1"]
    assert found["why"]["causes"][0]["sentence"].startswith(CORE)
    shown = etharness("bisect", "--status").out
    assert CORE in " ".join(shown.split())
