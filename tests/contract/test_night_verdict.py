"""A nightly run has one verdict: terminal, JSON, reports, site and exit code agree about it."""

from __future__ import annotations

import html
import json
import re
import shutil
import socket
import subprocess
import sys
import time
import xml.etree.ElementTree as ET
import zlib
from collections import Counter
from collections.abc import Callable, Collection, Iterator
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, Phase, given, settings
from hypothesis import strategies as st

import harness

pytestmark = [pytest.mark.extension("lab"), pytest.mark.sim]

Etharness = Callable[..., Any]
MODELS = Path(str(harness.__file__)).parents[1] / "firmware_stub/models"
ORDER = ("pass", "regression", "product", "test", "board", "flash", "link", "host")
CODES = {"product": 1, "test": 2, "board": 4, "flash": 74, "link": 76, "host": 71}
INFRASTRUCTURE = ("board", "flash", "link", "host")
WORDS = {
    "failed": "failed",
    "regression": "regressions",
    "set-up error": "set-up errors",
    "infrastructure failure": "infrastructure failures",
    "known failure": "known failures",
    "passed": "passed",
    "not run": "not run",
}

PLAN = """
schema = 1
name = "lab"
output = "out"
repeats = {repeats}
history = "runs.sqlite"
{more}
reports = ["night.html", "night.md", "night.xml"]
[[board]]
board = "{board}"
count = {count}
{boards}
[[model]]
file = "one.pte"
[[model]]
file = "two.pte"
[retry]
link = 0
flash = 0
board = 0
host = 0
"""


def shown(counts: dict[str, int]) -> dict[str, int]:
    """The counts of the JSON in the words of pages."""
    found = {
        "failed": counts["product"],
        "regressions": counts["regression"],
        "set-up errors": counts["test"],
        "infrastructure failures": sum(counts[owner] for owner in INFRASTRUCTURE),
        "not run": counts["not run"],
        "known failures": counts["quarantined"],
        "passed": counts["pass"],
    }
    return {word: count for word, count in found.items() if count}


def of_sentence(text: str) -> dict[str, int]:
    """The counts of ``6 planned runs: 2 infrastructure failures, 4 passed``."""
    found = re.search(r"([\d,]+) planned runs?: ([^;\n]*)", text)
    assert found is not None, text
    parts = dict(part.split(" ", 1)[::-1] for part in found[2].split(", "))
    counts = {WORDS.get(word, word): int(count) for word, count in parts.items()}
    assert sum(counts.values()) == int(found[1])
    return counts


def of_page(text: str, total: str) -> dict[str, int]:
    """The counts at the top of a page."""
    found = re.search(r'<dl class="counts">(.*?)</dl>', text, re.DOTALL)
    assert found is not None
    pairs = re.findall(r"<dt>(.*?)</dt><dd>([\d,]+)</dd>", found[1])
    counts = {word: int(count) for word, count in pairs if count != "0"}
    assert counts.pop(total) == sum(counts.values())
    return counts


def of_badges(text: str) -> dict[str, int]:
    """The counts of a night in a list."""
    found = re.findall(r'<span class="count state-[\w-]+">([\d,]+) ([^<]*)</span>', text)
    return {WORDS.get(word, word): int(count) for count, word in found}


def causes_of_page(text: str) -> Counter[tuple[str, int]]:
    """What failed by a page: sentences, each with its number of runs."""
    found: Counter[tuple[str, int]] = Counter()
    for item in re.findall(r'<li class="(?:fail|note|)">(.*?)</li>', text, re.DOTALL):
        sentence = re.search(r'<strong class="reason">(.*?)</strong>(.*)', item, re.DOTALL)
        if sentence is not None:
            runs = re.search(r"([\d,]+) runs?\b", re.sub("<[^>]*>", " ", sentence[2]))
            found[html.unescape(sentence[1]), int(runs[1]) if runs else 0] += 1
    return found


def causes_of_markdown(text: str) -> Counter[tuple[str, int]]:
    """What failed by a comment, in its first table."""
    rows = text.partition("What failed")[2].partition("\n\n|")[2].partition("\n\n")[0]
    plain = html.unescape(re.sub(r"\\(.)", r"\1", rows)).replace("\u200b", "")
    cells = [row.strip("| ").split(" | ") for row in plain.splitlines()[2:]]
    return Counter((row[1], int((row[2].split() or ["0"])[0])) for row in cells)


def causes_of_terminal(text: str, words: Collection[str]) -> list[tuple[str, int]]:
    """What failed by the last lines of a terminal, the worst first."""
    found = []
    for line in text.splitlines():
        word, _, sentence = line.partition(": ")
        if word in words:
            runs = re.search(r" \(([\d,]+) runs?[^()]*\)$", sentence)
            found.append((sentence[: runs.start()], int(runs[1])) if runs else (sentence, 0))
    return found[::-1]


