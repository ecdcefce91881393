"""Pages that people meet, each made of believable results by what makes it for them.

``tools/pictures`` takes their pictures, and tests/browser/test_scenarios.py asserts that the first
screen of each holds the sentence that decides.
"""

from __future__ import annotations

import fcntl
import shutil
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack
from datetime import timedelta
from pathlib import Path
from types import SimpleNamespace
from unittest.mock import patch

from harness import (
    EvaluatedRun,
    Failure,
    HistoryRef,
    NightDocument,
    NightlyStep,
    Owner,
    Result,
    evaluate_path,
    open_store,
    parse_baseline,
    render_report,
)
from harness.extensions.lab.nightly import night as nightly
from harness.extensions.lab.nightly.plan import NightUnit
from harness.extensions.lab.nightly.worker import Cause, Ending
from harness.extensions.web.site.writer import write_site
from harness.records.store_address import StoreAddress
from harness.runs.directory import RunDirectory
from tests.conftest import MODELS as MODEL_FILES
from tests.support.believable import (
    FIRST_NIGHT,
    MODELS,
    RACK,
    Bench,
    Change,
    Recipe,
    executed,
    failed_run,
    made_result,
    made_run,
)
from tests.support.night_world import World

NIGHTS = 18
"""Nights of a history before the one that a page shows."""

SLOWER = Change(NIGHTS, "kws_int8", ("rack-1", "rack-3"), 7, 1.62)
"""A convolution takes longer since the last night, on boards with a Cortex-M4."""
QUICKER = Change(8, "kws_int8", tuple(bench.unit for bench in RACK[:3]), 1, 0.86)
"""An earlier commit made another one quicker everywhere."""
GREW = Change(13, "ic_int8", ("rack-2",), 4, 1.09)
"""One that somebody accepted."""

_PLAN = """
schema = 1
name = "desk"
output = "nights"
history = "history.sqlite"
baseline = "last:20"
reports = ["night.html"]
run = { runs = 20 }
"""
_POWER = 'power = { kind = "command", on = ["true"], off = ["true"] }'


DECIDING: Mapping[str, str] = {
    "run-first": r"PASS kws_int8 on nucleo-f446re 31 of 31 checks passed",
    "run-regression": r"FAIL kws_int8 on nucleo-f446re .*conv2d.*slower",
    "night-regression": r"kws_int8 on nucleo-f446re is [\d.]+ % slower since .*conv2d #7",
    "site-index": r"3 models on 4 boards: .*slower",
}
"""What the first screen of each page has to say, a regular expression, by the page's name."""


class Rack(World):
    """The boards of the rack in a night: each run is made as the recipe has it.

    Attributes:
        recipe: What differs.
        night: Number of the night.
        failing: What a unit or a step ends with instead.
    """

    def __init__(self, folder: Path, recipe: Recipe, night: int) -> None:
        super().__init__()
        self.folder, self.recipe, self.night = folder, recipe, night
        self.failing: dict[str, Failure] = {}
        self.dead: set[str] = set()
        self.stop_after = 10**6
        self.made = 0

    def utc(self) -> str:
        self.clock += 20
        return self.recipe.started(self.night, self.clock / 60)

    def run(self, unit: NightUnit, step: NightlyStep, directory: Path, deadline_s: float) -> Ending:
        if self.made >= self.stop_after:
            raise KeyboardInterrupt
        self.made += 1
        bench = next(bench for bench in RACK if bench.unit == unit.id)
        base = executed(step.model, self.folder)
        session = f"{directory.parents[2].name}/{step.repeat}"
        failure = self.failing.get(unit.id) or self.failing.get(f"{unit.id}/{step.model}")
        self.clock += 11
        if failure is not None:
            failed_run(directory, base, bench, self.recipe, self.night, failure, session=session)
            return Ending(75, False, False, 21.0, f"error: {failure.message}")
        made = made_result(
            base, bench, self.recipe, self.night, repeat=step.repeat, session=session
        )
        run = made_run(directory, base, made)
        assert run.result is not None
        return Ending(run.result.exit_code, False, False, 9.4, "")

    def result(self, directory: Path) -> Result | None:
        try:
            return RunDirectory(directory).read_result()
        except Exception:
            return None

    def examine(self, unit: NightUnit) -> Cause:
        if unit.id in self.dead:
            why = "link: no answer within 5 s at 921,600 baud"
            return Cause(owner=Owner.BOARD, message=why)
        return Cause(passed=True)


