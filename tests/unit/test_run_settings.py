"""The settings of a run: each is declared once, and means the same wherever it can be given."""

from __future__ import annotations

import dataclasses
import json
from collections.abc import Callable, Mapping
from pathlib import Path
from types import SimpleNamespace
from typing import Any, NoReturn

import pytest

import harness
from harness import MeasurementSettings, UsageError, packaged_models
from harness.extensions.lab.nightly.plan import load_plan, options_of
from harness.pytest_plugin.running import CaseUnit, Runs, with_files
from harness.records.run_settings import SETTINGS, RunSettings, SettingPlace, settings_in
from harness.runs.request import RunRequest, given_settings, request_of
from tests.conftest import CommandResult

BOARD = "nucleo-f446re"
PROBE = {"elf": "fw.elf", "until": "done"}
METER = {"energy": "ppk2:/dev/ttyX", "volts": 3.3}

SAMPLES: dict[str, dict[str, Any]] = {
    "runs": {"runs": 7},
    "name": {"name": "kws_v2"},
    "method": {"method": "encode"},
    "data": {"data": ("a.ptd", "b.ptd")},
    "placed": {"placed": True},
    "inputs": {"inputs": ("a.npy", "b.npy")},
    "steps": {"steps": "steps"},
    "state": {"state": "reset"},
    "seed": {"seed": 9},
    "baud": {"baud": 9600},
    "profile": {"profile": "method"},
    "values": {"values": "intermediate"},
    "stream": {"stream": True},
    "live": {"stream": True, "live": "live.pftrace"},
    "dataset": {"dataset": "samples.npz"},
    "when_full": {"when_full": "drop-oldest"},
    "counters": {"counters": ("cycles", "instret")},
    "counter_passes": {"counter_passes": True},
    "trace_limit": {"trace_limit": 4096},
    "time_scales": {"time_scales": {"npu*": "100 MHz", "a=b": "3/8"}},
    "budget": {"budget": "b.toml"},
    "references": {"references": ("a.npy",)},
    "rtol": {"rtol": 0.25},
    "atol": {"atol": 1e-6},
    "repeat": {"repeat": 3},
    "detect": {"detect": "3%"},
    "look_again": {"look_again": 2},
    "repeat_time": {"repeat_time": 60.0},
    "baseline_model": {"baseline_model": "old.pte"},
    "session": {"session": "tuesday"},
    "commit": {"commit": "4f1c9a2"},
    "flash": {"flash": True},
    "image": {"flash": True, "image": "fw.elf"},
    "tool": {"flash": True, "tool": "openocd"},
    "probe": {"flash": True, "probe": "0483:374b:X"},
    "elf": PROBE,
    "symbol": {**PROBE, "symbol": "tracer"},
    "until": PROBE,
    "reset": {**PROBE, "reset": "reset halt"},
    "energy": METER,
    "volts": METER,
    "marker_pin": {**METER, "marker_pin": 3},
    "supply": {**METER, "supply": True},
}
"""Options by the setting that they are about, with those that it needs."""

OF_A_SESSION = {"model", "board", "unit", "units", "port", "output", "history", "baseline"}


def comparable(request: RunRequest) -> RunRequest:
    """Without the directory, and the session that tests have by default."""
    session = request.session if request.session == "tuesday" else None
    return dataclasses.replace(request, output=Path(), session=session)


class Doors:
    """The ways to request a run; none begins."""

    def __init__(self, folder: Path, etharness: Callable[..., CommandResult]) -> None:
        self._folder, self._etharness = folder, etharness
        self._asked: list[RunRequest] = []

    def end(self, request: RunRequest, *_: object) -> NoReturn:
        """Take the place of the function that runs a request."""
        self._asked.append(comparable(request))
        raise UsageError("requested")

    def keywords(self, options: Mapping[str, Any]) -> RunRequest:
        where: Any = {"unit": "bench", "port": port_of(options), "output": "run"}
        return comparable(request_of("m.pte", BOARD, {**where, **options}))

    def command(self, options: Mapping[str, Any]) -> RunRequest:
        words = [word for name, value in options.items() for word in SETTINGS[name].words(value)]
        return self.words(port_of(options), words)

    def words(self, port: str, words: list[str]) -> RunRequest:
        where = [f"--board={BOARD}", "--unit=bench", f"--port={port}", "--model=m.pte"]
        done = self._etharness("run", *where, *words)
        assert self._asked, done.err
        return self._asked.pop()

    def plan(self, options: Mapping[str, Any], table: str = "[[model]]") -> RunRequest:
        text = 'schema = 1\nhistory = "h.sqlite"\nbaseline = "last:20"\n'
        text += 'board = [{ board = "native" }]\n[run]\n[[model]]\nfile = "m.pte"\n'
        keys = "".join(f"{name} = {toml(value)}\n" for name, value in options.items())
        (self._folder / "plan.toml").write_text(text.replace(f"{table}\n", f"{table}\n{keys}"))
        plan, document = load_plan(self._folder / "plan.toml")
        words = [*options_of(plan, plan.model[0]).arguments(document.path.parent)]
        return self.words(port_of(options), words)

    def marker(self, options: Mapping[str, Any]) -> RunRequest:
        config = SimpleNamespace(rootpath=self._folder)
        node = SimpleNamespace(path=self._folder / "test_x.py", config=config)
        unit = CaseUnit(harness.Board.load(BOARD), Path(BOARD), "bench", port_of(options))
        runs = Runs(self._folder / "runs", 1)
        with pytest.raises(UsageError, match="requested"):
            runs.get(unit, self._folder / "m.pte", with_files(options, node))
        return self._asked.pop()


