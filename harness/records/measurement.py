"""MeasurementSettings: what changes the measured numbers without changing what is tested."""

from __future__ import annotations

from typing import Any, Final

import msgspec

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
        inputs: Sizes of the inputs whose shape is dynamic, such as ``0: 1x8``.
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

    @property
    def key(self) -> str:
        """The settings as canonical JSON: equal exactly for equal settings.

        Defaults are left out, so a setting that a later version adds does not change it.
        """
        return msgspec.json.encode(self).decode()

    def __str__(self) -> str:
        """The settings that differ from the default, as on the command line."""
        default = MeasurementSettings(runtime=self.runtime, build=self.build)
        names = [name for name in _WORDS if getattr(self, name) != getattr(default, name)]
        return ", ".join(_described(self, names)) or DEFAULT_TEXT


DEFAULT_TEXT: Final = "default settings"

UNRECORDED: Final = ""
"""The key of results without recorded settings, of versions that did not record them."""

_WORDS: Final = {
    "values": "--values {}",
    "profile": "--profile {}",
    "when_full": "--when-full {}",
    "stream": "--stream",
    "trace_limit": "--trace-limit {}",
    "runtime": "runtime {}",
    "build": "build preset {}",
    "inputs": "inputs of size {}",
    "kernels": "kernels: {}",
    "placed": "the model in the firmware image",
}

_OFF: Final = {
    "stream": "no --stream",
    "trace_limit": "no --trace-limit",
    "runtime": "an unknown runtime",
    "build": "an unknown build",
    "inputs": "inputs of unknown size",
    "kernels": BUNDLED_KERNELS,
    "placed": "the model uploaded to RAM",
}
"""Texts of settings that are not set."""


def settings_key(settings: MeasurementSettings | None) -> str:
    """Return the key of settings; ``UNRECORDED`` if they are not known."""
    return UNRECORDED if settings is None else settings.key


def settings_of_key(key: str) -> MeasurementSettings | None:
    """Return the settings of a key; None for ``UNRECORDED``."""
    return None if key == UNRECORDED else msgspec.json.decode(key, type=MeasurementSettings)


def describe_settings(settings: MeasurementSettings | None) -> str:
    """Return settings as text, also those that were not recorded."""
    return "settings that were not recorded" if settings is None else str(settings)


def describe_difference(
    old: MeasurementSettings | None, new: MeasurementSettings | None
) -> tuple[str, str]:
    """Return the settings in which two measurements differ, as text for each of them."""
    if old is None or new is None:
        return describe_settings(old), describe_settings(new)
    names = [name for name in _WORDS if getattr(old, name) != getattr(new, name)]
    return ", ".join(_described(old, names)), ", ".join(_described(new, names))


def _described(settings: MeasurementSettings, names: list[str]) -> list[str]:
    texts = []
    for name in names:
        value: Any = getattr(settings, name)
        texts.append(_WORDS[name].format(value) if value or name not in _OFF else _OFF[name])
    return texts
