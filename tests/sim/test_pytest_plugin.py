"""The pytest plugin on boards: ten lines profile a model, and failures say what failed and why."""

from __future__ import annotations

import fcntl
import re
import shutil
import subprocess
import sys
from collections.abc import Iterator
from itertools import pairwise
from pathlib import Path
from xml.etree import ElementTree

import pytest
import scipy.stats  # noqa: F401
from msgspec.structs import replace

import harness
import harness.history.store
import harness.pytest_plugin
from harness import Failure, InfrastructureError, build_firmware, open_store
from harness.pytest_plugin import options as options_module
from harness.pytest_plugin.running import CaseUnit, Runs
from harness.records.run_settings import SettingPlace, settings_in
from harness.runs.directory import RunDirectory
from tests.conftest import MODELS
from tests.support.fake_ppk2 import FakePpk2
from tests.support.inner_pytest import inner, run_directories
from tests.support.leases import another_process
from tests.unit.test_pytest_plugin import SERIAL

__all__ = ["inner"]

PAGE = Path(__file__).resolve().parents[2] / "docs/pytest.md"

pytest_plugins = ["pytester"]
pytestmark = pytest.mark.sim


@pytest.fixture
def project(inner: pytest.Pytester) -> pytest.Pytester:
    """A project with a model, a budget that holds, and one that does not."""
    shutil.copy(MODELS / "small_int8.pte", inner.path / "small.pte")
    inner.makefile(
        ".toml",
        holds='schema = 1\n[[time]]\nevent = "Method::execute"\nlimit_us = 60_000_000\n',
        fails='schema = 1\n[[time]]\nevent = "native_call_*softmax*"\nlimit_ticks = 1\n'
        '[[time]]\nevent = "absent"\nlimit_us = 1\n',
    )
    return inner


def run(project: pytest.Pytester, *arguments: str) -> tuple[pytest.RunResult, Path]:
    """Run pytest; also where its temporary files are."""
    base = project.path / "base"
    return project.runpytest(f"--basetemp={base}", *arguments), base


def test_a_finished_run_answers_questions(project: pytest.Pytester) -> None:
    project.makepyfile("""
        import harness
        import pytest
        from harness.pytest_plugin import Duration, us

        pytestmark = pytest.mark.etharness(board="native", model="small.pte", runs=3)

        def test_times(etharness_run, etharness_trace, etharness_unit):
            assert type(etharness_run) is harness.Run
            assert etharness_run.verdict
            assert etharness_run.raise_for_verdict().check("holds.toml").checks
            assert etharness_run.compare(etharness_run).operators
            assert etharness_run.result.runs_completed == 3
            assert etharness_run.trace is etharness_trace is etharness_run.subject.trace
            execute = etharness_run.operator("Method::execute")
            assert (execute.count, execute.instruction) == (3, 0)
            assert execute.ticks.p50 == execute.p50
            assert isinstance(execute.p50, Duration)
            assert 0 < execute.min <= execute.p50 <= execute.max <= execute.total < 60e6 * us
            slowest = etharness_run.slowest()
            assert slowest.name.startswith("native_call_")
            assert all(op.p50 <= slowest.p50 for op in etharness_run.operators("native_call_*"))
            linear = etharness_run.operator("native_call_quantized_linear.out", instruction=2)
            assert repr(linear).startswith("<native_call_quantized_linear.out, instruction 2: p50")
            assert etharness_run.operators("*", block="*")
            assert etharness_run.allocator("method").peak_bytes > 0
            assert repr(etharness_run.verdict).startswith("<PASS: ")

        def test_outputs(etharness_run):
            [output] = etharness_run.outputs
            assert output.size

        def test_another_run(etharness_run, etharness_profile):
            values = etharness_profile(values="outputs", runs=1)
            assert values.result.trace.values > 0 == etharness_run.result.trace.values
            assert values.directory != etharness_run.directory
            assert etharness_profile("small.pte").directory == etharness_run.directory

        def test_session(etharness_session, etharness_board):
            assert etharness_session.target.board == etharness_board.name
            assert etharness_session.status().run_id == 0
    """)
    result, base = run(project)
    result.assert_outcomes(passed=4)
    assert run_directories(base) == []
    result, base = run(project, "--etharness-keep")
    assert len(run_directories(base)) == 2


