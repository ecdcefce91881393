"""One browser for all tests, without a window: Debian's chromium."""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from pathlib import Path

import pytest
from selenium import webdriver
from selenium.webdriver.chrome.service import Service

from tests.support.browser import Browser, pages


@pytest.fixture(scope="session")
def files(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    """Reports to look at, by name."""
    return pages(tmp_path_factory.mktemp("pages"))


@pytest.fixture(scope="session")
def chromium(tmp_path_factory: pytest.TempPathFactory) -> Iterator[webdriver.Chrome]:
    binary, driver = shutil.which("chromium"), shutil.which("chromedriver")
    if binary is None or driver is None:
        pytest.skip("chromium and chromedriver are not installed; `tools/setup test` does that")
    options = webdriver.ChromeOptions()
    options.binary_location = binary
    options.set_capability("goog:loggingPrefs", {"browser": "ALL", "performance": "ALL"})
    for flag in ("headless=new", "no-sandbox", "disable-gpu", "disable-dev-shm-usage"):
        options.add_argument(f"--{flag}")
    options.add_argument(f"--user-data-dir={tmp_path_factory.mktemp('profile')}")
    chrome = webdriver.Chrome(options=options, service=Service(driver))
    chrome.set_script_timeout(60)
    yield chrome
    chrome.quit()


@pytest.fixture
def browser(chromium: webdriver.Chrome, files: dict[str, Path]) -> Iterator[Browser]:
    """The browser as a reader finds it; a page that complains fails its test."""
    found = Browser(chromium, files)
    found.reset()
    yield found
    assert found.complaints() == []
