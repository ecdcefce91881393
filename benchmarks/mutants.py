"""Change the harness in small ways, see which changes no test notices, and write docs/mutants.md.

    make mutants                             # all: about half an hour on two idle cores
    python -m benchmarks.mutants --no-run    # the page again, from the last run
    python -m benchmarks.mutants link/frames # of one file or some; lists survivors, writes no page

What is changed, and which tests are to notice, stands in ``[tool.mutmut]`` of pyproject.toml.
mutants.toml beside this file says why a change may go unnoticed, or a function untested, and lists
changes made by hand with the tests that have to notice them. Exit code 1 if one has no reason, or
if a change made by hand goes unnoticed.
"""

from __future__ import annotations

import ast
import difflib
import json
import re
import shutil
import subprocess
import sys
import tomllib
from collections import Counter
from collections.abc import Iterator
from itertools import groupby
from pathlib import Path
from typing import NamedTuple

ROOT = Path(__file__).resolve().parent.parent
PAGE = ROOT / "docs/mutants.md"
WORK = ROOT / "out/mutants"
OUTCOMES: dict[int | None, str] = {
    **dict.fromkeys((1, 3), "noticed"),
    **dict.fromkeys((24, -24, 36, 152, 255), "never ended"),
    **dict.fromkeys((5, 33), "untested"),
    0: "unnoticed",
}
"""Exit codes of a mutant's tests, as mutmut keeps them."""

NOT_EXPLAINED = "**not explained**"

INTRODUCTION = """# Mutants

What the tests of the link, ticks, verdicts, statistics and budgets would miss. `make mutants` makes
one small change to the code at a time (a mutant, by [mutmut](https://mutmut.readthedocs.io)) and
runs the tests that execute the changed line. A mutant is caught if a test fails or never ends. The
others are listed below, each with the reason why no test can or should notice it, and so are the
functions that no test calls. Mutants that only change words for people (messages, hints, logs) are
counted but not listed: tests check which names and values a message contains, not its letters.

Tests that start the plugin or the command line in another process run the unchanged code, so code
that only they execute counts as untested here. Property tests draw the examples of seed 0.
"""


BY_HAND = """
## Changes made by hand

Changes that mutmut does not make. Each was once noticed by no test; now the named tests fail with
it.

| file | change | fails |
|---|---|---|"""


class ByHand(NamedTuple):
    """A change made by hand, and the test that has to notice it."""

    file: str
    before: str
    after: str
    test: str


class Survivor(NamedTuple):
    """A change that no test noticed."""

    function: str
    change: str


def run(files: list[str]) -> None:
    """Run mutmut on a copy of what git knows of this folder, with the mutants of these files."""
    shutil.rmtree(WORK, ignore_errors=True)
    listed = subprocess.run(
        ["git", "ls-files", "-z"], cwd=ROOT, check=True, capture_output=True, text=True
    )
    for name in listed.stdout.split("\0"):
        if name and (ROOT / name).is_file():
            (WORK / name).parent.mkdir(parents=True, exist_ok=True)
            shutil.copy2(ROOT / name, WORK / name)
    mutmut = ROOT / ".venv-mutants/bin/mutmut"
    patterns = [f"{file.removesuffix('.py').replace('/', '.')}.*" for file in files]
    with (WORK / "mutmut.log").open("wb") as log:
        subprocess.run([mutmut, "run", *patterns], cwd=WORK, check=True, stdout=log, stderr=log)


def unnoticed_by_hand(changes: list[ByHand]) -> Iterator[ByHand]:
    """Make each change in the copy, run its test there, and yield the change if it passes."""
    for change in changes:
        path = WORK / change.file
        text = path.read_text()
        if text.count(change.before) != 1:
            raise SystemExit(f"{change.file} has not exactly one {change.before!r}")
        path.write_text(text.replace(change.before, change.after))
        command = [sys.executable, "-m", "pytest", "-q", "-x", "-p", "no:cacheprovider"]
        ended = subprocess.run([*command, change.test], cwd=WORK, check=False, capture_output=True)
        path.write_text(text)
        if ended.returncode == 0:
            yield change
        elif ended.returncode != 1:
            raise SystemExit(f"{change.test}: pytest ended with {ended.returncode}")


def function_of(mutant: str) -> str:
    """The function that a mutant changes, without the package."""
    module, _, name = mutant.removeprefix("harness.").rpartition(".")
    name = re.sub(r"__mutmut_\d+$|^x_?", "", name).replace("ǁ", ".").lstrip(".")
    return f"{module}.{name}"


class _Wordless(ast.NodeTransformer):
    """Takes away what people read: texts, what is raised with, hints and logs."""

    def visit_Constant(self, node: ast.Constant) -> ast.AST:
        if isinstance(node.value, str) and " " in node.value:
            return ast.Constant("")
        return node

    def visit_JoinedStr(self, node: ast.JoinedStr) -> ast.AST:  # noqa: ARG002
        return ast.Constant("")

    def visit_Raise(self, node: ast.Raise) -> ast.AST:
        exc = node.exc.func if isinstance(node.exc, ast.Call) else node.exc
        return ast.Raise(exc=exc, cause=None)

    def visit_Call(self, node: ast.Call) -> ast.AST:
        if ast.unparse(node.func).startswith("_log."):
            return ast.Constant(None)
        self.generic_visit(node)
        node.keywords = [keyword for keyword in node.keywords if keyword.arg != "hint"]
        return node


