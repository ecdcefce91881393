"""Numbers of the link protocol. Generated from ``schema/link.toml`` by ``schema/generate.py``."""

from enum import IntEnum
from typing import Final

VERSION: Final = 0x1
"""Link protocol version, agreed in HELLO."""
HEADER_SIZE: Final = 0x4
"""Bytes before the body: marker, type, sequence number."""
CRC_SIZE: Final = 0x4
"""Bytes after the body: CRC-32 over header and body."""
MIN_MTU: Final = 0x100
"""Smallest frame payload a device may offer, and the most a host sends before HELLO."""
RESPONSE: Final = 0x80
"""Set in the type of a frame that answers a request."""
DIGEST_SIZE: Final = 0x20
"""Bytes of a SHA-256 digest."""
READ_QUEUE: Final = 0x4
"""READs that the device keeps waiting at most, the one under way included."""
BAUD_TRIAL_MS: Final = 0x3E8
"""After a change of rate, or when bytes come that are no frame: how long the device stays at a rate other than the first without hearing a good frame."""
SOH: Final = 0x1
"""First byte of every encoded frame; never part of console text."""


class Op(IntEnum):
    """Request types; the answer carries the same type with RESPONSE set."""

    HELLO = 0x1
    """Agree on a version, learn what the target is."""
    PING = 0x2
    """Read the tick counter, for clock alignment."""
    STATUS = 0x3
    """What the device is doing and what its link has seen."""
    RESET = 0x4
    """Drop the model, or reboot."""
    BAUD = 0x5
    """Change the rate of the line, once this is answered."""
    OPEN = 0x10
    """Announce the size of a region that will be written."""
    WRITE = 0x11
    """Put bytes into an open region."""
    COMMIT = 0x12
    """Compare the region's digest and take it into use."""
    RUN = 0x20
    """Load the method and execute it a number of times."""
    STAT = 0x30
    """Size and digest of a readable region."""
    READ = 0x31
    """Stream part of a region."""
    NOTE_PROGRESS = 0x40
    """Unasked: executions completed so far."""
    NOTE_DONE = 0x41
    """Unasked: the run ended, and how."""
    NOTE_STARTED = 0x42
    """Unasked: the firmware has started, and knows nothing of what was before."""
    NOTE_DAMAGED = 0x43
    """Unasked: a frame from the host arrived corrupt."""
    NOTE_LOG = 0x44
    """Unasked: part of a chunk of the log, sent while the run goes on."""


class RunFlag(IntEnum):
    """Flags of RUN."""

    STREAM = 0x1
    """Send the log in chunks while the run goes on."""


class Region(IntEnum):
    """What OPEN, WRITE, COMMIT, STAT and READ address."""

    MODEL = 0x1
    """The .pte file."""
    INPUT = 0x2
    """Bytes of input tensor number `index`."""
    OUTPUT = 0x3
    """Bytes of output tensor number `index`."""
    TRACE = 0x4
    """The trace of the last run: index 0 its compact log, or the ETDump of a runtime that makes one; index 1 the debug buffer that goes with it."""
    POSTMORTEM = 0x5
    """What has survived a reset (postmortem.toml); there until the next RUN."""


class State(IntEnum):
    """What the device is doing."""

    IDLE = 0x0
    """No model."""
    READY = 0x1
    """A model is loaded and checked."""
    RUNNING = 0x2
    """Executing."""
    DONE = 0x3
    """A run has ended; outputs and trace can be read."""


class Info(IntEnum):
    """Tags of the target information in the answer to HELLO: u8 tag, u8 length, value."""

    BOARD = 0x1
    """Text: board name."""
    CPU = 0x2
    """Text: CPU name."""
    BUILD_ID = 0x3
    """Text: identity of the firmware image."""
    CLOCK = 0x4
    """U8 bits, u8 down, u16 zero, u32 rate numerator (Hz), u32 rate denominator, text name; repeated, the position is the clock number in events."""
    MODEL_CAPACITY = 0x5
    """U32 bytes."""
    ARENA_CAPACITY = 0x6
    """U32 bytes for planned memory and method state together."""
    INPUT_CAPACITY = 0x7
    """U32 bytes that staged inputs may take."""
    TRACE_CAPACITY = 0x8
    """U32 bytes for the compact log."""
    PROBE_COST = 0x9
    """U32 ticks, u32 pairs: time that so many empty start/end pairs took at start-up."""
    OPERATORS = 0xA
    """U32 number of kernels linked in."""
    POSTMORTEM = 0xB
    """U8 condition (postmortem.toml): there is a region POSTMORTEM to read."""
    BAUDS = 0xC
    """U32 each: rates that BAUD takes, bits per second, the one after a reset first."""
    DEBUG_CAPACITY = 0xD
    """U32 bytes for the values of tensors."""


class Reset(IntEnum):
    """Kinds of RESET."""

    SESSION = 0x0
    """Forget model, inputs and trace."""
    REBOOT = 0x1
    """Restart the firmware after answering."""
    POSTMORTEM = 0x2
    """Forget what has survived a reset."""


class Status(IntEnum):
    """First byte of every answer, and the C runtime's result codes."""

    OK = 0x0
    """Done."""
    BAD_REQUEST = 0x1
    """Malformed body."""
    UNKNOWN_OP = 0x2
    """No such request; detail is its type."""
    WRONG_STATE = 0x3
    """Not possible in the present state."""
    TOO_LARGE = 0x4
    """Does not fit; detail is the capacity in bytes."""
    GAP = 0x5
    """Bytes are missing before this offset; detail is the offset expected."""
    DIGEST_MISMATCH = 0x6
    """The bytes received are not the bytes announced."""
    BAD_PROGRAM = 0x7
    """The .pte file is not valid; detail is the offset in the file."""
    UNSUPPORTED_OPERATOR = 0x8
    """No kernel for the operator named in the message; detail is the instruction."""
    UNSUPPORTED_FEATURE = 0x9
    """The program needs something this runtime has not; detail is where."""
    OUT_OF_MEMORY = 0xA
    """An arena is too small; detail is the bytes needed."""
    KERNEL_FAILED = 0xB
    """A kernel refused its arguments; detail is the instruction."""
    BAD_INPUT = 0xC
    """An input is missing or of the wrong size; detail is the size expected."""
    BAD_REGION = 0xD
    """No such region, index or range."""
    BAD_VERSION = 0xE
    """No common link version; detail is the device's version."""
    NO_METHOD = 0xF
    """The program has no method of the name asked for; detail is how many it has."""


class DebugLevel(IntEnum):
    """Which values RUN logs, as ExecuTorch numbers it."""

    NO_LOGGING = 0x0
    """None."""
    PROGRAM_OUTPUTS = 0x1
    """What the method returns."""
    INTERMEDIATE_OUTPUTS = 0x2
    """What every instruction computes, too."""


class ProfilingLevel(IntEnum):
    """Which events RUN logs, as ExecuTorch numbers it."""

    METHOD_ONLY = 0x0
    """Scopes around a whole method."""
    ALL_EVENTS = 0x1
    """What happens within instructions, too."""


class WhenFull(IntEnum):
    """What RUN does when the log is full."""

    STOP = 0x0
    """Log nothing more, and count."""
    DROP_OLDEST_RUNS = 0x1
    """Give up the oldest executions, whole, and count them."""
