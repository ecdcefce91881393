"""The schemas of JUnit XML that CI systems hold a report to."""

from __future__ import annotations

from pathlib import Path
from typing import Final

from lxml import etree

_FIXTURES: Final = Path(__file__).parent.parent / "fixtures"
SCHEMAS: Final = {
    name: etree.XMLSchema(file=str(_FIXTURES / f"junit_{name}.xsd")) for name in ("ant", "jenkins")
}
"""Schemas by the program that reads by them."""


def assert_valid(document: bytes) -> None:
    """Fail with the first violation of either schema."""
    for schema in SCHEMAS.values():
        schema.assertValid(etree.fromstring(document))
