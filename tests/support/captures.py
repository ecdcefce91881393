"""What a console records when ExecuTorch's Arm runner prints its dumps."""

from __future__ import annotations

import base64
from collections.abc import Callable, Sequence


def printed(dump: bytes, debug_buffer: bytes | None = None) -> list[bytes]:
    """The lines that the runner prints for one dump."""
    lines = [b"I [executorch:runner] 1 inferences finished", b"#[RUN THIS]"]
    flag = b""
    if debug_buffer is not None:
        lines += [b"# Writing debug_buffer.bin [base64]", command(debug_buffer, "debug_buffer.bin")]
        flag = b"--debug_buffer_path debug_buffer.bin "
    lines += [b"# Writing etdump.bin [base64]", command(dump, "etdump.bin")]
    cli = b"python3 -m devtools.inspector.inspector_cli --etdump_path etdump.bin "
    return [*lines, b"# Generate cpu cycle table with:", cli + flag, b"#[END]"]


def command(data: bytes, file: str) -> bytes:
    return b'echo "%s" | base64 -d >%s' % (base64.b64encode(data), file.encode())


def recorded(
    lines: Sequence[bytes],
    *,
    prefix: Callable[[int], bytes] = lambda _number: b"",
    newline: bytes = b"\n",
    width: int | None = None,
) -> bytes:
    """What a terminal makes of lines: broken at its width, a prefix before each, line ends."""
    broken = [
        line[at : at + width] if width else line
        for line in lines
        for at in range(0, max(len(line), 1), width or max(len(line), 1))
    ]
    return b"".join(prefix(number) + line + newline for number, line in enumerate(broken))
