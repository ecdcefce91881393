"""What labgrid's client prints is read back as it was, whatever names and comments hold."""

from __future__ import annotations

import time

import pytest
from hypothesis import given
from hypothesis import strategies as st

from harness import InfrastructureError
from harness.extensions.lab.labgrid import Identity, LabgridPlace, read_places, read_resources

CLOCKS_DIFFER_S = 60

WORDS = st.text(st.characters(exclude_categories=["Cs", "Cc", "Zl", "Zp"]), min_size=1)
TAGS = st.text("abz_09", min_size=1, max_size=5)
DIGITS = "0123456789abcdef"
SPOILT = st.lists(
    st.sampled_from(["  acquired: None", "Place 'one':", "  matches:", "", "text"]), max_size=4
).map("\n".join)
HOLDERS = st.builds(
    Identity,
    node=st.text("a-. é", min_size=1),
    user=st.text("a~-. é", min_size=1),
    pid=st.integers(0, 2**31),
    started=st.integers(0, 2**63),
    system=st.text(DIGITS, min_size=12, max_size=12),
    since=st.integers(0, 10**11),
    until=st.integers(0, 10**11),
    nonce=st.text(DIGITS, min_size=8, max_size=8),
)
PLACES = st.builds(
    LabgridPlace,
    name=WORDS,
    tags=st.dictionaries(TAGS, TAGS, max_size=3),
    acquired=st.just("") | st.just("bench/me") | HOLDERS.map(str),
    allowed=st.lists(TAGS.map("{}/me".format), max_size=3).map(tuple),
    changed=st.just("2026-11-22 00:58:07.465736"),
    reserved=st.sampled_from(["", "ABC123"]),
)


def printed(place: LabgridPlace, comment: str) -> str:
    """As labgrid 26.0 prints a place."""
    lines = [f"Place '{place.name}':", "  aliases: a, b"]
    lines += [f"  comment: {comment}"] if comment else []
    tags = ", ".join(f"{key}={value}" for key, value in sorted(place.tags.items()))
    lines += [f"  tags: {tags}"] if tags else []
    lines += ["  matches:", "    rack/one/NetworkSerialPort -> console"]
    lines += [f"  acquired: {place.acquired or None}", "  acquired resources:"]
    lines += ["    rack/one/NetworkSerialPort/NetworkSerialPort"] if place.acquired else []
    lines += [f"  allowed: {', '.join(place.allowed)}"] if place.allowed else []
    lines += ["  created: 2026-11-22 00:58:02.365007", f"  changed: {place.changed}"]
    lines += [f"  reservation: {place.reserved}"] if place.reserved else []
    return "\n".join(lines) + "\n"


@given(st.lists(st.tuples(PLACES, SPOILT), max_size=3))
def test_places_are_read_as_they_are(places: list[tuple[LabgridPlace, str]]) -> None:
    text = "".join(printed(place, comment) for place, comment in places)
    assert read_places(text) == [place for place, _ in places]


@given(HOLDERS)
def test_who_holds_a_place_is_read_from_its_name(holder: Identity) -> None:
    assert Identity.parse(str(holder)) == holder
    assert "/" not in holder.host


@given(st.text() | st.text("~/etharnes0123456789abcdef"))
def test_nobody_else_is_taken_for_one_of_us(name: str) -> None:
    found = Identity.parse(name)
    assert found is None or str(found) == name


@given(HOLDERS, st.sampled_from(["pid", "started", "since", "until"]), st.sampled_from("0٣"))
def test_numbers_that_this_package_does_not_write_are_somebody_elses(
    holder: Identity, field: str, digit: str
) -> None:
    number = f"~{getattr(holder, field)}~"
    spoilt = str(holder).replace(number, f"~{digit}{number[1:]}")
    assert Identity.parse(spoilt) is None


@given(HOLDERS, st.lists(st.integers(0, 10**11)))
@pytest.mark.slow
def test_it_ends_when_it_was_last_said_to(holder: Identity, later: list[int]) -> None:
    ends = max([holder.until, *later])
    allowed = [holder.prolonged(until) for until in later]
    assert holder.ends(["bench/me", *allowed]) == ends
    assert bool(holder.is_over(allowed)) == (ends + CLOCKS_DIFFER_S < time.time())


@given(st.integers(-30, 30))
def test_a_process_that_lives_keeps_its_place_for_its_term(term_s: int) -> None:
    assert not Identity.new(term_s).is_over([])  # clocks may differ by more than that


@given(st.text(min_size=1))
def test_anything_else_is_refused(text: str) -> None:
    with pytest.raises(InfrastructureError, match="unknown output"):
        read_places(text)
    with pytest.raises(InfrastructureError, match="unknown output"):
        read_resources(
            printed(LabgridPlace("one"), "") + f"Acquired resource 'a' (b):\n  {text!r}\n"
        )