def test_failures_say_what_failed_and_where_it_is_kept(project: pytest.Pytester) -> None:
    project.makepyfile("""
        import pytest
        from harness.link.wire import Reset

        pytestmark = pytest.mark.etharness(board="native", model="small.pte", runs=2)

        def test_check(etharness_run):
            etharness_run.check("fails.toml")

        @pytest.mark.etharness(budget="fails.toml")
        def test_verdict(etharness_run):
            assert etharness_run.verdict

        def test_question(etharness_run):
            etharness_run.operator("native_call_quantized_linear.out")

        def test_names(etharness_run):
            etharness_run.operators("conv2d")

        def test_allocator(etharness_run):
            etharness_run.allocator("heap")

        def test_refused(etharness_session):
            etharness_session.reset(Reset.REBOOT)
            etharness_session.hello(10)
            etharness_session.set_input(7, b"")

        @pytest.mark.etharness(runs=1)
        def test_passes(etharness_run):
            assert etharness_run.verdict
    """)
    result, base = run(project, "--etharness-artifacts=left")
    result.assert_outcomes(failed=6, passed=1)
    [kept] = run_directories(base)
    build = build_firmware(harness.Board.load("native")).build_id
    lines = result.outlines
    at = lines.index('>       etharness_run.check("fails.toml")')
    fail = re.search(r"FAIL: 2 of \d+ checks failed(?:, \d+ \w+)*$", lines[at + 1])
    assert fail is not None
    said = [
        fail[0],
        *lines_of_checks(lines),
        f"small.pte on native, firmware {build}, bundled C kernels",
        f"budget: {project.path}/fails.toml",
        f"kept in: {base}/etharness/{kept}",
        f"again: etharness check {base}/etharness/{kept} --budget {project.path}/fails.toml",
    ]
    assert len(said) == 7
    assert lines[at + 1] == f"E       harness.errors.ChecksFailedError: {said[0]}"
    assert lines[at + 2 : at + 8] == [f"E       {line}" for line in said[1:]]
    assert lines[at + 9].startswith("test_failures_say_what_failed_and_where_it_is_kept.py:7: ")

    at = lines.index(">       assert etharness_run.verdict")
    assert lines[at + 1] == f"E       assert <{fail[0]}>"
    assert lines[at + 2] == f"E        +  where <{fail[0]}> = <small.pte on native>.verdict"
    section = lines.index("-" * 34 + " etharness " + "-" * 35, at)
    assert lines[section + 1 : section + 8] == said
    name = "test_failures_say_what_failed_and_where_it_is_kept.py-test_verdict[native-small]"
    assert lines[section + 8] == f"copied to: {project.path}/left/{name}"
    assert (project.path / "left" / name / kept / "trace.etlog").is_file()
    assert len(list((project.path / "left").iterdir())) == 5

    result.stdout.fnmatch_lines(
        [
            "E       harness.errors.UsageError: 2 events of <small.pte on native> match "
            "'native_call_quantized_linear.out', not one",
            "E       try: name one by its instruction, or ask for slowest(): "
            "<native_call_quantized_linear.out, instruction 1: p50 *>, "
            "<native_call_quantized_linear.out, instruction 2: p50 *>",
            "E       harness.errors.UsageError: no event of <small.pte on native> matches 'conv2d' "
            "in block 'Execute'",
            "E       try: there are *Method::execute",
            "E       harness.errors.UsageError: <small.pte on native> has no allocator 'heap'",
            "E       try: there are method, planned_1",
            '>       etharness_session.set_input(7, b"")',
            "E       harness.errors.DeviceRefusedError: native: the device refused *",
            f"the board printed: etdump stub {build} on native",
        ]
    )
    # None of our frames, and no chain of causes.
    assert not any("/harness/" in line for line in lines if "::" not in line)
    assert not any("The above exception" in line for line in lines)


def lines_of_checks(lines: list[str]) -> list[str]:
    """The two failed checks, as the section of a report shows them."""
    found = [*dict.fromkeys(line for line in lines if line.startswith("  B01 "))]
    absent, softmax = found  # the worst first
    assert softmax.startswith("  B01 native_call_softmax.out, instruction ")
    assert softmax.endswith(" ticks exceed the limit of 1 ticks")
    assert "no event matches 'absent' in block 'Execute'" in absent
    return found


