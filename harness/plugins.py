"""Parts that other packages add through entry points; each is loaded when it is named."""

from __future__ import annotations

from importlib.metadata import EntryPoint, entry_points
from typing import Final

from harness.errors import UsageError

FLASH_TOOLS: Final = "etharness.flash_tools"
EXPORTERS: Final = "etharness.exporters"
TRANSPORTS: Final = "etharness.transports"
REPORTS: Final = "etharness.reports"


def plugin_names(group: str) -> list[str]:
    """Names in an entry-point group, sorted; nothing is imported."""
    return sorted({point.name for point in entry_points(group=group)})


def load_plugin(group: str, name: str) -> object | None:
    """Import the plugin with this name; None if no installed package has one.

    Args:
        group: The entry-point group.
        name: The name in that group.

    Raises:
        UsageError: Two packages have a plugin with this name, or the import failed; the message
            names the package.
    """
    points = [*entry_points(group=group, name=name)]
    if not points:
        return None
    if len({point.value for point in points}) > 1:
        packages = " and ".join(sorted(_package(point) for point in points))
        raise UsageError(
            f"plugin {name!r} ({group}) is ambiguous: {packages} have one",
            hint="uninstall one of them",
        )
    point = points[0]
    try:
        plugin: object = point.load()
    except Exception as error:  # a plugin may raise anything on import
        raise UsageError(
            f"cannot load plugin {name!r} ({group}) of package {_package(point)}: "
            f"{type(error).__name__}: {error}",
            hint=f"update or uninstall {_package(point)}",
        ) from error
    return plugin


def unfit_plugin(group: str, name: str, expected: str) -> UsageError:
    """The error for a plugin that was imported but is not what its group requires."""
    packages = {_package(point) for point in entry_points(group=group, name=name)}
    return UsageError(
        f"plugin {name!r} ({group}) of package {', '.join(sorted(packages))} is not {expected}",
        hint="see `etharness explain plugins` for what each group requires",
    )


def _package(point: EntryPoint) -> str:
    return point.dist.name if point.dist is not None else point.value