class Scenarios:
    """Makes pages in a folder; each is made when it is asked for."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.recipe = Recipe(changes=(SLOWER, QUICKER, GREW))

    def page(self, name: str) -> Path:
        """Return the page of a scenario, made when it is first asked for, by whatever process."""
        known = self.folder / f"{name}.page"
        with (self.folder / "lock").open("w") as lock:
            fcntl.flock(lock, fcntl.LOCK_EX)
            if not known.exists():
                page: Path = getattr(self, name.replace("-", "_"))()
                known.write_text(str(page))
        return Path(known.read_text())

    def history(self, nights: int = NIGHTS) -> Path:
        """Return a history of so many nights."""
        path = self.folder / f"history-{nights}.sqlite"
        if not path.exists():
            with open_store(str(path)) as store:
                for night in range(nights):
                    for model, bench in _cells():
                        base = executed(model, self.folder)
                        made = made_result(base, bench, self.recipe, night)
                        store.add(made.result, made.subject)
        return path

    def report(self, name: str, runs: Sequence[EvaluatedRun]) -> Path:
        """Write the report of runs."""
        page = self.folder / f"{name}.html"
        page.write_bytes(render_report("report.html", runs))
        return page

    def compared(self, name: str, bench: Bench, recipe: Recipe, model: str = "kws_int8") -> Path:
        """Write the report of a run that was compared with the history."""
        directory = self.folder / "out" / name
        base = executed(model, self.folder)
        made_run(directory, base, made_result(base, bench, recipe, NIGHTS))
        baseline = HistoryRef(StoreAddress(str(self.history())), parse_baseline("last:20"))
        return self.report(name, [evaluate_path(directory, history=baseline)])

    def run_first(self) -> Path:
        base = executed("kws_int8", self.folder)
        made = made_result(base, RACK[0], Recipe(), 0)
        run = made_run(self.folder / "out/run-first", base, made)
        return self.report("run-first", [run])

    def run_regression(self) -> Path:
        return self.compared("run-regression", RACK[0], self.recipe)

    def night_regression(self) -> Path:
        page, document = self.a_night("night-regression", Rack(self.folder, self.recipe, NIGHTS))
        assert not document.passed
        return page

    def site_index(self) -> Path:
        return self.site() / "index.html"

    def site(self) -> Path:
        """Write the site of the history after the night with a regression."""
        folder = self.folder / "site"
        if not folder.exists():
            if not (self.folder / "night-regression").exists():
                self.night_regression()
            with open_store(str(self.folder / "night-regression/history.sqlite")) as store:
                write_site(store, folder)
        return folder

    def a_night(self, name: str, rack: Rack, more: str = "") -> tuple[Path, NightDocument]:
        """Have a night with the history before it; return its page and document."""
        home = self.folder / name
        home.mkdir(exist_ok=True)
        shutil.copy(self.history(), home / "history.sqlite")
        plan, units = [_PLAN], ["schema = 1"]
        for bench in RACK:
            plan.append(f'[[board]]\nboard = "{bench.board}"')
            if bench.port is not None:
                plan[-1] += f'\nunits = ["{bench.unit}"]'
                units.append(f'[[unit]]\nid = "{bench.unit}"\nboard = "{bench.board}"')
                units[-1] += f'\nport = "{bench.port}"\n{_POWER}'
        for model, places in MODELS.items():
            shutil.copy(MODEL_FILES / f"{model}.pte", home)
            boards = [bench.board for bench in RACK if bench.unit in places]
            plan.append(f'[[model]]\nfile = "{model}.pte"\nboards = {boards}'.replace("'", '"'))
        (home / "plan.toml").write_text("\n".join([*plan, more]))
        (home / "units.toml").write_text("\n".join(units))
        prepared = nightly.prepare(home / "plan.toml", home / "units.toml")
        with ExitStack() as stack:
            began = FIRST_NIGHT + timedelta(days=rack.night)
            clock = SimpleNamespace(now=lambda _: began)
            stack.enter_context(patch.object(nightly, "datetime", clock))
            stack.enter_context(patch.object(nightly, "now_utc", rack.utc))
            night = nightly.open_night(prepared, fresh=True)
            stack.enter_context(night.journal)
            document = nightly.run_to_end(night, rack)
        return night.directory / "night.html", document


def _cells() -> Iterator[tuple[str, Bench]]:
    for model, units in MODELS.items():
        yield from ((model, bench) for bench in RACK if bench.unit in units)
