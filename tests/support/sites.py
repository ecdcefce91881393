"""A history with everything that a site shows: nights on two boards, with changes planted."""

from __future__ import annotations

from pathlib import Path

import numpy as np

from harness import Decision, Failure, MeasurementSettings, Metric, open_store
from harness.history.store import Store
from tests.support.results import made, trace_with, unmet

NIGHTS = 12
SETTINGS = MeasurementSettings(runtime="etharness", build="release")
OPERATORS = ("native_call_conv.out", "native_call_add.out", "native_call_softmax.out")
SLOWER_FROM = 9
"""The night from which a convolution of kws on board-a takes a fifth longer, and fails."""
ACCEPTED_FROM = 4
"""The night from which an addition of kws on board-b takes longer, which somebody accepted."""


def commit_of(night: int) -> str:
    return f"{(night + 1) * 0x9E3779B1 % 2**32:08x}" * 5


def started(night: int, minute: int = 0) -> str:
    return f"2026-11-{1 + night:02}T01:{minute:02}:00+00:00"


def site_history(path: Path, nights: int = NIGHTS) -> Path:
    """Make the history in a new file."""
    with open_store(str(path)) as store:
        add_nights(store, range(nights))
        if nights > ACCEPTED_FROM:
            accept(store)
    return path


def add_nights(store: Store, nights: range) -> None:
    """Add results: of ``gone`` only in the first nights."""
    for night in nights:
        for place, (model, board) in enumerate(
            (m, b) for m in ("kws", "vww") for b in ("board-a", "board-b")
        ):
            add_result(store, night, place, model, board)
        if night < NIGHTS - 4:
            add_result(store, night, 8, "gone", "board-a")


def add_result(store: Store, night: int, place: int, model: str, board: str) -> None:
    random = np.random.default_rng([night, place])
    levels = {name: 40_000.0 * (number + 1) for number, name in enumerate(OPERATORS)}
    checks = ()
    if (model, board) == ("kws", "board-a") and night >= SLOWER_FROM:
        levels[OPERATORS[0]] *= 1.2
        checks = (unmet("H01"),)
    if (model, board) == ("kws", "board-b") and night >= ACCEPTED_FROM:
        levels[OPERATORS[1]] *= 1.1
    if (model, board) == ("vww", "board-a") and night == NIGHTS - 2:
        checks = (unmet("B01"),)  # passes again in the last night
    shared = 1 + 0.002 * random.standard_normal()
    times = {
        name: [int(level * shared * (1 + 0.002 * random.standard_normal())) for _ in range(5)]
        for name, level in levels.items()
    }
    times["Method::execute"] = [sum(some) + 500 for some in zip(*times.values(), strict=True)]
    facts = {
        "board": board,
        "model": f"{model}.pte",
        "unit": f"{board}-1",
        "session": f"night {night:02}/1",
        "commit": commit_of(night),
        "started_utc": started(night, place),
        "settings": SETTINGS,
        "runs_requested": 5,
        "runs_completed": 5,
    }
    own_id = f"{night:02}-{place}"
    if (model, board) == ("vww", "board-b") and night == NIGHTS - 1:
        failure = Failure("LinkError", "the board did not answer for 5 s", "")
        item = made(own_id, **facts, failure=failure, exit_code=75, verdict=None)
        store.add(item.result)
        return
    larger = 2_000 if (model, board) == ("vww", "board-a") and night == NIGHTS - 1 else 0
    item = made(own_id, trace_with(times, allocated=30_000 + larger), **facts, checks=checks)
    store.add(item.result, item.subject)


def accept(store: Store) -> None:
    """Accept the change on board-b."""
    of = ("board-b", "kws.pte", "forward")
    metric = next(
        series.metric for series in store.history(*of).series if series.metric.name == OPERATORS[1]
    )
    decision = Decision(
        kind="accepted",
        unit="board-b-1",
        metric=Metric(**{**_fields(metric), "statistic": ""}),
        since_utc=started(ACCEPTED_FROM, 1),
        at_utc=started(ACCEPTED_FROM, 1),
        reason="exact rounding now",
        who="jane",
        made_utc=started(ACCEPTED_FROM, 50),
    )
    store.record_decisions(*of, SETTINGS.key, [decision])


def _fields(metric: Metric) -> dict[str, object]:
    return {name: getattr(metric, name) for name in metric.__struct_fields__}


WIDE_MODELS = [
    *("kws", "vww", "ad", "ic", "gestures", "har", "wakeword", "denoise", "vad", "speaker_id"),
    *("face_landmarks", "hand_pose", "segment_small", "depth_tiny", "ocr_line", "barcode"),
    *("person_detect", "traffic_sign", "plant_disease", "bird_call", "ecg_beat", "ppg_rate"),
    *("fall_detect", "gait", "motor_fault", "bearing_fft", "power_quality", "leak_sound"),
    *("door_state", "room_count"),
]
"""As many models as have to fit on a screen."""
WIDE_BOARDS = ("nucleo-f446re", "mimxrt1060-evk", "qemu-mps2-an385")
WIDE_NIGHTS = 9
WIDE_SLOWER = 6
"""The night from which a convolution of many models takes longer, on all boards."""
WIDE_HIT = WIDE_MODELS[:6]


def wide_history(path: Path, nights: int = WIDE_NIGHTS) -> Path:
    """Make a history of 30 models on three boards, of which one commit slows many down.

    In the last two nights a board does not answer. A model is faster since a night, one needs more
    memory, and one fails.
    """
    with open_store(str(path)) as store:
        for night in range(nights):
            for place, model in enumerate(WIDE_MODELS):
                for at, board in enumerate(WIDE_BOARDS):
                    _add_wide(store, night, nights, place, at, model, board)
    return path


def _add_wide(
    store: Store, night: int, nights: int, place: int, at: int, model: str, board: str
) -> None:
    random = np.random.default_rng([night, place, at])
    level = 30_000.0 * (1 + place % 7) * (1 + at)
    levels = {name: level * (number + 1) for number, name in enumerate(OPERATORS)}
    checks = ()
    if model in WIDE_HIT and night >= WIDE_SLOWER:
        levels[OPERATORS[0]] *= 1.35
    if model == "barcode" and night >= nights - 3:
        levels[OPERATORS[1]] *= 0.7
    if (model, at) == ("ocr_line", 1) and night >= nights - 1:
        checks = (unmet("B01"),)
    shared = 1 + 0.002 * random.standard_normal()
    times = {
        name: [int(value * shared * (1 + 0.002 * random.standard_normal())) for _ in range(3)]
        for name, value in levels.items()
    }
    times["Method::execute"] = [sum(some) + 500 for some in zip(*times.values(), strict=True)]
    facts = {
        "board": board,
        "model": f"{model}.pte",
        "unit": f"{board}-1" if at < 2 else board,
        "session": f"nightly-{night:02}",
        "commit": commit_of(night),
        "started_utc": started(night, (3 * place + at) % 60),
        "settings": SETTINGS,
        "runs_requested": 3,
        "runs_completed": 3,
    }
    own_id = f"{night:02}-{place}-{at}"
    if at == 1 and place % 2 and night >= nights - 2:
        failure = Failure("LinkError", "the board did not answer for 5 s", "")
        store.add(made(own_id, **facts, failure=failure, exit_code=75, verdict=None).result)
        return
    larger = 4_000 if model == "gait" and night >= nights - 2 else 0
    item = made(own_id, trace_with(times, allocated=30_000 + larger), **facts, checks=checks)
    store.add(item.result, item.subject)
