"""What accidents leave of a file."""

from __future__ import annotations

from hypothesis import strategies as st


@st.composite
def damaged(draw: st.DrawFn, whole: bytes | st.SearchStrategy[bytes], *, most: int = 4) -> bytes:
    """A file after a few accidents: bits flip, bytes are overwritten, lost, inserted, cut off.

    Now and then nothing has changed.

    Args:
        draw: Given by Hypothesis.
        whole: The file, of two bytes at least, or a strategy for it.
        most: Accidents at most; there is at least one.
    """
    whole = whole if isinstance(whole, bytes) else draw(whole)
    left = bytearray(whole)
    for _ in range(draw(st.integers(1, most))):
        at = draw(st.integers(1, len(left) - 1))
        match draw(st.sampled_from(["flip", "set", "drop", "cut", "splice"])):
            case "flip":
                left[at] ^= 1 << draw(st.integers(0, 7))
            case "set":
                left[at] = draw(st.sampled_from([0, 1, 4, 0x7F, 0x80, 0xFF]))
            case "drop" if len(left) > 20:
                del left[at : min(at + draw(st.integers(1, 9)), len(left) - 1)]
            case "cut":
                del left[max(at, 2) :]
            case "splice":
                begin = draw(st.integers(0, len(whole) - 1))
                left[at:at] = whole[begin : begin + draw(st.integers(1, 300))]
    return bytes(left)
