"""``etharness site``: what its pages say, and what it does to a folder."""

from __future__ import annotations

import json
import re
import shutil
import subprocess
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import lxml.html
import numpy as np
import pytest
from sqlalchemy import create_engine, text

from harness import Selection, open_store
from harness.extensions.web.site.models import commit_page
from harness.extensions.web.site.writer import write_site
from tests.conftest import CommandResult
from tests.support.documents import document
from tests.support.results import made, trace_with
from tests.support.sites import (
    ACCEPTED_FROM,
    NIGHTS,
    SLOWER_FROM,
    WIDE_BOARDS,
    WIDE_HIT,
    WIDE_SLOWER,
    commit_of,
    site_history,
    started,
    wide_history,
)

Etharness = Callable[..., CommandResult]


@pytest.fixture(scope="module")
def history(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return site_history(tmp_path_factory.mktemp("history") / "h.sqlite")


@pytest.fixture(scope="module")
def site(history: Path) -> Path:
    """A site, not to be changed."""
    with open_store(str(history)) as store:
        write_site(store, history.parent / "site", "Nightly results")
    return history.parent / "site"


def page_of(site: Path, name: str) -> Any:
    return lxml.html.fromstring((site / name).read_bytes())


def text_of(element: Any) -> str:
    """The text of an element as it is read: parts do not run into each other."""
    return " ".join(" ".join(element.itertext()).split())


def texts(page: Any, path: str) -> list[str]:
    return [text_of(element) for element in page.xpath(path)]


def causes(page: Any, kind: str) -> list[str]:
    """Texts of the boxes of causes of a kind."""
    return texts(page, f"//*[@id='causes']//details[@data-kind='{kind}']")


def series_page(site: Path, model: str, board: str, title: str) -> Any:
    found = [
        page
        for path in site.glob(f"series/{model}-{board}-*/*.html")
        if texts(page := lxml.html.fromstring(path.read_bytes()), "//h1") == [title]
    ]
    assert len(found) == 1
    return found[0]


def test_the_first_page_begins_with_what_is_new(site: Path) -> None:
    page = page_of(site, "index.html")
    assert texts(page, "//h1") == ["Nightly results"]
    assert texts(page, "//p[contains(@class, 'newest')]") == [
        "3 models on 2 boards: 2 slower, 1 larger, 1 fixed, 1 gone, "
        "1 with infrastructure failures; newest result 2026-11-12 01:03 UTC."
    ]
    kws, undecided = texts(page, "//details[@data-kind='slower']/summary")
    since = commit_of(SLOWER_FROM)[:10]
    before = commit_of(SLOWER_FROM - 1)[:10]
    # The first sentence names model, board, change, commit and operator, as a night's does.
    assert re.fullmatch(
        rf"kws on board-a is 3\.\d % slower since {since}: conv #0 \d+\.\d % slower "
        r"\(owner: product\)",
        kws,
    )
    assert texts(page, "//*[@class='headline']") == [kws]
    slower, accepted = causes(page, "slower")
    assert f"next: etharness bisect --good {before} --bad {since} -- COMMAND" in slower
    assert "conv #0 +20" in slower
    assert f"since {commit_of(ACCEPTED_FROM)[:10]}" in undecided
    assert "add #1" not in accepted  # that one was accepted
    [larger] = causes(page, "larger")
    assert larger.startswith("vww on board-a: memory planned_1 is 6.7 % larger since")
    [fixed] = causes(page, "fixed")
    assert fixed.startswith("vww on board-a-1: passes again; it failed: B01 does not hold")
    [gone] = causes(page, "gone")
    assert gone.startswith("gone on board-a-1: no result since 2026-11-08")
    # It fails because of the numbers, which have a box.
    assert causes(page, "failing") == []


def test_one_cause_is_one_box_that_lists_what_it_hits(tmp_path: Path) -> None:
    store = wide_history(tmp_path / "h.sqlite")
    with open_store(str(store)) as opened:
        write_site(opened, tmp_path / "site")
    page = page_of(tmp_path / "site", "index.html")
    [slower] = page.xpath("//details[@data-kind='slower']")
    since = commit_of(WIDE_SLOWER)[:10]
    [sentence] = texts(slower, "./summary")
    assert f"slower since {since}: conv #0" in sentence
    assert sentence.endswith("(6 models on 3 boards; owner: product)")
    models = texts(slower, ".//li/strong")
    assert sorted(models) == sorted(WIDE_HIT)
    assert all(board in text_of(item) for item in slower.xpath(".//li") for board in WIDE_BOARDS)
    [dead] = page.xpath("//details[@data-kind='infrastructure']")
    assert texts(dead, "./summary") == [
        "mimxrt1060-evk-1: the board did not answer for 5 s "
        "(15 models on mimxrt1060-evk; owner: lab)"
    ]
    assert "next: etharness lab health mimxrt1060-evk-1" in text_of(dead)


def test_infrastructure_is_never_among_failures_of_the_product(site: Path) -> None:
    page = page_of(site, "index.html")
    [item] = causes(page, "infrastructure")
    assert item.startswith("board-b-1: the board did not answer for 5 s")
    for kind in ("failed", "failing", "slower", "larger"):
        assert not any("did not answer" in text for text in causes(page, kind))
    night = page_of(site, page.xpath("//section[h2[@id='nights']]//a/@href")[0])
    [section] = night.xpath("//section[h2[@id='infrastructure']]")
    assert len(section.xpath(".//tbody/tr")) == 1
    assert "did not answer" not in text_of(night.xpath("//section[h2[@id='results']]")[0])


def test_pages_have_the_name_of_the_project_and_commits_their_subjects(
    tmp_path: Path, etharness: Etharness, monkeypatch: pytest.MonkeyPatch
) -> None:
    def git(*arguments: str) -> str:
        command = ["git", "-c", "user.name=n", "-c", "user.email=e", *arguments]
        return subprocess.run(command, check=True, capture_output=True, text=True).stdout.strip()

    monkeypatch.chdir(tmp_path)
    git("init", "-q")
    commits = []
    for number in range(3):
        git("commit", "-q", "--allow-empty", "-m", f"change {number}: <b>faster</b>")
        commits.append(git("rev-parse", "HEAD"))
    (tmp_path / "pyproject.toml").write_text('[project]\nname = "keyboard"\n[tool.etharness]\n')
    with open_store("h.sqlite") as store:
        for number, commit in enumerate([*commits, "f" * 40]):
            facts = {"commit": commit, "started_utc": started(number), "session": f"s{number}"}
            item = made(f"r{number}", trace_with({"add": [900]}), **facts)
            store.add(item.result, item.subject)
    assert etharness("site", "h.sqlite", "-o", "site").code == 0
    page = page_of(tmp_path / "site", commit_page(commits[1]))
    assert texts(page, "//title") == [f"Commit {commits[1][:10]} - keyboard"]
    assert texts(page, "//a[@class='brand']") == ["keyboard"]
    assert "change 1: <b>faster</b>" in text_of(page)
    assert "change 2: <b>faster</b>" in text_of(page_of(tmp_path / "site", "commits.html"))
    # Name and subjects stay, also where the next site is written in another place.
    outside = tmp_path / "outside"
    outside.mkdir()
    monkeypatch.chdir(outside)
    monkeypatch.setenv("GIT_CEILING_DIRECTORIES", str(tmp_path))
    (tmp_path / "pyproject.toml").unlink()
    again = etharness("site", tmp_path / "h.sqlite", "-o", tmp_path / "site", "--json")
    assert json.loads(again.out)["written"] == []
    assert etharness("site", tmp_path / "h.sqlite", "-o", "new", "--title", "mine").code == 0
    assert texts(page_of(outside / "new", "index.html"), "//h1") == ["mine"]


def test_the_matrix_has_verdict_time_memory_and_trend(site: Path) -> None:
    page = page_of(site, "index.html")
    assert texts(page, "//*[@id='matrix-table']/thead//th") == ["model", "board-a", "board-b"]
    assert texts(page, "//*[@id='matrix-table']/tbody//th") == ["gone", "kws", "vww"]
    cells = page.xpath("//*[@id='matrix-table']/tbody//td")
    assert text_of(cells[1]) == "no result"
    failed = text_of(cells[2])
    assert failed.startswith("✕ regression 249 us")
    assert re.search(r"\+3\.\d % slower$", failed)
    assert cells[2].xpath(".//*[@class='spark']")
    assert text_of(cells[5]).startswith("○ infrastructure failure 239 us")


def test_a_series_says_its_steps_who_accepted_them_and_what_would_be_found(site: Path) -> None:
    page = series_page(site, "kws", "board-b", "median of add #1")
    [row] = texts(page, "//section[h2[@id='steps']]//tbody/tr")
    before, after = (commit_of(night)[:10] for night in (ACCEPTED_FROM - 1, ACCEPTED_FROM))
    assert row.startswith(f"{before} {after} 2026-11-05 01:01")
    assert row.endswith("accepted by jane: exact rounding now")
    tiles = texts(page, "//dl[@class='tiles']/div")
    assert tiles[1].startswith("detectable change 2.")
    assert any(
        "⚑ accepted by jane" in label
        for label in texts(page, "//*[local-name()='text'][contains(@class, 'flag')]")
    )
    assert f"etharness bisect --good {before} --bad {after}" in text_of(page)


def test_a_result_without_numbers_is_named_below_the_chart(site: Path) -> None:
    page = series_page(site, "vww", "board-b", "median execution")
    assert "they have no such number: 1 infrastructure failure." in text_of(page)


def test_a_commit_is_compared_with_the_one_before(site: Path) -> None:
    page = page_of(site, commit_page(commit_of(SLOWER_FROM)))
    [headline] = texts(page, "//p[contains(@class, 'headline')]")
    assert headline.startswith("regression 2 slower; 4 results:")
    rows = texts(page, "//section[h2[@id='changed']]/div//tbody/tr")
    # What the history calls a change, the execution first; what may be noise is folded.
    assert rows[0].startswith("median execution kws on board-a (board-a-1) +3.")
    assert rows[1].startswith(
        "median of conv #0 kws on board-a (board-a-1) +20.6 % slower 39.8 us 47.9 us ±"
    )
    assert len(rows) == 2
    quiet = page_of(site, commit_page(commit_of(2)))
    assert texts(quiet, "//p[contains(@class, 'headline')]") == ["5 results: 5 passed"]
    assert texts(quiet, "//section[h2[@id='changed']]/div//tbody/tr") == []
    assert "The history calls none of these differences a change." in text_of(quiet)
    others = texts(quiet, "//section[h2[@id='changed']]/details//tbody/tr")
    assert others
    assert not any("slower" in row or "faster" in row for row in others)
    first = page_of(site, commit_page(commit_of(0)))
    assert "No number differs." in text_of(first)


def references(page: Any) -> Iterator[str]:
    for attribute in ("href", "src"):
        yield from page.xpath(f"//@{attribute}")


def test_all_links_are_relative_and_lead_to_files_of_the_site(site: Path) -> None:
    files = {path for path in site.rglob("*") if path.is_file()}
    pages = [path for path in files if path.suffix == ".html"]
    assert len(pages) > 50
    reached = set()
    for path in pages:
        for reference in references(lxml.html.fromstring(path.read_bytes())):
            if reference.startswith(("#", "data:,")):
                continue
            target = (path.parent / reference.partition("#")[0]).resolve()
            assert target in files, f"{path.name}: {reference}"
            reached.add(target)
    data = {path for path in files if path.parent.name == "data"}
    assert files - reached - data == {site / "etharness-site.json"}
    listed = json.loads((site / "etharness-site.json").read_text())["files"]
    assert {site / name for name in listed} == files - {site / "etharness-site.json"}


def test_a_second_time_writes_nothing_and_a_gone_model_is_removed_and_named(
    history: Path, tmp_path: Path, etharness: Etharness
) -> None:
    copy = shutil.copy(history, tmp_path / "h.sqlite")
    site = tmp_path / "public"
    first = document("site", etharness("site", copy, "-o", site, "--json").out)
    assert first["results"] == 4 * NIGHTS + NIGHTS - 4
    assert first["unchanged"] == 0
    times = {path: path.stat().st_mtime_ns for path in site.rglob("*")}
    again = document("site", etharness("site", copy, "-o", site, "--json").out)
    assert again["written"] == again["removed"] == []
    assert again["unchanged"] == len(first["written"])
    assert {path: path.stat().st_mtime_ns for path in site.rglob("*")} == times
    with open_store(str(copy)) as store:
        store.remove(Selection(model="gone.pte"))
    code, out, _ = etharness("site", copy, "-o", site)
    assert code == 0
    removed = [line for line in out.splitlines() if line.startswith("removed: ")]
    assert any(line.startswith("removed: models/gone-board-a") for line in removed)
    assert out.splitlines()[-1].endswith(f"{len(removed)} removed")
    assert not [*site.rglob("*gone*")]


def test_a_file_that_somebody_changed_is_written_again(site: Path, tmp_path: Path) -> None:
    copy = Path(shutil.copytree(site, tmp_path / "site"))
    changed = [next(copy.glob("series/*/*.html")), copy / "index.html"]
    expected = [path.read_bytes() for path in changed]
    changed[0].write_bytes(b"x")
    changed[1].unlink()
    with open_store(str(site.parent / "h.sqlite")) as store:
        changes = write_site(store, copy, "Nightly results")
    assert [path.read_bytes() for path in changed] == expected
    assert set(changes.written) == {path.relative_to(copy).as_posix() for path in changed}


def test_an_empty_history_gives_a_page_that_says_what_to_do(
    tmp_path: Path, etharness: Etharness
) -> None:
    open_store(str(tmp_path / "h.sqlite")).close()
    assert etharness("site", tmp_path / "h.sqlite", "-o", tmp_path / "public").code == 0
    page = page_of(tmp_path / "public", "index.html")
    assert "The history has no results yet." in text_of(page)


def test_errors_name_the_folder_or_history_and_what_to_try(
    history: Path, tmp_path: Path, etharness: Etharness, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "mine").mkdir()
    (tmp_path / "mine/thesis.txt").write_text("years of work")
    code, _, err = etharness("site", history, "-o", "mine")
    assert (code, [*(tmp_path / "mine").iterdir()]) == (2, [tmp_path / "mine/thesis.txt"])
    assert "mine is not empty and not a site" in err
    assert "try: give a new or empty folder" in err
    code, _, err = etharness("site", history, "-o", "mine/thesis.txt")
    assert code == 2
    assert "is not a folder" in err
    code, _, err = etharness("site", "none.sqlite", "-o", "public")
    assert code == 2
    assert "none.sqlite" in err
    assert not (tmp_path / "public").exists()
    (tmp_path / "damaged").mkdir()
    (tmp_path / "damaged/etharness-site.json").write_text('{"files": {"../x": "0"}}')
    code, _, err = etharness("site", history, "-o", "damaged")
    assert code == 2
    assert "names a file outside: '../x'" in err


def test_a_history_of_a_newer_version_is_refused(
    history: Path, tmp_path: Path, etharness: Etharness
) -> None:
    copy = Path(shutil.copy(history, tmp_path / "h.sqlite"))
    engine = create_engine(f"sqlite:///{copy}")
    with engine.begin() as connection:
        connection.execute(text("UPDATE etharness_history SET version_num = 'v9000'"))
    engine.dispose()
    code, _, err = etharness("site", copy, "-o", tmp_path / "public")
    assert code == 2
    assert "which is newer than" in err
    assert not (tmp_path / "public").exists()


def test_what_slows_all_operators_down_is_a_change_of_each(tmp_path: Path) -> None:
    random = np.random.default_rng(1)
    with open_store(str(tmp_path / "h.sqlite")) as store:
        for night in range(15):
            factor = (1.3 if night == 14 else 1.0) * (1 + 0.003 * random.standard_normal())
            times = {
                f"native_call_op{n}": [
                    int(20_000 * (n + 1) * factor * (1 + 0.002 * random.standard_normal()))
                    for _ in range(3)
                ]
                for n in range(12)
            }
            facts = {"started_utc": started(night), "session": f"s{night}", "commit": f"{night:09}"}
            item = made(f"r{night}", trace_with(times), runs_completed=3, **facts)
            store.add(item.result, item.subject)
        write_site(store, tmp_path / "site")
    [slower] = causes(page_of(tmp_path / "site", "index.html"), "slower")
    assert "13 numbers" not in slower
    assert f"since {14:09}" in slower
    changes = [float(text) for text in re.findall(r"\+(\d+\.\d) %", slower)]
    assert len(changes) == 4
    assert "and 9 more" in slower
    assert all(27 < change < 33 for change in changes)


def test_names_are_only_shown_whatever_they_hold(tmp_path: Path) -> None:
    name = "</script><b>&\udcff\n"
    with open_store(str(tmp_path / "h.sqlite")) as store:
        for number in range(3):
            item = made(
                f"r{number}",
                trace_with({"native_call_</script><b>&\n": [10, 20]}),
                model=f"{name}.pte",
                unit=name,
                commit=name,
                session=name,
            )
            store.add(item.result, item.subject)
        write_site(store, tmp_path / "site")
    for path in (tmp_path / "site").rglob("*"):
        if path.suffix == ".html":
            assert not lxml.html.fromstring(path.read_bytes()).xpath("//b"), path
        elif path.suffix == ".js" and path.parent.name == "data":
            assert b"<" not in path.read_bytes()


def test_a_number_of_a_result_that_was_stored_meanwhile_has_no_page_yet(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with open_store(str(tmp_path / "h.sqlite")) as store:
        for day in (20, 21, 22):
            trace = trace_with({"add": [900]} | ({"new": [100]} if day == 22 else {}))
            item = made(f"r{day}", trace, started_utc=f"2026-11-{day}T00:00:00+00:00")
            store.add(item.result, item.subject)
        began = "2026-11-22"
        earlier = [entry for entry in store.results() if entry.provenance.started_utc < began]
        monkeypatch.setattr(store, "results", lambda *_, **__: earlier)
        write_site(store, tmp_path / "site")
    titles = {
        text_of(lxml.html.fromstring(path.read_bytes()).xpath("//h1")[0])
        for path in tmp_path.glob("site/series/*/*.html")
    }
    assert "median of add #0" in titles
    assert "median of new #1" not in titles