def test_a_run_that_fails_fails_its_tests_without_a_stack_once(project: pytest.Pytester) -> None:
    project.makepyfile("""
        import pytest

        @pytest.mark.parametrize("number", range(3))
        @pytest.mark.etharness(board="native", model="small.pte", method="backward")
        def test_it(etharness_run, number): ...
    """)
    result, base = run(project)
    result.assert_outcomes(errors=3)
    [kept] = run_directories(base)
    reason = [line for line in result.outlines if line.startswith("UsageError: ")]
    assert len(reason) == 3
    assert reason[0].endswith("small.pte has no method 'backward'")
    assert result.outlines.count("  try: select one with --method: forward") == 3
    assert result.outlines.count(f"kept in: {base}/etharness/{kept}") == 3
    assert not any("/harness/" in line for line in result.outlines if str(base) not in line)


def test_junit_says_where_and_what_ran(project: pytest.Pytester) -> None:
    project.makepyfile("""
        import pytest

        @pytest.mark.etharness(board="native", model="small.pte")
        def test_it(etharness_run): ...
    """)
    run(project, "--junitxml=report.xml", "-n1")
    [case] = ElementTree.parse(project.path / "report.xml").iter("testcase")
    properties = {item.get("name"): item.get("value") for item in case.iter("property")}
    model = properties.pop("etharness_model_sha256")
    assert model is not None
    assert len(model) == 64
    assert properties == {
        "etharness_board": "native",
        "etharness_unit": "native",
        "etharness_version": "0.1.0",
        "etharness_model": "small.pte",
        "etharness_build_id": build_firmware(harness.Board.load("native")).build_id,
    }


def test_workers_share_each_run_and_what_failed_tests_used_is_kept(
    project: pytest.Pytester,
) -> None:
    project.makepyfile("""
        import os, pathlib, pytest

        @pytest.mark.parametrize("number", range(10))
        @pytest.mark.etharness(board="native", model="small.pte")
        def test_same(etharness_run, number, worker_id):
            with pathlib.Path("seen").open("a") as file:
                file.write(f"{etharness_run.result.id} {worker_id}\\n")

        @pytest.mark.etharness(board="native", model="small.pte", runs=2)
        def test_other(etharness_run):
            assert not etharness_run.verdict

        @pytest.mark.etharness(board="native", model="small.pte", runs=1, seed=2)
        def test_they_belong_together(etharness_run, testrun_uid):
            assert etharness_run.result.session == testrun_uid
    """)
    result, base = run(project, "-n2")
    result.assert_outcomes(passed=11, failed=1)
    seen = [line.split() for line in (project.path / "seen").read_text().splitlines()]
    assert len(seen) == 10
    assert len({run_id for run_id, _ in seen}) == 1
    assert {worker for _, worker in seen} == {"gw0", "gw1"}
    assert len(run_directories(base)) == 1


