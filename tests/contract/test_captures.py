"""ETDumps as recorders and serializers leave them: with colours, without padding, with a prefix."""

from __future__ import annotations

import base64
import json
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, assume, given, settings
from hypothesis import strategies as st

Etharness = Callable[..., Any]

CASES = Path(__file__).parents[1] / "fixtures/cases"
TRACE = CASES.parent / "kws_f32_executorch.etdp"


def events(etharness: Etharness, file: Path) -> Any:
    code, out, err = etharness("decode", file, "--json")
    assert code == 0, err
    return json.loads(out)["operators"]


@pytest.mark.parametrize("case", ["console_colour_reset.log", "console_unpadded.log"])
def test_a_capture_holds_the_dump_that_was_printed(etharness: Etharness, case: str) -> None:
    assert events(etharness, CASES / case) == events(etharness, TRACE)


def capture(dump: bytes, line: Callable[[str], str], *, padded: bool = True) -> bytes:
    text = base64.b64encode(dump).decode()
    text = text if padded else text.rstrip("=")
    words = f'#[RUN THIS]\necho "{text}" | base64 -d >etdump.bin\n#[END]\n'
    return "".join(f"{line(each)}\n" for each in re.findall(".{1,100}", words)).encode()


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture], max_examples=20)
@given(
    begin=st.sampled_from(["", "\x1b[32m", "\x1b[0;1;31m"]),
    end=st.sampled_from(["\x1b[0m", "\x1b[m\x1b[K"]),
    at=st.integers(0, 100),
)
def test_colours_anywhere_in_a_line_are_no_data(
    etharness: Etharness, tmp_path: Path, begin: str, end: str, at: int
) -> None:
    file = tmp_path / "console.log"
    # Before base64 begins, and from the command on, other text would be another command.
    file.write_bytes(
        capture(
            TRACE.read_bytes(),
            lambda line: line if "echo" in line else f"{begin}{line[:at]}{end}{line[at:]}",
        )
    )
    assert events(etharness, file) == events(etharness, TRACE)


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture], max_examples=20)
@given(data=st.data())
def test_a_lost_character_is_not_taken_for_missing_padding(
    etharness: Etharness, tmp_path: Path, data: st.DataObject
) -> None:
    file = tmp_path / "console.log"
    whole = capture(TRACE.read_bytes(), str, padded=False)
    file.write_bytes(whole)
    assert events(etharness, file) == events(etharness, TRACE)
    at = data.draw(st.integers(whole.index(b'echo "') + 30, whole.index(b'" |') - 1))
    assume(whole[at : at + 1] != b"\n")
    file.write_bytes(whole[:at] + whole[at + 1 :])
    code, _, err = etharness("decode", file)
    assert code == 2
    assert "console capture" in err or "in the dump at byte" in err


def test_a_dump_that_was_serialized_with_a_prefix(etharness: Etharness, tmp_path: Path) -> None:
    """Its fields are aligned behind the prefix; the same dump without the prefix is the same."""
    file = CASES / "serialized_with_prefix.etdp"
    bare = tmp_path / "bare.etdp"
    bare.write_bytes(file.read_bytes()[4:])
    assert events(etharness, file) == events(etharness, bare)


@pytest.mark.parametrize("recorded", [TRACE, CASES / "serialized_with_prefix.etdp"])
@pytest.mark.parametrize("added", [0, 4])
def test_the_size_of_a_dump_says_nothing_of_its_alignment(
    etharness: Etharness, tmp_path: Path, recorded: Path, added: int
) -> None:
    """The device library's writer ends a dump at a multiple of 4 bytes, others at one of 8."""
    bare = recorded.read_bytes()[4:] + bytes(added)
    prefixed, unprefixed = tmp_path / "prefixed.etdp", tmp_path / "bare.etdp"
    prefixed.write_bytes(len(bare).to_bytes(4, "little") + bare)
    unprefixed.write_bytes(bare)
    expected = events(etharness, recorded)
    assert events(etharness, prefixed) == events(etharness, unprefixed) == expected