def line_of(text: str, name: str) -> str:
    lines = (line for line in text.splitlines() if "count state" in line)
    return next(line for line in lines if f">{name}</a>" in line)


def night_of(folder: Path) -> Path:
    [journal] = (folder / "out").glob("*/journal.jsonl")
    return journal.parent


def assert_one_verdict(
    folder: Path, site: Path, code: int, document: dict[str, Any], terminal: str = ""
) -> None:
    """Everything that was written says what ``document`` says."""
    counts, headline = document["counts"], html.unescape(document["headline"])
    night = night_of(folder)
    stored = json.loads((night / "night.json").read_text())
    assert stored["counts"] == counts
    assert document["exit_code"] == code == stored["exit_code"]
    assert document["passed"] is (code == 0)
    assert sum(counts.values()) == document["steps"]
    assert headline.startswith("PASS: " if code == 0 else "FAIL: ")
    # Pages show PASS and FAIL as a badge, and causes with their numbers of runs.
    sentence = document["causes"][0]["sentence"] if code else headline.partition(": ")[2]
    failing = [
        owner for owner in CODES if counts[owner] or (owner == "product" and counts["regression"])
    ]
    assert code == (CODES[failing[0]] if failing else 0)
    expected = shown(counts)
    markdown = (night / "night.md").read_text()
    assert of_sentence(markdown) == expected
    causes = [(cause["sentence"], cause["runs"]) for cause in document["causes"]]
    badge = f"{headline[:4]}</span> {document['night']}</h1>"
    if terminal:
        assert terminal.splitlines()[-1] == document["headline"]
        assert of_sentence(terminal) == expected
        words = {word.removesuffix("s") for word in WORDS.values()}
        assert causes_of_terminal(terminal, words) == causes
    assert causes_of_markdown(markdown) == Counter(causes)
    page = (night / "night.html").read_text()
    assert causes_of_page(page) == Counter(causes)
    assert badge in page
    assert of_page(page, "planned runs") == expected
    assert sentence[:60] in html.unescape(page)
    suite = ET.parse(night / "night.xml").getroot()[0]
    assert int(suite.get("failures", "")) == counts["product"] + counts["regression"]
    assert int(suite.get("errors", "")) == sum(counts[o] for o in ("test", *INFRASTRUCTURE))
    assert int(suite.get("skipped", "")) == counts["quarantined"] + counts["not run"]
    assert int(suite.get("tests", "")) == document["steps"]
    [own] = [
        path
        for path in (site / "nights").iterdir()
        if document["night"] in path.read_text().partition("<h1>")[2][:80]
    ]
    text = own.read_text()
    assert of_page(text, "planned runs") == expected
    assert causes_of_page(text) == Counter(causes)
    assert badge in text
    assert sentence[:60] in html.unescape(text)
    for name in ("index.html", "nights.html"):
        line = line_of((site / name).read_text(), document["night"])
        assert of_badges(line) == expected
        assert headline[:60] in html.unescape(line)
    tonight = site / "tonight.html"
    if tonight.exists():
        assert of_page(tonight.read_text(), "runs done") == expected
        assert causes_of_page(tonight.read_text()) == Counter(causes)
        assert sentence[:60] in html.unescape(tonight.read_text())


@pytest.fixture(scope="module")
def closed() -> Iterator[int]:
    """A port that refuses connections."""
    with socket.socket() as held:
        held.bind(("127.0.0.1", 0))
        yield held.getsockname()[1]


def made(
    folder: Path,
    *,
    repeats: int,
    count: int,
    board: str = "native",
    boards: str = "",
    more: str = "",
) -> Path:
    folder.mkdir(parents=True, exist_ok=True)
    for name in ("one", "two"):
        shutil.copy(MODELS / "small_int8.pte", folder / f"{name}.pte")
    plan = folder / "plan.toml"
    plan.write_text(
        PLAN.format(board=board, repeats=repeats, count=count, boards=boards, more=more)
    )
    return plan


