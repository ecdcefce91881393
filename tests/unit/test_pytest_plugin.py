"""The pytest plugin without any board: what is collected, what is skipped, what is refused."""

from __future__ import annotations

import subprocess
import sys
import textwrap
from pathlib import Path

import pytest

import harness
from harness.pytest_plugin import Duration, ms, ns, s, us
from harness.pytest_plugin.run_directories import Used, copy_to
from tests.conftest import ROOT
from tests.support.inner_pytest import PLUGIN, inner

__all__ = ["inner"]

pytest_plugins = ["pytester"]

SERIAL = (ROOT / "boards/native.toml").read_text()
SERIAL = SERIAL.replace('target = { kind = "native" }', 'target = { kind = "serial" }')
SERIAL = SERIAL.replace('budget = "budgets/default.toml"\n', "")


def collected(inner: pytest.Pytester, *arguments: str) -> list[str]:
    """Ids of the tests that are collected, without their file."""
    result = inner.runpytest("--collect-only", "-q", *arguments)
    assert result.ret == 0, result.outlines
    return [line.partition("::")[2] for line in result.outlines if "::" in line]


def test_a_matrix_of_boards_and_models_has_readable_ids_and_exclusions(
    inner: pytest.Pytester,
) -> None:
    inner.makepyfile("""
        import pytest

        @pytest.mark.etharness(board=["native", "qemu-microbit"], model=["a.pte", "nets/b.pte"],
                               exclude=[("qemu-*", "b*")])
        def test_one(etharness_run): ...

        @pytest.mark.etharness(exclude="qemu-m*")
        class TestMore:
            pytestmark = pytest.mark.etharness(board=["native", "qemu-microbit"])
            def test_two(self, etharness_trace): ...
            @pytest.mark.etharness(board="qemu-mps3-an547", exclude=())
            def test_three(self, etharness_board, etharness_unit): ...

        def test_four(etharness_session): ...
        def test_nothing_of_ours(tmp_path): ...
    """)
    assert collected(inner) == [
        "test_one[native-a]",
        "test_one[native-b]",
        "test_one[qemu-microbit-a]",
        "TestMore::test_two[native]",
        "TestMore::test_three[qemu-mps3-an547]",
        "test_four[native]",
        "test_nothing_of_ours",
    ]


def test_boards_of_the_command_line_choose_among_those_of_tests_and_serve_the_others(
    inner: pytest.Pytester,
) -> None:
    inner.makepyfile("""
        import pytest

        @pytest.mark.etharness(board=["native", "qemu-microbit"])
        def test_named(etharness_board): ...
        def test_unnamed(etharness_board): ...
    """)
    boards = ("--etharness-board=qemu-microbit", "--etharness-board=qemu-mps2-an385")
    assert collected(inner, *boards) == [
        "test_named[qemu-microbit]",
        "test_unnamed[qemu-microbit]",
        "test_unnamed[qemu-mps2-an385]",
    ]
    result = inner.runpytest("--collect-only", *boards)
    result.stdout.fnmatch_lines(["*3/4 tests collected (1 deselected)*"])
    inner.makeini("[pytest]\netharness_boards = qemu-microbit qemu-riscv32-virt\n")
    assert collected(inner) == [
        "test_named[native]",
        "test_named[qemu-microbit]",
        "test_unnamed[qemu-microbit]",
        "test_unnamed[qemu-riscv32-virt]",
    ]


def test_a_board_that_cannot_run_here_is_skipped_with_its_reason_or_an_error(
    inner: pytest.Pytester, monkeypatch: pytest.MonkeyPatch
) -> None:
    inner.makefile(".toml", native=SERIAL)
    inner.makepyfile("""
        import pytest

        @pytest.mark.etharness(board=["native.toml", "qemu-microbit"])
        def test_board(etharness_board): ...
    """)
    monkeypatch.setenv("PATH", str(inner.path))
    result = inner.runpytest("-rs")
    result.assert_outcomes(skipped=2)
    lines = [line for line in result.outlines if line.startswith("SKIPPED")]
    assert lines[0].endswith(
        "native has no port here: give --etharness-port native=PORT, or --etharness-unit"
    )
    assert "qemu-microbit cannot run here, missing " in lines[1]
    assert "qemu-system-arm (apt-get install qemu-system-arm)" in lines[1]

    result = inner.runpytest("--etharness-strict")
    result.assert_outcomes(errors=2)
    result.stdout.fnmatch_lines(["native has no port here: give --etharness-port native=PORT, *"])
    inner.makeini("[pytest]\netharness_strict = true\n")
    inner.runpytest().assert_outcomes(errors=2)


