"""Firmware images: what one format says, the others say, too; and objcopy reads it the same."""

from __future__ import annotations

import struct
from pathlib import Path

import pytest
from hypothesis import HealthCheck, assume, given, settings
from hypothesis import strategies as st

from harness import FormatError, Image, ImageFormat, Segment, UsageError, read_image

IN_ONE_FOLDER = settings(suppress_health_check=[HealthCheck.function_scoped_fixture])
RP2350_ARM = 0xE48BFF59


@st.composite
def segment_lists(draw: st.DrawFn) -> tuple[Segment, ...]:
    """Pieces of up to 1,000 bytes with gaps between them, somewhere in 32 bits."""
    address = draw(st.integers(0, 2**32 - 2**17))
    segments = []
    for data in draw(st.lists(st.binary(min_size=1, max_size=1000), min_size=1, max_size=5)):
        segments.append(Segment(address, data))
        address += len(data) + draw(st.integers(1, 10_000))
    return tuple(segments)


def image_of(segments: tuple[Segment, ...]) -> Image:
    return Image(Path("made.elf"), ImageFormat.ELF, segments, "")


def elf32(segments: tuple[Segment, ...], *, shift: int = 0) -> bytes:
    """An ELF file without sections, as a program loader sees it; stored at LMA, run elsewhere."""
    header = 52 + 32 * len(segments)
    programs, body = b"", b""
    for address, data in segments:
        place = (header + len(body), (address + shift) & 0xFFFFFFFF, address)
        programs += struct.pack("<IIIIIIII", 1, *place, len(data), len(data) + 16, 5, 1)
        body += data
    start = b"\x7fELF\x01\x01\x01" + bytes(9)
    fields = (2, 40, 1, 0, 52, 0, 0, 52, 32, len(segments), 40, 0, 0)
    return start + struct.pack("<HHIIIIIHHHHHH", *fields) + programs + body


@given(segment_lists(), st.integers(0, 2**31))
@IN_ONE_FOLDER
def test_every_format_keeps_bytes_and_load_addresses(
    tmp_path: Path, segments: tuple[Segment, ...], shift: int
) -> None:
    image = image_of(segments)
    contents = {
        "image.elf": elf32(segments, shift=shift),
        "image.hex": image.as_hex(),
        "image.uf2": image.as_uf2(RP2350_ARM),
    }
    for name, data in contents.items():
        (tmp_path / name).write_bytes(data)
        read = read_image(tmp_path / name)
        assert read.segments == segments
        assert read.format == name.removeprefix("image.")


@given(segment_lists())
@IN_ONE_FOLDER
def test_a_flat_image_has_each_byte_at_its_distance_from_the_first(
    tmp_path: Path, segments: tuple[Segment, ...]
) -> None:
    flat = image_of(segments).as_bin()
    # The first bytes say which format a file has, whatever its suffix is.
    assume(not flat.startswith((b"\x7fELF", b":", b"UF2\n")))
    begin = segments[0].address
    covered = 0
    for segment in segments:
        place = segment.address - begin
        assert flat[place : place + len(segment.data)] == segment.data
        covered += len(segment.data)
    assert len(flat) == segments[-1].end - begin
    assert flat.count(0xFF) >= len(flat) - covered
    (tmp_path / "flat.bin").write_bytes(flat)
    read = read_image(tmp_path / "flat.bin")
    assert not read.placed
    assert read.at(begin).segments == (Segment(begin, flat),)


@pytest.mark.attack(
    "Files",
    "an ELF, HEX or UF2 image that is truncated or changed",
    "refused, or the same bytes are flashed",
)
@given(segment_lists(), st.data())
@IN_ONE_FOLDER
def test_a_file_that_is_cut_off_or_changed_is_refused_or_says_the_same(
    tmp_path: Path, segments: tuple[Segment, ...], data: st.DataObject
) -> None:
    image = image_of(segments)
    whole = data.draw(st.sampled_from([elf32(segments), image.as_hex(), image.as_uf2(RP2350_ARM)]))
    path = tmp_path / "cut"
    path.write_bytes(whole[: data.draw(st.integers(0, len(whole) - 2))])
    with pytest.raises(FormatError, match="cut"):
        read_image(path)