@pytest.mark.sim
@pytest.mark.long
@pytest.mark.extension("web")
def test_a_model_that_was_swapped_fails_everywhere(tmp_path: Path, etharness: Etharness) -> None:
    # On the host's clock the other model might be slower, too, while the host is busy.
    board, baseline = "qemu-mps2-an385", 'baseline = "last:20"'
    plan = made(tmp_path, repeats=2, count=1, board=board, more=baseline)
    first = etharness("nightly", plan, "-q")
    assert first.code == 0, first.out + first.err
    shutil.rmtree(tmp_path / "out")
    shutil.copy(MODELS / "kws_int8.pte", tmp_path / "one.pte")
    said = etharness("nightly", plan, "--site", tmp_path / "site")
    night = night_of(tmp_path)
    document = json.loads((night / "night.json").read_text())
    assert (document["counts"]["regression"], document["counts"]["pass"]) == (2, 2)
    start = rf"FAIL: one on {board} is [\d,.]+ times slower than the last 20 results: "
    assert re.match(rf"{start}.*, and \d+ more regressions \(2 of 4 runs\)", document["headline"])
    assert_one_verdict(tmp_path, tmp_path / "site", said.code, document, said.out)
    # Of each run the reports say what became of its step, not only of its own checks.
    markdown = (night / "night.md").read_text()
    assert markdown.count(f"\n### regression: one on {board}") == 2
    assert f"PASS: one on {board}" not in markdown
    page = html.unescape((night / "night.html").read_text())
    assert len(re.findall(r'<p class="headline fail">[^(]*\(its own checks: ', page)) == 2
    # The site of the history alone says the same.
    assert etharness("site", tmp_path / "runs.sqlite", "-o", tmp_path / "site").code == 0
    assert_one_verdict(tmp_path, tmp_path / "site", 1, document)


@pytest.mark.long
@pytest.mark.extension("web")
def test_a_board_that_refuses_connections_fails_everywhere(
    tmp_path: Path, etharness: Etharness, closed: int
) -> None:
    plan = made(tmp_path, repeats=1, count=1, boards='[[board]]\nboard = "nucleo-f446re"\n')
    units = tmp_path / "units.toml"
    units.write_text(
        'schema = 1\n[[unit]]\nid = "nuc-1"\nboard = "nucleo-f446re"\n'
        f'port = "socket://127.0.0.1:{closed}"\n'
    )
    said = etharness("nightly", plan, "--units", units, "--site", tmp_path / "site")
    night = night_of(tmp_path)
    document = json.loads((night / "night.json").read_text())
    assert said.code == 76
    assert "note: nothing was compared with earlier nights, as the plan names no" in said.out
    assert (document["counts"]["link"], document["counts"]["pass"]) == (2, 2)
    assert document["headline"].startswith("FAIL: nuc-1 failed its health check: cannot open ")
    assert "Connection refused (2 of 4 runs not made)" in document["headline"]
    index = (tmp_path / "site/index.html").read_text()
    assert "2 models on 2 boards: 2 with infrastructure failures" in index
    assert '<th scope="col" role="columnheader">nucleo-f446re</th>' in index
    assert index.count('title="failed its health check: cannot open the') == 2
    # One board that is dead is one cause, whatever it was planned for.
    assert index.count('data-kind="infrastructure"') == 1
    assert "nuc-1 failed its health check: cannot open " in index
    assert_one_verdict(tmp_path, tmp_path / "site", 76, document, said.out)
    assert etharness("site", tmp_path / "runs.sqlite", "-o", tmp_path / "site").code == 0
    assert_one_verdict(tmp_path, tmp_path / "site", 76, document)


@pytest.mark.long
@pytest.mark.extension("web")
def test_a_model_without_a_run_tonight_is_no_old_pass(tmp_path: Path, etharness: Etharness) -> None:
    plan = made(tmp_path, repeats=1, count=1)
    assert etharness("nightly", plan, "-q").code == 0
    shutil.rmtree(tmp_path / "out")
    time.sleep(
        1.1
    )  # the beginning of a night is a whole second, before which its results are older
    plan.write_text(plan.read_text() + "[deadlines]\nnight_s = 0.001\n")
    assert etharness("nightly", plan).code == 71
    assert etharness("site", tmp_path / "runs.sqlite", "-o", tmp_path / "site").code == 0
    document = json.loads((night_of(tmp_path) / "night.json").read_text())
    assert document["counts"]["host"] == document["steps"] == 2
    assert_one_verdict(tmp_path, tmp_path / "site", 71, document)
    index = (tmp_path / "site/index.html").read_text()
    assert "2 models on 1 board: 2 with infrastructure failures" in index
    assert index.count('title="the time limit was reached') == 2
    # One cause for both models, in the words of the night.
    assert index.count('data-kind="infrastructure"') == 1
    [cause] = document["causes"]
    assert cause["sentence"] in html.unescape(index)
    assert "the time limit was reached" in cause["sentence"]
    assert "passed" not in index.partition('id="matrix-table"')[2].partition("</table>")[0]


# How the attempts at a step ended, in order.
ATTEMPTS = st.tuples(
    st.lists(st.sampled_from([*CODES, "interrupted"]), max_size=2),
    st.sampled_from(["pass", "pass", *CODES]),
).map(lambda parts: (*parts[0], parts[1]))
QUARANTINE = st.none() | st.tuples(
    st.sampled_from(["one", "two"]), st.lists(st.sampled_from(list(CODES)), unique=True, max_size=3)
)