@pytest.fixture
def serial_unit(project: pytest.Pytester) -> Iterator[str]:
    """A board that runs by itself on a port: the native firmware, which nobody here started."""
    firmware = build_firmware(harness.Board.load("native"))
    project.makefile(".toml", native=SERIAL)
    with subprocess.Popen([firmware.image], stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        try:
            yield process.stdout.readline().removeprefix("link: ").strip()
        finally:
            process.kill()


def test_two_workers_use_one_unit_one_after_the_other(
    project: pytest.Pytester, serial_unit: str
) -> None:
    project.makepyfile("""
        import pathlib, pytest, time

        pytestmark = pytest.mark.etharness(board="native.toml", model="small.pte")

        def held(worker_id, began):
            with pathlib.Path("held").open("a") as file:
                file.write(f"{worker_id} {began} {time.monotonic()}\\n")

        @pytest.mark.parametrize("number", range(6))
        def test_session(etharness_session, worker_id, number):
            began = time.monotonic()
            for _ in range(20):
                etharness_session.ping()
            held(worker_id, began)

        @pytest.mark.parametrize("runs", [1, 2])
        def test_run(etharness_profile, worker_id, runs):
            assert etharness_profile(runs=runs).result.port
    """)
    port = f"--etharness-port=native={serial_unit}"
    result, _ = run(project, "-n2", port)
    result.assert_outcomes(passed=8)
    lines = [line.split() for line in (project.path / "held").read_text().splitlines()]
    times = sorted((float(began), float(ended)) for _, began, ended in lines)
    assert len(times) == 6
    assert all(ended <= began for (_, ended), (began, _) in pairwise(times))
    assert {worker for worker, _, _ in lines} == {"gw0", "gw1"}


def test_a_unit_that_another_process_holds_is_waited_for_until_the_deadline(
    project: pytest.Pytester, serial_unit: str
) -> None:
    project.makepyfile("""
        import pytest

        @pytest.mark.etharness(board="native.toml", model="small.pte")
        def test_run(etharness_run): ...

        @pytest.mark.etharness(board="native.toml")
        def test_session(etharness_session): ...
    """)
    with another_process(serial_unit) as holder:
        result = project.runpytest_subprocess(
            f"--etharness-port={serial_unit}", "--etharness-wait=0.2"
        )
    result.assert_outcomes(errors=2)
    said = [line for line in result.outlines if "within 0.2 s: already in use by " in line]
    assert len(said) == 2
    assert all(line.endswith(f" (a test), process {holder.pid} (-c)") for line in said), said


def test_the_ten_lines_of_the_page(inner: pytest.Pytester) -> None:
    blocks = re.findall(r"^```\w+ file=(\S+)\n(.*?)^```$", PAGE.read_text(), re.M | re.S)
    assert [file for file, _ in blocks] == ["test_kws.py", "budget.toml"]
    assert len(blocks[0][1].splitlines()) <= 10
    for file, text in blocks:
        (inner.path / file).write_text(text)
    shutil.copy(MODELS / "kws_int8.pte", inner.path)
    result = inner.runpytest("-v", "--etharness-strict")
    result.assert_outcomes(passed=2)
    result.stdout.fnmatch_lines(
        ["*::test_kws?native-kws_int8? PASSED*", "*::test_kws?qemu-mps2-an385-kws_int8? PASSED*"]
    )


def test_the_page_says_what_a_failure_looks_like() -> None:
    """Its example has the lines of the test above; it names every option, fixture and argument."""
    text = PAGE.read_text()
    assert "E       harness.errors.ChecksFailedError: FAIL: 1 of 17 checks failed" in text
    plugin = {name for name in vars(harness.pytest_plugin) if name.startswith("etharness_")}
    options = set(re.findall(r'"(--etharness-\w+)"', Path(options_module.__file__).read_text()))
    assert len(plugin) == 6
    assert len(options) == 13
    arguments = [setting.name for setting in settings_in(SettingPlace.MARKER)]
    for name in (*plugin, *options, *arguments):
        assert name in text, name


def test_the_command_line_and_tests_share_a_unit(
    project: pytest.Pytester, serial_unit: str
) -> None:
    """While one process runs on the port, another says who that is, waits, and has its turn."""
    arguments = ["run", "--board", "native.toml", "--model", "small.pte", "--port", serial_unit]
    with another_process(serial_unit):
        waiting = subprocess.Popen(
            [sys.executable, "-c", "from harness.cli import main; main()", *arguments],
            cwd=project.path,
            stderr=subprocess.PIPE,
            stdout=subprocess.DEVNULL,
            text=True,
        )
        assert waiting.stderr is not None
        said = waiting.stderr.readline()
    assert f"first in line for {serial_unit}; held by a test (" in said
    assert "waiting up to 60 s" in said
    waiting.communicate(timeout=600)
    assert waiting.returncode == 0


def test_what_grew_is_found_beside_a_baseline(
    project: pytest.Pytester, monkeypatch: pytest.MonkeyPatch, steady_clock: pytest.MonkeyPatch
) -> None:
    project.makefile(".toml", soon="schema = 1\n[history]\nmin_results = 3\n")
    project.makepyfile("""
        import pytest

        @pytest.mark.etharness(board="native", model="net.pte", budget="soon.toml")
        def test_net(etharness_run):
            assert etharness_run.verdict

        @pytest.mark.etharness(board="native", model="net.pte")
        def test_named(etharness_run):
            etharness_run.check("soon.toml", baseline="commit:aaaa")
    """)

    def tested(commit: str, model: str, *arguments: str) -> pytest.RunResult:
        monkeypatch.setenv("ETHARNESS_COMMIT", commit)
        shutil.copy(MODELS / model, project.path / "net.pte")
        return run(project, "--etharness-history=history.sqlite", *arguments)[0]

    for _ in range(3):
        tested("aaaa", "small_int8.pte", "-k", "test_net").assert_outcomes(passed=1, deselected=1)
    result = tested("cccc", "kws_int8.pte")  # a network of the same name that needs far more
    result.assert_outcomes(failed=2)
    grown = [line for line in result.outlines if "  H02 planned_1, peak_bytes: " in line]
    assert len(grown) == 2
    result.stdout.fnmatch_lines(
        [
            f"again: etharness check * --history {project.path}/history.sqlite --baseline last:20",
            f"E       beside: commit aaaa of {project.path}/history.sqlite",
        ]
    )
    with open_store(str(project.path / "history.sqlite")) as store:
        results = store.results()
    commits = sorted(entry.provenance.commit for entry in results)  # they began within a second
    assert commits == ["aaaa", "aaaa", "aaaa", "cccc"]


def test_a_history_that_is_not_there_is_said_without_a_stack(project: pytest.Pytester) -> None:
    project.makepyfile("""
        import pytest

        @pytest.mark.etharness(board="native", model="small.pte")
        def test_it(etharness_run):
            etharness_run.check(history="none.sqlite", baseline="name:v1")

        @pytest.mark.etharness(board="native", model="small.pte")
        def test_wrong(etharness_run):
            etharness_run.check(baseline="v1")
    """)
    result, _ = run(project)
    result.assert_outcomes(failed=2)
    result.stdout.fnmatch_lines(
        [
            "E       harness.errors.UsageError: history none.sqlite not found",
            "E       try: `etharness run --history FILE` and `etharness history add` create it",
            "E       harness.errors.UsageError: invalid baseline 'v1'",
        ]
    )


def test_a_run_whose_worker_died_is_run_again_and_one_under_way_is_waited_for(
    tmp_path: Path,
) -> None:
    board = harness.Board.load("native")
    file = board.file
    wanted = CaseUnit(board, file, "native"), MODELS / "small_int8.pte", {"seed": 3}
    first = Runs(tmp_path, 5).get(*wanted)
    assert first.result is not None
    assert first.directory is not None
    assert Runs(tmp_path, 5).get(*wanted).result == first.result
    cut_off = Failure("Unfinished", "the run was cut off", "run it again")
    RunDirectory(first.directory).write_result(
        replace(first.result, failure=cut_off, files=None, digest="")
    )
    again = Runs(tmp_path, 5).get(*wanted)
    assert again.result is not None
    assert again.failure is None
    assert again.result.id != first.result.id

    with Path(f"{first.directory}.lock").open("w") as under_way:
        fcntl.flock(under_way, fcntl.LOCK_EX)
        with pytest.raises(InfrastructureError, match="another worker did not finish it"):
            Runs(tmp_path, 0.1).get(*wanted)


def test_a_meter_records_the_runs_of_tests(project: pytest.Pytester) -> None:
    device: FakePpk2 = FakePpk2(lambda: device.idle())
    project.makeini(f"[pytest]\netharness_energy = ppk2:{device.port}\netharness_volts = 9\n")
    project.makepyfile(
        """
        import pytest
        from harness.config.unit import MeterRequest

        @pytest.mark.etharness(board="native", model="small.pte")
        def test_of_the_project(etharness_run):
            assert etharness_run.result.energy.meter == "PPK2"
            assert etharness_run.result.energy.not_included.endswith("declared as 1.8 V")

        @pytest.mark.etharness(board="native", model="small.pte", energy=None)
        def test_without(etharness_run):
            assert etharness_run.result.energy is None

        @pytest.mark.etharness(board="native", model="small.pte",
                               energy=MeterRequest.parse("ppk2:PORT", 3.3))
        def test_of_its_own(etharness_run):
            assert etharness_run.result.energy.not_included.endswith("declared as 3.3 V")
    """.replace("PORT", device.port)
    )
    result, _ = run(project, "--etharness-volts=1.8")
    device.close()
    result.assert_outcomes(passed=3)