def test_a_line_that_ends_after_its_colon_is_no_record(tmp_path: Path) -> None:
    (tmp_path / "cut.hex").write_bytes(b":020000040001F9\n:0100000000FF\n:")
    with pytest.raises(FormatError, match="line 3"):
        read_image(tmp_path / "cut.hex")


@given(segment_lists(), st.data())
@IN_ONE_FOLDER
def test_a_changed_digit_of_a_hex_file_is_noticed(
    tmp_path: Path, segments: tuple[Segment, ...], data: st.DataObject
) -> None:
    text = bytearray(image_of(segments).as_hex())
    places = [place for place, char in enumerate(text) if char not in b":\n"]
    place = data.draw(st.sampled_from(places))
    text[place] = data.draw(st.sampled_from([c for c in b"0123456789ABCDEF" if c != text[place]]))
    path = tmp_path / "changed.hex"
    path.write_bytes(text)
    with pytest.raises(FormatError, match=r"changed\.hex"):
        read_image(path)


@given(segment_lists(), st.text("0123456789abcdef-._ +", min_size=1, max_size=40))
@IN_ONE_FOLDER
def test_the_build_id_is_found_in_every_format(
    tmp_path: Path, segments: tuple[Segment, ...], build_id: str
) -> None:
    banner = f"etdump stub {build_id} on \0".encode()
    first = segments[0]
    image = image_of((Segment(first.address, first.data[:-1] + b"\0" + banner),))
    for name, data in (("i.hex", image.as_hex()), ("i.bin", image.as_bin())):
        (tmp_path / name).write_bytes(data)
        assert read_image(tmp_path / name).build_id() == build_id
    assert image_of((Segment(0, b"no firmware of ours"),)).build_id() is None


def test_what_is_no_image_is_refused_with_the_reason(tmp_path: Path) -> None:
    good = image_of((Segment(0x1000, bytes(300)),))
    wide = bytearray(elf32((Segment(0x1000, b"code"),)))
    wide[5] = 2
    uf2 = bytearray(good.as_uf2(RP2350_ARM))
    uf2[600] ^= 1  # the second block's header
    uf2[512] ^= 1
    twice = b":0100000000FF\n:0100000000FF\n:00000001FF\n"
    for name, data, said in (
        ("big-endian", bytes(wide), "not little-endian"),
        ("block", bytes(uf2), "not a UF2 block"),
        ("twice.hex", twice, "overlapping data at 0x0"),
        ("nothing.bin", b"", "contains nothing"),
        ("letter.txt", b"Dear board,", "is not an ELF, Intel HEX or UF2 file"),
        ("words.hex", b":00000001FF0\n", "line 1 is not a HEX record"),
    ):
        (tmp_path / name).write_bytes(data)
        with pytest.raises(FormatError, match=said) as caught:
            read_image(tmp_path / name)
        assert name in caught.value.message
    with pytest.raises(UsageError, match="cannot read the image"):
        read_image(tmp_path)


def test_64_bit_files_and_both_kinds_of_addresses_in_hex_are_read(tmp_path: Path) -> None:
    program = struct.pack("<IIQQQQQQ", 1, 5, 120, 0x9000, 0x8000_0000, 4, 8, 1)
    header = b"\x7fELF\x02\x01\x01" + bytes(9)
    header += struct.pack("<HHIQQQIHHHHHH", 2, 243, 1, 0, 64, 0, 0, 64, 56, 1, 64, 0, 0)
    (tmp_path / "wide").write_bytes(header + program + b"code")
    assert read_image(tmp_path / "wide").segments == (Segment(0x8000_0000, b"code"),)
    lines = [":020000021000EC", ":0100100041AE", ":020000040001F9", ":01002000429D", ":00000001FF"]
    text = "\r\n".join(lines).encode()
    (tmp_path / "both.hex").write_bytes(text)
    assert read_image(tmp_path / "both.hex").segments == (
        Segment(0x10010, b"A"),
        Segment(0x10020, b"B"),
    )


def test_an_image_of_several_firmwares_is_refused() -> None:
    banners = b"etdump stub one on \0 etdump stub two on \0"
    with pytest.raises(UsageError, match="'one', 'two'"):
        image_of((Segment(0, banners),)).build_id()


def test_pieces_in_flash_and_ram_make_no_flat_image() -> None:
    apart = image_of((Segment(0x0800_0000, b"a"), Segment(0x2000_0000, b"b")))
    with pytest.raises(UsageError, match="cannot be a flat image"):
        apart.as_bin()
