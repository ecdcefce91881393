"""What several tests beside ExecuTorch share, as it takes seconds to make."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from tests.support.dumps import Generator
    from tests.support.exported import Exported


@pytest.fixture(scope="session")
def portable_model(tmp_path_factory: pytest.TempPathFactory) -> Exported:
    """A program of portable kernels."""
    from tests.support.exported import export

    return export(tmp_path_factory.mktemp("portable"), "portable")


@pytest.fixture(scope="session")
def xnnpack_model(tmp_path_factory: pytest.TempPathFactory) -> Exported:
    """The same network, delegated to XNNPACK as far as that takes it."""
    from tests.support.exported import export

    return export(tmp_path_factory.mktemp("xnnpack"), "xnnpack", delegated=True)


@pytest.fixture(scope="session")
def generator(tmp_path_factory: pytest.TempPathFactory) -> Generator:
    """ETDumpGen, told what to log."""
    from tests.support.dumps import Generator

    return Generator(tmp_path_factory.mktemp("etdumpgen"))