def test_units_on_ports(inner: pytest.Pytester) -> None:
    inner.makefile(".toml", native=SERIAL)
    inner.makepyfile("""
        import pytest

        @pytest.mark.etharness(board="native.toml")
        def test_unit(etharness_unit, etharness_board, request):
            assert etharness_board.name == "native"
            groups = [mark.args for mark in request.node.iter_markers("xdist_group")]
            print(etharness_unit.name, etharness_unit.port, groups)
    """)

    def said(*arguments: str) -> list[str]:
        result = inner.runpytest("-s", "-v", *arguments)
        assert result.ret == 0
        return [line for line in result.outlines if "::test_unit" in line]

    port = "--etharness-port=native=/dev/ttyACM0"
    assert said(port) == [
        "test_units_on_ports.py::test_unit[native] /dev/ttyACM0 /dev/ttyACM0 [('native.ttyACM0',)]"
    ]
    named = said(port, "--etharness-unit=rack-3")
    assert "test_unit[native.rack-3] rack-3 /dev/ttyACM0 " in named[0]
    both = said(port, "--etharness-port=/dev/serial/by-id/usb-x=y")
    assert [line.split()[0].partition("::")[2] for line in both] == [
        "test_unit[native.ttyACM0]",
        "test_unit[native.usb-x=y]",
    ]
    result = inner.runpytest("--etharness-unit=native=a")
    result.assert_outcomes(errors=1)
    result.stdout.fnmatch_lines(
        ["*::test_unit: --etharness-unit names 1 unit of native, but --etharness-port 0 ports"]
    )


def test_units_of_the_lab(inner: pytest.Pytester) -> None:
    inner.makefile(".toml", native=SERIAL)
    inner.makefile(
        ".toml",
        rack=(
            'schema = 1\nunit = [\n{ id = "a", board = "native.toml", port = "socket://x:1" },\n'
            '{ id = "b", board = "native.toml", port = { vid = 0x483, pid = 0x374e } },\n'
            '{ id = "c", board = "qemu-microbit" },\n]\n'
        ),
    )
    inner.makepyfile("""
        import pytest

        @pytest.mark.etharness
        def test_any(etharness_unit):
            print(etharness_unit.name, etharness_unit.board.name, etharness_unit.port)

        @pytest.mark.etharness(board="native.toml")
        def test_ours(etharness_unit):
            print(etharness_unit.name)
    """)

    def said(*arguments: str) -> list[str]:
        units = [f"--etharness-unit={unit}" for unit in arguments]
        result = inner.runpytest("-s", "-v", "--etharness-units=rack.toml", *units)
        assert result.ret == 0
        lines = [line.partition("::")[2] for line in result.outlines]
        return [line.replace("PASSED", "").strip() for line in lines if line]

    assert said("a") == ["test_any[native.a] a native socket://x:1", "test_ours[native.a] a"]
    assert [line.split()[0] for line in said("b", "a")] == [
        *("test_any[native.b]", "test_any[native.a]", "test_ours[native.b]", "test_ours[native.a]")
    ]
    assert said("c")[0].startswith("test_any[qemu-microbit.c]")
    result = inner.runpytest("--etharness-units=none.toml", "--etharness-unit=a")
    result.assert_outcomes(errors=1)
    result.stdout.fnmatch_lines(["*none.toml: no such file*"])


@pytest.mark.parametrize(
    ("marker", "said"),
    [
        ("'native'", "wrong arguments of the marker etharness: give its arguments by name"),
        ("bord='native'", "wrong arguments of the marker etharness: unknown: bord"),
        ("board='nativ'", "no such board: 'nativ'"),
    ],
)
def test_a_wrong_marker_is_a_short_error_of_collection(
    inner: pytest.Pytester, marker: str, said: str
) -> None:
    inner.makepyfile(f"""
        import pytest

        @pytest.mark.etharness({marker})
        def test_board(etharness_board): ...
    """)
    result = inner.runpytest()
    result.assert_outcomes(errors=1)
    [at] = [index for index, line in enumerate(result.outlines) if said in line]
    assert result.outlines[at].startswith("test_a_wrong_marker_is_a_short_error_of_collection.py::")
    assert result.outlines[at + 1].startswith("  try: ")
    assert not any("/harness/" in line for line in result.outlines)


