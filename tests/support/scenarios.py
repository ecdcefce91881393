"""Pages that people meet, each made of believable results by what makes it for them.

``tools/pictures`` takes their pictures, and tests/browser/test_scenarios.py asserts that the first
screen of each holds the sentence that decides.
"""

from __future__ import annotations

import _thread
import dataclasses
import fcntl
import io
import itertools
import re
import shutil
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack, chdir, contextmanager, redirect_stdout, suppress
from datetime import timedelta
from functools import partial
from pathlib import Path
from types import SimpleNamespace
from unittest.mock import patch

import harness
from harness import (
    EvaluatedRun,
    Failure,
    HarnessError,
    HistoryRef,
    NightlyStep,
    Owner,
    Result,
    UsageError,
    evaluate_path,
    open_store,
    parse_baseline,
    render_report,
)
from harness.cli import main
from harness.extensions.lab.nightly import live
from harness.extensions.lab.nightly import night as nightly
from harness.extensions.lab.nightly.plan import NightUnit
from harness.extensions.lab.nightly.worker import Cause, Ending
from harness.extensions.web.site.writer import write_site
from harness.records.store_address import StoreAddress
from harness.runs.directory import RunDirectory
from tests.conftest import FIXTURES, ROOT
from tests.conftest import MODELS as MODEL_FILES
from tests.support.believable import (
    EXECUTED_ON,
    EXECUTIONS,
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
QUICKER = Change(8, "kws_int8", tuple(bench.unit for bench in RACK[:3]), 1, 0.68)
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
_REFRESH = re.compile(r'<meta http-equiv="refresh".*?>')
_POWER = 'power = { kind = "command", on = ["true"], off = ["true"] }'


TONIGHT = NIGHTS
"""Number of the night that a page shows."""

DECIDING: Mapping[str, str] = {
    "run-first": r"PASS kws_int8 on nucleo-f446re .*checks passed",
    "run-regression": r"FAIL kws_int8 on nucleo-f446re .*conv2d.*slower",
    "run-improvement": r"PASS kws_int8 on nucleo-f446re .*faster",
    "run-full-log": r"FAIL kws_int8 on qemu-mps2-an385 .*the log was full in execution 8 of 10",
    "run-wrapped-clock": r"FAIL .*counter probably wraps at 32 bits",
    "run-two-units": r"1 of 2 .*kws_int8 on nucleo-f446re.*conv2d.*slower",
    "run-too-large": r"ERROR vww_int8 on nucleo-f446re .*57,344",
    "run-reexported": r"kws_int8 on nucleo-f446re",
    "run-emulated": r"PASS kws_int8 on qemu-mps2-an385 .*emulated time",
    "night-first": r"PASS",
    "night-regression": r"kws_int8 on nucleo-f446re is [\d.]+ % slower since .*conv2d #7",
    "night-dead-board": r"FAIL .*rack-2 .* does not answer.*3 (of 8 )?runs",
    "night-wrong-model": r"FAIL .*nucleo-f446re cannot run .*vww_int8",
    "night-accepted": r"PASS .*all 8 runs passed",
    "night-busy": r"FAIL .*rack-3.*held by ana",
    "night-interrupted": r"[5-7] of 8 runs done.* interrupted",
    "night-under-way": r"[3-7] of 8 runs done.*rack-3",
    "site-index": r"3 models on 4 boards: .*2 slower.*kws_int8 on",
    "site-series": r"kws_int8 on nucleo-h743zi.*6\.1 % faster since",
    "site-compare": r"kws_int8 on nucleo-f446re.*conv2d #7",
    "site-commit": r"Commit [0-9a-f]+ .*regressions",
    "site-model": r"kws_int8 on nucleo-f446re .*regression.*median execution",
}
"""What the first screen of each page has to say, a regular expression, by the page's name."""


class Rack(World):
    """The boards of the rack in a night: each run is made as the recipe has it.

    Attributes:
        folder: Folder of the scenarios.
        recipe: What differs.
        night: Number of the night.
        failing: What runs of a unit, or ``unit/model``, end with instead.
        dead: Units that answer no more.
        before: Called with the number of each run before it is made, from 0.
    """

    def __init__(self, folder: Path, recipe: Recipe, night: int = TONIGHT) -> None:
        super().__init__()
        self.folder, self.recipe, self.night = folder, recipe, night
        self.failing: dict[str, tuple[int, Failure]] = {}
        self.dead: set[str] = set()
        self.before: Callable[[int], None] = lambda number: None
        self._numbers = itertools.count()

    def utc(self) -> str:
        """The time of the world, in the night."""
        self.clock += 20
        return self.recipe.started(self.night, self.clock / 60)

    def run(self, unit: NightUnit, step: NightlyStep, directory: Path, deadline_s: float) -> Ending:
        """Make a run, or what it ends with instead."""
        self.before(next(self._numbers))
        bench = next(bench for bench in RACK if bench.unit == unit.id)
        session = f"{directory.parents[4].name}/{step.repeat}"
        failing = self.failing.get(unit.id) or self.failing.get(f"{unit.id}/{step.model}")
        self.clock += 11
        if failing is None:
            base = executed(step.model, self.folder)
            parts = (base, bench, self.recipe, self.night)
            made = made_result(*parts, repeat=step.repeat, session=session)
            run = made_run(directory, base, made)
            assert run.result is not None
            return Ending(run.result.exit_code, False, False, 9.4, "")
        code, failure = failing
        if code == 75:
            base = executed(step.model, self.folder)
            failed_run(directory, base, bench, self.recipe, self.night, failure, session=session)
        text = f"error: {failure.message}\n  try: {failure.hint}"
        return Ending(code, False, False, 21.0, text)

    def result(self, directory: Path) -> Result | None:
        """Read the result of a run directory."""
        with suppress(HarnessError, OSError):
            return RunDirectory(directory).read_result()
        return None

    def examine(self, unit: NightUnit) -> Cause:
        """Find a unit dead or well."""
        if unit.id in self.dead:
            return Cause(owner=Owner.BOARD, message="link: the board does not answer")
        return Cause(passed=True)


class Scenarios:
    """Makes pages in a folder; each is made when it is asked for."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.recipe = Recipe(changes=(SLOWER, QUICKER, GREW))
        self._depth = 0

    def page(self, name: str) -> Path:
        """Return the page of a scenario, made when it is first asked for, by whatever process."""
        known = self.folder / f"{name}.page"
        with self._alone():
            if not known.exists():
                page: Path = getattr(self, name.replace("-", "_"))()
                known.write_text(str(page))
        return Path(known.read_text())

    @contextmanager
    def _alone(self) -> Iterator[None]:
        """Keep out other processes; a page may be made of another."""
        with (self.folder / "lock").open("w") as lock:
            if not self._depth:
                fcntl.flock(lock, fcntl.LOCK_EX)
            self._depth += 1
            try:
                yield
            finally:
                self._depth -= 1

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
            if nights > GREW.night:
                name = f"native_call_quantized_add.out, instruction {GREW.instruction}"
                accept(path, name, RACK[1], "ic_int8.pte", GREW.night, "exact rounding now")
        return path

    def report(self, name: str, runs: Sequence[EvaluatedRun]) -> Path:
        """Write the report of runs."""
        page = self.folder / f"{name}.html"
        page.write_bytes(render_report("report.html", runs))
        return page

    def compared(
        self, name: str, bench: Bench, recipe: Recipe | None = None, base: Path | None = None
    ) -> EvaluatedRun:
        """Return a run of the keyword spotter tonight, compared with the history."""
        directory = self.folder / "out" / name
        base = base or executed("kws_int8", self.folder)
        made = made_result(base, bench, recipe or self.recipe, TONIGHT, model="kws_int8")
        made_run(directory, base, made)
        url = StoreAddress(str(self.history()))
        return evaluate_path(directory, history=HistoryRef(url, parse_baseline("last:20")))

    def run_first(self) -> Path:
        base = executed("kws_int8", self.folder)
        made = made_result(base, RACK[0], Recipe(), 0)
        return self.report("run-first", [made_run(self.folder / "out/run-first", base, made)])

    def run_regression(self) -> Path:
        return self.report("run-regression", [self.compared("run-regression", RACK[0])])

    def run_improvement(self) -> Path:
        quicker = Change(TONIGHT, "kws_int8", ("rack-1",), 5, 0.58)
        recipe = Recipe(changes=(QUICKER, quicker))
        run = self.compared("run-improvement", RACK[0], recipe)
        return self.report("run-improvement", [run])

    def run_full_log(self) -> Path:
        directory = self.folder / "out/run-full-log"
        harness.run(
            "kws_int8", board=EXECUTED_ON, runs=EXECUTIONS, trace_limit=4500, output=directory
        )
        return self.report("run-full-log", [evaluate_path(directory)])

    def run_wrapped_clock(self) -> Path:
        wrapped = evaluate_path(FIXTURES / "xnnpack_clock32.etdp")
        return self.report("run-wrapped-clock", [wrapped])

    def run_two_units(self) -> Path:
        second = dataclasses.replace(RACK[0], unit="rack-4", port="/dev/ttyACM3")
        runs = [self.compared(f"run-of-{bench.unit}", bench) for bench in (RACK[0], second)]
        return self.report("run-two-units", runs)

    def run_too_large(self) -> Path:
        too_large = refusal(self.folder, "vww_int8")
        base = executed("kws_int8", self.folder)
        directory = self.folder / "out/run-too-large"
        parts = (base, RACK[0], self.recipe, TONIGHT, too_large)
        failed_run(directory, *parts, exit_code=2, model="vww_int8")
        return self.report("run-too-large", [evaluate_path(directory)])

    def run_reexported(self) -> Path:
        base = executed("kws_int8_m4", self.folder)
        run = self.compared("run-reexported", RACK[0], Recipe(changes=(QUICKER,)), base)
        return self.report("run-reexported", [run])

    def run_emulated(self) -> Path:
        run = evaluate_path(executed("kws_int8", self.folder))
        return self.report("run-emulated", [run])

    def night_first(self) -> Path:
        rack = Rack(self.folder, self.recipe, 0)
        return self.a_night("night-first", rack, history=False)

    def night_regression(self) -> Path:
        return self.a_night("night-regression", Rack(self.folder, self.recipe))

    def night_dead_board(self) -> Path:
        rack = Rack(self.folder, Recipe(changes=(QUICKER, GREW)))
        message = "no answer to HELLO within 10 s at 921,600 baud"
        hint = "check its power and its cable; `etharness lab health rack-2` examines it"
        rack.failing["rack-2"] = (75, Failure("LinkError", message, hint, Owner.LINK))
        rack.dead.add("rack-2")
        return self.a_night("night-dead-board", rack)

    def night_wrong_model(self) -> Path:
        rack = Rack(self.folder, Recipe(changes=(QUICKER, GREW)))
        rack.failing["rack-1/vww_int8"] = (2, refusal(self.folder, "vww_int8"))
        more = '[[model]]\nfile = "vww_int8.pte"\nboards = ["nucleo-f446re"]'
        return self.a_night("night-wrong-model", rack, more)

    def night_accepted(self) -> Path:
        """The night after one with a regression, which somebody accepted in between."""
        self.page("night-regression")
        home = self.folder / "night-accepted"
        home.mkdir(exist_ok=True)
        history = home / "history.sqlite"
        shutil.copy(self.folder / "night-regression/history.sqlite", history)
        for bench in (RACK[0], RACK[2]):
            for name in ("native_call_quantized_conv2d.out, instruction 7", "Method::execute"):
                accept(history, name, bench, "kws_int8.pte", TONIGHT, "the check is worth its time")
        rack = Rack(self.folder, self.recipe, TONIGHT + 1)
        return self.a_night("night-accepted", rack, history=False)

    def night_busy(self) -> Path:
        rack = Rack(self.folder, Recipe(changes=(QUICKER, GREW)))
        rack.busy["rack-3"] = "ana (bisect of vad, since 00:52)"
        return self.a_night("night-busy", rack)

    def night_interrupted(self) -> Path:
        rack = Rack(self.folder, self.recipe)

        def interrupt(number: int) -> None:
            if number == 5:
                _thread.interrupt_main()
            while number >= 5 and not rack.stopped:
                time.sleep(0.05)

        rack.before = interrupt
        return self.shown_live("night-interrupted", rack)

    def night_under_way(self) -> Path:
        """The page of a night half-way, in which a board does not answer."""
        rack = Rack(self.folder, self.recipe)
        rack.dead.add("rack-3")
        page = self.folder / "night-under-way/site/tonight.html"
        half_way = page.with_name("half-way.html")

        def take(number: int) -> None:
            while number > 5 and not half_way.exists():
                time.sleep(0.05)
            if number == 5:
                text = _when_it_says(page, r"[3-6] of 8 runs done")
                half_way.write_text(_REFRESH.sub("", text), encoding="utf-8")

        rack.before = take
        self.shown_live("night-under-way", rack)
        return half_way

    def site_index(self) -> Path:
        return self.site() / "index.html"

    def site_series(self) -> Path:
        [page] = self.site().glob("series/kws-int8-nucleo-h743zi-*/median-execution-*.html")
        return page

    def site_model(self) -> Path:
        [page] = self.site().glob("models/kws-int8-nucleo-f446re-*.html")
        return page

    def site_compare(self) -> Path:
        return self.site() / "compare.html"

    def site_commit(self) -> Path:
        [page] = self.site().glob(f"commits/{self.recipe.commit(TONIGHT).sha[:12]}*.html")
        return page

    def site(self) -> Path:
        """Write the site of the history after the night with a regression."""
        folder = self.folder / "site"
        if not folder.exists():
            self.page("night-regression")
            with open_store(str(self.folder / "night-regression/history.sqlite")) as store:
                write_site(store, folder)
        return folder

    def a_night(self, name: str, rack: Rack, more: str = "", *, history: bool = True) -> Path:
        """Have a night with the history before it; return its page."""
        with self.opened(name, rack, more, history=history) as (_, open_night):
            night = open_night()
            with night.journal:
                nightly.run_to_end(night, rack)
        return night.directory / "night.html"

    def shown_live(self, name: str, rack: Rack) -> Path:
        """Have a night with a site; return the page that shows it while it is under way."""
        site = self.folder / name / "site"
        with self.opened(name, rack, history=False) as (prepared, open_night):
            shown = live.LiveSite(prepared, site)
            night = open_night(on_record=shown.learn)
            with suppress(KeyboardInterrupt), night.journal, shown:
                shown.begin(night)
                shown.finish(nightly.run_to_end(night, rack))
        return site / "tonight.html"

    @contextmanager
    def opened(
        self, name: str, rack: Rack, more: str = "", *, history: bool
    ) -> Iterator[tuple[nightly.Prepared, Callable[..., nightly.Night]]]:
        """Prepare a night of the rack; yield it with what opens it, at its time."""
        home = self.folder / name
        home.mkdir(exist_ok=True)
        if history:
            shutil.copy(self.history(), home / "history.sqlite")
        plan, units = [_PLAN], ["schema = 1"]
        for bench in RACK:
            plan.append(f'[[board]]\nboard = "{bench.board}"')
            if bench.port is not None:
                plan[-1] += f'\nunits = ["{bench.unit}"]'
                units.append(f'[[unit]]\nid = "{bench.unit}"\nboard = "{bench.board}"')
                units[-1] += f'\nport = "{bench.port}"\n{_POWER}'
        for model, places in MODELS.items():
            boards = [bench.board for bench in RACK if bench.unit in places]
            plan.append(f'[[model]]\nfile = "{model}.pte"\nboards = {boards}'.replace("'", '"'))
        for model in re.findall(r'file = "(.*?)"', "\n".join([*plan, more])):
            shutil.copy(MODEL_FILES / model, home)
        (home / "plan.toml").write_text("\n".join([*plan, more]))
        (home / "units.toml").write_text("\n".join(units))
        # Pages name the file of the units as it was given.
        with ExitStack() as stack:
            stack.enter_context(chdir(home))
            prepared = nightly.prepare(home / "plan.toml", Path("units.toml"))
            began = FIRST_NIGHT + timedelta(days=rack.night)
            clock = SimpleNamespace(now=lambda _: began)
            stack.enter_context(patch.object(nightly, "datetime", clock))
            stack.enter_context(patch.object(nightly, "now_utc", rack.utc))
            stack.enter_context(patch.object(live, "now_utc", rack.utc))
            yield prepared, partial(nightly.open_night, prepared, fresh=True)


def refusal(folder: Path, model: str) -> Failure:
    """Return why a board has no room for a model, as a run of it says.

    Its firmware would be a process of this host, so that nobody looks for its port first.
    """
    text = (ROOT / "boards/nucleo-f446re.toml").read_text(encoding="utf-8")
    board = folder / "nucleo-f446re.toml"
    board.write_text(re.sub(r"target = \{.*\}", 'target = { kind = "native" }', text))
    file = folder / f"{model}.pte"
    shutil.copy(MODEL_FILES / file.name, file)
    try:
        harness.run(file, board=board, output=folder / "out/refused")
    except UsageError as error:
        message = error.message.replace(f"{folder}/", "models/")
        return Failure(type(error).__name__, message, error.hint or "", error.owner)
    raise AssertionError("it was not refused")


def accept(history: Path, series: str, bench: Bench, model: str, night: int, reason: str) -> None:
    """Have somebody accept a change, on the day after a night."""
    made = FIRST_NIGHT + timedelta(days=night, hours=8)
    selection = ["--board", bench.board, "--unit", bench.unit, "--model", model]
    words = ["history", "accept", series, "--reason", reason, "--who", "mei", *selection]
    words += ["--history", str(history)]
    since = (FIRST_NIGHT + timedelta(days=night)).isoformat()
    clock = SimpleNamespace(now=lambda _: made)
    with (
        patch("harness.extensions.history.decisions.datetime", clock),
        suppress(SystemExit),
        redirect_stdout(io.StringIO()) as said,
    ):
        main([*words, "--since", since])
    assert "accepted" in said.getvalue(), said.getvalue()


def _when_it_says(page: Path, pattern: str) -> str:
    """Return a page that is written again and again, once it has some text."""
    ends = time.monotonic() + 30
    while time.monotonic() < ends:
        text = page.read_text(encoding="utf-8") if page.exists() else ""
        if re.search(pattern, text):
            return text
        time.sleep(0.05)
    raise AssertionError(f"{page} never says {pattern!r}")


def _cells() -> Iterator[tuple[str, Bench]]:
    for model, units in MODELS.items():
        yield from ((model, bench) for bench in RACK if bench.unit in units)
