"""A platform of PlatformIO's that downloads nothing."""

from platformio.public import PlatformBase


class BarePlatform(PlatformBase):  # type: ignore[misc]
    """Named after platform.json."""