def test_a_test_that_names_no_model_or_none_that_is_there(inner: pytest.Pytester) -> None:
    inner.makepyfile("""
        import pytest

        def test_none(etharness_run): ...
        @pytest.mark.etharness(model="absent.pte")
        def test_absent(etharness_run): ...
        def test_late(request): request.getfixturevalue("etharness_board")
    """)
    result = inner.runpytest()
    result.assert_outcomes(errors=2, failed=1)
    result.stdout.fnmatch_lines(
        [
            "UsageError: the test names no model",
            '  try: mark it: @pytest.mark.etharness(model="model.pte")',
            "UsageError: cannot read the model absent.pte: No such file or directory",
            "etharness fixtures must be arguments of the test or its fixtures",
        ]
    )
    assert not any("/harness/" in line for line in result.outlines)


def test_files_are_found_beside_the_test_or_from_the_root(inner: pytest.Pytester) -> None:
    inner.makeini("[pytest]\netharness_budget = of_project.toml\n")
    tests = inner.mkdir("tests")
    (tests / "beside.npy").touch()
    (inner.path / "from_root.npy").touch()
    (tests / "test_files.py").write_text(
        textwrap.dedent("""
        import pytest

        @pytest.mark.etharness(model="m.pte", inputs=["beside.npy", "from_root.npy", "none.npy"])
        def test_inputs(etharness_unit, _etharness_case, request):
            here, root = request.path.parent, request.config.rootpath
            assert _etharness_case.model == here / "m.pte"
            assert _etharness_case.budget == root / "of_project.toml"
            assert _etharness_case.options == {
                "inputs": (here / "beside.npy", root / "from_root.npy", here / "none.npy")
            }

        @pytest.mark.etharness(budget="../from_root.npy")
        def test_budget(_etharness_case, request):
            assert _etharness_case.budget.samefile(request.config.rootpath / "from_root.npy")
        """)
    )
    inner.runpytest().assert_outcomes(passed=2)
    session = inner.runpytest("--etharness-budget=other.toml")
    session.assert_outcomes(passed=1, failed=1)
    assert f"PosixPath('{inner.path}/other.toml')" in session.stdout.str().replace("\n", "")


def test_the_header_says_version_and_boards_when_asked_for_more(inner: pytest.Pytester) -> None:
    inner.makepyfile("def test_nothing(): ...")
    line = f"etharness: {harness.__version__}, boards: as tests or [tool.etharness] say, or native"
    assert line in inner.runpytest("-v").outlines
    assert "etharness:" not in inner.runpytest().stdout.str()
    named = inner.runpytest("--etharness-board=qemu-microbit", "--etharness-port=b=/dev/x")
    assert f"etharness: {harness.__version__}, boards: qemu-microbit, ports: /dev/x" in (
        named.outlines
    )


