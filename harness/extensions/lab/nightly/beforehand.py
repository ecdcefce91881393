"""What is wrong with a rack and a plan, found before a nightly run begins.

Each of these would fail in every run that it concerns: a model that a board cannot run, and a
port where nothing answers.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from dataclasses import replace
from pathlib import Path
from typing import Final

from harness.config.unit import Unit
from harness.decode.pte import ModelFile
from harness.errors import BusyError, HarnessError, Owner, PortError
from harness.extensions.lab.nightly.night import Prepared
from harness.extensions.lab.nightly.plan import NightUnit, model_file, options_of
from harness.link.transports import connect, device_path, is_probe, parse_address, plugin_scheme
from harness.plugins import DATASETS, TARGETS, load_extension
from harness.records.nightly import Trouble
from harness.runs.loading import place_model, read_model_file, require_runnable
from harness.runs.request import RunRequest
from harness.target.ports import device_of
from harness.target.selection import hold_if

_CONNECT_S: Final = 3.0
"""Longest wait for the server of a port."""

_OF_MODELS: Final = (
    "method",
    "placed",
    "data",
    "dataset",
    "steps",
    "state",
    "inputs",
    "references",
)
"""Settings that have to fit the model."""

_AT_ONCE: Final = 16
"""Ports that are tried at once."""


def misfits(prepared: Prepared) -> Iterator[Trouble]:
    """Yield an entry for each model and type of board that cannot run it, as far as is known here.

    Firmware that somebody else flashed describes itself when it runs.
    """
    plan, document = prepared.plan, prepared.document
    boards = {unit.board.name: unit.board for unit in prepared.units}
    for model in plan.model:
        options = options_of(plan, model).within(document.path.parent)
        of_model = {name: options[name] for name in _OF_MODELS if name in options}
        chosen = [name for name in boards if not model.boards or name in model.boards]
        for file in dict.fromkeys(model_file(document, model, v) for v in plan.variants):
            # The files are the same for every board, and read once.
            request = RunRequest("", file, 1, Path(), **of_model)
            try:
                read = read_model_file(request)
                _require_files(request, read)
            except HarnessError as error:
                yield _trouble(error)
                continue
            for name in chosen:
                try:
                    require_runnable(read, request.method_name, boards[name], request)
                    if request.placed:
                        place_model(read, boards[name])
                except HarnessError as error:
                    yield _trouble(error)


def _trouble(error: HarnessError) -> Trouble:
    return Trouble(owner=Owner.TEST, message=error.message, hint=error.hint or "")


def _require_files(request: RunRequest, model: ModelFile) -> None:
    """Check that samples and steps are complete and fit the model.

    Raises:
        UsageError: They do not.
    """
    if request.dataset is not None:
        load_extension(DATASETS, "npz", "--dataset is", "dataset").read_dataset(request, model)
    if request.steps is not None:
        states = load_extension(TARGETS, "state", "--steps and --state are", "state")
        method = model.method(request.method_name)
        states.read_steps(request.steps, request.method_name, method)


def unreachable(units: Iterable[NightUnit]) -> Iterator[Trouble]:
    """Yield an entry for each unit whose port is not there; nothing is sent to a board.

    A unit that somebody holds is left alone.
    """
    known = [unit.unit for unit in units if unit.unit is not None and not unit.started_here]
    with ThreadPoolExecutor(_AT_ONCE) as threads:
        for found in threads.map(_try_port, known):
            if found is not None:
                yield found


def _try_port(unit: Unit) -> Trouble | None:
    try:
        with suppress(BusyError), hold_if(unit, reason="a dry run", timeout_s=0.0):
            _find(unit)
    except HarnessError as error:
        message = f"{unit.id}: {error.message}"
        return Trouble(owner=error.owner, message=message, hint=error.hint or "")
    return None


def _find(unit: Unit) -> None:
    """Look for the port of a unit, and connect to its server without a word.

    Raises:
        PortError: It is not there.
    """
    if unit.port is None:
        return
    address = device_of(unit.port)
    if is_probe(address) or plugin_scheme(address) is not None:
        return  # only its own software can tell
    network = parse_address(address)
    if network is not None:
        server = replace(network, timeout_s=min(network.timeout_s, _CONNECT_S))
        connect(server, f"cannot reach {address}", "check its server and its power").close()
    elif not Path(device_path(address)).exists():
        raise PortError(
            f"serial port {address} does not exist",
            hint="check that it is plugged in and has power; `etharness lab ports` lists all ports",
        )
