"""docs/attacks.md is about the tests that there are."""

from __future__ import annotations

from benchmarks.attacks import PAGE, declared


def test_every_attack_has_its_row_and_every_row_its_test() -> None:
    attacks = declared()
    rows = [line for line in PAGE.read_text().splitlines() if line.endswith(".py` |")]
    shown = [
        (f"| {attack.tried} | {attack.promised} |", f"| `{attack.test}` in `{attack.file}` |")
        for attack in attacks
    ]
    assert len(attacks) >= 60
    assert len(rows) == len(shown)
    for row, (begin, end) in zip(rows, shown, strict=True):
        assert row.startswith(begin), "run python -m benchmarks.attacks"
        assert row.endswith(end), "run python -m benchmarks.attacks"


def test_no_promise_was_broken_when_the_page_was_written() -> None:
    page = PAGE.read_text()
    assert "did not hold" not in page
    assert page.count("| held") >= 60