def test_those_who_do_not_use_it_pay_nothing(tmp_path: Path) -> None:
    """Of this package and its dependencies nothing is imported but the plugin's own few modules."""
    (tmp_path / "test_it.py").write_text("def test_nothing(): ...\n")
    script = textwrap.dedent(f"""
        import sys, pytest
        code = pytest.main(["-q", "-p", "{PLUGIN}", "-p", "no:hypothesispytest", {str(tmp_path)!r}])
        heavy = {{"numpy", "msgspec", "click", "rich", "serial", "hypothesis", "filelock"}}
        ours = {{name for name in sys.modules if name.startswith("harness.")}}
        print("heavy", sorted(heavy & set(sys.modules)))
        print("ours", sorted(name.removeprefix("harness.") for name in ours))
        sys.exit(code)
    """)
    done = subprocess.run(
        [sys.executable, "-c", script],
        env={"PYTHONPATH": ":".join(sys.path), "PYTEST_DISABLE_PLUGIN_AUTOLOAD": "1"},
        capture_output=True,
        text=True,
        timeout=600,
        check=False,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    modules = [f"pytest_plugin.{name}" for name in ("options", "run_directories")]
    own = ["duration", "errors", "printing", "pytest_plugin", *modules]
    assert done.stdout.splitlines()[-2:] == ["heavy []", f"ours {own}"]


def test_it_can_be_turned_off(inner: pytest.Pytester, monkeypatch: pytest.MonkeyPatch) -> None:
    inner.makepyfile("def test_nothing(request): assert 'etharness' not in str(request.config)")
    monkeypatch.delenv("PYTEST_PLUGINS")
    inner.runpytest("-p", "no:etharness").assert_outcomes(passed=1)
    inner.runpytest("-p", PLUGIN, "-p", "no:etharness").assert_outcomes(passed=1)


def test_durations_say_their_unit() -> None:
    texts = [repr(time) for time in (0 * s, 12.5 * ns, 457.124 * us, 2 * ms, -3 * s, us)]
    assert texts == [*("0.000 ns", "12.500 ns", "457.124 us", "2.000 ms", "-3.000 s", "1.000 us")]
    assert 1 * ms == 1000 * us == 1_000_000 < 1.001 * ms
    assert isinstance(2 * us + 3, Duration)
    assert isinstance(3 - us * 2 + 1, float)
    assert str(sum([1 * us, 2 * us]) - ns) == "2.999 us"


def test_an_invalid_meter_is_refused_before_any_test(inner: pytest.Pytester) -> None:
    inner.makepyfile("def test_board(etharness_board): ...")
    result = inner.runpytest("--etharness-energy=ppk2")
    assert result.ret == pytest.ExitCode.USAGE_ERROR
    result.stderr.fnmatch_lines(["*energy: a PPK2 does not measure the voltage*"])


def test_the_last_lines_that_the_board_printed_are_shown(request: pytest.FixtureRequest) -> None:
    used = Used()
    used.console += b"".join(b"line %d\n" % number for number in range(30))
    shown = used.describe(request.node, None).splitlines()
    assert shown == [f"the board printed: line {number}" for number in range(10, 30)]


def test_the_copies_of_a_test_are_in_a_folder_with_its_name(tmp_path: Path) -> None:
    directory = tmp_path / "run"
    directory.mkdir()

    def name(nodeid: str) -> str:
        folder = copy_to(tmp_path / "left", nodeid, [directory])
        assert (folder / "run").is_dir()
        return folder.relative_to(tmp_path / "left").as_posix()

    assert name("::X/a.py::test_b[q r=1]/") == "X-a.py-test_b[q-r=1]"
    assert name("x" * 120) == "x" * 120
    assert name("x" * 121) == f"{'x' * 120}-79072a47"


RUNS = """
    import pathlib, pytest
    from harness.pytest_plugin.run_directories import console_of, fail, use

    @pytest.fixture
    def run(request):
        def run(name, made=True):
            directory = pathlib.Path("runs", name).absolute()
            use(request.node, directory)
            if made:
                directory.mkdir(parents=True, exist_ok=True)
                (directory / "result.json").touch()
            return directory
        return run

    def test_without_runs(): ...

    def test_passes(run):
        pathlib.Path(f"{run('passed')}.lock").touch()
        run("shared")
        run("absent", made=False)

    def test_fails(run, request):
        run("shared")
        run("shared")
        run("absent", made=False)
        verdict = f"FAIL: 1 of 2 checks failed\\nkept in: {run('shared-2')}"
        fail(request.node, verdict)
        fail(request.node, "FAIL: 2 of 2 checks failed")
        fail(request.node, "FAIL: 2 of 2 checks failed")
        console_of(request.node).extend(b"boot\\n\\xff")
        raise RuntimeError(verdict)

    def test_verdict(request):
        fail(request.node, "FAIL: 3 of 3 checks failed")
        assert False

    def test_console(request):
        console_of(request.node).extend(b"ready")
        assert False

    def test_absent(run):
        run("absent", made=False)
        assert False
"""


@pytest.mark.parametrize("artifacts", [False, True])
def test_a_failed_test_shows_its_runs_and_keeps_them(
    inner: pytest.Pytester, artifacts: bool
) -> None:
    inner.makepyfile(test_it=RUNS)
    runs, copies = inner.path / "runs", inner.path / "left/test_it.py-test_fails"
    arguments = ["--etharness-artifacts=left"] if artifacts else []
    for _ in range(2):
        recorded = inner.inline_run(*arguments)
        assert recorded.ret == pytest.ExitCode.TESTS_FAILED
        sections = {
            report.nodeid.partition("::")[2]: text
            for report in recorded.getreports("pytest_runtest_logreport")
            for title, text in report.sections
            if title == "etharness"
        }
        assert sections.pop("test_fails").splitlines() == [
            "FAIL: 2 of 2 checks failed",
            f"kept in: {runs}/shared",
            "the board printed: boot",
            r"the board printed: \xff",
            *([f"copied to: {copies}"] if artifacts else []),
        ]
        assert sections == {
            "test_verdict": "FAIL: 3 of 3 checks failed",
            "test_console": "the board printed: ready",
        }
        assert {path.name for path in runs.iterdir()} == {"shared", "shared-2"}
        assert (inner.path / "left").exists() is artifacts
        if artifacts:
            # The second session replaces the copies of the first.
            assert {path.name for path in copies.glob("*/*")} == {"result.json"}
            assert {path.name for path in copies.iterdir()} == {"shared", "shared-2"}
            (copies / "shared/stale").touch()
