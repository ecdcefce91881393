"""The public surface: which names there are, what importing costs, that each is documented."""

from __future__ import annotations

import doctest
import inspect
import subprocess
import sys
import typing
import zipfile
from pathlib import Path

import pytest

import harness
import harness.testing
from harness import Check, ChecksFailedError, HarnessError, UsageError, Verdict
from tests.conftest import FIXTURES

MAIN_NAMES = (
    *("Board", "Budget", "ChecksFailedError", "HarnessError", "Run", "Trace", "Verdict"),
    *("load", "run"),
)

IMPORT = """
import sys
before = set(sys.modules)
import harness
print(*sorted(dir(harness)))
print(*sorted(name for name in vars(harness) if not name.startswith("_")))
loaded = {name.partition(".")[0] for name in set(sys.modules) - before}
print(*sorted(loaded - set(sys.stdlib_module_names)))
print(*sorted(name for name in sys.modules if name.startswith("harness.")))
"""


def test_importing_loads_only_the_package_and_the_standard_library() -> None:
    root = Path(harness.__file__).parents[1]
    done = subprocess.run(
        [sys.executable, "-c", IMPORT],
        env={"PYTHONPATH": str(root)},
        cwd=root,
        capture_output=True,
        text=True,
        check=True,
    )
    assert done.stdout.splitlines() == [" ".join(harness.__all__), "", "harness", ""]


EXTRAS = """
import sys

class Blocked:
    def find_spec(self, name, *_):
        if name.partition(".")[0] in %r:
            raise ImportError(f"{name} is of an extra")

sys.meta_path.insert(0, Blocked())
import harness
for name in harness.__all__:
    getattr(harness, name)
run = harness.load(sys.argv[1])
run.operators(), run.memory(), run.tree()
print(run.check().passed)
"""


def test_no_extra_is_needed_to_load_and_check() -> None:
    extras = ("alembic", "google", "hypothesis", "jinja2", "pandas", "psycopg", "pyarrow")
    extras += ("pytest", "ruptures", "scipy", "sqlalchemy")
    root = Path(harness.__file__).parents[1]
    done = subprocess.run(
        [sys.executable, "-c", EXTRAS % (extras,), FIXTURES / "xnnpack_clock32.etdp"],
        env={"PYTHONPATH": str(root)},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.stdout in ("True\n", "False\n"), done.stderr


def test_all_names_are_visible_and_no_others() -> None:
    assert dir(harness) == sorted(harness.__all__) == harness.__all__
    assert [name for name in harness.__all__ if not hasattr(harness, name)] == []
    with pytest.raises(AttributeError, match="module 'harness' has no attribute 'nothing'"):
        harness.nothing  # type: ignore[attr-defined]  # noqa: B018


def test_no_name_hides_a_module() -> None:
    folder = Path(harness.__file__).parent
    modules = {path.stem for path in folder.glob("*.py")}
    modules |= {path.parent.name for path in folder.glob("*/__init__.py")}
    assert modules & set(harness.__all__) == set()


@pytest.mark.parametrize("name", harness.__all__)
def test_every_class_and_function_says_what_it_is(name: str) -> None:
    found = getattr(harness, name)
    if found is harness.ValueType:  # made by a call, with a text behind it
        return
    if inspect.isclass(found) or inspect.isfunction(found):
        text = vars(found)["__doc__"] if inspect.isclass(found) else found.__doc__
        assert (text or "").partition("\n\n")[0].rstrip().endswith((".", ":"))


@pytest.mark.parametrize("name", MAIN_NAMES)
def test_the_names_to_start_with_have_an_example(name: str) -> None:
    text = inspect.getdoc(getattr(harness, name)) or ""
    assert doctest.DocTestParser().get_examples(text), f"{name} has no example"


@pytest.mark.parametrize("owner", [harness.Run, harness.load, harness.run])
def test_every_method_is_typed_and_documented(owner: object) -> None:
    members = [owner]
    if isinstance(owner, type):
        members = [value for name, value in vars(owner).items() if not name.startswith("_")]
    for member in members:
        function = member.fget if isinstance(member, property) else member
        function = inspect.unwrap(getattr(function, "__func__", function))
        assert inspect.getdoc(function), function
        parameters = inspect.signature(function).parameters
        hints = set(function.__annotations__)
        assert {*parameters} - {"self", "cls"} <= hints, function
        assert "return" in hints, function


def test_examples_of_the_test_doubles_run() -> None:
    for name in harness.testing.__all__:
        found = getattr(harness.testing, name)
        if inspect.isclass(found):
            tests = doctest.DocTestFinder().find(found, name)
            runner = doctest.DocTestRunner()
            assert sum(runner.run(test).failed for test in tests) == 0, name


def test_options_are_said_once() -> None:
    from harness import LoadKeywords, RunKeywords
    from harness.runs.request import request_of

    for keywords in (RunKeywords, LoadKeywords):
        for name in typing.get_type_hints(keywords):
            assert f"\n        {name}: " in (keywords.__doc__ or ""), name
    with pytest.raises(UsageError) as caught:
        request_of("kws_int8", "native", {"run": 3})  # type: ignore[typeddict-unknown-key]
    assert caught.value.message == "a run has no option run"
    assert caught.value.hint.startswith("did you mean 'runs'? options: ")
    with pytest.raises(UsageError, match=r"wrong option: .*'clock_mhz'"):
        harness.load("/", clock_mhz=1)  # type: ignore[call-arg]


def test_a_verdict_is_true_when_it_passes_and_says_why_not() -> None:
    good = Check(code="I01", severity="error", rule="r", subject="s", passed=True, reason="fine")
    bad = Check(code="B01", severity="error", rule="r", subject="op", passed=False, reason="slow")
    assert Verdict((good,))
    failed = Verdict((good, bad))
    assert not failed
    assert repr(failed) == "<FAIL: 1 of 2 checks failed>"
    assert str(failed) == "FAIL: 1 of 2 checks failed\n  B01 op: slow"


def test_failed_checks_are_an_error_of_ours_and_an_assertion() -> None:
    verdict = Verdict(())
    error = ChecksFailedError("FAIL", verdict=verdict)
    assert isinstance(error, HarnessError)
    assert isinstance(error, AssertionError)
    assert (error.exit_code, error.verdict) == (1, verdict)


def test_an_archive_has_the_public_names(tmp_path: Path) -> None:
    root = Path(harness.__file__).parent
    archive = tmp_path / "harness.zip"
    with zipfile.ZipFile(archive, "w") as file:
        for path in [*root.rglob("*.py"), root / "__init__.pyi"]:
            file.write(path, path.relative_to(root.parent))
    program = "import harness; print(harness.__file__, harness.UsageError.exit_code)"
    done = subprocess.run(
        [sys.executable, "-P", "-c", program],
        env={"PYTHONPATH": str(archive)},
        cwd=tmp_path,
        capture_output=True,
        text=True,
        check=True,
    )
    assert done.stdout == f"{archive}/harness/__init__.py 2\n"