def survivors(meta: Path, outcomes: dict[str, str]) -> Iterator[tuple[Survivor, bool]]:
    """Each change of a file that no test noticed, and whether it changes only words."""
    source = meta.with_suffix("").read_text()
    lines = source.splitlines()
    functions = {
        node.name: node
        for node in ast.walk(ast.parse(source))
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef)
    }
    for name, outcome in outcomes.items():
        if outcome != "unnoticed":
            continue
        mutant = name.rpartition(".")[2]
        before = functions[re.sub(r"__mutmut_\d+$", "__mutmut_orig", mutant)]
        after = functions[mutant]
        texts = [
            [re.sub(r"\s+", " ", line).strip() for line in lines[node.lineno : node.end_lineno]]
            for node in (before, after)
        ]
        changes = [
            line
            for line in difflib.unified_diff(*texts, n=0, lineterm="")
            if not line.startswith(("---", "+++", "@@"))
        ]
        bodies = [
            ast.dump(_Wordless().visit(ast.Module(body=node.body, type_ignores=[])))
            for node in (before, after)
        ]
        yield Survivor(function_of(name), " ".join(changes)), bodies[0] == bodies[1]


def reasons() -> tuple[dict[Survivor, str], dict[str, str], list[ByHand]]:
    """Reasons of changes that no test notices and of untested functions; changes made by hand."""
    known = tomllib.loads((ROOT / "benchmarks/mutants.toml").read_text())
    unnoticed = {
        Survivor(row["function"], change): row["reason"]
        for row in known.get("unnoticed", [])
        for change in row["changes"]
    }
    untested = {row["function"]: row["reason"] for row in known.get("untested", [])}
    return unnoticed, untested, [ByHand(**row) for row in known["by_hand"]]


def code_span(text: str) -> str:
    """The text as code in a cell of a table."""
    return f"`` {text} ``".replace("|", "\\|")


def by_reason(row: tuple[Survivor, str]) -> tuple[str, str]:
    survivor, reason = row
    return survivor.function, reason


def page(
    rows: list[tuple[str, Counter[str]]],
    total: Counter[str],
    listed: list[tuple[Survivor, str]],
    untested: list[tuple[str, int, str]],
    by_hand: list[ByHand],
) -> Iterator[str]:
    """Lines of docs/mutants.md."""
    yield INTRODUCTION
    yield "| file | mutants | failed a test | never ended | only words | listed | untested |"
    yield "|---|---|---|---|---|---|---|"
    columns = ("noticed", "never ended", "words", "listed", "untested")
    for name, counts in (*rows, ("all", total)):
        cells = [counts[column] for column in columns]
        yield f"| {name} | {' | '.join(f'{cell:,}' for cell in (sum(cells), *cells))} |"
    yield "\n## Survivors\n"
    yield "| function | changes | why no test notices |"
    yield "|---|---|---|"
    for (function, why), group in groupby(sorted(listed, key=by_reason), by_reason):
        changes = "<br>".join(code_span(survivor.change) for survivor, _ in group)
        yield f"| `{function}` | {changes} | {why} |"
    if untested:
        yield "\n## Untested functions\n"
        yield "| function | mutants | why no test calls it |"
        yield "|---|---|---|"
    for function, count, why in untested:
        yield f"| `{function}` | {count} | {why} |"
    yield BY_HAND
    for file, before, after, test in by_hand:
        texts = (re.sub(r"\s+", " ", text).strip() for text in (before, after))
        change = " ".join(f"{sign}{text}" for sign, text in zip("-+", texts, strict=True) if text)
        module, _, name = test.partition("::")
        yield f"| `{file}` | {code_span(change)} | `{name}` in `{module}` |"


def main() -> int:
    settings = tomllib.loads((ROOT / "pyproject.toml").read_text())["tool"]["mutmut"]
    every = settings["only_mutate"]
    names = [name for name in sys.argv[1:] if name != "--no-run"]
    files = [file for file in every if not names or any(name in file for name in names)]
    if "--no-run" not in sys.argv[1:]:
        run(files if names else [])
    unnoticed, uncalled, by_hand = reasons()
    missed = [] if "--no-run" in sys.argv[1:] or names else list(unnoticed_by_hand(by_hand))
    rows, listed, untested = [], [], []
    total: Counter[str] = Counter()
    for file in files:
        meta = WORK / "mutants" / f"{file}.meta"
        exits: dict[str, int | None] = json.loads(meta.read_text())["exit_code_by_key"]
        outcomes = {name: OUTCOMES.get(code, "?") for name, code in exits.items()}
        counts = Counter(outcomes.values())
        if counts["?"]:
            print(
                f"{file}: {counts['?']} mutants were not tried, or crashed Python", file=sys.stderr
            )
            return 1
        for survivor, words in survivors(meta, outcomes):
            counts["words" if words else "listed"] += 1
            if not words:
                listed.append((survivor, unnoticed.get(survivor, NOT_EXPLAINED)))
        functions = Counter(
            function_of(name) for name, outcome in outcomes.items() if outcome == "untested"
        )
        for function, count in sorted(functions.items()):
            untested.append((function, count, uncalled.get(function, NOT_EXPLAINED)))
        total += counts
        rows.append((f"`{file}`", counts))
    if files == every:
        PAGE.write_text("\n".join(page(rows, total, listed, untested, by_hand)) + "\n")
    unexplained = [f"{one.function}: {one.change}" for one, why in listed if why == NOT_EXPLAINED]
    unexplained += [
        f"{name}: {count} untested" for name, count, why in untested if why == NOT_EXPLAINED
    ]
    unexplained += [f"{change.file}: {change.before} is changed unnoticed" for change in missed]
    for line in unexplained:
        print(line, file=sys.stderr)
    return 1 if unexplained else 0


if __name__ == "__main__":
    sys.exit(main())