@pytest.fixture(scope="module")
def begun(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, bytes, list[dict[str, Any]]]:
    """The plan of a night, the first line of its journal, and the ends of its runs."""
    folder = tmp_path_factory.mktemp("begun")
    plan = made(folder, repeats=2, count=2, more='quarantine = "quarantine.toml"')
    (folder / "quarantine.toml").write_text("schema = 1\n")
    done = subprocess.run([sys.executable, "-m", "harness", "nightly", plan, "-q"], check=False)
    assert done.returncode == 0
    night = night_of(folder)
    lines = (night / "journal.jsonl").read_bytes().splitlines(keepends=True)
    records = [json.loads(line)["record"] for line in lines]
    return plan, lines[0], [record for record in records if record["what"] == "ended"]


def journal_line(record: dict[str, Any]) -> bytes:
    payload = json.dumps(record).encode()
    return b'{"crc":"%08x","record":%s}\n' % (zlib.crc32(payload), payload)


def records_of(real: dict[str, Any], endings: tuple[str, ...]) -> Iterator[dict[str, Any]]:
    """The records of a planned run; a pass has the run directory that passed in truth."""
    step = real["step"]
    utc = "2026-11-22T00:00:00+00:00"
    for number, ending in enumerate(endings, start=1):
        directory = f"runs/{step['unit']}/{step['model']}/{step['repeat']}-{number}"
        start = {"step": step, "number": number, "directory": directory, "utc": utc}
        yield {"what": "started", **start}
        attempt = {
            "number": number,
            "directory": directory,
            "started_utc": utc,
            "outcome": ending if ending in ("pass", "interrupted") else "fail",
            "owner": ending if ending in CODES else None,
            "message": f"it was {ending}",
        }
        if ending == "pass":
            attempt = {**real["attempt"], "number": number}
        yield {"what": "ended", "step": step, "attempt": attempt}


def counted(
    endings: dict[str, tuple[str, ...]], known: tuple[str, list[str]] | None
) -> Counter[str]:
    """What the verdict has to count, by the manual."""
    found: Counter[str] = Counter()
    for name, attempts in endings.items():
        last = attempts[-1]
        excused = known is not None and known[0] == name.split("/")[1] and last in CODES
        excused = excused and (not known[1] or last in known[1])  # type: ignore[index]
        found["quarantined" if excused else last] += 1
    return found


@pytest.mark.long
@pytest.mark.extension("web")
@settings(
    max_examples=5,
    phases=(Phase.explicit, Phase.generate),  # each example is a night, so none is made smaller
    suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow],
)
@given(endings=st.lists(ATTEMPTS, min_size=8, max_size=8), known=QUARANTINE)
def test_whatever_happened_all_say_the_same(
    endings: list[tuple[str, ...]],
    known: tuple[str, list[str]] | None,
    begun: tuple[Path, bytes, list[dict[str, Any]]],
    etharness: Etharness,
) -> None:
    plan, first, ended = begun
    folder = plan.parent
    night = night_of(folder)
    records = [r for real, own in zip(ended, endings, strict=True) for r in records_of(real, own)]
    entry = ""
    if known is not None:
        model, failures = known
        entry = (
            '[[quarantine]]\nowner = "me"\nreason = "old"\nexpires = 2100-01-01\n'
            f'model = "{model}"\nfailures = {json.dumps(failures)}\n'
        )
    (folder / "quarantine.toml").write_text(f"schema = 1\n{entry}")

    def resume(*options: str | Path) -> Any:
        for file in (folder / "runs.sqlite", night / "night.json"):
            file.unlink(missing_ok=True)
        journal = b"".join([first, *map(journal_line, records)])
        (night / "journal.jsonl").write_bytes(journal)
        shutil.rmtree(folder / "site", ignore_errors=True)
        return etharness("nightly", plan, *options)

    terminal = resume()
    said = resume("--json")
    assert terminal.code == said.code, terminal.err + said.err
    assert etharness("site", folder / "runs.sqlite", "-o", folder / "site").code == 0
    document = json.loads(said.out)
    steps = [record["step"] for record in ended]
    names = [f"{s['unit']}/{s['model']}/{s['repeat']}" for s in steps]
    expected = counted(dict(zip(names, endings, strict=True)), known)
    assert {k: n for k, n in document["counts"].items() if n} == dict(expected)
    flaky = [own for own in endings if own[-1] == "pass" and set(own) & set(CODES)]
    assert document["flaky"] == len(flaky)
    assert_one_verdict(folder, folder / "site", said.code, document, terminal.out)
