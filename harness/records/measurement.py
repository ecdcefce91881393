"""MeasurementSettings: what changes the measured numbers without changing what is tested."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final

import msgspec

from harness.files import decode_json
from harness.records.run_settings import SETTINGS

BUNDLED_KERNELS: Final = "bundled C kernels"
"""Name of the bundled kernel library in HELLO."""


class MeasurementSettings(msgspec.Struct, frozen=True, omit_defaults=True):
    """How a run was measured. Numbers are comparable only between equal settings.

    Attributes:
        values: Values that were logged, as for ``--values``.
        profile: Events that were logged, as for ``--profile``.
        when_full: Behavior of a full log, as for ``--when-full``.
        stream: Whether the log was sent during the run.
        trace_limit: Bytes of log that the device could use; 0 for all of its buffer.
        runtime: Runtime and kernel library of firmware built by the harness: ``etharness`` or
            ``executorch``; "" for firmware that was on the board.
        build: Build type of this firmware, the name of its CMake preset; "" likewise.
        kernels: Kernel library that the firmware reports: "" for the bundled C kernels, ``unknown``
            if it reports none.
        placed: Whether the model was in the firmware image, in flash, instead of RAM.
        counters: Hardware counters that were read at each event, as for ``--counters``.
        inputs: Sizes of the inputs whose shape is dynamic, such as ``0: 1x8``.
        state: What mutable buffers contained at the start of executions, as for ``--state``; those
            of a run that reset them by itself are ``reset``.
    """

    values: str = "none"
    profile: str = "all"
    when_full: str = "stop"
    stream: bool = False
    trace_limit: int = 0
    runtime: str = ""
    build: str = ""
    inputs: str = ""
    kernels: str = ""
    placed: bool = False
    counters: str = ""
    state: str = "auto"

    @property
    def key(self) -> str:
        """The settings as canonical JSON: equal exactly for equal settings.

        Defaults are left out, so a setting that a later version adds does not change it.
        """
        return msgspec.json.encode(self).decode()

    def __str__(self) -> str:
        """The firmware, and the settings that differ from the default, as on the command line."""
        default = MeasurementSettings(runtime=self.runtime, build=self.build)
        firmware = _described(self, FIRMWARE) if self.runtime or self.build else [_BUILT_ELSEWHERE]
        return ", ".join([*firmware, *_described(self, _differing(self, default))])


NEITHER_RECORDED: Final = "no settings of either are recorded"


class SettingsDifference(msgspec.Struct, frozen=True):
    """How two runs differ in their measurement settings.

    Attributes:
        alike: Whether all settings are equal; null if some are unknown of both, or not recorded.
        options: Settings that differ, by the names of their options; ``runtime``, ``build preset``
            and ``inputs`` have none.
        before: These settings of the first run, as text.
        after: Likewise of the second run.
        unknown: Why ``alike`` is null; "" if it is not.
    """

    alike: bool | None = None
    options: tuple[str, ...] = ()
    before: str = ""
    after: str = ""
    unknown: str = NEITHER_RECORDED


UNRECORDED: Final = ""
"""The key of results without recorded settings, of versions that did not record them."""

FIRMWARE: Final[tuple[str, ...]] = ("runtime", "build")
"""Settings that are unknown ("") of firmware that this tool did not build."""

_COMPARED: Final = {
    name: SETTINGS[name]
    for name in MeasurementSettings.__struct_fields__
    if name in SETTINGS and SETTINGS[name].compared
}
"""Settings of a run that make results comparable if they are equal, in the order of the record."""

_WORDS: Final = {
    "runtime": "runtime {}",
    "build": "build preset {}",
    **{
        name: setting.flag if setting.default is False else f"{setting.flag} {{}}"
        for name, setting in _COMPARED.items()
    },
    "inputs": "inputs of size {}",
    "kernels": "kernels {}",
    "placed": "the model in the firmware image",
}

_OFF: Final = {
    **{name: f"no {setting.flag}" for name, setting in _COMPARED.items() if not setting.default},
    "runtime": "runtime unknown (firmware built elsewhere)",
    "build": "build preset unknown (firmware built elsewhere)",
    "inputs": "inputs of unknown size",
    "kernels": BUNDLED_KERNELS,
    "placed": "the model uploaded to RAM",
}
"""Texts of settings that are not set."""

_BUILT_ELSEWHERE: Final = "runtime and build preset unknown (firmware built elsewhere)"


def settings_key(settings: MeasurementSettings | None) -> str:
    """Return the key of settings; ``UNRECORDED`` if they are not known."""
    return UNRECORDED if settings is None else settings.key


def settings_of_key(key: str) -> MeasurementSettings | None:
    """Return the settings of a key; None for ``UNRECORDED``."""
    return None if key == UNRECORDED else decode_json(key, type_=MeasurementSettings)


def describe_settings(settings: MeasurementSettings | None) -> str:
    """Return settings as text, also those that were not recorded."""
    return "settings that were not recorded" if settings is None else str(settings)


def describe_each(several: Sequence[MeasurementSettings | None]) -> list[str]:
    """Return for each settings those that are not the same in all, as text; all if none differ."""
    known = {settings.key: settings for settings in several if settings is not None}
    names = _differing(*known.values())
    if not names:
        return [describe_settings(settings) for settings in several]
    return [
        describe_settings(None) if one is None else ", ".join(_described(one, names))
        for one in several
    ]


def describe_difference(
    old: MeasurementSettings | None, new: MeasurementSettings | None
) -> tuple[str, str]:
    """Return the settings in which two measurements differ, as text for each of them."""
    if old is None or new is None:
        return describe_settings(old), describe_settings(new)
    names = _differing(old, new)
    return ", ".join(_described(old, names)), ", ".join(_described(new, names))


def compare_settings(
    old: MeasurementSettings | None, new: MeasurementSettings | None
) -> SettingsDifference:
    """Return how two measurements differ; unknown settings are never equal to others."""
    if old is None and new is None:
        return SettingsDifference()
    if old is None or new is None:
        which = "first" if old is None else "second"
        return SettingsDifference(unknown=f"the settings of the {which} are not recorded")
    if names := _differing(old, new):
        before, after = describe_difference(old, new)
        options = tuple(_WORDS[name].partition(" {}")[0].partition(" of ")[0] for name in names)
        return SettingsDifference(False, options, before, after, unknown="")
    if all(getattr(old, name) for name in FIRMWARE):
        return SettingsDifference(True, unknown="")
    return SettingsDifference(unknown=f"{_BUILT_ELSEWHERE}, in both runs")


def _differing(*several: MeasurementSettings) -> list[str]:
    return [name for name in _WORDS if len({getattr(one, name) for one in several}) > 1]


def _described(settings: MeasurementSettings, names: Sequence[str]) -> list[str]:
    texts = []
    for name in names:
        value: Any = getattr(settings, name)
        texts.append(_WORDS[name].format(value) if value or name not in _OFF else _OFF[name])
    return texts