def toml(value: Any) -> str:
    """Return a value as TOML."""
    if isinstance(value, dict):
        return (
            f"{{ {', '.join(f'{json.dumps(key)} = {toml(text)}' for key, text in value.items())} }}"
        )
    return json.dumps(value)


def port_of(options: Mapping[str, Any]) -> str:
    return "gdb://localhost:3333" if "elf" in options else "/dev/null"


@pytest.fixture
def doors(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, etharness: Callable[..., CommandResult]
) -> Doors:
    """All ways to request a run, in a folder with all files that samples name."""
    doors = Doors(tmp_path, etharness)
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr("harness.runs.run.run_model", doors.end)
    monkeypatch.setattr("harness.pytest_plugin.running.run_model", doors.end)
    for name in ("a.npy", "b.npy", "a.ptd", "b.ptd", "b.toml", "fw.elf", "old.pte", "samples.npz"):
        Path(name).touch()
    Path("steps").mkdir()
    model = packaged_models()["small_int8"]
    assert model is not None
    Path("m.pte").write_bytes(model.read_bytes())
    return doors


def test_every_setting_has_a_sample() -> None:
    assert {*SAMPLES} | OF_A_SESSION | {"progress"} == {*SETTINGS}


@pytest.mark.parametrize("name", SAMPLES)
def test_a_setting_means_the_same_everywhere(name: str, doors: Doors) -> None:
    options = SAMPLES[name]
    asked = doors.keywords(options)
    if options not in (PROBE, METER):
        assert asked != doors.keywords({key: options[key] for key in options if key != name})
    places = SETTINGS[name].where
    assert SettingPlace.COMMAND | SettingPlace.API in places
    assert doors.command(options) == asked
    assert (SettingPlace.MARKER in places) == (name != "live")  # a file of one run
    if name != "live":
        assert doors.marker(options) == asked
    assert (SettingPlace.PLAN in places) == (name not in ("image", "live"))
    if SettingPlace.PLAN in places:  # image is of [[board]] and [[variant]]
        assert doors.plan(options) == asked
        assert doors.plan(options, "[run]") == asked


def test_a_model_of_a_plan_can_turn_off_what_the_plan_turns_on(doors: Doors) -> None:
    plan = Path("plan.toml")
    text = 'schema = 1\nboard = [{ board = "native" }]\n[run]\nstream = true\nseed = 4\n'
    plan.write_text(text + '[[model]]\nfile = "m.pte"\nstream = false\nseed = 0\n')
    known, _ = load_plan(plan)
    assert [*options_of(known, known.model[0]).arguments(Path())] == ["--seed=0"]


@pytest.mark.parametrize(
    ("key", "said"),
    [
        ("unit", "plan.toml:5:1: unknown key 'unit' in \\[model]"),
        ("image", "plan.toml:5:1: unknown key 'image' in \\[model]"),
        ('tool = "openocd"\n#', "plan.toml:3:1: --image, --tool and --probe require --flash"),
        ("volts = 0\n#", "volts"),
        ('energy = "ppk3"\n#', "plan.toml:3:1: invalid meter 'ppk3'"),
        ("volts = 3\n#", "plan.toml:3:1: --volts, --marker-pin and --supply require --energy"),
    ],
)
def test_a_plan_refuses_other_settings(key: str, said: str, doors: Doors) -> None:
    plan = Path("plan.toml")
    text = 'schema = 1\nboard = [{ board = "native" }]\n[[model]]\nfile = "m.pte"\n'
    plan.write_text(f'{text}{key} = "x"\n')
    with pytest.raises(UsageError, match=said):
        load_plan(plan)


def test_only_declared_settings_are_accepted() -> None:
    for place in (SettingPlace.API, SettingPlace.MARKER):
        allowed = {setting.name for setting in settings_in(place)} - {"model", "board"}
        for name in {*SETTINGS, "reports", "bogus"} - allowed:
            with pytest.raises(UsageError, match=f"a run has no option {name}"):
                given_settings({name: None}, place)


@pytest.mark.parametrize(
    ("options", "said"),
    [
        ({"runs": 0}, "runs is 0, not a whole number from 1 to 1000000"),
        ({"runs": "5"}, "runs is '5', not a whole number from 1 to 1000000"),
        ({"volts": 0, "energy": "ppk2"}, "volts is 0, not a number above 0"),
        ({"atol": -1}, "atol is -1, not a number of at least 0"),
        ({"values": "output"}, "'output' is no choice for values"),
        ({"tool": "openocd"}, "--image, --tool and --probe require --flash"),
        ({"volts": 3}, "--volts, --marker-pin and --supply require --energy"),
        ({"supply": True, "energy": "none"}, "--volts, --marker-pin and --supply require"),
    ],
)
def test_a_wrong_value_is_an_error_in_python_too(options: dict[str, Any], said: str) -> None:
    with pytest.raises(UsageError, match=said):
        given_settings(options)


def test_the_compared_settings_are_recorded_with_the_same_defaults() -> None:
    compared = {setting.name for setting in SETTINGS.values() if setting.compared}
    facts = {"runtime", "build", "inputs", "kernels", "placed"}
    assert {*MeasurementSettings.__struct_fields__} == compared | facts
    assert RunRequest("b", Path("m"), 1, Path("o")).settings == MeasurementSettings()
    assert {field.name for field in dataclasses.fields(RunSettings)} <= {*SETTINGS}
