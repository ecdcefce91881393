"""What an installation may lack: plugins and optional libraries.

Plugins are what extensions and other packages add through entry points; each is loaded when it is
named. An extension of this package can be deleted with its folder: its entry points then count as
absent.
"""

from __future__ import annotations

import importlib
import sys
from functools import cache
from typing import TYPE_CHECKING, Any, Final

from harness.errors import UsageError

if TYPE_CHECKING:
    from importlib.metadata import EntryPoint, EntryPoints

BUDGETS: Final = "etharness.budgets"
CAPTURES: Final = "etharness.captures"
COMMANDS: Final = "etharness.commands"
CONTAINERS: Final = "etharness.containers"
DATASETS: Final = "etharness.datasets"
DELEGATES: Final = "etharness.delegates"
DOCUMENTS: Final = "etharness.documents"
EXPLANATIONS: Final = "etharness.explanations"
FLASH_TOOLS: Final = "etharness.flash_tools"
EXPORTERS: Final = "etharness.exporters"
INSPECTORS: Final = "etharness.inspectors"
KERNELS: Final = "etharness.kernels"
METERS: Final = "etharness.meters"
TARGETS: Final = "etharness.targets"
TRANSPORTS: Final = "etharness.transports"
POSTMORTEMS: Final = "etharness.postmortems"
PROGRAM_DATA: Final = "etharness.program_data"
LIVE: Final = "etharness.live"
LEASES: Final = "etharness.leases"
LINES: Final = "etharness.lines"
REPORTS: Final = "etharness.reports"
INSTANTS: Final = "etharness.instants"
SECTIONS: Final = "etharness.sections"
SITES: Final = "etharness.sites"

_OURS: Final = "harness.extensions."


def plugin_names(group: str) -> list[str]:
    """Names in an entry-point group, sorted; nothing is imported."""
    return sorted({point.name for point in _points(group)})


def is_extension(group: str, name: str) -> bool:
    """Return whether a name is of an extension of this package, whose import is cheap and safe."""
    return any(point.name == name and point.module.startswith(_OURS) for point in _points(group))


def is_deleted(group: str, name: str) -> bool:
    """Return whether a plugin is of an extension of this package that has been deleted."""
    if name in plugin_names(group):  # of another package
        return False
    return any(point.name == name for point in _declared(group, tuple(sys.path)))


def load_plugin(group: str, name: str) -> object | None:
    """Import the plugin with this name; None if no installed package has one.

    Args:
        group: The entry-point group.
        name: The name in that group.

    Raises:
        UsageError: Two packages have a plugin with this name, or the import failed; the message
            names the package.
    """
    points = [point for point in _points(group) if point.name == name]
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


def load_extension(group: str, name: str, feature: str, extension: str) -> Any:
    """Import a plugin that an extension of this package has.

    Args:
        group: The entry-point group.
        name: The name in that group.
        feature: What it does, with a verb, for the message: "debug probes are".
        extension: The folder of the extension, for the hint; other remedies may follow.

    Raises:
        UsageError: It is not installed, or as `load_plugin`.
    """
    plugin = load_plugin(group, name)
    if plugin is None:
        raise UsageError(
            f"{feature} not supported by this installation",
            hint=extension_remedy(extension),
        )
    return plugin


def extension_remedy(extension: str) -> str:
    """Return what to do about an extension of this package that is not installed."""
    return f"install etdump-harness with its extension {extension}"


def unfit_plugin(group: str, name: str, expected: str) -> UsageError:
    """The error for a plugin that was imported but is not what its group requires."""
    packages = {_package(point) for point in _points(group) if point.name == name}
    return UsageError(
        f"plugin {name!r} ({group}) of package {', '.join(sorted(packages))} is not {expected}",
        hint="see `etharness explain plugins` for what each group requires",
    )


def _points(group: str) -> list[EntryPoint]:
    return [point for point in _declared(group, tuple(sys.path)) if not _is_deleted(point)]


@cache
def _declared(group: str, _path: tuple[str, ...]) -> EntryPoints:
    """Return the entry points that packages on the path declare; reading them takes 10 ms."""
    # A tenth of what a small command takes to start, and most commands use no plugin.
    from importlib.metadata import entry_points

    return entry_points(group=group)


def _is_deleted(point: EntryPoint) -> bool:
    """Return whether it is of an extension whose folder has been deleted."""
    from importlib.util import find_spec

    folder = ".".join(point.module.split(".")[:3])
    return point.module.startswith(_OURS) and find_spec(folder) is None


def _package(point: EntryPoint) -> str:
    return point.dist.name if point.dist is not None else point.value


def require(extra: str, feature: str, *modules: str) -> list[Any]:
    """Import and return ``modules`` of an extra.

    Args:
        extra: Name of the extra, as in ``pip install 'etdump-harness[extra]'``.
        feature: The feature that needs them; begins the error message.
        modules: Module names.

    Raises:
        UsageError: A module is not installed.
    """
    try:
        return [importlib.import_module(name) for name in modules]
    except ImportError as error:
        raise UsageError(
            f"{feature} needs a package that is not installed: {error}",
            hint=f"pip install 'etdump-harness[{extra}]'",
        ) from None
